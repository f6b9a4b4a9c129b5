"""Trip counts, of loops as XLA leaves them and of small ones by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from jaxlib import _hlo

from inspector.errors import Unavailable
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction, Module

HEAPS = Path(__file__).parent / "data" / "heaps"


def loop_in(module: Module) -> Instruction:
    (loop,) = (i for i in module.instructions() if i.opcode == "while")
    return loop


@pytest.mark.parametrize("name", ["v5e_scan.0.10", "v5e_scan.0.12"])
def test_a_scan_of_seven_as_a_tpu_compiles_it(name: str) -> None:
    module = Module.from_proto(gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()))
    assert trip_count(loop_in(module)) == 7


LOOP = """HloModule m

condition {{
  c = (s32[], f32[4]{{0}}) parameter(0)
  counter = s32[] get-tuple-element(c), index=0
  limit = s32[] constant({limit})
  ROOT less = pred[] compare(counter, limit), direction={direction}
}}

body {{
  b = (s32[], f32[4]{{0}}) parameter(0)
  counter.1 = s32[] get-tuple-element(b), index=0
  kept = s32[] copy(counter.1)
  step = s32[] constant({step})
  grown = s32[] add(step, kept)
  value = f32[4]{{0}} get-tuple-element(b), index=1
  ROOT next = (s32[], f32[4]{{0}}) tuple(grown, value)
}}

ENTRY main {{
  x = f32[4]{{0}} parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant({start})
  initial = (s32[], f32[4]{{0}}) tuple({first}, x)
  ROOT loop = (s32[], f32[4]{{0}}) while(initial), condition=condition, body=body{noted}
}}
"""


def count(
    limit: int = 10, direction: str = "LT", step: int = 1, start: int = 0, first: str = "zero", noted: str = ""
) -> int | Unavailable:
    text = LOOP.format(limit=limit, direction=direction, step=step, start=start, first=first, noted=noted)
    module = _hlo.hlo_module_from_text(text)
    return trip_count(loop_in(Module.from_proto(module.as_serialized_hlo_module_proto())))


def test_a_counter_with_constant_bounds() -> None:
    assert count() == 10
    assert count(start=3) == 7
    assert count(start=12) == 0


def test_what_xla_noted_goes_first() -> None:
    assert count(limit=10, noted=', backend_config={"known_trip_count":{"n":"42"}}') == 42


@pytest.mark.parametrize("changes", [{"direction": "LE"}, {"step": 2}, {"first": "n"}])
def test_other_loops_are_unknown(changes: dict[str, object]) -> None:
    assert count(**changes) == Unavailable("how often loop runs its body is not known before it runs")  # type: ignore[arg-type]
