"""Operations that write an array as a whole although a slice of it changes, in the HLO before optimization.

Five forms are recognized: `where(arange(n) == i, new, cache)`, `cache * (1 - one_hot) + new * one_hot`, a concatenation of slices of the
cache with new values, a slice that is updated in a wider type than that of the cache, and the slice of a larger array that a loop takes,
updates in a part, and writes back as a whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from inspector.analysis.findings.before import MOVING, full_name, moved_from, uses
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.detectors.memory.loop_slices import (
    LoopSlice,
    loop_slice,
)

LEAST_LENGTH = 8
"""The fewest parts of an array of which one changes."""
UPDATES = frozenset({"dynamic-update-slice", "scatter"})
"""Operations that replace a part of their first operand."""

# The code to write instead.
RING_UPDATE = (
    "jax.lax.dynamic_update_slice_in_dim(cache, new, i % length, axis)  # a ring buffer, with the cache donated"
)
RING = "A ring buffer has the entries in another order."
NARROW_UPDATE = "jax.lax.dynamic_update_slice_in_dim(cache, new.astype(cache.dtype), i, axis)  # with the cache donated"
UPDATE_EACH = (
    "jax.vmap(lambda cache, new, i: jax.lax.dynamic_update_index_in_dim(cache, new, i, axis))(cache, new, positions)"
    "  # with the cache donated"
)
_UPDATE = "jax.lax.dynamic_update_slice_in_dim(cache, new, i, axis)  # with the cache donated"
_IN_CARRY = "  # the caches of all layers, in the carry of the loop; then read caches[layer]"
IN_LOOP = {
    _UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None], (layer, 0, i, 0)){_IN_CARRY}",
    RING_UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None], (layer, 0, i % length, 0)){_IN_CARRY}",
    UPDATE_EACH: f"caches.at[layer, jnp.arange(len(positions)), positions].set(new){_IN_CARRY}",
    NARROW_UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None].astype(caches.dtype), (layer, 0, i, 0)){_IN_CARRY}",
}
"""That code for a slice that a loop takes and writes back."""


class Rewrite(NamedTuple):
    """An array that is written as a whole.

    Attributes:
      value: the operation that writes it.
      state: the array before.
      length: the number of parts of which one changes.
      how: how it is written, in words.
      remedy: code to write instead.
      is_provable: whether a proof can update the slice: it has one position, and the others stay.
      part: the slice of an array that the array is; None if it is a whole one.
      update: the update that writes the slice back.
    """

    value: Value
    state: Value
    length: int
    how: str
    remedy: str
    is_provable: bool
    part: LoopSlice | None = None
    update: Value | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of the operations that write the array."""
        return (full_name(self.value), *([] if self.update is None else [full_name(self.update)]))


def rewritten(value: Value) -> Rewrite | None:
    """Returns how an operation writes such an array; None for other operations."""
    opcode = value.instruction.opcode
    if opcode == "select":
        return _selected(value)
    if opcode == "convert":
        return _converted(value)
    if opcode in UPDATES:
        return _updated(value)
    return _added(value) if opcode == "add" else _concatenated(value)


def _selected(value: Value) -> Rewrite | None:
    mask, state = _one_hot(moved_from(value.operand(0))), value.operand(2)
    if mask is None or not _is_state(state, value):
        return None
    return Rewrite(value, state, mask.length, "by a selection with a mask", mask.remedy, mask.is_single)


def _added(value: Value) -> Rewrite | None:
    products = [operand for operand in value.operands if operand.instruction.opcode == "multiply"]
    if len(products) < 2:  # one for the old and one for the new values
        return None
    for old, new in (products, reversed(products)):
        states = [factor for factor in old.operands if _is_state(factor, value)]
        kept = [moved_from(factor) for factor in old.operands]
        masks = [factor for factor in kept if factor.instruction.opcode == "subtract"]
        hot = next(filter(None, (_one_hot(moved_from(factor)) for factor in new.operands)), None)
        if states and hot is not None and any(_one_hot(moved_from(mask.operand(1))) == hot for mask in masks):
            return Rewrite(value, states[0], hot.length, "by products with a one-hot mask", hot.remedy, hot.is_single)
    return None


def _converted(value: Value) -> Rewrite | None:
    """Returns the rewrite of an array that is converted to another type, updated, and converted back."""
    if value.instruction.operands[0].opcode not in UPDATES | {"call"}:  # most conversions
        return None
    update = value.operand(0)
    if update.instruction.opcode not in UPDATES:
        return None
    wide, new = update.operand(0), update.operand(1 if update.instruction.opcode == "dynamic-update-slice" else 2)
    if wide.instruction.opcode != "convert":
        return None
    state, shape = wide.operand(0), value.instruction.shape
    length = math.prod(shape.dimensions) // max(1, math.prod(new.instruction.shape.dimensions))
    if (
        length < LEAST_LENGTH
        or not _is_state(state, value)
        or state.instruction.shape.element_type != shape.element_type
    ):
        return None
    how = f"by a conversion to {wide.instruction.shape.element_type} and back"
    return Rewrite(value, state, length, how, NARROW_UPDATE, is_provable=False)


def _updated(value: Value) -> Rewrite | None:
    """Returns the rewrite of a slice that a loop takes and updates in a part."""
    state, new = value.operand(0), value.operand(1 if value.instruction.opcode == "dynamic-update-slice" else 2)
    length = math.prod(value.instruction.shape.dimensions) // max(1, math.prod(new.instruction.shape.dimensions))
    if loop_slice(state) is None or length < LEAST_LENGTH or not _is_state(state, value):
        return None
    is_provable = value.instruction.opcode == "dynamic-update-slice"
    return Rewrite(value, state, length, "by the loop's write-back", _UPDATE, is_provable)


def _concatenated(value: Value) -> Rewrite | None:
    (axis,) = value.instruction.dimensions
    whole = value.instruction.shape.dimensions
    parts = [*value.operands]
    slices = [
        part
        for part in parts
        if part.instruction.opcode == "slice" and part.instruction.operands[0].shape.dimensions == whole
    ]
    states = {part.operand(0) for part in slices if _is_state(part.operand(0), value)}
    if len(states) != 1:
        return None
    (state,) = states
    new = [part for part in parts if part not in slices or part.operand(0) != state]
    changed = sum(part.instruction.shape.dimensions[axis] for part in new)
    if not changed or whole[axis] < LEAST_LENGTH or changed > whole[axis] // LEAST_LENGTH:
        return None
    starts = [int(part.instruction.proto.slice_dimensions[axis].start) for part in slices if part not in new]
    is_shifted = len(starts) == 1 and bool(starts[0]) == (parts[-1] in new)
    how = "by a concatenation that shifts it" if is_shifted else "by a concatenation"
    remedy = RING_UPDATE if is_shifted else _UPDATE
    return Rewrite(value, state, whole[axis] // changed, how, remedy, not is_shifted)


class _Mask(NamedTuple):
    """A mask that is true at one of `length` positions; everywhere at the same one if `is_single`."""

    length: int
    is_single: bool

    @property
    def remedy(self) -> str:
        """The update of the slice: at one position, or at one of each example."""
        return _UPDATE if self.is_single else UPDATE_EACH


def _one_hot(mask: Value) -> _Mask | None:
    """Returns a mask that is true at one position, which is positions compared with an index; None for others."""
    while mask.instruction.opcode == "convert":
        mask = moved_from(mask.operand(0))
    if mask.instruction.opcode != "compare" or mask.instruction.proto.comparison_direction != "EQ":
        return None
    sides = [*mask.operands]
    counters = [side for side in sides if _count(side)]
    if len(counters) != 1:
        return None
    (index,) = (side for side in sides if side is not counters[0])
    length = _count(counters[0])
    is_index = _fewest(index) * length <= math.prod(mask.instruction.shape.dimensions)
    return _Mask(length, _fewest(index) == 1) if is_index and length >= LEAST_LENGTH else None


def _count(side: Value) -> int:
    """Returns the number of positions that a side of a comparison counts; 0 if it does not, or if it is one of them."""
    counter = moved_from(side).instruction
    if counter.opcode != "iota":
        return 0
    (axis,) = counter.dimensions or (0,)
    length = counter.shape.dimensions[axis]
    return length if _fewest(side) >= length else 0


def _fewest(value: Value) -> int:
    """Returns the smallest number of elements of a value and of those that it is moved from."""
    fewest = math.prod(value.instruction.shape.dimensions)
    while value.instruction.opcode in MOVING:
        value = value.operand(0)
        fewest = min(fewest, math.prod(value.instruction.shape.dimensions))
    return fewest


def _is_state(state: Value, result: Value) -> bool:
    """Reports whether a value is an argument of the program or carried by a loop, or a slice of one, with the shape of the result.

    An argument that enters a `shard_map` has another shape there, so the caller compares the shapes of operands where they can differ.
    """
    part = loop_slice(state)
    instruction = source(state if part is None else part.array).instruction
    is_argument = instruction.opcode == "parameter" and instruction.computation.is_entry
    if is_argument and part is None:
        return True
    is_carried = instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "parameter"
    has_shape = source(state).instruction.shape.dimensions == result.instruction.shape.dimensions
    return (is_argument or is_carried) and has_shape


def is_result(value: Value) -> bool:
    """Reports whether a value is a result of the program."""
    return any(use.user is None for use in uses(value))
