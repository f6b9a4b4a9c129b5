"""Cuts a StableHLO module down to some of its operations: intermediate values become arguments and results of `main`.

Calls in `main` are inlined first, so that they can be cut too. Operations with regions, such as loops, are kept whole;
`loop_body` makes the body of a loop a program that can be cut.

Private JAX: `jaxlib.mlir` (operations, types and blocks).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import callee_of, functions_of, inline_call
from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError

_CALL, _MAIN, _WHILE = "func.call", "main", "stablehlo.while"
_NAMES = frozenset({"sym_name", "sym_visibility", "function_type"})
_SHARDINGS = frozenset({"mhlo.sharding", "sdy.sharding"})


@dataclasses.dataclass(frozen=True, slots=True)
class SlicedValue:
    """A value of `main`: an argument, or a result of an operation.

    Attributes:
      shape: its shape.
      dtype: NumPy's name of its type; "" for a value that cannot be an argument or a result, such as a token.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True, slots=True)
class SlicedOperation:
    """An operation of `main`.

    Attributes:
      name: its name, such as `stablehlo.add`.
      op_name: JAX's name of the operation; "" if it has none.
      results: numbers of its results among the values.
      uses: numbers of the values that it uses, also in its regions.
      places: file and line of its Python frames, innermost first.
    """

    name: str
    op_name: str
    results: tuple[int, ...]
    uses: tuple[int, ...]
    places: tuple[tuple[str, int], ...] = ()

    @property
    def is_loop(self) -> bool:
        """Reports whether it is a loop; `loop_body` returns its body."""
        return self.name == _WHILE


@dataclasses.dataclass(frozen=True, slots=True)
class Sliceable:
    """A module that can be cut.

    Attributes:
      module: MLIR bytecode, with the calls of `main` inlined.
      values: the values of `main`: first its arguments, then the results of its operations in order.
      operations: its operations in order, without the last one, which returns the results.
      results: numbers of the values that it returns.
    """

    module: bytes
    values: tuple[SlicedValue, ...]
    operations: tuple[SlicedOperation, ...]
    results: tuple[int, ...]


def sliceable(module: bytes) -> Sliceable:
    """Inlines the calls of a module's `main` and describes its operations.

    Args:
      module: StableHLO as MLIR bytecode.

    Raises:
      ModuleError: the module cannot be read.
    """
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context, ir.Location.unknown(parsed.context):
        _inline_calls(parsed)
        return _described(parsed)


def loop_body(module: bytes, position: int) -> Sliceable:
    """Returns the body of a loop as a program of its own: one iteration.

    Its arguments are what the loop carries and the other values that its body uses; its results are what the loop carries.

    Args:
      module: `Sliceable.module`.
      position: position of the loop among the operations.

    Raises:
      ModuleError: the module cannot be read.
    """
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context, ir.Location.unknown(parsed.context):
        main = functions_of(parsed)[_MAIN]
        block = main.regions[0].blocks[0]
        *operations, end = _operations(block)
        body = operations[position].regions[1].blocks[0]
        *inner, last = _operations(body)
        for argument in body.arguments:
            argument.replace_all_uses_with(block.add_argument(argument.type, ir.Location.unknown()))
        for each in inner:
            each.move_before(end)
        _return(end, last.operands)
        for each in reversed(operations[position:]):
            each.erase()
        _set_interface(main, stablehlo.argument_attributes(main, "arg_attrs"))
        _inline_calls(parsed)
        opened = _described(parsed)
    kept, waiting = set[int](), [*opened.results]
    makers = {number: at for at, each in enumerate(opened.operations) for number in each.results}
    while waiting:
        at = makers.get(waiting.pop(), -1)
        if at >= position and at not in kept:
            kept.add(at)
            waiting += opened.operations[at].uses
    made = {number for at in kept for number in opened.operations[at].results}
    used = {number for at in kept for number in opened.operations[at].uses} | {*opened.results}
    inputs = sorted(used - made)
    return sliceable(sliced(opened.module, kept, inputs, opened.results))


def _inline_calls(module: ir.Module) -> None:
    functions = functions_of(module)
    block = functions[_MAIN].regions[0].blocks[0]
    while calls := [each for each in _operations(block) if each.name == _CALL]:
        for call in calls:
            inline_call(call, functions[callee_of(call)])
    _remove_unused(module)


def sliced(module: bytes, kept: Collection[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Returns the module with some of its operations.

    Args:
      module: `Sliceable.module`.
      kept: positions of the operations to keep.
      inputs: numbers of the values that become its arguments, in order. These, and results of kept operations, are all that the
        kept operations use.
      outputs: numbers of the values that it returns.

    Raises:
      ModuleError: the module cannot be read, or a kept operation uses another value.
    """
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context, ir.Location.unknown(parsed.context):
        main = functions_of(parsed)[_MAIN]
        block = main.regions[0].blocks[0]
        *operations, end = _operations(block)
        values = [*block.arguments, *(result for each in operations for result in each.results)]
        count = len(block.arguments)
        attributes = stablehlo.argument_attributes(main, "arg_attrs") or [{}] * count
        for number in inputs:
            argument = block.add_argument(values[number].type, ir.Location.unknown())
            values[number].replace_all_uses_with(argument)
            values[number] = argument
        _return(end, [values[number] for number in outputs])
        for position in reversed(range(len(operations))):
            if position not in kept:
                _check_unused(operations[position].results, operations[position].name)
                operations[position].erase()
        _check_unused(list(block.arguments)[:count], "an argument")
        for _ in range(count):
            block.erase_argument(0)
        _set_interface(main, [attributes[number] if number < count else {} for number in inputs])
        _remove_unused(parsed)
        parsed.operation.verify()
        return stablehlo.to_bytecode(parsed)


def _return(end: Any, values: Sequence[Any]) -> None:
    """Replaces the operation that returns the results of `main`."""
    ir.Operation.create(end.name, operands=list(values), ip=ir.InsertionPoint(end), loc=end.location)
    end.erase()


def _set_interface(main: Any, attributes: Sequence[dict[str, Any]]) -> None:
    """Gives `main` the type of its block. Of its attributes and those of its first arguments, only names and shardings stay."""
    block = main.regions[0].blocks[0]
    *_, end = _operations(block)
    for name in [each.name for each in stablehlo.named_attributes(main.attributes)]:
        if name not in _NAMES:
            del main.attributes[name]
    types = ir.FunctionType.get([each.type for each in block.arguments], [each.type for each in end.operands])
    main.attributes["function_type"] = ir.TypeAttr.get(types)
    shardings = [{name: each for name, each in given.items() if name in _SHARDINGS} for given in attributes]
    if any(shardings):
        shardings += [{}] * (len(block.arguments) - len(shardings))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in shardings])


def _check_unused(values: Sequence[Any], maker: str) -> None:
    """Raises an error for a value in use, because MLIR ends the process when its operation is erased."""
    if any(True for value in values for _ in value.uses):
        raise ModuleError(f"A result of {maker} is used, but it is neither kept nor an input.")


def _described(module: ir.Module) -> Sliceable:
    block = functions_of(module)[_MAIN].regions[0].blocks[0]
    *operations, end = _operations(block)
    numbers: dict[Any, int] = {argument: number for number, argument in enumerate(block.arguments)}
    values = [_value(argument.type) for argument in block.arguments]
    described = []
    for each in operations:
        used = _used(each, numbers)
        first = len(values)
        for result in each.results:
            numbers[result] = len(values)
            values.append(_value(result.type))
        results = tuple(range(first, len(values)))
        described.append(SlicedOperation(each.name, stablehlo.op_name(each), results, used, stablehlo.places(each)))
    returned = tuple(numbers[operand] for operand in end.operands)
    return Sliceable(stablehlo.to_bytecode(module), tuple(values), tuple(described), returned)


def _used(operation: Any, numbers: dict[Any, int]) -> tuple[int, ...]:
    used: dict[int, None] = {}

    def visit(each: Any) -> Any:
        used.update((numbers[operand], None) for operand in each.operands if operand in numbers)
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    return tuple(used)


def _value(type_: Any) -> SlicedValue:
    try:
        tensor = ir.RankedTensorType(type_)
    except ValueError:
        return SlicedValue((), "")
    known = stablehlo.NUMPY_DTYPES.get(str(tensor.element_type), "") if tensor.has_static_shape else ""
    return SlicedValue(tuple(tensor.shape) if known else (), known)


def _operations(block: Any) -> list[Any]:
    return [each.operation for each in block.operations]


def _remove_unused(module: ir.Module) -> None:
    """Removes the private functions that nothing calls any longer."""
    functions = functions_of(module)
    needed, waiting = {_MAIN}, [_MAIN]
    while waiting:
        for name in _named_in(functions[waiting.pop()], functions.keys() - needed):
            needed.add(name)
            waiting.append(name)
    for name, function in functions.items():
        if name not in needed:
            function.erase()


def _named_in(function: Any, names: Collection[str]) -> set[str]:
    """Returns the functions that a function names, as in calls and in reducers of custom calls."""
    found: set[str] = set()

    def visit(operation: Any) -> Any:
        for attribute in stablehlo.named_attributes(operation.attributes):
            if attribute.name not in ("sym_name", "value") and "@" in (text := str(attribute.attr)):
                found.update(name for name in names if f"@{name}" in text or f'@"{name}"' in text)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found
