"""Operations of calls of linear algebra libraries: LAPACK on CPUs, cuSOLVER, cuBLAS and their AMD counterparts on GPUs.

- Factorizations and triangular solves count by the formulas of LAPACK Working Note 41 (Anderson, Dongarra, Ostrouchov), appendix
  C, in multiplications and additions. One of complex numbers counts as 6 and 2 operations.
- Eigenvalues and singular values are found by iterations, whose number depends on the values. They count by the tables of Golub
  and Van Loan, "Matrix Computations", 4th edition, sections 7.5, 8.3 and 8.6, and are `About`. Libraries may use other algorithms.
- `TopK` counts one comparison for each element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from inspector.errors import About, Missing
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape

TOP_K = "TopK"
"""Target of the calls that find the largest elements on CPUs."""

LIBRARIES = ("lapack_", "cusolver_", "hipsolver_", "__cusolver$cholesky", "__cublas$triangularSolve")
"""First parts of the targets of linear algebra libraries."""

_ROUTINE = re.compile(r"(?:lapack_[sdcz]|cusolver_|hipsolver_)([a-z]+[0-9]?)_ffi")
_NATIVE = {"__cusolver$cholesky": "potrf", "__cublas$triangularSolve": "trsm"}
_SAME = {
    "ungqr": "orgqr", "unmqr": "ormqr", "heevd": "syevd", "hetrd": "sytrd", "geqp3": "geqrf", "gesvdj": "gesdd",
    "gesvdp": "gesdd", "gesvd": "gesdd", "heev": "syevd", "syev": "syevd",
}  # fmt: skip
_ATTRIBUTE = re.compile(r"\b(\w+) = (-?\w+)")
_COMPLEX = ("c64", "c128")
_NO, _RIGHT = str(ord("N")), str(ord("R"))
_MULTIPLICATION, _ADDITION = 6.0, 2.0  # operations on real numbers
_COMPLEX_AVERAGE = (_MULTIPLICATION + _ADDITION) / 2

_Counts = tuple[float, float]
"""Multiplications and additions."""


def library_flops(call: Instruction) -> float | None:
    """Returns the floating-point operations of a library call, on real numbers; None for another or an unknown routine.

    Args:
      call: a custom call.
    """
    target = call.custom_call_target
    if target == TOP_K and call.operands:
        return float(math.prod(call.operands[0].shape.dimensions))
    match = _ROUTINE.fullmatch(target)
    name = match[1] if match else _NATIVE.get(target, "")
    name = _SAME.get(name, name)
    shapes = [operand.shape for operand in call.operands]
    results = call.shape.leaves
    if not shapes or not results or len(shapes[0].dimensions) < 2:
        return None
    is_complex = any(shape.element_type in _COMPLEX for shape in (shapes[0], *results))
    options = dict(_ATTRIBUTE.findall(call.backend_config.decode(errors="replace")))
    if name in _FORMULAS:
        multiplications, additions = _FORMULAS[name](shapes, results, options)
        one = multiplications * _MULTIPLICATION + additions * _ADDITION if is_complex else multiplications + additions
        return one * _batch(shapes[0])
    if name in _ITERATIONS:
        one = _ITERATIONS[name](shapes, results, options) * (
            _COMPLEX_AVERAGE if shapes[0].element_type in _COMPLEX else 1
        )
        reason = "counted by the formula of a textbook algorithm"
        return About(one * _batch(shapes[0]), [Missing(call.name, "iterative routine", reason)])
    return None


def _batch(of: Shape) -> float:
    return float(math.prod(of.dimensions[:-2]))


def _sides(of: Shape) -> tuple[float, float]:
    return float(of.dimensions[-2]), float(of.dimensions[-1])


def _potrf(shapes: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, str]) -> _Counts:
    n = _sides(shapes[0])[1]
    return n**3 / 6 + n**2 / 2 + n / 3, n**3 / 6 - n / 6


def _getrf(shapes: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, str]) -> _Counts:
    n, m = sorted(_sides(shapes[0]))
    products = n * (n * (m - n / 3) / 2)
    return products + n * (m - n) / 2 + 2 * n / 3, products - n * m / 2 + n / 6


def _geqrf(shapes: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, str]) -> _Counts:
    m, n = _sides(shapes[0])
    if m > n:
        products = n * n * (0.5 - n / 3 + m)
        return products + n * (m + 23 / 6), products + n * 5 / 6
    products = m * m * (-0.5 - m / 3 + n)
    return products + m * (2 * n + 23 / 6), products + m * (n + 5 / 6)


def _orgqr(shapes: Sequence[Shape], results: Sequence[Shape], _: Mapping[str, str]) -> _Counts:
    m, n = _sides(results[0])
    k = float(shapes[1].dimensions[-1])
    products = k * (2 * m * n + k * (2 * k / 3 - m - n))
    return products + k * (2 * n - 5 / 3 - k), products + k * (n - m + 1 / 3)


def _ormqr(shapes: Sequence[Shape], results: Sequence[Shape], _: Mapping[str, str]) -> _Counts:
    m, n = _sides(results[0])
    if _sides(shapes[0])[0] != m:  # from the right
        m, n = n, m
    k = float(shapes[1].dimensions[-1])
    products = n * k * (2 * m - k)
    return products + 2 * n * k, products + n * k


def _trsm(shapes: Sequence[Shape], results: Sequence[Shape], options: Mapping[str, str]) -> _Counts:
    m, n = _sides(results[0])
    if options.get("side") == _RIGHT or (_sides(shapes[0])[0] != m):
        m, n = n, m
    return m * n * (m + 1) / 2, m * n * (m - 1) / 2


def _gehrd(shapes: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, str]) -> _Counts:
    n = _sides(shapes[0])[1]
    return max(0.0, n * (n * (5 * n / 3 + 0.5) - 7 / 6) - 13), max(0.0, n * (n * (5 * n / 3 - 1) - 2 / 3) - 8)


def _sytrd(shapes: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, str]) -> _Counts:
    n = _sides(shapes[0])[1]
    return max(0.0, n * (n * (2 * n / 3 + 2.5) - 1 / 6) - 15), max(0.0, n * (n * (2 * n / 3 + 1) - 8 / 3) - 4)


_Formula = Callable[[Sequence[Shape], Sequence[Shape], Mapping[str, str]], _Counts]
_FORMULAS: Mapping[str, _Formula] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "orgqr": _orgqr, "ormqr": _ormqr, "trsm": _trsm, "gehrd": _gehrd,
    "sytrd": _sytrd,
}  # fmt: skip


def _syevd(shapes: Sequence[Shape], _: Sequence[Shape], options: Mapping[str, str]) -> float:
    n = _sides(shapes[0])[1]
    return (4 / 3 if options.get("mode") == _NO else 9.0) * n**3


def _gesdd(shapes: Sequence[Shape], results: Sequence[Shape], options: Mapping[str, str]) -> float:
    n, m = sorted(_sides(shapes[0]))
    if options.get("mode") == _NO or options.get("compute_uv") in ("false", "0"):
        return min(4 * m * n**2 - 4 * n**3 / 3, 2 * m * n**2 + 2 * n**3)
    is_full = any(shape.dimensions[-2:] == (int(m), int(m)) for shape in results if len(shape.dimensions) > 1)
    if is_full and m > n:
        return min(4 * m**2 * n + 8 * m * n**2 + 9 * n**3, 4 * m**2 * n + 22 * n**3)
    return min(14 * m * n**2 + 8 * n**3, 6 * m * n**2 + 20 * n**3)


def _geev(shapes: Sequence[Shape], _: Sequence[Shape], options: Mapping[str, str]) -> float:
    n = _sides(shapes[0])[1]
    wants = {options.get("compute_left", _NO), options.get("compute_right", _NO), options.get("mode", _NO)}
    return (10.0 if wants <= {_NO, "false"} else 25.0) * n**3


_ITERATIONS: Mapping[str, Callable[[Sequence[Shape], Sequence[Shape], Mapping[str, str]], float]] = {
    "syevd": _syevd, "gesdd": _gesdd, "geev": _geev, "gees": _geev,
}  # fmt: skip
