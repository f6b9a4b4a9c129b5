"""Durations of the stages from a function to machine code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.cost.compile_time import compile_time
from inspector.errors import Unavailable


def program(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) @ x


@pytest.mark.parametrize("products", [(), ("passes",)])
def test_the_parts_add_up_to_the_whole(products: tuple[str, ...]) -> None:
    lowered = inspector.lower(program, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    assert lowered.timings.keys() == {"trace_s", "lower_s"}
    compiled = lowered.compile(target="cpu", products=products)
    parts = compile_time(compiled, lowered.timings)
    known = [part.duration_s for part in parts if not isinstance(part.duration_s, Unavailable)]
    assert len(known) == len(parts)
    assert sum(known) == pytest.approx(compiled.timings["total_s"] + sum(lowered.timings.values()), rel=0.05)
    assert [part.where for part in parts][:2] == ["JAX", "JAX"]
    assert ("XLA's passes" in {part.where for part in parts}) == bool(products)


def test_a_trace_outside_inspector_has_no_duration() -> None:
    lowered = inspector.lower(inspector.lower(program, jax.ShapeDtypeStruct((8, 8), jnp.float32)).stablehlo)
    assert lowered.timings == {}
    first, *_ = compile_time(lowered.compile(target="cpu"), lowered.timings)
    assert isinstance(first.duration_s, Unavailable)
