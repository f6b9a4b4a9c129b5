"""Collectives that could be one, and those that cannot, are too few or are too large."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.operations import OPCODES
from inspector.errors import AtLeast, Unavailable
from inspector.stages.findings import Finding
from inspector.stages.proof import Proof
from tests.absent import needs_gpu
from tests.findings import small
from tests.findings.examined import all_found, peak
from tests.findings.recorded import GPU, TPU, recorded
from tests.findings.sharded import array, manual

KIND = "small-collectives"


def found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize(
    ("program", "titles"),
    [
        (small.exchange_of_each_leaf, ["12 all-to-alls over d at small.py (512 B per device each) could be one"]),
        (small.exchanges_in_a_loop, ["12 all-to-alls over d at small.py (512 B per device each) could be one"]),
        (small.gradients_exchanged_in_layers, ["24 all-to-alls over d at small.py (512 B per device each) could be 2"]),
        (
            small.both_ways_over_two_axes,
            [f"6 all-to-alls over {axis} at small.py (256 B per device each) could be one" for axis in "dm"],
        ),
    ],
)  # fmt: skip
def test_could_be_one(program: Callable[[], small.Program], titles: list[str], target: str) -> None:
    findings = found(recorded(program, target))
    for finding, title in zip(sorted(findings, key=lambda each: each.title), titles, strict=True):
        assert (
            re.sub(r"py:\d+", "py", finding.title)
            == f"{title}: they do not depend on each other, and most of their time is latency."
        )
        assert finding.remedy.startswith("stacked = jax.lax.all_to_all(jnp.stack([a, b, ...], axis=-1), ...)")
        assert 0.05 < finding.share < 0.95
        assert not isinstance(finding.edits, Unavailable)


def test_shifts_that_only_gpus_combine() -> None:
    (finding,) = found(recorded(small.shift_of_each_field, TPU))
    assert finding.title.startswith("12 collective-permutes over d at small.py:")
    assert finding.remedy.startswith("stacked = jax.lax.ppermute(")


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize("program", small.SILENT)
def test_silent(program: Callable[[], small.Program], target: str) -> None:
    assert not found(recorded(program, target))


@pytest.mark.parametrize("program", [small.exchanges_of_different_kinds, small.ring_attention])
def test_silent_on_tpus(program: Callable[[], small.Program]) -> None:
    assert not found(recorded(program, TPU))


@pytest.mark.parametrize("program", [small.exchange_of_each_leaf, small.shift_of_each_field, small.chain_of_exchanges])
def test_with_the_links_of_another_chip(program: Callable[[], small.Program]) -> None:
    fun, args = program()
    findings = all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))
    assert len(findings) == (program is not small.chain_of_exchanges)
    assert not all_found(KIND, fun, *args, target="cpu:8")  # the speed of the links is unknown


def test_both_halos_of_each_field_are_one_finding() -> None:
    left = [(target, source) for source, target in small.RIGHT]

    def f(*xs: Any) -> Any:
        return [x + lax.ppermute(x[-1:], "d", small.RIGHT) + lax.ppermute(x[:1], "d", left) for x in xs]

    fun, args = manual(f, (P("d"),) * 5, P("d")), (array((512, 128), "d"),) * 5
    (finding,) = all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))
    assert "10 collective-permutes over d at test_small_collectives.py:" in finding.title
    assert "could be 2: they do not depend on each other" in finding.title
    assert len(finding.instructions) == 10
    assert finding.is_upper_bound


def all_to_alls(*xs: Any) -> Any:
    """Along different dimensions."""
    dimensions = (0, 0), (1, 0), (0, 2), (2, 1), (1, 2)
    return [lax.all_to_all(x, "d", *each, tiled=True) for x, each in zip(xs, dimensions, strict=True)]


def untiled_all_to_alls(*xs: Any) -> Any:
    return [lax.all_to_all(x.reshape(8, -1), "d", 0, n % 2) for n, x in enumerate(xs)]


def gathers(*xs: Any) -> Any:
    return [lax.all_gather(x, "d", axis=n % 3, tiled=n < 3) for n, x in enumerate(xs)]


def scatters(*xs: Any) -> Any:
    return [lax.psum_scatter(x, "d", scatter_dimension=n % 3, tiled=True) for n, x in enumerate(xs)]


def shifts_of_equal_arrays(*xs: Any) -> Any:
    return [lax.ppermute(x[:8, :8, :8], "d", small.RIGHT) for x in xs]


def exchanges_in_a_called_function(*xs: Any) -> Any:
    """Each call has one, and computes its operand after the previous one."""
    call = jax.jit(lambda x: lax.all_to_all(jnp.sin(x), "d", 0, 0, tiled=True) * 2)
    return [call(x) for x in xs]


def exchanges(proof: Proof) -> int:
    """Returns the number of collectives in the changed program."""
    assert proof.compiled is not None
    return len(proof.compiled.module().columns.rows_of(OPCODES.__contains__))


@pytest.mark.parametrize(
    "fun",
    [
        all_to_alls, shifts_of_equal_arrays,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (untiled_all_to_alls, gathers, scatters, exchanges_in_a_called_function)),
    ],
)  # fmt: skip
def test_the_combined_collective_has_the_same_results(fun: Any) -> None:
    shapes = (8, 8, 8), (8, 16, 8), (16, 8, 24), (8, 8, 16), (8, 24, 8)
    arrays = (array((8 * a, b, c), "d") for a, b, c in shapes)
    (finding,) = all_found(KIND, manual(fun, (P("d"),) * 5, P("d")), *arrays, target="cpu:8", roofs=peak("tpu:v5e"))
    proof = finding.prove(run=True)
    assert proof.values == "equal results"
    assert exchanges(proof) == 1


def test_the_proof_leaves_the_collectives_of_other_groups() -> None:
    fun, args = small.both_ways_over_two_axes()
    for finding in all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e")):
        assert exchanges(finding.prove(run=False)) == 7


@needs_gpu
def test_the_gain_equals_the_compile_by_hand() -> None:
    before = recorded(small.exchange_of_each_leaf, GPU)
    fun, args = small.stacked_exchange()
    after = inspector.lower(fun, *args).compile(target=GPU)
    (finding,) = found(before)
    saved_s = _seconds(before) - _seconds(after)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.1)


def _seconds(compiled: inspector.Compiled) -> float:
    seconds = compiled.roofline().total.least_s
    assert not isinstance(seconds, (Unavailable, AtLeast))
    return float(seconds)
