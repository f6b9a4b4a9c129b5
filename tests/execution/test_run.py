"""Running compiled programs, held to what JAX computes, and replicas to what `jax.vmap` computes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.compilation.engine import Engine
from inspector.compilation.request import RunReply
from inspector.engines.inline import InlineEngine
from inspector.errors import ExecutionError
from inspector.execution.run import Run, choose_inputs, finish


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = InlineEngine()
    yield made
    made.close()


def check_equal(run: Run, expected: Any) -> None:
    assert jax.tree.structure(run.result) == jax.tree.structure(expected)
    for got, want in zip(jax.tree.leaves(run.result), jax.tree.leaves(expected), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(np.asarray(got, np.complex64), np.asarray(want, np.complex64), rtol=1e-5, atol=1e-6)


def keyword(x: Any, *, scale: Any, unused: Any = 0.0) -> Any:
    return {"y": x * scale, "none": None}


X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "nothing to return": (lambda x: None, (X,), {}),
    "no arguments": (lambda: jnp.arange(3), (), {}),
    "None in pytrees": (lambda t: (t["a"], None, [t["b"][1] * 2]), ({"a": X, "b": (None, X)},), {}),
    "unused arguments": (lambda a, b, c: c - a, (1.0, X, X), {}),
    "an argument returned as it is": (lambda a, b: (b, a, b), (X, np.arange(3)), {}),
    "keywords": (keyword, (X,), {"scale": np.float32(3), "unused": 1.0}),
    "empty arrays": (lambda x: (x[:0], x.sum(1)), (X,), {}),
    "bfloat16, int4, bool": (
        lambda a, b, c: (a * 2, b + b, ~c),
        (jnp.asarray(X, jnp.bfloat16), jnp.asarray([1, -2], jnp.int4), np.array([True, False])),
        {},
    ),
    "random keys": (lambda key: jax.random.normal(key, (3,)), (jax.random.key(3),), {}),
    "complex": (lambda x: jnp.fft.fft(x.astype(jnp.complex64)), (X,), {}),
    "LAPACK": (lambda x: jnp.linalg.eigh(x.T @ x), (X,), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_jax(name: str, engine: Engine) -> None:
    fun, args, kwargs = CASES[name]
    compiled = inspector.lower(fun, *args, kwargs=kwargs).compile(engine=engine)
    check_equal(compiled.run(*args, repeat=1, warmup=0, engine=engine, **kwargs), jax.jit(fun)(*args, **kwargs))


def test_static_arguments_are_left_out(engine: Engine) -> None:
    def power(n: int, x: Any, how: str) -> Any:
        return x**n if how == "up" else x

    compiled = inspector.lower(power, 3, X, "up", static_argnums=(0, 2)).compile(engine=engine)
    check_equal(compiled.run(X, repeat=1, engine=engine), X**3)
    jitted = jax.jit(power, static_argnums=0, static_argnames="how")
    compiled = inspector.lower(jitted, 2, X, kwargs={"how": "up"}).compile(engine=engine)
    check_equal(compiled.run(X, repeat=1, engine=engine), X**2)


def test_donated_arguments_survive_repeated_runs(engine: Engine) -> None:
    state = {"w": jnp.asarray(X), "n": jnp.asarray(1)}
    compiled = inspector.lower(
        lambda s: {"w": s["w"] * 2, "n": s["n"] + 1}, state, donate_argnums=0
    ).compile(engine=engine)  # fmt: skip
    run = compiled.run(state, repeat=5, warmup=2, engine=engine)
    check_equal(run, {"w": X * 2, "n": jnp.asarray(2)})
    assert not state["w"].is_deleted()
    np.testing.assert_array_equal(run.inputs[1].value, X)


def test_generated_inputs_are_marked(engine: Engine) -> None:
    compiled = inspector.lower(lambda x, n: x * n, X, 3).compile(engine=engine)
    run = compiled.run(repeat=1, engine=engine)
    assert all(given.made for given in run.inputs)
    assert "2 of 2 inputs generated" in repr(run)
    check_equal(run, run.inputs[0].value * 0)


def test_impossible_numbers_of_executions_are_refused(engine: Engine) -> None:
    compiled = inspector.lower(jnp.sin, X).compile(engine=engine)
    for repeat, warmup in ((0, 0), (1, -1)):
        with pytest.raises(ExecutionError, match=f"repeat={repeat}, warmup={warmup}: expected numbers of executions"):
            compiled.run(X, repeat=repeat, warmup=warmup, engine=engine)


def test_the_requested_number_of_durations_and_their_statistics(engine: Engine) -> None:
    compiled = inspector.lower(jnp.sin, X).compile(engine=engine)
    run = compiled.run(X, repeat=7, warmup=0, engine=engine)
    assert len(run.durations_s) == 7
    assert all(d > 0 for d in run.durations_s)
    assert len(run.dispatch_s) == 7
    assert all(0 < call <= whole for call, whole in zip(run.dispatch_s, run.durations_s, strict=True))
    assert run.first_s is None
    assert (compiled.run(X, repeat=1, warmup=1, engine=engine).first_s or 0) > 0
    inputs = choose_inputs(compiled, (X,), {})

    def of(*durations: float) -> Run:
        return finish(compiled, inputs, RunReply((np.sin(X),), durations, "cpu"))

    assert of(3.0).iqr_s == 0.0
    measured = of(5.0, 1.0, 2.0, 4.0, 3.0)
    assert (measured.median_s, measured.min_s, measured.iqr_s) == (3.0, 1.0, 2.0)
    values = [0.1, 0.7, 0.3, 9.0, 0.2, 0.4]
    assert of(*values).median_s == statistics.median(values)
    assert of(*values).iqr_s == pytest.approx(np.subtract(*np.percentile(values, [75, 25])))
    assert "median 3 s, spread (IQR) 2 s, 5 executions" in repr(measured)


# --------------------------------------------------------------------------- replicas against vmap


def collectives(x: Any, w: Any) -> Any:
    """Everything that replicas can do, over both axes and each."""
    i, j = lax.axis_index("i"), lax.axis_index("j")
    return {
        "psum": (lax.psum(x, "i"), lax.psum(x, "j"), lax.psum(x, ("i", "j"))),
        "pmean": lax.pmean(x * w, ("j", "i")),
        "pmax": lax.pmax(x, "i"),
        "all_gather": (lax.all_gather(x, "i"), lax.all_gather(x, "j", axis=1, tiled=True)),
        "ppermute": (
            lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)]),
            lax.ppermute(x * w, "j", [(0, 1), (1, 0)]),
        ),
        "axis_index": (i, j, i * 10 + j),
        "all_to_all": lax.all_to_all(x, "j", split_axis=0, concat_axis=1, tiled=True),
        "psum_scatter": lax.psum_scatter(x, "j", tiled=True),
    }


def over_replicas(
    fun: Callable[..., Any], axes: Sequence[tuple[str, int]], args: Sequence[Any], each: Sequence[bool]
) -> Any:
    """Returns the results of every replica, by `jax.vmap` over the axes: leaves with a leading axis of replicas."""
    sizes = tuple(size for _, size in axes)
    # Every operand mapped: vmap's all_to_all gives an unmapped one another shape.
    count = math.prod(sizes)
    stacked = [a if e else np.broadcast_to(a, (count, *np.shape(a))) for a, e in zip(args, each, strict=True)]
    split = [np.reshape(a, (*sizes, *a.shape[1:])) for a in stacked]
    for name, size in reversed(axes):
        fun = jax.vmap(fun, axis_name=name, axis_size=size)
    return jax.tree.map(lambda leaf: np.reshape(leaf, (-1, *leaf.shape[len(sizes) :])), fun(*split))


@pytest.mark.parametrize("each", [(True, False), (True, True), (False, False), (False, True)])
def test_replicas_of_two_axes_equal_vmap(each: tuple[bool, bool], engine: Engine) -> None:
    axes = [("i", 4), ("j", 2)]
    generator = np.random.default_rng(1)
    args = [generator.normal(size=(8, 4, 3) if e else (4, 3)).astype(np.float32) for e in each]
    shapes = [jax.ShapeDtypeStruct((4, 3), jnp.float32)] * 2

    compiled = inspector.lower(collectives, *shapes, axis_env=axes).compile(engine=engine)
    run = compiled.run(*args, repeat=1, warmup=0, engine=engine)
    check_equal(run, over_replicas(collectives, axes, args, each))


def test_replica_groups_and_partial_permutations(engine: Engine) -> None:
    def fun(x: Any) -> Any:
        groups = lax.psum(x, "i", axis_index_groups=[[0, 2], [1, 3]])
        return groups, lax.ppermute(x, "j", [(0, 1)]), lax.ppermute(x, "i", [(3, 0), (1, 2)])

    x = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
    compiled = inspector.lower(fun, x[0], axis_env=[("i", 4), ("j", 2)]).compile(engine=engine)
    groups, along_j, along_i = compiled.run(x, repeat=1, warmup=0, engine=engine).outputs
    grid = x.reshape(4, 2, 3)
    np.testing.assert_allclose(groups.reshape(4, 2, 3), grid + np.roll(grid, 2, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(along_j.reshape(4, 2, 3), np.stack([0 * grid[:, 1], grid[:, 0]], axis=1))
    np.testing.assert_array_equal(along_i.reshape(4, 2, 3), np.stack([grid[3], 0 * grid[0], grid[1], 0 * grid[0]]))


@pytest.mark.parametrize("axes", [[("i", 1)], [("a", 2), ("b", 2), ("c", 2)], [("rows", 8)]])
def test_other_environments(axes: list[tuple[str, int]], engine: Engine) -> None:
    names = tuple(name for name, _ in axes)

    def normalized(x: Any) -> Any:
        mean = lax.pmean(x, names)
        position = sum(lax.axis_index(name) for name in names)
        return (x - mean) * position, lax.all_gather(x.sum(), names[-1])

    count = int(np.prod([size for _, size in axes]))
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    compiled = inspector.lower(normalized, jax.ShapeDtypeStruct((3,), jnp.float32), axis_env=axes).compile(
        engine=engine
    )
    expected = over_replicas(normalized, axes, [x], [True])
    run = compiled.run(x[0] if count == 1 else x, repeat=1, warmup=0, engine=engine)
    check_equal(run, jax.tree.map(lambda leaf: leaf[0], expected) if count == 1 else expected)


def test_the_table_of_replicas(engine: Engine) -> None:
    axes = [("i", 2), ("x", 3)]
    compiled = inspector.lower(
        lambda x, w: {"s": lax.psum(x, "x"), "w": w}, jnp.float32(0), jnp.ones(2), axis_env=axes
    ).compile(engine=engine)  # fmt: skip
    x = np.arange(6, dtype=np.float32)
    table = compiled.run(x, np.ones(2, np.float32), repeat=1, engine=engine).replicas()
    assert list(table.columns) == ["i", "axis x", "x", "w", "result['s']", "result['w']"]
    assert table.index.name == "replica"
    assert list(zip(table["i"], table["axis x"], strict=True)) == [(i, j) for i in range(2) for j in range(3)]
    assert [float(v) for v in table["x"]] == [0, 1, 2, 3, 4, 5]
    assert [float(v) for v in table["result['s']"]] == [3, 3, 3, 12, 12, 12]
    assert all(np.array_equal(v, [1, 1]) for v in table["w"])


def test_one_replica_is_a_table_of_one_row(engine: Engine) -> None:
    compiled = inspector.lower(lambda x: x.sum(), X).compile(engine=engine)
    table = compiled.run(X, repeat=1, engine=engine).replicas()
    assert table.shape == (1, 2)
    assert float(table["result"][0]) == pytest.approx(X.sum(), abs=1e-5)
