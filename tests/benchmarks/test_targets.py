"""The table of programs and targets: its rows, and the replacement of a section of the document."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import inspector
from benchmarks import targets

DOCUMENT = f"""# Title

Words.

## JAX 0.1

old row

## JAX {jax.__version__}

stale row
"""


def test_only_the_section_of_this_jax_is_rewritten() -> None:
    new = targets._replaced(DOCUMENT, f"## JAX {jax.__version__}\n\nfresh row\n")
    assert "stale row" not in new
    assert new.startswith("# Title\n\nWords.\n\n## JAX 0.1\n\nold row\n")
    assert new.rstrip().endswith("fresh row")
    assert targets._replaced(new, f"## JAX {jax.__version__}\n\nfresh row\n") == new


def test_a_program_that_compiles_has_every_cell() -> None:
    row = targets._row("tiny", "cpu:8")
    assert len(row.cells) == len(targets.HEADS) - 2
    cells = dict(zip(targets.HEADS[2:], row.cells, strict=True))
    assert cells["Σ flops / XLA's"] in ("1.000000", targets.NOTHING)
    assert cells["Σ bytes / XLA's"] == "1.000000"
    assert cells["memory"].startswith("RAM ")


def test_sums_are_not_compared_with_themselves() -> None:
    looped = inspector.lower(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ x), x), jnp.ones((8, 8)))
    cells = dict(
        zip(targets.HEADS[2:], targets._cells(looped.compile(target="cpu", products=("buffers",))), strict=True)
    )
    assert cells["flops"].startswith("3.0")
    assert cells["Σ flops / XLA's"] == cells["Σ bytes / XLA's"] == "not reported"


def test_one_that_does_not_has_the_reason() -> None:
    row = targets._row("pallas_mm", "cpu:8")
    assert not row.cells
    assert row.reason.startswith("UnsupportedError: matmul calls a Pallas kernel")
    lines = list(targets._section([row]))
    assert lines[-1].count("|") == len(targets.HEADS) + 1
