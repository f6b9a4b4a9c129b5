"""Keeps traces that we change apart from JAX's caches of unchanged ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import jax


def separate_traces(change: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context whose traces JAX caches for itself.

    The context's key is created only when needed, because from then on JAX traces everything again that it has traced before.

    Args:
      change: a description of the change. Every context has its own cache, also for equal descriptions.
    """
    context: Callable[[str], contextlib.AbstractContextManager[None]] = jax.make_user_context("")
    return context(change)
