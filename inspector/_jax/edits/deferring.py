"""Moves all-reduces out of loops that only accumulate or stack their results, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations of StableHLO).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import distinct_operations, inline_calls, inline_users
from inspector._jax.edits.narrowing import retype_reduction

_ALL_REDUCE, _WHILE = "stablehlo.all_reduce", "stablehlo.while"
_COMBINING = frozenset({"stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"})
_STACKING = "stablehlo.dynamic_update_slice"
_UNIT_DIMENSIONS = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim"})


def defer_collectives(module: ir.Module, main: Any, op_names: Collection[str]) -> int:
    """Moves all-reduces behind their innermost loops.

    Args:
      module: the module.
      main: its `main` function.
      op_names: full JAX names of all-reduces whose results the loop only accumulates with the same operation, or stacks.

    Returns:
      The number of all-reduces that were moved.
    """
    kinds = frozenset({_ALL_REDUCE})
    inline_calls(module, main, kinds, op_names)
    return sum(_defer(module, each) for each in distinct_operations(module, main, kinds, op_names))


def _defer(module: ir.Module, reduce: Any) -> bool:
    loop = reduce.parent.operation
    kept = _kept(module, reduce)
    if loop.name != _WHILE or kept is None:
        return False
    (end,) = kept.results[0].uses
    place = end.operand_number
    if any(True for _ in loop.regions[0].blocks[0].arguments[place].uses):
        return False  # the loop ends by it
    if _adds(reduce) and not is_zero(loop.operands[place]):
        return False  # each device would add the initial value
    result = loop.results[place]
    users = [(use.owner.operation, use.operand_number) for use in result.uses]
    block = loop.block
    operations = [each.operation for each in block.operations]
    after = operations[operations.index(loop) + 1]
    once = reduce.clone(ip=ir.InsertionPoint(after))
    once.operands[0] = result
    once.results[0].set_type(result.type)
    retype_reduction(once.regions[0].blocks[0], ir.RankedTensorType(result.type).element_type)  # maybe a wider one
    for user, number in users:
        user.operands[number] = once.results[0]
    reduce.results[0].replace_all_uses_with(reduce.operands[0])
    reduce.erase()
    return True


def _adds(reduce: Any) -> bool:
    return bool(reduce.regions[0].blocks[0].operations[0].operation.name == "stablehlo.add")


def _scales(user: Any, number: int) -> bool:
    """Reports whether an operation multiplies or divides an operand by a constant."""
    if user.name != "stablehlo.multiply" and (user.name != "stablehlo.divide" or number != 0):
        return False
    return constant_behind(user.operands[1 - number]) is not None


def _widens(user: Any) -> bool:
    """Reports whether an operation converts floats to a wider type."""
    if user.name != "stablehlo.convert":
        return False
    types = [ir.RankedTensorType(each.type).element_type for each in (user.operands[0], user.results[0])]
    if not all(isinstance(each, ir.FloatType) for each in types):
        return False
    before, after = (ir.FloatType(each).width for each in types)
    return bool(before < after)


def constant_behind(value: Any) -> Any | None:
    """Returns the constant that a value is, also if it is broadcast; None for others."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _UNIT_DIMENSIONS:
        value = value.owner.operation.operands[0]
    is_constant = not isinstance(value.owner, ir.Block) and value.owner.operation.name == "stablehlo.constant"
    return value.owner.operation if is_constant else None


def is_zero(value: Any) -> bool:
    """Reports whether an array is a constant that has only zeros."""
    constant = constant_behind(value)
    if constant is None:
        return False
    number: Any = ir.DenseElementsAttr(constant.attributes["value"])
    return bool(number.is_splat and not number.get_splat_value().value)


def _users(module: ir.Module, operation: Any) -> list[Any]:
    """Returns the operations that use a result. Calls that take it are inlined."""
    inline_users(module, operation.results[0])
    return [use.owner.operation for use in operation.results[0].uses]


def _keeps_element(selection: Any, new: Any) -> bool:
    """Reports whether a selection takes a new version of an element of a loop, or the element as it was."""
    old = [each for each in (selection.operands[1], selection.operands[2]) if each != new.results[0]]
    return len(old) == 1 and old[0] in [*new.operands] and isinstance(old[0].owner, ir.Block)


def _kept(module: ir.Module, reduce: Any) -> Any | None:
    """Returns the operation that accumulates or stacks the result of an all-reduce; None for other uses."""
    value = reduce.results[0]
    while True:
        inline_users(module, value)
        uses = [(use.owner.operation, use.operand_number) for use in value.uses]
        if len(uses) != 1:
            return None
        ((user, number),) = uses
        if user.name in _UNIT_DIMENSIONS or _widens(user) or (_adds(reduce) and _scales(user, number)):
            value = user.results[0]
        elif user.name in _COMBINING or (user.name == _STACKING and number == 1):
            ends = _users(module, user)
            if len(ends) == 1 and ends[0].name == "stablehlo.select" and _keeps_element(ends[0], user):
                user = ends[0]
                ends = _users(module, user)
            return user if len(ends) == 1 and ends[0].name == "stablehlo.return" else None
        else:
            return None
