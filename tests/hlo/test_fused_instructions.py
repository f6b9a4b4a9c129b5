"""Instructions found by the fusions that hold them."""

from __future__ import annotations

import pytest

from inspector.hlo.fused_instructions import Fused
from tests.modules import module_of

MODULE = module_of("""HloModule nested

leaf {
  p = f32[8]{0} parameter(0)
  ROOT sine.1 = f32[8]{0} sine(p)
}

inner {
  p.1 = f32[8]{0} parameter(0)
  sine.2 = f32[8]{0} sine(p.1)
  f.1 = f32[8]{0} fusion(p.1), kind=kLoop, calls=leaf
  sine.3 = f32[8]{0} sine(f.1)
  ROOT a.1 = f32[8]{0} add(sine.2, sine.3)
}

called {
  p.2 = f32[8]{0} parameter(0)
  ROOT sine.4 = f32[8]{0} sine(p.2)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  f.2 = f32[8]{0} fusion(x), kind=kLoop, calls=inner
  c = f32[8]{0} call(f.2), to_apply=called
  ROOT sine.5 = f32[8]{0} sine(c)
}
""")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("f.1", ["sine.1"]),
        ("f.2", ["sine.2", "sine.3", "sine.1"]),
        ("sine.5", ["sine.5"]),
        ("c", []),
        ("x", []),
    ],
)
def test_instructions_and_those_fused_into_them(of: str, expected: list[str]) -> None:
    sines = Fused(MODULE, [i.row for i in MODULE.instructions() if i.opcode == "sine"])
    assert [i.name for i in sines.of(MODULE.instruction(of))] == expected
    assert [i.name for i in sines.instructions] == ["sine.1", "sine.2", "sine.3", "sine.4", "sine.5"]
    assert not [*Fused(MODULE, []).of(MODULE.instruction(of))]


def test_fusions_themselves_may_be_looked_for() -> None:
    fusions = Fused(MODULE, [i.row for i in MODULE.instructions() if i.opcode == "fusion"])
    assert [i.name for i in fusions.of(MODULE.instruction("f.2"))] == ["f.2"]
