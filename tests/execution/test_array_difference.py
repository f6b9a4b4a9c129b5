"""Differences of arrays of every type against exact arithmetic, one element at a time."""

from __future__ import annotations

import cmath
import fractions
import functools
import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from inspector.errors import Unavailable
from inspector.execution import array_difference as differences
from inspector.execution.array_difference import difference

SMALL_FLOATS = [
    "bfloat16", "float16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn",
]  # fmt: skip
FLOATS = [*SMALL_FLOATS, "float32", "float64"]
INTEGERS = ["bool", "int2", "int4", "uint4", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
COMPLEX = ["complex64", "complex128"]


def dtype_of(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, name))


def random_pair(name: str, count: int = 400) -> tuple[Any, Any]:
    """Arrays of any bits where these are few, else of many sizes, with infinities and NaN; a third of them equal."""
    kind = dtype_of(name)
    source = np.random.default_rng(sorted([*FLOATS, *INTEGERS, *COMPLEX]).index(name))
    if name == "bool":
        a, b = source.integers(0, 2, (2, count)).astype(bool)
    elif name in ("int2", "int4", "uint4"):
        a, b = source.integers(-8, 8, (2, count)).astype(kind)
    elif name in SMALL_FLOATS:
        codes = source.integers(0, 1 << bits_of(kind), (2, count))
        a, b = codes.astype(np.uint16 if kind.itemsize == 2 else np.uint8).view(kind)
    elif name in INTEGERS:
        a, b = np.frombuffer(source.bytes(2 * count * kind.itemsize), kind).reshape(2, count).copy()
    else:
        a, b = np.ldexp(source.normal(size=(2, count)), source.integers(-40, 40, (2, count))).astype(kind)
        if name in COMPLEX:
            a, b = a + 1j * b[::-1], b - 1j * a[::-1]
            a[9:12] = complex(np.nan, 1), complex(1, np.inf), complex(np.inf, np.nan)
        a[3:6] = np.nan, np.inf, -np.inf
        b[5:8] = np.inf, np.nan, -np.inf
    same = source.random(count) < 1 / 3
    b[same] = a[same]
    return a, b


def bits_of(kind: Any) -> int:
    return int(ml_dtypes.finfo(kind).bits)  # type: ignore[no-untyped-call]


def exact(value: Any) -> Any:
    """A Python number that is the same, with infinities and NaN as floats."""
    if np.iscomplexobj(value):
        return complex(value)
    if "int" in value.dtype.name:
        return int(value)
    number = float(value)
    return fractions.Fraction(number) if math.isfinite(number) else number


def is_finite(value: Any) -> bool:
    return cmath.isfinite(value) if isinstance(value, complex) else not isinstance(value, float)


def are_equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


@functools.cache
def places(name: str) -> dict[fractions.Fraction, int]:
    """The numbers of a type of at most 16 bits, in order."""
    kind = dtype_of(name)
    codes = np.arange(1 << bits_of(kind)).astype(np.uint16 if kind.itemsize == 2 else np.uint8).view(kind)
    known = {exact(value) for value in codes}
    return {value: place for place, value in enumerate(sorted(filter(is_finite, known)))}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("are_finite", [False, True])
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX])
def test_every_type_against_exact_arithmetic(name: str, are_finite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "_BLOCK", 64)
    a, b = random_pair(name)
    if are_finite:
        keep = [is_finite(exact(x)) and is_finite(exact(y)) for x, y in zip(a, b, strict=True)]
        a, b = a[keep], b[keep]
    values, others = [exact(x) for x in a], [exact(y) for y in b]
    unlike = [n for n, pair in enumerate(zip(values, others, strict=True)) if not are_equal(*pair)]
    found = difference("p", a, b)
    assert (found.path, found.count, found.differing) == ("p", len(a), len(unlike))
    assert unlike
    assert found.first == (unlike[0],)
    assert (found.value, found.other_value) == (str(a[unlike[0]]), str(b[unlike[0]]))
    assert (found.nans, found.other_nans) == tuple(sum(v != v for v in each) for each in (values, others))
    for count, each in ((found.infinities, values), (found.other_infinities, others)):
        assert count == sum(isinstance(v, (float, complex)) and cmath.isinf(v) for v in each)
    if not all(is_finite(values[n]) and is_finite(others[n]) for n in unlike):
        assert isinstance(found.largest, Unavailable)
        assert found.largest == found.scaled == found.relative
        return
    apart = [abs(values[n] - others[n]) for n in unlike]
    most = max(abs(y) for y in others if is_finite(y))
    ratios = [d / abs(others[n]) for d, n in zip(apart, unlike, strict=True) if others[n]]
    assert found.largest == pytest.approx(float(max(apart)), rel=1e-6)
    assert found.scaled == pytest.approx(float(max(apart) / most), rel=1e-6)
    assert found.relative == pytest.approx(float(max(ratios)), rel=1e-6)
    if name in SMALL_FLOATS:
        order = places(name)
        assert found.ulps == max(abs(order[values[n]] - order[others[n]]) for n in unlike)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX])
def test_an_array_is_equal_to_itself(name: str) -> None:
    a, _ = random_pair(name)
    found = difference("", a.reshape(20, 20), a.copy().reshape(20, 20))
    assert (found.differing, found.first, found.value, found.other_value) == (0, None, "", "")
    assert (found.largest, found.scaled, found.relative) == (0.0, 0.0, 0.0)
    assert found.ulps == 0 or name in INTEGERS
    assert (found.nans, found.infinities) == (found.other_nans, found.other_infinities)
    assert found.nans == sum(bool(v != v) for v in a)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_arrays_of_any_shape(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, np.float32)
    assert difference("", a, a).differing == 0
    assert difference("", a, a + 1).differing == a.size


def test_the_first_that_differs_is_found_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "_BLOCK", 8)
    a = np.zeros((5, 7), np.float32)
    for at in ((0, 0), (1, 1), (3, 4), (4, 6)):
        b = a.copy()
        b[at] = b[4, 6] = 2
        found = difference("", b, a)
        assert (found.first, found.value, found.other_value) == (at, "2.0", "0.0")
        assert found.differing == len({at, (4, 6)})


def test_large_differences_are_reported_exactly() -> None:
    a, b = np.array([2**62 + 1, 0]), np.array([2**62, 0])
    assert difference("", a, b).largest == 1.0 or np.finfo(np.longdouble).nmant < 62
    most = np.finfo(np.float32).max
    assert difference("", np.array([most]), np.array([-most])).largest == 2 * float(most)


def test_non_numeric_elements_have_no_sizes() -> None:
    found = difference("", np.array(["a", "b"]), np.array(["a", "c"]))
    assert (found.differing, found.first) == (1, (1,))
    assert found.largest == found.scaled == found.relative == Unavailable("the values are not numbers")
    assert isinstance(found.ulps, Unavailable)


@pytest.mark.parametrize("is_same", [True, False])
def test_comparing_takes_little_memory_beside_the_arrays(is_same: bool) -> None:
    a = np.ones(6 << 20, ml_dtypes.bfloat16)
    b = a.copy() if is_same else a + a
    tracemalloc.start()
    try:
        found = difference("", a, b)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.differing == (0 if is_same else len(a))
    assert peak < a.nbytes
