"""Tracebacks of public functions: the user's frames and the message, none of ours in between."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.support.tracebacks import without_own_frames

X = jax.ShapeDtypeStruct((4,), jnp.float32)


def branches(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


def fails(x: jax.Array) -> jax.Array:
    raise KeyError("mine")


def sums(x: jax.Array) -> jax.Array:
    return jax.lax.psum(x, "unbound")


def two(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y


ENTRANCES: dict[str, Callable[..., Any]] = {
    "lower": inspector.lower,
    "lower with axes": lambda f, *args: inspector.lower(f, *args, axis_env=[("i", 2)]),
    "explore": inspector.explore,
    "expect": inspector.expect,
    "xla_computation": lambda f, *args: inspector.xla_computation(f)(*args),
}


def files(error: BaseException | None) -> set[str]:
    if error is None:
        return set()
    return {frame.filename for frame in traceback.extract_tb(error.__traceback__)} | files(error.__cause__)


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("fun", [branches, fails, sums, two])
def test_a_tracing_error_shows_the_users_frames_only(entrance: str, fun: Callable[..., Any]) -> None:
    with pytest.raises((jax.errors.TracerBoolConversionError, KeyError, NameError, TypeError)) as caught:
        ENTRANCES[entrance](fun, X)
    assert files(caught.value) == {__file__}
    assert len(traceback.format_exception(caught.value)) < 16
    if fun is branches:
        assert "tracing the function branches at" in str(caught.value)
        assert "depends on the value of the argument x." in str(caught.value)


def test_an_argument_of_a_pytree_is_named() -> None:
    def fun(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return x * int(params["w"])

    with pytest.raises(jax.errors.ConcretizationTypeError, match="the value of the argument params_w"):
        inspector.lower(fun, {"b": X, "w": jax.ShapeDtypeStruct((), jnp.float32)}, X, axis_env=[("i", 2)])


def test_our_own_errors_have_no_frame_of_ours() -> None:
    for fail in (
        lambda: inspector.lower("HloModule"),
        lambda: inspector.lower(jnp.sin, X, target="tpu:v5e:3x3"),
        lambda: inspector.explore(jnp.sin, X, target="nowhere"),
    ):
        with pytest.raises(inspector.InspectorError) as caught:
            fail()
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


def test_faults_of_inspector_keep_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.lowering import lower as module

    monkeypatch.setattr(module, "parse_axis_env", math.sqrt)
    with pytest.raises(TypeError) as caught:
        inspector.lower(jnp.sin, X, axis_env=[("i", 2)])
    assert any(file.endswith("lowering/lower.py") for file in files(caught.value))


def test_all_frames_are_shown_when_jax_shows_its_own() -> None:
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises(KeyError) as caught:
            inspector.lower(fails, X)
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert any(file.endswith("lowering/lower.py") for file in files(caught.value))


def test_the_wrapped_function_is_as_documented() -> None:
    @without_own_frames
    def fun(x: int) -> int:
        """Doubles."""
        return 2 * x

    assert (fun(2), fun.__name__, fun.__doc__) == (4, "fun", "Doubles.")
