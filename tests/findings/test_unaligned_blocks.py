"""Kernels whose arrays are mostly padding, and kernels whose arrays fill their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_tpu
from tests.findings import blocks
from tests.findings.recorded import recorded
from tests.findings.sharded import Program

KIND = "unaligned-blocks"
ARRAYS = {
    blocks.heads_of_64: ("`q`, `k`, `v`, the result take 128 MiB instead of 64 MiB", 4),
    blocks.thin_product: ("`y`, the result take 4 MiB instead of 2 MiB", 2),
    blocks.few_features: ("`x`, the result take 64 MiB instead of 20 MiB", 2),
    blocks.few_features_in_a_loop: ("operand 0, the result take 1 GiB instead of 192 MiB", 0),
    blocks.between_operations_by_element: ("operand 0, the result take 64 MiB instead of 20 MiB", 3),
    blocks.five_rows: ("`x`, the result take 512 MiB instead of 320 MiB", 2),
}


def found(program: Callable[[], Program]) -> list[Finding]:
    findings = recorded(program, blocks.CHIP).findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("program", blocks.NARROW)
def test_arrays_that_are_mostly_padding(program: Callable[[], Program]) -> None:
    (finding,) = found(program)
    arrays, copies = ARRAYS[program]
    assert arrays in finding.title
    assert (f"{copies} copies change the layout" in finding.title) == bool(copies)
    assert finding.share > 0.03 or finding.gain_bytes > 0.3 * recorded_peak(program)
    assert isinstance(finding.edits, Unavailable)


def recorded_peak(program: Callable[[], Program]) -> int:
    memory = recorded(program, blocks.CHIP).memory
    assert not isinstance(memory, Unavailable)
    return int(memory.peak_bytes)


def test_the_remedy_names_the_short_dimension() -> None:
    assert "blocks of (64, n) in the kernel\n# or 2 rows of 64 side by side" in found(blocks.heads_of_64)[0].remedy
    assert found(blocks.few_features)[0].remedy.endswith("blocks of (40, n) in the kernel")
    assert found(blocks.five_rows)[0].remedy.endswith("a longer dimension than 5 in the place before the last one")


@pytest.mark.parametrize("program", blocks.WIDE)
def test_silent(program: Callable[[], Program]) -> None:
    assert not found(program)


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "other"),
    [
        (blocks.few_features, lambda y: blocks.scale(y, rows=8)),
        (blocks.between_operations_by_element, lambda y: jnp.tanh(blocks.scale(jnp.sin(y) * 2, rows=8)) + y),
    ],
)
def test_the_gain_equals_the_other_order_by_hand(program: Callable[[], Program], other: Callable[..., Any]) -> None:
    """The kernel takes the long dimension last, as its caller stores it."""
    fun, (x,) = program()
    times = []
    for shape, kernel in ((x.shape, fun), (x.shape[::-1], other)):
        compiled = inspector.lower(kernel, blocks.struct(*shape), platform="tpu").compile(target=blocks.CHIP)
        times.append(float(compiled.roofline().total.least_s))  # type: ignore[arg-type]
    assert found(program)[0].gain_s == pytest.approx(times[0] - times[1], rel=0.3)
