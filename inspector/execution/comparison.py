"""Two runs of one function beside each other: do the outputs agree, and is one faster?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from inspector.errors import ExecutionError, Unavailable
from inspector.execution.run import Run
from inspector.tables import UNKNOWN, Kind, Tabular, make_table
from inspector.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NOT_FLOATS = Unavailable("only floating-point numbers have units in the last place")
_UNLIKE_NUMBERS = Unavailable("a number stands beside NaN or infinity")
_NARROW = Unavailable("the type has less than 8 bits")
_ONE_SIDE = 40  # 2.5 %
_FEW_ULPS = 1024  # more of them say little: near 0 there are billions between two numbers that hardly differ
_NO_NUMBERS = Unavailable("they are no numbers")


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """How one output of a run differs from that of another. NaN equals NaN.

    Attributes:
      path: of the output, such as `[0]['w']`; "" for a single one.
      count: elements.
      differing: elements that are not equal.
      largest: the largest absolute difference.
      scaled: the largest difference by the largest value of the other output; None where that is 0.
      relative: the largest difference by the other run's value, where that is not 0; None where all are 0.
      ulps: the most floating-point numbers of the type that lie between two elements; of complex numbers by parts.
      first: index of the first element that differs, row-major; None where all are equal.
      value, other_value: what stands there.
      nans, other_nans, infinities, other_infinities: elements that are such.
    """

    path: str
    count: int
    differing: int
    largest: float | Unavailable
    scaled: float | Unavailable | None
    relative: float | Unavailable | None
    ulps: int | Unavailable
    first: tuple[int, ...] | None
    value: str
    other_value: str
    nans: int
    other_nans: int
    infinities: int
    other_infinities: int


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """Whether one run is faster than another, by intervals that hold the median with 95 % confidence.

    Attributes:
      ratio: of the other's median to this run's: above 1 where this one is faster.
      is_known: whether the intervals part, so that the difference is more than noise.
      words: a sentence.
    """

    ratio: float
    is_known: bool
    words: str


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """A run against another one.

    Attributes:
      differences: of the outputs, in order.
      speed: which is faster, or why nothing can be said.
    """

    differences: tuple[Difference, ...]
    speed: Speed | Unavailable

    @property
    def same(self) -> bool:
        """Whether all outputs are equal."""
        return not any(each.differing for each in self.differences)

    @property
    def words(self) -> str:
        """How far the outputs agree, as a phrase."""
        unlike = [each for each in self.differences if each.differing]
        if not unlike:
            return f"all {len(self.differences)} outputs equal" if len(self.differences) != 1 else "the output equal"
        said = (
            f"{len(unlike)} of {len(self.differences)} outputs differ"
            if len(self.differences) > 1
            else "the output differs"
        )
        ulps = [each.ulps for each in unlike if not isinstance(each.ulps, Unavailable)]
        if len(ulps) == len(unlike) and max(ulps) <= _FEW_ULPS:
            return f"{said}, by at most {max(ulps):,} ulp{'s' if max(ulps) > 1 else ''}"
        largest = [float(each.largest) for each in unlike if not isinstance(each.largest, Unavailable)]
        if len(largest) < len(unlike):
            return f"{said}, NaN or infinity on one side"
        scaled = [each.scaled for each in unlike if isinstance(each.scaled, float)]
        if len(scaled) == len(unlike):
            return f"{said}, by at most {max(scaled):.2g} of an output's largest value"
        return f"{said}, by at most {max(largest):.2g}"

    def table(self) -> pd.DataFrame:
        """One row an output; the columns are the attributes of `Difference`."""
        return make_table(_COLUMNS, map(_row, self.differences))

    def __repr__(self) -> str:
        speed = self.speed if isinstance(self.speed, Unavailable) else self.speed.words
        return f"<Comparison: {self.words}; {speed}>"


_COLUMNS: Mapping[str, Kind] = {
    "path": "text", "count": "int", "differing": "int", "largest": "float", "scaled": "float", "relative": "float", "ulps": "int",
    "first": "object", "value": "text", "other_value": "text", "nans": "int", "other_nans": "int", "infinities": "int",
    "other_infinities": "int", UNKNOWN: "reasons",
}  # fmt: skip


def _row(each: Difference) -> tuple[object, ...]:
    return tuple(getattr(each, field.name) for field in dataclasses.fields(each))


def compare_runs(run: Run, other: Run) -> Comparison:
    """How a run's outputs and durations differ from another's, which must have had the same inputs.

    Raises:
      ExecutionError: other inputs, or other outputs by number, shape or type.
    """
    _check_alike(run, other)
    paths = [result.path for result in run.program.results]
    pairs = zip(paths, run.outputs, other.outputs, strict=True)
    return Comparison(tuple(_difference(path, a, b) for path, a, b in pairs), speed(run.durations_s, other.durations_s))


def _check_alike(run: Run, other: Run) -> None:
    ours, theirs = ([(o.shape, str(o.dtype)) for o in each.outputs] for each in (run, other))
    if ours != theirs:
        raise ExecutionError(
            f"Outputs can be compared where they have the same shapes and types: one run has {_listed(ours)}, the other"
            f" {_listed(theirs)}."
        )
    given = {i.argument.path: i.value for i in other.inputs}
    for each in run.inputs:
        if each.argument.path not in given or not _equal(each.value, given[each.argument.path]):
            raise ExecutionError(
                f"Runs can be compared where their inputs are the same: {each.argument.path or 'an input'} differs."
                " Run both with the same arguments."
            )


def _listed(found: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in found) or "none"


def _equal(a: Any, b: Any) -> bool:
    first, second = np.asarray(a), np.asarray(b)
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def _difference(path: str, ours: Array, theirs: Array) -> Difference:
    a, b = np.asarray(ours), np.asarray(theirs)
    nan_a, nan_b = _nans(a), _nans(b)
    unlike = ~((a == b) | (nan_a & nan_b))
    places = np.flatnonzero(unlike)
    first = tuple(map(int, np.unravel_index(int(places[0]), a.shape))) if len(places) else None
    largest, relative, ulps = _sizes(a.reshape(-1)[places], b.reshape(-1)[places])
    return Difference(
        path=path,
        count=a.size,
        differing=len(places),
        largest=largest,
        scaled=_scaled(largest, b),
        relative=relative,
        ulps=ulps,
        first=first,
        value="" if first is None else str(a[first]),
        other_value="" if first is None else str(b[first]),
        nans=int(nan_a.sum()),
        other_nans=int(nan_b.sum()),
        infinities=_infinities(a),
        other_infinities=_infinities(b),
    )


def _scaled(largest: float | Unavailable, values: Array) -> float | Unavailable | None:
    """A difference by the largest of some values, so that what stands near 0 counts by what stands around it."""
    if isinstance(largest, Unavailable):
        return largest
    sizes = np.abs(values.astype(np.complex128 if np.issubdtype(values.dtype, np.complexfloating) else np.float64))
    most = float(np.nanmax(sizes, initial=0.0, where=np.isfinite(sizes)))
    return largest / most if most else None


def _sizes(a: Array, b: Array) -> tuple[float | Unavailable, float | Unavailable | None, int | Unavailable]:
    """The largest difference of elements that differ: absolute, relative, in ulps."""
    is_float, is_complex = _is_float(a.dtype), np.issubdtype(a.dtype, np.complexfloating)
    if not (is_float or is_complex or np.issubdtype(a.dtype, np.integer) or a.dtype == np.bool_):
        return _NO_NUMBERS, _NO_NUMBERS, _NOT_FLOATS
    if not len(a):
        return 0.0, 0.0, 0 if is_float or is_complex else _NOT_FLOATS
    if is_complex:
        parts = [_ulps(part(a), part(b)) for part in (np.real, np.imag)]
        ulps: int | Unavailable = max((p for p in parts if not isinstance(p, Unavailable)), default=_UNLIKE_NUMBERS)
        ulps = _UNLIKE_NUMBERS if _UNLIKE_NUMBERS in parts else ulps
        wide: tuple[Array, Array] = a.astype(np.complex128), b.astype(np.complex128)
    else:
        ulps = _ulps(a, b) if is_float else _NOT_FLOATS
        wide = (a.astype(np.longdouble), b.astype(np.longdouble))
    apart = np.abs(wide[0] - wide[1])
    if not np.isfinite(apart).all():
        return _UNLIKE_NUMBERS, _UNLIKE_NUMBERS, ulps
    sizes = np.abs(wide[1])
    some = sizes > 0
    return float(apart.max()), float((apart[some] / sizes[some]).max()) if some.any() else None, ulps


def _ulps(a: Array, b: Array) -> int | Unavailable:
    """The most numbers of the type between two elements."""
    unlike = ~(np.asarray(a == b) | (_nans(a) & _nans(b)))
    a, b = a[unlike], b[unlike]
    if not len(a):
        return 0
    if not (np.isfinite(a.astype(np.float64)).all() and np.isfinite(b.astype(np.float64)).all()):
        return _UNLIKE_NUMBERS
    if a.dtype.name.startswith(("float4_", "float6_")):
        return _NARROW
    ours, theirs = _in_order(a), _in_order(b)
    return int(np.where(ours > theirs, ours - theirs, theirs - ours).max())


def _in_order(values: Array) -> npt.NDArray[np.uint64]:
    """Numbers that follow each other as the floating-point numbers do; both zeros are one."""
    bits = 8 * values.dtype.itemsize
    whole = np.ascontiguousarray(values).view(_UNSIGNED[values.dtype.itemsize]).astype(np.uint64)
    sign = np.uint64(1 << (bits - 1))
    size = whole & (sign - np.uint64(1))
    middle = np.uint64(1 << 63)
    return np.where(whole & sign, middle - size, middle + size)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith(("bfloat", "float"))  # those of ml_dtypes are no heirs of np.floating


def _nans(values: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values != values)  # of any type, integers and keys too


def _infinities(values: Array) -> int:
    if not (_is_float(values.dtype) or np.issubdtype(values.dtype, np.complexfloating)):
        return 0
    kind = np.complex128 if np.issubdtype(values.dtype, np.complexfloating) else np.float64
    return int(np.isinf(values.astype(kind)).sum())


def speed(durations_s: Sequence[float], other_s: Sequence[float]) -> Speed | Unavailable:
    """Whether executions that took some times are faster than others."""
    ours, theirs = median_interval(durations_s), median_interval(other_s)
    for found in (ours, theirs):
        if isinstance(found, Unavailable):
            return found
    assert not isinstance(ours, Unavailable)
    assert not isinstance(theirs, Unavailable)
    middle, other_middle = float(np.median(durations_s)), float(np.median(other_s))
    ratio = other_middle / middle if middle else math.inf
    times = f"{max(ratio, 1 / ratio if ratio else math.inf):.2f} times as fast"
    medians = f"median {format_seconds(middle)} and {format_seconds(other_middle)}"
    if ours[1] < theirs[0]:
        return Speed(ratio, True, f"faster, {times} ({medians})")
    if theirs[1] < ours[0]:
        return Speed(ratio, True, f"slower, the other {times} ({medians})")
    return Speed(ratio, False, f"no difference beyond the noise ({medians})")


def median_interval(durations_s: Sequence[float]) -> tuple[float, float] | Unavailable:
    """The durations between which the median lies with at least 95 % confidence, whatever their distribution.

    Order statistics of a binomial: with n executions the k-th shortest and k-th longest, k as large as it may be.
    """
    count = len(durations_s)
    ways, below, k = 1, 1, 0  # of 2 ** count equally likely ones, in which at most k executions are below the median
    while below * _ONE_SIDE <= 1 << count:
        k += 1
        ways = ways * (count - k + 1) // k
        below += ways
    if not k:
        return Unavailable(f"{count} executions are too few to tell noise from difference", "measure at least 6")
    ordered = sorted(durations_s)
    return ordered[k - 1], ordered[-k]
