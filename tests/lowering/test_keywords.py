"""Keywords of `lower` and `explore`: the function's own, and those that were meant for us."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api import magics
from inspector.errors import ParameterError
from inspector.lowering.keywords import function_keywords

X = jnp.ones((4, 3))


def step(params: jax.Array, batch: jax.Array, n: int = 1) -> jax.Array:
    return batch @ params * n


def test_keywords_go_to_the_function() -> None:
    lowered = inspector.lower(step, batch=X, params=X.T)
    assert lowered.stablehlo == jax.jit(step).lower(batch=X, params=X.T).as_text()
    assert [a.path for a in lowered.inputs] == ["batch", "params"]


@pytest.mark.parametrize("names", ["n", ("n",), ["n"]])
@pytest.mark.parametrize("by_name", [True, False])
def test_static_argnames(names: Any, by_name: bool) -> None:
    given: tuple[tuple[Any, ...], dict[str, Any]] = ((X.T, X), {"n": 3}) if by_name else ((X.T, X, 3), {})
    lowered = inspector.lower(step, *given[0], static_argnames=names, **given[1])
    assert lowered.stablehlo == jax.jit(step, static_argnames="n").lower(*given[0], **given[1]).as_text()
    assert [a.path for a in lowered.inputs] == ["params", "batch"]


def test_static_argnums_by_name() -> None:
    lowered = inspector.lower(step, X.T, X, n=3, static_argnums=2)
    assert [a.path for a in lowered.inputs] == ["params", "batch"]


def test_static_argnames_of_replicas() -> None:
    lowered = inspector.lower(lambda x, n: jax.lax.psum(x, "i") * n, X, n=3, static_argnames="n", axis_env={"i": 2})
    assert [a.path for a in lowered.inputs] == ["x"]


@pytest.mark.parametrize(
    ("given", "meant"), [("platfrom", "platform"), ("taget", "target"), ("static_argnum", "static_argnums")]
)
def test_a_misspelled_option_is_reported_with_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(ParameterError, match=rf"step takes no keyword '{given}'.*Did you mean {meant}\?"):
        inspector.lower(step, X.T, X, **{given: "cpu"})
    with pytest.raises(TypeError, match="no such option"):
        inspector.lower(step, X.T, X, **{given: "cpu"})


def test_a_function_that_takes_any_keyword_gets_it() -> None:
    assert [a.path for a in inspector.lower(lambda **named: named["taget"], taget=X).inputs] == ["taget"]


def test_nothing_that_is_lowered_takes_keywords() -> None:
    with pytest.raises(ParameterError, match=r"A str takes no keyword 'opt', and lower has no such option"):
        inspector.lower("HloModule m", opt=1)


def test_a_clash_has_a_way_out() -> None:
    def f(x: jax.Array, target: jax.Array) -> jax.Array:
        return x - target

    with pytest.raises(
        ParameterError, match=r"f needs target, and lower has an option of that name.*kwargs=\{'target'"
    ):
        inspector.lower(f, X, target="cpu")
    assert [a.path for a in inspector.lower(f, X, kwargs={"target": X}, target="cpu").inputs] == ["x", "target"]
    with pytest.raises(ParameterError, match="x is given twice"):
        inspector.lower(f, kwargs={"x": X, "target": X}, x=X)


def test_the_magic_s_settings_are_explore_s() -> None:
    with pytest.raises(ParameterError, match=r"explore has no option 'taget'\. Did you mean target\?"):
        magics.explore_call("f(x), dict(taget='cpu:8')", {"f": lambda x, **named: x, "x": X})


def test_a_function_with_an_unknown_signature_may_take_any_keyword() -> None:
    class Unsigned:
        __signature__ = 3  # no signature, so that asking for it is an error

        def __call__(self, x: Any, by: Any) -> Any:
            return x * by

    assert function_keywords(Unsigned(), (1,), {}, {"by": 2}, inspector.lower) == {"by": 2}
