"""Everything that a traced function says, as a value: no jaxpr leaves the wall."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from jax.sharding import AbstractMesh, Mesh

from inspector._jax.lowering.jaxprs import Place, collective_axes, equation_places, mesh_of, open_jaxpr, print_jaxpr
from inspector._jax.lowering.pallas import kernel_equations, kernel_facts
from inspector._jax.values import Facts
from inspector.support import deferred
from inspector.support.deferred import Deferred


@dataclasses.dataclass(frozen=True, slots=True)
class MeshFacts:
    """A mesh of JAX's.

    Attributes:
      axis_names, axis_sizes: of its axes, outermost first.
      axis_types: what kinds of axes there are, by the names of `jax.sharding.AxisType`.
      device_ids: JAX's, at each position in row-major order; None of an abstract one, which has no devices.
    """

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    axis_types: frozenset[str]
    device_ids: tuple[int, ...] | None

    @property
    def is_abstract(self) -> bool:
        """Whether it has no devices."""
        return self.device_ids is None


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """The axes that a collective names.

    Attributes:
      primitive: JAX's, such as `psum`.
      file, line: the innermost of the user's lines that it comes from.
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
      facts: as the fields of `inspector.hlo.pallas.PallasKernel`, without number, origins and what was overridden.
      places: where it is called.
    """

    facts: Facts
    places: tuple[Place, ...]


Places = tuple[tuple[Place, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class JaxprFacts(Deferred):
    """What a jaxpr says. Places leave out the program's own name, which is outermost in all of them.

    Attributes:
      text: as JAX prints it; deferred.
      places: of each line of the text, those of its equations; deferred.
      collectives: those that name axes.
      mesh: of the first `shard_map`, or None.
      kernels: in the order of the program.
    """

    text: str
    places: Places
    collectives: tuple[CollectiveFacts, ...]
    mesh: MeshFacts | None
    kernels: tuple[KernelFacts, ...]


def mesh_facts(mesh: Mesh | AbstractMesh) -> MeshFacts:
    """What a mesh says."""
    return MeshFacts(
        axis_names=tuple(str(name) for name in mesh.axis_names),
        axis_sizes=tuple(int(size) for size in mesh.axis_sizes),
        axis_types=frozenset(axis_type.name for axis_type in mesh.axis_types),
        device_ids=None if isinstance(mesh, AbstractMesh) else tuple(int(device.id) for device in mesh.devices.flat),
    )


def jaxpr_facts(jaxpr: Any, max_steps: int) -> JaxprFacts:
    """Reads a jaxpr.

    Args:
      jaxpr: of the whole function.
      max_steps: of a kernel's grid whose block indices are computed.
    """
    opened = open_jaxpr(jaxpr)  # without the arrays that it holds
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
            KernelFacts(kernel_facts(eqn, max_steps), tuple(places().get(id(eqn), ())))
            for eqn in kernel_equations(opened)
        ),
    )
