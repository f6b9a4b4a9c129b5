"""`inspector.sharding`: the device of each part of an array, as a table and as pictures."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from inspector.analysis.sharding.array_sharding import Sharding
from inspector.errors import ParameterError
from inspector.hlo.devices.mesh import Mesh
from inspector.support.notebook import short


def sharding(
    what: object,
    mesh: object = None,
    *,
    shape: Sequence[int] | None = None,
    devices: Sequence[int] | None = None,
) -> Sharding:
    """Returns which device holds which part of an array.

    Args:
      what: an array or a `jax.ShapeDtypeStruct` with a sharding; a `NamedSharding` with `shape`; or a `PartitionSpec` with
        `mesh` and `shape`.
      mesh: a `jax.sharding.Mesh` or `AbstractMesh`, or axes with their sizes, e.g. `{"data": 4, "model": 2}`, on devices
        0, 1, 2, ...
      shape: shape of the whole array.
      devices: device ids in the order of a mesh that has none.

    Raises:
      ParameterError: an argument is missing or of the wrong kind, or the arguments do not fit together.
    """
    placement, spec = what, what
    if not isinstance(what, PartitionSpec | NamedSharding):
        placement = getattr(what, "sharding", None)
        shape = getattr(what, "shape", shape)
        if placement is None:
            raise ParameterError(
                f"Got {type(what).__name__}; expected an array or ShapeDtypeStruct with a sharding, a NamedSharding, or a"
                " PartitionSpec and a mesh."
            )
    if isinstance(placement, SingleDeviceSharding):
        (id_,) = (int(device.id) for device in placement.device_set)  # type: ignore[attr-defined]
        return Sharding(_shape(shape), _named((), (), (id_,)), ())
    if isinstance(placement, NamedSharding):
        mesh, spec = placement.mesh, placement.spec
    if not isinstance(spec, PartitionSpec):
        raise ParameterError(f"Got the sharding {short(placement)}; expected a NamedSharding, whose axes have names.")
    return Sharding(_shape(shape), _mesh(mesh, devices), _axes(spec))


def _shape(shape: Sequence[int] | None) -> tuple[int, ...]:
    if shape is None:
        raise ParameterError("The shape of the array is missing. Pass shape=(...), one size per dimension.")
    sizes = tuple(map(_integer, shape))
    if min(sizes, default=0) < 0:
        raise ParameterError(f"Got the shape {short(shape)}; expected sizes of 0 or more.")
    return sizes


def _mesh(mesh: object, devices: Sequence[int] | None) -> Mesh:
    device_ids = None if devices is None else tuple(map(_integer, devices))
    if isinstance(mesh, jax.sharding.Mesh):
        if device_ids is not None:
            raise ParameterError("Got devices and a Mesh, which has devices. Remove devices.")
        ids = tuple(int(device.id) for device in mesh.devices.flat)
        return _named(mesh.axis_names, mesh.devices.shape, ids)
    if isinstance(mesh, AbstractMesh):
        return _named(mesh.axis_names, mesh.axis_sizes, device_ids)
    if isinstance(mesh, Mapping):
        return _named(tuple(mesh), tuple(mesh.values()), device_ids)
    raise ParameterError(
        f"Got the mesh {short(mesh)}; expected a Mesh, an AbstractMesh, or axes with their sizes such as {{'data': 4}}."
    )


def _named(names: Sequence[object], sizes: Sequence[object], ids: tuple[int, ...] | None = None) -> Mesh:
    counts = tuple(map(_integer, sizes))
    if min(counts, default=1) < 1:
        raise ParameterError(f"Got axes of sizes {short(counts)}; expected sizes of 1 or more.")
    if ids is not None and (len(set(ids)) != len(ids) or len(ids) != math.prod(counts)):
        raise ParameterError(
            f"Got the devices {short(ids)} for {math.prod(counts)} positions of the mesh; expected one device per position, without repeats."
        )
    return Mesh(tuple(map(str, names)), counts, "partition", physical_ids=ids)


def _axes(spec: PartitionSpec) -> tuple[tuple[str, ...], ...]:
    return tuple(_entry(entry) for entry in spec)


def _entry(entry: object) -> tuple[str, ...]:
    if entry is PartitionSpec.UNCONSTRAINED:
        raise ParameterError(
            "XLA chooses the sharding of an UNCONSTRAINED dimension. Pass the sharding of an output of the compiled program."
        )
    if entry is None:
        return ()
    return tuple(map(str, entry)) if isinstance(entry, tuple) else (str(entry),)


def _integer(size: object) -> int:
    try:
        return operator.index(size)  # type: ignore[arg-type]
    except TypeError as e:
        raise ParameterError(f"Got the size {short(size)}; expected an integer.") from e
