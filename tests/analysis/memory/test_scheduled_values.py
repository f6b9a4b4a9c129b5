"""Live ranges of scheduled modules without a buffer assignment: by hand, and against XLA's own assignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from inspector.analysis.memory.arrays import leaves
from inspector.analysis.memory.live_ranges import Life
from inspector.analysis.memory.timeline import Timeline
from inspector.api.opened_program import OpenedProgram
from inspector.errors import Unavailable
from inspector.hlo.shape import Shape
from inspector.lowering.lower import lower

KIB = 1024
SCHEDULED = """HloModule m, is_scheduled=true, input_output_alias={ {1}: (1, {}, may-alias) }

condition {
  state = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  most = s32[] constant(3)
  ROOT less = pred[] compare(i, most), direction=LT
}

body {
  state = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[256] get-tuple-element(state), index=1
  y = f32[256] exponential(x)
  z = f32[256] negate(y)
  ROOT new = (s32[], f32[256]) tuple(next, z)
}

ENTRY main {
  p = f32[256] parameter(0)
  q = f32[256] parameter(1)
  large = f32[1024] concatenate(p, q, p, q), dimensions={0}
  half = f32[512] slice(large), slice={[0:512]}
  quarter = f32[256] slice(half), slice={[0:256]}
  zero = s32[] constant(0)
  start = (s32[], f32[256]) tuple(zero, quarter)
  loop = (s32[], f32[256]) while(start), condition=condition, body=body
  last = f32[256] get-tuple-element(loop), index=1
  sum = f32[256] add(last, q)
  ROOT both = (f32[256], f32[256]) tuple(last, sum)
}
"""


def opened(hlo: str) -> Timeline:
    timeline = OpenedProgram.of(hlo, target="cpu").timeline()
    assert not isinstance(timeline, Unavailable)
    return timeline


def life(timeline: Timeline, value: str) -> Life:
    (found,) = [each for each in timeline.lives if each.value == value]
    return found


def test_values_live_from_their_instruction_to_their_last_use() -> None:
    timeline = opened(SCHEDULED)
    at = timeline.schedule.index
    large, half = life(timeline, "large"), life(timeline, "half")
    assert (large.byte_size, large.start, large.end) == (4 * KIB, at("large"), at("half"))
    assert (half.byte_size, half.start, half.end) == (2 * KIB, at("half"), at("quarter"))
    inner = life(timeline, "y")
    assert (inner.start, inner.end, inner.kind) == (at("y"), at("z"), "temporary")
    assert at("z") < at("loop")


def test_a_loop_carries_its_values_in_one_buffer() -> None:
    timeline = opened(SCHEDULED)
    carried = life(timeline, "quarter")  # then the loop's value and the first result
    assert (carried.kind, carried.start, carried.end) == ("output", 0, len(timeline.schedule) - 1)
    assert not {"loop{1}", "z", "last", "x", "start{1}"} & {each.value for each in timeline.lives}


def test_arguments_outputs_and_the_peak_add_up() -> None:
    timeline = opened(SCHEDULED)
    memory = timeline.spaces["RAM"]
    assert (memory.argument_bytes, memory.output_bytes, memory.alias_bytes) == (2 * KIB, 2 * KIB, KIB)
    assert life(timeline, "q").kind == "donated"
    assert (memory.live_bytes, memory.temp_bytes, memory.peak_instruction) == (6 * KIB, 6 * KIB, "half")
    assert sum(each.byte_size for each in timeline.alive("RAM") if each.kind == "temporary") == 6 * KIB
    assert max(live for _, live in timeline.curves["RAM"]) == 6 * KIB


def test_the_timeline_states_that_it_is_estimated() -> None:
    timeline = opened(SCHEDULED)
    assert timeline.is_estimated
    assert "estimated from the schedule" in repr(timeline)
    assert next(iter(timeline.table()["instruction"])) == "large"
    plain = OpenedProgram.of(SCHEDULED.replace("is_scheduled=true, ", ""), target="cpu").timeline()
    assert isinstance(plain, Unavailable)


def test_leaves_have_the_indices_of_nested_tuples() -> None:
    array = Shape("f32", (2,))
    nested = Shape("tuple", tuple_shapes=(array, Shape("tuple", tuple_shapes=(array, array))))
    assert [index for index, _ in leaves(nested)] == [(0,), (1, 0), (1, 1)]


def scan(w: Any, x: Any) -> Any:
    return jax.lax.scan(lambda y, each: (jnp.tanh(y @ each), None), x, w)[0].sum()


def branches(n: Any, x: Any) -> Any:
    return jax.lax.switch(n, [lambda y: jnp.sin(y).T @ y, lambda y: y @ y, lambda y: y * 2], x)


F32 = jnp.float32
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...], tuple[int, ...]]] = {
    "scan": (jax.grad(scan), (jax.ShapeDtypeStruct((3, 16, 16), F32), jax.ShapeDtypeStruct((4, 16), F32)), ()),
    "switch": (branches, (jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((32, 32), F32)), ()),
    "donated": (lambda w, g: (w - 0.1 * g @ g, g.sum()), (jax.ShapeDtypeStruct((64, 64), F32),) * 2, (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_equal_those_of_the_buffer_assignment(name: str) -> None:
    fun, args, donated = PROGRAMS[name]
    compiled = lower(fun, *args, donate_argnums=donated, platform="cpu").compile(target="cpu", products=("buffers",))
    exact = compiled.timeline()
    assert not isinstance(exact, Unavailable)
    ours, xla = opened(compiled.hlo).spaces["RAM"], exact.spaces["RAM"]
    pointers = 8 * len(compiled.program.results) if len(compiled.program.results) > 1 else 0  # the result's tuple
    assert opened(compiled.hlo).schedule == exact.schedule
    assert ours.argument_bytes == xla.argument_bytes
    assert ours.output_bytes + pointers == xla.output_bytes
    assert (ours.alias_bytes, ours.constant_bytes) == (xla.alias_bytes, xla.constant_bytes)
    assert xla.live_bytes <= ours.live_bytes <= 1.5 * xla.live_bytes + 1024
