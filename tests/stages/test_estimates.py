"""Estimated times, against the rooflines of the same programs."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pandas as pd
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.compilation.preview import Preview
from inspector.compilation.target import Target
from inspector.errors import About, Missing, ParameterError, Partial, Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.stages.estimates import Estimate, compare, estimate
from tests.absent import needs_tpu

ROOFS = Peak("mine", {"f32": 1e11}, 1e10, 1 << 30, Unavailable("none"), Unavailable("none"), "made up for this test")


def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


@pytest.fixture(scope="module")
def on_tpu() -> Compiled:
    mesh = AbstractMesh((4,), ("d",))
    x = jax.ShapeDtypeStruct((512, 1024), jnp.bfloat16, sharding=NamedSharding(mesh, P("d", None)))
    w = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16, sharding=NamedSharding(mesh, P("d", None)))
    return inspector.lower(product, x, w, target="tpu:v5e:2x2").compile(target="tpu:v5e:2x2")


@pytest.fixture(scope="module")
def on_cpu() -> Compiled:
    x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    return inspector.lower(product, x, x).compile(target="cpu")


@needs_tpu
def test_an_estimate_is_the_total_of_the_roofline(on_tpu: Compiled) -> None:
    total = on_tpu.roofline().total
    known = estimate(on_tpu)
    assert not isinstance(known.estimated_s, Unavailable)
    assert known.estimated_s == total.least_s > 0
    assert known.exposed_s == total.exposed_s
    assert float(known.exposed_s) > 0  # type: ignore[arg-type]


@needs_tpu
def test_a_preview_has_the_estimate_of_its_program(on_tpu: Compiled) -> None:
    assert estimate(Preview.of(on_tpu, 0.1)) == estimate(on_tpu)


def test_a_cpu_has_an_estimate_for_the_roofs_that_are_passed(on_cpu: Compiled) -> None:
    unknown = estimate(on_cpu).estimated_s
    if isinstance(unknown, Unavailable):
        assert "CPU" in unknown.reason
    assert estimate(on_cpu, ROOFS).estimated_s == on_cpu.roofline(ROOFS).total.least_s


def test_differences_of_partly_known_estimates_name_the_unknown_parts() -> None:
    lost = Missing("call", "custom call")
    change = Estimate(About(3e-6, [lost]), 1e-6).minus(Estimate(1e-6, Unavailable("no links")))
    assert isinstance(change.estimated_s, Partial)
    assert float(change.estimated_s) == pytest.approx(2e-6)
    assert "custom call" in change.estimated_s.reason
    assert change.exposed_s == Unavailable("no links")


@needs_tpu
def test_comparisons_begin_with_estimated_times(on_tpu: Compiled, on_cpu: Compiled) -> None:
    table = compare(on_tpu, on_cpu, names=["tpu", "cpu"], peak=ROOFS)
    assert list(table.index[:3]) == ["estimated_s", "exposed_s", "peak_bytes"]
    assert table["cpu"]["estimated_s"] == on_cpu.roofline(ROOFS).total.least_s
    assert table["delta cpu"]["peak_bytes"] == table["cpu"]["peak_bytes"] - table["tpu"]["peak_bytes"]
    assert inspector.compare is compare


def test_what_is_not_compiled_is_not_compared() -> None:
    with pytest.raises(ParameterError, match=r"compare\(\) takes one or more Compiled, got none"):
        compare()


def test_programs_are_compared_by_measured_time_where_they_can_run() -> None:
    def loop(length: int) -> Any:
        return lambda x: jax.lax.fori_loop(0, length, lambda _, c: jnp.tanh(c @ c), x)

    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    short, long = (inspector.lower(loop(n), x).compile(target="cpu:1") for n in (2, 4000))
    absent = inspector.lower(loop(2), x).compile(target="cpu:1")
    absent = dataclasses.replace(absent, target=Target.parse("tpu:v5e:1x1"))
    table = inspector.compare(
        short, long, absent, short, names=("short", "long", "absent", "same"), measure=True, repeat=6
    )
    assert table.loc["measured_s", "long"] > 5 * table.loc["measured_s", "short"] > 0
    assert table.loc["measured_s", "delta long"] > 0
    assert pd.isna(table.loc["measured_s", "absent"])
    assert "tpu:v5e:1x1 is not attached" in table.loc["measured_s", "unknown"]
    assert table.loc["measured_s", "same"] == table.loc["measured_s", "short"]
    assert "measured_s" not in inspector.compare(short, long).index
    with pytest.raises(ParameterError, match="at least 6"):
        inspector.compare(short, long, measure=True, repeat=3)
