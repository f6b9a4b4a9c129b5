"""Stores parameters, and elements that loops carry, in a narrower type, in StableHLO modules, and sends collectives in it.

The narrower type is passed on through operations that only move values, and through loops. Calls on the way are inlined. Every other use
gets the array converted to the type that it had.

Private JAX: `jaxlib.mlir` (operations and types of StableHLO).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import COLLECTIVES, inline_users

_WHILE, _CONVERT, _RETURN = "stablehlo.while", "stablehlo.convert", "func.return"
_UPDATE = "stablehlo.dynamic_update_slice"
_SELECT, _SHARD_MAP, _SHARD_MAP_RETURN = "stablehlo.select", "sdy.manual_computation", "sdy.return"
MOVING = frozenset({
    "stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.slice", "stablehlo.dynamic_slice",
    "stablehlo.reverse", "sdy.sharding_constraint",
})  # fmt: skip
"""Operations whose result has values of their first operand only, in other places."""

_STORING = MOVING | {_UPDATE, "stablehlo.gather"}


def narrow_parameters(
    module: ir.Module, main: Any, parameters: Sequence[int], narrow: Any, results: Collection[int] = ()
) -> int:
    """Takes parameters of `main` in a narrower type, and returns some results in it. Returns how many parameters were changed."""
    block = main.regions[0].blocks[0]
    for number in parameters:
        _Narrowing(module, narrow, _element(block.arguments[number]), results).store(block.arguments[number])
    inputs = [argument.type for argument in block.arguments]
    outputs = [value.type for value in list(block.operations)[-1].operation.operands]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    return len(parameters)


def narrow_elements(module: ir.Module, loop: Any, wide: Any, narrow: Any, *, are_read: bool = False) -> int:
    """Carries the elements of a type that a loop changes, or those that it only reads and that were converted, in a narrower type.

    Returns how many were changed.
    """
    body = loop.regions[1].blocks[0]
    ends = list(body.operations)[-1].operation.operands
    numbers = [
        n
        for n, (a, end) in enumerate(zip(body.arguments, ends, strict=True))
        if a.type == wide and (a == end) == are_read and (not are_read or _was_narrow(loop.operands[n], narrow))
    ]
    for number in numbers:
        _Narrowing(module, narrow, wide.element_type).carry(loop, number)
    return len(numbers)


class _Narrowing:
    """Stores one array in a narrower type."""

    def __init__(self, module: ir.Module, narrow: Any, wide: Any, results: Collection[int] = ()) -> None:
        """Stores the element types, and the numbers of the results of `main` that may be narrow."""
        self._module, self._narrow, self._wide, self._results = module, narrow, wide, results

    def store(self, value: Any) -> None:
        """Gives a value the narrower type, and passes it on to its uses."""
        if _element(value) == self._narrow:
            return
        value.set_type(_with_element(value, self._narrow))
        inline_users(self._module, value)
        for use in [(use.owner.operation, use.operand_number) for use in value.uses]:
            self._pass_on(value, *use)

    def carry(self, loop: Any, number: int) -> None:
        """Gives an element of a loop the narrower type."""
        blocks = [region.blocks[0] for region in loop.regions]
        end = list(blocks[1].operations)[-1].operation
        self._convert(loop, number, self._narrow)
        for block in blocks:
            self.store(block.arguments[number])
        self.store(loop.results[number])
        self._convert(end, number, self._narrow)

    def _pass_on(self, value: Any, user: Any, number: int) -> None:
        if user.name == _CONVERT and _element(user.results[0]) == self._narrow:
            user.results[0].replace_all_uses_with(value)
            user.erase()
        elif user.name in _STORING and number == 0:
            if user.name == _UPDATE:
                self._convert(user, 1, self._narrow)
            self.store(user.results[0])
        elif user.name == _UPDATE and number == 1 and self._results and (place := _carried_place(user)) is not None:
            self.carry(user.parent.operation, place)  # the loop stacks the next versions of slices
        elif user.name == _SELECT and number > 0 and self._results:
            # Elsewhere the other operand may need the wide type.
            self._convert(user, 3 - number, self._narrow)
            self.store(user.results[0])
        elif user.name == _SHARD_MAP:
            self.store(user.regions[0].blocks[0].arguments[number])
        elif user.name == _SHARD_MAP_RETURN:
            self.store(user.parent.operation.results[number])
        elif user.name == _WHILE:
            if _element(user.results[number]) != self._narrow:
                self.carry(user, number)
        elif not self._is_end_of_loop(user, number) and not (user.name == _RETURN and number in self._results):
            self._convert(user, number, self._wide)

    def _is_end_of_loop(self, user: Any, number: int) -> bool:
        """Reports whether a use ends an iteration of a loop that carries the value in the narrower type."""
        loop = user.parent.operation
        is_end = user.name == "stablehlo.return" and loop.name == _WHILE and user.block == loop.regions[1].blocks[0]
        return is_end and bool(_element(user.block.arguments[number]) == self._narrow)

    def _convert(self, user: Any, number: int, element_type: Any) -> None:
        """Converts an operand of an operation."""
        value = user.operands[number]
        if _element(value) == element_type:
            return
        user.operands[number] = _converted(value, element_type, ir.InsertionPoint(user))


def _carried_place(update: Any) -> int | None:
    """Returns the number of the element of a loop of which an update replaces a slice; None for other arrays."""
    loop, array = update.parent.operation, update.operands[0]
    if loop.name != _WHILE or update.block != loop.regions[1].blocks[0]:
        return None
    return next((n for n, each in enumerate(update.block.arguments) if each == array), None)


def narrow_collectives(operations: Iterable[Any], narrow: Any) -> int:
    """Converts the operands of collectives to a narrower type, and their results, and those of products, from it.

    Returns how many were changed.
    """
    return sum(_send_narrow(each, narrow) for each in operations)


def _send_narrow(operation: Any, narrow: Any) -> bool:
    if all(_element(each) == narrow for each in operation.results):
        return False
    if operation.name in COLLECTIVES:
        at = ir.InsertionPoint(operation)
        for number, operand in enumerate(operation.operands):
            operation.operands[number] = _converted(operand, narrow, at)
        for region in operation.regions:
            for block in region.blocks:
                retype_reduction(block, narrow)
    operations = [each.operation for each in operation.block.operations]
    after = ir.InsertionPoint(operations[operations.index(operation) + 1])
    for result in operation.results:
        wide = _element(result)
        uses = [(use.owner.operation, use.operand_number) for use in result.uses]
        result.set_type(_with_element(result, narrow))
        back = _converted(result, wide, after)
        for user, number in uses:
            user.operands[number] = back
    return True


def retype_reduction(block: Any, element_type: Any) -> None:
    """Gives the values of a reduction, which are scalars, another type."""
    for argument in block.arguments:
        argument.set_type(_with_element(argument, element_type))
    for inner in block.operations:
        for result in inner.operation.results:
            result.set_type(_with_element(result, element_type))


def _converted(value: Any, element_type: Any, at: Any) -> Any:
    made = ir.Operation.create(_CONVERT, results=[_with_element(value, element_type)], operands=[value], ip=at)
    return made.results[0]


def _was_narrow(value: Any, narrow: Any) -> bool:
    """Reports whether a value was converted from a narrower type."""
    owner = value.owner
    is_made = isinstance(owner, (ir.Operation, ir.OpView))
    return is_made and owner.name == _CONVERT and bool(_element(owner.operands[0]) == narrow)


def _element(value: Any) -> Any:
    return ir.RankedTensorType(value.type).element_type


def _with_element(value: Any, element_type: Any) -> Any:
    return ir.RankedTensorType.get(ir.RankedTensorType(value.type).shape, element_type)
