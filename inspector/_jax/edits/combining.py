"""Combines collectives that do not depend on each other into one, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, element_type_of, integer, shape_of

_ALL_REDUCE, _GATHER, _SCATTER, _ALL_TO_ALL, _PERMUTE = (
    f"stablehlo.{name}" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
)
COMBINED = frozenset({_ALL_REDUCE, _GATHER, _SCATTER, _ALL_TO_ALL, _PERMUTE})
_PEERS = ("replica_groups", "source_target_pairs", "split_count", "use_global_device_ids")
"""Attributes that say which devices exchange what."""
_DIMENSIONS = ("all_gather_dim", "scatter_dimension", "split_dimension", "concat_dimension")


def combine_collectives(collectives: Iterable[Any]) -> int:
    """Combines the collectives of each block that have the same kind, peers, reduction and element type, and do not depend on each other.

    Returns:
      The number of collectives that became part of another one.
    """
    groups: list[tuple[ir.Block, tuple[Any, ...], list[Any]]] = []
    for each in collectives:
        if len(each.operands) != 1:
            continue
        key = _key(each)
        members = next((one for block, other, one in groups if block == each.block and other == key), None)
        if members is None:
            groups.append((each.block, key, [each]))
        else:
            members.append(each)
    places = 0
    for block, _, members in groups:
        for level in _levels(block, members):
            if len(level) > 1:
                _move_operands(block, level)
                _combine(level)
                places += len(level)
    return places


def _key(collective: Any) -> tuple[Any, ...]:
    attributes = collective.attributes
    regions = [region.blocks[0].operations[0].operation.name for region in collective.regions]
    peers = [str(attributes[name]) if name in attributes else "" for name in _PEERS]
    return (collective.name, *regions, *peers, str(element_type_of(collective.operands[0])))


def _levels(block: Any, members: Sequence[Any]) -> list[list[Any]]:
    """Returns the members by the number of others that must run before them."""
    depths: dict[Any, int] = {}
    levels: dict[int, list[Any]] = {}
    for view in block.operations:
        operation = view.operation
        depth = max((depths.get(each, 0) for each in _used(operation)), default=0)
        if operation in members:
            levels.setdefault(depth, []).append(operation)
            depth += 1
        depths.update(dict.fromkeys(operation.results, depth))
    return list(levels.values())


def _move_operands(block: Any, members: Sequence[Any]) -> None:
    """Moves the operations that compute the operands of the members in front of the first member."""
    operations = [each.operation for each in block.operations]
    start = operations.index(members[0])
    needed = {each.operands[0] for each in members}
    moved: list[Any] = []
    for operation in reversed(operations[start:]):
        if operation not in members and any(each in needed for each in operation.results):
            needed.update(_used(operation))
            moved.append(operation)
    for operation in reversed(moved):
        operation.move_before(members[0])


def _used(operation: Any) -> list[Any]:
    """Returns the values that an operation uses, also in its regions."""
    used: list[Any] = []

    def visit(inner: Any) -> Any:
        used.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    return used


def _combine(members: Sequence[Any]) -> None:
    """Replaces collectives by the first one, of all their operands."""
    first = members[0]
    build = Builder(first)
    is_equal = all(
        each.operands[0].type == first.operands[0].type
        and all(
            str(each.attributes[name]) == str(first.attributes[name])
            for name in _DIMENSIONS
            if name in first.attributes
        )
        for each in members
    )
    results = _stacked(build, members) if is_equal else _joined(build, members)
    for each, result in zip(members, results, strict=True):
        each.results[0].replace_all_uses_with(result)
        each.erase()


def _stacked(build: Builder, members: Sequence[Any]) -> list[Any]:
    """Builds a collective of equal arrays that are stacked in a new last dimension. Returns its parts."""
    first = members[0]
    rank = len(shape_of(first.operands[0]))
    stacked = build.concatenate(
        [build.reshape(each.operands[0], [*shape_of(each.operands[0]), 1]) for each in members], rank
    )
    after = shape_of(first.results[0])
    result = _like(members[0], stacked, [*after, len(members)], {})
    return [build.reshape(build.part(result, rank, n, n + 1), after) for n in range(len(members))]


def _joined(build: Builder, members: Sequence[Any]) -> list[Any]:
    """Builds a collective of arrays of different shapes, each with a row for each peer. Returns its parts."""
    rows = [_rows(build, each) for each in members]
    widths = [shape_of(each)[1] for each in rows]
    received = shape_of(members[0].results[0]), shape_of(members[0].operands[0])
    sent = shape_of(rows[0])[0]
    change = math.prod(received[0]) / math.prod(received[1])  # gathers receive more, scatters less
    result = _like(
        members[0], build.concatenate(rows, 1), [round(sent * change), sum(widths)], dict.fromkeys(_DIMENSIONS, 0)
    )
    parts, start = [], 0
    for each, width in zip(members, widths, strict=True):
        parts.append(_unrowed(build, each, build.part(result, 1, start, start + width)))
        start += width
    return parts


def _rows(build: Builder, collective: Any) -> Any:
    """Returns the operand of a collective as a matrix, with a row for each device that gets a different part."""
    operand = collective.operands[0]
    name = {_SCATTER: "scatter_dimension", _ALL_TO_ALL: "split_dimension"}.get(collective.name)
    if name is None:
        return build.reshape(operand, [1, math.prod(shape_of(operand))])
    split, shape = _number(collective, name), shape_of(operand)
    parts = (
        _number(collective, "split_count")
        if collective.name == _ALL_TO_ALL
        else shape[split] // shape_of(collective.results[0])[split]
    )
    apart = build.reshape(operand, [*shape[:split], parts, shape[split] // parts, *shape[split + 1 :]])
    order = [split, *(d for d in range(len(shape) + 1) if d != split)]
    return build.reshape(build.transpose(apart, order), [parts, math.prod(shape) // parts])


def _unrowed(build: Builder, collective: Any, rows: Any) -> Any:
    """Returns the result of a collective from a matrix with a row for each device that sent a part."""
    after = shape_of(collective.results[0])
    name = {_GATHER: "all_gather_dim", _ALL_TO_ALL: "concat_dimension"}.get(collective.name)
    if name is None:
        return build.reshape(rows, after)
    count, joined = shape_of(rows)[0], _number(collective, name)
    one = [size // count if d == joined else size for d, size in enumerate(after)]
    order = [*range(1, joined + 1), 0, *range(joined + 1, len(after) + 1)]
    return build.reshape(build.transpose(build.reshape(rows, [count, *one]), order), after)


def _like(collective: Any, operand: Any, shape: Sequence[int], attributes: dict[str, int]) -> Any:
    """Returns the result of the same collective of another operand, in front of it.

    Args:
      collective: the collective.
      operand: the operand.
      shape: the shape of the result.
      attributes: new values of those of its attributes that are numbers.
    """
    made = collective.clone(ip=ir.InsertionPoint(collective)).operation
    made.operands[0] = operand
    made.results[0].set_type(ir.RankedTensorType.get([*shape], element_type_of(operand)))
    for name, number in attributes.items():
        if name in made.attributes:
            made.attributes[name] = integer(number)
    return made.results[0]


def _number(operation: Any, name: str) -> int:
    return int(ir.IntegerAttr(operation.attributes[name]).value)
