"""Order, kinds and tables of findings, and programs that a proof cannot change."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.findings.at_line import at_line, shared_lines
from inspector.analysis.findings.edits import SetFlags
from inspector.analysis.findings.finding import Finding, ranked
from inspector.analysis.findings.registry import DETECTORS, KINDS
from inspector.engines.choice import engine_for
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.source import Frame
from inspector.stages.findings import Findings
from inspector.stages.proof import prove
from inspector.support.units import format_bytes
from tests.findings.examined import peak
from tests.findings.test_undonated import PARAMS, X, found, sgd


def finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "kind": "undonated", "title": "It.", "instructions": (), "frames": (), "remedy": "", "gain_s": 0.0, "gain_bytes": 0,
        "share": 0.0, "byte_share": 0.0, "gain_source": "",
    }  # fmt: skip
    return Finding(**{**fields, **changes})


def fields_of(each: Finding) -> dict[str, Any]:
    return {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}


def test_the_largest_share_of_time_or_memory_comes_first() -> None:
    time, memory = finding(share=0.2, gain_s=1e-6), finding(byte_share=0.5, gain_bytes=1 << 20)
    small, compile_time = finding(share=0.009, gain_s=1e-6), finding(compile_s=2.0, compile_share=0.5)
    assert ranked([compile_time, small, time, memory]) == [memory, time, small, compile_time]
    assert [each.is_small for each in (small, time, memory, compile_time)] == [True, False, False, False]


@pytest.mark.parametrize(("fullness", "is_first"), [(None, True), (0.6, True), (0.3, True), (0.01, False)])
def test_memory_counts_less_on_a_device_with_room(fullness: float | None, is_first: bool) -> None:
    time, memory = finding(share=0.2, gain_s=1e-6), finding(byte_share=0.5, gain_bytes=1 << 20)
    assert ranked([time, memory], fullness) == ([memory, time] if is_first else [time, memory])


def test_a_gpu_with_room_shows_time_first() -> None:
    """A program of 28 MiB saves less of its time than of its memory."""

    def step(cache: Any, new: Any, i: Any, w: Any) -> Any:
        cache = jnp.where((jnp.arange(4096) == i)[:, None], new, cache)
        x = w
        for _ in range(6):
            x = jnp.tanh(x @ w)
        return {"cache": cache}, x.sum()

    shapes = ((4096, 512), jnp.float32), ((1, 512), jnp.float32), ((), jnp.int32), ((1024, 1024), jnp.float32)
    args = [jax.ShapeDtypeStruct(*each) for each in shapes]
    first, second = inspector.lower(step, *args).compile(target="cpu").findings(peak("gpu:h100"))
    assert (first.kind, second.kind) == ("full-rewrite", "undonated")
    assert first.share < second.byte_share


def test_gains_of_a_few_bytes_are_small() -> None:
    assert finding(byte_share=0.5, gain_bytes=36).is_small
    assert not finding(byte_share=0.5, gain_bytes=36, gain_s=1e-6).is_small
    assert not finding(share=0.5, gain_s=Unavailable("no roofs")).is_small


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"share": 0.14, "gain_s": 1.2e-3}, "about 1.2 ms (14 % of the time)"),
        ({"share": 0.14, "gain_s": Unavailable("no roofs")}, "14 % of the accessed bytes"),
        ({"gain_bytes": 96 << 20}, "up to 96 MiB"),
        ({"share": 0.5, "gain_s": 1e-3, "gain_bytes": -(1 << 20)}, "about 1 ms (50 % of the time), costs 1 MiB"),
        ({"compile_s": 2.0, "compile_share": 0.5}, "about 2 s of the compile (50 %)"),
        ({"compile_s": 2.0, "compile_share": 0.5, "is_upper_bound": True}, "up to 2 s of the compile (50 %)"),
        ({}, "unknown"),
    ],
)
def test_a_gain_in_words(changes: dict[str, Any], text: str) -> None:
    assert finding(**changes).gain == text


def test_folded_findings_are_counted_by_the_reason() -> None:
    findings = found(sgd, PARAMS, X)
    small, unknown = finding(share=0.009, gain_s=1e-6), finding()
    folded = [dataclasses.replace(findings[0], **fields_of(each)) for each in (small, unknown, unknown)]
    several = Findings((), tuple(folded), (), ())
    assert "1 with a gain below 1 % and 2 with an unknown gain in .folded" in repr(several)
    assert Findings((), tuple(folded[:1]), (), ()).folded_words == "1 with a gain below 1 %"


def test_kinds_are_unique_and_checked() -> None:
    assert len(set(KINDS)) == len(DETECTORS)
    assert all(detector.finds for detector in DETECTORS)
    with pytest.raises(ParameterError, match=r"Unknown kind 'undonatd'\. Kinds: over-memory, undonated"):
        inspector.lower(sgd, PARAMS, X).compile(target="cpu").findings(kinds=["undonatd"])


def test_a_finding_by_position_and_kind() -> None:
    findings = found(sgd, PARAMS, X)
    assert findings["undonated"] is findings[0]
    with pytest.raises(ParameterError, match=r"No finding 'sort'\. There are 1: undonated"):
        findings["sort"]
    with pytest.raises(ParameterError, match="No finding 7"):
        findings[7]


def test_a_loaded_program_has_findings_and_proofs(tmp_path: Any) -> None:
    inspector.lower(sgd, PARAMS, X).compile(target="cpu").save(tmp_path / "sgd")
    (loaded,) = inspector.load(tmp_path / "sgd").findings()
    assert loaded.prove().verdict == "proven"


def test_findings_cross_processes() -> None:
    value = finding(share=0.5)
    assert pickle.loads(pickle.dumps(value)) == value


def test_a_change_that_cannot_be_made_says_so() -> None:
    compiled = inspector.lower(lambda x: jnp.tanh(x), X).compile(target="cpu")
    proof = prove(finding(), compiled, engine_for(None, compiled.program, compiled.target), lambda _: 1.0, run=False)
    assert proof.verdict == "cannot be tried"
    assert str(proof) == "cannot be tried: this change cannot be made automatically"


@pytest.mark.parametrize(
    ("promise", "saves_memory", "seconds", "text"),
    [
        ({"gain_bytes": 1 << 20, "byte_share": 0.5}, True, 1.0005, "proven: {} less memory, the same time (estimated)"),
        ({"gain_bytes": 1 << 20, "byte_share": 0.5}, False, 0.5, "no gain in memory: the same memory, 500 ms faster (estimated)"),
        ({"gain_bytes": 1 << 20, "byte_share": 0.5}, False, 1.5, "worse: the same memory, 500 ms slower (estimated)"),
        ({"share": 0.5}, True, 0.9995, "no gain in time: {} less memory, the same time (estimated)"),
        ({"share": 0.5, "gain_bytes": 1, "byte_share": 0.001}, True, 1.0, "no gain in time: {} less memory, the same time (estimated)"),
        ({"share": 0.5}, False, 0.5, "proven: 500 ms faster (estimated)"),
        ({"share": 0.5, "gain_bytes": 1 << 20, "byte_share": 0.5}, True, 1.0, "proven: {} less memory, the same time (estimated)"),
        ({}, True, 1.0, "proven: {} less memory, the same time (estimated)"),
    ],
)  # fmt: skip
def test_a_proof_needs_the_gain_that_the_finding_promises(
    promise: dict[str, Any], saves_memory: bool, seconds: float, text: str
) -> None:
    compiled = inspector.lower(sgd, PARAMS, X).compile(target="cpu")
    donated = compiled.findings(kinds=["undonated"])[0].edits if saves_memory else (SetFlags(()),)
    engine = engine_for(None, compiled.program, compiled.target)
    given = dataclasses.replace(finding(), edits=donated, **promise)
    proof = prove(given, compiled, engine, lambda each: 1.0 if each is compiled else seconds, run=False)
    assert str(proof) == text.format(format_bytes(proof.gain_bytes))
    assert (proof.gain_bytes > 0) == saves_memory


@pytest.mark.parametrize(
    ("callers", "line"),
    [
        ((("model.py", 66),), " at model.py:66 (through sharding.py:12)"),
        ((("model.py", 66), ("model.py", 70)), " at model.py:66 (through sharding.py:12)"),
        ((("sharding.py", 66), ("sharding.py", 70)), " at sharding.py:66 (through sharding.py:12)"),
        ((("sharding.py", 66),), " at sharding.py:12"),
    ],
)
def test_the_caller_of_a_helper_is_named(callers: tuple[tuple[str, int], ...], line: str) -> None:
    outer = Frame("/p/main.py", 3)
    stacks = [(Frame("/p/sharding.py", 12), Frame(f"/p/{file}", n), outer) for file, n in callers]
    assert not shared_lines([(Frame("/p/model.py", 5), outer)])
    assert at_line(stacks[0], shared=shared_lines(stacks)) == line
