"""Finds sharding constraints of the new versions of a parameter, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations of StableHLO and Shardy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import callee_of, functions_of, inline_call

_CONSTRAINT, _CALLS = "sdy.sharding_constraint", ("func.call", "call")


def constraints_between(module: ir.Module, main: Any, parameter: int, results: Sequence[int]) -> list[Any]:
    """Returns the constraints of arrays that depend on a parameter, and on which results of the same shape depend.

    Only arrays of the parameter's shape are followed. Calls on the way are inlined if the functions have constraints.

    Args:
      module: the module.
      main: its `main` function.
      parameter: number of the parameter.
      results: positions of the results.
    """
    block = main.regions[0].blocks[0]
    functions = functions_of(module)
    constraining = {name for name in functions if _constrains(name, functions, set())}
    while (call := _first_call(block.arguments[parameter], constraining)) is not None:
        inline_call(call, functions[callee_of(call)])
    ahead = _users(block.arguments[parameter])
    returned = [*block.operations][-1].operation
    behind, waiting = list[Any](), [returned.operands[number] for number in results]
    while waiting:
        maker = _maker(waiting.pop())
        if maker is not None and maker in ahead and maker not in behind:
            behind.append(maker)
            waiting.extend(maker.operands)
    return [each for each in behind if each.name == _CONSTRAINT]


def _maker(value: Any) -> Any | None:
    """Returns the operation that computes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _shape(value: Any) -> list[int] | None:
    return [*ir.RankedTensorType(value.type).shape] if isinstance(value.type, ir.RankedTensorType) else None


def _users(start: Any) -> list[Any]:
    """Returns the operations that depend on a value through arrays of its shape."""
    shape, found, waiting = _shape(start), list[Any](), [start]
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if user not in found:
                found.append(user)
                waiting.extend(each for each in user.results if _shape(each) == shape)
    return found


def _first_call(start: Any, names: set[str]) -> Any | None:
    return next((each for each in _users(start) if each.name in _CALLS and callee_of(each) in names), None)


def _constrains(name: str, functions: dict[str, Any], seen: set[str]) -> bool:
    """Reports whether a function, or one that it calls, has a sharding constraint."""
    if name in seen:
        return False
    seen.add(name)
    found: list[bool] = []

    def visit(operation: Any) -> Any:
        if operation.name in _CALLS:
            found.append(_constrains(callee_of(operation), functions, seen))
        elif operation.name == _CONSTRAINT:
            found.append(True)
        return ir.WalkResult.ADVANCE

    functions[name].walk(visit)
    return any(found)
