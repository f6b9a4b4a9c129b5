from __future__ import annotations

import functools
from typing import Any

import jax

from inspector.lowering.listings import _code_of


def f(x: Any, y: Any = 0) -> Any:
    return x + y


class Holder:
    def method(self, x: Any) -> Any:
        return x


def test_the_code_behind_wrappers_is_found() -> None:
    partial = functools.partial(jax.jit(f), y=2)
    assert [_code_of(fun) for fun in (f, jax.jit(f), partial)] == [f.__code__] * 3
    assert _code_of(jax.jit(Holder().method)) is Holder.method.__code__
    assert _code_of(len) is None
    assert _code_of(functools.partial(len)) is None
