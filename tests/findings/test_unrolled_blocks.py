"""Layers that a Python loop repeats, and programs whose products only look alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.findings.before import Before
from inspector.analysis.findings.detectors.host import unrolled_blocks as detector
from inspector.analysis.findings.detectors.host.unrolled_blocks import KIND, count_alike, equal_blocks
from tests.findings.examined import all_found, found

X = jax.ShapeDtypeStruct((32, 64), jnp.float32)
W = jax.ShapeDtypeStruct((64, 64), jnp.float32)
LAYERS = [{"in": W, "out": W}] * 8


def block(layer: Any, x: Any) -> Any:
    return x + jnp.tanh(jax.nn.softmax(x @ layer["in"]) @ layer["out"])


def unrolled(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = block(layer, x)
    return (x**2).sum()


def of_a_jitted_block(layers: Any, x: Any) -> Any:
    call = jax.jit(block)
    for layer in layers:
        x = call(layer, x)
    return (x**2).sum()


def checkpointed(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = jax.checkpoint(block)(layer, x)
    return (x**2).sum()


def gated(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = x + jax.nn.relu((x @ layer["in"]) * jax.nn.sigmoid(x @ layer["out"]))
    return (x**2).sum()


def in_one_line(layers: Any, x: Any) -> Any:
    """Both products of a layer have the same shapes and line, so that there are twice as many as layers."""
    for layer in layers:
        x = x + jax.nn.gelu(jnp.cos(x @ layer["in"])) @ layer["out"]
    return (x**2).sum()


def scanned(layers: Any, x: Any) -> Any:
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    return (jax.lax.scan(lambda x, layer: (block(layer, x), None), x, stacked)[0] ** 2).sum()


def side_by_side(layers: Any, x: Any) -> Any:
    return sum(block(layer, x).sum() for layer in layers)


def narrowing(layers: Any, x: Any) -> Any:
    for number, layer in enumerate(layers):
        x = jnp.tanh(x @ layer["in"])[:, : 60 - 4 * number]
        x = jnp.pad(x, ((0, 0), (0, 64 - x.shape[1])))[:, :64] if number % 2 else x @ jnp.ones((x.shape[1], 64))
    return x.sum()


def blocks(fun: Callable[..., Any], layers: Any = LAYERS) -> tuple[int, int]:
    calls = Before(inspector.lower(fun, layers, X).module())
    count, products = equal_blocks(calls, count_alike(calls))
    return count, len(products)


@pytest.mark.parametrize("fun", [unrolled, of_a_jitted_block, checkpointed, gated, in_one_line])
def test_layers_of_a_python_loop(fun: Callable[..., Any]) -> None:
    count, products = blocks(fun)
    assert count == 8
    assert products >= 8
    assert blocks(jax.grad(fun))[0] in (7, 8)


@pytest.mark.parametrize(
    ("fun", "layers"),
    [(scanned, LAYERS), (side_by_side, LAYERS), (unrolled, LAYERS[:5]), (in_one_line, LAYERS[:4]), (narrowing, LAYERS)],
)
def test_other_programs(fun: Callable[..., Any], layers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "_LEAST_SECONDS", 0.0)
    assert not all_found(KIND, fun, layers, X)


def test_the_gain_is_the_part_of_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "_LEAST_SECONDS", 0.0)
    findings = found(KIND, unrolled, LAYERS, X)
    (finding,) = findings
    assert finding.title.startswith(
        "About 8 equal blocks of operations, with the product 32x64 times 64x64 at test_unrolled"
    )
    assert 0.5 < finding.compile_share <= 0.75 * 7 / 8
    assert "of the compile" in finding.gain
    assert (finding.share, finding.gain_bytes) == (0, 0)
    assert findings.summary == f"1 finding: up to {100 * finding.compile_share:.0f} % of the compile"
    findings.items = (dataclasses.replace(finding, share=0.2), finding)
    assert findings.summary.startswith("2 findings: up to 20 % of the ")
    assert finding.prove().verdict == "cannot be tried"


def test_short_compiles_are_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "_LEAST_SECONDS", 1e6)
    assert not all_found(KIND, unrolled, LAYERS, X)


@pytest.mark.parametrize(
    ("numbers", "number"),
    [
        ([3] * 5 + [6, 6, 12, 18], 3),  # two equal products in each of three layers
        ([8] * 9 + [16, 16, 22, 30, 40, 2], 8),  # 2 divides all numbers, but is one of them only once
        ([24] * 4 + [48, 23, 5], 24),
    ],
)
def test_the_number_of_blocks(numbers: list[int], number: int) -> None:
    assert detector._common_number(numbers) == number


def with_caches(layers: Any, x: Any) -> Any:
    """Each layer returns the next version of its own cache, as in the step of a decoder."""
    caches = []
    for layer in layers:
        cache = jax.lax.dynamic_update_slice(layer["in"], x[:1], (3, 0))
        caches.append(cache)
        x = jnp.tanh(x @ cache) @ layer["out"]
    return x, caches


def test_layers_with_state_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "_LEAST_SECONDS", 0.0)
    assert not all_found(KIND, with_caches, LAYERS, X)
    assert all_found(KIND, lambda layers, x: with_caches(layers, x)[0], LAYERS, X)
