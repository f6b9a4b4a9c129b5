"""Arguments, carries and stacked results in float32 that bfloat16 would hold, and those that need float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import module_before
from tests.absent import needs_gpu
from tests.findings import sharded
from tests.findings.examined import all_found, found, peak

KIND = "wide-storage"
H100 = peak("gpu:h100")
NARROW = jnp.bfloat16


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


N, LAYERS = 256, 8
W, WS = f32(N, N), f32(LAYERS, N, N)
X, LARGE = (jax.ShapeDtypeStruct((rows, N), NARROW) for rows in (64, 4096))
TOKENS = jax.ShapeDtypeStruct((64,), jnp.int32)

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def dense(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w.astype(NARROW))


# Arguments


def weights_of_layers() -> Program:
    return lambda x, ws: lax.scan(lambda x, w: (dense(x, w), None), x, ws)[0], (X, WS)


def weights_in_a_tree() -> Program:
    def f(params: Any, x: Any) -> Any:
        params = jax.tree.map(lambda w: w.astype(NARROW), params)
        return jnp.tanh(x @ params["w"]) @ params["v"].T

    return f, ({"v": W, "w": W}, X)


def table_of_words() -> Program:
    return lambda table, tokens: jnp.tanh(table[tokens].astype(NARROW)), (f32(4096, N), TOKENS)


def weight_in_a_called_function() -> Program:
    called = jax.jit(lambda x, w: dense(x, w.reshape(N, N).T))

    def f(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, x: called(x, w), x) + called(x, w)

    return f, (X, f32(N * N))


# Loops


def stacked_states() -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            x = jnp.tanh(x @ w)
            return x, x.astype(jnp.float32) * 0.5

        return jnp.tanh(lax.scan(body, x, ws)[1].astype(NARROW) @ ws[0])

    return f, (X, jax.ShapeDtypeStruct(WS.shape, NARROW))


def carried_state() -> Program:
    def f(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 10, lambda _, h: dense(h.astype(NARROW), w).astype(jnp.float32), x.astype(jnp.float32))

    return f, (X, jax.ShapeDtypeStruct((N, N), NARROW))


def cache_in_a_loop() -> Program:
    def f(x: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            x, cache = carry
            cache = lax.dynamic_update_slice(cache, x.astype(jnp.float32)[None], (i, 0, 0))
            return jnp.tanh((cache.astype(NARROW) * x).sum(0)), cache

        return lax.fori_loop(0, 16, body, (x, jnp.zeros((16, *x.shape), jnp.float32)))[0]

    return f, (X,)


def two_caches() -> Program:
    def f(x: Any) -> Any:
        keys, values = (jnp.full((16, *x.shape), each, jnp.float32) for each in (0.0, 1.0))

        def body(i: Any, carry: Any) -> Any:
            x, *caches = carry
            read = sum((each.astype(NARROW) * x).sum(0) for each in caches)
            return jnp.tanh(read), *(lax.dynamic_update_index_in_dim(c, x.astype(jnp.float32), i, 0) for c in caches)

        return lax.fori_loop(0, 16, body, (x, keys, values))[0]

    return f, (X,)


def appended_outputs() -> Program:
    """An array that the loop fills, and that is a stack of its results; the conversion after it writes a narrow copy."""

    def f(x: Any, ws: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            x, out = carry
            x = jnp.tanh(x @ ws[i])
            return x, lax.dynamic_update_index_in_dim(out, jnp.abs(x.astype(jnp.float32)), i, 0)

        x, out = lax.fori_loop(0, LAYERS, body, (x, jnp.zeros((LAYERS, *x.shape), jnp.float32)))
        return x, out.astype(NARROW)

    return f, (LARGE, jax.ShapeDtypeStruct(WS.shape, NARROW))


def appended_narrow(_: Callable[[], Program]) -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            x, out = carry
            x = jnp.tanh(x @ ws[i])
            return x, lax.dynamic_update_index_in_dim(out, jnp.abs(x), i, 0)

        return lax.fori_loop(0, LAYERS, body, (x, jnp.zeros((LAYERS, *x.shape), NARROW)))

    return f, appended_outputs()[1]


def two_states_in_while() -> Program:
    def f(x: Any, w: Any) -> Any:
        def body(carry: Any) -> Any:
            i, a, b = carry
            swapped = jnp.tanh(b.astype(NARROW) @ w), jnp.tanh(a.astype(NARROW) @ w)
            return i + 1, *(each.astype(jnp.float32) for each in swapped)

        wide = x.astype(jnp.float32)
        return lax.while_loop(lambda carry: carry[0] < 10, body, (0, wide, wide))[1:]

    return f, (X, jax.ShapeDtypeStruct((N, N), NARROW))


# Silent


def updated_weights() -> Program:
    return lambda w, x: (w - 0.1 * (x.T @ x).astype(jnp.float32), dense(x, w)), (W, X)


def gradients_of_master_weights() -> Program:
    return lambda w, x: jax.grad(lambda w: dense(x, w).astype(jnp.float32).sum())(w), (W, X)


def weight_used_wide_too() -> Program:
    return lambda w, x: dense(x, w) * jnp.linalg.norm(w).astype(NARROW), (W, X)


def simulated_rounding() -> Program:
    """The rounding changes the values, and passes its gradient on: the difference needs float32."""

    def f(w: Any, x: Any) -> Any:
        rounded = w + lax.stop_gradient(w.astype(NARROW).astype(jnp.float32) - w)
        return jnp.tanh(x.astype(jnp.float32) @ rounded)

    return f, (W, X)


def sums_in_float32() -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(total: Any, w: Any) -> Any:
            return total + (x @ w).astype(jnp.float32), None

        return lax.scan(body, jnp.zeros(x.shape, jnp.float32), ws)[0].astype(NARROW)

    return f, (X, jax.ShapeDtypeStruct(WS.shape, NARROW))


def residual_stream() -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(h: Any, w: Any) -> Any:
            return h + dense(h.astype(NARROW), w).astype(jnp.float32), None

        return lax.scan(body, x.astype(jnp.float32), ws)[0]

    return f, (X, jax.ShapeDtypeStruct(WS.shape, NARROW))


def stacked_losses() -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            x = jnp.tanh(x @ w)
            return x, jnp.exp(x.astype(jnp.float32))

        ys = lax.scan(body, x, ws)[1]
        return ys.mean(), ys.astype(NARROW)

    return f, (X, jax.ShapeDtypeStruct(WS.shape, NARROW))


def two_narrow_types() -> Program:
    return lambda w, x: (dense(x, w), x.astype(jnp.float16) @ w.astype(jnp.float16)), (W, X)


def converted_under_a_condition() -> Program:
    def f(w: Any, x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda w: dense(x, w), lambda w: (x @ jnp.sin(w)).astype(NARROW), w)

    return f, (W, X)


def pasted_into_another_array() -> Program:
    def f(w: Any, v: Any) -> Any:
        return lax.dynamic_update_slice(jnp.sin(v), w, (N, 0)).astype(NARROW)

    return f, (W, f32(2 * N, N))


def attended(cache: Any, position: Any, x: Any, written: Any) -> Any:
    """Reads a cache in the narrow type after a row of it is replaced."""
    cache = {
        name: lax.dynamic_update_slice(array, written[None].astype(array.dtype), (position, 0, 0))
        for name, array in cache.items()
    }
    scores = jax.nn.softmax((cache["k"].astype(NARROW) * x).sum(-1).astype(jnp.float32), 0)
    read = (scores.astype(NARROW)[..., None] * cache["v"].astype(NARROW)).sum(0)
    return read, cache


CACHE = {name: f32(4096, 8, N) for name in ("k", "v")}
ROW = jax.ShapeDtypeStruct((8, N), NARROW)


def cache_that_is_returned(donate: bool = True) -> Program:
    fun = jax.jit(attended, donate_argnums=(0,) if donate else ())
    return fun, (CACHE, jax.ShapeDtypeStruct((), jnp.int32), ROW, ROW)


def cache_of_wide_rows() -> Program:
    """The new rows need the wide type's precision."""
    fun, (cache, position, x, _) = cache_that_is_returned()
    return fun, (cache, position, x, f32(8, N))


def cache_and_its_sum() -> Program:
    fun, args = cache_that_is_returned()

    def f(cache: Any, *rest: Any) -> Any:
        read, cache = fun(cache, *rest)
        return read, cache, cache["k"].sum() + cache["v"].sum()

    return f, args


ARGUMENTS = [
    (weights_of_layers, "`ws` (2 MiB) is stored"),
    (weights_in_a_tree, "`params['v']`, `params['w']` (512 KiB) are stored"),
    (table_of_words, "`table` (4 MiB) is stored"),
    (weight_in_a_called_function, "`w` (256 KiB) is stored"),
]
LOOPS = [
    (stacked_states, "stacks the results of its iterations in float32 (f32[8,64,256], 512 KiB)", "every use converts them to"),
    (carried_state, "carries its state in float32 (f32[64,256], 64 KiB)", "each iteration converts it from"),
    (cache_in_a_loop, "carries an array in float32 (f32[16,64,256], 1 MiB) and replaces slices of it", "every use converts it to"),
    (two_caches, "carries arrays in float32 (f32[16,64,256], f32[16,64,256], 2 MiB) and replaces slices of them", "every use converts them to"),
    (two_states_in_while, "carries its state in float32 (f32[64,256], f32[64,256], 128 KiB)", "each iteration converts it from"),
]  # fmt: skip
SILENT = [
    updated_weights, gradients_of_master_weights, weight_used_wide_too, simulated_rounding, sums_in_float32, residual_stream,
    stacked_losses, two_narrow_types, converted_under_a_condition, pasted_into_another_array, cache_of_wide_rows, cache_and_its_sum,
]  # fmt: skip


@pytest.mark.parametrize(("program", "title"), ARGUMENTS)
def test_arguments(program: Callable[[], Program], title: str) -> None:
    fun, args = program()
    (finding,) = all_found(KIND, fun, *args, roofs=H100)
    assert finding.title.startswith(title)
    assert "in float32, although every use converts" in finding.title
    assert finding.frames[0].file == __file__
    size = sum(each.size for each in jax.tree.leaves(args) if each.dtype == jnp.float32)
    is_copied = program is weight_in_a_called_function  # XLA writes a narrow copy, which the weight then is itself
    # of two weights, XLA of JAX 0.12 writes a narrow copy of one
    parts = (2, 3) if program is weights_in_a_tree else (4 if is_copied else 2,)
    assert finding.gain_bytes / size in parts
    assert ".astype(jnp.bfloat16)" in finding.remedy
    assert "master weights" in finding.caution
    proof = finding.prove(run=True)
    assert proof.values in ("equal results", "results agree within 3e-02")
    assert proof.gain_bytes <= finding.gain_bytes


@pytest.mark.parametrize("donate", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_cache_that_is_returned(donate: bool) -> None:
    fun, args = cache_that_is_returned(donate)
    (finding,) = all_found(KIND, fun, *args, roofs=H100)
    assert finding.title == (
        "`cache['k']`, `cache['v']` (64 MiB) are stored in float32, although every use converts them to bfloat16 first, and all"
        " values written to them are converted from bfloat16."
    )
    assert finding.remedy.splitlines()[-1] == "# in the function, before each update: new = new.astype(array.dtype)"
    size = 64 << 20
    assert finding.gain_bytes == (size // 2 if donate else size)
    assert finding.prove(run=True).values in ("equal results", "results agree within 3e-02")
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert proof.compiled is not None
    assert {each.dtype for each in proof.compiled.program.results} == {"bfloat16"}


@pytest.mark.parametrize(("program", "title", "why"), LOOPS)
def test_loops(program: Callable[[], Program], title: str, why: str) -> None:
    fun, args = program()
    (finding,) = all_found(KIND, fun, *args, roofs=H100)
    assert title in finding.title
    assert f"although {why} bfloat16" in finding.title
    assert finding.frames[0].file == __file__
    assert finding.share > 0.01
    assert finding.prove(run=True).values in ("equal results", "results agree within 3e-02")


@pytest.mark.parametrize("program", SILENT)
def test_silent(program: Callable[[], Program]) -> None:
    fun, args = program()
    assert not all_found(KIND, fun, *args, roofs=H100)


@pytest.mark.parametrize("program", [weights_of_layers, carried_state])
def test_cpus_compute_in_float32(program: Callable[[], Program]) -> None:
    fun, args = program()
    assert not all_found(KIND, fun, *args)


def stored_narrow(program: Callable[[], Program]) -> Program:
    """Returns a program whose arguments are stored in the narrow type."""
    fun, args = program()
    return fun, tuple(jax.tree.map(lambda a: a.update(dtype=NARROW) if a.dtype == jnp.float32 else a, args))


def stacked_narrow(_: Callable[[], Program]) -> Program:
    def f(x: Any, ws: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            x = jnp.tanh(x @ w)
            return x, (x.astype(jnp.float32) * 0.5).astype(NARROW)

        return jnp.tanh(lax.scan(body, x, ws)[1] @ ws[0])

    return f, stacked_states()[1]


@needs_gpu
@pytest.mark.parametrize(
    ("program", "by_hand"),
    [(weights_of_layers, stored_narrow), (weights_in_a_tree, stored_narrow), (table_of_words, stored_narrow), (stacked_states, stacked_narrow), (appended_outputs, appended_narrow), (cache_that_is_returned, stored_narrow)],
)  # fmt: skip
def test_the_proof_equals_the_compile_by_hand(program: Callable[[], Program], by_hand: Callable[..., Program]) -> None:
    fun, args = program()
    (finding,) = found(KIND, fun, *args, target="gpu:h100")
    before, after = (
        inspector.lower(f, *given, target="gpu:h100").compile(target="gpu:h100")
        for f, given in ((fun, args), by_hand(program))
    )
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_bytes == peak_bytes(before) - peak_bytes(after)
    assert proof.gain_s == pytest.approx(seconds(before) - seconds(after), rel=0.01)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1, abs=1e-7)
    assert proof.gain_bytes <= finding.gain_bytes


def test_a_tree_is_converted_at_once() -> None:
    (finding,) = all_found(KIND, *flat(weights_in_a_tree), roofs=H100)
    tree = "jax.tree.map(lambda a: a.astype(jnp.bfloat16), params)"
    assert finding.remedy == f"params = {tree}  # once, where it is made, or stored in this type"


def test_other_arrays_of_a_tree_stay() -> None:
    """The scale is used in float32: its line is not that of the tree."""

    def f(params: Any, x: Any) -> Any:
        y = jnp.tanh(x @ params["w"].astype(NARROW)) @ params["v"].astype(NARROW)
        return y.astype(jnp.float32) * params["scale"]

    (finding,) = all_found(KIND, f, {"v": W, "w": W, "scale": f32(N)}, X, roofs=H100)
    assert "tree" not in finding.remedy
    assert [line.partition(" ")[0] for line in finding.remedy.splitlines()] == ["params['v']", "params['w']"]


def flat(program: Callable[[], Program]) -> tuple[Any, ...]:
    """Returns a function and its arguments."""
    fun, args = program()
    return fun, *args


def peak_bytes(compiled: inspector.Compiled) -> int:
    assert not isinstance(compiled.memory, Unavailable)
    return int(compiled.memory.peak_bytes)


def seconds(compiled: inspector.Compiled) -> float:
    found = compiled.roofline().total.least_s
    assert not isinstance(found, Unavailable)
    return float(found)


def test_an_argument_with_which_a_loop_begins_is_not_listed_twice() -> None:
    """The remedy of the loop converts the argument once."""

    def step(ws: Any, x: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            return jnp.tanh(x.astype(jnp.bfloat16) @ w).astype(jnp.float32), None

        return jax.lax.scan(body, x, ws)[0].astype(jnp.bfloat16)

    args = jax.ShapeDtypeStruct((8, 512, 512), jnp.bfloat16), jax.ShapeDtypeStruct((4096, 512), jnp.float32)
    listed = all_found(KIND, step, *args, roofs=peak("gpu:h100:1"))
    assert [" loop " in each.title for each in listed] == [True]


@needs_gpu
def test_only_what_kernels_read_becomes_narrower() -> None:
    """A gather reads some rows of a table, and the other conversion of the line stays. The narrow copy of a slice is still made."""

    def looked_up(table: Any, rows: Any) -> Any:
        return table.astype(NARROW)[rows].max(1)

    def rounded(ws: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, w: (jnp.sin(x @ w.astype(jnp.float16).astype(jnp.float32)), None), x, ws)[0]

    rows = jax.ShapeDtypeStruct((2048, 16), jnp.int32)
    for fun, args in ((looked_up, (f32(65_536, 256), rows)), (rounded, (f32(4, 512, 512), f32(256, 512)))):
        (finding,) = found(KIND, fun, *args, target="gpu:h100:8")
        proof = finding.prove(run=False)
        assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)
        assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.02)


XS, STATE, MATRIX = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((64, 256, 512), (256, 512), (512, 512)))


def scanned_in(dtype: Any, later: bool, train: bool = False) -> Any:
    """A scan over an array that is converted before it, or slice by slice."""

    def run(w: Any, h: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            x = x.astype(dtype) if later else x
            return jnp.tanh(h @ w + x.astype(h.dtype)), None

        return jax.lax.scan(body, h, xs if later else xs.astype(dtype))[0]

    return jax.grad(lambda w, h, xs: run(w, h, xs).astype(jnp.float32).sum()) if train else run


@needs_gpu
@pytest.mark.parametrize("train", [False, True])
def test_slices_of_an_array_that_was_converted(train: bool) -> None:
    first, second = (
        inspector.lower(scanned_in(jnp.float32, later, train), MATRIX, STATE, XS).compile(target="gpu:h100:1")
        for later in (False, True)
    )
    (finding,) = [each for each in first.findings(kinds=[KIND]) if "as a whole" in each.title]
    assert finding.title.startswith(
        "f32[64, 256, 512] (32 MiB) is converted from bfloat16 as a whole at test_wide_storage.py:"
    )
    assert finding.gain_bytes == 32 << 20
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_bytes == pytest.approx(first.memory.peak_bytes - second.memory.peak_bytes, rel=0.05)
    assert not [each for each in second.findings(kinds=[KIND]) if "as a whole" in each.title]


@needs_gpu
def test_a_converted_array_that_others_read_too() -> None:
    def run(w: Any, h: Any, xs: Any) -> Any:
        wide = xs.astype(jnp.float32)
        h = jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x.astype(h.dtype)), None), h, wide)[0]
        return h, wide

    findings = inspector.lower(run, MATRIX, STATE, XS).compile(target="gpu:h100:1").findings(kinds=[KIND])
    assert not [each for each in findings if "as a whole" in each.title]


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("is_manual", [False, True])
def test_a_cache_in_a_shard_map(is_masked: bool, is_manual: bool) -> None:
    """All arrays enter a `shard_map` together. A mask replaces values of the cache as a slice does."""

    def attend(cache: Any, new: Any, i: Any) -> Any:
        wide = new.astype(jnp.float32)
        if is_masked:
            cache = jnp.where((jnp.arange(2048) == i)[:, None, None], wide, cache)
        else:
            cache = lax.dynamic_update_slice_in_dim(cache, wide, i, 0)
        return cache, jnp.einsum("thd,shd->hts", new, cache.astype(NARROW))

    heads = P(None, "d")
    fun = sharded.manual(attend, (heads, heads, P()), (heads, P("d"))) if is_manual else attend
    cache = sharded.array((2048, 16, 64), None, "d")
    new = sharded.array((1, 16, 64), None, "d", dtype=NARROW)
    lowered = inspector.lower(fun, cache, new, jax.ShapeDtypeStruct((), jnp.int32), donate_argnums=0)
    (finding,) = lowered.compile(target="cpu:8").findings(H100, kinds=[KIND])
    assert finding.title.startswith("`cache` (1 MiB per device) is stored in float32")
    proof = finding.prove(run=True)
    assert proof.gain_bytes > 0.95 * (1 << 19)
    assert str(proof.values).startswith(("equal results", "results agree"))


def test_a_mask_that_writes_wide_values() -> None:
    def attend(cache: Any, new: Any, i: Any) -> Any:
        cache = jnp.where((jnp.arange(2048) == i)[:, None], jnp.sin(new), cache)
        return cache, new.astype(NARROW) @ cache.astype(NARROW).T

    assert not all_found(KIND, attend, f32(2048, 64), f32(1, 64), jax.ShapeDtypeStruct((), jnp.int32), roofs=H100)


def test_a_loop_that_selects_wide_values_keeps_them() -> None:
    """The proof must not round the other operand of a selection."""

    def fun(xs: Any, y: Any, mask: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return (c.astype(NARROW) + x).astype(jnp.float32), (jnp.where(mask, c, y) ** 2).sum()

        return lax.scan(step, xs[0].astype(jnp.float32), xs)

    args = jax.ShapeDtypeStruct((64, 512, 64), NARROW), f32(512, 64), jax.ShapeDtypeStruct((512, 64), jnp.bool_)
    finding, *_ = all_found(KIND, fun, *args, roofs=H100)
    changed = finding.prove(run=False).compiled
    assert changed is not None
    module = module_before(changed.program)
    assert not isinstance(module, Unavailable)
    assert {each.shape.element_type for each in module.instructions() if each.opcode == "select"} == {"f32"}


@pytest.mark.parametrize("is_manual", [False, True])
def test_the_caches_of_layers(is_manual: bool) -> None:
    """A scan takes the cache of each layer, and stacks the new versions."""

    def attend(caches: Any, new: Any, i: Any) -> Any:
        def layer(x: Any, cache: Any) -> Any:
            cache = lax.dynamic_update_slice_in_dim(cache, x.astype(jnp.float32), i, 0)
            return x + jnp.einsum("thd,shd->thd", x, cache.astype(NARROW)), cache

        return lax.scan(layer, new, caches)

    heads, layers = P(None, "d"), P(None, None, "d")
    fun = sharded.manual(attend, (layers, heads, P()), (heads, layers)) if is_manual else attend
    caches = sharded.array((6, 512, 16, 64), None, None, "d")
    new = sharded.array((1, 16, 64), None, "d", dtype=NARROW)
    lowered = inspector.lower(fun, caches, new, jax.ShapeDtypeStruct((), jnp.int32), donate_argnums=0)
    (finding,) = lowered.compile(target="cpu:8").findings(H100, kinds=[KIND])
    assert finding.title.startswith("`caches` (1.5 MiB per device) is stored in float32")
    proof = finding.prove(run=True)
    assert proof.gain_bytes > 2**18
    assert proof.values == "equal results"


def test_the_caches_of_layers_with_wide_values() -> None:
    def attend(caches: Any, new: Any, i: Any) -> Any:
        def layer(x: Any, cache: Any) -> Any:
            cache = lax.dynamic_update_slice_in_dim(cache, jnp.sin(x), i, 0)
            return x + (x.astype(NARROW) @ cache.astype(NARROW).T).sum(), cache

        return lax.scan(layer, new, caches)

    args = f32(6, 512, 64), f32(1, 64), jax.ShapeDtypeStruct((), jnp.int32)
    assert not all_found(KIND, attend, *args, roofs=H100)


def test_caches_that_a_loop_carries_and_returns() -> None:
    """The argument is stored in a narrower type, not a copy of it."""

    def attend(caches: Any, new: Any, i: Any) -> Any:
        def layer(carry: Any, number: Any) -> Any:
            x, caches = carry
            caches = lax.dynamic_update_slice(caches, x[None].astype(jnp.float32), (number, i, 0))
            return (x + x @ caches[number].astype(NARROW).T @ caches[number].astype(NARROW), caches), None

        return lax.scan(layer, (new, caches), jnp.arange(6))[0]

    args = f32(6, 512, 64), jax.ShapeDtypeStruct((1, 64), NARROW), jax.ShapeDtypeStruct((), jnp.int32)
    lowered = inspector.lower(attend, *args, donate_argnums=0)
    (finding,) = lowered.compile(target="cpu").findings(H100, kinds=[KIND])
    assert finding.title.startswith("`caches` (768 KiB) is stored in float32")
    proof = finding.prove(run=True)
    assert proof.values == "equal results"
    assert proof.gain_bytes > 300 * 1024


@pytest.mark.parametrize("is_same", [True, False])
def test_a_slice_that_keeps_values_where_a_mask_says_so(is_same: bool) -> None:
    """As of a cache that is split over its positions. The kept values are those of the array, or wide ones of another."""

    def attend(cache: Any, other: Any, new: Any, i: Any) -> Any:
        old = lax.dynamic_slice_in_dim(cache if is_same else other, i, 1, 0)
        written = jnp.where(i % 2 == 0, new.astype(jnp.float32), old)
        cache = lax.dynamic_update_slice_in_dim(cache, written, i, 0)
        return cache, new @ cache.astype(NARROW).T

    args = f32(2048, 64), f32(2048, 64), jax.ShapeDtypeStruct((1, 64), NARROW), jax.ShapeDtypeStruct((), jnp.int32)
    lowered = inspector.lower(attend, *args, donate_argnums=0)
    found = lowered.compile(target="cpu").findings(H100, kinds=[KIND])
    assert bool(found) == is_same
    for finding in found:
        assert finding.title.startswith("`cache` (512 KiB) is stored in float32")
        assert finding.prove(run=True).values == "equal results"
