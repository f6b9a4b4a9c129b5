"""Trip counts, of loops as XLA leaves them and of small ones by hand."""

from __future__ import annotations

import gzip
import operator
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


def test_the_trip_count_of_xla_takes_precedence() -> None:
    assert count(limit=10, noted=', backend_config={"known_trip_count":{"n":"42"}}') == 42


COMPARISONS = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "NE": operator.ne, "EQ": operator.eq,
}  # fmt: skip


@pytest.mark.parametrize("direction", COMPARISONS)
@pytest.mark.parametrize("step", [1, 2, 3, -1, -4])
def test_a_counter_runs_as_often_as_it_would(direction: str, step: int) -> None:
    for start, limit in ((0, 10), (3, 3), (12, 0), (-5, 7), (4, 6)):
        value, rounds = start, 0
        while COMPARISONS[direction](value, limit) and rounds < 1000:
            value, rounds = value + step, rounds + 1
        found = count(limit=limit, direction=direction, step=step, start=start)
        assert found == rounds if rounds < 1000 else isinstance(found, Unavailable), (start, limit)


def test_a_start_known_only_at_run_time_leaves_a_loop_unknown() -> None:
    assert count(first="n") == Unavailable("the trip count of loop is known only at run time")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (("compare(counter, limit), direction=LT", "compare(limit, counter), direction=GT"), 10),
        (("add(step, kept)", "subtract(kept, step)"), None),
        (("add(step, kept)", "multiply(step, kept)"), None),
    ],
)
def test_a_counter_is_recognized_by_its_computation(edit: tuple[str, str], expected: int | None) -> None:
    text = LOOP.format(limit=10, direction="LT", step=1, start=0, first="zero", noted="").replace(*edit)
    found = trip_count(loop_in(Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())))
    assert found == expected if expected is not None else isinstance(found, Unavailable)


CARRIED = """HloModule m

condition {
  c = (s32[], s32[], s32[]) parameter(0)
  counter = s32[] get-tuple-element(c), index=0
  limit = s32[] get-tuple-element(c), index=1
  ROOT less = pred[] compare(counter, limit), direction=LT
}

body {
  b = (s32[], s32[], s32[]) parameter(0)
  counter.1 = s32[] get-tuple-element(b), index=0
  limit.1 = s32[] get-tuple-element(b), index=1
  step = s32[] get-tuple-element(b), index=2
  grown = s32[] add(counter.1, step)
  ROOT next = (s32[], s32[], s32[]) tuple(grown, %s, step)
}

ENTRY main {
  zero = s32[] constant(0)
  limit.2 = s32[] constant(12)
  step.1 = s32[] constant(4)
  initial = (s32[], s32[], s32[]) tuple(zero, limit.2, step.1)
  ROOT loop = (s32[], s32[], s32[]) while(initial), condition=condition, body=body
}
"""


def test_bounds_that_a_loop_carries_unchanged_are_constants() -> None:
    """As a TPU's compiler hoists them."""
    for carried, expected in (("limit.1", True), ("grown", False)):
        module = _hlo.hlo_module_from_text(CARRIED % carried)
        found = trip_count(loop_in(Module.from_proto(module.as_serialized_hlo_module_proto())))
        assert found == 3 if expected else isinstance(found, Unavailable)
