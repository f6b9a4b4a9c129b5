"""HLO text of an `xla.OpSharding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAMES = {"REPLICATED": "replicated", "MANUAL": "manual", "UNKNOWN": "unknown", "UNREDUCED": "unreduced"}


def sharding_text(proto: Any) -> str:
    """Returns HLO text of an `xla.OpSharding`, such as `{devices=[2,1,4]<=[8] last_tile_dim_replicate}`.

    Named shardings, which only newer jaxlibs have, look like `{mesh['a'=2,'b'=4], [{'a'}, {}]}`.
    """
    kind = proto.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[proto.type].name
    if kind == "TUPLE":
        return "{" + ", ".join(sharding_text(element) for element in proto.tuple_shardings) + "}"
    if "named_sharding" in proto.DESCRIPTOR.fields_by_name and proto.HasField("named_sharding"):
        return _named_text(proto.named_sharding)
    if kind == "MAXIMAL":
        return f"{{maximal device={proto.tile_assignment_devices[0]}}}"
    if kind in _NAMES:
        return f"{{{_NAMES[kind]}}}"
    return f"{{devices=[{_commas(proto.tile_assignment_dimensions)}]{_devices(proto)}{_last_dims(proto, kind)}}}"


def _named_text(proto: Any) -> str:
    names = [axis.name for axis in proto.mesh.axes]

    def braced(axes: Any, *more: str) -> str:
        return "{" + ", ".join([*(_axis_text(axis, names) for axis in axes), *more]) + "}"

    mesh = ",".join(f"'{axis.name}'={axis.size}" for axis in proto.mesh.axes)
    ids = f", device_ids=({_commas(proto.mesh.device_ids)})" if proto.mesh.device_ids else ""
    if iota := proto.mesh.iota_transform.reshape_dims:
        ids = f", device_ids=([{_commas(iota)}]T({_commas(proto.mesh.iota_transform.transpose_perm)}))"
    split = ", ".join(braced(d.axes, *([] if d.is_closed else ["?"])) for d in proto.dim_shardings)
    rest = {"replicated": proto.replicated_axes, "unreduced": proto.unreduced_axes, "manual": proto.manual_axes}
    other = "".join(f", {name}={braced(axes)}" for name, axes in rest.items() if axes)
    return f"{{mesh[{mesh}]{ids}, [{split}]{other}}}"


def _axis_text(axis: Any, names: Sequence[str]) -> str:
    part = f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}" if axis.HasField("sub_axis_info") else ""
    return f"'{names[axis.mesh_axis_index]}'{part}"


def _devices(proto: Any) -> str:
    if not proto.iota_reshape_dims:
        return _commas(proto.tile_assignment_devices)
    identity = list(proto.iota_transpose_perm) == list(range(len(proto.iota_transpose_perm)))
    permutation = "" if identity else f"T({_commas(proto.iota_transpose_perm)})"
    return f"<=[{_commas(proto.iota_reshape_dims)}]{permutation}"


def _last_dims(proto: Any, kind: str) -> str:
    if proto.replicate_on_last_tile_dim:
        return " last_tile_dim_replicate"
    if not proto.last_tile_dims:
        return ""
    values = proto.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    return " last_tile_dims={" + ", ".join(_NAMES.get(values[n].name, kind) for n in proto.last_tile_dims) + "}"


def _commas(numbers: Any) -> str:
    return ",".join(map(str, numbers))
