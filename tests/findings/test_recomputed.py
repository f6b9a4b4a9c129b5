"""Products that checkpoints recompute while memory has room, and programs in which it has none."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, found, peak
from tests.findings.sharded import D, array

KIND = "recomputed"
V5E = peak("tpu:v5e:1x1")
X = jax.ShapeDtypeStruct((256, 512), jnp.float32)
WS = jax.ShapeDtypeStruct((4, 512, 512), jnp.float32)


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ w) @ w)


def unrolled(wrap: Any) -> Any:
    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = wrap(layer)(x, w)
        return (x**2).mean()

    return jax.grad(loss)


def scanned(wrap: Any) -> Any:
    def loss(ws: Any, x: Any) -> Any:
        return (jax.lax.scan(lambda x, w: (wrap(layer)(x, w), None), x, ws)[0] ** 2).mean()

    return jax.grad(loss)


def whole(wrap: Any) -> Any:
    return jax.grad(wrap(lambda ws, x: (layer(layer(x, ws[0]), ws[1]) ** 2).mean()))


def named(f: Any) -> Any:
    return jax.checkpoint(f, policy=jax.checkpoint_policies.nothing_saveable)


@pytest.mark.parametrize(
    "fun", [unrolled(jax.checkpoint), scanned(jax.checkpoint), scanned(named), whole(jax.checkpoint)]
)
def test_recomputed_products(fun: Any) -> None:
    (finding,) = found(KIND, fun, WS, X, roofs=V5E)
    assert finding.share > 0.02
    assert finding.gain_bytes < 0
    assert finding.frames[0].file == __file__
    assert f"test_recomputed.py:{layer.__code__.co_firstlineno + 1}," in finding.title


def block(x: Any, w: Any) -> Any:
    """Only the first product is computed again: the backward pass needs no result of the second."""
    return x + jax.nn.gelu(x @ w) @ w.T


def one(x: Any, w: Any) -> Any:
    """Its function is the input of the next layer, which the backward pass needs."""
    return jnp.tanh(x @ w)


def two(x: Any, w: Any) -> Any:
    """The second product computes the function of the first one in its own kernel."""
    return x + jax.nn.relu(x @ w) @ w.T


def of(layer: Any, is_scan: bool = False) -> Any:
    def wrapped(wrap: Any) -> Any:
        def loss(ws: Any, x: Any) -> Any:
            if is_scan:
                x = jax.lax.scan(lambda x, w: (wrap(layer)(x, w), None), x, ws)[0]
            else:
                for w in ws:
                    x = wrap(layer)(x, w)
            return (x.astype(jnp.float32) ** 2).mean()

        return jax.grad(loss)

    return wrapped


BF16 = jnp.bfloat16
WIDE = jax.ShapeDtypeStruct((2, 1024, 4096), jnp.float32), jax.ShapeDtypeStruct((2048, 1024), jnp.float32)
SQUARE = jax.ShapeDtypeStruct((3, 2048, 2048), BF16), jax.ShapeDtypeStruct((4096, 2048), BF16)


@pytest.mark.parametrize(
    ("wrapped", "args", "target"),
    [
        # two kernels read the first product, and one if it is kept
        pytest.param(of(block), WIDE, "gpu:h100", marks=needs_gpu),
        pytest.param(of(two), WIDE, "gpu:h100", marks=needs_gpu),
        pytest.param(of(one), SQUARE, "gpu:h100", marks=needs_gpu),
        pytest.param(of(one, is_scan=True), SQUARE, "gpu:h100", marks=needs_gpu),
        pytest.param(of(one), SQUARE, "tpu:v5e:1x1", marks=[needs_tpu, pytest.mark.slow]),
    ],
)
def test_the_gain_is_that_of_the_policy_by_hand(wrapped: Any, args: Any, target: str) -> None:
    first = inspector.lower(wrapped(jax.checkpoint), *args).compile(target=target)
    (finding,) = first.findings(kinds=[KIND])
    second = inspector.lower(wrapped(by_hand(finding)), *args).compile(target=target)
    saved_s = float(first.roofline().total.least_s) - float(second.roofline().total.least_s)
    assert not finding.is_upper_bound
    # libtpu fuses one of the other kernels worse if the products are kept, from JAX 0.12 on. Without a checkpoint, XLA fuses others better.
    is_rough = target.startswith("tpu") or "without" in finding.remedy
    assert finding.gain_s == pytest.approx(saved_s, rel=0.25 if is_rough else 0.1)


def test_products_that_the_backward_pass_does_not_read_are_not_kept() -> None:
    """The backward pass needs only the last product of a frozen network in a checkpoint."""

    def loss(w: Any, frozen: Any, x: Any) -> Any:
        @jax.checkpoint
        def block(w: Any, x: Any) -> Any:
            for each in frozen:
                x = jax.nn.relu(x @ each)
            return jnp.tanh(jax.lax.stop_gradient(x) @ w)

        return (block(w, x) ** 2).mean()

    frozen = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((512, 512), (512, 512), (512, 32))]
    (finding,) = found(KIND, jax.grad(loss), jax.ShapeDtypeStruct((32, 32), jnp.float32), frozen, X, roofs=V5E)
    assert -finding.gain_bytes <= 2 * 256 * 32 * 4  # of the last frozen product, and of the one after it
    assert len(finding.instructions) >= 3


CPU = dataclasses.replace(V5E, memory_bytes=Unavailable("not measured"))


def frozen_in_a_scan(w: Any, frozen: Any, frames: Any) -> Any:
    @jax.checkpoint
    def cell(w: Any, h: Any, x: Any) -> Any:
        for each in frozen:
            x = jax.nn.relu(x @ each)
        return jnp.tanh(jax.lax.stop_gradient(x) @ w + h)

    h, _ = jax.lax.scan(lambda h, x: (cell(w, h, x), None), jnp.zeros((256, 16)), frames)
    return (h**2).mean()


def test_a_cpu_has_the_memory_of_its_machine() -> None:
    """In loops on CPUs, only small results are reported, because writing and reading large arrays is slow."""
    f32 = jnp.float32
    w, frames = jax.ShapeDtypeStruct((16, 16), f32), jax.ShapeDtypeStruct((8, 256, 512), f32)
    frozen = [jax.ShapeDtypeStruct(shape, f32) for shape in ((512, 512), (512, 512), (512, 16))]
    assert not all_found(KIND, scanned(jax.checkpoint), WS, X, roofs=CPU)
    (finding,) = found(KIND, jax.grad(frozen_in_a_scan), w, frozen, frames, roofs=CPU)
    assert finding.title.endswith(" GiB.")
    assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


def test_cpus_merge_products_of_checkpoints_without_a_loop() -> None:
    assert not all_found(KIND, unrolled(jax.checkpoint), WS, X, roofs=CPU)
    counts = {
        sum(each.opcode == "dot" for each in inspector.lower(unrolled(wrap), WS, X).compile(target="cpu").module().instructions())
        for wrap in (jax.checkpoint, dots_saved)
    }  # fmt: skip
    assert (len(counts) == 1) == (jax.version.__version_info__[:2] < (0, 11))  # XLA of JAX 0.12 merges fewer of them


def attend(x: Any, w: Any) -> Any:
    """Memory bounds the products of an attention with small heads."""
    heads = (x @ w).reshape(16, 256, 32, 64)
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", heads, heads))
    return x + jnp.einsum("bhqk,bkhd->bqhd", scores, heads).reshape(x.shape)


@needs_gpu
@pytest.mark.parametrize(
    ("block", "args"),
    [
        pytest.param(attend, SQUARE, marks=pytest.mark.slow),
        (
            lambda x, w: x + jax.nn.relu(x @ w) @ w.T,
            (jax.ShapeDtypeStruct((4, 256, 1024), BF16), jax.ShapeDtypeStruct((8192, 256), BF16)),
        ),
    ],
)
def test_products_that_memory_bounds(block: Any, args: Any) -> None:
    fun = of(block)
    (finding,) = found(KIND, fun(jax.checkpoint), *args, target="gpu:h100")
    before, after = (
        inspector.lower(fun(wrap), *args, target="gpu:h100").compile(target="gpu:h100").roofline().total.least_s
        for wrap in (jax.checkpoint, by_hand(finding))
    )
    # XLA of JAX 0.12 fuses other kernels better without the checkpoint.
    assert finding.gain_s == pytest.approx(
        float(before) - float(after), rel=0.1 if jax.__version_info__ < (0, 12) else 0.4
    )


@pytest.mark.parametrize("wrapped", [unrolled, scanned])
def test_the_proof_equals_the_policy_by_hand(wrapped: Any) -> None:
    (finding,) = found(KIND, wrapped(jax.checkpoint), WS, X, roofs=V5E)
    proof = finding.prove(run=False)
    first, second = (
        inspector.lower(wrapped(each), WS, X).compile(target="cpu") for each in (jax.checkpoint, dots_saved)
    )
    before_s = float(first.roofline(V5E).total.least_s)
    saved_s = before_s - float(second.roofline(V5E).total.least_s)
    assert proof.gain_s == pytest.approx(saved_s, rel=0.02, abs=1e-3 * before_s)  # below, it is the same time
    assert proof.gain_bytes == pytest.approx(first.memory.peak_bytes - second.memory.peak_bytes, rel=0.02)


def by_hand(finding: Any) -> Any:
    """Returns the function that the remedy of a finding applies instead of `jax.checkpoint`."""
    return (lambda f: f) if "without jax.checkpoint" in finding.remedy else dots_saved


def dots_saved(f: Any) -> Any:
    return jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)


@pytest.mark.parametrize(
    "fun",
    [unrolled(lambda f: f), scanned(lambda f: f), scanned(dots_saved), jax.checkpoint(lambda ws, x: layer(x, ws[0]))],
)
def test_nothing_is_recomputed(fun: Any) -> None:
    assert not all_found(KIND, fun, WS, X, roofs=V5E)


def test_memory_without_room() -> None:
    fun = scanned(jax.checkpoint)
    needed = inspector.lower(fun, WS, X).compile(target="cpu").memory.peak_bytes
    assert not all_found(KIND, fun, WS, X, roofs=dataclasses.replace(V5E, memory_bytes=int(1.2 * needed)))
    assert not all_found(KIND, fun, WS, X)  # a CPU whose memory is not known


@needs_tpu
@pytest.mark.slow
def test_loops_on_a_tpu_with_a_function_in_the_kernel_of_the_product_are_left_out() -> None:
    """A kernel of its own would stack the product, which takes longer on v5e than to compute it again."""
    compiled = inspector.lower(of(one, is_scan=True)(jax.checkpoint), *SQUARE).compile(target="tpu:v5e:1x1")
    findings = compiled.findings(kinds=[KIND])
    assert not [*findings, *findings.folded]


def transformer(wrap: Any) -> Any:
    """A block in a `shard_map`, whose weights are gathered before it."""

    def block(w: Any, x: Any) -> Any:
        q, k, v = (each.reshape(*x.shape[:2], 8, 128) for each in jnp.split(x @ w["a"], 3, -1))
        p = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32), -1).astype(x.dtype)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(x.shape) @ w["o"]
        return x + jax.nn.gelu(x @ w["u"]) @ w["d"]

    def local(ws: Any, x: Any) -> Any:
        def loss(ws: Any) -> Any:
            y = x
            for w in ws:
                y = wrap(block)(jax.tree.map(lambda each: jax.lax.all_gather(each, "d", tiled=True), w), y)
            return (y.astype(jnp.float32) ** 2).mean()

        return jax.grad(loss)(ws)

    return jax.shard_map(local, mesh=D, in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=False)


@needs_tpu
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_scores_of_an_attention_are_repeated_rather_than_kept() -> None:
    """They are larger than the products of the weights, and faster to compute."""

    def split(*shape: int) -> jax.ShapeDtypeStruct:
        return array(shape, "d", dtype=jnp.bfloat16)

    w = {"a": split(1024, 3072), "o": split(1024, 1024), "u": split(1024, 4096), "d": split(4096, 1024)}
    args = [w] * 2, split(16, 1024, 1024)
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    first, second = (
        inspector.lower(transformer(wrap), *args).compile(target="tpu:v5e:2x4")
        for wrap in (jax.checkpoint, lambda f: jax.checkpoint(f, policy=policy))
    )
    (finding,) = first.findings(kinds=[KIND])
    assert "dots_with_no_batch_dims_saveable" in finding.remedy
    saved_s = float(first.roofline().total.least_s) - float(second.roofline().total.least_s)
    assert finding.is_upper_bound
    assert finding.gain_s == pytest.approx(saved_s, rel=0.2)
    assert finding.prove().verdict == "proven"
