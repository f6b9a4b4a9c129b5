"""Dimensions that are split over a number of devices that does not divide them, and those that are split evenly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings import sharded, uneven
from tests.findings.examined import all_found, peak
from tests.findings.recorded import GPU, TPU, recorded
from tests.findings.sharded import D, Program, array

KIND = "uneven-shards"
TITLES = {
    uneven.ten_rows: (
        "Dimension 0 of f32[10, 512] at uneven.py:18 is split over the mesh axis d of 8 devices, which does not divide 10:"
        " 6 of the 16 rows that the devices compute are padding, and 3 devices compute only padding."
    ),
    uneven.twelve_heads: (
        "Dimension 2 of f32[8, 128, 12, 64] at uneven.py:18 is split over the mesh axis d of 8 devices, which does not divide 12:"
        " 4 of the 16 rows that the devices compute are padding, and 2 devices compute only padding."
    ),
    uneven.experts_in_a_loop: (
        "Dimension 0 of f32[9, 64, 256] at uneven.py:18 is split over the mesh axis d of 8 devices, which does not divide 9:"
        " 7 of the 16 rows that the devices compute are padding, and 3 devices compute only padding."
    ),
    uneven.six_rows_over_one_of_two_axes: (
        "Dimension 0 of f32[6, 1024] at uneven.py:18 is split over the mesh axis d of 4 devices, which does not divide 6:"
        " 2 of the 8 rows that the devices compute are padding, and 1 device computes only padding."
    ),
    uneven.jitted_function: (
        "Dimension 1 of f32[256, 100] at uneven.py:18 is split over the mesh axis d of 8 devices, which does not divide 100:"
        " 4 of the 104 rows that the devices compute are padding."
    ),
}


def on_cpus(program: Callable[[], sharded.Program]) -> list[Finding]:
    fun, args = program()
    return all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))


def found(program: Callable[[], sharded.Program], target: str) -> list[Finding]:
    if target == "cpu:8":
        return on_cpus(program)
    findings = recorded(program, target).findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [TPU, GPU, "cpu:8"])
@pytest.mark.parametrize("program", uneven.FOUND)
def test_uneven(program: Callable[[], sharded.Program], target: str) -> None:
    (finding,) = found(program, target)
    assert finding.title.startswith(TITLES[program].replace("the mesh axis d of 4 devices", "4 devices"))
    assert ("An exchange moves the rows" in finding.title) == (program is uneven.twelve_heads)
    assert 0 < finding.share < (0.6 if program is uneven.twelve_heads else 0.2)
    can_be_changed = target == "cpu:8" and program is not uneven.twelve_heads  # no argument has 12 heads
    assert isinstance(finding.edits, Unavailable) != can_be_changed


def test_the_proof_shortens_the_arguments() -> None:
    fun, args = uneven.ten_rows()
    (finding,) = all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))
    proof = finding.prove(run=True)
    assert proof.values == Unavailable("the remedy changes shapes of arguments")
    assert proof.compiled is not None
    assert [a.shape[0] for a in proof.compiled.program.arguments if a.shape[0] < 512] == [8]


def test_the_proof_scales_the_time_of_a_shorter_dimension() -> None:
    """The time for 8 rows is multiplied by 10/8."""
    fun, args = uneven.ten_rows()
    roofs = peak("tpu:v5e")
    compiled = inspector.lower(fun, *args, target="cpu:8").compile(target="cpu:8")
    (finding,) = [*(findings := compiled.findings(roofs, kinds=[KIND])), *findings.folded]
    proof = finding.prove(run=False)
    assert proof.compiled is not None
    shorter = inspector.lower(fun, *args, target="cpu:8").what_if(shape={10: 8}).compile(target="cpu:8")
    before_s, after_s = (float(each.roofline(roofs).total.least_s) for each in (compiled, shorter))
    assert proof.gain_s == pytest.approx(before_s - after_s * 10 / 8, abs=1e-9)
    assert proof.gain_bytes == 0


def test_the_remedy_names_the_next_sizes() -> None:
    (finding,) = found(uneven.jitted_function, GPU)
    code = "jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('d')))"
    assert finding.remedy == f"Make the dimension a multiple of 8 (96 or 104), or split another one:\n{code}"


def test_the_remedy_without_another_dimension() -> None:
    (finding,) = found(uneven.six_rows_over_one_of_two_axes, GPU)  # the other one is split too
    assert finding.remedy.endswith("or split another one.")


def test_weights_do_not_shrink_with_the_rows() -> None:
    (finding,) = found(uneven.ten_rows, GPU)
    assert finding.share < 0.01  # the product's time is that of reading its weights


@pytest.mark.slow
@needs_tpu
def test_exchanges_of_padding() -> None:
    program = compiled_for_tpus(uneven.gathered_rows())
    (gathered,) = program.findings(kinds=[KIND])
    assert gathered.title.endswith("3 devices compute only padding. Collectives send the padding too.")
    assert any(name.startswith("all-gather") for name in gathered.instructions)
    (sent_s,) = (each.least_s for each in program.roofline().points if each.name.startswith("all-gather"))
    assert gathered.gain_s == pytest.approx(7 / 16 * sent_s, rel=0.05)


@needs_tpu
def test_the_exchange_that_realigns_heads() -> None:
    """Sixteen heads send as much as twelve and their padding, and need no realigning exchange."""
    twelve, sixteen = (compiled_for_tpus(uneven.gathered_heads(count)) for count in (12, 16))
    (finding,) = twelve.findings(kinds=[KIND])
    assert "An exchange moves the rows between devices" in finding.title
    before_s, padded_s = (each.roofline().total.least_s for each in (twelve, sixteen))
    assert finding.gain_s == pytest.approx(before_s - 12 / 16 * padded_s, rel=0.15)
    assert not sixteen.findings(kinds=[KIND])


def compiled_for_tpus(program: sharded.Program) -> inspector.Compiled:
    fun, args = program
    return inspector.lower(fun, *args, target=TPU).compile(target=TPU)


@pytest.mark.parametrize("program", uneven.SILENT)
def test_silent(program: Callable[[], sharded.Program]) -> None:
    assert not on_cpus(program)


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize("program", [sharded.accumulated_gradients, sharded.weight_gathered_by_partitioner])
def test_silent_elsewhere(program: Callable[[], sharded.Program], target: str) -> None:
    assert not found(program, target)


def test_a_large_vocabulary_on_a_gpu() -> None:
    assert not found(uneven.large_vocabulary, GPU)


def _embedding_step(vocabulary: int) -> Program:
    """A step with one embedding, which is whole, and logits that are split along the vocabulary."""

    def step(p: Any, m: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            logits = jax.lax.with_sharding_constraint(x @ p["wte"].T, NamedSharding(D, P(None, "d")))
            return jax.nn.logsumexp(logits, axis=-1).mean()

        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, jax.grad(loss)(p))
        return jax.tree.map(lambda p, m: p - 1e-3 * m, p, m), m

    wte = {"wte": array((vocabulary, 512))}
    return jax.jit(step, donate_argnums=(0, 1)), (wte, wte, array((256, 512)))


@needs_gpu
def test_results_that_are_gathered_because_their_parts_are_uneven() -> None:
    fun, args = _embedding_step(10_001)
    compiled = inspector.lower(fun, *args).compile(target=GPU)
    (finding,) = compiled.findings(kinds=[KIND])
    assert finding.title == (
        "`result[0]['wte']`, `result[1]['wte']` are computed in parts over the mesh axis d of 8 devices, but gathered, because 8 does not divide"
        " dimension 0 of size 10001, and JAX does not return uneven parts."
    )
    assert finding.remedy == "Make the dimension a multiple of 8 (10000 or 10008): the results stay split."
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.2)


@needs_gpu
def test_results_in_even_parts_are_not_gathered() -> None:
    fun, args = _embedding_step(10_000)
    findings = inspector.lower(fun, *args).compile(target=GPU).findings(kinds=[KIND])
    assert not [*findings, *findings.folded]
