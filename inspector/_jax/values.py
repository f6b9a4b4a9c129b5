"""What passes the wall besides bytes, text, numbers and JAX's public objects: plain data, and what is the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspector.errors import Unavailable

Plain = None | bool | int | float | str | bytes | Unavailable | Sequence["Plain"] | Mapping[str, "Plain"]
"""Data without a class of JAX's, at any depth."""

Facts = Mapping[str, Plain]
"""Plain data by name."""

UserValue = Any
"""An argument, a library's object, a pytree of them: given by the user, and handed to JAX or back as it is."""

UserFunction = Callable[..., Any]
"""What takes and gives such values."""

KeyPath = tuple[Any, ...]
"""The way to a leaf of a pytree: keys of `jax.tree_util`, or of the class of a user's container."""
