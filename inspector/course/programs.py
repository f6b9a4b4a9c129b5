"""Programs that lessons ask about, on devices that need not be there."""

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
    """The one collective of a function under an axis environment, as JAX wrote it."""
    (collective,) = lower(function, x, axis_env=axis_env).collectives()
    return collective


def groups_of(collective: Collective) -> list[list[int]]:
    """Its groups; of a permutation its pairs."""
    if isinstance(collective.participants, Unavailable):
        raise TypeError(collective.participants.reason)  # no lesson asks what cannot be known
    return [list(group) for group in collective.participants]


def mesh(**axes: int) -> AbstractMesh:
    """Axes by name; their devices are the target's."""
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def split(on: AbstractMesh, shape: tuple[int, ...], *spec: str | None) -> jax.ShapeDtypeStruct:
    """An f32 array of that shape, split over a mesh."""
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(on, PartitionSpec(*spec)))


def compiled_collectives(function: Any, *args: Any) -> Collectives:
    """What XLA makes of a function on as many virtual CPU devices as the mesh of its arguments has."""
    target = f"cpu:{args[0].sharding.mesh.size}"
    return lower(function, *args, target=target).compile(target=target).collectives()


def microseconds(exchange: Exchange) -> float:
    """That it takes by the model, over links whose speed is known."""
    if isinstance(exchange.seconds, Unavailable):
        raise TypeError(exchange.seconds.reason)  # no lesson asks what cannot be known
    return 1e6 * exchange.seconds
