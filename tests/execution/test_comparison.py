"""Runs beside each other: ulps by hand and by NumPy's own steps, verdicts only where intervals part."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import inspector
from inspector.compilation.program import Argument
from inspector.engines.inline import InlineEngine
from inspector.errors import ExecutionError, ParameterError, Unavailable
from inspector.execution.comparison import Comparison, Speed, median_interval, speed
from inspector.execution.run import Run
from inspector.stages.compared_runs import compare_runs


@pytest.fixture(scope="module")
def run() -> Run:
    return (
        inspector.lower(lambda x: {"a": x, "b": x + 1}, np.ones((2, 3), np.float32))
        .compile(engine=InlineEngine())
        .run(repeat=6, engine=InlineEngine())
    )


def against(run: Run, first: Any, second: Any) -> Comparison:
    """Compares runs of which only the first output differs."""
    runs = [dataclasses.replace(run, outputs=(np.asarray(value), run.outputs[1])) for value in (first, second)]
    return compare_runs(*runs)


def test_a_run_is_equal_to_itself(run: Run) -> None:
    found = inspector.compare_runs(run, run)
    assert found.same
    assert found.words == "all 2 outputs equal"
    assert [each.path for each in found.differences] == ["['a']", "['b']"]
    assert found.table()["differing"].sum() == 0
    assert "no difference beyond the noise" in repr(found)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("start", [1.0, 0.75, -1.5, 0.0])
def test_ulps_are_the_steps_between_two_numbers(run: Run, kind: Any, start: float) -> None:
    value = np.array(start, kind)
    for steps in range(1, 4):
        value = np.nextafter(value, np.array(4, kind), dtype=kind)
        (found, _) = against(
            run, [np.array(start, kind), value], [np.array(start, kind), np.array(start, kind)]
        ).differences
        assert found.ulps == steps
        assert found.differing == 1
        assert found.first == (1,)
        assert found.largest == pytest.approx(abs(float(value) - start), rel=1e-12)


def test_numbers_of_both_signs_are_counted_over_zero(run: Run) -> None:
    tiny = np.nextafter(np.float32(0), np.float32(1))
    (found, _) = against(run, np.array([tiny, 0.0], np.float32), np.array([-tiny, -0.0], np.float32)).differences
    assert (found.ulps, found.differing) == (2, 1)
    (found, _) = against(run, np.float32(0), np.float32(-0.0)).differences
    assert (found.ulps, found.differing, found.relative) == (0, 0, 0.0)


def test_complex_numbers_are_compared_by_parts(run: Run) -> None:
    up = np.nextafter(np.float32(2), np.float32(3))
    (found, _) = against(run, np.array([1 + 2j], np.complex64), np.array([1 + 1j * up], np.complex64)).differences
    assert found.ulps == 1
    assert found.largest == pytest.approx(float(up) - 2)


def test_integers_have_no_ulps(run: Run) -> None:
    (found, _) = against(run, np.array([1, 7]), np.array([1, 4])).differences
    assert isinstance(found.ulps, Unavailable)
    assert (found.largest, found.relative, found.first, found.value, found.other_value) == (3.0, 0.75, (1,), "7", "4")
    (found, _) = against(run, np.array([True, False]), np.array([True, True])).differences
    assert (found.differing, found.largest) == (1, 1.0)


def test_nan_equals_nan_and_nothing_else(run: Run) -> None:
    a = np.array([np.nan, np.nan, np.inf, 1.0], np.float32)
    b = np.array([np.nan, 2.0, np.inf, 1.0], np.float32)
    comparison = against(run, a, b)
    (found, _) = comparison.differences
    assert (found.differing, found.first, found.nans, found.other_nans) == (1, (1,), 2, 1)
    assert (found.infinities, found.other_infinities) == (1, 1)
    assert isinstance(found.ulps, Unavailable)
    assert isinstance(found.largest, Unavailable)
    assert comparison.words == "1 of 2 outputs differ: finite values are compared with NaN or infinity"
    assert "NaN or infinity" in comparison.table()["unknown"][0]


def test_small_differences_near_zero_are_relative_to_the_largest_output(run: Run) -> None:
    a, b = np.array([1e-9, 4.0], np.float32), np.array([-1e-9, 4.0], np.float32)
    comparison = against(run, a, b)
    (found, _) = comparison.differences
    assert found.ulps > 1_000_000_000
    assert found.scaled == pytest.approx(5e-10, rel=1e-6)
    assert comparison.words == "1 of 2 outputs differ, by at most 5e-10 of an output's largest value"
    assert against(run, np.array([2.0, np.inf]), np.array([1.0, np.inf])).differences[0].scaled == 1.0
    assert against(run, np.array([3, -8]), np.array([1, -8])).differences[0].scaled == 0.25
    assert against(run, np.float32(1), np.float32(0)).differences[0].scaled is None
    assert against(run, np.float32(1), np.float32(0)).words == "1 of 2 outputs differ, by at most 1"
    near = against(run, np.nextafter(np.float32(1), np.float32(2)), np.float32(1))
    assert near.words == "1 of 2 outputs differ, by at most 1 ulp"


def test_where_the_other_is_zero_nothing_is_relative(run: Run) -> None:
    (found, _) = against(run, np.array([1.0]), np.array([0.0])).differences
    assert found.relative is None
    assert against(run, np.array([1.0]), np.array([0.0])).table()["relative"].isna()[0]


def test_narrow_types_are_numbers(run: Run) -> None:
    comparison = against(
        run, np.array([1.0, -2.0], ml_dtypes.float4_e2m1fn), np.array([1.0, 2.0], ml_dtypes.float4_e2m1fn)
    )
    (found, _) = comparison.differences
    assert (found.differing, found.largest, found.ulps) == (1, 4.0, 8)
    whole = against(run, np.array([1, -3], ml_dtypes.int4), np.array([1, 2], ml_dtypes.int4))
    assert whole.words == "1 of 2 outputs differ, by at most 2.5 of an output's largest value"


@pytest.mark.filterwarnings("error")
def test_infinite_parts_raise_no_warnings(run: Run) -> None:
    a, b = np.array([complex(np.inf, 1)], np.complex64), np.array([complex(np.inf, 2)], np.complex64)
    comparison = against(run, a, b)
    assert comparison.differences[0].ulps == 8388608
    assert isinstance(comparison.differences[0].largest, Unavailable)
    assert against(run, b, -b).words == "1 of 2 outputs differ: finite values are compared with NaN or infinity"


def test_the_reason_is_the_one_that_holds(run: Run) -> None:
    comparison = against(run, np.array(["a"]), np.array(["b"]))
    assert comparison.words == "1 of 2 outputs differ: the values are not numbers"


def test_inputs_that_only_one_has_are_refused_on_both_sides(run: Run) -> None:
    more = dataclasses.replace(
        run, inputs=(*run.inputs, dataclasses.replace(run.inputs[0], argument=Argument("y", (2, 3), "float32", 1)))
    )
    for pair in ((run, more), (more, run)):
        with pytest.raises(ExecutionError, match="only if their inputs are the same: y is an input of only one run"):
            compare_runs(*pair)
    a = np.ones((2, 3), np.float32)
    one, other = (
        inspector.lower(fun, *args).compile(engine=InlineEngine()).run(*args, engine=InlineEngine())
        for fun, args in ((lambda x: x + 1, (a,)), (lambda x, y: x + y, (a, a)))
    )
    with pytest.raises(ExecutionError, match="y is an input of only one run"):
        compare_runs(one, other)


@pytest.mark.parametrize("change", [lambda x: x + 1, lambda x: x.astype(np.float64), lambda x: x.reshape(3, 2)])
def test_inputs_differ_by_values_type_and_shape(run: Run, change: Any) -> None:
    given = run.inputs[0]
    same = dataclasses.replace(run, inputs=(dataclasses.replace(given, value=given.value.copy(order="F")),))
    assert compare_runs(run, same).same
    other = dataclasses.replace(run, inputs=(dataclasses.replace(given, value=change(given.value)),))
    with pytest.raises(ExecutionError, match="inputs are the same: x differs"):
        compare_runs(run, other)


def test_other_inputs_or_outputs_are_refused(run: Run) -> None:
    given = run.inputs[0]
    other = dataclasses.replace(run, inputs=(dataclasses.replace(given, value=np.zeros((2, 3), np.float32)),))
    with pytest.raises(ExecutionError, match="inputs are the same: x differs"):
        compare_runs(run, other)
    with pytest.raises(ExecutionError, match=r"one run has float32\[2,3\], .*the other float32\[2,3\]"):
        compare_runs(run, dataclasses.replace(run, outputs=run.outputs[:1]))


@pytest.mark.parametrize("count", [6, 7, 20, 100, 1000, 10_000])
def test_the_interval_holds_the_median_with_95_percent(count: int) -> None:
    found = median_interval([float(n) for n in range(1, count + 1)])
    assert not isinstance(found, Unavailable)
    k = int(found[0])
    assert found == (k, count + 1 - k)
    ways = itertools.accumulate(range(k), lambda ways, n: ways * (count - n) // (n + 1), initial=1)  # comb(count, n)
    below = [*itertools.accumulate(ways)]
    outside = [2 * below[k - 1], 2 * below[k]]
    assert outside[0] * 20 <= 2**count < outside[1] * 20


def test_too_few_executions_give_no_verdict() -> None:
    for count in range(6):
        found = median_interval([1.0] * count)
        assert isinstance(found, Unavailable)
        assert f"{count} executions are too few" in found.reason
    assert isinstance(speed([1.0] * 9, [1.0]), Unavailable)


def test_a_verdict_requires_separate_intervals() -> None:
    slow, fast = [2.0 + 0.01 * n for n in range(9)], [1.0 + 0.01 * n for n in range(9)]
    found = speed(fast, slow)
    assert isinstance(found, Speed)
    assert found.is_known
    assert found.ratio == pytest.approx(2.04 / 1.04)
    assert found.words.startswith("faster, 1.96 times as fast")
    other = speed(slow, fast)
    assert isinstance(other, Speed)
    assert (other.is_known, other.ratio < 1) == (True, True)
    assert other.words.startswith("slower, the other is 1.96 times as fast")
    near = speed([1.0, 1.2, 0.9, 1.1, 1.3, 0.8, 1.05], [1.0, 1.25, 0.95, 1.1, 1.3, 0.85, 1.1])
    assert isinstance(near, Speed)
    assert not near.is_known
    assert near.words.startswith("no difference beyond the noise")


def test_two_compiles_of_one_function_agree_or_report_the_difference() -> None:
    a = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    lowered = inspector.lower(lambda x: jnp.exp(x @ x) / (1 + jnp.exp(x @ x)), a)
    runs = [
        lowered.compile({"xla_cpu_enable_fast_math": fast}, engine=InlineEngine()).run(
            a, repeat=6, engine=InlineEngine()
        )
        for fast in (False, True)
    ]
    (found,) = compare_runs(*runs).differences
    unlike = runs[0].outputs[0] != runs[1].outputs[0]
    assert found.differing == int(np.sum(unlike & ~(np.isnan(runs[0].outputs[0]) & np.isnan(runs[1].outputs[0]))))


def test_two_programs_run_in_turns_on_the_same_inputs() -> None:
    def network(layers: int) -> Any:
        return lambda x, w: jax.lax.fori_loop(0, layers, lambda _, x: jnp.tanh(x @ w), x)

    x = np.linspace(-1, 1, 128 * 128, dtype=np.float32).reshape(128, 128)
    short, long = (inspector.lower(network(layers), x, x).compile(target="cpu") for layers in (4, 16))
    found = inspector.compare_runs(short, long, x, x)
    assert isinstance(found.speed, Speed)
    assert found.speed.is_known
    assert found.speed.ratio > 2
    assert not found.same
    assert inspector.compare_runs(short, short).same


def test_only_runs_or_programs_are_compared() -> None:
    compiled = inspector.lower(jnp.sin, np.float32(1)).compile(target="cpu")
    run = compiled.run(np.float32(1), repeat=1)
    for pair in ((compiled, run), (run, 3), ("a", "b")):
        with pytest.raises(
            ParameterError, match=r"compares two runs, from Compiled\.run\(\), or two compiled programs"
        ):
            inspector.compare_runs(*pair)  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="takes no further arguments, got 1"):
        inspector.compare_runs(run, run, 1)  # type: ignore[call-overload]
