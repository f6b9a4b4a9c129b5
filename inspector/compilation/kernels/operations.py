"""The work of one operation in the body of a Pallas kernel for TPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Types: TypeAlias = Sequence[tuple[str, Sequence[int], str, str]]
"""Kind, dimensions, element type and memory space of each value."""
Work: TypeAlias = dict[str, float]
"""Amounts: "flops", "transcendentals", "vmem" (bytes of registers), "product TYPE PRECISION" (the part of the FLOPs in matrix
products of operands of that type; precision 0 to 2), "copied N" (bytes of argument N outside of the fast memories) and
"copied" (of arrays that are not arguments)."""

_FUNCTIONS = frozenset({
    "math.exp", "math.exp2", "math.expm1", "math.log", "math.log2", "math.log10", "math.log1p", "math.tanh", "math.tan",
    "math.sin", "math.cos", "math.sqrt", "math.rsqrt", "math.cbrt", "math.erf", "math.erfc", "math.powf", "math.fpowi",
    "math.atan", "math.atan2", "math.asin", "math.acos", "math.sinh", "math.cosh", "tpu.reciprocal",
})  # fmt: skip
_MOVES = frozenset({"arith.constant", "arith.bitcast", "arith.index_cast", "arith.index_castui"})
_CONVERSIONS = frozenset(
    {"tpu.fptosi", "tpu.sitofp", "tpu.extf", "tpu.truncf", "tpu.stochastic_convert", "tpu.relayout_convert"}
)
_REDUCTIONS = frozenset(
    {
        "vector.multi_reduction",
        "vector.reduction",
        "tpu.all_reduce",
        "tpu.reduce_index",
        "tpu.scan",
        "tpu.dynamic_reduce",
    }
)
_PRODUCTS = ("tpu.matmul", "vector.contract")
_COPIES = ("tpu.enqueue_dma", "tpu.enqueue_indirect_dma")
_FAST = ("vmem", "smem", "semaphore_mem", "vmem_shared", "cmem")
_CONTROL = ("scf.if", "scf.for", "scf.while", "scf.index_switch", "scf.parallel")
_INTEGERS = re.compile(r"(i\d+|index)")
_CONTRACTED = re.compile(r"<\[([\d, ]*)\]")
_MAP = re.compile(r"\(([^()]*)\) -> \(([^()]*)\)")
_HIGHEST = 2


def is_control(name: str) -> bool:
    """Reports whether an operation executes its regions a number of times that depends on values."""
    return name in _CONTROL


def is_copy(name: str) -> bool:
    """Reports whether an operation starts a copy between memories."""
    return name in _COPIES


def is_scalar(of: tuple[str, Sequence[int], str, str]) -> bool:
    """Reports whether a type is that of an integer."""
    return of[0] == "scalar" and _INTEGERS.fullmatch(of[2]) is not None


def element_bits(element: str) -> int:
    """Returns the bits of an element type such as `bf16` or `f8E4M3FN`; 0 for a semaphore."""
    match = re.match(r"[a-z]+(\d+)", element)
    return 32 if element == "index" else int(match[1]) if match else 0


def work_of(
    name: str,
    operands: Sequence[int],
    results: Sequence[int],
    attributes: Mapping[str, Any],
    types: Types,
    origins: Mapping[int, int],
) -> Mapping[str, float]:
    """Returns the work of one execution of an operation, without that of its regions.

    Args:
      name: name of the operation.
      operands: numbers of its operands.
      results: numbers of its results.
      attributes: its attributes.
      types: types of all values.
      origins: number of the argument that a value is a part of.
    """
    if name in _PRODUCTS:
        return _product(operands, results, attributes, types)
    if name in _COPIES:
        return _copy(operands, attributes, types, origins)
    if "load" in name:
        return _registers(results, operands, types)
    if "store" in name:
        return _registers(operands, operands, types)
    if name in _REDUCTIONS:
        return {"flops": _elements(types[operands[0]])} if operands and types[operands[0]][0] == "vector" else {}
    vectors = [value for value in results if types[value][0] == "vector"]
    if not vectors or name in _MOVES:
        return {}
    elements = _elements(types[vectors[0]])
    if name in _FUNCTIONS:
        return {"transcendentals": elements}
    is_elementwise = name.startswith(("arith.", "math.")) or name in _CONVERSIONS
    return {"flops": elements * (2 if name == "math.fma" else 1)} if is_elementwise else {}


def _elements(of: tuple[str, Sequence[int], str, str]) -> float:
    return float(math.prod(max(0, size) for size in of[1]))


def _bytes(of: tuple[str, Sequence[int], str, str]) -> float:
    return _elements(of) * element_bits(of[2]) / 8


def _registers(vectors: Sequence[int], operands: Sequence[int], types: Types) -> Mapping[str, float]:
    in_vmem = any(types[value][0] == "memref" and types[value][3] == "vmem" for value in operands)
    moved = next((types[value] for value in vectors if types[value][0] == "vector"), None)
    return {"vmem": _bytes(moved)} if in_vmem and moved is not None else {}


def _product(
    operands: Sequence[int], results: Sequence[int], attributes: Mapping[str, Any], types: Types
) -> Mapping[str, float]:
    left, right = types[operands[0]], types[operands[1]]
    contracted = _contracted(attributes, len(left[1]))
    flops = 2.0 * _elements(types[results[0]]) * math.prod(left[1][d] for d in contracted)
    kind = max(left[2], right[2], key=element_bits)
    precision = _HIGHEST if "fp32" in str(attributes.get("precision", "")) else 0
    return {"flops": flops, f"product {_xla_name(kind)} {precision}": flops}


def _contracted(attributes: Mapping[str, Any], rank: int) -> Sequence[int]:
    """Returns the contracted dimensions of the left operand."""
    if match := _CONTRACTED.search(str(attributes.get("dimension_numbers", ""))):
        return [int(each) for each in match[1].split(",") if each.strip()]
    maps = [_MAP.search(str(each)) for each in attributes.get("indexing_maps", ())]
    if len(maps) == 3 and maps[0] and maps[2]:
        result = {each.strip() for each in maps[2][2].split(",")}
        return [n for n, each in enumerate(maps[0][2].split(",")) if each.strip() not in result]
    return [rank - 1]


def _xla_name(element: str) -> str:
    """Returns XLA's name of an element type."""
    if element.startswith(("i", "si")):
        return "s" + element.removeprefix("s")[1:]
    return "u" + element[2:] if element.startswith("ui") else element.lower()


def _copy(
    operands: Sequence[int], attributes: Mapping[str, Any], types: Types, origins: Mapping[int, int]
) -> Mapping[str, float]:
    """Returns the bytes that a copy reads and writes outside of the fast memories."""
    segments = attributes.get("operandSegmentSizes", [])
    arrays = [value for value in operands if types[value][0] == "memref" and "semaphore" not in types[value][2]]
    target = operands[sum(segments[:2])] if isinstance(segments, list) and len(segments) > 2 else arrays[-1]
    ends = (operands[0], target)
    size = min(_bytes(types[value]) for value in ends)
    moved: Work = {}
    for value in ends:
        if types[value][3] not in _FAST:
            origin = origins.get(value)
            name = "copied" if origin is None else f"copied {origin}"
            moved[name] = moved.get(name, 0.0) + size
    return moved
