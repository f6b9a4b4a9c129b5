"""The facts of a traced function, as plain values: no jaxpr leaves the wall."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from jax.sharding import AbstractMesh, Mesh

from inspector._jax.lowering.jaxprs import Place, collective_axes, equation_places, mesh_of, open_jaxpr, print_jaxpr
from inspector._jax.lowering.pallas import kernel_facts, kernels_with_arguments
from inspector._jax.values import Facts
from inspector.support import deferred
from inspector.support.deferred import Deferred


@dataclasses.dataclass(frozen=True, slots=True)
class MeshFacts:
    """A JAX mesh.

    Attributes:
      axis_names, axis_sizes: names and sizes of its axes, outermost first.
      axis_types: the kinds of axes that occur, by the names of `jax.sharding.AxisType`.
      device_ids: JAX's device ids in row-major order of positions; None for an abstract mesh, which has no devices.
    """

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    axis_types: frozenset[str]
    device_ids: tuple[int, ...] | None

    @property
    def is_abstract(self) -> bool:
        """True if the mesh has no devices."""
        return self.device_ids is None


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """The axes that a collective names.

    Attributes:
      primitive: JAX's name, for example `psum`.
      file, line: the innermost user frame of the collective.
      axes: the names, in the user's order.
    """

    primitive: str
    file: str
    line: int
    axes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFacts:
    """A Pallas kernel.

    Attributes:
      facts: the fields of `inspector.hlo.pallas.PallasKernel`, without number, origins and overridden parameters.
      places: the places where it is called.
    """

    facts: Facts
    places: tuple[Place, ...]


Places = tuple[tuple[Place, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class JaxprFacts(Deferred):
    """The facts of a jaxpr. Places leave out the program's own name, which is outermost in all of them.

    Attributes:
      text: as JAX prints it; deferred.
      places: for each line of the text, the places of its equations; deferred.
      collectives: the collectives that name axes.
      mesh: the mesh of the first `shard_map`, or None.
      kernels: Pallas kernels in program order.
    """

    text: str
    places: Places
    collectives: tuple[CollectiveFacts, ...]
    mesh: MeshFacts | None
    kernels: tuple[KernelFacts, ...]


def mesh_facts(mesh: Mesh | AbstractMesh) -> MeshFacts:
    """Returns the facts of a mesh."""
    return MeshFacts(
        axis_names=tuple(str(name) for name in mesh.axis_names),
        axis_sizes=tuple(int(size) for size in mesh.axis_sizes),
        axis_types=frozenset(axis_type.name for axis_type in mesh.axis_types),
        device_ids=None if isinstance(mesh, AbstractMesh) else tuple(int(device.id) for device in mesh.devices.flat),
    )


def jaxpr_facts(jaxpr: Any, max_steps: int) -> JaxprFacts:
    """Reads a jaxpr.

    Args:
      jaxpr: jaxpr of the whole function.
      max_steps: maximum number of steps of a kernel's grid whose block indices are computed.
    """
    opened = open_jaxpr(jaxpr)  # without the constant arrays that it holds
    printed = functools.cache(lambda: print_jaxpr(opened))
    places, mesh = functools.cache(lambda: equation_places(opened)), mesh_of(opened)

    def of_lines(_: JaxprFacts) -> Places:
        return tuple(tuple(place for eqn in line for place in places().get(id(eqn), ())) for line in printed()[1])

    return deferred.defer(
        JaxprFacts,
        {"text": lambda _: printed()[0], "places": of_lines},
        collectives=tuple(CollectiveFacts(*named) for named in collective_axes(opened)),
        mesh=None if mesh is None else mesh_facts(mesh),
        kernels=tuple(
            KernelFacts(kernel_facts(eqn, arguments, max_steps), tuple(places().get(id(eqn), ())))
            for eqn, arguments in kernels_with_arguments(opened)
        ),
    )
