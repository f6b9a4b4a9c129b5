"""Results that are copies of arguments or of other results, and results that only have equal values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.findings.subject import Subject
from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import GPU, TPU
from tests.findings.corpus.record import recorded
from tests.findings.examined import all_found, found

KIND = "copied-result"
M = jax.ShapeDtypeStruct((256, 256), jnp.float32)
LAYERS = {"a": M, "b": M}


def frozen(frozen: Any, w: Any, x: Any) -> Any:
    return {"frozen": frozen, "w": w - jax.grad(lambda w: jnp.tanh(x @ frozen @ w).sum())(w)}


def frozen_layers(state: Any, x: Any) -> Any:
    return state, jnp.tanh(x @ state["a"] @ state["b"])


def twice(x: Any, w: Any) -> Any:
    y = jnp.tanh(x @ w)
    return {"loss": y.sum(), "logits": y, "predictions": y}


def computed_twice(x: Any, w: Any) -> Any:
    """XLA merges the two products, and copies the result."""

    def head(x: Any) -> Any:
        return jnp.tanh(x @ w)

    return {"embedding": head(x), "metrics": {"norm": jnp.linalg.norm(x), "features": head(x)}}


def twice_and_computed_again(x: Any, w: Any) -> Any:
    y = jnp.tanh(x @ w)
    return y, {"y": y, "again": jnp.tanh(x @ w), "sum": y.sum()}


def in_function(x: Any, w: Any) -> Any:
    return jax.jit(lambda x: (x @ w, x))(x)


@pytest.mark.parametrize(
    ("fun", "args", "title", "size"),
    [
        (frozen, (M, M, M), "`frozen` (256 KiB) is returned unchanged as result['frozen']", 1 << 18),
        (frozen_layers, (LAYERS, M), "`state` (2 arrays, 512 KiB) is returned unchanged as result[0]", 1 << 19),
        (twice, (M, M), "result['predictions'] is result['logits']: each execution writes the same values", 1 << 18),
        (
            computed_twice,
            (M, M),
            "result['metrics']['features'] is computed as result['embedding']: each execution",
            1 << 18,
        ),
        (
            twice_and_computed_again,
            (M, M),
            "result[1]['again'] is computed as result[0], result[1]['y'] is result[0]: each",
            1 << 19,
        ),
        (in_function, (M, M), "`x` (256 KiB) is returned unchanged as result[1]", 1 << 18),
    ],
)
def test_copies(fun: Any, args: Any, title: str, size: int) -> None:
    (finding,) = found(KIND, fun, *args)
    assert finding.title.startswith(title)
    assert finding.gain_bytes == pytest.approx(size, rel=1e-3)
    assert 0 < finding.share < 1


@needs_gpu
@needs_tpu
@pytest.mark.parametrize("target", ["gpu:h100", "tpu:v5e:1x1"])
def test_copies_on_accelerators(target: str) -> None:
    (finding,) = found(KIND, frozen, M, M, M, target=target)
    assert finding.title.startswith("`frozen` (256 KiB)")


@pytest.mark.parametrize(
    ("fun", "args", "keywords"),
    [
        (frozen, (M, M, M), {"donate_argnums": 0}),
        (lambda x: (x + 0.5, x * 2), (M,), {}),
        (lambda x: (jnp.zeros_like(x), jnp.zeros_like(x), x.sum()), (M,), {}),
        (lambda x: (x.T, x @ x), (M,), {}),
        (lambda x: (x @ x, (x @ x).T), (M,), {}),
        (lambda x: (jnp.cos(x), jnp.cos(x).reshape(-1), jnp.cos(x).reshape(2, -1)), (M,), {}),
        (lambda: (jnp.arange(4096) * 2 + 1, jnp.arange(4096) * 2 + 1), (), {}),  # equal because they are new
        (lambda x: (jnp.tanh(x), jnp.tanh(x) + 1), (M,), {}),
        (lambda x, key: (jnp.tanh(x), key), (M, jax.ShapeDtypeStruct((2,), jnp.uint32)), {}),  # a few bytes
    ],
)
def test_other_results(fun: Any, args: Any, keywords: Any) -> None:
    assert not all_found(KIND, jax.jit(fun, **keywords), *args)


@needs_gpu
@needs_tpu
@pytest.mark.parametrize("target", ["gpu:h100", "tpu:v5e:1x1"])
def test_the_gain_of_merged_results_is_that_by_hand(target: str) -> None:
    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2048, 512), (512, 8192)))
    (finding,) = found(KIND, twice_and_computed_again, x, w, target=target)

    def once(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return y, y.sum()

    before, after = (
        inspector.lower(fun, x, w, target=target).compile(target=target) for fun in (twice_and_computed_again, once)
    )
    assert finding.gain_s == pytest.approx(before.roofline().total.least_s - after.roofline().total.least_s, rel=0.1)
    assert finding.gain_bytes == pytest.approx(before.memory.peak_bytes - after.memory.peak_bytes, rel=0.01)


@needs_gpu
def test_a_kernel_that_writes_a_result_twice() -> None:
    """XLA for GPUs writes the copy in the kernel that computes the array."""

    def step(params: Any, x: Any) -> Any:
        grads = jax.grad(lambda params: (jax.nn.relu(x @ params["w"]) @ params["v"]).sum())(params)
        params = jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)
        return params, {"params": params}

    w, x = jax.ShapeDtypeStruct((1024, 1024), jnp.float32), jax.ShapeDtypeStruct((64, 1024), jnp.float32)
    compiled = inspector.lower(jax.jit(step, donate_argnums=0), {"w": w, "v": w}, x).compile(target="gpu:h100")
    (finding,) = compiled.findings(kinds=[KIND])
    assert finding.title.startswith(
        "result[1]['params']['v'] is result[0]['v'], result[1]['params']['w'] is result[0]['w']"
    )
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_bytes >= 1 << 22


@needs_gpu
@needs_tpu
@pytest.mark.parametrize("target", ["gpu:h100", "tpu:v5e:1x1"])
def test_transposes_of_results(target: str) -> None:
    assert not all_found(KIND, lambda x: (jnp.sin(x @ x), jnp.sin(x @ x).T), M, target=target)


def test_the_proof_donates_the_argument() -> None:
    (finding,) = found(KIND, frozen, M, M, M)
    proof = finding.prove(run=False)
    assert (proof.verdict, proof.gain_bytes) == ("proven", 1 << 18)


@pytest.mark.parametrize("fun", [twice, computed_twice, twice_and_computed_again])
def test_the_proof_returns_an_array_once(fun: Any) -> None:
    (finding,) = found(KIND, fun, M, M)
    proof = finding.prove(run=True)
    assert (proof.verdict, proof.values) == ("proven", "equal results")
    assert proof.gain_bytes == pytest.approx(finding.gain_bytes, rel=1e-3)
    assert proof.compiled is not None
    before, after = inspector.lower(fun, M, M).program.results, proof.compiled.program.results
    assert [each.path for each in after] == [each.path for each in before if each.path not in _REPEATED]


_REPEATED = ("['predictions']", "['metrics']['features']", "[1]['y']", "[1]['again']")


def test_a_proof_without_results_keeps_the_donations_of_others() -> None:
    def step(w: Any, x: Any) -> Any:
        y = jnp.tanh(x @ w)
        return y, y, w - 0.1 * jnp.sin(w)

    lowered = inspector.lower(jax.jit(step, donate_argnums=0), M, M)
    (finding,) = lowered.compile(target="cpu").findings(kinds=[KIND])
    proof = finding.prove(run=True)
    assert proof.verdict == "proven"
    assert proof.compiled is not None
    assert proof.compiled.memory.alias_bytes == 1 << 18  # the buffer of `w` is that of the last result


def test_the_copy_of_a_few_bytes_on_a_tpu_is_no_gain() -> None:
    """The estimated time of the copy is mostly the latency of the memory."""
    assert not recorded("counter_returned", TPU).findings(kinds=[KIND])


def test_temporaries_in_the_memory_of_copies_are_no_gain() -> None:
    """The layers are computed in the memory of the copies before these are made."""
    (finding,) = recorded("frozen_backbone_returned", GPU).findings(kinds=[KIND])
    assert finding.gain_bytes / 2**20 == pytest.approx(19.5, rel=0.02)  # of 24 MiB, by a compile with the donation
    (finding,) = recorded("frozen_backbone_returned", TPU).findings(kinds=[KIND])
    assert finding.gain_bytes / 2**20 == pytest.approx(24, rel=0.02)


class _Simulated:
    """Buffers that take 110 bytes, of which a result that is donated or left out saves 20."""

    def byte_size(self, donated: Any = None, without: Any = ()) -> int:
        return 90 if donated or without else 110


@pytest.mark.parametrize(("compiled_bytes", "saved"), [(120, 20), (110, 20), (95, 5), (85, 0)])
def test_a_result_that_is_left_out_saves_no_memory_that_is_not_used(compiled_bytes: int, saved: int) -> None:
    """The compiled program can hold a temporary in the result's buffer. For donations, the simulation errs alike before and after."""
    subject = Subject.__new__(Subject)
    subject.__dict__ |= {"_placement": _Simulated(), "_compiled_bytes": compiled_bytes}
    assert subject.bytes_saved(50, without=[1]) == saved
    assert subject.bytes_saved(50, donated={0: 1}) == 20
