"""Makes large constants of StableHLO modules further parameters.

Private JAX: `jaxlib.mlir` (operations and attributes of StableHLO).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import callee_of, functions_of
from inspector._jax.edits.signatures import CALLS, argument_attributes, main_of, name_of, set_attributes
from inspector._jax.modules import stablehlo

_CALL_ATTRIBUTES = frozenset({"arg_attrs"})  # have one entry for each argument


def lift_constants(module: ir.Module, least_bytes: int) -> list[np.ndarray]:
    """Makes constants parameters of `main`, and of the functions that contain them."""
    functions = functions_of(module)
    values = list[np.ndarray]()
    main = name_of(main_of(module))
    for function in list(functions):
        for constant in _large_constants(functions[function], least_bytes):
            value = np.array(ir.DenseElementsAttr(constant.attributes["value"]))
            parameters = _added_parameters(functions, function, main, constant.results[0].type, constant.location)
            constant.results[0].replace_all_uses_with(parameters.pop(function))
            constant.erase()
            values.append(value)
    return values


def _large_constants(function: Any, least_bytes: int) -> list[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.constant":
            value = ir.DenseElementsAttr(operation.attributes["value"])
            if not value.is_splat and np.array(value).nbytes >= least_bytes:
                found.append(operation)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _added_parameters(
    functions: Mapping[str, Any], function: str, main: str, type_: Any, location: Any
) -> dict[str, Any]:
    """Adds a parameter to a function and to all functions that call it, up to `main`. Returns it by function."""
    added: dict[str, Any] = {}
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in added:
            continue
        added[name] = _with_parameter(functions[name], type_, location)
        if name != main:
            waiting.extend(caller for caller in functions if any(True for _ in _calls_of(functions[caller], name)))
    for name in added:
        for caller in added:
            for call in _calls_of(functions[caller], name):
                made = ir.Operation.create(
                    call.name, results=[result.type for result in call.results],
                    operands=[*call.operands, added[caller]], loc=call.location, ip=ir.InsertionPoint(call),
                    attributes={
                        each: call.attributes[each] for each in call.attributes if each not in _CALL_ATTRIBUTES
                    },
                )  # fmt: skip
                for old, new in zip(call.results, made.results, strict=True):
                    old.replace_all_uses_with(new)
                call.erase()
    return added


def _with_parameter(function: Any, type_: Any, location: Any) -> Any:
    block = function.regions[0].blocks[0]
    attributes = argument_attributes(function)
    parameter = block.add_argument(type_, location)
    results = [*stablehlo.function_type(function).results]
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    set_attributes(function, "arg_attrs", [*attributes, {}])
    return parameter


def _calls_of(function: Any, callee: str) -> list[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in CALLS and callee_of(operation) == callee:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found
