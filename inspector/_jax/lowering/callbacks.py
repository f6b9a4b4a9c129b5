"""Host callbacks: Python functions that a program calls in the process that lowered it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostCallbacks:
    """The Python functions that a program calls while it runs. Opaque outside the wall."""

    _raw: tuple[Any, ...]
    _keepalive: object


def host_callbacks(raw: Sequence[Any] | None, keepalive: object) -> HostCallbacks | None:
    """Returns the callbacks of a lowering; None if the program has none.

    Args:
      raw: JAX's callback objects, in the module's order.
      keepalive: an object that must stay alive as long as the callbacks.
    """
    return HostCallbacks(tuple(raw or ()), keepalive) if raw or keepalive else None


def raw_callbacks(callbacks: HostCallbacks | None) -> tuple[Any, ...]:
    """Returns the callbacks in the form that jaxlib's compile takes."""
    return () if callbacks is None else callbacks._raw
