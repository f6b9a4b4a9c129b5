"""A program of a call that is supposed to be another: as when the user's code says so."""

from __future__ import annotations

import concurrent.futures
import functools
import math
import re
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.tuning import Tuning
from inspector.compilation.what_if import AS_CALLED, WhatIf, covers
from inspector.engines.inline import InlineEngine
from inspector.errors import ParameterError
from inspector.lowering.what_if import fitted
from inspector.stages.lowered import Lowered, lowered_for, what_if_of

Layer = Callable[[Any, Any], Any]


def mlp(h: Any, w: Any) -> Any:
    with jax.named_scope("mlp"):
        return jnp.exp(jnp.tanh(jnp.sin(jnp.tanh(h @ w) @ w.T) @ w) @ w.T * 0.01)


def loss(ws: Any, x: Any, *, layer: Layer = mlp) -> Any:
    for i, w in enumerate(ws):
        with jax.named_scope(f"layer_{i}"):
            x = layer(x, w)
    return (x**2).mean()


def step(ws: Any, x: Any, *, of: Callable[..., Any] = loss) -> Any:
    return jax.tree.map(lambda w, g: w - g, ws, jax.grad(of)(ws, x))


@pytest.fixture(scope="module")
def arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    ws = [jnp.asarray(rng.normal(size=(16, 128)) * 0.1, jnp.float32) for _ in range(3)]
    return ws, jnp.asarray(rng.normal(size=(64, 16)), jnp.float32)


@pytest.fixture(scope="module")
def lowered(arguments: Any) -> Lowered:
    return inspector.lower(step, *arguments)


def temporaries(lowered: Lowered) -> int:
    memory = lowered.compile(engine=InlineEngine()).memory
    assert not isinstance(memory, inspector.Unavailable)
    return memory.temp_bytes


def same_module(one: Lowered, other: Lowered) -> bool:
    """But for its name and the places in the source."""
    first, second = (text.stablehlo.split("\n", 1)[1] for text in (one, other))
    return first == second


# --------------------------------------------------------------------------- arguments


def test_a_donation_is_that_of_jit(lowered: Lowered, arguments: Any) -> None:
    assert same_module(lowered.what_if(donate="ws"), inspector.lower(step, *arguments, donate_argnums=0))
    assert [a.donated for a in lowered.what_if(donate=["ws[1]"]).inputs] == [False, True, False, False]
    assert not any(a.donated for a in lowered.inputs)


def test_another_dtype_is_that_of_other_arguments(lowered: Lowered, arguments: Any) -> None:
    ws, x = arguments
    half = jax.tree.map(lambda a: a.astype("bfloat16"), ws)
    found = lowered.what_if(dtype={"ws": jnp.bfloat16, "x": "float16"})
    assert same_module(found, inspector.lower(step, half, x.astype("float16")))
    assert found.notes == ("ws as bfloat16, x as float16",)


def test_below_a_name_only_floating_point_numbers_change() -> None:
    tree = {"w": jnp.ones(3), "n": jnp.arange(3), "key": jax.random.key(0), "flag": True}
    lowered = inspector.lower(lambda p: (p["w"] * p["n"], jax.random.normal(p["key"]), p["flag"]), tree)
    found = lowered.what_if(dtype={"p": "bfloat16"})
    assert {a.path: a.dtype for a in found.inputs} == {
        a.path: "bfloat16" if a.path == "p['w']" else a.dtype for a in lowered.inputs
    }
    assert {a.path: a.dtype for a in lowered.what_if(dtype={"p['n']": "int16"}).inputs}["p['n']"] == "int16"


def test_another_batch_is_that_of_other_arguments(lowered: Lowered, arguments: Any) -> None:
    ws, x = arguments
    assert same_module(lowered.what_if(batch={"x": 32}), inspector.lower(step, ws, x[:32]))


def test_suppositions_add_up(lowered: Lowered, arguments: Any) -> None:
    ws, x = arguments
    found = lowered.what_if(batch={"x": 32}).what_if(donate="ws").what_if(batch={"x": 8})
    assert same_module(found, inspector.lower(step, ws, x[:8], donate_argnums=0))
    assert what_if_of(found) == WhatIf(donate=("ws",), batch=(("x", 8),))
    assert str(what_if_of(found)) == "donated ws, x of 8"
    assert what_if_of(lowered) == AS_CALLED


def test_another_platform_has_the_same_call(lowered: Lowered) -> None:
    found = lowered_for(lowered.what_if(donate="ws", batch={"x": 8}), "tpu:v5e:1x1")
    assert found.program.platform == "tpu"
    assert [a.donated for a in found.inputs] == [True, True, True, False]
    assert found.inputs[3].shape == (8, 16)


def test_under_an_axis_environment() -> None:
    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            with jax.named_scope("mlp"):
                h = jax.lax.psum(jnp.tanh(jnp.sin(x @ w)), "i")
            return jnp.sum(h**2)

        return w - jax.grad(loss)(w)

    arrays = jnp.ones((8, 8)), jnp.ones((4, 8))
    lowered = inspector.lower(step, *arrays, axis_env=[("i", 2)])
    assert [a.donated for a in lowered.what_if(donate="w").inputs] == [True, False]
    assert lowered.what_if(batch={"x": 2}).inputs[1].shape == (2, 8)
    again = lowered.what_if(rematerialize="mlp")
    assert "optimization_barrier" in str(again.jaxpr)
    kinds = [[c.opcode for c in each.collectives()] for each in (lowered, again)]
    assert set(kinds[0]) == set(kinds[1])
    assert len(kinds[1]) >= len(kinds[0]) > 0


def test_changes_of_a_traced_call(arguments: Any) -> None:
    traced = jax.jit(step).trace(*arguments)
    for given in (traced, traced.lower()):
        opened = inspector.lower(given)
        assert [a.donated for a in opened.what_if(donate="args[0]").inputs] == [True, True, True, False]
        assert "optimization_barrier" in opened.what_if(rematerialize="mlp").stablehlo
        with pytest.raises(ParameterError, match="Pass the function and its arguments"):
            opened.what_if(batch={"args[1]": 8})


def test_changes_of_a_method_of_a_library_model(arguments: Any) -> None:
    class Model:
        def __init__(self, ws: Any) -> None:
            self.ws = ws

        def __call__(self, x: Any) -> Any:
            return loss(self.ws, x)

    jax.tree_util.register_pytree_with_keys(
        Model, lambda m: ([(jax.tree_util.GetAttrKey("ws"), m.ws)], None), lambda _, c: Model(*c)
    )
    ws, x = arguments
    lowered = inspector.lower(lambda model, x: (model(x), model.ws), Model(ws), x)
    found = lowered.what_if(dtype={"model.ws": "bfloat16"}, donate="model")
    assert [a.dtype for a in found.inputs] == ["bfloat16"] * 3 + ["float32"]
    assert [a.donated for a in found.inputs] == [True] * 3 + [False]


# --------------------------------------------------------------------------- rematerialization


def checkpointed(arguments: Any, layer: Layer) -> Lowered:
    return inspector.lower(functools.partial(step, of=functools.partial(loss, layer=jax.checkpoint(layer))), *arguments)


def test_rematerialized_values_take_the_memory_of_a_checkpoint(lowered: Lowered, arguments: Any) -> None:
    found = lowered.what_if(rematerialize="mlp")
    assert temporaries(found) == temporaries(checkpointed(arguments, mlp))


@pytest.mark.parametrize("scopes", [["mlp"], ["layer_1"], ["layer_*/mlp"], ["layer_0/mlp", "layer_2"]])
def test_results_stay(lowered: Lowered, arguments: Any, scopes: list[str]) -> None:
    again = lowered.what_if(rematerialize=scopes)
    expected = jax.tree.leaves(step(*arguments))
    found = jax.tree.leaves(again.compile(engine=InlineEngine()).run(*arguments, repeat=1, warmup=0).result)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-7)


def tanhs(lowered: Lowered) -> int:
    return lowered.stablehlo.count("stablehlo.tanh")


def test_only_the_scope_is_rematerialized(lowered: Lowered) -> None:
    assert tanhs(lowered) == 6
    assert tanhs(lowered.what_if(rematerialize="layer_1")) == 8
    assert tanhs(lowered.what_if(rematerialize="layer_*")) == 12
    assert lowered.what_if(rematerialize="layer_1").stablehlo.count("optimization_barrier") == 1


def test_rematerialized_instructions_are_marked(lowered: Lowered) -> None:
    table = lowered.what_if(rematerialize="mlp").compile(engine=InlineEngine()).instructions()
    assert any("recomputed" in str(phase) for phase in table["phase"])


def test_through_functions_that_are_jitted(lowered: Lowered, arguments: Any) -> None:
    inner = inspector.lower(functools.partial(step, of=jax.jit(loss)), *arguments)
    assert tanhs(inner.what_if(rematerialize="layer_1")) == 8
    assert temporaries(inner.what_if(rematerialize="mlp")) == temporaries(lowered.what_if(rematerialize="mlp"))


def test_the_same_layer_twice_is_two_blocks(arguments: Any) -> None:
    def alike(ws: Any, x: Any) -> Any:
        for w in ws:
            x = x + mlp(x, w)
        return (x**2).mean()

    found = inspector.lower(jax.grad(alike), *arguments).what_if(rematerialize="mlp")
    assert found.stablehlo.count("optimization_barrier") == 3


def test_with_random_keys_and_no_use_of_a_key_behind_the_barrier() -> None:
    def loss(w: Any, key: Any) -> Any:
        with jax.named_scope("noisy"):
            h = jnp.tanh(w * jax.random.normal(key, w.shape))
            return jnp.sum(jnp.sin(h) ** 2)

    lowered = inspector.lower(jax.grad(loss), jnp.ones(8), jax.random.key(3))
    found = lowered.what_if(rematerialize="noisy").compile(engine=InlineEngine())
    ran = found.run(jnp.ones(8), jax.random.key(3), repeat=1, warmup=0).outputs[0]
    np.testing.assert_allclose(ran, jax.grad(loss)(jnp.ones(8), jax.random.key(3)), rtol=1e-5)


def test_a_scope_by_any_name_that_jax_takes() -> None:
    def loss(w: Any, x: Any) -> Any:
        for name in ("decoder/block0", "dense(128)", "block[0]"):
            with jax.named_scope(name):
                x = jnp.sin(jnp.tanh(x @ w))
        return jnp.sum(x**2)

    lowered = inspector.lower(jax.grad(loss), jnp.ones((4, 4)), jnp.ones((2, 4)))
    for scope in ("decoder/block0", "block0", "dense(128)", "block[0]", "block[*]", "*"):
        assert "optimization_barrier" in lowered.what_if(rematerialize=scope).stablehlo, scope


def test_a_scope_within_another_that_is_supposed_too(lowered: Lowered) -> None:
    both = lowered.what_if(rematerialize="layer_0").what_if(rematerialize="layer_0/mlp")
    assert tanhs(both) == tanhs(lowered.what_if(rematerialize="layer_0"))


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"donate": "y"}, r"No array argument is called 'y'. Array arguments: ws\[0\], ws\[1\], ws\[2\], x"),
        ({"donate": "w"}, "No array argument is called 'w'"),
        ({"dtype": {"x": "bf17"}}, "dtype of x is 'bf17'"),
        ({"dtype": 3}, "Expected a mapping by argument"),
        ({"dtype": {"x": "float64"}}, "which JAX treats as float32 without jax_enable_x64"),
        ({"batch": {"x": 0}}, "has the length 0 for x"),
        ({"batch": {"x": True}}, "has the length True for x"),
        ({"rematerialize": "nope"}, "Nothing under 'nope' can be rematerialized.*layer_0, mlp, layer_1"),
        ({"rematerialize": 3}, "Expected a name or a list of names"),
    ],
)
def test_impossible_changes_are_refused(lowered: Lowered, given: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        lowered.what_if(**given)


def test_a_scope_in_a_loop_is_refused_with_the_reason() -> None:
    def scanned(w: Any, x: Any) -> Any:
        def body(h: Any, _: Any) -> Any:
            return mlp(h, w), None

        return jnp.sum(jax.lax.scan(body, x, None, length=3)[0])

    lowered = inspector.lower(jax.grad(scanned), jnp.ones((4, 8)), jnp.ones((2, 4)))
    with pytest.raises(ParameterError, match=r"inside a loop.*jax\.checkpoint around the body"):
        lowered.what_if(rematerialize="mlp")
    with pytest.raises(ParameterError, match="has no backward pass"):
        inspector.lower(mlp, jnp.ones((2, 4)), jnp.ones((4, 8))).what_if(rematerialize="mlp")


def test_a_module_without_its_function() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    with pytest.raises(ParameterError, match="without its function"):
        inspector.lower(text).what_if(donate="arg0")


def test_integers_do_not_become_floating_point_numbers_by_the_name_above_them() -> None:
    lowered = inspector.lower(lambda t: t["n"] + 1, {"n": jnp.arange(3)})
    with pytest.raises(ParameterError, match="No array below 't' holds floating-point numbers"):
        lowered.what_if(dtype={"t": "bfloat16"})


def test_a_leading_dimension_stands_for_all_arrays_that_have_it(lowered: Lowered, arguments: Any) -> None:
    ws, x = arguments
    shorter = lowered.what_if(batch={64: 4})
    assert [a.shape for a in shorter.inputs] == [(16, 128)] * 3 + [(4, 16)]
    assert same_module(shorter, inspector.lower(step, ws, x[:4]))
    assert shorter.what_if(batch={4: 2}).inputs[3].shape == (2, 16), "the length that it has by then"
    named = inspector.lower(lambda a, b, c: (a.sum(), b.sum(), c.sum()), jnp.ones(6), jnp.ones((6, 2)), jnp.ones(3))
    found = named.what_if(batch={6: 4, np.int64(3): 5, "b": 7})
    assert [a.shape for a in found.inputs] == [(4,), (7, 2), (5,)], "a name goes before a dimension"
    for wrong in ({7: 2}, {True: 2}, {6: 0}):
        with pytest.raises(ParameterError):
            named.what_if(batch=wrong)


def test_any_dimension_of_any_argument(lowered: Lowered, arguments: Any) -> None:
    ws, x = arguments
    wider = lowered.what_if(shape={16: 24})
    assert [a.shape for a in wider.inputs] == [(24, 128)] * 3 + [(64, 24)]
    assert str(what_if_of(wider)) == "ws[0], ws[1], ws[2] of 24, x with dimension 1 of 24"
    assert same_module(wider.what_if(shape={24: 16}), lowered)
    narrower = lowered.what_if(shape={"ws": (None, 32), "x": (8, None)})
    assert same_module(narrower, inspector.lower(step, [w[:, :32] for w in ws], x[:8]))
    assert narrower.what_if(batch={"x": 4}).inputs[3].shape == (4, 16), "the later one wins"
    both = lowered.what_if(shape={64: 4, "x": [2, None]})
    assert both.inputs[3].shape == (2, 16), "a name goes before a length"
    assert same_module(lowered.what_if(shape={"x": (64, None)}), lowered)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            {"x": (1, 2, 3)},
            r"shape has \(1, 2, 3\) for x, which is \(64, 16\). Expected 2 lengths, None to keep one",
        ),
        ({"x": 32}, "shape has 32 for x"),
        ({"x": (0, None)}, "shape has the length 0 for x. Expected 1 or more"),
        ({"v": (1, 2)}, "shape names the unknown array 'v'. Arrays: ws"),
        ({17: 32}, "shape names the length 17, which no dimension has. Lengths: 16, 128, 64"),
        ({16: True}, "the length True for dimensions of 16"),
        ([1, 2], "Expected shapes by argument"),
    ],
)
def test_wrong_shapes_are_named(lowered: Lowered, shape: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        lowered.what_if(shape=shape)


def test_a_shape_that_the_function_does_not_take_is_its_own_error(lowered: Lowered) -> None:
    with pytest.raises(TypeError, match="dot_general"):
        lowered.what_if(shape={"x": (None, 17)})


def test_arguments_are_repeated_or_cut_for_other_shapes() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    assert fitted(x, (3, 2), "int32").tolist() == [[0, 1], [3, 4], [0, 1]]
    assert fitted(x, (2, 5), "float32").tolist() == [[0, 1, 2, 0, 1], [3, 4, 5, 3, 4]]
    assert fitted(x, (6,), "float32") is x
    keys = jax.random.split(jax.random.key(0), (2, 3))
    assert fitted(keys, (3, 2), "key<fry>").shape == (3, 2)


def test_a_lowered_that_is_opened_again_keeps_its_call(lowered: Lowered, arguments: Any) -> None:
    explorer = inspector.explore(lowered)
    donated = explorer.what_if(donate="ws")
    shorter = explorer.what_if(batch={"x": 8})
    assert donated.lowered is not None
    assert shorter.lowered is not None
    assert [a.donated for a in donated.lowered.inputs] == [True, True, True, False]
    assert shorter.lowered.inputs[3].shape == (8, 16)
    explorer.close()
    explorer = inspector.explore("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    assert "without its function" in str(explorer.what_if(donate="arg0").failure)
    explorer.close()


def test_a_weak_type_stays_where_the_dtype_does() -> None:
    x, y = jnp.full((8, 4), 2.0), jnp.ones((8, 4), "bfloat16")
    lowered = inspector.lower(lambda x, y: x * y, x, y)
    assert lowered.what_if(batch={"x": 4, "y": 4}).outputs[0].dtype == lowered.outputs[0].dtype == "bfloat16"


# --------------------------------------------------------------------------- values


def test_later_changes_override_earlier_ones() -> None:
    first = WhatIf.of(dtype={"params": "float32", "params['w']": "float16"})
    both = first.merge(WhatIf.of(dtype={"params": "bfloat16"}))
    assert both.dtypes == (("params['w']", "float16"), ("params", "bfloat16"))
    assert WhatIf.of(batch={"x": np.int64(8)}).batch == (("x", 8),)


def test_names_cover_nested_arguments() -> None:
    assert covers("p", "p['w']")
    assert covers("p['w']", "p['w']")
    assert covers("model", "model.layers[0]")
    assert not covers("p", "pp")
    assert not covers("p['w']", "p")


def test_a_change_without_its_kernel_parameters() -> None:
    supposed = WhatIf(donate=("x",))
    tuned = Tuning(params=(("*", (("a", 1),)),), interpret=True, chip="v5e", what_if=supposed)
    assert tuned.without_kernels() == Tuning(what_if=supposed)
    assert str(tuned) == "a=1 interpreted donated x"


def test_values_are_made_to_fit() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert fitted(x, (3, 2), "float32") is x
    assert fitted(x, (3, 2), "bfloat16").dtype == "bfloat16"
    np.testing.assert_array_equal(fitted(x, (2, 2), "float32"), x[:2])
    np.testing.assert_array_equal(fitted(x, (5, 2), "float32"), np.concatenate([x, x[:2]]))
    assert fitted(x, (3, 2, 1), "float32") is x  # of another rank, which a run refuses
    assert fitted("text", (3, 2), "float32") == "text"
    shape = jax.ShapeDtypeStruct((3, 2), "float32")
    assert fitted(shape, (6, 2), "bfloat16") == jax.ShapeDtypeStruct((6, 2), "bfloat16")
    keys = jax.random.split(jax.random.key(0), 4)
    assert fitted(keys, (6,), str(keys.dtype)).shape == (6,)


def _loops(ws: Any, x: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh(jnp.sin(x @ w) @ w), None), x, ws)[0].sum()


def _kept(ws: Any, x: Any) -> Any:
    body = jax.checkpoint(lambda x, w: (jnp.tanh(jnp.sin(x @ w) @ w), None))
    return jax.lax.scan(body, x, ws)[0].sum()


def _products(lowered: Lowered) -> int:
    assert isinstance(lowered.stablehlo, str)
    return lowered.stablehlo.count("stablehlo.dot_general")


@pytest.mark.parametrize(
    ("fun", "checkpoint", "products"),
    [
        pytest.param(_loops, "none", 6, marks=pytest.mark.slow),
        (_loops, "loops", 8),
        pytest.param(_kept, "none", 6, marks=pytest.mark.slow),
        (_kept, "dots_saveable", 6),
        (_kept, "nothing_saveable", 8),
    ],
)
def test_checkpoints_change(fun: Any, checkpoint: str, products: int) -> None:
    args = jnp.ones((4, 32, 32)) / 32, jnp.ones((8, 32))
    gradient = jax.grad(fun)
    as_called = inspector.lower(gradient, *args)
    changed = as_called.what_if(checkpoint=checkpoint)
    assert _products(changed) == products
    assert changed.notes
    theirs = changed.compile(target="cpu").run(*args, repeat=1).result
    np.testing.assert_allclose(theirs, gradient(*args), rtol=1e-6)
    assert _products(inspector.lower(gradient, *args)) == _products(as_called)  # JAX traces as before
    twice = changed.what_if(donate="ws")
    assert _products(twice) == products
    assert twice.inputs[0].donated


@pytest.mark.parametrize("reverse", [False, True])
def test_segments_of_a_long_loop(reverse: bool) -> None:
    def loss(ws: Any, x: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            x = jnp.tanh(x * w + jnp.sin(x))
            return x, x[:2]

        last, ys = jax.lax.scan(body, x, ws, reverse=reverse)
        return last.sum() + (ys * ws[:, :2]).sum()

    args = jax.random.normal(jax.random.key(0), (100, 4096)), jnp.ones(4096)
    as_called = inspector.lower(jax.grad(loss), *args)
    changed = as_called.what_if(checkpoint="segments").compile(target="cpu")
    np.testing.assert_allclose(changed.run(*args, repeat=1).result, jax.grad(loss)(*args), rtol=1e-5, atol=1e-6)
    assert changed.memory.temp_bytes < 0.6 * as_called.compile(target="cpu").memory.temp_bytes
    assert _products(inspector.lower(loss, *args)) == 0


@pytest.mark.parametrize("wrap", [lambda fun: fun, jax.checkpoint])
@pytest.mark.parametrize("length", [100, 4096])
def test_the_loops_of_segments_are_not_split(length: int, wrap: Any) -> None:
    def loss(ws: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, w: (jnp.tanh(x * w + wrap(jnp.sin)(x)), None), x, ws)[0].sum()

    lowered = inspector.lower(jax.grad(loss), jnp.ones((length, 8)), jnp.ones(8)).what_if(checkpoint="segments")
    root = math.isqrt(length)
    assert re.findall(r"\blength=(\d+)", str(lowered.jaxpr)) == [str(root)] * 5


def test_checkpoints_of_another_thread_stay() -> None:
    args = jnp.ones((4, 32, 32)), jnp.ones((8, 32))

    def slow(ws: Any, x: Any) -> Any:
        entered.set()
        assert left.wait(60)
        return _loops(ws, x)

    entered, left = threading.Event(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pending = pool.submit(inspector.lower, jax.grad(slow), *args, what_if=WhatIf(checkpoint="loops"))
        assert entered.wait(60)
        beside = inspector.lower(jax.grad(_loops), *args)
        left.set()
    assert _products(beside) == 6
    assert _products(pending.result()) == 8


def test_a_trace_has_its_checkpoints() -> None:
    traced = jax.jit(jax.grad(_kept)).trace(jnp.ones((4, 32, 32)), jnp.ones((8, 32)))
    with pytest.raises(ParameterError, match="part of its trace"):
        inspector.lower(traced).what_if(checkpoint="none")
    with pytest.raises(
        ParameterError, match=r"checkpoint is 'dots'. Expected one of none, loops, segments, dots_saveable"
    ):
        inspector.lower(_kept, jnp.ones((4, 32, 32)), jnp.ones((8, 32))).what_if(checkpoint="dots")
