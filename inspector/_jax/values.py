"""Types that cross the wall, in addition to bytes, text, numbers and JAX's public objects: plain data and the user's own objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspector.errors import Unavailable

Plain = None | bool | int | float | str | bytes | Unavailable | Sequence["Plain"] | Mapping[str, "Plain"]
"""Data without JAX classes, at any depth."""

Facts = Mapping[str, Plain]
"""Plain data by name."""

UserValue = Any
"""A value that the user passed, such as an argument, a library's object or a pytree of them; passed to JAX or returned unchanged."""

UserFunction = Callable[..., Any]
"""A function that takes and returns such values."""

KeyPath = tuple[Any, ...]
"""The path to a leaf of a pytree: keys of `jax.tree_util`, or of the class of a user's container."""
