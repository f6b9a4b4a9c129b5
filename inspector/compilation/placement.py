"""The devices of a compile: ids and kinds from `CompiledProgram.devices`, and a mesh on these devices."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from inspector.hlo.devices.mesh import Mesh


def device_kind(device: str) -> str:
    """Returns the kind in an entry of `CompiledProgram.devices`: "TPU v5 lite" for "TPU v5 lite 3 at (1, 1, 0)"."""
    return device.partition(" at ")[0].rpartition(" ")[0]


def device_ids(devices: Sequence[str]) -> tuple[int, ...]:
    """Returns the ids in `CompiledProgram.devices`, by logical id: 3 for "TPU v5 lite 3 at (1, 1, 0)".

    Returns () if an entry has no id, as in a damaged file.
    """
    ids = [device.partition(" at ")[0].rpartition(" ")[2] for device in devices]
    return tuple(map(int, ids)) if all(_IS_ID.fullmatch(id_) for id_ in ids) else ()


_IS_ID = re.compile(r"[0-9]{1,12}")


def placed(mesh: Mesh | None, ids: Sequence[int] | None) -> Mesh | None:
    """Places a program's mesh on its devices.

    Args:
      mesh: mesh of the program.
      ids: ids of the devices, by logical id; None or () if they are unknown, which leaves the mesh as it is.

    Returns:
      The mesh with these `physical_ids`; without `physical_ids` if they are 0, 1, 2, ..., or if one id of the mesh stands
      for several devices (replicas and partitions).
    """
    if mesh is None or not ids:
        return mesh
    is_usual = len(ids) != mesh.size or tuple(ids) == tuple(range(mesh.size))
    physical = None if is_usual else tuple(ids)
    return mesh if physical == mesh.physical_ids else dataclasses.replace(mesh, physical_ids=physical)
