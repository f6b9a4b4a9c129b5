"""Counts complex arithmetic and FFTs in operations on real numbers.

XLA's cost analysis counts an operation on complex numbers as one operation, and an FFT by a formula that is 1.6 times too
high in one dimension and more in several.
"""

from __future__ import annotations

import math

import numpy as np

from inspector.errors import About, Missing
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.single_instructions import FLOW, FREE
from inspector.hlo.shape import Shape

_COMPLEX = frozenset({"c64", "c128"})
_PER_OPERATION = {
    "add": 2.0, "subtract": 2.0, "negate": 2.0, "multiply": 6.0, "divide": 11.0,
    "convolution": 4.0, "dot": 4.0,  # a multiply-add: 8 real operations, where XLA counts 2
    "complex": 0.0, "real": 0.0, "imag": 0.0,  # only move data
}  # fmt: skip
_ELSEWHERE = FLOW | FREE | {"fusion"}
_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul", "__cudnn$conv")
_PER_POINT = 5.0
_REAL_FFTS = (2, 3)  # RFFT, IRFFT in xla_data.proto's FftType
_INVERSE_REAL = 3


def counted_otherwise(module: Module) -> list[int]:
    """Returns the rows of instructions, except fusions and calls, whose operations XLA counts differently."""
    columns = module.columns
    is_counted_otherwise = columns.opcode_is("fft".__eq__)
    has_complex = np.array([_has_complex(shape) for shape in module.known_shapes], bool)
    if has_complex.any():
        made, links = has_complex[columns.shapes.codes], columns.operands
        is_counted_otherwise |= made
        is_counted_otherwise[links.from_rows[made[links.rows]]] = True
    return np.flatnonzero(is_counted_otherwise & ~columns.opcode_is(_ELSEWHERE.__contains__)).tolist()


def real_operations(instruction: Instruction, counted: float) -> float:
    """Returns the floating-point operations of one execution, on real numbers.

    Args:
      instruction: one of `counted_otherwise`.
      counted: XLA's count.

    Returns:
      `About` for an FFT, because only the library knows its algorithm.
    """
    if instruction.opcode == "fft":
        return _of_fft(instruction)
    return counted * _factor(instruction)


def _factor(instruction: Instruction) -> float:
    if instruction.opcode == "custom-call":
        return _PER_OPERATION["dot"] if instruction.custom_call_target.startswith(_PRODUCTS) else 1.0
    applied = instruction.to_apply
    opcode = instruction.opcode if applied is None else applied.root.opcode
    return _PER_OPERATION.get(opcode, 1.0)


def _of_fft(instruction: Instruction) -> float:
    """Counts 5 N log2 N for each transform of N complex points, as FFTW and cuFFT do in benchmarks, and half for real ones."""
    proto = instruction.proto
    points = math.prod(proto.fft_length)
    is_real = int(proto.fft_type) in _REAL_FFTS
    whole = instruction.shape if int(proto.fft_type) == _INVERSE_REAL else instruction.operands[0].shape
    transforms = math.prod(whole.dimensions) / max(1, points)
    operations = _PER_POINT * points * math.log2(max(1, points)) * transforms / (2 if is_real else 1)
    return About(operations, [Missing(instruction.name, "FFT", "counted as 5 N log2 N (half for real values)")])


def _has_complex(shape: Shape) -> bool:
    return any(leaf.element_type in _COMPLEX for leaf in shape.leaves)
