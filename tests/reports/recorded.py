"""A small exploration, made without an Explorer."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import inspector
from inspector.api.exploration import Exploration
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.engines.inline import InlineEngine
from inspector.errors import CompilationError
from inspector.execution.outcome import Outcome
from inspector.reports.recorded_exploration import RecordedError, RecordedExploration, RecordedVariant

CPU = Target("attached")


def step(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
    with jax.named_scope("layer"):
        return jnp.tanh(x @ w["a"]).sum()


def scale(x: jax.Array) -> jax.Array:
    def scale_kernel(x_ref: jax.Array, o_ref: jax.Array) -> None:
        o_ref[...] = x_ref[...] * 2.0

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(scale_kernel, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=x)(x)


@functools.cache
def exploration() -> Exploration:
    """A baseline that was run, a variant with products, one that failed, and one for a TPU that was cancelled."""
    lowered = inspector.lower(step, jnp.ones((4, 8)), {"a": jnp.ones((8, 8))})
    engine, fast = InlineEngine(), Options(flags={"xla_cpu_enable_fast_math": True})
    compiled = lowered.compile(None, CPU, engine)
    recorded = lowered.compile(fast, CPU, "worker", products=("passes", "assembly", "buffers"))
    outcome = Outcome.of(compiled.run(jnp.ones((4, 8)), {"a": jnp.ones((8, 8))}, repeat=3, engine=engine))
    error = CompilationError("XLA refused it")
    error.buffers = b"\1\2"
    other = inspector.lower(step, jnp.ones((4, 8)), {"a": jnp.ones((8, 8))}, target="tpu:v5e:1x1")
    variants = (
        RecordedVariant("baseline", Options(), CPU, "done", lowered=lowered, program=compiled, outcome=outcome),
        RecordedVariant("fast", fast, CPU, "done", lowered=lowered, program=recorded, is_pinned=True),
        RecordedVariant("bad", Options(), Target("cpu:2"), "failed", lowered=lowered, failure=RecordedError.of(error)),
        RecordedVariant("tpu", Options(), Target("tpu:v5e:1x1"), "cancelled", lowered=other),
    )
    return Exploration.of(RecordedExploration.now(lowered, variants))


@functools.cache
def of_kernel() -> Exploration:
    """A Pallas kernel for a TPU, tuned, of which nothing was compiled."""
    target = Target("tpu:v5e:1x1")
    lowered = inspector.lower(scale, jax.ShapeDtypeStruct((32, 128), np.float32), target=target)
    tuning = Tuning.of({"scale_kernel": {"vmem_limit_bytes": 1 << 20, "dimension_semantics": ["parallel"]}}, chip="v5e")
    variant = RecordedVariant("baseline", Options(), target, "cancelled", tuning, lowered)
    return Exploration.of(RecordedExploration.now(lowered, (variant,)))
