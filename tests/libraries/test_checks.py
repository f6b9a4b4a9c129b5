"""The checks of library programs see what they are there to see."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.libraries.program import Program, difference, line_number, outcome, without_places

X = jnp.arange(4.0)


def doubled(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2.0


def tripled(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 3.0


def another(x: jax.Array) -> jax.Array:
    return x + 1.0


GOOD = Program("doubled", jax.jit(doubled), (X,), line="return jnp.sin(x) * 2.0")


@pytest.mark.slow
def test_a_program_that_is_all_right() -> None:
    assert outcome(GOOD, __file__).failures == []


@pytest.mark.parametrize(
    ("wrong", "failures"),
    [
        ({"line": "return x " + "+ 1.0"}, ["explored: the source pane does not show"]),
        ({"bare": lambda: jax.jit(tripled).lower(X)}, ["hlo equal: "]),
        ({"plain": lambda: tripled(X)}, ["run equal: output 0 differs by "]),
        ({"plain": lambda: ()}, ["run equal: 1 arrays, the call gives 0"]),
        (
            {"args": (jax.ShapeDtypeStruct((4,), jnp.float32),), "plain": lambda: doubled(X)},
            ["run equal: these inputs"],
        ),
        ({"function": lambda x: int(x)}, ["explored: TypeError", "hlo equal: ", "run equal: "]),
    ],
)
def test_failures_are_reported(wrong: dict[str, object], failures: list[str]) -> None:
    found = outcome(dataclasses.replace(GOOD, **wrong), __file__).failures
    assert len(found) == len(failures), found
    assert all(text.startswith(start) for text, start in zip(found, failures, strict=True)), found


def test_only_places_are_left_out_of_hlo() -> None:
    line = '  %a = f32[] add(%b, %c), metadata={op_name="jit(f)/{x}" source_line=3}, backend_config={"a":{}}'
    assert without_places(line) == '  %a = f32[] add(%b, %c), backend_config={"a":{}}'
    head = 'HloModule m\n\nFileNames\n1 "a.py"\n\nStackFrames\n1 {file_location_id=1}\n\n\n%f (a: f32[]) -> f32[] {\n'
    assert without_places(head) == "HloModule m\n\n\n%f (a: f32[]) -> f32[] {\n"


def test_difference() -> None:
    nan = np.array([np.nan, 1.0], np.float32)
    assert difference([nan], [nan.copy()]) == ""
    assert "int32" in difference([np.zeros(2, np.int32)], [np.zeros(2, np.float32)])
    assert difference([nan], [np.array([np.nan, 2.0], np.float32)], 1e-5)
    assert difference([np.float32([1.0])], [np.float32([1.000001])])
    assert not difference([np.float32([1.0])], [np.float32([1.000001])], 1e-5)


def test_a_line_that_is_not_the_only_one() -> None:
    with pytest.raises(ValueError, match="expected one"):
        line_number(__file__, "import")
