"""Kernels whose small blocks copy the same data again and again, and kernels whose blocks are large enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_tpu
from tests.findings import blocks
from tests.findings.examined import peak
from tests.findings.recorded import recorded
from tests.findings.sharded import Program

KIND = "block-traffic"
GRIDS = {
    blocks.product_of_small_blocks: ("(4, 4, 32)  # instead of (32, 32, 32)", "`x` (64 MiB) 32 times and `y` (64 MiB) 32 times"),
    blocks.products_in_a_loop: ("(4, 4, 32)  # instead of (32, 32, 32)", "operand 0 (64 MiB) 32 times"),
    blocks.product_of_each_example: ("(4, 2, 4, 8)  # instead of (4, 8, 16, 8)", "`x` (32 MiB) 16 times and `y` (32 MiB) 8 times"),
    blocks.attention_of_small_blocks: ("(2, 8, 16, 32)  # instead of (2, 8, 32, 32)", "`k` (16 MiB) 32 times and `v` (16 MiB) 32 times"),
    blocks.gradient_of_attention: ("(2, 8, 8, 16)  # instead of (2, 8, 16, 16)", "`k` (8 MiB) 8.44 times and `v` (8 MiB) 8.44 times"),
}  # fmt: skip


def found(compiled: inspector.Compiled, **keywords: Any) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND], **keywords)
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("program", blocks.AGAIN)
def test_blocks_are_copied_again(program: Callable[[], Program]) -> None:
    (finding,) = found(recorded(program, blocks.CHIP))
    grids, arrays = GRIDS[program]
    assert finding.remedy.startswith(f"grid = {grids}")
    assert "VMEM" in finding.remedy
    assert f"copies {arrays}" in finding.title
    assert 0.05 < finding.share < 0.9
    assert finding.frames
    assert isinstance(finding.edits, Unavailable)


@pytest.mark.parametrize("program", blocks.ENOUGH)
def test_silent(program: Callable[[], Program]) -> None:
    assert not found(recorded(program, blocks.CHIP))


def test_a_gpu_has_no_such_blocks() -> None:
    assert not found(recorded(blocks.product_of_small_blocks, blocks.CHIP), peak=peak("gpu:h100"))


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("small", "large", "chip"),
    [
        (blocks.product(), blocks.product(bm=1024, bn=1024), "v5e"),
        (blocks.product(dtype=blocks.BF16, bm=256, bk=256, bn=256), blocks.product(dtype=blocks.BF16, bm=1024, bk=256, bn=1024), "v6e"),
        (blocks.attention_of_small_blocks(), blocks.attention_of_small_blocks(block_q=256), "v5e"),
        (blocks.gradient_of_attention(), blocks.gradient_of_attention(block_q=256), "v5e"),
    ],
)  # fmt: skip
def test_the_gain_equals_larger_blocks_by_hand(small: Program, large: Program, chip: str) -> None:
    """Larger blocks at the edge of a causal mask compute more that is masked, which takes a tenth of the gain there."""
    target = f"tpu:{chip}:1x1"
    before, after = (inspector.lower(fun, *args, platform="tpu").compile(target=target) for fun, args in (small, large))
    finding = max(found(before), key=lambda each: each.share)
    times = [compiled.roofline().total.least_s for compiled in (before, after)]
    assert not any(isinstance(each, Unavailable) for each in times)
    assert finding.gain_s == pytest.approx(float(times[0]) - float(times[1]), rel=0.12)  # type: ignore[arg-type]
