"""Computes StableHLO modules in 32-bit floats instead of 64-bit ones.

Arguments of 64 bits become arguments of 32 bits, and so do results. Operations whose meaning depends on the type, such as a conversion of
bits or a custom call, keep it: their operands and results are converted.

Private JAX: `jaxlib.mlir` (operations and types of StableHLO).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo

_KEEPING = frozenset({"stablehlo.bitcast_convert", "stablehlo.rng_bit_generator", "stablehlo.custom_call"})
_TYPED_TARGETS = ("mhlo.", "Sharding", "LayoutConstraint")  # custom calls that take each type
_CONVERT, _CONSTANT = "stablehlo.convert", "stablehlo.constant"


def narrow_floats(module: ir.Module) -> int:
    """Gives all 64-bit floats of a module 32 bits. Returns how many values were changed."""
    kept = [operation for operation in _operations(module.operation) if _keeps_types(operation)]
    kept_types = [([o.type for o in each.operands], [r.type for r in each.results]) for each in kept]
    changed = 0
    for operation in _operations(module.operation):
        for region in operation.regions:
            for block in region.blocks:
                changed += sum(map(_narrow, block.arguments))
        changed += sum(map(_narrow, operation.results))
        if operation.name == _CONSTANT:
            _narrow_constant(operation)
    for function in (each.operation for each in module.body.operations if each.operation.name == "func.func"):
        known = stablehlo.function_type(function)
        inputs, results = ([_narrower(each) or each for each in part] for part in (known.inputs, known.results))
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for operation, types in zip(kept, kept_types, strict=True):
        _keep_types(operation, *types)
    return changed


def _operations(operation: Any) -> Iterator[Any]:
    """Yields all operations inside of one."""
    for region in operation.regions:
        for block in region.blocks:
            for each in list(block.operations):
                yield each.operation
                yield from _operations(each.operation)


def _keeps_types(operation: Any) -> bool:
    if operation.name not in _KEEPING or not any(_narrower(v.type) for v in (*operation.operands, *operation.results)):
        return False
    if operation.name != "stablehlo.custom_call":
        return True
    return not ir.StringAttr(operation.attributes["call_target_name"]).value.startswith(_TYPED_TARGETS)


def _keep_types(operation: Any, operands: list[Any], results: list[Any]) -> None:
    """Converts the operands of an operation to the types that it had, and its results from those."""
    for number, (value, wide) in enumerate(zip(operation.operands, operands, strict=True)):
        if value.type != wide:
            operation.operands[number] = _converted(value, wide, ir.InsertionPoint(operation))
    for value, wide in zip(operation.results, results, strict=True):
        narrow = value.type
        if narrow != wide:
            value.set_type(wide)
            made = _converted(value, narrow, ir.InsertionPoint.after(operation))
            value.replace_all_uses_except(made, made.owner.operation)


def _converted(value: Any, type_: Any, place: Any) -> Any:
    return ir.Operation.create(_CONVERT, results=[type_], operands=[value], ip=place).results[0]


def _narrow(value: Any) -> bool:
    """Gives a value its narrower type. Returns whether it has one."""
    type_ = _narrower(value.type)
    if type_ is not None:
        value.set_type(type_)
    return type_ is not None


def _narrow_constant(operation: Any) -> None:
    type_ = operation.results[0].type
    known: Any = ir.DenseElementsAttr(operation.attributes["value"])
    if known.type == type_:
        return
    if known.is_splat and isinstance(type_.element_type, ir.F32Type):
        number = ir.FloatAttr.get(type_.element_type, known.get_splat_value().value)
        operation.attributes["value"] = ir.DenseElementsAttr.get_splat(type_, number)
        return
    value = np.array(known)
    buffer: Any = np.ascontiguousarray(value.astype(np.complex64 if np.iscomplexobj(value) else np.float32))
    operation.attributes["value"] = ir.DenseElementsAttr.get(buffer, type=type_)


def _narrower(type_: Any) -> Any:
    """Returns the type of an array of 64-bit floats with 32 bits; None for other types."""
    if not isinstance(type_, ir.RankedTensorType):
        return None
    element, single = type_.element_type, ir.F32Type.get()
    if isinstance(element, ir.F64Type):
        return ir.RankedTensorType.get(type_.shape, single, type_.encoding)
    if isinstance(element, ir.ComplexType) and isinstance(element.element_type, ir.F64Type):
        return ir.RankedTensorType.get(type_.shape, ir.ComplexType.get(single), type_.encoding)
    return None
