"""Arrays that are written as a whole though a slice changes, and arrays of which all values change."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_gpu, needs_tpu
from tests.findings import sharded
from tests.findings.examined import all_found, found

KIND = "full-rewrite"
CACHE = jax.ShapeDtypeStruct((256, 64), jnp.float32)
NEW = jax.ShapeDtypeStruct((1, 64), jnp.float32)
INDEX = jax.ShapeDtypeStruct((), jnp.int32)
BATCH, NEWS, INDICES = (
    jax.ShapeDtypeStruct(shape, dtype)
    for shape, dtype in (((4, 256, 64), jnp.float32), ((4, 1, 64), jnp.float32), ((4,), jnp.int32))
)


def selected(cache: Any, new: Any, i: Any) -> Any:
    return jnp.where(jnp.arange(256)[:, None] == i, new, cache)


def multiplied(cache: Any, new: Any, i: Any) -> Any:
    hot = jax.nn.one_hot(i, 256)[:, None]
    return cache * (1 - hot) + hot * new


def shifted(cache: Any, new: Any, i: Any) -> Any:
    return {"cache": jnp.concatenate([cache[1:], new]), "sum": cache.sum() + i}


def joined(cache: Any, new: Any, i: Any) -> Any:
    return jnp.concatenate([cache[:7], new, cache[8:]])


def in_a_loop(cache: Any, new: Any, i: Any) -> Any:
    return jax.lax.fori_loop(0, 16, selected_at(new), cache)


def selected_at(new: Any) -> Any:
    return lambda i, cache: jnp.where(jnp.arange(256)[:, None] == i, new + cache.sum(), cache)


def at_each_step(cache: Any, new: Any, i: Any) -> Any:
    def body(cache: Any, step: Any) -> Any:
        position, value = step
        cache = jnp.where((jnp.arange(256) == position)[:, None], value, cache)
        return cache, cache @ value

    return jax.lax.scan(body, cache, (jnp.arange(16), jnp.tile(new, (16, 1)) + i))


def products_at_each_step(cache: Any, new: Any, i: Any) -> Any:
    def body(cache: Any, position: Any) -> Any:
        hot = jax.nn.one_hot(position, 256)[:, None]
        cache = cache * (1 - hot) + hot * new
        return cache, cache.sum() + i

    return jax.lax.scan(body, cache, jnp.arange(16))


def batched(cache: Any, new: Any, i: Any) -> Any:
    return jnp.where((jnp.arange(256)[None] == i[:, None])[..., None], new, cache)


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        (selected, (CACHE, NEW, INDEX), "`cache` (f32[256,64], 64 KiB) is written as a whole by a selection"),
        (multiplied, (CACHE, NEW, INDEX), "by products with a one-hot mask, though 1 of 256 parts"),
        (shifted, (CACHE, NEW, INDEX), "by a concatenation that shifts it"),
        (joined, (CACHE, NEW, INDEX), "by a concatenation, though 1 of 256 parts"),
        (in_a_loop, (CACHE, NEW, INDEX), "An array that a loop carries"),
        (at_each_step, (CACHE, NEW, INDEX), "by a selection with a mask, though 1 of 256 parts"),
        (products_at_each_step, (CACHE, NEW, INDEX), "by products with a one-hot mask, though 1 of 256 parts"),
        (batched, (BATCH, NEWS, INDICES), "by a selection with a mask, though 1 of 256 parts"),
    ],
)
def test_rewritten_arrays(fun: Any, args: Any, words: str) -> None:
    (finding,) = found(KIND, fun, *args)
    assert words in finding.title
    assert f"dynamic_update_{'index' if fun is batched else 'slice'}" in finding.remedy
    assert ("jax.vmap" in finding.remedy) == (fun is batched)  # a position for each example
    assert ("ring buffer" in finding.remedy) == (fun is shifted)
    assert finding.share > 0.1
    assert isinstance(finding.edits, Unavailable) == (fun in (shifted, batched))


@pytest.mark.parametrize("fun", [selected, multiplied, joined, products_at_each_step])
def test_the_proof_updates_a_slice(fun: Any) -> None:
    (finding,) = found(KIND, fun, CACHE, NEW, INDEX)
    proof = finding.prove()
    assert proof.values == "equal results"
    assert proof.compiled is not None
    operations = {instruction.opcode for instruction in proof.compiled.module().instructions()}
    assert "dynamic-update-slice" in operations
    assert not operations & {"concatenate", "multiply"}


@pytest.mark.parametrize(
    "fun",
    [
        lambda cache, new, i: jax.lax.dynamic_update_slice(cache, new, (i, 0)),
        lambda cache, new, i: jnp.concatenate([cache, new]),  # it grows
        lambda cache, new, i: jnp.roll(cache, 1, 0) + 0 * i,
        lambda cache, new, i: jnp.where(jnp.arange(256)[:, None] <= i, new, cache),  # many parts change
        lambda cache, new, i: jnp.where(jnp.arange(256)[:, None] == jnp.arange(64), new, cache),
        lambda cache, new, i: jnp.where(jnp.arange(256)[:, None] == i, cache, 0.0).sum(0),  # a lookup
        lambda cache, new, i: jnp.where(cache > i, new, cache),
        lambda cache, new, i: multiplied(jnp.tanh(cache), new, i),  # all values change
        lambda cache, new, i: (jnp.where(jnp.arange(256)[:, None] == i, new, cache) @ new.T).sum(),  # no state
    ],
)
def test_arrays_that_are_not_rewritten(fun: Any) -> None:
    assert not all_found(KIND, fun, CACHE, NEW, INDEX)


def masked(cache: Any, new: Any, i: Any) -> Any:
    return jnp.where(jnp.arange(cache.shape[0])[:, None] == i, new, cache)


def sliced(cache: Any, new: Any, i: Any) -> Any:
    return jax.lax.dynamic_update_slice_in_dim(cache, new, i, 0)


def two_caches(write: Any) -> Any:
    """One kernel writes both."""

    def attend(caches: Any, new: Any, i: Any) -> Any:
        return tuple(write(each, new, i) for each in caches)

    return attend


def read_with_the_write(write: Any) -> Any:
    """The kernel also reduces the array, which takes as long as the writes."""

    def attend(cache: Any, new: Any, i: Any) -> Any:
        cache = write(cache, new, i)
        return jax.nn.softmax(cache @ new[0]), cache

    return attend


def heads(write: Any) -> Any:
    """Attention of one position over the keys and values of all positions so far."""

    def attend(caches: Any, new: Any, i: Any) -> Any:
        keys, values = (write(each, new, i) for each in caches)
        scores = jax.nn.softmax(jnp.where(jnp.arange(len(keys)) <= i, keys @ new[0], -1e9))
        return scores @ values, (keys, values)

    return attend


@needs_tpu
@pytest.mark.parametrize(("make", "count"), [(two_caches, 2), (read_with_the_write, 1), (heads, 2)])
def test_the_gain_is_that_by_hand(make: Any, count: int) -> None:
    cache, new = (jax.ShapeDtypeStruct((rows, 512), jnp.float32) for rows in (16384, 1))
    caches = (cache,) * count if count > 1 else cache
    before, after = (
        inspector.lower(make(write), caches, new, INDEX, target="tpu:v5e:1x1", donate_argnums=0).compile(
            target="tpu:v5e:1x1"
        )
        for write in (masked, sliced)
    )
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    (finding,) = before.findings(kinds=[KIND])
    assert finding.prove().gain_s == pytest.approx(by_hand, rel=0.02)
    assert finding.is_upper_bound == (make is not two_caches)
    if finding.is_upper_bound:  # the cycles of the kernel are those of all that it does
        assert by_hand <= finding.gain_s < before.roofline().total.least_s
        assert finding.gain.startswith("up to")
        assert "compiler's cycles" in finding.caution
    else:
        assert finding.gain_s == pytest.approx(by_hand, rel=0.1)


def read_as_well(write: Any) -> Any:
    """The kernel also writes an array of the same size that is computed from all values."""

    def attend(cache: Any, new: Any, i: Any) -> Any:
        return write(cache, new, i), jnp.tanh(cache) * 2  # the donated array is that of the first result

    return attend


@needs_gpu
@pytest.mark.parametrize(("make", "count"), [(two_caches, 2), (read_with_the_write, 1), (heads, 2)])
def test_the_gain_on_gpus_is_that_by_hand(make: Any, count: int) -> None:
    cache, new = (jax.ShapeDtypeStruct((rows, 512), jnp.float32) for rows in (16384, 1))
    caches = (cache,) * count if count > 1 else cache
    before, after = (
        inspector.lower(make(write), caches, new, INDEX, target="gpu:h100:1", donate_argnums=0).compile(
            target="gpu:h100:1"
        )
        for write in (masked, sliced)
    )
    (finding,) = before.findings(kinds=[KIND])
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(by_hand, rel=0.1)
    assert not finding.is_upper_bound


def rolled(history: Any, new: Any, i: Any) -> Any:
    return jnp.concatenate([new, history[:-1]])


def in_ring(history: Any, new: Any, i: Any) -> Any:
    return sliced(history, new, i % len(history))


def history_in_a_loop(write: Any) -> Any:
    def simulate(history: Any, new: Any, i: Any) -> Any:
        def body(step: Any, carry: Any) -> Any:
            history, x = carry
            return write(history, x, step), jnp.tanh(x + i)

        return jax.lax.fori_loop(0, 8, body, (history, new))

    return simulate


@needs_gpu
@pytest.mark.parametrize("make", [lambda write: write, history_in_a_loop])
def test_the_copies_of_shifted_arrays_count(make: Any) -> None:
    """A shifted array cannot be written in place, so that XLA writes another one and copies it."""
    cache, new = (jax.ShapeDtypeStruct((rows, 512), jnp.float32) for rows in (16384, 1))
    before, after = (
        inspector.lower(make(write), cache, new, INDEX, donate_argnums=0).compile(target="gpu:h100:1")
        for write in (rolled, in_ring)
    )
    (finding,) = before.findings(kinds=[KIND])
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(by_hand, rel=0.1)
    assert finding.gain_bytes == pytest.approx(before.memory.peak_bytes - after.memory.peak_bytes, rel=0.01)
    assert finding.gain_bytes == 16384 * 512 * 4


@needs_gpu
def test_the_gain_is_at_most_this_where_the_array_before_is_read() -> None:
    """XLA of JAX 0.12 copies the array in the repaired form, and that of JAX 0.10 does not."""
    cache, new = (jax.ShapeDtypeStruct((rows, 512), jnp.float32) for rows in (16384, 1))
    lowered = inspector.lower(read_as_well(masked), cache, new, INDEX, target="gpu:h100:1", donate_argnums=0)
    (finding,) = lowered.compile(target="gpu:h100:1").findings(kinds=[KIND])
    assert finding.is_upper_bound
    assert "XLA may copy it" in finding.caution
    proof = finding.prove()
    if jax.__version_info__ >= (0, 12):
        assert proof.verdict == "worse"
    else:
        assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.1)


NARROW = jax.ShapeDtypeStruct((16384, 512), jnp.bfloat16)
ROW = jax.ShapeDtypeStruct((1, 512), jnp.float32)


def updated_in_float32(cache: Any, new: Any, i: Any) -> Any:
    return jax.lax.dynamic_update_slice(cache.astype(jnp.float32), new, (i, 0)).astype(cache.dtype)


def set_in_float32(cache: Any, new: Any, i: Any) -> Any:
    return cache.astype(jnp.float32).at[i].set(new[0]).astype(cache.dtype)


def set_in_each_step(cache: Any, new: Any, i: Any) -> Any:
    def body(cache: Any, position: Any) -> Any:
        return updated_in_float32(cache, new, position), None

    return jax.lax.scan(body, cache, jnp.arange(8) + i)[0]


def updated(cache: Any, new: Any, i: Any) -> Any:
    return jax.lax.dynamic_update_slice(cache, new.astype(cache.dtype), (i, 0))


@needs_gpu
@pytest.mark.parametrize("fun", [updated_in_float32, set_in_float32, set_in_each_step])
def test_updates_in_a_wider_type(fun: Any) -> None:
    (finding,) = found(KIND, fun, NARROW, ROW, INDEX, target="gpu:h100:1", donate_argnums=0)
    assert "by a conversion to f32 and back, though 1 of 16384 parts" in finding.title
    assert "astype(cache.dtype)" in finding.remedy
    assert not finding.is_upper_bound
    if fun is updated_in_float32:
        before, after = (
            inspector.lower(each, NARROW, ROW, INDEX, target="gpu:h100:1", donate_argnums=0)
            .compile(target="gpu:h100:1")
            .roofline()
            .total.least_s
            for each in (fun, updated)
        )
        assert finding.gain_s == pytest.approx(before - after, rel=0.1)


@needs_gpu
@pytest.mark.parametrize(
    "fun",
    [
        updated,
        lambda cache, new, i: updated_in_float32(jnp.tanh(cache), new, i),  # all values change
        lambda cache, new, i: updated_in_float32(cache, new, i).astype(jnp.float32),  # stays wide
        lambda cache, new, i: updated_in_float32(cache, new, i).sum(),  # no state
    ],
)
def test_updates_that_write_a_slice_or_all_values(fun: Any) -> None:
    assert not all_found(KIND, fun, NARROW, ROW, INDEX, target="gpu:h100:1")


@needs_tpu
def test_tpus_update_a_slice_in_place() -> None:
    for fun in (updated_in_float32, set_in_float32):
        assert not all_found(KIND, fun, NARROW, ROW, INDEX, target="tpu:v5e:1x1", donate_argnums=0)


@needs_gpu
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_cache_that_is_split_over_devices(in_loop: bool) -> None:
    """The size of the kernels' arrays is that of one device's part."""

    def rewrite(cache: Any, new: Any, i: Any) -> Any:
        hot = jax.nn.one_hot(i, 2048, dtype=cache.dtype)[None, :, None]
        return cache * (1 - hot) + new[:, None] * hot

    def step(cache: Any, new: Any, i: Any) -> Any:
        if in_loop:
            return jax.lax.fori_loop(0, 12, lambda k, c: rewrite(c, new * c[:, :1].sum(1), k), cache)
        return rewrite(cache, new, i)

    args = (
        sharded.array((32, 2048, 512), "d", dtype=jnp.bfloat16),
        sharded.array((32, 512), "d", dtype=jnp.bfloat16),
        jax.ShapeDtypeStruct((), jnp.int32),
    )
    (finding,) = found(KIND, step, *args, target="gpu:h100:8", donate_argnums=0)
    assert "(bf16[32,2048,512], 8 MiB per device) is written" in finding.title
    assert finding.share > 0.9
    proof = finding.prove()
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)


def test_arrays_of_different_sizes() -> None:
    def insert(buffer: Any, item: Any, i: Any) -> Any:
        def put(b: Any, x: Any) -> Any:
            hit = (jnp.arange(4096) == i).reshape((4096,) + (1,) * x.ndim)
            return jnp.where(hit, x[None], b)

        return jax.tree.map(put, buffer, item)

    item = {"action": jax.ShapeDtypeStruct((), jnp.int32), "obs": jax.ShapeDtypeStruct((64,), jnp.float32)}
    buffer = jax.tree.map(lambda each: jax.ShapeDtypeStruct((4096, *each.shape), each.dtype), item)
    fun = jax.jit(insert, donate_argnums=0)
    (finding,) = found(KIND, fun, buffer, item, jax.ShapeDtypeStruct((), jnp.int32))
    assert finding.title.startswith("`buffer['obs']` (f32[4096,64], 1 MiB) and 1 other array are written as a whole")
    assert finding.share > 0.9


def masked_rows(state: Any, new: Any, lengths: Any) -> Any:
    at = jax.vmap(lambda i: jax.nn.one_hot(i, 2048, dtype=bool))(lengths)
    return jnp.where(at[..., None], new[:, None], state)


def rows_in_place(state: Any, new: Any, lengths: Any) -> Any:
    return jax.vmap(lambda each, x, i: jax.lax.dynamic_update_slice(each, x[None], (i, 0)))(state, new, lengths)


ROWS = tuple(jax.ShapeDtypeStruct((64, *rest), jnp.bfloat16) for rest in ((2048, 128), (128,)))
LENGTHS = jax.ShapeDtypeStruct((64,), jnp.int32)


@needs_tpu
def test_tpus_write_a_position_of_each_example_more_slowly() -> None:
    """The update would be a scatter, which takes longer there than a selection."""
    before, after = (
        inspector.lower(fun, *ROWS, LENGTHS, target="tpu:v5e:1x1", donate_argnums=0).compile(target="tpu:v5e:1x1")
        for fun in (masked_rows, rows_in_place)
    )
    assert before.roofline().total.least_s < after.roofline().total.least_s
    findings = before.findings(kinds=[KIND])
    assert not [*findings, *findings.folded]


@needs_gpu
def test_gpus_write_a_position_of_each_example_faster() -> None:
    before, after = (
        inspector.lower(fun, *ROWS, LENGTHS, target="gpu:h100:1", donate_argnums=0).compile(target="gpu:h100:1")
        for fun in (masked_rows, rows_in_place)
    )
    (finding,) = before.findings(kinds=[KIND])
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(by_hand, rel=0.1)


LAYERS = jax.ShapeDtypeStruct((4, 256, 64), jnp.float32)
WEIGHTS = jax.ShapeDtypeStruct((4, 64, 64), jnp.float32)


def of_each_layer(write: Any, is_carried: bool) -> Any:
    """A scan over layers that writes the memory of each: one that it carries, or slices of it that it stacks again."""

    def layer(x: Any, memory: Any, w: Any, i: Any) -> Any:
        memory = write(memory, x @ w, i)
        return jax.nn.softmax(memory @ x[0]) @ memory + x, memory

    def decode(memories: Any, x: Any, i: Any, weights: Any) -> Any:
        def carrying(n: Any, state: Any) -> Any:
            x, memories = state
            x, memory = layer(x, memories[n], weights[n], i)
            return x, memories.at[n].set(memory)

        def stacking(x: Any, given: Any) -> Any:
            return layer(x, *given, i)

        if is_carried:
            return jax.lax.fori_loop(0, len(weights), carrying, (x, memories))
        return jax.lax.scan(stacking, x, (memories, weights))

    return decode


def in_the_array_of_all_layers(memories: Any, x: Any, i: Any, weights: Any) -> Any:
    def layer(n: Any, state: Any) -> Any:
        x, memories = state
        memories = jax.lax.dynamic_update_slice(memories, (x @ weights[n])[None], (n, i, 0))
        memory = memories[n]
        return jax.nn.softmax(memory @ x[0]) @ memory + x, memories

    return jax.lax.fori_loop(0, len(weights), layer, (x, memories))


@pytest.mark.parametrize(
    ("write", "is_carried", "how"),
    [
        (masked, False, "by a selection"),
        (multiplied, True, "by products"),
        (sliced, False, "by the loop's write-back"),
        (sliced, True, "by the loop's write-back"),
    ],
)
def test_slices_of_a_loop(write: Any, is_carried: bool, how: str) -> None:
    (finding,) = found(KIND, of_each_layer(write, is_carried), LAYERS, NEW, INDEX, WEIGHTS, donate_argnums=0)
    assert finding.title.startswith("The slices of `memories` (f32[256,64], 64 KiB each) are written as a whole " + how)
    assert "though 1 of 256 parts changes" in finding.title
    assert "(layer, 0, i, 0)" in finding.remedy
    proof = finding.prove()
    assert proof.values == "equal results"
    assert proof.compiled is not None
    operations = {each.opcode for each in proof.compiled.module().instructions()}
    assert "dynamic-update-slice" in operations


@pytest.mark.parametrize(
    "fun",
    [
        in_the_array_of_all_layers,
        of_each_layer(lambda cache, new, i: masked(jnp.tanh(cache), new, i), is_carried=False),  # all values change
        of_each_layer(lambda cache, new, i: jnp.where(jnp.arange(256)[:, None] < i, new, cache), is_carried=True),
        lambda memories, x, i, weights: jax.lax.fori_loop(
            0, 3, lambda n, m: m.at[n + 1].set(masked(m[n], x + n, i)), memories
        ),  # of another layer
        lambda memories, x, i, weights: jax.lax.fori_loop(
            0, 3, lambda n, m: m.at[n].add(masked(m[n], x + n, i)), memories
        ),  # all values change
        lambda memories, x, i, weights: jax.lax.fori_loop(
            0, 3, lambda n, m: m.at[n, :64].set(masked(weights[n], x + n, i)), memories
        ),  # of another array, into one that has values
        lambda memories, x, i, weights: jax.lax.scan(lambda x, m: (x + masked(m, x, i).sum(), x), x, memories),
        lambda memories, x, i, weights: jax.lax.fori_loop(
            0,
            4,
            lambda n, c: (c[0].at[n].set(masked(c[0][n], x, i)), c[1] + jnp.tanh(c[0][n])),
            (memories, jnp.zeros((256, 64))),
        ),  # the slice before is needed too, so that XLA may copy the array
        lambda memories, x, i, weights: (
            jax.lax.scan(lambda x, m: (x, masked(m, x, i)), x, memories),
            memories.sum(1),
        ),  # the array before is needed too
    ],
)
def test_slices_of_a_loop_that_are_not_rewritten(fun: Any) -> None:
    assert not all_found(KIND, fun, LAYERS, NEW, INDEX, WEIGHTS)


@pytest.mark.parametrize("write", [masked, sliced])
@pytest.mark.parametrize("is_carried", [True, False])
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("gpu:h100:1", marks=needs_gpu),
        pytest.param("tpu:v5e:1x1", marks=[needs_tpu, pytest.mark.slow]),
    ],
)
def test_the_gain_of_slices_of_a_loop_is_that_by_hand(target: str, is_carried: bool, write: Any) -> None:
    memories, weights = (jax.ShapeDtypeStruct((4, rows, 512), jnp.float32) for rows in (16384, 512))
    new = jax.ShapeDtypeStruct((1, 512), jnp.float32)
    before, after = (
        inspector.lower(fun, memories, new, INDEX, weights, target=target, donate_argnums=0).compile(target=target)
        for fun in (of_each_layer(write, is_carried), in_the_array_of_all_layers)
    )
    (finding,) = before.findings(kinds=[KIND])
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(by_hand, rel=0.1)
    bytes_by_hand = before.memory.peak_bytes - after.memory.peak_bytes
    assert finding.gain_bytes == pytest.approx(bytes_by_hand, rel=0.1, abs=2**16)
    assert finding.prove().gain_s == pytest.approx(by_hand, rel=0.05)


WINDOW = tuple(jax.ShapeDtypeStruct((16, *rest), jnp.bfloat16) for rest in ((2048, 4, 64), (4, 64)))


def smoothed(write: Any) -> Any:
    """An average of a window of states, weighted by their products with the newest one."""

    def smooth(windows: Any, state: Any, i: Any) -> Any:
        keys, values = (write(each, state, i) for each in windows)
        weights = jax.nn.softmax(jnp.einsum("bhk,bthk->bht", state, keys))
        return jnp.einsum("bht,bthk->bhk", weights, values), (keys, values)

    return smooth


def appended(window: Any, state: Any, i: Any) -> Any:
    return jnp.concatenate([window[:, 1:], state[:, None]], 1)


def one_position(window: Any, state: Any, i: Any) -> Any:
    return jnp.where((jnp.arange(2048) == i)[None, :, None, None], state[:, None], window)


def in_window(window: Any, state: Any, i: Any) -> Any:
    return jax.lax.dynamic_update_slice(window, state[:, None], (0, i % 2048, 0, 0))


@pytest.mark.slow
@needs_tpu
@pytest.mark.parametrize("write", [appended, one_position])
def test_the_gain_of_kernels_that_compute_more_on_tpus(write: Any) -> None:
    """The kernels still read the array. Slices that are cut for a concatenation are not needed in a ring buffer."""
    window, state = WINDOW
    before, after = (
        inspector.lower(smoothed(each), (window, window), state, INDEX, target="tpu:v5e:1x1", donate_argnums=0).compile(
            target="tpu:v5e:1x1"
        )
        for each in (write, in_window)
    )
    by_hand = before.roofline().total.least_s - after.roofline().total.least_s
    (finding,) = before.findings(kinds=[KIND])
    assert finding.gain_s == pytest.approx(by_hand, rel=0.1 if write is appended else 0.3)
    assert finding.is_upper_bound
    assert finding.gain_bytes == pytest.approx(before.memory.peak_bytes - after.memory.peak_bytes, abs=2**20)


def attend(cache: Any, new: Any, i: Any) -> Any:
    written = jnp.where((jnp.arange(2048) == i)[:, None, None], new.astype(cache.dtype), cache)
    return written, jnp.einsum("thd,shd->hts", new, written.astype(new.dtype))


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_cache_in_a_shard_map(is_joined: bool) -> None:
    """The arrays in a `shard_map` are the parts of one device."""

    def joined(cache: Any, new: Any, i: Any) -> Any:
        written = jnp.concatenate([cache[1:], new.astype(cache.dtype)])
        return written, jnp.einsum("thd,shd->hts", new, written.astype(new.dtype)) + i

    heads = jax.sharding.PartitionSpec(None, "d")
    fun = sharded.manual(
        joined if is_joined else attend,
        (heads, heads, jax.sharding.PartitionSpec()),
        (heads, jax.sharding.PartitionSpec("d")),
    )
    cache, new = (sharded.array((rows, 16, 64), None, "d", dtype=jnp.bfloat16) for rows in (2048, 1))
    (finding,) = all_found(KIND, fun, cache, new, INDEX, target="cpu:8", donate_argnums=0)
    assert finding.title.startswith("`cache` (bf16[2048,2,64], 512 KiB per device) is written as a whole")
    if not is_joined:
        assert finding.prove(run=True).values == "equal results"


def test_caches_of_layers_in_a_shard_map() -> None:
    """A scan takes the cache of each layer, and stacks the new versions."""

    def step(caches: Any, new: Any, i: Any) -> Any:
        def layer(x: Any, cache: Any) -> Any:
            cache = jax.lax.dynamic_update_slice_in_dim(cache, x, i, 0)
            return x + jnp.einsum("thd,shd->thd", x, cache), cache

        return jax.lax.scan(layer, new, caches)

    heads = jax.sharding.PartitionSpec(None, "d")
    layers = jax.sharding.PartitionSpec(None, None, "d")
    fun = sharded.manual(step, (layers, heads, jax.sharding.PartitionSpec()), (heads, layers))
    caches, new = sharded.array((6, 512, 16, 64), None, None, "d"), sharded.array((1, 16, 64), None, "d")
    (finding,) = all_found(KIND, fun, caches, new, INDEX, target="cpu:8", donate_argnums=0)
    assert finding.title.startswith("The slices of `caches` (f32[512,2,64], 256 KiB per device each) are written")
    assert finding.prove(run=True).values == "equal results"
