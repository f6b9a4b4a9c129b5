"""Damaged module files: a clear error or a module, never a crash of this process, in bounded time and memory."""

from __future__ import annotations

import random
import resource
import time

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.opened_file import open_file
from inspector.errors import InspectorError

LIMIT_S = 60  # of one file; reading an intact one takes about one


def originals() -> list[bytes]:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        y: jax.Array = jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ w), x)
        return y.sum()

    shapes = (jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((4, 8), jnp.float32))
    lowered = inspector.lower(step, *shapes, platform="cpu")
    compiled = lowered.compile(target="cpu", products=("buffers",))
    return [
        lowered.hlo.encode(),
        lowered.hlo_proto,
        str(lowered.stablehlo).encode(),
        lowered.program.module,
        compiled.hlo.encode(),
        compiled.buffers.hlo_proto,  # type: ignore[union-attr]
    ]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Returns a copy with one to four random changes: cut, deleted, repeated, swapped or overwritten parts."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 2, 8, 100)))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:start] or b"x"
        elif kind == 1:
            data = data[:start] + data[end:]
        elif kind == 2:
            data = data[:end] + data[start:end] * rng.choice((1, 3, 50)) + data[end:]
        elif kind == 3:
            data = data[:start] + bytes(rng.randrange(256) for _ in range(end - start)) + data[end:]
        elif kind == 4:
            data = (
                data[:start]
                + rng.choice((b"(", b"}", b"-1", b"99999999999999999999", b"\xff", b"%", b"\0"))
                + data[start:]
            )
        else:
            other = rng.randrange(len(data) + 1)
            data = data[:start] + data[other : other + end - start] + data[end:]
    return data


def check(count: int, seed: int) -> None:
    rng, files = random.Random(seed), originals()
    errors: list[str] = []
    for number in range(count):
        data = mutated(files[number % len(files)], rng)
        started = time.perf_counter()
        try:
            for program in open_file(data)[:2]:
                program.module().computations  # noqa: B018 - reads all of it
                program.collectives()
        except InspectorError as e:
            errors.append(str(e))
        assert time.perf_counter() - started < LIMIT_S, number
    assert len(errors) > count // 4  # the changes do damage
    assert all(10 < len(error) < 20_000 for error in errors)


def test_damaged_files_give_clear_errors() -> None:
    check(18, seed=0)


@pytest.mark.slow
def test_a_thousand_damaged_files() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check(1000, seed=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
