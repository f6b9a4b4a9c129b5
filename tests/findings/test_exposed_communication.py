"""Collectives that independent work could hide, and those that nothing can hide or that XLA hides."""

from __future__ import annotations

from collections.abc import Callable

import jax
import pytest

import inspector
from inspector.analysis.findings.edits import SetFlags
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings import overlap, small
from tests.findings.examined import all_found, peak
from tests.findings.recorded import GPU, TPU, recorded

KIND = "exposed-communication"
SYNCHRONOUS = "xla_gpu_disable_async_collectives"


def found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("program", overlap.FOUND)
def test_exposed_on_a_tpu(program: Callable[[], overlap.Program]) -> None:
    compiled = recorded(program, TPU)
    (finding,) = found(compiled)
    opcode = "all-to-all" if program is overlap.exchange_beside_products else "all-reduce"
    flag = "xla_enable_async_all_reduce" if opcode == "all-reduce" else "xla_tpu_enable_async_all_to_all"
    assert finding.title.startswith(f"The {opcode} over d at overlap.py:")
    assert "although the work at overlap.py:19 does not depend on it" in finding.title
    assert finding.remedy.startswith(f"--{flag}=true")
    (edit,) = finding.edits  # type: ignore[misc]  # it has one
    assert isinstance(edit, SetFlags)
    assert edit.flags[0] == (flag, True)
    (point,) = [each for each in compiled.roofline().points if each.link_bytes]
    copies_s = 0.0  # libtpu copies the operand of an all-reduce beside kernels to VMEM
    if opcode == "all-reduce":
        (collective,) = compiled.collectives()
        copies_s = collective.operand_bytes * int(point.executions) / peak("tpu:v5e").memory_bytes_per_s
    assert finding.gain_s == pytest.approx(float(point.exposed_s) - copies_s)
    assert 0.1 < finding.share < 0.2
    assert finding.is_upper_bound  # libtpu decides which part runs beside kernels
    assert finding.gain.startswith("up to ")


def test_a_kernel_runs_beside_one_of_two_exchanges_that_depend_on_each_other() -> None:
    compiled = recorded(overlap.exchanges_beside_one_product, TPU)
    (finding,) = found(compiled)
    exposed = [float(each.exposed_s) for each in compiled.roofline().points if each.link_bytes]
    assert len(exposed) == 2
    assert finding.gain_s == pytest.approx(max(exposed))


def test_libtpu_takes_some_of_the_kernels_for_an_all_reduce() -> None:
    """The gain by hand, from both compiles, is 87 µs of the 161 µs for which the device waits."""
    compiled = recorded(overlap.large_sum_beside_products, TPU)
    (finding,) = found(compiled)
    assert "the device waits 161 µs for it" in finding.title
    assert finding.gain_s == pytest.approx(87e-6, rel=0.1)


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize("program", overlap.SILENT)
def test_silent(program: Callable[[], overlap.Program], target: str) -> None:
    assert not found(recorded(program, target))


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize("program", [small.exchange_of_each_leaf, small.exchanges_in_a_loop, small.chain_of_exchanges])
def test_exchanges_do_not_hide_each_other(program: Callable[[], overlap.Program], target: str) -> None:
    assert not found(recorded(program, target))


def test_silent_on_cpus() -> None:
    fun, args = overlap.sum_beside_products()
    assert not all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize("program", [*overlap.FOUND, *overlap.PARTLY])
def test_proofs_on_a_tpu(program: Callable[[], overlap.Program]) -> None:
    fun, args = program()
    (finding,) = found(inspector.lower(fun, *args).compile(target=TPU))
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.15)  # libtpu also moves copies
    assert proof.compiled is not None
    assert program in overlap.PARTLY or not found(
        inspector.lower(fun, *args).compile(dict(finding.edits[0].flags), target=TPU)
    )  # type: ignore[index,union-attr]


@needs_gpu
@pytest.mark.parametrize("program", overlap.FOUND)
def test_a_flag_that_forbids_overlap_on_a_gpu(program: Callable[[], overlap.Program]) -> None:
    fun, args = program()
    lowered = inspector.lower(fun, *args)
    assert not found(lowered.compile(target=GPU))
    (finding,) = found(lowered.compile({SYNCHRONOUS: "ALLCOLLECTIVES"}, target=GPU))
    assert finding.remedy == f"--{SYNCHRONOUS}=NOOP"
    proof = finding.prove()
    if jax.__version_info__ >= (0, 12):
        assert "does not show which collectives are asynchronous" in proof.reason
        return
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.1)


@needs_gpu
def test_a_flag_for_other_collectives() -> None:
    fun, args = overlap.sum_beside_products()
    assert not found(inspector.lower(fun, *args).compile({SYNCHRONOUS: "ALLTOALL"}, target=GPU))
