"""`expect(...).accuracy()`: the results against a 64-bit reference."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import ExpectationError, ParameterError
from tests.stages.accurate_programs import CASES, naive_variance, normal


def test_accurate_results_pass() -> None:
    x = normal(32, shift=1000)
    checked = inspector.expect(jnp.var, x, target="cpu").accuracy().accuracy(rtol=1e-5)
    assert [each.is_met for each in checked.findings] == [True, True]
    assert checked.findings[1].expected == "errors within rtol 1e-05"
    assert checked.findings[0].expected == "errors within the tolerance of each type"


def test_wrong_results_fail_with_their_line() -> None:
    x = CASES["variance"].args[0]
    with pytest.raises(ExpectationError) as failure:
        inspector.expect(naive_variance, x, target="cpu").accuracy()
    text = str(failure.value)
    assert (
        "results against 64-bit values: expected errors within the tolerance of each type, got wrong, largest error"
        in text
    )
    assert "sub loses" in text
    assert "return jnp.mean(x * x) - jnp.mean(x) ** 2" in text  # the excerpt of the line
    inspector.expect(naive_variance, x, target="cpu").accuracy(rtol=1.0)


def test_the_options_of_the_program_are_those_that_are_checked() -> None:
    flags = {f"xla_cpu_fast_math_honor_{name}": False for name in ("nans", "infs", "division", "functions")}
    x = np.float32([1, np.nan, 3])
    inspector.expect(jnp.nan_to_num, x, target="cpu").accuracy()
    with pytest.raises(ExpectationError, match="1 NaN"):
        inspector.expect(
            lambda x: jnp.where(jnp.isnan(x), 0.0, x),
            x,
            target="cpu",
            options={"xla_cpu_enable_fast_math": True, **flags},
        ).accuracy()


def test_a_compiled_program_has_no_function_to_widen() -> None:
    compiled = inspector.lower(jnp.sin, np.ones(4, np.float32)).compile(target="cpu")
    with pytest.raises(ParameterError, match="accuracy needs the function with its arguments"):
        inspector.expect(compiled).accuracy()
    with pytest.raises(ParameterError, match="rtol is nan"):
        inspector.expect(jnp.sin, np.ones(4, np.float32), target="cpu").accuracy(rtol=float("nan"))
