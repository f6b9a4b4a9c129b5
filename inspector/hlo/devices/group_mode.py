"""`GroupMode`: what the ids in an instruction's replica groups are, and so which devices take part.

Rules of `GetCollectiveOpGroupMode` and `GetParticipatingDevicesGroups`
(xla/service/collective_ops_utils.cc); held to observed execution by the tests.
"""

from __future__ import annotations

import enum

import numpy as np

from inspector.errors import ModuleError
from inspector.hlo.devices.replica_groups import Ids, ListGroups, ReplicaGroups, check_count, short_text

# Collectives with the attribute use_global_device_ids; for the others a channel id means partitions.
_WITH_GLOBAL_IDS = frozenset({"all-reduce", "all-gather", "reduce-scatter"})


class GroupMode(enum.Enum):
    """What an id in the groups is."""

    CROSS_REPLICA = "cross_replica"
    """A replica; one set of groups in every partition."""

    CROSS_PARTITION = "cross_partition"
    """A partition; one set of groups in every replica."""

    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    """A replica, standing for all of its partitions."""

    FLATTENED_ID = "flattened_id"
    """A device: `replica * num_partitions + partition`."""

    def __str__(self) -> str:
        return self.value


def group_mode(opcode: str, channel_id: int | None, use_global_device_ids: bool) -> GroupMode:
    """The mode of a collective.

    Args:
      opcode: HLO's, with or without `-start`.
      channel_id: None when the instruction has none.
      use_global_device_ids: the attribute; false when absent.

    Raises:
      ModuleError: global device ids without a channel id, which XLA refuses too.
    """
    if channel_id is None:
        if use_global_device_ids:
            raise ModuleError(f"{opcode} has use_global_device_ids=true but no channel_id: XLA needs both.")
        return GroupMode.CROSS_REPLICA
    if opcode.removesuffix("-start") not in _WITH_GLOBAL_IDS:
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED_ID if use_global_device_ids else GroupMode.CROSS_REPLICA_AND_PARTITION


def id_count(mode: GroupMode, num_replicas: int, num_partitions: int) -> int:
    """How many ids groups of this mode can name."""
    return {
        GroupMode.CROSS_REPLICA: num_replicas,
        GroupMode.CROSS_PARTITION: num_partitions,
        GroupMode.CROSS_REPLICA_AND_PARTITION: num_replicas,
        GroupMode.FLATTENED_ID: num_replicas * num_partitions,
    }[mode]


def participants_shape(
    groups: ReplicaGroups, mode: GroupMode, num_replicas: int, num_partitions: int
) -> tuple[int, int]:
    """How many groups of devices there are, and the devices of the largest, without writing them out.

    Arguments and errors as for `participants`.
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
    if mode is GroupMode.CROSS_REPLICA:  # a copy in every partition
        group_count *= num_partitions
    elif mode is GroupMode.CROSS_PARTITION:  # a copy in every replica
        group_count *= num_replicas
    elif mode is GroupMode.CROSS_REPLICA_AND_PARTITION:
        longest *= num_partitions
    check_count(group_count * longest)
    return group_count, longest


def participants(groups: ReplicaGroups, mode: GroupMode, num_replicas: int, num_partitions: int) -> Ids:
    """The devices that take part together, in the groups' order.

    Args:
      groups: as written.
      mode: what their ids are.
      num_replicas: of the program.
      num_partitions: of the program.

    Returns:
      An array `[groups, members]` of flattened ids `replica * num_partitions + partition`, which is read only; short
      groups are padded with -1.

    Raises:
      ModuleError: an id that the program does not have, `{}` where XLA does not allow it, or too many devices.
    """
    participants_shape(groups, mode, num_replicas, num_partitions)
    ids = groups.expand(id_count(mode, num_replicas, num_partitions))
    return _flattened(ids, mode, num_replicas, num_partitions)


def _flattened(ids: Ids, mode: GroupMode, num_replicas: int, num_partitions: int) -> Ids:
    """Ids of groups as flattened device ids."""
    if mode is GroupMode.FLATTENED_ID:
        return ids
    replicas = np.arange(num_replicas, dtype=np.int64)
    partitions = np.arange(num_partitions, dtype=np.int64)
    members = ids[:, None, :]
    padded = members < 0
    if mode is GroupMode.CROSS_REPLICA:  # group-major, then one copy a partition
        devices = np.where(padded, -1, members * num_partitions + partitions[None, :, None])
    elif mode is GroupMode.CROSS_PARTITION:  # group-major, then one copy a replica
        devices = np.where(padded, -1, replicas[None, :, None] * num_partitions + members)
    else:
        every = ids[:, :, None] * num_partitions + partitions
        return np.where(ids[:, :, None] < 0, -1, every).reshape(len(ids), ids.shape[1] * num_partitions)
    return devices.reshape(devices.shape[0] * devices.shape[1], ids.shape[1])
