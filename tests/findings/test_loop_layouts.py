"""Caches that libtpu copies to another layout before a loop over layers, and back after it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.stages.findings import Finding
from tests.absent import needs_tpu

KIND = "transposed-argument"
LAYERS, BATCH, HEADS, LENGTH, SIZE = 4, 8, 8, 1024, 64


def _attended(q: Any, keys: Any, values: Any) -> Any:
    scores = jnp.einsum("bhd,bhtd->bht", q, keys, preferred_element_type=jnp.float32)
    return jnp.einsum("bht,bhtd->bhd", jax.nn.softmax(scores).astype(q.dtype), values)


def _layer(i: Any, carry: Any, ws: Any, position: Any) -> Any:
    x, keys, values = carry
    q, k, v = ((x @ ws[n][i]).reshape(BATCH, HEADS, SIZE) for n in "qkv")
    keys, values = (
        jax.lax.dynamic_update_slice(cache, new[None, :, :, None], (i, 0, 0, position, 0))
        for cache, new in ((keys, k), (values, v))
    )
    return x + _attended(q, keys[i], values[i]).reshape(x.shape), keys, values


def in_a_loop(ws: Any, keys: Any, values: Any, x: Any, position: Any) -> Any:
    return jax.lax.fori_loop(0, LAYERS, lambda i, carry: _layer(i, carry, ws, position), (x, keys, values))


def as_a_python_loop(ws: Any, keys: Any, values: Any, x: Any, position: Any) -> Any:
    carry = x, keys, values
    for i in range(LAYERS):
        carry = _layer(i, carry, ws, position)
    return carry


def _compiled(fun: Any, target: str = "tpu:v5e:1x1") -> inspector.Compiled:
    struct = jax.ShapeDtypeStruct
    width = HEADS * SIZE
    ws = {name: struct((LAYERS, width, width), jnp.bfloat16) for name in "qkv"}
    cache = struct((LAYERS, BATCH, HEADS, LENGTH, SIZE), jnp.bfloat16)
    args = (ws, cache, cache, struct((BATCH, width), jnp.bfloat16), struct((), jnp.int32))
    return inspector.lower(jax.jit(fun, donate_argnums=(1, 2)), *args).compile(target=target)


def _found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    return [*findings, *findings.folded]


@needs_tpu
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_caches_that_a_loop_over_layers_has_in_another_layout() -> None:
    before, after = _compiled(in_a_loop), _compiled(as_a_python_loop)
    (finding,) = _found(before)
    assert finding.title.startswith(
        "Each execution copies `keys`, `values` (64 MiB) to another layout (128 MiB) before the loop at test_loop_layouts.py:"
    )
    assert finding.title.endswith(", and back after it.")
    assert "a Python loop of 4 iterations" in finding.remedy
    assert "(4, 8, 1024, 512)" in finding.remedy
    assert not _found(after)
    seconds = [each.roofline().total.least_s for each in (before, after)]
    assert 0 < finding.gain_s < seconds[0] - seconds[1]
    assert (64 << 20) <= finding.gain_bytes < 1.1 * (before.memory.peak_bytes - after.memory.peak_bytes)


def test_silent_on_cpus() -> None:
    assert not _found(_compiled(in_a_loop, "cpu"))
