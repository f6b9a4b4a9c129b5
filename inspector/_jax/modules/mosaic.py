"""Reads the body of a kernel for TPUs in JAX's dialect `tpu`, and writes it as JSON. Those of Pallas are MLIR bytecode, those that libtpu makes are text.

Damaged bytecode can crash the process, so it is read in a worker (`engines/workers/counting.py`).

Private JAX: `jaxlib.mlir` and its extensions for the dialect `tpu` and for those of JAX's contexts.
"""

from __future__ import annotations

import json
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _tpu_ext

MLIR_BYTECODE = b"ML\xefR"  # its first bytes
_STABLE = "stable_mosaic."  # prefix of operations in the form that JAX serializes
_LONGEST = 256  # characters of an attribute without a plain form

_Operation = tuple[str, list[int], list[int], dict[str, Any], list[tuple[list[int], list[Any]]]]


def read_kernel(body: bytes) -> str:
    """Returns a kernel as JSON.

    Args:
      body: MLIR bytecode or text.

    Returns:
      An object with two fields. Values are numbered.
      `functions`: for each function its `name`, `attributes`, `arguments` and `operations`. An operation is a list of its name,
      operands, results, attributes, and regions as pairs of arguments and operations.
      `types`: for each value its kind ("vector", "memref" or "scalar"), dimensions (-1 if dynamic), element type and memory
      space.

    Raises:
      ValueError: MLIR cannot read it, or it has an unknown form.
    """
    context = ir.Context()
    if not body.startswith(MLIR_BYTECODE):  # bytecode from JAX has its own, stable names of operations
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
    _tpu_ext.register_dialect(context)
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(body)
        except ir.MLIRError as e:
            raise ValueError(" ".join(str(e).split())[:_LONGEST]) from e
        reader = _Reader()
        functions = [reader.function(each) for each in module.body.operations]
        return json.dumps({"functions": functions, "types": reader.types})


class _Reader:
    """Numbers the values of a module.

    Attributes:
      types: type of each value, by its number.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.types: list[tuple[str, list[int], str, str]] = []

    def function(self, function: Any) -> dict[str, Any]:
        operation = function.operation
        attributes = _attributes(operation)
        (region,) = self._regions(operation)
        return {
            "name": str(attributes.get("sym_name", "")), "attributes": attributes, "arguments": region[0],
            "operations": region[1],
        }  # fmt: skip

    def _regions(self, operation: Any) -> list[tuple[list[int], list[Any]]]:
        regions = []
        for region in operation.regions:
            blocks = [*region.blocks]
            if len(blocks) > 1:
                raise ValueError(f"a region of {operation.name} has {len(blocks)} blocks")
            arguments = [self._number(a) for block in blocks for a in block.arguments]
            regions.append(
                (arguments, [self._operation(each.operation) for block in blocks for each in block.operations])
            )
        return regions

    def _operation(self, operation: Any) -> _Operation:
        operands = [self._number(value) for value in operation.operands]
        results = [self._number(value) for value in operation.results]
        return (
            operation.name.removeprefix(_STABLE), operands, results, _attributes(operation), self._regions(operation)
        )  # fmt: skip

    def _number(self, value: Any) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.types)
            self.types.append(_type(value.type))
        return number


def _type(of: Any) -> tuple[str, list[int], str, str]:
    if isinstance(of, ir.VectorType):
        return "vector", _sizes(of), str(of.element_type), ""
    if isinstance(of, ir.MemRefType):
        return "memref", _sizes(of), str(of.element_type), str(of.memory_space or "").partition("<")[2].rstrip(">")
    return "scalar", [], str(of), ""


def _sizes(of: Any) -> list[int]:
    return [-1 if of.is_dynamic_dim(n) else of.get_dim_size(n) for n in range(of.rank)]


def _attributes(operation: Any) -> dict[str, Any]:
    named = operation.attributes
    return {name: _plain(named[name]) for name in named if not _is_large(named[name])}


def _is_large(attribute: Any) -> bool:
    return isinstance(attribute, ir.DenseElementsAttr)


def _plain(attribute: Any) -> Any:
    """Returns an attribute as numbers, lists, dicts or text."""
    if isinstance(attribute, ir.IntegerAttr):
        value = int(attribute.value)
        return value & 1 if str(attribute.type) == "i1" else value
    if isinstance(attribute, ir.BoolAttr):
        return int(attribute.value)
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr)):
        return [int(each) for each in attribute]
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(each) for each in attribute]
    if isinstance(attribute, ir.DictAttr):
        return {attribute[n].name: _plain(attribute[n].attr) for n in range(len(attribute))}
    if isinstance(attribute, (ir.StringAttr, ir.FlatSymbolRefAttr)):
        return str(attribute.value)
    return str(attribute)[:_LONGEST]
