"""First writes to new pages by hand."""

from __future__ import annotations

import pytest

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.first_writes import first_writes
from inspector.analysis.cost.kernel_time import KernelTimes
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.platforms import CacheLevel, Peak, Rate
from tests.modules import module_of

NONE = Unavailable("none")
MIB = 1 << 20
TEXT = """HloModule m, is_scheduled=true
double { a = f32[SIZE]{0} parameter(0)
  ROOT d = f32[SIZE]{0} add(a, a) }
ENTRY e { x = f32[SIZE]{0} parameter(0)
  first = f32[SIZE]{0} sine(x)
  over = f32[SIZE]{0} fusion(first), kind=kLoop, calls=double
  view = f32[2,HALF]{1,0} bitcast(over)
  small = f32[16]{0} slice(x), slice={[0:16]}
  second = f32[2,HALF]{1,0} cosine(view)
  third = f32[2,HALF]{1,0} sine(second)
  ROOT out = f32[2,HALF]{1,0} cosine(third) }
"""


def text(mib: float) -> str:
    count = int(mib * MIB) // 4
    return TEXT.replace("SIZE", str(count)).replace("HALF", str(count // 2))


def test_values_reuse_memory_and_outputs_have_their_own() -> None:
    module = module_of(text(12))
    found = {module.at(row).name: size / MIB for row, size in first_writes(module).items()}
    assert found == {
        "first": 12,
        "second": 12,
        "out": 12,
    }  # `over` overwrites `first`, `third` has the memory of `view`


@pytest.mark.parametrize(("mib", "is_new"), [(10.6, False), (10.7, True)])
def test_less_than_32_mib_are_reused_by_later_executions(mib: float, is_new: bool) -> None:
    assert bool(first_writes(module_of(text(mib)))) is is_new


def test_all_units_wait_for_new_pages() -> None:
    module = module_of(text(12))
    costs = {i.name: InstructionCost(1000.0, 0.0, 400.0, 400.0) for i in module.instructions()}
    peak = Peak(
        "cpu", {"f32": 1000.0}, 10.0, NONE, NONE, NONE, "measured", vector=Rate(500.0, "vector"), vmem=NONE,
        caches=(CacheLevel(1 << 40, 100.0),), strided=Rate(1.0, "strided"), first_writes=Rate(MIB, "pages"),
    )  # fmt: skip
    times = KernelTimes(module, products(module), costs, peak)
    known = {name: times.of(module.instruction(name)) for name in ("first", "over", "second", "third")}
    assert {name: time.seconds for name, time in known.items()} == {"first": 16, "over": 4, "second": 16, "third": 4}
    assert (known["first"].compute_s, known["first"].memory_s, known["first"].unit) == (14, 16, "cache")


def test_outputs_in_donated_memory_are_not_new() -> None:
    alias = "is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }"
    module = module_of(text(17).replace("is_scheduled=true", alias, 1))
    assert {module.at(row).name for row in first_writes(module)} == {"first", "second"}
