"""Parts of StableHLO modules, run by XLA and compared with the values that NumPy computes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.modules import slicing, stablehlo
from inspector.compilation.program import Argument, Result
from inspector.compilation.request import CompileRequest
from inspector.engines.shared_engines import worker_engine
from inspector.errors import ModuleError
from inspector.execution.inputs import Input
from inspector.execution.run import start

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def program(x: jax.Array) -> jax.Array:
    y = jax.nn.relu(x) * 2
    total = jax.lax.scan(lambda c, row: (c + row.sum(), c), 0.0, y)[0]
    return jnp.where(total > 0, y + total, y)


@pytest.fixture(scope="module")
def whole() -> slicing.Sliceable:
    return slicing.sliceable(inspector.lower(program, X).program.module)


def names(part: slicing.Sliceable) -> list[str]:
    return [each.name.removeprefix("stablehlo.") for each in part.operations]


def test_calls_are_inlined_and_loops_kept(whole: slicing.Sliceable) -> None:
    assert "func.call" not in names(whole)
    assert names(whole).count("while") == 1
    assert whole.values[0] == slicing.SlicedValue((3, 4), "float32")
    maximum = whole.operations[names(whole).index("maximum")]
    assert maximum.op_name == "jit(program)/jit(relu)/max"
    assert 0 in maximum.uses


def test_a_part_computes_what_numpy_does(whole: slicing.Sliceable) -> None:
    multiply = names(whole).index("multiply")
    at = whole.operations[multiply]
    relu, scale = at.uses
    part = slicing.sliced(whole.module, {multiply}, [scale, relu], [*at.results, relu][:1])
    options = dataclasses.replace(inspector.lower(program, X).program.options)
    arguments = tuple(Argument(f"v{n}", (3, 4), "float32", n) for n in range(2))
    made = dataclasses.replace(
        inspector.lower(program, X).program,
        module=part, arguments=arguments, results=(Result("", (3, 4), "float32"),), options=options, binding=None,
    )  # fmt: skip
    engine = worker_engine()
    compiled = engine.submit(CompileRequest(made, {}, "cpu")).result()  # type: ignore[arg-type]
    inputs = tuple(map(Input, arguments, (np.full((3, 4), 3, np.float32), X)))
    np.testing.assert_array_equal(start(compiled, inputs, engine, repeat=1, warmup=0).result().outputs[0], 3 * X)


def test_a_loop_alone_keeps_the_functions_that_it_calls(whole: slicing.Sliceable) -> None:
    loop = names(whole).index("while")
    at = whole.operations[loop]
    text = stablehlo.full_text(slicing.sliced(whole.module, {loop}, at.uses, at.results[:1]))
    assert "stablehlo.while" in text
    assert text.count("func.func") == 1 + text.count("func.func private")
    assert "maximum" not in text


def test_a_missing_operand_is_refused(whole: slicing.Sliceable) -> None:
    multiply = names(whole).index("multiply")
    with pytest.raises(ModuleError, match="is used, but it is neither kept nor an input"):
        slicing.sliced(whole.module, {multiply}, [], whole.operations[multiply].results)
