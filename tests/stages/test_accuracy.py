"""Errors of variants against a reference with 64-bit values, and where they begin."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import NamedSharding, PartitionSpec

import inspector
from inspector.errors import CancelledError, ExecutionError, ParameterError, Unavailable
from inspector.execution.output_error import Tolerance, output_error
from inspector.hlo.source import Frame
from inspector.stages.accuracy import begin_accuracy
from inspector.stages.accuracy_result import Accuracy
from inspector.stages.departure import Departure
from tests.stages.accurate_programs import CASES, naive_softmax, naive_sum, naive_variance, normal

FAST = "--xla_cpu_enable_fast_math=true"
FASTEST = " ".join(
    [FAST, *(f"--xla_cpu_fast_math_honor_{name}=false" for name in ("nans", "infs", "division", "functions"))]
)
QUICK = ("softmax", "variance from squares", "index of a maximum", "Newton's method")


def line_of(marker: str, fun: Callable[..., Any]) -> int:
    """Returns the number of the line of a function that contains a text."""
    import inspect

    lines, start = inspect.getsourcelines(fun)
    return start + next(number for number, line in enumerate(lines) if marker in line)


def located(found: Accuracy, variant: int = 0) -> Departure:
    where = found[variant].departure
    assert isinstance(where, Departure), where
    return where


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_verdict_and_its_error_are_those_of_exact_results(name: str) -> None:
    case = CASES[name]
    lowered = inspector.lower(case.fun, *case.args)
    (baseline,) = inspector.accuracy(lowered, *case.args, locate=False)
    outputs = lowered.compile().run(*case.args, repeat=1, warmup=0).outputs
    exact = [np.asarray(each) for each in case.exact(*map(np.asarray, case.args))]
    assert baseline.verdict == ("wrong" if case.is_wrong else "as accurate")
    assert not isinstance(baseline.outputs, Unavailable)
    for measured, own, correct in zip(baseline.outputs, outputs, exact, strict=True):
        wide = np.complex128 if np.iscomplexobj(correct) else np.float64
        expected = output_error("", own, correct.astype(wide), Tolerance())
        if isinstance(expected.max_error, Unavailable):
            assert measured.error.max_error == expected.max_error
        else:
            assert measured.error.max_error == pytest.approx(expected.max_error, rel=1e-5, abs=case.agreement)
        assert (measured.error.nans, measured.error.infinities) == (expected.nans, expected.infinities)


@pytest.mark.parametrize("name", ["softmax", "product in bfloat16", "index of a maximum", "norm of large values"])
def test_a_program_is_as_accurate_as_itself(name: str) -> None:
    case = CASES[name]
    lowered = inspector.lower(case.fun, *case.args)
    baseline, same = inspector.accuracy(lowered, *case.args, variants=None, locate=False)
    assert same.name == "defaults"
    assert same.outputs == baseline.outputs
    assert same.verdict == ("wrong" if case.is_wrong else "as accurate")


def test_unexpected_nan_is_found_at_its_line() -> None:
    x = CASES["softmax"].args[0]
    found = located(inspector.accuracy(inspector.lower(naive_softmax, x), x))
    assert (found.cause, found.primitive, found.shape) == ("not finite", "exp", "float32[64]")
    assert found.line == inspector.hlo.source.Frame(
        naive_softmax.__code__.co_filename, line_of("exp", naive_softmax), "naive_softmax"
    )


def test_cancellation_is_found_at_its_line() -> None:
    x = CASES["variance"].args[0]
    found = located(inspector.accuracy(inspector.lower(naive_variance, x), x))
    assert (found.cause, found.primitive) == ("error", "sub")
    assert found.frames[0].line == line_of("mean(x * x)", naive_variance)
    assert found.before < 1e-6 < 1e-3 < found.after
    assert "by cancellation" in found.words


@pytest.mark.slow
def test_a_nan_of_an_operand_without_correct_digits_is_found_where_these_are_lost() -> None:
    def normalized(x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = (x * x).mean(-1, keepdims=True) - mean * mean
        return (x - mean) / jnp.sqrt(variance + 1e-5)

    x = normal(64, 256) + np.float32(3000)
    found = inspector.accuracy(inspector.lower(normalized, x), x)
    where = located(found)
    assert found[0].outputs[0].error.nans  # type: ignore[union-attr]
    assert (where.cause, where.primitive, where.frames[0].line) == ("error", "sub", line_of("- mean *", normalized))
    assert where.digits <= 7


def test_a_result_without_a_line_has_the_reason() -> None:
    x = normal(4)
    found = inspector.accuracy(inspector.lower(jnp.exp, x), x, rtol=1e-12, atol=0.0)
    assert isinstance(found[0].departure, Unavailable)
    assert f"no line: {found[0].departure.reason}" in repr(found)


def test_an_underflow_is_noted() -> None:
    x = np.full(4, 1e-4, np.float16)
    found = inspector.accuracy(inspector.lower(jax.grad(lambda x: jnp.mean((x * x) ** 2)), x), x)
    assert found[0].verdict == "as accurate"
    assert found.notes == (
        "0 by underflow: the exact values are below the smallest normal number of the type: result (float16)",
    )


def test_an_error_that_grows_in_a_loop_is_an_accumulation() -> None:
    x = CASES["sum in a loop"].args[0]
    found = located(inspector.accuracy(inspector.lower(naive_sum, x), x))
    assert (found.cause, found.primitive, found.executions) == ("accumulation", "add", len(x))
    assert found.execution > len(x) // 2


def test_the_first_nan_of_a_loop_has_its_iteration() -> None:
    def fun(x: Any) -> Any:
        def step(x: Any, shift: Any) -> Any:
            return x + jnp.exp(shift) * 1e-30, None

        shifts = jnp.asarray([0, 1, 2, 100, 3], jnp.float32)
        return lax.scan(step, x, shifts)[0]

    x = np.float32([1.1, 1.3])
    found = located(inspector.accuracy(inspector.lower(fun, x), x))
    assert (found.primitive, found.frames[0].line) == ("exp", line_of("jnp.exp", fun))
    assert (found.execution, found.executions) == (3, 5)
    assert "in execution 4 of 5" in found.words


@pytest.mark.slow
def test_a_cast_is_found_at_its_line() -> None:
    case = CASES["product in bfloat16"]
    found = located(inspector.accuracy(inspector.lower(case.fun, *case.args), *case.args))
    assert (found.primitive, found.before) == ("convert_element_type", 0.0)
    assert "loses 5 digits" in found.words or "loses 4 digits" in found.words


def test_a_test_for_nan_that_fast_math_removes_is_found() -> None:
    def fun(x: Any) -> Any:
        missing = jnp.isnan(x)
        return jnp.where(missing, 0.0, x)

    x = np.float32([1, np.nan, 3])
    found = inspector.accuracy(inspector.lower(fun, x), x, variants=[FASTEST, FAST])
    assert [each.verdict for each in found] == ["as accurate", "wrong", "as accurate"]
    where = located(found, 1)
    assert (where.cause, where.primitive) == ("options", "ne")
    assert where.line.line == line_of("isnan", fun)  # type: ignore[union-attr]
    assert isinstance(found[2].departure, Unavailable)
    assert found.table().query("variant != 'baseline'")["nans"].tolist() == [1, 0]


def test_the_tolerance_is_that_of_allclose() -> None:
    case = CASES["product in bfloat16"]
    lowered = inspector.lower(case.fun, *case.args)
    (own,) = lowered.compile().run(*case.args, repeat=1, warmup=0).outputs
    (exact,) = case.exact(*case.args)
    for rtol, atol in ((1e-1, 1e-1), (1e-2, 1e-2), (1e-3, 0.0)):
        (baseline,) = inspector.accuracy(lowered, *case.args, rtol=rtol, atol=atol, locate=False)
        is_close = np.allclose(own, exact.astype(float), rtol=rtol, atol=atol)
        assert baseline.verdict == ("as accurate" if is_close else "wrong")


@pytest.mark.slow
def test_random_bits_and_branches_are_those_of_the_program() -> None:
    def fun(key: Any, x: Any) -> Any:
        noise = jax.random.normal(key, x.shape) + jax.random.uniform(key, x.shape)
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        return jnp.where(kept, x + noise, 0), jax.random.permutation(key, 9), jax.random.fold_in(key, 3)

    args = (jax.random.key(3), normal(200))
    (baseline,) = inspector.accuracy(inspector.lower(fun, *args), *args)
    assert baseline.verdict == "as accurate"
    assert [each.error.outside for each in baseline.outputs] == [0, 0, 0]  # type: ignore[union-attr]


@pytest.mark.slow
def test_what_has_no_wider_form_is_listed_with_its_line() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def fun(key: Any, x: Any) -> Any:
        doubled = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        small = x.astype(jnp.float8_e4m3fn).astype(jnp.float32)
        return doubled, small, jax.random.gamma(key, jnp.abs(x))

    args = (jax.random.key(0), normal(8))
    found = inspector.accuracy(inspector.lower(fun, *args, interpret=True), *args)
    assert found[0].verdict == "as accurate"
    lines = {each.primitive: each.frames for each in found.narrow}
    assert set(lines) == {"pallas_call", "convert_element_type", "random_gamma"}
    assert lines["convert_element_type"][0].line == line_of("float8", fun)
    assert "not widened in the reference: pallas_call (test_accuracy.py:" in repr(found)


@pytest.mark.slow
def test_a_sharded_program_has_a_sharded_reference() -> None:
    mesh = jax.make_mesh((4,), ("i",))

    def fun(x: Any) -> Any:
        def body(x: Any) -> Any:
            centered = x - lax.pmean(jnp.mean(x), "i")
            return jnp.exp(centered * 60)

        return jax.shard_map(body, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))(x)

    x = jax.device_put(normal(32), NamedSharding(mesh, PartitionSpec("i")))
    lowered = inspector.lower(jax.jit(fun), x)
    found = inspector.accuracy(lowered, x, target="cpu:4")
    assert found[0].verdict == "wrong"
    assert (located(found).cause, located(found).primitive) == ("not finite", "exp")
    assert located(found).frames[0].line == line_of("exp", fun)


@pytest.mark.slow
def test_replicas_have_a_reference_for_each() -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    lowered = inspector.lower(lambda x: lax.psum(naive_softmax(x), "i"), x[0], axis_env=[("i", 4)])
    (baseline,) = inspector.accuracy(lowered, x, target="cpu:4")
    assert (baseline.verdict, baseline.outputs[0].error.count) == ("as accurate", 32)  # type: ignore[index]
    x[2] *= 1000  # at most 484: too large for exp in 32 bits only
    assert located(inspector.accuracy(lowered, x, target="cpu:4")).primitive == "exp"


def test_donations_and_unused_arguments_do_not_matter() -> None:
    x = normal(8)
    lowered = inspector.lower(lambda unused, x: x * 2, x, x, donate_argnums=(0, 1))
    assert inspector.accuracy(lowered, x, x)[0].verdict == "as accurate"
    generated = inspector.accuracy(lowered)
    assert generated[0].verdict == "as accurate"
    assert generated.notes == ("2 of 2 inputs are generated",)


def test_prints_are_left_out_and_callbacks_run_in_this_process() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x + 1

    def rounded(x: np.ndarray) -> np.ndarray:
        assert x.dtype == np.float32
        calls.append(x)
        return np.round(x)

    x = normal(4)
    assert inspector.accuracy(inspector.lower(printing, x), x)[0].verdict == "as accurate"
    calls: list[np.ndarray] = []
    lowered = inspector.lower(lambda x: jax.pure_callback(rounded, x, x * 10), x)
    found = inspector.accuracy(lowered, x)
    assert found[0].verdict == "as accurate"
    assert [each.primitive for each in found.narrow] == ["pure_callback"]
    assert len(calls) == 2


def test_bad_input_is_explained() -> None:
    x = normal(4)
    lowered = inspector.lower(jnp.sin, x)
    with pytest.raises(ParameterError, match=r"rtol is -1\. Expected a number"):
        inspector.accuracy(lowered, x, rtol=-1)
    with pytest.raises(ParameterError, match=r"atol is 'small'"):
        inspector.accuracy(lowered, x, atol="small")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="Expected a Lowered"):
        inspector.accuracy(jnp.sin, x)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="was loaded without its function"):
        inspector.accuracy(inspector.lower(lowered.stablehlo), x)
    with pytest.raises(inspector.errors.UnknownFlagError):
        inspector.accuracy(lowered, x, variants="--xla_no_such_flag=1")
    with pytest.raises(ExecutionError, match="has shape"):
        inspector.accuracy(lowered, x[:2])
    with pytest.raises(ParameterError, match=r"No variant 'fast' was measured\. Variants: baseline\."):
        inspector.accuracy(lowered, x)["fast"]


def test_a_variant_that_cannot_run_has_its_reason() -> None:
    x = normal(4)
    found = inspector.accuracy(inspector.lower(jnp.sin, x), x, variants="gpu")
    assert found[0].verdict == "as accurate"
    assert isinstance(found[1].verdict, Unavailable)
    assert isinstance(found[1].departure, Unavailable)
    row = found.table().iloc[1]
    assert row["variant"] == "gpu"
    assert row["unknown"]


def test_a_measurement_can_be_canceled() -> None:
    x = normal(4)
    measuring = begin_accuracy(inspector.lower(jnp.sin, x), (x,))
    measuring.cancel()
    with pytest.raises(CancelledError):
        measuring.result()


@pytest.mark.slow
def test_the_result_is_a_value() -> None:
    x = CASES["variance"].args[0]
    found = inspector.accuracy(inspector.lower(naive_variance, x), x, variants=FAST)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert len(found) == 2
    assert found[-1] is found[FAST]
    assert found.table()["source_line"].tolist() == [line_of("mean(x * x)", naive_variance)] * 2
    assert found._repr_html_().count("<tr") == 3


def test_the_gradient_of_a_bias_before_a_normalization_is_0_up_to_rounding() -> None:
    def loss(params: Any, x: Any) -> Any:
        y = x @ params["w"] + params["b"]
        return (jnp.tanh((y - y.mean(0)) / jnp.sqrt(y.var(0) + 1e-5)) ** 2).sum()

    params = {"w": normal(32, 16), "b": normal(16)}
    x = normal(64, 32)
    found = inspector.accuracy(inspector.lower(jax.grad(loss), params, x), params, x)
    assert found[0].verdict == "as accurate"
    assert found.notes == ("0 up to rounding, so that the errors are relative to the inputs: result['b']",)


def test_a_variant_without_an_engine_has_the_reason() -> None:
    x = np.linspace(0, 1, 8, dtype=np.float32)
    found = inspector.accuracy(inspector.lower(jnp.sin, x), x, variants=["cpu@jax==0.9.1", {}], target="cpu")
    reason, other = found.variants[1].outputs, found.variants[2].outputs
    assert isinstance(reason, Unavailable)
    assert "names another version of JAX" in reason.reason
    assert not isinstance(other, Unavailable)


def test_a_line_of_a_notebook_cell_comes_after_the_operation() -> None:
    frame = Frame("/tmp/ipykernel_7/12.py", 9)
    found = Departure("not finite", "exp2", "float32[4]", (frame,), 0.0, np.inf, np.inf, 0, 1)
    assert found.words.startswith("exp2 in line 9 of a notebook cell is the first value")


def test_nan_that_64_bits_have_too_is_noted() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()

    x = np.float32([0, 1, 4])
    found = inspector.accuracy(inspector.lower(jax.grad(loss), x), x, target="cpu")
    assert found.variants[0].verdict == "as accurate"
    assert "NaN also with 64 bits: result" in found.notes
