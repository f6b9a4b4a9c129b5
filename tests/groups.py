"""Replica groups as nested lists, to compare."""

from __future__ import annotations

from inspector.hlo.devices.replica_groups import ReplicaGroups


def to_lists(groups: ReplicaGroups, id_count: int | None = None) -> list[list[int]]:
    """Arguments and errors as of `expand`."""
    return [[int(member) for member in group if member >= 0] for group in groups.expand(id_count)]
