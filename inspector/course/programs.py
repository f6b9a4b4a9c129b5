"""Programs that lessons ask about, on devices that need not be attached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.errors import Unavailable
from inspector.lowering.lower import lower


def only_collective(function: Callable[..., Any], x: Any, axis_env: list[tuple[str, int]]) -> Collective:
    """Returns the only collective of a function under an axis environment, as lowered by JAX."""
    (collective,) = lower(function, x, axis_env=axis_env).collectives()
    return collective


def groups_of(collective: Collective) -> list[list[int]]:
    """Returns the groups of a collective, or the pairs of a permutation."""
    if isinstance(collective.participants, Unavailable):
        raise TypeError(collective.participants.reason)  # lessons do not ask about unknown values
    return [list(group) for group in collective.participants]


def mesh(**axes: int) -> AbstractMesh:
    """Returns a mesh with these axes; its devices are those of the target."""
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def split(on: AbstractMesh, shape: tuple[int, ...], *spec: str | None) -> jax.ShapeDtypeStruct:
    """Returns an f32 array of that shape, sharded over a mesh."""
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(on, PartitionSpec(*spec)))


def compiled_collectives(function: Any, *args: Any) -> Collectives:
    """Compiles a function for as many virtual CPU devices as the mesh of its arguments has, and returns the collectives."""
    target = f"cpu:{args[0].sharding.mesh.size}"
    return lower(function, *args, target=target).compile(target=target).collectives()


def microseconds(exchange: Exchange) -> float:
    """Returns the time of an exchange by the model, in microseconds, over links of known speed."""
    if isinstance(exchange.seconds, Unavailable):
        raise TypeError(exchange.seconds.reason)  # lessons do not ask about unknown values
    return 1e6 * exchange.seconds
