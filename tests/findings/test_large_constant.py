"""Large arrays that functions close over, and arrays that are not constants of the executable."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.compiled import executable_of
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, found

KIND = "large-constant"
MIB = 1 << 20
TABLE = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
ON_DEVICE = jnp.asarray(TABLE.T)
X = jax.ShapeDtypeStruct((8, 512), jnp.float32)
Y = jax.ShapeDtypeStruct((8, 1024), jnp.float32)


def closed(x: Any) -> Any:
    return jnp.tanh(x @ TABLE)


def in_a_loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 4, lambda _, x: jnp.tanh(x @ TABLE @ ON_DEVICE), x)


def in_a_function(x: Any) -> Any:
    return jax.jit(lambda x: x @ ON_DEVICE)(x) + jax.jit(lambda x: jax.jit(lambda x: x @ ON_DEVICE)(x) * 2)(x)


def looked_up(tokens: Any) -> Any:
    return jnp.asarray(TABLE)[tokens]


@pytest.mark.parametrize(
    ("fun", "x", "size"),
    [
        (closed, X, 2 * MIB),
        (in_a_loop, X, 4 * MIB),
        (in_a_function, Y, 2 * MIB),
        (looked_up, jax.ShapeDtypeStruct((8,), jnp.int32), 2 * MIB),
    ],
)
def test_closed_over_arrays(fun: Any, x: Any, size: int) -> None:
    (finding,) = found(KIND, fun, x)
    assert finding.gain_bytes == size
    assert finding.frames[0].file == __file__
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_bytes == pytest.approx(size, rel=0.1)
    assert str(proof.values).startswith(("equal results", "results agree"))


@needs_tpu
def test_libtpu_stores_constants_three_times() -> None:
    """As they were written, and twice as they are kept: here in a narrower type, to which XLA converts them."""
    table = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)
    (finding,) = found(KIND, lambda x: x @ table, jax.ShapeDtypeStruct((8, 1024), jnp.bfloat16), target="tpu:v5e:1x1")
    assert "f32[1024,512] (2 MiB)" in finding.title
    assert finding.gain_bytes > 2 * 2 * MIB * 0.9
    assert finding.prove(run=False).gain_bytes == pytest.approx(finding.gain_bytes, rel=0.1)


@needs_gpu
def test_the_size_of_a_compressed_executable() -> None:
    table = np.zeros((1024, 512), np.float32)
    table[::7] = 1.0
    (finding,) = found(KIND, lambda x: x @ table, jax.ShapeDtypeStruct((8, 1024), jnp.float32), target="gpu:h100:1")
    assert finding.prove(run=False).gain_bytes == pytest.approx(2 * MIB, rel=0.1)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda x, table: x @ table, (X, jax.ShapeDtypeStruct((512, 1024), jnp.float32))),
        (lambda x: x @ jnp.ones((512, 1024)), (X,)),
        (lambda x: x @ jnp.eye(512), (X,)),
        (lambda x: x @ TABLE[:, :128], (X,)),  # 256 KiB
        (lambda x: x @ jax.random.normal(jax.random.key(0), (512, 1024)), (X,)),
    ],
)
def test_other_arrays(fun: Any, args: Any) -> None:
    assert not all_found(KIND, fun, *args)


def test_the_proof_equals_the_compile_by_hand() -> None:
    proof = found(KIND, closed, X)[0].prove()
    assert "MiB smaller executable" in str(proof)
    before, after = (
        inspector.lower(fun, *args).compile(target="cpu")
        for fun, args in ((closed, (X,)), (lambda x, table: jnp.tanh(x @ table), (X, TABLE)))
    )
    sizes = [len(executable_of(each)) for each in (before, after)]
    assert proof.gain_bytes == pytest.approx(sizes[0] - sizes[1], rel=0.01)
