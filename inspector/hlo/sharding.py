"""HLO text of an `xla.OpSharding`."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

_NAMES = {"REPLICATED": "replicated", "MANUAL": "manual", "UNKNOWN": "unknown", "UNREDUCED": "unreduced"}


def sharding_text(proto: Any) -> str:
    """HLO text such as `{devices=[2,1,4]<=[8] last_tile_dim_replicate}`, from an `xla.OpSharding`.

    A named sharding, which only newer jaxlibs have, is given as protobuf text on one line.
    """
    kind = proto.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[proto.type].name
    if kind == "TUPLE":
        return "{" + ", ".join(sharding_text(element) for element in proto.tuple_shardings) + "}"
    if "named_sharding" in proto.DESCRIPTOR.fields_by_name and proto.HasField("named_sharding"):
        return "{" + text_format.MessageToString(proto.named_sharding, as_one_line=True).strip() + "}"
    if kind == "MAXIMAL":
        return f"{{maximal device={proto.tile_assignment_devices[0]}}}"
    if kind in _NAMES:
        return f"{{{_NAMES[kind]}}}"
    return f"{{devices=[{_commas(proto.tile_assignment_dimensions)}]{_devices(proto)}{_last_dims(proto, kind)}}}"


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
