"""The error of an output against a reference, on values whose error is known."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from inspector.errors import ParameterError, Unavailable
from inspector.execution.output_error import OutputError, Tolerance, output_error
from inspector.execution.tolerances import TOLERANCES

EXACT = np.linspace(1, 2, 64)


def error_of(
    values: np.ndarray, reference: np.ndarray = EXACT, rtol: float | None = None, atol: float | None = None
) -> OutputError:
    return output_error("[0]", values, reference, Tolerance(rtol, atol))


def test_errors_are_relative_to_the_element_or_to_the_scale() -> None:
    exact = np.array([1e-6, 3.0, 4.0, -5.0])
    found = error_of(exact + np.array([0.01, 0.03, 0, 0]), exact)
    scale = math.sqrt((9 + 16 + 25) / 4)
    assert found.max_error == pytest.approx(0.03 / scale)  # 3.0 is below the scale
    assert found.rms_error == pytest.approx(math.sqrt((0.01**2 + 0.03**2) / 4) / scale)
    assert error_of(exact * 1.001, exact).max_error == pytest.approx(1e-3)
    assert error_of(exact, exact).median_error == 0


def test_an_output_that_is_0_up_to_rounding_has_the_scale_of_the_inputs() -> None:
    noise = np.random.default_rng(0).standard_normal(64)
    rounding = output_error("", np.float32(noise * 1e-8), noise[::-1] * 1e-17, Tolerance(), inputs_scale=2.0)
    assert rounding.is_zero
    assert rounding.outside == 0
    assert 0 < rounding.rms_error < 1e-8
    wrong = output_error("", np.float32(noise), noise * 0, Tolerance(), inputs_scale=2.0)
    assert wrong.outside == (np.abs(noise) > 2e-4).sum() > 60
    cancelled = output_error("", np.float32(noise * 1e-3), noise * 1e-6, Tolerance(), inputs_scale=2.0)
    assert not cancelled.is_zero
    assert cancelled.outside == 64
    assert not output_error("", noise * 1e-17, noise[::-1] * 1e-17, Tolerance(), inputs_scale=2.0).is_zero


@pytest.mark.parametrize(
    ("values", "exact", "expected"),
    [
        ([0, 0], [1e-8, 2e-15], True),
        ([0, 0], [1e-8, 1e-3], False),
        ([0, 6e-8], [1e-8, 6e-8], False),
        ([0, 0], [0, 0], False),
        ([], [], False),
    ],
)
def test_a_result_that_underflows_to_0_is_recognized(values: list[float], exact: list[float], expected: bool) -> None:
    assert error_of(np.float16(values), np.array(exact)).underflows is expected
    assert not error_of(np.zeros(1, np.int32), np.zeros(1, np.int32)).underflows


def test_a_rounded_result_is_half_an_ulp_off() -> None:
    exact = np.random.default_rng(0).uniform(1, 1024, 1000)
    for dtype in (np.float32, np.float16, jnp.bfloat16):
        assert 0.45 < error_of(exact.astype(dtype), exact).max_ulps <= 0.5
    ulp = np.spacing(np.float32(3))
    assert error_of(np.float32([3 + 4 * ulp]), np.array([3.0])).max_ulps == 4


def test_unexpected_values_are_counted_and_outside() -> None:
    exact = np.array([1, 2, np.nan, np.inf, 3, np.inf, 7])
    found = error_of(np.float32([np.nan, np.inf, np.nan, np.inf, 3, -np.inf, 7]), exact)
    assert (found.nans, found.infinities, found.finite, found.outside) == (1, 2, 0, 3)
    assert error_of(np.float32([1, 2, 0, np.inf, 3, 9, 7]), exact).finite == 2
    assert isinstance(error_of(np.float32([np.nan]), np.array([1.0])).max_error, Unavailable)


@pytest.mark.parametrize(("dtype", "rtol"), TOLERANCES.items())
def test_the_default_tolerance_depends_on_the_type(dtype: str, rtol: float) -> None:
    kind = np.complex128 if "complex" in dtype else np.float64
    exact = np.ones(9, kind)
    step = max(rtol, 4 * float(jnp.finfo(dtype).eps))
    assert error_of((exact * (1 + step)).astype(jnp.dtype(dtype)), exact).outside == 0
    assert error_of((exact * (1 + 4 * step)).astype(jnp.dtype(dtype)), exact).outside == 9


def test_integers_must_be_equal_unless_a_tolerance_is_given() -> None:
    exact = np.array([1, 2, 300])
    assert error_of(np.array([1, 2, 301]), exact).outside == 1
    assert error_of(np.array([1, 2, 301]), exact, atol=1).outside == 0
    assert error_of(np.array([True, False]), np.array([True, True])).outside == 1
    assert isinstance(error_of(exact, exact).max_ulps, Unavailable)
    zeros = np.zeros(3, np.int32)
    assert (error_of(zeros, zeros).max_error, error_of(zeros + 1, zeros).max_error) == (0, 1)


def test_verdicts_ignore_noise_and_have_a_margin() -> None:
    noise = np.random.default_rng(1).choice([-1, 1], EXACT.size)

    def off(ulps: float) -> OutputError:
        return error_of((EXACT + noise * ulps * 2.0**-23).astype(np.float32))

    assert off(0).verdict(off(0)) == off(1).verdict(off(0)) == off(0).verdict(off(1)) == "as accurate"
    assert off(15).verdict(off(10)) == off(10).verdict(off(15)) == "as accurate"
    assert off(30).verdict(off(10)) == "less accurate"
    assert off(10).verdict(off(30)) == "more accurate"
    assert off(30).ratio(off(10)) == pytest.approx(3, rel=0.05)
    assert off(5000).verdict(off(10)) == "wrong"


def test_ratios_without_an_error() -> None:
    none, some = error_of(EXACT), error_of(EXACT * 1.5)
    assert none.ratio(none) == 1
    assert some.ratio(none) == Unavailable("the baseline has no error")
    assert none.ratio(some) == 0
    assert isinstance(error_of(EXACT * np.nan).ratio(none), Unavailable)
    assert isinstance(none.ratio(error_of(EXACT * np.nan)), Unavailable)


def test_empty_outputs_and_tiny_values() -> None:
    empty = error_of(np.zeros((0, 3), np.float32), np.zeros((0, 3)))
    assert (empty.count, empty.outside) == (0, 0)
    assert empty.verdict(empty) == "as accurate"
    assert error_of(np.zeros(3, np.float32), np.full(3, 1e-50)).outside == 0  # below the smallest float32


@pytest.mark.parametrize("value", [-1e-3, math.nan, math.inf, True, "1e-3"])
def test_an_invalid_tolerance_is_refused(value: object) -> None:
    with pytest.raises(ParameterError, match="Expected a number that is not negative"):
        Tolerance(rtol=value)  # type: ignore[arg-type]
