"""Axis environments: names of replica axes, as `jax.pmap` would bind them."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from inspector.errors import ParameterError
from inspector.hlo.devices.mesh import Mesh
from inspector.support.notebook import short

AxisEnv = Sequence[tuple[Hashable, int]] | Mapping[Hashable, int]


def parse_axis_env(axis_env: AxisEnv | None) -> tuple[tuple[Hashable, int], ...]:
    """Returns the pairs of axis name and size, outermost first; `()` for None.

    Args:
      axis_env: a sequence of pairs or a dict. A name is any hashable. If a name occurs twice, its last size counts,
        as in JAX.

    Raises:
      ParameterError: a value that is not a pair, an unhashable name, or a negative or non-integer size.
      TypeError: a non-integer size, as in JAX before 0.4.34. It is also a ParameterError.
    """
    if axis_env is None:
        return ()
    if not isinstance(axis_env, Iterable):
        raise ParameterError(
            f"axis_env is {short(axis_env)}. Expected pairs of axis name and size, such as [('i', 4), ('j', 2)]."
        )
    pairs = list(axis_env.items()) if isinstance(axis_env, Mapping) else list(axis_env)
    return tuple(_pair(p) for p in pairs)


def refuse_empty(axis_env: Sequence[tuple[Hashable, int]]) -> None:
    """Refuses axes of size 0.

    Raises:
      ParameterError: an axis has size 0.
    """
    for name, size in axis_env:
        if size == 0:
            raise ParameterError(
                f"axis_env gives axis {short(name)} the size 0, so no replica would run the program."
                f" Expected a positive integer, such as ({short(name)}, 4)."
            )


def _pair(pair: Any) -> tuple[Hashable, int]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ParameterError(
            f"axis_env holds {short(pair)}. Expected pairs of axis name and size, such as [('i', 4), ('j', 2)]."
        )
    name, size = pair
    try:
        hash(name)
    except TypeError:
        raise ParameterError(
            f"axis_env names an axis {short(name)}, which cannot be hashed. Expected a string."
        ) from None
    try:
        count = operator.index(size)
    except TypeError:
        raise _SizeError(
            f"axis_env gives axis {short(name)} the size {short(size)}. Expected an integer, such as ({short(name)}, 4)."
        ) from None
    if count < 0:
        raise ParameterError(f"axis_env gives axis {short(name)} the size {count}. Expected a positive integer.")
    return name, count


class _SizeError(ParameterError, TypeError):
    """Axis size of the wrong type. Also a TypeError, as `jax.xla_computation` raised."""


def replica_mesh(axis_env: Sequence[tuple[Hashable, int]]) -> Mesh | None:
    """Returns the mesh of replica ids that an axis environment defines; None for no axes."""
    if not axis_env:
        return None
    return Mesh(tuple(str(n) for n, _ in axis_env), tuple(s for _, s in axis_env), "replica")
