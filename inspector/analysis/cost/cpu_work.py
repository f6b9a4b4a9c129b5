"""Work of a CPU's kernels in addition to the operations and bytes that XLA counts.

- **Packing.** Products outside of fusions are Eigen's. It computes them from packed operands, and packs a transposed operand
  with a stride (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). Of a convolution's input
  it packs patches: for each output position, one run of adjacent features for each position of the window
  (`SpatialConvolutions.h`). Products in fusions are YNNPACK's, which reads its inputs in place.
- **Runs.** Gathers and scatters copy one run of adjacent elements for each index. YNNPACK's sums over the innermost dimension
  take about as long to begin each row, which counts if rows are short.
- **Padding.** Convolutions compute products with the padding and with the holes of a dilated input. XLA counts neither.
- **Chains.** LLVM may not reorder floating-point additions. So a loop that reduces the innermost dimension performs one
  operation after the other, unless the dimension is so short that the loop is unrolled.
- **Transposed reads.** A loop follows the order of its result. If a `copy` or `transpose` changes the innermost dimension,
  all arrays from which its operand is computed are read with a stride.
- **Functions** take different times, though XLA counts each as one transcendental: it computes some with polynomials on
  vectors, and calls a library for each value of others. Absolute values of complex numbers take a square root
  (`EmitComplexAbs` in `elemental_ir_emitter.cc`).
- **First writes** (`analysis/cost/first_writes.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

from inspector.analysis.cost.first_writes import first_writes
from inspector.hlo.fused_instructions import Fused
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape
from inspector.platforms import Peak, Rate

_MOVES = frozenset({"copy", "transpose"})
_INDEXED = frozenset({"gather", "scatter"})
_UNROLLED = 16  # elements: a vector of AVX-512
_LINE = 64  # bytes of a cache line
_PACKED_RUNS = 4  # of Eigen, while NumPy copies one; from times of convolutions on a CPU with AVX2
_COMPLEX = ("c64", "c128")

_EXPONENTIALS: Mapping[str, float] = {
    "exponential": 1, "exponential-minus-one": 3.5, "log": 2, "log-plus-one": 4.5, "tanh": 1, "erf": 0.7, "logistic": 2,
    "sqrt": 0.2, "rsqrt": 2, "sine": 14, "cosine": 14, "tan": 80, "power": 35, "cbrt": 60, "atan2": 80,
}  # fmt: skip
"""Time of a function as a multiple of that of `exp`, from times of XLA's CPU (JAX 0.10 and 0.12, AVX2)."""


class CpuWork:
    """The additional work of a module's kernels."""

    def __init__(self, module: Module, peak: Peak) -> None:
        """Stores the arguments.

        Args:
          module: the optimized HLO.
          peak: the figures of a CPU.
        """
        self._peak = peak
        self._strided = _fused(module, _MOVES.__contains__, is_strided)
        self._chains = _fused(module, "reduce".__eq__, _is_chain)
        self._rows = _fused(module, "reduce".__eq__, _sums_rows)
        self._indexed = _fused(module, _INDEXED.__contains__, lambda _: True)
        self._functions = _fused(module, _EXPONENTIALS.__contains__, lambda _: True)
        self._roots = _fused(module, "abs".__eq__, lambda each: each.operands[0].shape.element_type in _COMPLEX)
        self._new = first_writes(module) if isinstance(peak.first_writes, Rate) else {}

    def first_writes_s(self, kernel: Instruction) -> float:
        """Returns the time of a kernel's first writes to new pages."""
        rate = self._peak.first_writes
        return self._new.get(kernel.row, 0.0) / rate.per_s if isinstance(rate, Rate) else 0.0

    def strided_bytes(self, kernel: Instruction) -> float:
        """Returns the bytes of transposing copies that take as long as the transposed reads of a kernel."""
        return sum(2.0 * size for move in self._strided.of(kernel) for size in _read_for(move))

    def reread_bytes(self, kernel: Instruction) -> float:
        """Returns the bytes that a cache must hold so that transposed reads find again the lines that they read before."""
        return max((_reread_bytes(move) for move in self._strided.of(kernel)), default=0.0)

    def chained_s(self, kernel: Instruction) -> float:
        """Returns the time of operations that follow one another."""
        rate = self._peak.chained
        if kernel.fusion_kind == "kCustom" or not isinstance(rate, Rate):
            return 0.0
        return sum(math.prod(each.operands[0].shape.dimensions) for each in self._chains.of(kernel)) / rate.per_s

    def exponentials(self, kernel: Instruction, functions: float) -> float:
        """Returns the number of exponentials that take as long as the functions of a kernel, of which XLA counts `functions`."""
        found = [(_EXPONENTIALS[each.opcode], math.prod(each.shape.dimensions)) for each in self._functions.of(kernel)]
        count = sum(count for _, count in found)
        mean = sum(weight * count for weight, count in found) / count if count else 1.0
        return functions * mean + sum(math.prod(each.shape.dimensions) for each in self._roots.of(kernel))

    def executed_flops(self, product: Instruction, counted: float) -> float:
        """Returns the FLOPs that a library executes for a product, of which XLA counts a part."""
        return max(counted, _padded_flops(product)) if product.opcode == "convolution" else counted

    def packing_s(self, product: Instruction) -> float:
        """Returns the time in which Eigen packs the operands of a product, in blocks that fit into the smallest cache."""
        if _is_fused(product):
            return 0.0
        if product.opcode == "convolution":
            return (
                _patch_runs(product) / (_PACKED_RUNS * self._peak.runs.per_s)
                if isinstance(self._peak.runs, Rate)
                else 0.0
            )
        caches, memory = self._peak.caches, self._peak.strided
        rate = caches[0].strided_bytes_per_s if caches else memory.per_s if isinstance(memory, Rate) else 0.0
        return 2.0 * _transposed_bytes(product) / rate if product.opcode == "dot" and rate else 0.0

    def runs_s(self, kernel: Instruction) -> float:
        """Returns the time of copying one run of elements for each index, and of beginning each row of a library's sums."""
        if not isinstance(self._peak.runs, Rate):
            return 0.0
        runs = sum(map(_index_count, self._indexed.of(kernel)))
        if kernel.fusion_kind == "kCustom":
            runs += sum(math.prod(each.shape.dimensions) for each in self._rows.of(kernel))
        return runs / self._peak.runs.per_s


def is_strided(move: Instruction) -> bool:
    """Reports whether a `copy` or `transpose` changes the dimension that is innermost in memory."""
    source = move.operands[0].shape
    if source.layout is None or move.shape.layout is None:
        return False
    order = [*move.proto.dimensions] if move.opcode == "transpose" else range(len(source.dimensions))
    after = _innermost(move.shape)
    return _innermost(source) != (None if after is None else order[after])


def _reread_bytes(move: Instruction) -> float:
    """Returns the bytes of the cache lines between two reads of one line: the loop follows the order of the result."""
    order, innermost = (
        (move.shape.layout.minor_to_major if move.shape.layout else ()),
        _innermost(move.operands[0].shape),
    )
    if move.opcode == "transpose" and innermost is not None:
        innermost = [*move.proto.dimensions].index(innermost)
    inside = itertools.takewhile(lambda dimension: dimension != innermost, order)
    return float(_LINE * math.prod(move.shape.dimensions[dimension] for dimension in inside))


def _fused(module: Module, opcode: Callable[[str], bool], holds: Callable[[Instruction], bool]) -> Fused:
    """Returns the instructions of an opcode with a property, which is computed once for each kind."""
    kinds, known = module.alike.kinds, dict[int, bool]()
    found = list[int]()
    for row in module.columns.rows_of(opcode):
        kind = int(kinds[row])
        if kind not in known:
            known[kind] = holds(module.at(row))
        if known[kind]:
            found.append(row)
    return Fused(module, found)


def _is_fused(product: Instruction) -> bool:
    callers = product.computation.module.callers.get(product.computation.name, ())
    return bool(callers) and callers[0].opcode == "fusion"


def _innermost(shape: Shape) -> int | None:
    """Returns the dimension that is innermost in memory, without those of size 1; None if it is unknown."""
    order = shape.layout.minor_to_major if shape.layout is not None else ()
    return next((each for each in order if shape.dimensions[each] > 1), None)


def _is_chain(reduction: Instruction) -> bool:
    shape, reduced = reduction.operands[0].shape, reduction.proto.dimensions
    return _innermost(shape) in reduced and math.prod(shape.dimensions[each] for each in reduced) >= _UNROLLED


def _sums_rows(reduction: Instruction) -> bool:
    """Reports whether a reduction adds up the innermost dimension."""
    if reduction.to_apply is None or reduction.to_apply.root.opcode != "add":
        return False
    return _innermost(reduction.operands[0].shape) in reduction.proto.dimensions


def _features(convolution: Instruction) -> int:
    """Returns the number of output features."""
    numbers = convolution.proto.convolution_dimension_numbers
    return max(1, convolution.operands[1].shape.dimensions[int(numbers.kernel_output_feature_dimension)])


def _padded_flops(convolution: Instruction) -> float:
    """Returns the FLOPs of a convolution, with those of padding and holes."""
    sizes = (math.prod(shape.dimensions) for shape in (convolution.shape, convolution.operands[1].shape))
    return 2.0 * math.prod(sizes) / _features(convolution)


def _index_count(instruction: Instruction) -> float:
    """Returns the number of indices of a gather or scatter."""
    if instruction.opcode == "gather":
        indices, vector = instruction.operands[1].shape, instruction.proto.gather_dimension_numbers.index_vector_dim
    else:
        indices = instruction.operands[len(instruction.operands) // 2].shape
        vector = instruction.proto.scatter_dimension_numbers.index_vector_dim
    return float(math.prod(size for dimension, size in enumerate(indices.dimensions) if dimension != vector))


def _patch_runs(convolution: Instruction) -> float:
    """Returns the number of runs of adjacent features in all patches."""
    numbers, window = convolution.proto.convolution_dimension_numbers, convolution.operands[1].shape.dimensions
    positions = math.prod(convolution.shape.dimensions) / _features(convolution)
    return positions * math.prod(window[int(each)] for each in numbers.kernel_spatial_dimensions)


def _transposed_bytes(dot: Instruction) -> float:
    """Returns the bytes of the operands that are packed with a stride: as `x @ w` they are not."""
    lhs, rhs = (operand.shape for operand in dot.operands[:2])
    numbers, size = dot.proto.dot_dimension_numbers, 0.0
    if _innermost(lhs) not in numbers.lhs_contracting_dimensions:
        size += lhs.byte_size
    if _innermost(rhs) in numbers.rhs_contracting_dimensions:
        size += rhs.byte_size
    return size


def _read_for(move: Instruction) -> Iterator[float]:
    """Yields the sizes of the arrays that a loop reads to compute the operand of a move."""
    if not _is_fused(move):
        yield float(move.shape.byte_size)
        return
    seen, waiting = set[int](), [move.operands[0]]
    while waiting:
        current = waiting.pop()
        if current.row in seen:
            continue
        seen.add(current.row)
        if current.opcode == "parameter":
            yield float(min(current.shape.byte_size, move.shape.byte_size))
        waiting += current.operands
