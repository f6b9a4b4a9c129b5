"""What a program calls in the process that lowered it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostCallbacks:
    """The Python functions that a program calls while it runs. Others carry it; only the wall looks inside."""

    _raw: tuple[Any, ...]
    _keepalive: object


def host_callbacks(raw: Sequence[Any] | None, keepalive: object) -> HostCallbacks | None:
    """Those of a lowering; None where the program calls nothing.

    Args:
      raw: JAX's callback objects, in the module's order.
      keepalive: what must live as long as they may be called.
    """
    return HostCallbacks(tuple(raw or ()), keepalive) if raw or keepalive else None


def raw_callbacks(callbacks: HostCallbacks | None) -> tuple[Any, ...]:
    """What jaxlib's compile takes."""
    return () if callbacks is None else callbacks._raw
