"""Parses the arguments of a call from text: `f32[32,64], {"w": bf16[64]}, train=True`. A dtype with a shape stands for an array."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inspector.errors import ParameterError

_SHORT = {
    "f": "float", "bf": "bfloat", "c": "complex", "i": "int", "s": "int", "u": "uint",
}  # fmt: skip
_NAMES = (
    "f16", "bf16", "f32", "f64", "c64", "c128", *(f"{kind}{bits}" for kind in "isu" for bits in (4, 8, 16, 32, 64)), "pred",
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Dtype:
    """A dtype in a call: `f32[32,64]` is an array of that shape and dtype, without values; `f32` and `f32[]` are scalars."""

    def __init__(self, name: str) -> None:
        self.name = _numpy_name(name)

    def __getitem__(self, shape: int | tuple[int, ...]) -> Any:
        import jax

        lengths: tuple[Any, ...] = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(length, int) and length >= 0 for length in lengths):
            raise TypeError(f"expected a shape of integers, such as f32[32,64], got {shape!r}")
        return jax.ShapeDtypeStruct(lengths, self.name)


def _numpy_name(name: str) -> str:
    match = re.fullmatch(r"(bf|[fcisu])(\d+)", name)
    return "bool" if name == "pred" else f"{_SHORT[match[1]]}{match[2]}" if match else name


def read_call(text: str, names: Mapping[str, Any]) -> Call:
    """Parses positional and keyword arguments.

    Args:
      text: the text between the parentheses of a call. It may use dtypes, `jax`, `jnp`, `np` and the names of the function's module.
      names: the names of that module.

    Raises:
      ParameterError: the text is not the arguments of a call, or evaluating it raises an error.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    def collect(*args: Any, **kwargs: Any) -> Call:
        return args, kwargs

    known = {"jax": jax, "jnp": jnp, "np": np, **names, **{name: Dtype(name) for name in _NAMES}, "__call": collect}
    written = re.sub(r"(\b[a-z]\w*)\[\s*\]", r"\1[()]", text)  # the scalar `f32[]`, which is not valid Python
    try:
        args, kwargs = eval(compile(f"__call({written}\n)", "<--args>", "eval"), known)
    except Exception as e:
        raise ParameterError(
            f"--args {text!r}: {type(e).__name__}: {e}. Expected the arguments of a call, such as"
            """ --args 'f32[32,64], {"w": bf16[64]}, train=True'."""
        ) from e

    def scalar(leaf: Any) -> Any:
        return leaf[()] if isinstance(leaf, Dtype) else leaf

    call: Call = jax.tree.map(scalar, (args, kwargs), is_leaf=lambda leaf: isinstance(leaf, Dtype))
    return call


def as_call(value: Any) -> Call:
    """Converts the result of an arguments function to a call: a tuple or list of arguments, a dict of keyword arguments, or one argument."""
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return (), value
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return tuple(value), {}
    return (value,), {}
