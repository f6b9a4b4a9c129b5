"""`GroupMode`: the meaning of ids in replica groups, which determines the participating devices.

Rules of `GetCollectiveOpGroupMode` and `GetParticipatingDevicesGroups`
(xla/service/collective_ops_utils.cc). Tests compare them with observed executions.
"""

from __future__ import annotations

import enum

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.devices.replica_groups import Ids, ListGroups, ReplicaGroups, check_count, short_text

# Collectives with the attribute use_global_device_ids. For others, a channel id means that ids are partitions.
_WITH_GLOBAL_IDS = frozenset({"all-reduce", "all-gather", "reduce-scatter"})


class GroupMode(enum.Enum):
    """The meaning of an id in replica groups."""

    CROSS_REPLICA = "cross_replica"
    """A replica. Every partition has the same groups."""

    CROSS_PARTITION = "cross_partition"
    """A partition. Every replica has the same groups."""

    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    """A replica with all of its partitions."""

    FLATTENED_ID = "flattened_id"
    """A device: `replica * num_partitions + partition`."""

    def __str__(self) -> str:
        return self.value


def group_mode(opcode: str, channel_id: int | None, use_global_device_ids: bool) -> GroupMode:
    """Returns the group mode of a collective.

    Args:
      opcode: HLO opcode, with or without `-start`.
      channel_id: channel id; None if the instruction has none.
      use_global_device_ids: value of the attribute; False if absent.

    Raises:
      ModuleError: global device ids without a channel id, which XLA also rejects.
    """
    if channel_id is None:
        if use_global_device_ids:
            raise ModuleError(f"{opcode} has use_global_device_ids=true but no channel_id: XLA needs both.")
        return GroupMode.CROSS_REPLICA
    if opcode.removesuffix("-start") not in _WITH_GLOBAL_IDS:
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED_ID if use_global_device_ids else GroupMode.CROSS_REPLICA_AND_PARTITION


def id_count(mode: GroupMode, num_replicas: int, num_partitions: int) -> int:
    """Returns the number of ids that groups of a mode can name."""
    return {
        GroupMode.CROSS_REPLICA: num_replicas,
        GroupMode.CROSS_PARTITION: num_partitions,
        GroupMode.CROSS_REPLICA_AND_PARTITION: num_replicas,
        GroupMode.FLATTENED_ID: num_replicas * num_partitions,
    }[mode]


def participants_shape(
    groups: ReplicaGroups, mode: GroupMode, num_replicas: int, num_partitions: int
) -> tuple[int, int]:
    """Returns the number of device groups and the size of the largest, without expanding them.

    Arguments and errors are those of `participants`.
    """
    check_count(num_replicas * num_partitions)
    if mode is GroupMode.FLATTENED_ID and groups == ListGroups(()):
        raise ModuleError("Replica groups {} (all) are not allowed with use_global_device_ids=true.")
    ids = id_count(mode, num_replicas, num_partitions)
    group_count, longest = groups.shape(ids)
    check_count(group_count * longest)
    largest = groups.largest_id(ids)
    if largest >= ids:
        raise ModuleError(
            f"Replica groups {short_text(groups)} name id {largest}, but in mode {mode} a program of"
            f" {num_replicas} replicas and {num_partitions} partitions has ids 0 to {ids - 1}."
        )
    if mode is GroupMode.CROSS_REPLICA:  # one copy per partition
        group_count *= num_partitions
    elif mode is GroupMode.CROSS_PARTITION:  # one copy per replica
        group_count *= num_replicas
    elif mode is GroupMode.CROSS_REPLICA_AND_PARTITION:
        longest *= num_partitions
    check_count(group_count * longest)
    return group_count, longest


def participants(groups: ReplicaGroups, mode: GroupMode, num_replicas: int, num_partitions: int) -> Ids:
    """Returns the groups of participating devices, in the order of the replica groups.

    Args:
      groups: the replica groups.
      mode: the meaning of their ids.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.

    Returns:
      A read-only array `[groups, members]` of flattened ids `replica * num_partitions + partition`. Short groups are padded
      with -1.

    Raises:
      ModuleError: an id that the program does not have, `{}` where XLA does not allow it, or too many devices.
    """
    participants_shape(groups, mode, num_replicas, num_partitions)
    ids = groups.expand(id_count(mode, num_replicas, num_partitions))
    return _flattened(ids, mode, num_replicas, num_partitions)


def _flattened(ids: Ids, mode: GroupMode, num_replicas: int, num_partitions: int) -> Ids:
    """Converts ids of groups to flattened device ids."""
    if mode is GroupMode.FLATTENED_ID:
        return ids
    replicas = np.arange(num_replicas, dtype=np.int64)
    partitions = np.arange(num_partitions, dtype=np.int64)
    members = ids[:, None, :]
    padded = members < 0
    if mode is GroupMode.CROSS_REPLICA:  # group-major, then one copy per partition
        devices = np.where(padded, -1, members * num_partitions + partitions[None, :, None])
    elif mode is GroupMode.CROSS_PARTITION:  # group-major, then one copy per replica
        devices = np.where(padded, -1, replicas[None, :, None] * num_partitions + members)
    else:
        every = ids[:, :, None] * num_partitions + partitions
        return np.where(ids[:, :, None] < 0, -1, every).reshape(len(ids), ids.shape[1] * num_partitions)
    return devices.reshape(devices.shape[0] * devices.shape[1], ids.shape[1])
