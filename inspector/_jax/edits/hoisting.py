"""Moves collectives of values that a loop does not change in front of the loop, in StableHLO modules.

Loops call functions for their bodies, so calls on the way to a collective are inlined first.

Private JAX: `jaxlib.mlir` (operations of StableHLO and Shardy).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector.support.name_stacks import inlined_name

COLLECTIVES = frozenset({
    "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter", "stablehlo.all_to_all",
    "stablehlo.collective_permute", "stablehlo.collective_broadcast",
})  # fmt: skip
_WHILE, _FUNCTION, _CALL, _SHARD_MAP = "stablehlo.while", "func.func", "func.call", "sdy.manual_computation"
_CHANGING = frozenset({"stablehlo.rng", "stablehlo.rng_bit_generator", "stablehlo.custom_call"})
"""Operations whose result may differ each time, or that have an effect."""
_JOINING = frozenset(
    {"stablehlo.concatenate", "stablehlo.pad", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"}
)
_COMBINING = frozenset({"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.sort"})
"""Operations with a region that uses nothing but its own arguments."""


def hoist_collectives(module: ir.Module, main: Any, op_names: Collection[str]) -> int:
    """Moves collectives in front of the loops that do not change their operands, as far out as possible.

    Args:
      module: the module.
      main: its `main` function.
      op_names: JAX's full names of the collectives.

    Returns:
      The number of collectives that were moved.
    """
    inline_calls(module, main, COLLECTIVES, op_names)
    places = 0
    for operation in distinct_operations(module, main, COLLECTIVES, op_names):
        moved = False
        while (hoisted := _hoisted(operation)) is not None:
            operation, moved = hoisted, True
        if moved:
            _hoist_joined(operation)
        places += moved
    return places


def _hoist_joined(operation: Any) -> None:
    """Moves the operations that join the results of a collective with other values which the loop does not change, such as halos."""
    waiting = [operation]
    while waiting:
        results = [*waiting.pop().results]
        while (user := _joining(results)) is not None:
            while (moved := _hoisted(user)) is not None:
                user = moved
            waiting.append(user)


def _joining(values: Sequence[Any]) -> Any | None:
    """Returns an operation that joins values with others and can be moved out of its loop; None if there is none."""
    users = (use.owner.operation for value in values for use in value.uses)
    return next((user for user in users if user.name in _JOINING and _moves(user) is not None), None)


def inline_calls(
    module: ir.Module, main: Any, kinds: Collection[str], op_names: Collection[str], in_loops: bool = True
) -> None:
    """Inlines the calls that lead to named operations.

    Args:
      module: the module.
      main: its `main` function.
      kinds: the kinds of operations, such as "stablehlo.add".
      op_names: JAX's full names.
      in_loops: True for calls in loops only.
    """
    while calls := [
        call
        for _, calls in named_operations(module, main, kinds, op_names)
        for call in calls
        if not in_loops or _loop_around(call)
    ]:
        inline_callee(module, calls[0])


def named_operations(
    module: ir.Module, main: Any, kinds: Collection[str], op_names: Collection[str]
) -> list[tuple[Any, tuple[Any, ...]]]:
    """Returns named operations, each with the calls that lead to it, outermost first; once for each way to call it.

    Args:
      module: the module.
      main: its `main` function.
      kinds: the kinds of operations, such as "stablehlo.add".
      op_names: JAX's full names.
    """
    functions = functions_of(module)
    found: list[tuple[Any, tuple[Any, ...]]] = []

    def visit(owner: Any, names: tuple[str, ...], calls: tuple[Any, ...]) -> None:
        for operation in _inner(owner):
            kind, own = operation.name, stablehlo.op_name(operation)
            if kind in kinds and inlined_name(own, names) in op_names:
                found.append((operation, calls))
            elif kind == _CALL:
                visit(functions[callee_of(operation)], (own, *names), (*calls, operation))
            else:
                visit(operation, (own, *names) if kind == _SHARD_MAP else names, calls)

    visit(main, (), ())
    return found


def distinct_operations(module: ir.Module, main: Any, kinds: Collection[str], op_names: Collection[str]) -> list[Any]:
    """Returns the operations that `named_operations` returns, each once: a function may be called in several ways."""
    return list(dict.fromkeys(operation for operation, _ in named_operations(module, main, kinds, op_names)))


def functions_of(module: ir.Module) -> dict[str, Any]:
    """Returns the functions of a module by name."""
    functions = (each.operation for each in module.body.operations if each.operation.name == _FUNCTION)
    return {str(ir.StringAttr(each.attributes["sym_name"]).value): each for each in functions}


def _inner(owner: Any) -> list[Any]:
    """Returns the operations in the regions of an operation, without those that are nested deeper."""
    return [each.operation for region in owner.regions for block in region.blocks for each in block.operations]


def callee_of(call: Any) -> str:
    """Returns the name of the function that an operation calls."""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _loop_around(operation: Any) -> Any | None:
    """Returns the innermost loop around an operation in its function; None if there is none."""
    parent = operation.parent
    while parent is not None and parent.operation.name not in (_WHILE, _FUNCTION):
        parent = parent.operation.parent
    return None if parent is None or parent.operation.name == _FUNCTION else parent.operation


def inline_users(module: ir.Module, value: Any) -> None:
    """Inlines the calls that take a value."""
    while calls := [use.owner for use in value.uses if use.owner.operation.name == _CALL]:
        inline_callee(module, calls[0].operation)


def inline_callee(module: ir.Module, call: Any) -> None:
    """Replaces a call by the operations of the function that it calls."""
    inline_call(call, functions_of(module)[callee_of(call)])


def inline_call(call: Any, function: Any) -> None:
    """Replaces a call by the operations of the function. They keep their full names; those without a line get the call's."""
    block = function.regions[0].blocks[0]
    known: dict[Any, Any] = dict(zip(block.arguments, call.operands, strict=True))
    prefix = stablehlo.op_name(call)

    def rename(operation: Any) -> Any:
        place = operation.location if stablehlo.places(operation) else call.location
        operation.location = ir.Location.name(inlined_name(stablehlo.op_name(operation), (prefix,)), place)
        return ir.WalkResult.ADVANCE

    *operations, end = (each.operation for each in block.operations)
    for operation in operations:
        made = _copied(operation, call, known)
        made.walk(rename)
    for old, ended in zip(call.results, end.operands, strict=True):
        old.replace_all_uses_with(known[ended])
    call.erase()


def _copied(operation: Any, before: Any, known: dict[Any, Any]) -> Any:
    """Copies an operation to the place before another one, with new operands. Adds its results to the known values."""
    made = operation.clone(ip=ir.InsertionPoint(before)).operation

    def replace(inner: Any) -> Any:
        for number, operand in enumerate(inner.operands):
            if operand in known:
                inner.operands[number] = known[operand]
        return ir.WalkResult.ADVANCE

    made.walk(replace)
    known.update(zip(operation.results, made.results, strict=True))
    return made


def _hoisted(operation: Any) -> Any | None:
    """Moves an operation, with those that compute its operands, in front of the loop whose body contains it.

    Returns:
      The moved operation; None if it is not in a loop, or if the loop changes its operands.
    """
    found = _moves(operation)
    if found is None:
        return None
    loop, known, needed = found
    for each in needed:
        made = _copied(each, loop, known)
    for old, new in zip(operation.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
    return made


def _moves(operation: Any) -> tuple[Any, dict[Any, Any], list[Any]] | None:
    """Returns the loop around an operation, its initial values by the arguments of its body that stay the same, and the operations to move, in order.

    None if the operation is not in the body of a loop, or if the loop changes its operands.
    """
    loop = None if operation.parent is None else operation.parent.operation
    if loop is None or loop.name != _WHILE:
        return None
    body = loop.regions[1].blocks[0]
    ends = list(body.operations)[-1].operation.operands
    known = {a: loop.operands[n] for n, (a, end) in enumerate(zip(body.arguments, ends, strict=True)) if a == end}
    needed: list[Any] = []
    if operation.block != body or not _collect(operation, body, known, needed):
        return None
    return loop, known, needed


def _collect(operation: Any, body: Any, known: Collection[Any], needed: list[Any]) -> bool:
    """Appends the operations of a loop's body that compute an operation, in order. False if the loop changes one of them."""
    for operand in operation.operands:
        if operand in known:
            continue
        owner = operand.owner
        if isinstance(owner, ir.Block):
            if owner == body:
                return False
        elif (maker := owner.operation).block == body and maker not in needed:
            is_fixed = maker.name not in _CHANGING and (
                maker.name in COLLECTIVES or maker.name in _COMBINING or not _inner(maker)
            )
            if not is_fixed or not _collect(maker, body, known, needed):
                return False
    needed.append(operation)
    return True
