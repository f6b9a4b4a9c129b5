"""`Difference`: numerical differences between two arrays.

Arrays are processed in blocks, so that intermediate values take little memory, and are widened to types in which their
differences are exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from inspector.errors import Unavailable

Array: TypeAlias = npt.NDArray[Any]
T = TypeVar("T")

_BLOCK = 1 << 16  # elements, so that intermediate values fit into the processor's cache
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NO_NUMBERS = Unavailable("the values are not numbers")
_NOT_FLOATS = Unavailable("only floating-point numbers have units in the last place")
_UNLIKE_NUMBERS = Unavailable("finite values are compared with NaN or infinity")


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The differences between one output of a run and the same output of another run. NaN equals NaN.

    Attributes:
      path: path of the output, such as `[0]['w']`; "" for a single output.
      count: number of elements.
      differing: number of unequal elements.
      largest: largest absolute difference.
      scaled: largest absolute difference divided by the largest absolute value of the other output; None if that value is 0
        and the outputs differ.
      relative: largest relative difference, among elements whose value in the other run is not 0; None if all are 0.
      ulps: largest difference in units in the last place; for complex numbers, of the real or imaginary part.
      first: index of the first unequal element, row-major; None if all are equal.
      value, other_value: the values of that element, as text.
      nans, other_nans, infinities, other_infinities: number of such elements in each output.
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


@np.errstate(invalid="ignore", over="ignore")  # infinities and signaling NaN
def difference(path: str, ours: Array, theirs: Array) -> Difference:
    """Computes the differences between two outputs of equal shape and type."""
    totals = _Totals(_kind(ours.dtype))
    if all((_bits(a) == _bits(b)).all() for a, b in _blocks(ours, theirs)):
        for block, _ in _blocks(ours, ours):
            totals.see_equal(block)
    else:
        for a, b in _blocks(ours, theirs):
            totals.see(a, b)
    first = None if totals.first is None else tuple(map(int, np.unravel_index(totals.first, ours.shape)))
    return Difference(
        path=path,
        count=ours.size,
        differing=totals.differing,
        largest=totals.number(totals.largest),
        scaled=totals.number(totals.scaled),
        relative=totals.number(totals.relative),
        ulps=totals.ulps,
        first=first,
        value="" if first is None else str(ours[first]),
        other_value="" if first is None else str(theirs[first]),
        nans=totals.nans[0],
        other_nans=totals.nans[1],
        infinities=totals.infinities[0],
        other_infinities=totals.infinities[1],
    )


_Kind: TypeAlias = Literal["float", "complex", "integer", ""]


def _kind(dtype: np.dtype[Any]) -> _Kind:
    """Returns the kind of a dtype, by name, because the types of ml_dtypes do not inherit from NumPy's."""
    for kind, names in _KINDS.items():
        if dtype.name.startswith(names):
            return kind
    return ""


_KINDS: dict[_Kind, tuple[str, ...]] = {
    "float": ("float", "bfloat"), "complex": ("complex",), "integer": ("int", "uint", "bool"),
}  # fmt: skip


class _Totals:
    """Accumulated differences after some blocks of two arrays. Attributes are as in `Difference`, for both arrays.

    Attributes:
      first: flat index of the first unequal element.
    """

    def __init__(self, kind: _Kind) -> None:
        self._kind = kind
        self._seen = 0
        self._is_odd = False
        self._most = 0.0
        self._relative: float | None = None
        self.differing = 0
        self.first: int | None = None
        self.largest = 0.0
        self.ulps: int | Unavailable = 0 if kind in ("float", "complex") else _NOT_FLOATS
        self.nans, self.infinities = [0, 0], [0, 0]

    def see_equal(self, block: Array) -> None:
        """Adds the next block of both arrays, if the blocks are identical."""
        if self._kind in ("float", "complex"):
            self._count_odd(0, _wide(block))
            self.nans[1], self.infinities[1] = self.nans[0], self.infinities[0]

    def see(self, a: Array, b: Array) -> None:
        """Adds the next block of each array."""
        unlike = np.asarray(a != b)
        wide = (_wide(a), _wide(b)) if self._kind else (np.zeros(0), np.zeros(0))
        if self._kind in ("float", "complex"):
            unlike &= ~(np.isnan(wide[0]) & np.isnan(wide[1]))
            for side in (0, 1):
                self._count_odd(side, wide[side])
        sizes = np.abs(wide[1])
        self._most = max(self._most, float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))
        places = np.flatnonzero(unlike)
        if len(places):
            self.first = self._seen + int(places[0]) if self.first is None else self.first
            self.differing += len(places)
            if self._kind:
                self._measure(wide[0][places], wide[1][places], sizes[places])
            if not isinstance(self.ulps, Unavailable):
                steps = _ulps(a[places], b[places])
                self.ulps = steps if isinstance(steps, Unavailable) else max(self.ulps, steps)
        self._seen += len(a)

    @property
    def scaled(self) -> float | None:
        if not self.differing:
            return 0.0
        return self.largest / self._most if self._most else None

    @property
    def relative(self) -> float | None:
        return self._relative if self.differing else 0.0

    def number(self, known: T) -> T | Unavailable:
        """Returns a statistic, or why it does not exist."""
        if not self._kind:
            return _NO_NUMBERS
        return _UNLIKE_NUMBERS if self._is_odd else known

    def _count_odd(self, side: int, wide: Array) -> None:
        self.nans[side] += int(np.isnan(wide).sum())
        self.infinities[side] += int(np.isinf(wide).sum())

    def _measure(self, a: Array, b: Array, sizes: Array) -> None:
        """Measures the differences between unequal elements; `sizes` are the absolute values of `b`."""
        apart = np.abs(a - b)
        if not np.isfinite(apart).all():
            self._is_odd = True
            return
        self.largest = max(self.largest, float(apart.max()))
        some = sizes > 0
        if some.any():
            self._relative = max(self._relative or 0.0, float((apart[some] / sizes[some]).max()))


def _blocks(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    a, b = a.reshape(-1), b.reshape(-1)
    for start in range(0, len(a), _BLOCK):
        yield a[start : start + _BLOCK], b[start : start + _BLOCK]


def _bits(values: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8)


def _wide(values: Array) -> Array:
    """Converts to a type in which differences are exact; for elements of 8 bytes, to NumPy's widest type."""
    is_complex = _kind(values.dtype) == "complex"
    if values.dtype.itemsize > (8 if is_complex else 4):
        return values.astype(np.clongdouble if is_complex else np.longdouble)
    return values.astype(np.complex128 if is_complex else np.float64)


def _ulps(a: Array, b: Array) -> int | Unavailable:
    """Returns the largest difference in units in the last place; for complex numbers, of their parts."""
    if _kind(a.dtype) == "complex":
        parts = [_ulps(*_unlike(part(a), part(b))) for part in (np.real, np.imag)]
        known = [part for part in parts if not isinstance(part, Unavailable)]
        return max(known) if len(known) == len(parts) else _UNLIKE_NUMBERS
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return _UNLIKE_NUMBERS
    ours, theirs = _in_order(a), _in_order(b)
    return int((np.maximum(ours, theirs) - np.minimum(ours, theirs)).max(initial=0))


def _unlike(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the unequal elements."""
    mask = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return a[mask], b[mask]


def _in_order(values: Array) -> npt.NDArray[np.uint64]:
    """Maps floating-point numbers to integers in the same order, without gaps. Both zeros map to one integer."""
    import jax.numpy as jnp

    whole = np.ascontiguousarray(values).view(_UNSIGNED[values.dtype.itemsize]).astype(np.uint64)
    about = jnp.finfo(values.dtype)  # type: ignore[no-untyped-call]
    if float(about.min) > 0:  # the type has no sign
        return whole
    sign = np.uint64(1 << (int(about.bits) - 1))
    size = whole & (sign - np.uint64(1))
    middle = np.uint64(1 << 63)
    return np.where(whole & sign, middle - size, middle + size)
