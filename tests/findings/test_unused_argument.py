"""Large arguments that a program does not use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.findings.examined import all_found, found
from tests.findings.sharded import array

KIND = "unused-argument"
M = jax.ShapeDtypeStruct((512, 512), jnp.float32)
SMALL = jax.ShapeDtypeStruct((16, 16), jnp.float32)


@pytest.mark.parametrize(
    ("fun", "args", "keywords", "title"),
    [
        (lambda x, mask: jnp.tanh(x), (M, M), {}, "`mask` (1 MiB) is not used: JAX drops it"),
        (lambda x, mask: jnp.tanh(x), (M, M), {"keep_unused": True}, "`mask` (1 MiB) is not used: it is in the device's"),
        (lambda p, x: x @ p["a"], ({"a": M, "b": M, "c": M}, M), {}, "2 arrays of `p` (2 MiB), such as `p['b']` (1 MiB), are not used: JAX drops them"),
        (lambda x, y: x + jnp.zeros_like(y), (M, M), {}, "`y` (1 MiB) is not used"),
    ],
)  # fmt: skip
def test_unused_arguments(fun: Any, args: Any, keywords: Any, title: str) -> None:
    (finding,) = found(KIND, jax.jit(fun, **keywords), *args)
    assert finding.title.startswith(title)
    assert finding.remedy == f"Do not pass {'them' if '2 arrays' in title else 'it'}."
    assert finding.gain_bytes == (2 << 20 if "2 MiB" in title else 1 << 20)


def test_the_proof_of_an_argument_that_is_kept() -> None:
    def fun(x: Any, mask: Any, y: Any, old: Any) -> Any:
        return jnp.tanh(x) @ y

    (kept, *_) = found(KIND, jax.jit(fun, keep_unused=True), M, M, M, SMALL)
    proof = kept.prove()
    assert (proof.verdict, proof.gain_bytes, proof.values) == ("proven", kept.gain_bytes, "equal results")
    (dropped,) = found(KIND, jax.jit(fun), M, M, M, SMALL)
    assert str(dropped.prove()) == (
        "cannot be tried: the compiled program does not have the argument; only the caller's memory changes"
    )


def test_the_proof_of_an_argument_of_a_branch_that_is_not_taken() -> None:
    """JAX keeps the argument, and XLA drops its uses."""

    def fun(teacher: Any, x: Any) -> Any:
        other = jax.lax.cond(jnp.asarray(False), lambda: (teacher["w"] @ x) * teacher["n"], lambda: x)
        return jnp.tanh(x) @ other

    (finding,) = found(KIND, fun, {"w": M, "n": jax.ShapeDtypeStruct((512,), jnp.int32)}, M)
    proof = finding.prove()
    assert (proof.verdict, proof.gain_bytes, proof.values) == ("proven", finding.gain_bytes, "equal results")


@pytest.mark.parametrize(
    ("fun", "args", "keywords"),
    [
        (lambda x, mask: jnp.tanh(x), (M, SMALL), {}),
        (lambda x, y: (x, y), (M, M), {}),
        (lambda x, n: jax.lax.fori_loop(0, 3, lambda _, y: y + n, x), (M, M), {}),
        (lambda x, y: jax.lax.cond(x.sum() > 0, lambda: x, lambda: y), (M, M), {}),
    ],
)
def test_used_arguments(fun: Any, args: Any, keywords: Any) -> None:
    assert not all_found(KIND, jax.jit(fun, **keywords), *args)


@pytest.mark.parametrize(("spec", "size"), [(("d",), "1 MiB"), ((None, "d"), "1 MiB"), ((), "8 MiB")])
def test_the_size_is_that_of_a_device(spec: Any, size: str) -> None:
    x, old = array((64, 64), "d"), array((2048, 1024), *spec)
    for keep_unused in (False, True):
        fun = jax.jit(lambda x, old: jnp.tanh(x), keep_unused=keep_unused)
        (finding,) = all_found(KIND, fun, x, old, target="cpu:8")
        assert finding.title.startswith(f"`old` ({size} per device) is not used")
        assert finding.gain_bytes == int(size.split()[0]) << 20
