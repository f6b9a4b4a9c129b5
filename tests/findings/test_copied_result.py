"""Results that are copies of arguments or of other results, and results that only have equal values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import TPU
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


def in_function(x: Any, w: Any) -> Any:
    return jax.jit(lambda x: (x @ w, x))(x)


@pytest.mark.parametrize(
    ("fun", "args", "title", "size"),
    [
        (frozen, (M, M, M), "`frozen` (256 KiB) is returned unchanged as result['frozen']", 1 << 18),
        (frozen_layers, (LAYERS, M), "`state` (2 arrays, 512 KiB) is returned unchanged as result[0]", 1 << 19),
        (twice, (M, M), "result['predictions'] is result['logits']: each execution writes the same values", 1 << 18),
        (in_function, (M, M), "`x` (256 KiB) is returned unchanged as result[1]", 1 << 18),
    ],
)
def test_copies(fun: Any, args: Any, title: str, size: int) -> None:
    (finding,) = found(KIND, fun, *args)
    assert finding.title.startswith(title)
    assert finding.gain_bytes == size
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
        (lambda x: (jnp.tanh(x), jnp.tanh(x) + 1), (M,), {}),
        (lambda x, key: (jnp.tanh(x), key), (M, jax.ShapeDtypeStruct((2,), jnp.uint32)), {}),  # a few bytes
    ],
)
def test_other_results(fun: Any, args: Any, keywords: Any) -> None:
    assert not all_found(KIND, jax.jit(fun, **keywords), *args)


def test_the_proof_donates_the_argument() -> None:
    (finding,) = found(KIND, frozen, M, M, M)
    proof = finding.prove(run=False)
    assert (proof.verdict, proof.gain_bytes) == ("proven", 1 << 18)


def test_the_copy_of_a_few_bytes_on_a_tpu_is_no_gain() -> None:
    """The estimated time of the copy is mostly the latency of the memory."""
    assert not recorded("counter_returned", TPU).findings(kinds=[KIND])
