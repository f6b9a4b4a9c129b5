"""`OutputError`: the error of one output of a run against a reference with 64-bit values."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np

from inspector.errors import ParameterError, Unavailable
from inspector.execution.array_difference import Array
from inspector.execution.tolerances import TOLERANCES
from inspector.support.notebook import short

Verdict = Literal["as accurate", "less accurate", "more accurate", "wrong"]

_NARROWEST = 0.25  # floating-point types of at most 8 bits
_MARGIN = 2.0  # errors of equally accurate programs differ by less
_NOISE_ULPS = 2.0  # an error below it, relative to the scale, is rounding of the result itself
_ROUNDING = 100 * 2.0**-52 / 2.0**-23  # part of a result in 32 bits that the rounding of a result in 64 bits may be
_NOT_FLOATS = Unavailable("only floating-point numbers have units in the last place")
_NO_ERROR = Unavailable("the baseline has no error")
_NOT_FINITE = Unavailable("no element is finite in both")


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of NumPy's `allclose`: an element is close if its error is at most `atol + rtol * |reference|`.

    Attributes:
      rtol: relative to the reference; None for the default of the output's type.
      atol: absolute; None for `rtol` times the scale of the output.
    """

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value < math.inf):
                raise ParameterError(f"{name} is {short(value)}. Expected a number that is not negative, such as 1e-4.")

    def limits(self, dtype: str, scale: float) -> tuple[float, float]:
        """Returns the relative and the absolute tolerance of an output.

        Args:
          dtype: name of its type.
          scale: the root mean square of the reference.
        """
        usual = 0.0 if not _is_float(dtype) else TOLERANCES.get(dtype, _NARROWEST)
        rtol = usual if self.rtol is None else float(self.rtol)
        return rtol, rtol * scale if self.atol is None else float(self.atol)


@dataclasses.dataclass(frozen=True, slots=True)
class OutputError:
    """The error of one output against the reference.

    The error of an element is its absolute error divided by the larger of two numbers: the reference's absolute value, and its
    scale, the root mean square of the output. So errors of elements near 0 count relative to the whole output. Elements that
    are not finite in both are counted separately.

    Attributes:
      path: path of the output, such as `[0]['w']`; "" for a single output.
      dtype: NumPy's name of its type.
      count: number of elements.
      max_error, median_error: largest and median error of an element.
      rms_error: root mean square of the errors, by which variants are compared.
      max_ulps: largest absolute error in units in the last place of the output's type at the reference's value; half a unit is a
        correctly rounded result.
      nans, infinities: NaN and infinite elements whose reference is something else.
      finite: finite elements whose reference is NaN or infinite.
      outside: elements outside the tolerance, including these.
      is_zero: whether the exact output is 0 up to rounding, for example the gradient of a bias before a normalization. Its scale
        is then that of the inputs.
      underflows: whether all elements are 0 because the reference, which is not 0, is below the smallest normal number of the
        type. They count as correct.
    """

    path: str
    dtype: str
    count: int
    max_error: float | Unavailable
    median_error: float | Unavailable
    rms_error: float | Unavailable
    max_ulps: float | Unavailable
    nans: int
    infinities: int
    finite: int
    outside: int
    is_zero: bool = False
    underflows: bool = False

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number of its type; 0 for integers."""
        return _epsilon(self.dtype)

    def ratio(self, baseline: OutputError) -> float | Unavailable:
        """Returns this error divided by the baseline's: 1 if both are 0, Unavailable if only the baseline's is 0."""
        if isinstance(self.rms_error, Unavailable):
            return self.rms_error
        if isinstance(baseline.rms_error, Unavailable):
            return baseline.rms_error
        if not baseline.rms_error:
            return _NO_ERROR if self.rms_error else 1.0
        return self.rms_error / baseline.rms_error

    def verdict(self, baseline: OutputError) -> Verdict:
        """Returns the verdict relative to the baseline's error.

        "wrong" if an element is outside the tolerance. Otherwise errors below 2 ulps of the scale count as 2 ulps, and errors
        that differ by less than a factor of 2 are equal.
        """
        if self.outside:
            return "wrong"
        if isinstance(self.rms_error, Unavailable) or isinstance(baseline.rms_error, Unavailable):
            return "as accurate"
        noise = _NOISE_ULPS * self.epsilon
        ours, theirs = max(self.rms_error, noise), max(baseline.rms_error, noise)
        if ours == theirs:
            return "as accurate"
        return (
            "less accurate"
            if ours >= _MARGIN * theirs
            else "more accurate"
            if theirs >= _MARGIN * ours
            else "as accurate"
        )


@np.errstate(invalid="ignore", over="ignore", divide="ignore")  # infinities and NaN are the subject
def output_error(
    path: str, ours: Array, reference: Array, tolerance: Tolerance, inputs_scale: float = 0.0
) -> OutputError:
    """Computes the error of an output.

    Args:
      path: its path.
      ours: its values.
      reference: the values of the reference, of the same shape.
      tolerance: the tolerance.
      inputs_scale: the largest root mean square of an input, the scale of an output that is 0 up to rounding.
    """
    name = ours.dtype.name
    kind = np.complex128 if "complex" in reference.dtype.name else np.float64
    wide, exact = (each.astype(kind).reshape(-1) for each in (ours, reference))
    are_finite, should_be = np.isfinite(wide), np.isfinite(exact)
    known = are_finite & should_be
    is_same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    odd = ~known & ~is_same
    sizes, apart = np.abs(exact[known]), np.abs(wide[known] - exact[known])
    # Both widths round a sum of the same terms. If its exact value is 0, the results are in the ratio of the widths.
    is_zero = _epsilon(name) > 1e-12 and _rms(sizes) < _ROUNDING * _rms(np.abs(wide[known]))
    scale = max(_rms(sizes), inputs_scale if is_zero else 0.0, _smallest(name))
    errors = apart / np.maximum(sizes, scale)
    rtol, atol = tolerance.limits(name, scale)
    return OutputError(
        path=path,
        dtype=name,
        count=ours.size,
        max_error=float(errors.max()) if errors.size else _NOT_FINITE,
        median_error=float(np.median(errors)) if errors.size else _NOT_FINITE,
        rms_error=_rms(errors) if errors.size else _NOT_FINITE,
        max_ulps=_ulps(name, apart, sizes),
        nans=int((odd & np.isnan(wide)).sum()),
        infinities=int((odd & np.isinf(wide)).sum()),
        finite=int((odd & are_finite).sum()),
        outside=int(odd.sum() + (apart > atol + rtol * sizes).sum()),
        is_zero=is_zero,
        underflows=_is_float(name) and not wide.any() and 0 < float(np.max(sizes, initial=0.0)) < _smallest(name),
    )


def _ulps(dtype: str, apart: Array, sizes: Array) -> float | Unavailable:
    if not _is_float(dtype):
        return _NOT_FLOATS
    if not apart.size:
        return _NOT_FINITE
    exponents = np.floor(np.log2(np.maximum(sizes, _smallest(dtype))))
    return float((apart / (_epsilon(dtype) * 2.0**exponents)).max())


def scale_of(values: Array) -> float:
    """Returns the root mean square of the finite values of an array; 0 for integers and booleans."""
    if not _is_float(values.dtype.name):
        return 0.0
    sizes = np.abs(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
    return _rms(sizes[np.isfinite(sizes)])


def _rms(values: Array) -> float:
    most = float(values.max(initial=0.0))
    return most * float(np.sqrt(np.mean((values / most) ** 2))) if most else 0.0


def _is_float(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


def _finfo(name: str) -> Any:
    import jax.numpy as jnp

    return jnp.finfo(name)  # type: ignore[no-untyped-call]


def _epsilon(name: str) -> float:
    """Returns the distance from 1 to the next number of a type; 0 for integers."""
    return float(_finfo(name).eps) if _is_float(name) else 0.0


def _smallest(dtype: str) -> float:
    return float(_finfo(dtype).tiny) if _is_float(dtype) else 1.0
