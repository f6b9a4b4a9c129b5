"""Which device each logical id of a program is."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.compilation.options import Options
from inspector.hlo.mesh import Mesh


def physical_ids(mesh: Mesh | None, options: Options) -> Sequence[int] | None:
    """The devices' own ids by logical id, as the build options assign them, else as the user's mesh does.

    None where they are 0, 1, 2, ..., and where a logical id of the mesh is several devices: with replicas and partitions.
    """
    replicas, partitions = options.num_replicas or 1, options.num_partitions or 1
    if mesh is None or (replicas > 1 and partitions > 1):
        return None
    if options.device_assignment is None:
        return mesh.physical_ids
    ids = [id_ for row in options.device_assignment for id_ in row]
    return ids if len(ids) == mesh.size and ids != [*range(mesh.size)] else None
