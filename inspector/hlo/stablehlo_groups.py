"""Replica groups as StableHLO writes them.

    groups := "dense<" nested ints "> : tensor<GxSxi64>"       uneven groups are padded with -1
            | "dense<" int "> : tensor<GxSxi64>"               one value everywhere
            | 'dense<"0x' hex '"> : tensor<GxSxi64>'           large ones, little-endian
            | "#stablehlo.replica_group_mesh_axes<mesh = @name, axes = [" axisref,.. "]>"
    axisref := '#stablehlo.axis_ref<name = "' name '"' [", sub_axis_info = (" pre ")" size] ">"

The second kind names a mesh of the module: `sdy.mesh @name = <["a"=2, "b"=4], device_ids=[1, 0, ..]>`.
The result is the same `ReplicaGroups` as from HLO.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.cursor import Cursor
from inspector.hlo.devices.replica_groups import AxisRef, ListGroups, MeshGroups, ReplicaGroups, WrittenIds

_MESH = "sdy.mesh @"
_MESH_AXES = "#stablehlo.replica_group_mesh_axes<"


def parse_stablehlo(text: str, meshes: Mapping[str, MeshGroups] | None = None) -> ReplicaGroups:
    """Replica groups from the text of a StableHLO attribute.

    Args:
      text: the attribute's value, either kind above; an attribute alias must be resolved before.
      meshes: the module's meshes by symbol name, from `parse_meshes`.

    Raises:
      ModuleError: neither kind, or a mesh that `meshes` lacks.
    """
    cursor = Cursor(text, "StableHLO replica groups")
    if cursor.accept("dense<"):
        groups: ReplicaGroups = _dense(cursor)
    elif cursor.accept(_MESH_AXES):
        groups = _mesh_axes(cursor, meshes or {})
    else:
        raise cursor.error(f"'dense<' or {_MESH_AXES!r}")
    cursor.end()
    return groups


def parse_meshes(module_text: str) -> dict[str, MeshGroups]:
    """The meshes that a StableHLO module's text declares, by symbol name without `@`, ungrouped.

    Raises:
      ModuleError: a declaration that cannot be read.
    """
    meshes: dict[str, MeshGroups] = {}
    start = module_text.find(_MESH)
    while start >= 0:
        end = module_text.find("\n", start)
        cursor = Cursor(module_text[start + len(_MESH) : end if end >= 0 else None], "an sdy.mesh")
        name = cursor.quoted() if cursor.at('"') else cursor.until(" ")
        cursor.expect("= <")
        cursor.expect("[")
        axes: list[tuple[str, int]] = []
        while not cursor.accept("]"):
            if axes:
                cursor.expect(",")
            axis = cursor.quoted()
            cursor.expect("=")
            axes.append((axis, cursor.integer()))
        device_ids = None
        if cursor.accept(", device_ids="):
            cursor.expect("[")
            device_ids = WrittenIds.of(cursor.integers("]"))
        meshes[name] = MeshGroups(tuple(axes), (), device_ids)
        start = module_text.find(_MESH, start + 1)
    return meshes


def _dense(cursor: Cursor) -> ListGroups:
    values = _hex_values(cursor) if cursor.at('"') else _nested(cursor)
    cursor.expect(">")
    cursor.expect(":")
    cursor.expect("tensor<")
    group_count = cursor.integer()
    cursor.expect("x")
    group_size = cursor.integer()
    cursor.expect("xi64>")
    if len(values) == 1:
        values = values * (group_count * group_size)
    if len(values) != group_count * group_size:
        raise ModuleError(
            f"Cannot read StableHLO replica groups: tensor<{group_count}x{group_size}xi64> holds"
            f" {group_count * group_size} ids, but {len(values)} are written."
        )
    rows = (values[row * group_size : (row + 1) * group_size] for row in range(group_count))
    return ListGroups(tuple(tuple(member for member in row if member >= 0) for row in rows))


def _hex_values(cursor: Cursor) -> list[int]:
    digits = cursor.quoted()
    try:
        values: list[int] = np.frombuffer(bytes.fromhex(digits.removeprefix("0x")), dtype="<i8").tolist()
    except ValueError as e:
        raise ModuleError(
            f"Cannot read StableHLO replica groups: {digits[:40]!r} is not 64-bit integers in hex."
        ) from e
    return values


def _nested(cursor: Cursor) -> list[int]:
    if cursor.at(">"):
        return []
    if not cursor.accept("["):
        return [cursor.integer()]
    if not cursor.at("["):
        return list(cursor.integers("]"))
    values: list[int] = []
    while True:
        values += _nested(cursor)
        if cursor.accept("]"):
            return values
        cursor.expect(",")


def _mesh_axes(cursor: Cursor, meshes: Mapping[str, MeshGroups]) -> MeshGroups:
    cursor.expect("mesh = @")
    name = cursor.quoted() if cursor.at('"') else cursor.until(",")
    if name not in meshes:
        raise ModuleError(
            f"StableHLO replica groups name the mesh @{name}, which the module does not declare"
            f" (its meshes: {', '.join('@' + known for known in meshes) or 'none'})."
        )
    cursor.expect(", axes = [")
    axes: list[AxisRef] = []
    while not cursor.accept("]"):
        if axes:
            cursor.expect(",")
        axes.append(_axis_ref(cursor))
    cursor.expect(">")
    mesh = meshes[name]
    return MeshGroups(mesh.mesh_axes, tuple(axes), mesh.device_ids)


def _axis_ref(cursor: Cursor) -> AxisRef:
    cursor.expect("#stablehlo.axis_ref<name = ")
    name = cursor.quoted()
    if cursor.accept(">"):
        return AxisRef(name)
    cursor.expect(", sub_axis_info = (")
    pre_size = cursor.integer()
    cursor.expect(")")
    size = cursor.integer()
    cursor.expect(">")
    return AxisRef(name, pre_size, size)
