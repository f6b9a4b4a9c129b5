"""Splits and joins JAX's name stacks, such as `jit(step)/transpose(jvp(attention))/dot_general`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

RECOMPUTED = "rematted_computation"
"""JAX's name of the part of a program that `jax.checkpoint` recomputes."""

_WRAPPED = re.compile(r"(?:jit|pjit|jvp|transpose|vmap|pmap|remat|checkpoint|shard_map|xla_pmap)\((.*)\)")


def names_of(stack: str) -> Iterator[str]:
    """Yields the names in a stack without transformations: step, attention and dot_general."""
    for part in cut(stack):
        wrapped = _WRAPPED.fullmatch(part)
        if wrapped:
            yield from names_of(wrapped[1])
        elif part:
            yield part


def cut(text: str, separator: str = "/") -> Iterator[str]:
    """Yields the parts of a text between separators outside brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == separator and depth <= 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def inlined_name(name: str, calls: Iterable[str]) -> str:
    """Returns the name that an operation of a function has after XLA inlined the calls that lead to it.

    XLA writes the name of a call in front of the names in its function, except of those that begin with it already: in nested loops of a
    `shard_map`, the name of an inner loop's body is that of the outer one.

    Args:
      name: JAX's name of the operation, relative to its function.
      calls: the names of the calls, innermost first.
    """
    for call in calls:
        if call and not name.startswith(call):
            name = f"{call}/{name}" if name else call
    return name
