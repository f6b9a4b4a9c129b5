"""The work of findings grows with the size of a program, not with its square."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled

MESH = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))
WHOLE = P()
MOST = 2.3  # times the work for twice the layers


def step(layers: Any, momentum: Any, x: Any) -> Any:
    def loss(layers: Any) -> Any:
        y = x
        for w, b in layers:
            y = jnp.tanh(y @ w + b)
        return jnp.mean(y**2)

    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, jax.grad(loss)(layers))
    return jax.tree.map(lambda p, m: p - 0.1 * m, layers, momentum), momentum


@functools.cache
def compiled(count: int, target: str) -> Compiled:
    def array(*shape: int, spec: P = WHOLE) -> Any:
        sharding = NamedSharding(MESH, spec) if target == "cpu:8" else None
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    layers = [(array(64, 64, spec=P("data")), array(64)) for _ in range(count)]
    return inspector.lower(step, layers, layers, array(32, 64, spec=P("data")), target=target).compile(target=target)


def lines_run(do: Callable[[], object]) -> int:
    """Counts the calls and lines of Python that a function runs, including each turn of a comprehension."""
    count = 0

    def trace(*_: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("target", ["cpu:1", pytest.param("cpu:8", marks=pytest.mark.slow)])
def test_twice_the_layers_take_twice_the_work(target: str) -> None:
    peak = peak_of(Target.parse("gpu:h100:8"))
    assert isinstance(peak, Peak)
    small, large = compiled(12, target), compiled(24, target)
    modules = [each.module() for each in (small, large)]  # as long as they are there, their rooflines are remembered
    rows = [len(module.columns) for module in modules]
    assert rows[1] == pytest.approx(2 * rows[0], rel=0.1)
    for each in (small, large):
        each.roofline(peak)
    small_work, large_work = (lines_run(lambda each=each: each.findings(peak)) for each in (small, large))  # type: ignore[misc]
    assert large_work < MOST * small_work
