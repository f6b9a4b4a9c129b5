"""The Findings pane: rows, proofs in the background that stop, variants of changed programs, and what is stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import inspector
from inspector.analysis.findings import registry
from inspector.analysis.findings.registry import Detector
from inspector.compilation.engine import Job
from inspector.errors import ModuleError
from inspector.stages import findings as stage
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import findings as pane
from tests.findings.test_undonated import PARAMS, X, momentum
from tests.widgets.fakes import Mailbox, finished

STATE = {"params": PARAMS, "m": PARAMS}


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    made = inspector.explore(momentum, STATE, X, target="cpu").wait(120)
    yield made
    made.close()


def prove(mailbox: Mailbox, row: int | None, action: str = "start", time_limit_s: float = 60.0) -> None:
    mailbox.send({"type": "prove", "variant": 0, "do": action, "row": row, "time_limit_s": time_limit_s})


def until(mailbox: Mailbox, state: str) -> None:
    deadline = time.monotonic() + 120
    while not mailbox.of("proving", state=state):
        assert time.monotonic() < deadline, mailbox.of("proving")
        time.sleep(0.02)


def test_a_row_has_what_python_has_and_its_proof_becomes_a_variant(explorer: Explorer, tmp_path: Any) -> None:
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "findings", "variant": 0})
    message = mailbox.wait_for("findings")
    (finding,) = explorer.findings()
    (row,) = message["rows"]
    assert (row["title"], row["gain"], row["remedy"]) == (finding.title, finding.gain, finding.remedy)
    assert row["instructions"] == [*finding.instructions]
    assert (row["verdict"], row["no_proof"], row["changed"]) == ("", "", None)
    assert message["summary"] == explorer.findings().summary
    assert message["looked_for"] == [detector.finds for detector in registry.DETECTORS]

    prove(mailbox, 0)
    until(mailbox, "done")
    proof = explorer.findings()[0].proof
    assert proof is not None
    assert proof.verdict == "proven"
    explorer.wait(120)
    (row,) = mailbox.last("findings")["rows"]
    assert (row["verdict"], row["proof"]) == ("proven", str(proof))
    changed = explorer.variants[row["changed"]]
    assert changed.label == "remedy: undonated"
    assert changed.compiled.program == proof.compiled.program
    assert not explorer.findings(changed)
    assert "jax.buffer_donor" in changed.lowered.stablehlo or "aliasing_output" in changed.lowered.stablehlo
    assert "1 finding: up to" in repr(explorer)
    assert "proof: proven" in explorer._recorder.html()

    explorer.save(tmp_path / "proved.inspector")
    again = inspector.load(tmp_path / "proved.inspector")
    assert [variant.origin for variant in again.variants] == ["", "remedy: undonated"]
    shown = again.explorer().wait(120)
    assert [variant.label for variant in shown.variants] == ["baseline", "remedy: undonated"]
    assert len(shown.findings()) == 1
    shown.close()

    explorer.remove(changed)
    deadline = time.monotonic() + 30
    while mailbox.last("findings")["rows"][0]["changed"] is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    (row,) = mailbox.last("findings")["rows"]
    assert (row["changed"], row["can_add"]) == (None, True)
    mailbox.send({"type": "add_changed", "variant": 0, "row": 0})
    explorer._threads.drain()
    assert explorer.variants[1].label == "remedy: undonated"


def test_all_are_proven_without_variants(explorer: Explorer) -> None:
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "findings", "variant": 0})
    mailbox.wait_for("findings")
    prove(mailbox, None)
    until(mailbox, "done")
    (row,) = mailbox.last("findings")["rows"]
    assert (row["verdict"], row["changed"], row["can_add"]) == ("proven", None, True)
    assert len(explorer.variants) == 1


def test_a_proof_is_stopped_and_can_be_tried_again(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, begun = Mailbox(explorer), threading.Event()
    mailbox.send({"type": "findings", "variant": 0})
    mailbox.wait_for("findings")

    class Endless:
        name = "endless"

        def submit(self, request: Any) -> Job[Any]:
            begun.set()
            return Job()

        run = submit

        def close(self) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr(stage, "_engine", lambda about, engine: engine or Endless())
        prove(mailbox, 0)
        assert begun.wait(30)
        mailbox.send({"type": "ready", "browser": "another"})  # the comm answers in the meantime
        assert mailbox.last("session")
        prove(mailbox, 0, "stop")
        until(mailbox, "cancelled")
    assert explorer.findings()[0].proof is None
    assert mailbox.last("findings")["rows"][0]["verdict"] == ""
    prove(mailbox, 0)
    until(mailbox, "done")
    assert mailbox.last("findings")["rows"][0]["verdict"] == "proven"


def test_no_proof_begins_after_the_time_limit(explorer: Explorer) -> None:
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "findings", "variant": 0})
    mailbox.wait_for("findings")
    prove(mailbox, None, time_limit_s=-1)
    until(mailbox, "done")
    assert mailbox.last("findings")["rows"][0]["verdict"] == ""


def test_a_detector_that_fails_hides_no_other(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(subject: Any) -> Any:
        raise ModuleError("no such thing")

    more = (Detector("broken", "what fails", fails), *registry.DETECTORS)
    monkeypatch.setattr(stage, "DETECTORS", more)
    found = explorer.findings()
    assert found.unknown == ("broken: ModuleError: no such thing",)
    assert "not looked for broken: ModuleError" in repr(found)
    assert [finding.kind for finding in found] == ["undonated"]


def test_a_program_without_stablehlo_says_what_is_not_looked_for(tmp_path: Any) -> None:
    compiled = inspector.lower(momentum, STATE, X).compile(target="cpu")
    (tmp_path / "step.hlo").write_text(compiled.hlo)
    explorer = inspector.load(tmp_path / "step.hlo").explorer().wait(60)
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "findings", "variant": 0})
    message = mailbox.wait_for("findings")
    assert message["rows"] == []
    assert message["unknown"][-1].startswith("what needs the HLO before optimization: ")
    explorer.close()


def test_an_analysis_that_fails_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **keywords: Any) -> Any:
        raise ModuleError("a damaged module")

    monkeypatch.setattr(pane, "findings_under", fails)
    explorer = finished()
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "findings", "variant": 0})
    assert mailbox.wait_for("findings")["error"] == {"kind": "ModuleError", "message": "a damaged module"}
    explorer.close()
