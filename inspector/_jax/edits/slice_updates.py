"""Replaces operations that write a whole array, of which a slice changes, by updates of the slice, in StableHLO modules.

Three forms are recognized: `select(positions == i, new, array)`, `array * (1 - hot) + new * hot`, and a concatenation of slices of
the array, at their places, with new values. The array may be a slice that a loop takes of a larger one and writes back: then the
larger one is updated in the loop. That slice may also be updated in a part already.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import distinct_operations, inline_callee, inline_calls

_CALL, _BROADCAST = "func.call", "stablehlo.broadcast_in_dim"
_RESHAPE, _TAKE, _WRITE, _WHILE = (
    "stablehlo.reshape",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.while",
)
_WRITING = frozenset({"stablehlo.select", "stablehlo.add", "stablehlo.concatenate", _WRITE})
_MOVING = frozenset({_BROADCAST, "stablehlo.reshape", "stablehlo.transpose", "stablehlo.convert"})
_MASKING = _MOVING | {
    "stablehlo.select",
    "stablehlo.add",
    "stablehlo.multiply",
    "stablehlo.subtract",
    "stablehlo.compare",
}
"""Operations between a written array and the positions that its mask compares."""


class _Slice(NamedTuple):
    """A slice that changes.

    Attributes:
      state: the array.
      new: an array of the same shape that has the new values at the slice.
      dimension: the dimension along which the slice has one element.
      position: its position, as an array with one element.
    """

    state: Any
    new: Any
    dimension: int
    position: Any


def update_slices(module: ir.Module, main: Any, op_names: Collection[str]) -> int:
    """Replaces operations by updates of the slice that changes.

    Args:
      module: the module.
      main: its `main` function.
      op_names: JAX's full names of the operations.

    Returns:
      The number of operations that were replaced.
    """
    inline_calls(module, main, _WRITING, op_names, in_loops=False)
    places = 0
    for operation in distinct_operations(module, main, _WRITING, op_names):
        while (call := _call_behind(operation) or _call_after(operation)) is not None:
            inline_callee(module, call)
        if operation.name == "stablehlo.concatenate":
            places += _update_pieces(operation)
        else:
            places += _update_larger(operation) if operation.name == _WRITE else _update(operation)
    return places


def _call_behind(operation: Any) -> Any | None:
    """Returns a call that computes the mask of an operation, or takes the slice that it updates; None if there is none."""
    if operation.name == _WRITE:
        maker = _unshaped(operation.operands[0])
        return maker if maker is not None and maker.name == _CALL else None
    waiting, seen = [operation], set[Any]()
    while waiting:
        now = waiting.pop()
        for operand in now.operands:
            maker = _maker(operand)
            if maker is None or operand in seen:
                continue
            seen.add(operand)
            if maker.name == _CALL:
                return maker
            if maker.name in _MASKING:
                waiting.append(maker)
    return None


def _call_after(operation: Any) -> Any | None:
    """Returns a call that may write the new version of a loop's slice back; None if there is none."""
    if operation.name == "stablehlo.concatenate":
        return None
    state = operation.operands[0]
    if operation.name != _WRITE:
        place = _selected(operation) if operation.name == "stablehlo.select" else _added(operation)
        state = None if place is None else place.state
    if state is None or _taken(state) is None:
        return None
    return next((user for user in _users(operation) if user.name == _CALL), None)


def _users(operation: Any) -> Iterator[Any]:
    """Yields the users of an operation's result, and those of its reshaped versions."""
    waiting = [operation]
    while waiting:
        for use in waiting.pop().results[0].uses:
            user = use.owner.operation
            if user.name in (_RESHAPE, _BROADCAST):
                waiting.append(user)
            yield user


def _taken(value: Any) -> Any | None:
    """Returns the operation that takes a slice of what a loop carries, if a value is one; None for others."""
    maker = _unshaped(value)
    is_slice = maker is not None and maker.name == _TAKE and _loop_of(maker.operands[0]) is not None
    return maker if is_slice else None


def _unshaped(value: Any) -> Any | None:
    """Returns the operation that computes a value, in front of reshapes."""
    maker = _maker(value)
    while maker is not None and maker.name == _RESHAPE:
        maker = _maker(maker.operands[0])
    return maker


def _loop_of(value: Any) -> Any | None:
    """Returns the loop that carries a value; None for other values."""
    if not isinstance(value.owner, ir.Block):
        return None
    owner = value.owner.owner.operation
    return owner if owner.name == _WHILE else None


def _update(operation: Any) -> bool:
    """Replaces a selection or a sum of products; returns False, and changes nothing, if it is not of a known form."""
    place = _selected(operation) if operation.name == "stablehlo.select" else _added(operation)
    result = ir.RankedTensorType(operation.results[0].type)
    if place is None or place.state.type != result or place.new.type != result:
        return False
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(place.position.type).element_type)
    at = ir.InsertionPoint(operation)
    position = ir.Operation.create(_RESHAPE, [scalar], [place.position], ip=at).results[0]
    starts = [position if d == place.dimension else _constant(operation, scalar, 0) for d in range(result.rank)]
    new = _cut(operation, place, starts)
    updated = _updated_in_loop(operation, place.state, new, {place.dimension: position})
    operation.results[0].replace_all_uses_with(updated or _updated(operation, place.state, new, starts))
    operation.erase()
    return True


def _update_larger(operation: Any) -> bool:
    """Replaces the update of a slice by an update of the larger array from which a loop takes it; returns False if there is none."""
    state, new, *starts = operation.operands
    updated = _updated_in_loop(operation, state, new, dict(enumerate(starts)))
    if updated is not None:
        operation.results[0].replace_all_uses_with(updated)
        operation.erase()
    return updated is not None


def _updated_in_loop(operation: Any, state: Any, new: Any, positions: Mapping[int, Any]) -> Any | None:
    """Updates the array of which a loop takes a slice, instead of the slice.

    Args:
      operation: the operation that writes the slice.
      state: the slice.
      new: the new values.
      positions: their first positions as scalars, by dimension of the slice; 0 in others.

    Returns:
      The new version of the slice; None, without a change, if the loop does not write it back.
    """
    taken = _taken(state)
    back = next((user for user in _users(operation) if user.name in (_WRITE, "stablehlo.scatter")), None)
    if taken is None or back is None or back.operands[0].type != taken.operands[0].type:
        return None
    (old, *starts), array, at = taken.operands, back.operands[0], ir.InsertionPoint(operation)
    loop, shape = _loop_of(old), [*ir.RankedTensorType(state.type).shape]
    sizes = [*ir.DenseI64ArrayAttr(taken.attributes["slice_sizes"])]
    moved = [d for d, start in enumerate(starts) if sizes[d] == 1 and not _is_constant(start)]
    kept = [d for d in range(len(sizes)) if d not in moved[: len(sizes) - len(shape)]]
    if _loop_of(array) != loop or loop is None or [sizes[d] for d in kept] != shape:
        return None
    if array != old:  # a new array: it begins as the old one, of which each slice is read before it is written
        if any(use.owner.operation != back for use in array.uses if use.owner.operation.block == back.block):
            return None
        loop.operands[array.arg_number] = loop.operands[old.arg_number]
    for place, size in zip(kept, ir.RankedTensorType(new.type).shape, strict=True):
        sizes[place] = size
    part = ir.RankedTensorType.get(sizes, ir.RankedTensorType(array.type).element_type)
    new = ir.Operation.create(_RESHAPE, [part], [new], ip=at).results[0]
    for dimension, position in positions.items():
        axis = kept[dimension]
        starts[axis] = ir.Operation.create("stablehlo.convert", [starts[axis].type], [position], ip=at).results[0]
    updated = _updated(operation, array, new, starts)
    attributes = {"slice_sizes": taken.attributes["slice_sizes"]}
    read = ir.Operation.create(
        _TAKE, [taken.results[0].type], [updated, *[*taken.operands][1:]], attributes, loc=taken.location, ip=at
    )
    back.results[0].replace_all_uses_with(updated)
    back.erase()
    return ir.Operation.create(_RESHAPE, [state.type], [read.results[0]], ip=at).results[0]


def _is_constant(value: Any) -> bool:
    maker = _maker(value)
    return maker is not None and maker.name == "stablehlo.constant"


def _update_pieces(whole: Any) -> bool:
    """Replaces a concatenation of slices of one array, at their places, with other parts."""
    result = ir.RankedTensorType(whole.results[0].type)
    dimension = ir.IntegerAttr(whole.attributes["dimension"]).value
    states, parts, start = list[Any](), list[tuple[int, Any]](), 0
    for operand in whole.operands:
        maker = _maker(operand)
        if (
            maker is not None
            and maker.name == "stablehlo.slice"
            and maker.operands[0].type == result
            and [*ir.DenseI64ArrayAttr(maker.attributes["start_indices"])][dimension] == start
        ):
            states.append(maker.operands[0])
        else:
            parts.append((start, operand))
        start += ir.RankedTensorType(operand.type).shape[dimension]
    if not states or not parts or any(each != states[0] for each in states):
        return False
    value, scalar = states[0], ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    for start, part in parts:
        starts = [_constant(whole, scalar, start if d == dimension else 0) for d in range(result.rank)]
        value = _updated(whole, value, part, starts)
    whole.results[0].replace_all_uses_with(value)
    whole.erase()
    return True


def _selected(select: Any) -> _Slice | None:
    mask, new, state = select.operands
    found = _one_position(mask)
    return None if found is None else _Slice(state, new, *found)


def _added(total: Any) -> _Slice | None:
    """Returns the slice that a sum of an array times `1 - hot` and new values times `hot` changes; None for other sums."""
    products = [_maker(operand) for operand in total.operands]
    factors = [tuple(each.operands) for each in products if each is not None and each.name == "stablehlo.multiply"]
    if len(factors) < 2:
        return None
    for old, added in (factors, factors[::-1]):
        for state, kept in (old, old[::-1]):
            found = _one_position(kept, is_negated=True)
            for new, hot in (added, added[::-1]):
                if found is not None and _one_position(hot) == found:
                    return _Slice(state, new, *found)
    return None


def _one_position(mask: Any, *, is_negated: bool = False) -> tuple[int, Any] | None:
    """Returns the dimension along which a mask is true at one position, and the position; None for other masks.

    Args:
      mask: the mask, or numbers that are 1 there and 0 elsewhere.
      is_negated: whether the mask is subtracted from 1.
    """
    value, dimensions = _unmoved(mask, range(ir.RankedTensorType(mask.type).rank))
    maker = _maker(value)
    if is_negated:
        if maker is None or maker.name != "stablehlo.subtract":
            return None
        value, dimensions = _unmoved(maker.operands[1], dimensions)
        maker = _maker(value)
    if maker is None or maker.name != "stablehlo.compare" or "EQ" not in str(maker.attributes["comparison_direction"]):
        return None
    for counted, other in (maker.operands, [*maker.operands][::-1]):
        counter, along = _unmoved(counted, dimensions)
        made = _maker(counter)
        if made is not None and made.name == "stablehlo.iota":
            dimension = along[ir.IntegerAttr(made.attributes["iota_dimension"]).value]
            position, _ = _unmoved(other, dimensions)
            if dimension is not None and math.prod(ir.RankedTensorType(position.type).shape) == 1:
                return dimension, position
    return None


def _unmoved(value: Any, dimensions: Sequence[int | None]) -> tuple[Any, Sequence[int | None]]:
    """Follows a value through conversions, reshapes and repetitions to the one that they move.

    Args:
      value: the value.
      dimensions: for each of its dimensions, which one of the whole array it is; None for one that is repeated.
    """
    while (maker := _maker(value)) is not None and maker.name in _MOVING:
        inner, outer = ([*ir.RankedTensorType(each.type).shape] for each in (maker.operands[0], value))
        if maker.name == _BROADCAST:
            places = [*ir.DenseI64ArrayAttr(maker.attributes["broadcast_dimensions"])]
            dimensions = [dimensions[d] if size == outer[d] else None for size, d in zip(inner, places, strict=True)]
        elif maker.name == "stablehlo.transpose":
            order = [*ir.DenseI64ArrayAttr(maker.attributes["permutation"])]
            dimensions = [dimensions[order.index(d)] for d in range(len(order))]
        elif maker.name == "stablehlo.reshape":
            if [size for size in inner if size > 1] != [size for size in outer if size > 1]:
                break
            longer = iter([d for d, size in zip(dimensions, outer, strict=True) if size > 1])
            dimensions = [next(longer) if size > 1 else None for size in inner]
        value = maker.operands[0]
    return value, dimensions


def _cut(operation: Any, place: _Slice, starts: Sequence[Any]) -> Any:
    """Returns the slice of the new values. Values that are only repeated along the dimension are repeated less often."""
    whole, maker = ir.RankedTensorType(place.new.type), _maker(place.new)
    sizes = [1 if d == place.dimension else size for d, size in enumerate(whole.shape)]
    type_, at = ir.RankedTensorType.get(sizes, whole.element_type), ir.InsertionPoint(operation)
    if maker is not None and maker.name == _BROADCAST:
        places = [*ir.DenseI64ArrayAttr(maker.attributes["broadcast_dimensions"])]
        inner = [*ir.RankedTensorType(maker.operands[0].type).shape]
        if place.dimension not in places or inner[places.index(place.dimension)] == 1:
            attributes = {"broadcast_dimensions": maker.attributes["broadcast_dimensions"]}
            return ir.Operation.create(
                _BROADCAST, [type_], [maker.operands[0]], attributes, loc=operation.location, ip=at
            ).results[0]  # fmt: skip
    lengths: dict[str, ir.Attribute] = {"slice_sizes": ir.DenseI64ArrayAttr.get(sizes)}
    return ir.Operation.create(
        "stablehlo.dynamic_slice", [type_], [place.new, *starts], lengths, loc=operation.location, ip=at
    ).results[0]  # fmt: skip


def _updated(operation: Any, state: Any, new: Any, starts: Sequence[Any]) -> Any:
    """Returns an array with a slice replaced."""
    return ir.Operation.create(
        "stablehlo.dynamic_update_slice", [state.type], [state, new, *starts], loc=operation.location,
        ip=ir.InsertionPoint(operation),
    ).results[0]  # fmt: skip


def _constant(operation: Any, type_: Any, number: int) -> Any:
    value = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(type_.element_type, number))
    return ir.Operation.create(
        "stablehlo.constant", [type_], attributes={"value": value}, ip=ir.InsertionPoint(operation)
    ).results[0]  # fmt: skip


def _maker(value: Any) -> Any | None:
    """Returns the operation that computes a value, also in front of a loop that carries it unchanged; None for other arguments."""
    while (loop := _loop_of(value)) is not None:
        body, number = loop.regions[1].blocks[0], value.arg_number
        if [*body.operations][-1].operation.operands[number] != body.arguments[number]:
            return None
        value = loop.operands[number]
    return value.owner.operation if isinstance(value.owner, (ir.Operation, ir.OpView)) else None
