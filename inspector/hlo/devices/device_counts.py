"""Determines the number of replicas and partitions of a module from the module itself.

XLA keeps both counts outside of the module: HLO text states them in its first line or not at all, and a proto never does.
If the module has shardings, meshes or replica groups, the counts follow from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from inspector.errors import ModuleError
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.field_numbers import FRONTEND_ATTRIBUTES, SHARDING
from inspector.support.units import format_list

_PERMUTES = frozenset({"collective-permute", "collective-permute-start"})
_COLLECTIVES = _PERMUTES | {
    f"{name}{suffix}"
    for name in (
        "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-broadcast", "ragged-all-to-all",
    )
    for suffix in ("", "-start")
}  # fmt: skip
_PARTITIONED_ENTRY = "_spmd"
_SHARDY = b"xla.sdy."
_MANUAL = "MANUAL"


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The devices of a module.

    Attributes:
      num_replicas, num_partitions: the counts, at least 1.
      notes: the sources of counts that the module does not state.
    """

    num_replicas: int
    num_partitions: int
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Evidence:
    """Counts that parts of a module require.

    Attributes:
      exact: counts that some parts state exactly.
      least: the minimum that all parts require.
      source: the parts, for messages.
      is_plausible: whether the minimum is likely to be the exact count.
    """

    exact: frozenset[int]
    least: int
    source: str
    is_plausible: bool = False


def device_counts(
    module: Module, mesh_sizes: Sequence[int], num_replicas: int | None, num_partitions: int | None
) -> DeviceCounts:
    """Determines the replica and partition counts of a module.

    Args:
      module: the original module.
      mesh_sizes: the sizes of its Shardy meshes.
      num_replicas: the stated number of replicas; None if not stated.
      num_partitions: the stated number of partitions; None if not stated.

    Raises:
      ModuleError: the module contradicts itself, or uses several partitions without a known count.
    """
    sharded, by_mode = _sharded(module, mesh_sizes), _collectives(module)
    notes: list[str] = []
    replicas = _count(
        "replica_count",
        num_replicas,
        [by_mode[GroupMode.CROSS_REPLICA], by_mode[GroupMode.CROSS_REPLICA_AND_PARTITION]],
        notes,
    )
    flattened = by_mode[GroupMode.FLATTENED_ID]
    global_ids = _Evidence(
        frozenset(n // replicas for n in flattened.exact if n % replicas == 0),
        -(-flattened.least // replicas),
        flattened.source,
    )
    partitions = _count(
        "num_partitions", num_partitions, [sharded, by_mode[GroupMode.CROSS_PARTITION], global_ids], notes
    )
    return DeviceCounts(replicas, partitions, tuple(notes))


def is_partitioned(module: Module, num_partitions: int) -> bool:
    """Reports whether a module is already partitioned, that is, the per-device output of XLA's partitioner.

    Such a module is scheduled, its entry is called `main_spmd`, or it has collectives between partitions outside of
    regions marked as manual, which do not occur before partitioning.
    """
    if num_partitions == 1:
        return False
    if module.columns.module.HasField("schedule") or module.entry.name.endswith(_PARTITIONED_ENTRY):
        return True
    if any(_SHARDY in value for value in module.columns.coded(FRONTEND_ATTRIBUTES).values):
        return False
    if any(_is_manual(sharding) for sharding in _shardings(module)):
        return False
    modes = {mode for _, mode in _modes(module)}
    return bool(modes & {GroupMode.CROSS_PARTITION, GroupMode.FLATTENED_ID})


def _count(attribute: str, stated: int | None, evidence: Iterable[_Evidence], notes: list[str]) -> int:
    evidence = [each for each in evidence if each.least > 1]
    exact = sorted({n for each in evidence for n in each.exact if n > 1})
    least = max((each.least for each in evidence), default=1)
    sources = format_list(sorted({each.source for each in evidence}))
    if stated is not None:
        if least > stated:
            raise ModuleError(
                f"The module states {attribute}={stated}, but its {sources} need at least {least}. Correct {attribute} in"
                " the line that begins with HloModule."
            )
        return stated
    if not exact and any(each.is_plausible and each.least == least for each in evidence):
        exact = [least]
    if len(exact) == 1 and least <= exact[0]:
        notes.append(f"the module does not state {attribute}; {exact[0]} follows from its {sources}")
        return exact[0]
    if least > 1:
        counts = f"are for {' and '.join(map(str, exact))}" if exact and least in exact else f"need at least {least}"
        raise ModuleError(
            f"The module does not state {attribute}, and its {sources} {counts}. Add {attribute}=N to the line that"
            " begins with HloModule; a proto cannot state it, so write the module as text."
        )
    return 1


def _sharded(module: Module, mesh_sizes: Sequence[int]) -> _Evidence:
    exact = {size for size in mesh_sizes if size > 1}
    least = 1
    for sharding in _shardings(module):
        if sharding.tile_assignment_dimensions:
            exact.add(math.prod(sharding.tile_assignment_dimensions))
        elif mesh := _named_mesh(sharding):
            exact.add(math.prod(axis.size for axis in mesh.axes))
        elif sharding.tile_assignment_devices:  # on one device
            least = max(least, max(sharding.tile_assignment_devices) + 1)
    exact.discard(1)
    return _Evidence(frozenset(exact), max(exact, default=least), "shardings")


def _shardings(module: Module) -> Iterator[Any]:
    """Yields the distinct shardings of a module. Tuple shardings are split into their elements."""
    waiting = list(module.columns.messages("xla.OpSharding", module.columns.coded(SHARDING).values))
    while waiting:
        sharding = waiting.pop()
        waiting += sharding.tuple_shardings
        if not sharding.tuple_shardings:
            yield sharding


def _named_mesh(sharding: Any) -> Any:
    """Returns the mesh of a named sharding, which only newer jaxlibs have; None for other shardings."""
    is_named = "named_sharding" in sharding.DESCRIPTOR.fields_by_name and sharding.HasField("named_sharding")
    return sharding.named_sharding.mesh if is_named else None


def _is_manual(sharding: Any) -> bool:
    types = sharding.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    if any(types[number].name == _MANUAL for number in (sharding.type, *sharding.last_tile_dims)):
        return True
    return _named_mesh(sharding) is not None and bool(sharding.named_sharding.manual_axes)


def _modes(module: Module) -> Iterator[tuple[Instruction, GroupMode]]:
    for row in module.columns.rows_of(_COLLECTIVES.__contains__):
        instruction = module.at(row)
        yield instruction, instruction.group_mode


def _collectives(module: Module) -> dict[GroupMode, _Evidence]:
    exact: dict[GroupMode, set[int]] = {mode: set() for mode in GroupMode}
    least = dict.fromkeys(GroupMode, 1)
    permuted: dict[GroupMode, set[int]] = {mode: set() for mode in GroupMode}
    for instruction, mode in _modes(module):
        if instruction.opcode in _PERMUTES:
            ids = {i for pair in instruction.source_target_pairs for i in pair}
            largest = max(ids, default=0)
            permuted[mode] |= ids
        else:
            groups = instruction.replica_groups
            largest = max(groups.largest_id(1), 0)
            if math.prod(groups.shape(1)) == largest + 1 > 1:  # every id occurs once
                exact[mode].add(largest + 1)
        least[mode] = max(least[mode], largest + 1)
    # Pairs may omit devices. If they name all ids up to the largest, that is most likely the last device.
    return {
        mode: _Evidence(frozenset(exact[mode]), least[mode], "replica groups", len(permuted[mode]) == least[mode])
        for mode in GroupMode
    }
