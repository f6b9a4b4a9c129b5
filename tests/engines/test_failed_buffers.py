"""Buffers of a program that does not fit into memory."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector._jax.compiling.final_hlo import joined_hlo_proto, split_hlo_proto
from inspector.analysis.memory.tpu_errors import MemoryOverflow
from inspector.compilation.engine import Job
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.request import CompileRequest
from inspector.engines.assemble import Shower
from inspector.engines.inline import InlineEngine
from inspector.engines.workers import messages
from inspector.errors import CompilationError, Unavailable
from inspector.hlo.allocation_totals import assigned_bytes
from inspector.stages.lowered import timeline_until
from tests.absent import needs_tpu

GIB = 1 << 30


@pytest.fixture(scope="module")
def recorded() -> Buffers:
    lowered = inspector.lower(lambda x: jnp.tanh(x @ x).sum(0) @ x, jnp.ones((64, 64)))
    buffers = lowered.compile(engine=InlineEngine(), products=("buffers",)).buffers
    assert isinstance(buffers, Buffers)
    return buffers


def failed(recorded: Buffers, *, is_told: bool) -> CompilationError:
    """An error as in a worker's reply, whose compile had dumped its final HLO."""
    lowered = inspector.lower(lambda x: jnp.tanh(x @ x).sum(0) @ x, jnp.ones((64, 64)))
    show = Shower(Job(), CompileRequest(lowered.program, None, "cpu"), "worker")  # type: ignore[arg-type]  # no options
    module, assignment = split_hlo_proto(recorded.hlo_proto)
    if is_told:
        show.hear({"preview": True, "devices": ["cpu 0"]}, [b"HloModule m", module, assignment])
    error = messages.read_error({"type": "CompilationError", "text": "RESOURCE_EXHAUSTED: no room"})
    assert isinstance(error, CompilationError)
    show.failed(error)
    return error


def test_a_split_proto_is_joined_again(recorded: Buffers) -> None:
    parts = split_hlo_proto(recorded.hlo_proto)
    assert split_hlo_proto(joined_hlo_proto(*parts)) == parts
    assert split_hlo_proto(joined_hlo_proto(b"", b"x" * 300)) == (b"", b"x" * 300)


def test_an_error_includes_the_early_report(recorded: Buffers) -> None:
    error = pickle.loads(pickle.dumps(failed(recorded, is_told=True)))
    kept = Buffers.from_bytes(error.buffers)
    assert list(assigned_bytes(kept.assignment)) == list(assigned_bytes(recorded.assignment))


def test_without_an_early_report_the_error_has_no_buffers(recorded: Buffers) -> None:
    error = failed(recorded, is_told=False)
    assert error.buffers == b""
    lowered = inspector.lower(lambda x: x, jnp.ones(2))
    found = timeline_until(lowered, error, inspector.Target("cpu"))
    assert isinstance(found, Unavailable)
    assert "before it had assigned" in found.reason


def stacked(x: Any) -> Any:
    """Keeps what a hundred steps make for their backward pass."""
    _, kept = jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ carry), carry), x, None, length=100)
    return jnp.sum(kept**2)


@needs_tpu
@pytest.mark.parametrize(
    ("fun", "shape", "largest"),
    [(lambda x: x + 1, (1 << 33,), 32 * GIB), (jax.grad(stacked), (8192, 8192), 25 * GIB)],
)
def test_buffers_of_a_program_that_does_not_fit_in_memory(fun: Any, shape: tuple[int, ...], largest: int) -> None:
    target = "tpu:v5e:1x1"
    lowered = inspector.lower(fun, jax.ShapeDtypeStruct(shape, "float32"), platform="tpu")
    with pytest.raises(CompilationError, match="RESOURCE_EXHAUSTED") as raised:
        lowered.compile(target=target)
    found = lowered.explain(raised.value, target)
    assert isinstance(found, MemoryOverflow)
    assert (found.space, found.limit_bytes) == ("hbm", round(15.75 * GIB))
    timeline = found.timeline
    assert not isinstance(timeline, Unavailable)
    space = timeline.spaces["HBM"]
    assert space.allocated_bytes == pytest.approx(found.asked_bytes, rel=0.002)  # it says GiB with two digits
    assert timeline.alive("HBM")[0].byte_size == largest
    preview = lowered.preview(target=target)
    assert not isinstance(preview.memory, Unavailable)
    assert preview.memory.spaces["HBM"].allocated_bytes == space.allocated_bytes
    assert "Largest buffers at the peak: " in found.advice[1]
    assert (len(found.advice) == 3) == (space.argument_bytes + space.output_bytes > found.limit_bytes)


@needs_tpu
def test_an_error_that_only_has_words_has_no_buffers() -> None:
    lowered = inspector.lower(lambda x: x + 1, jax.ShapeDtypeStruct((1 << 33,), "float32"), platform="tpu")
    with pytest.raises(CompilationError) as raised:
        lowered.compile(target="tpu:v5e:1x1")
    found = lowered.explain(str(raised.value), "tpu:v5e:1x1")
    assert isinstance(found, MemoryOverflow)
    assert isinstance(found.timeline, Unavailable)
    assert found.advice == ()
