"""Error messages of large values: they quote only the beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import InspectorError, check_bool
from inspector.stages.compiled import Compiled
from inspector.stages.lowered import Lowered
from inspector.support.notebook import short
from inspector.widgets.arrangement import arrangement

MILLION = list(range(1_000_000))
SHAPE = jax.ShapeDtypeStruct((4,), np.float32)


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return inspector.lower(jnp.negative, SHAPE)


@pytest.fixture(scope="module")
def compiled(lowered: Lowered) -> Compiled:
    return lowered.compile()


@pytest.mark.parametrize(
    "use",
    [
        lambda value: inspector.lower(jnp.negative, SHAPE, axis_env=[value]),
        lambda value: inspector.lower(jnp.negative, SHAPE, axis_env=[("i", value)]),
        lambda value: inspector.lower(jnp.negative, SHAPE, platform=value),
        lambda value: inspector.lower(jnp.negative, SHAPE, static_argnums=value),
        lambda value: inspector.Options(flags={"xla_cpu_enable_fast_math": value}),
        lambda value: inspector.Options(flags=value),
        lambda value: inspector.Options(num_replicas=value),
        lambda value: inspector.Options(device_assignment=value),
        lambda value: inspector.Options.parse(value),
        lambda value: inspector.Options.parse("x" * len(value)),
        lambda value: inspector.Target.parse(value),
        lambda value: inspector.sharding(jax.sharding.PartitionSpec(), value, shape=(4,)),
        lambda value: inspector.sharding(jax.sharding.PartitionSpec(), {"i": 2}, shape=[value]),
        lambda value: inspector.sharding(jax.sharding.PartitionSpec(), {"i": 2}, shape=(4,), devices=value),
        lambda value: inspector.settings.update(cache_memory_bytes=value),
        lambda value: inspector.option_catalog(value),
        lambda value: arrangement(["source"], value),
        lambda value: inspector.explore(jnp.negative, SHAPE, height_px=value),
        lambda value: check_bool("flag", value),
    ],
)
def test_functions_quote_the_beginning(use: Callable[[Any], object]) -> None:
    check_message(lambda: use(MILLION))


@pytest.mark.parametrize(
    "use",
    [
        lambda lowered, value: lowered.compile(target=value),
        lambda lowered, value: lowered.compile(engine=value),
        lambda lowered, value: lowered.observe(executions=value),
        lambda lowered, value: inspector.scan(lowered, {"xla_cpu_enable_fast_math": "x" * len(value)}),
    ],
)
def test_methods_of_a_lowered_quote_the_beginning(use: Callable[[Lowered, Any], object], lowered: Lowered) -> None:
    check_message(lambda: use(lowered, MILLION))


@pytest.mark.parametrize(
    "use",
    [
        lambda compiled, value: compiled.roofline(value),
        lambda compiled, value: compiled.roofline().by(value),
        lambda compiled, value: compiled.collectives()[str(value)],
        lambda compiled, value: compiled.module().instruction(str(value)),
        lambda compiled, value: compiled.run(np.ones(4, np.float32), repeat=value),
        lambda compiled, value: inspector.expect(compiled).peak_bytes(at_most=value),
    ],
)
def test_methods_of_a_compiled_quote_the_beginning(use: Callable[[Compiled, Any], object], compiled: Compiled) -> None:
    check_message(lambda: use(compiled, MILLION))


def test_a_short_value_is_quoted_whole() -> None:
    assert short([1, 2]) == "[1, 2]"
    assert short("a\nb") == r"'a\nb'"
    assert short("x" * 118) == repr("x" * 118)
    assert short("x" * 119) == f"'{'x' * 118}…"
    assert short(np.eye(2)) == "array([[1., 0.],"


def check_message(use: Callable[[], object]) -> None:
    with pytest.raises((InspectorError, ValueError, KeyError)) as raised:
        use()
    assert len(str(raised.value)) < 1000, str(raised.value)[:2000]
