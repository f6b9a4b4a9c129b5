"""Converts HLO modules to StableHLO.

XLA's conversion loses some information, which this module restores in its result. Imports jaxlib but not JAX, because
`reader_process.py` must start quickly.

Private JAX: `jaxlib._jax.mlir` (conversions), `jaxlib.mlir` (StableHLO).
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib import _jax
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector._jax.modules.hlo import ReadHlo
from inspector.errors import OPTIMIZED, ModuleError


def hlo_to_stablehlo(hlo: ReadHlo) -> bytes:
    """Converts an HLO module to MLIR bytecode.

    Only for `reader_process.py`: the conversion can abort the process.

    Raises:
      ModuleError: XLA cannot convert it; with XLA's message, or with the operation that StableHLO lacks.
    """
    header, proto = hlo.source.header, hlo.source.proto
    if _CRASHES in hlo.text:
        raise ModuleError(
            f"The HLO module has a dot with algorithm={_CRASHES}, which crashes the conversion to StableHLO."
            " Use another algorithm, or pass the Python function itself."
        )
    try:
        converted = _jax.mlir.hlo_to_stablehlo(proto)
        parsed = stablehlo.parse_stablehlo(converted)
        if _ALGORITHM.encode() in converted:
            _generalize_dots(parsed)
        _merge_broadcasts(parsed)
        if stablehlo.SHARDY_PREFIX.encode() in converted and stablehlo.carries_shardy(parsed):
            _drop_result_shardings(parsed)
    except Exception as e:
        remedy = f" {OPTIMIZED}" if "is_scheduled=true" in header else ""
        raise ModuleError(
            f"The HLO module cannot be converted to StableHLO, which inspector needs for compiling: {_reason(e, hlo.text)}{remedy}"
        ) from e
    return stablehlo.to_bytecode(parsed)


_CRASHES = "dot_bf16_bf16_f32_x9"
_UNKNOWN_OPERATION = re.compile(r'error: "([^"]*)": unregistered operation .mhlo\.unknown')


def _reason(error: Exception, hlo: str) -> str:
    """Returns MLIR's message without the advice for StableHLO files, or the instruction that StableHLO lacks."""
    text = (
        str(error)
        .removesuffix(f"\n{stablehlo.EXPECTED['StableHLO']}")
        .removeprefix("Cannot read the StableHLO module: ")
    )
    unknown = _UNKNOWN_OPERATION.search(text)
    if unknown is None:
        return text.removeprefix("Unable to parse module assembly:\n")
    name = unknown[1]
    line = re.search(rf"%{re.escape(name)} = .*? ([a-z][a-z0-9-]*)\(", hlo)
    return f"StableHLO has no operation for the instruction {name}{f' ({line[1]})' if line else ''}."


_ALGORITHM = "algorithm"


def _generalize_dots(module: ir.Module) -> None:
    """Replaces each `stablehlo.dot` that has an algorithm by a `stablehlo.dot_general`, which supports one.

    XLA's conversion puts the algorithm of a matrix product on an operation that ignores it.
    """
    dots: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.dot" and _ALGORITHM in operation.attributes:
            dots.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        for dot in dots:
            contracted = ir.RankedTensorType(dot.operands[0].type).rank - 1
            attributes = {attribute.name: attribute.attr for attribute in stablehlo.named_attributes(dot.attributes)}
            attributes["dot_dimension_numbers"] = ir.Attribute.parse(
                f"#stablehlo.dot<lhs_contracting_dimensions = [{contracted}], rhs_contracting_dimensions = [0]>"
            )
            general = ir.Operation.create(
                "stablehlo.dot_general",
                results=[result.type for result in dot.results],
                operands=list(dot.operands),
                attributes=attributes,
                loc=dot.location,
                ip=ir.InsertionPoint(dot),
            )
            dot.results[0].replace_all_uses_with(general.results[0])
            dot.erase()


def _drop_result_shardings(module: ir.Module) -> None:
    """Removes the GSPMD shardings of function results from a module that Shardy partitions.

    XLA's conversion copies them from the operations that return the results, without the Shardy shardings of those
    operations. XLA partitions a module with GSPMD if a result has one without the other.
    """
    with module.context:
        for operation in module.body.operations:
            function = operation.operation
            if function.name != "func.func" or not (known := stablehlo.argument_attributes(function, "res_attrs")):
                continue
            for each in known:
                if stablehlo.FRONTEND_ATTRIBUTES not in each:
                    each.pop(stablehlo.SHARDING, None)
            function.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in known])


_BROADCAST = "stablehlo.broadcast_in_dim"


def _merge_broadcasts(module: ir.Module) -> None:
    """Merges the three operations into which XLA splits a broadcast that stretches dimensions of size 1.

    HLO has no such broadcast: XLA writes `[4,1] -> [4,64]` as a broadcast to `[4,1]`, a reshape to `[4]` and a broadcast to
    `[4,64]`. It removes the first one when it converts the module back to HLO, and then optimizes the program differently.
    """
    chains: list[tuple[Any, Any, Any]] = []

    def visit(operation: Any) -> Any:
        if operation.name == _BROADCAST:
            reshape = _producer(operation, "stablehlo.reshape")
            inner = _producer(reshape, _BROADCAST) if reshape is not None else None
            if inner is not None and _is_stretched(inner, reshape, operation):
                chains.append((inner, reshape, operation))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for inner, reshape, outer in chains:
        outer.operands[0] = inner.operands[0]
        outer.attributes[_DIMENSIONS] = inner.attributes[_DIMENSIONS]
        for unused in (reshape, inner):
            if not any(True for _ in unused.results[0].uses):
                unused.erase()


_DIMENSIONS = "broadcast_dimensions"


def _producer(operation: Any, name: str) -> Any:
    """Returns the operation of that name that produces the first operand; None if it is another one or an argument."""
    owner = operation.operands[0].owner
    if isinstance(owner, ir.Block):
        return None
    return owner.operation if owner.operation.name == name else None


def _is_stretched(inner: Any, reshape: Any, outer: Any) -> bool:
    """Reports whether the operations only stretch dimensions of size 1 of the operand of `inner`."""
    before, dropped, after = (list(ir.RankedTensorType(each.results[0].type).shape) for each in (inner, reshape, outer))
    if len(before) != len(after):
        return False
    same = [n for n, size in enumerate(after) if before[n] == size]
    stretched = {n for n in range(len(after)) if n not in same}
    return (
        bool(stretched)
        and same == _dimensions(outer)
        and dropped == [before[n] for n in same]
        and stretched <= set(_dimensions(inner))
        and all(before[n] == 1 for n in stretched)
    )


def _dimensions(broadcast: Any) -> list[int]:
    return [int(n) for n in ir.DenseI64ArrayAttr(broadcast.attributes[_DIMENSIONS])]
