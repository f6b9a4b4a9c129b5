"""Products recorded on demand, with fakes: requested once, sent, canceled, removed with their variant."""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from inspector.compilation.records.assembly import Assembly, Code
from inspector.compilation.records.pass_counts import Counts
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.errors import CompilationError, Unavailable
from inspector.widgets.explorer import Explorer
from tests.widgets.fakes import HLO, FakeWork, Mailbox
from tests.widgets.transcripts import tables

TEXTS = Texts.of([HLO, HLO.replace("f32", "f16", 1)])
PASSES = Passes(
    (
        Pass(0, "simplification", "algsimp", True, 0.25, 0, 1, TEXTS),
        Pass(1, "simplification", "dce", False, Unavailable("not timed"), 1, 1, TEXTS),
    ),
    "a note",
)
ASSEMBLY = Assembly(
    (
        Code("thunks", "", (), "text", "text", zlib.compress(b"000: kKernel")),
        Code("assembly", "fusion", ("fusion",), "asm", "elf", zlib.compress(b"no ELF")),
    )
)


@pytest.fixture
def work() -> FakeWork:
    return FakeWork()


@pytest.fixture
def explorer(work: FakeWork) -> Iterator[Explorer]:
    made = work.explorer()
    work.finish(0)
    made.wait(10)
    yield made
    made.close()


class Box(Mailbox):
    """Keeps the buffers of messages too."""

    def __init__(self, explorer: Explorer) -> None:
        super().__init__(explorer)
        self.buffers: list[tuple[dict[str, Any], list[bytes]]] = []
        self.explorer._app.send = self._keep

    def _keep(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.all.append(content)
        self.buffers.append((content, list(buffers or [])))

    def texts(self, kind: str) -> list[str]:
        (found,) = (buffers for content, buffers in self.buffers if content["type"] == kind)
        return [gzip.decompress(b).decode("utf-8", "replace") for b in found]


@pytest.fixture
def box(explorer: Explorer) -> Box:
    return Box(explorer)


def record(box: Box, product: str, variant: int = 0) -> None:
    box.send({"type": "record", "variant": variant, "product": product})


def drain(explorer: Explorer) -> None:
    explorer._threads.drain(time.monotonic() + 10)


def test_passes_are_recorded_by_a_second_compile_of_the_same(work: FakeWork, explorer: Explorer, box: Box) -> None:
    assert len(work.requests) == 1
    record(box, "passes")
    assert work.requests[1].products == frozenset({"passes"})
    assert (work.requests[1].program, work.requests[1].options) == (work.requests[0].program, work.requests[0].options)
    assert box.last("recording")["state"] == "queued"
    work.jobs[1].advance("compiling")
    assert (box.last("recording")["state"], box.last("recording")["stage"]) == ("running", "compiling")
    record(box, "passes")
    assert len(work.requests) == 2, "what is under way is not asked for again"
    work.finish(1, passes=PASSES)
    drain(explorer)
    told = box.last("passes")
    assert told["note"] == "a note"
    assert [(r["name"], r["changed"], r["duration_s"], r["reason"]) for r in told["rows"]] == [
        ("algsimp", True, 0.25, ""),
        ("dce", False, None, "not timed"),
    ]
    assert box.last("recording")["state"] == "done"
    record(box, "passes")
    assert len(work.requests) == 2, "nor what is done"


def test_a_snapshot_is_sent_as_a_graph_with_its_changes(work: FakeWork, explorer: Explorer, box: Box) -> None:
    texts = Texts.of([HLO, HLO.replace(" s32[] xor(", " s32[] or(", 1)])
    record(box, "passes")
    work.finish(1, passes=Passes((Pass(0, "simplification", "algsimp", True, 0.25, 0, 1, texts),)))
    drain(explorer)
    for number, is_before in enumerate((True, False)):
        box.send({"type": "pass_graph", "id": 1 + number, "variant": 0, "index": 0, "is_before": is_before})
        deadline = time.monotonic() + 60
        while not any(m["type"] == "pass_graph" and m["id"] == 1 + number for m in box.all):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for (told, buffers), is_before in zip(
        [each for each in box.buffers if each[0]["type"] == "pass_graph"], (True, False), strict=True
    ):
        assert (told["error"], told["is_before"], told["index"]) == (None, is_before, 0)
        names = gzip.decompress(buffers[1]).decode().split("\n")
        assert len(names) == told["instructions"]
        done = gzip.decompress(buffers[4])
        assert len(done) == len(names)
        words = {name: told["words"][word - 1] for name, word in zip(names, done, strict=True) if word}
        assert [*words.values()] == ["rewrote"], words
    box.send({"type": "pass_graph", "id": 3, "variant": 0, "index": 7, "is_before": False})
    drain(explorer)
    assert "No pass 7" in box.last("pass_graph")["error"]["message"]


def test_a_pass_is_sent_as_its_later_text_and_removed_lines(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.finish(1, passes=PASSES)
    drain(explorer)
    box.send({"type": "pass", "id": 5, "variant": 0, "index": 0, "since": None, "whole": True})
    drain(explorer)
    reply = box.last("pass_change", id=5)
    (found,) = (buffers for content, buffers in box.buffers if content["type"] == "pass_change")
    after, _, origins, _, defining, removed = (gzip.decompress(b).decode("utf-8", "replace") for b in found)
    assert reply["error"] is None
    assert len(reply["hunks"]) == 1
    (a0, a1, b0, b1) = reply["hunks"][0]
    assert (a1 - a0, b1 - b0, removed.count("f32") - after.split("\n")[b0].count("f32")) == (1, 1, 1)
    assert [" = " in line for line in after.split("\n")] == [byte == "\x01" for byte in defining]
    assert any(name.startswith("jit(") for entry in json.loads(origins)["origins"] for name, _ in entry)
    box.send({"type": "pass", "id": 6, "variant": 0, "index": 99, "since": None, "whole": True})
    drain(explorer)
    assert box.last("pass_change", id=6)["error"]["kind"] == "ParameterError"


def test_code_is_sent_with_its_instructions_and_its_text_on_request(
    work: FakeWork, explorer: Explorer, box: Box
) -> None:
    record(box, "assembly")
    assert work.requests[1].products == frozenset({"assembly"})
    work.finish(1, assembly=ASSEMBLY)
    drain(explorer)
    (table,) = map(json.loads, box.texts("code"))
    assert [(e["stage"], e["kernel"]) for e in table["entries"]] == [("thunks", ""), ("assembly", "fusion")]
    box.send({"type": "code", "id": 1, "variant": 0, "index": 0})
    drain(explorer)
    text, _, origins, _, _ = box.texts("code_text")
    assert text == "000: kKernel"
    assert json.loads(origins)["origins"] == []
    assert box.last("code_text", id=1)["facts"] == []
    box.send({"type": "code", "id": 2, "variant": 0, "index": 1})
    drain(explorer)
    assert "ELF" in box.last("code_text", id=2)["reason"] or "capstone" in box.last("code_text", id=2)["reason"]


def test_pages_without_scripts_name_passes_and_code(work: FakeWork, explorer: Explorer, box: Box) -> None:
    passes = dataclasses.replace(PASSES, counts=tuple(Counts(number, 1, 64, 0) for number in (7, 5)))
    for index, product in enumerate(("passes", "assembly"), start=1):
        record(box, product)
        work.finish(index, passes=passes, assembly=ASSEMBLY)
        drain(explorer)
    lines = repr(explorer).split("\n")
    assert lines[-2:] == ["    Passes: 2, 1 changed the module", "    Code: thunks, assembly; thunks"]
    page = explorer._recorder.html()
    assert "baseline: Passes: 2, 1 changed the module (1 line)" in page
    assert "0 simplification/algsimp: 7 → 5 instructions, 250 ms" in page
    assert "000: kKernel" in page


def test_products_missing_from_a_backend_are_reported(work: FakeWork, explorer: Explorer, box: Box) -> None:
    for index, (product, pane) in enumerate({"passes": "passes", "assembly": "code"}.items(), start=1):
        record(box, product)
        why_not = Unavailable("the compiler wrote none", "Try another.")
        work.finish(index, passes=why_not, assembly=why_not)
        drain(explorer)
        assert box.last(pane)["note"] == "The compiler wrote none. Try another."


def test_a_failure_is_reported_and_can_be_retried(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.jobs[1].fail(CompilationError("no"))
    drain(explorer)
    assert box.last("recording")["error"] == {"kind": "CompilationError", "message": "no"}
    record(box, "passes")
    assert len(work.requests) == 3


def test_cancelling_a_variant_stops_its_recordings(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    record(box, "assembly")
    box.send({"type": "cancel", "variant": 0})
    drain(explorer)
    assert [job.stage for job in work.jobs[1:]] == ["cancelled", "cancelled"]
    assert {m["product"]: m["state"] for m in box.of("recording")} == {"passes": "cancelled", "assembly": "cancelled"}
    assert explorer.baseline.state == "done"


def test_a_removed_variant_takes_its_recordings_along(work: FakeWork, explorer: Explorer, box: Box) -> None:
    variant = explorer.add({"xla_cpu_enable_fast_math": True})
    work.finish(1)
    explorer.wait(10)
    record(box, "passes", variant.number)
    explorer.remove(variant)
    assert work.jobs[2].stage == "cancelled"
    drain(explorer)
    assert not box.of("recording", state="cancelled")
    explorer._app._replay("another")
    assert not [m for m in box.all if m.get("to") == "another" and m["type"] == "recording"]


def test_a_compiling_variant_cannot_be_recorded(work: FakeWork, box: Box) -> None:
    explorer = work.explorer()
    other = Box(explorer)
    record(other, "passes")
    assert "still compiling" in other.last("notice")["message"]
    other.send({"type": "pass", "id": 1, "variant": 0, "index": 0, "since": None, "whole": True})
    drain(explorer)
    assert "Record them first" in other.last("notice")["message"]
    explorer.close()


def test_existing_products_are_shown_without_compiling(work: FakeWork, box: Box) -> None:
    explorer = work.explorer()
    work.finish(1, passes=PASSES)
    explorer.wait(10)
    other = Box(explorer)
    record(other, "passes")
    drain(explorer)
    assert len(work.requests) == 2
    assert len(other.last("passes")["rows"]) == 2
    explorer.close()


def test_the_list_has_counts_where_they_are_known_and_the_time_of_the_whole(
    work: FakeWork, explorer: Explorer, box: Box
) -> None:
    counts = tuple(Counts(number, 1, 64, 0) for number in (7, 5))
    record(box, "passes")
    work.finish(1, passes=dataclasses.replace(PASSES, counts=counts))
    drain(explorer)
    told = box.last("passes")
    assert told["start"]["instructions"] == 7
    assert [row["counts"]["instructions"] for row in told["rows"]] == [5, 5]
    assert [row["is_step"] for row in told["rows"]] == [True, False]
    times = {part["name"]: part["duration_s"] for part in told["times"]}
    assert (times["tracing to a jaxpr"], times["lowering to StableHLO"]) == (0.1, 0.2)
    assert all((part["duration_s"] is None) == bool(part["reason"]) for part in told["times"])


def test_an_excerpt_and_the_difference_of_any_two_are_sent(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.finish(1, passes=PASSES)
    drain(explorer)
    for number, since in enumerate((None, -1, 0)):
        box.send({"type": "pass", "id": 50 + number, "variant": 0, "index": 1, "since": since, "whole": False})
        drain(explorer)
        reply = box.last("pass_change", id=50 + number)
        assert (reply["error"], reply["whole"], reply["since"]) == (None, False, since)
        assert len(reply["hunks"]) == (1 if since == -1 else 0)


def test_only_the_last_waiting_request_of_a_browser_is_answered(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.finish(1, passes=PASSES)
    drain(explorer)
    gate = threading.Event()
    explorer._threads.later(gate.wait)
    for number in (90, 91, 92, 500_000):
        box.send({"type": "pass", "id": number, "variant": 0, "index": 0, "since": None, "whole": False})
    gate.set()
    drain(explorer)
    assert [m["id"] for m in box.of("pass_change")] == [92, 500_000]


def test_instructions_operations_and_lines_are_followed(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.finish(1, passes=PASSES)
    drain(explorer)
    name = next(line.split(" = ")[0].strip().lstrip("%") for line in HLO.split("\n") if line.startswith("  %"))
    asked = {"instruction": name, "index": None, "op_name": "", "file": "", "line": 0}
    box.send({"type": "follow", "id": 1, "variant": 0, **asked})
    drain(explorer)
    story = box.last("story", id=1)
    assert story["error"] is None
    assert story["touches"][0]["word"] == "given"
    assert story["fate"].startswith("in the compiled program as")
    for number, other in enumerate(({"instruction": "nothing"}, {"instruction": "", "op_name": "no/such"}), start=2):
        box.send({"type": "follow", "id": number, "variant": 0, **asked, **other})
        drain(explorer)
        assert box.last("story", id=number)["error"]["kind"] == "ParameterError"


def test_a_variant_without_a_pass_is_one_request(work: FakeWork, explorer: Explorer, box: Box) -> None:
    record(box, "passes")
    work.finish(1, passes=PASSES)
    drain(explorer)
    box.send({"type": "pass_variant", "variant": 0, "index": 0, "which": "without"})
    drain(explorer)
    assert work.requests[2].options.as_dict() == {"xla_disable_hlo_passes": "algsimp"}
    assert explorer.variants[1].label == "xla_disable_hlo_passes=algsimp"
    box.send({"type": "pass_variant", "variant": 0, "index": 0, "which": "until"})
    drain(explorer)
    assert "only passes that the backend needs changed the module" in box.last("notice")["message"]


def test_a_notebook_saves_products_recorded_after_the_compile(
    work: FakeWork, explorer: Explorer, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = explorer._recorder

    def asked() -> set[str]:
        kept._ask_new()
        (table,) = tables(kept._form()["text/html"])
        return {entry["request"]["type"] for entry in table["replies"]}

    assert "roofline" in (before := asked())
    assert not before & {"pass", "code"}
    told: list[str] = []
    monkeypatch.setattr(type(kept), "refresh", lambda _: told.append("refresh"))
    for index, product in enumerate(("passes", "assembly"), start=1):
        told.clear()
        record(box, product)
        work.finish(index, passes=PASSES, assembly=ASSEMBLY)
        drain(explorer)
        drain(explorer)  # the notebook's turn is behind what is shown
        assert told == ["refresh"]
    assert asked() == before | {"pass", "code"}
