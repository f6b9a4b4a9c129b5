"""Programs whose peak is larger than a chip's memory. They are compiled only."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.support.units import format_bytes
from tests.absent import needs_gpu
from tests.findings.examined import all_found, peak

H100 = peak("gpu:h100:8")
LIMIT = int(H100.memory_bytes)
FLOATS = LIMIT // 4


def _largest(title: str) -> str:
    """Returns the arrays that a title names."""
    return title.partition("The largest arrays ")[2].partition("are ")[2]


def big(part: float) -> jax.ShapeDtypeStruct:
    """Returns an array that takes a part of the device's memory."""
    return jax.ShapeDtypeStruct((int(part * FLOATS) // 1024, 1024), jnp.float32)


@pytest.mark.parametrize(
    ("fun", "args", "largest"),
    [
        (lambda cache: cache.sum(), (big(1.2),), "`cache`"),
        (lambda params: jax.tree.map(jnp.sin, params), ({"w": big(0.4), "v": big(0.3)},), "`params['w']`"),
        (lambda x: jnp.sort(x, 0)[:1].sum() + x.max(), (big(0.7),), "`x`"),
        (lambda x: (jnp.broadcast_to(x, (int(1.1 * FLOATS) // 1024, 1024)) * 2), (jax.ShapeDtypeStruct((1024,), jnp.float32),), "result"),
    ],
)  # fmt: skip
def test_a_peak_that_does_not_fit(fun: Any, args: tuple[Any, ...], largest: str) -> None:
    (finding,) = all_found("over-memory", fun, *args, roofs=H100)
    compiled = inspector.lower(fun, *args).compile(target="cpu")
    assert finding.gain_bytes == compiled.memory.peak_bytes - LIMIT > 0
    assert f"does not fit into the {format_bytes(LIMIT)} of h100" in finding.title
    assert largest in _largest(finding.title)


@pytest.mark.parametrize(
    ("fun", "args", "donated"),
    [
        (lambda x: x.sum(), (big(0.9),), ()),
        (lambda x: x + 1, (big(0.9),), (0,)),  # in place
        (lambda x: x + 1, (big(0.45),), ()),
        (lambda x: jnp.max(x * 2 + 1), (big(0.9),), ()),  # fused
    ],
)
def test_a_peak_that_fits(fun: Any, args: tuple[Any, ...], donated: tuple[int, ...]) -> None:
    assert all_found("over-memory", fun, *args, roofs=H100, donate_argnums=donated) == []


def test_without_the_device_s_memory_nothing_is_said() -> None:
    assert all_found("over-memory", lambda x: x.sum(), big(2.0)) == []


def test_without_buffers_the_largest_arrays_of_kernels_are_named() -> None:
    def scores(q: Any) -> Any:
        return jax.nn.softmax(q @ q.T, -1)[0].sum()

    side = int(1.1 * FLOATS**0.5)
    (finding,) = all_found("over-memory", scores, jax.ShapeDtypeStruct((side, 64), jnp.float32), roofs=H100)
    assert "of test_over_memory.py:" in _largest(finding.title)
    assert finding.frames


def test_a_donated_array_is_named_once() -> None:
    def step(a: Any, b: Any) -> Any:
        return a * 2 + b.sum(), (b * 2).sum()

    (finding,) = all_found("over-memory", step, big(0.8), big(0.7), roofs=H100, donate_argnums=0)
    assert _largest(finding.title).startswith("`a` (")
    assert finding.title.count("GiB)") == 2


def test_with_buffers_temporaries_are_named_too() -> None:
    lowered = inspector.lower(
        lambda a, b: (jnp.cumsum(a, 0) * jnp.sort(a, 0)[:1]).sum() + b.sum(), big(0.6), big(0.001)
    )
    (finding,) = lowered.compile(target="cpu", products=["buffers"]).findings(H100, ["over-memory"])
    largest = _largest(finding.title)
    assert "sort.0 of test_over_memory.py:" in largest
    assert finding.frames


@needs_gpu
def test_an_array_that_xla_computes_again_is_named_once() -> None:
    """XLA rematerializes the similarities of all pairs, which do not fit even once."""

    def loss(images: Any, texts: Any) -> Any:
        pairs = jnp.einsum("id,jd->ij", images, texts, preferred_element_type=jnp.float32)
        return jnp.mean(jax.nn.logsumexp(pairs, 1)) + jnp.mean(jax.nn.logsumexp(pairs, 0))

    rows = jax.ShapeDtypeStruct((163_840, 512), jnp.bfloat16)
    compiled = inspector.lower(loss, rows, rows).compile(target="gpu:h100:1")
    assert ".remat" in compiled.hlo
    (finding,) = compiled.findings(kinds=["over-memory"])
    assert ".remat" not in _largest(finding.title)


def test_a_little_too_much_is_not_folded() -> None:
    compiled = inspector.lower(lambda x: jnp.sort(x).sum(), big(0.5005)).compile(target="cpu")
    (finding,) = compiled.findings(H100, kinds=["over-memory"])
    assert 0 < finding.gain_bytes < 0.01 * LIMIT
