"""The Explorer over record fakes: no engine, every ending in the hands of the test."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import ipywidgets.widgets.widget as registry
import pytest

from inspector.compilation.cost import Cost
from inspector.compilation.engine import READING_CACHE
from inspector.compilation.options.options import Options
from inspector.compilation.preview import COUNTING, Preview
from inspector.compilation.target import Target
from inspector.errors import (
    AtLeast,
    CancelledError,
    ClosedError,
    CompilationError,
    ExecutionError,
    FlagTypeError,
    LoweringError,
    Missing,
    TargetError,
    Unavailable,
)
from inspector.hlo.module import Module
from inspector.stages.variant_forms import variants_of
from inspector.toolchain.flags import catalog
from inspector.widgets.explorer import Explorer
from inspector.widgets.saving.fallback import text_form
from tests.analysis.edited import randomly_edited
from tests.widgets import fakes
from tests.widgets.fakes import HLO, PROTO, FakeWork, Mailbox, ask_to_add, ask_to_lower

FAST_MATH = "xla_cpu_enable_fast_math"


@pytest.fixture
def work() -> FakeWork:
    return FakeWork()


@pytest.fixture
def explorer(work: FakeWork) -> Iterator[Explorer]:
    made = work.explorer()
    yield made
    made.close()


@pytest.fixture
def box(explorer: Explorer) -> Mailbox:
    return Mailbox(explorer)


def done(work: FakeWork, explorer: Explorer) -> None:
    work.finish_all()
    explorer.wait(10)


def test_stats_mark_partially_known_numbers(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    work.finish(0, cost=Cost(AtLeast(4176, [Missing("lu.3", "custom call")]), 0.0, Unavailable("nobody knows")))
    explorer.wait(10)
    rows = {row["key"]: row for row in box.of("stats")[-1]["rows"]}
    assert (rows["flops"]["value"], rows["flops"]["reason"]) == (4176, "1 custom call not counted")
    assert (rows["transcendentals"]["value"], rows["transcendentals"]["reason"]) == (0, None)
    assert (rows["bytes_accessed"]["value"], rows["bytes_accessed"]["reason"]) == (None, "nobody knows")
    assert "at least 4.18k; 1 custom call not counted" in text_form(explorer.lowered, explorer.variants)


def test_the_baseline_compiles_at_once_and_its_panes_fill(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    baseline = explorer.baseline
    assert baseline.is_baseline
    assert (baseline.state, baseline.label, str(baseline.target)) == ("queued", "baseline", "attached")
    assert box.last("variant")["state"] == "queued"
    box.wait_for("document", pane="hlo")
    assert {m["pane"] for m in box.of("document")} == {"stablehlo", "hlo"}
    assert box.last("unavailable", pane="jaxpr")["remedy"] == "lower the function"
    work.jobs[0].advance("compiling")
    assert (baseline.state, box.last("variant")["stage"]) == ("running", "compiling")
    done(work, explorer)
    assert baseline.state == box.last("variant")["state"] == "done"
    assert box.last("document", pane="optimized")["variant"] == 0
    assert {m["program"] for m in box.of("collectives")} == {"hlo", "optimized"}
    assert box.last("stats")["rows"][0]["key"] == "peak_bytes"
    assert not box.of("diff")
    assert not box.of("notice")


def test_cached_results_are_shown_before_the_texts() -> None:
    work = FakeWork()
    work.stage = READING_CACHE
    explorer = work.explorer()
    box = Mailbox(explorer)
    with pytest.raises(TimeoutError):
        explorer.wait(0.2)
    assert not box.of("document")
    done(work, explorer)
    assert [m["pane"] for m in box.of("document")] == ["optimized", "stablehlo", "hlo"]
    explorer.close()


def test_the_texts_are_sent_once_a_cached_program_is_recompiled() -> None:
    work = FakeWork()
    work.stage = READING_CACHE
    explorer = work.explorer()
    box = Mailbox(explorer)
    work.jobs[0].advance("compiling")
    box.wait_for("document", pane="hlo")
    assert {m["pane"] for m in box.of("document")} == {"stablehlo", "hlo"}
    explorer.close()


def test_a_cached_variant_shows_the_saved_time(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add({"xla_cpu_enable_fast_math": True})
    assert box.last("variant", variant=0)["cached"] == ""
    work.finish(0, timings={"compile_s": 2.0, "cache_s": 0.01, "saved_s": 1.99})
    work.finish(1)
    explorer.wait(10)
    assert "the original compile took 2 s." in box.last("variant", variant=0)["cached"]
    assert box.last("variant", variant=1)["cached"] == ""


def test_a_variant_is_compared_with_the_baseline(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    variant = explorer.add({FAST_MATH: True}, "cpu:8")
    assert work.requests[1].options == Options(flags={FAST_MATH: True})
    assert work.requests[1].target == Target("cpu:8")
    assert variant.label == f"{FAST_MATH}=true"
    work.finish(0)
    work.finish(1, hlo=HLO.replace("f32", "f16", 1))
    explorer.wait(10)
    (diff,) = box.of("diff")
    assert (diff["baseline"], diff["variant"]) == (0, 1)
    assert len(diff["hunks"]) == 1
    assert diff["summary"].startswith("the same ")
    table = explorer.compare()
    assert list(table.columns)[:3] == ["attached", f"cpu:8 {FAST_MATH}=true", f"delta cpu:8 {FAST_MATH}=true"]


def test_any_two_variants_are_compared_on_request(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    for value in (True, False):
        explorer.add({FAST_MATH: value})
    work.finish(0)
    work.finish(1, hlo=HLO.replace("f32", "f16", 1))
    box.send({"type": "compare", "baseline": 2, "variant": 1})
    work.finish(2)
    explorer.wait(10)
    assert [(m["baseline"], m["variant"]) for m in box.of("diff")] == [(0, 1), (0, 2), (2, 1)]
    box.send({"type": "compare", "baseline": 1, "variant": 0})
    assert len(box.wait_for("diff", baseline=1, variant=0)["hunks"]) == 1
    explorer.remove(explorer.variants[1])
    box.send({"type": "compare", "baseline": 1, "variant": 0})
    assert "no variant 1" in box.wait_for("notice")["message"]


def test_costs_of_changes_are_sent_on_request(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add({FAST_MATH: True})
    edited = randomly_edited(Module.from_proto(PROTO), 3, 4).columns.data
    work.finish(0)
    work.finish(1, hlo_proto=edited)
    explorer.wait(10)
    diff = box.last("diff")
    assert diff["count"] == len(diff["changes"]) > 0
    assert all(change["line"] >= -1 for change in diff["changes"])
    box.send({"type": "diff_costs", "id": 1, "baseline": 0, "variant": 1})
    explorer._threads.drain(time.monotonic() + 60)
    told = box.last("diff_costs", id=1)
    assert told["error"] is None
    assert len(told["costs"]) == len(told["unknown"]) == diff["count"]
    assert all(len(costs) == 4 for costs in told["costs"])
    box.send({"type": "diff_costs", "id": 2, "baseline": 0, "variant": 7})
    explorer._threads.drain(time.monotonic() + 10)
    assert "no variant 7" in box.last("diff_costs", id=2)["error"]["message"]


def test_the_preview_fills_the_panes_before_there_is_code(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add({FAST_MATH: True})
    for index in (0, 1):
        work.jobs[index].advance("compiling")
        work.preview(index)
    explorer._threads.drain(time.monotonic() + 10)
    assert {m["variant"] for m in box.of("document", pane="optimized")} == {0, 1}
    assert {(m["variant"], m["program"]) for m in box.of("collectives")} >= {(0, "optimized"), (1, "optimized")}
    assert [m["variant"] for m in box.of("diff")] == [1]
    assert not box.of("stats")
    box.send({"type": "graph", "variant": 1})
    assert box.wait_for("graph", variant=1)["instructions"] > 0
    assert not box.of("graph_costs")
    assert [v.state for v in explorer.variants] == ["running", "running"]
    work.finish(0)
    work.jobs[1].fail(CompilationError("no code for that"))
    explorer.wait(10)
    assert [m["variant"] for m in box.of("stats")] == [0]
    assert len(box.of("document", pane="optimized")) == 2, "what was shown is not sent again"
    assert box.last("variant", variant=1)["state"] == "failed"


def test_numbers_come_with_the_preview_and_the_cost_by_itself(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add({FAST_MATH: True})

    def shown(variant: int) -> dict[str, tuple[float | None, str | None]]:
        explorer._threads.drain(time.monotonic() + 10)
        rows = box.last("stats", variant=variant)["rows"]
        return {row["key"]: (row["value"], row["reason"]) for row in rows}

    whole = Preview.of(fakes.compiled(work.requests[0]), 0.1)
    early = dataclasses.replace(whole, cost=COUNTING, before_code=True)
    for job in work.jobs:
        job.show(early)
    assert shown(0)["temp_bytes"] == shown(1)["temp_bytes"] == (16, None)
    assert shown(0)["flops"] == shown(1)["flops"] == (None, "being counted")
    assert shown(0)["compile_s"] == (None, "not known before code generation")
    work.jobs[0].show(dataclasses.replace(early, cost=whole.cost))
    assert shown(0)["flops"] == (2, None)
    assert shown(1)["flops"] == (None, "being counted")
    work.finish(0)
    work.jobs[1].fail(CompilationError("no code for that"))
    explorer.wait(10)
    assert shown(0)["compile_s"] == (0.5, None)
    assert shown(1)["flops"] == (None, "the compile ended before its operations were counted")
    assert len(box.of("document", pane="optimized", variant=0)) == 1


def test_variants_that_end_before_the_baseline_are_compared_later(
    work: FakeWork, explorer: Explorer, box: Mailbox
) -> None:
    explorer.add({FAST_MATH: True})
    explorer.add({FAST_MATH: False})
    work.finish(2)
    work.finish(1)
    assert explorer.variants[1].shown.wait(10)
    assert explorer.variants[2].shown.wait(10)
    assert not box.of("diff")
    work.finish(0)
    explorer.wait(10)
    assert sorted(m["variant"] for m in box.of("diff")) == [1, 2]


def test_a_variant_takes_the_baselines_target(work: FakeWork) -> None:
    explorer = work.explorer(target="cpu:8", options=f"--{FAST_MATH}=true")
    explorer.add()
    assert [str(r.target) for r in work.requests] == ["cpu:8", "cpu:8"]
    assert [v.label for v in explorer.variants] == [f"{FAST_MATH}=true", f"without {FAST_MATH}"]
    explorer.close()


def test_wrong_requests_start_nothing(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    with pytest.raises(FlagTypeError):
        explorer.add({FAST_MATH: "yes"})
    with pytest.raises(TargetError):
        explorer.add(None, "moon")
    work.submit_error = CompilationError("no worker")
    with pytest.raises(CompilationError):
        explorer.add({FAST_MATH: True})
    assert len(explorer.variants) == len(work.requests) == 1
    assert len(box.of("variant")) == 1


def test_a_failure_is_the_variants_own(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    variant = explorer.add({FAST_MATH: True})
    work.jobs[1].fail(CompilationError("XLA refused <b>"))
    work.finish(0)
    explorer.wait(10)
    assert variant.state == "failed"
    assert box.last("variant", variant=1)["error"] == {"kind": "CompilationError", "message": "XLA refused <b>"}
    with pytest.raises(CompilationError):
        _ = variant.compiled
    assert list(explorer.compare().columns) == ["defaults", "unknown"]
    assert not box.of("diff")


def test_cancelled_from_the_browser(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    box.send({"type": "cancel", "variant": 0})
    explorer.wait(10)
    assert explorer.baseline.state == box.last("variant")["state"] == "cancelled"
    assert box.last("variant")["error"] is None
    with pytest.raises(CancelledError):
        explorer.collectives()


def test_an_error_while_panes_fill_does_not_leave_the_variant_running(
    work: FakeWork, explorer: Explorer, box: Mailbox
) -> None:
    work.finish(0, hlo_proto=b"junk")
    explorer.wait(10)
    assert box.last("variant")["state"] == "done"
    assert box.last("notice")["message"].startswith("ModuleError: Cannot read 4 bytes as an HLO module")


def test_removing(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    variant = explorer.add({FAST_MATH: True})
    with pytest.raises(ValueError, match=r"baseline cannot be removed"):
        explorer.remove(explorer.baseline)
    explorer.remove(variant)
    assert work.jobs[1].stage == "cancelled"
    assert explorer.variants == (explorer.baseline,)
    assert box.last("variant_removed")["variant"] == 1
    with pytest.raises(ValueError, match="or already removed"):
        explorer.remove(variant)
    done(work, explorer)
    assert [m for m in box.all[box.all.index(box.last("variant_removed")) + 1 :] if m.get("variant") == 1] == []


def test_a_variant_removed_while_its_text_is_sent_is_not_stored(
    work: FakeWork, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant, publish = explorer.add({FAST_MATH: True}), explorer._app.publish_document

    def publish_then_remove(document: Any) -> None:
        publish(document)
        if variant in explorer.variants and document.message().get("variant") == variant.number:
            explorer.remove(variant)

    monkeypatch.setattr(explorer._app, "publish_document", publish_then_remove)
    done(work, explorer)
    assert explorer.variants == (explorer.baseline,)
    assert set(explorer._compiles.board._panes["optimized"]._shown) == {0}
    assert set(explorer._compiles.board._modules) == {0}


def test_nothing_of_a_variant_comes_after_it_is_gone(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    """Removed while its panes fill: the app keeps messages, so a late one would stay for ever."""
    variant = explorer.add({FAST_MATH: True})
    held, go = threading.Event(), threading.Event()
    explorer._threads.later(lambda: (held.set(), go.wait(10)))  # type: ignore[arg-type,return-value]
    assert held.wait(10)
    work.finish(1)
    explorer.remove(variant)
    go.set()
    done(work, explorer)
    gone = box.all.index(box.last("variant_removed"))
    assert not [m for m in box.all[gone + 1 :] if m.get("variant") == 1]
    assert set(explorer._compiles.board._panes["optimized"]._shown) == {0}
    assert set(explorer._compiles.board._modules) == {0}


def test_requests_for_removed_variants_get_a_notice(explorer: Explorer, box: Mailbox) -> None:
    for request in (
        {"type": "cancel", "variant": 9},
        {"type": "remove", "variant": 0},
        {"type": "run", "variant": 9, "repeat": 1},
    ):
        box.send(request)
        assert box.last("notice")["level"] == "error"
    assert "There is no variant 9. It may have been removed" in box.last("notice")["message"]


def test_selection_is_a_value(explorer: Explorer, box: Mailbox) -> None:
    selection = {"pane": "hlo", "variant": None, "file": None, "line": 3, "origin": None, "instruction": "add.1"}
    box.send({"type": "select", "selection": selection})
    assert explorer.selection == selection


# --------------------------------------------------------------------------- runs and graphs


def test_a_run_is_measured_and_shown(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    done(work, explorer)
    box.send({"type": "run", "variant": 0, "repeat": 3})
    explorer.wait(10)
    assert (work.runs[0].repeat, box.last("run")["state"]) == (3, "running")
    work.runs[0].finish()
    explorer.wait(10)
    message = box.last("run")
    assert message["state"] == "done"
    assert message["result"]["median_s"] == 0.1


@pytest.mark.parametrize(("end", "state"), [("cancel", "cancelled"), ("fail", "failed")])
def test_runs_that_end_badly(work: FakeWork, explorer: Explorer, box: Mailbox, end: str, state: str) -> None:
    done(work, explorer)
    box.send({"type": "run", "variant": 0, "repeat": 3})
    explorer.wait(10)
    if end == "cancel":
        box.send({"type": "cancel", "variant": 0})
    else:
        work.runs[0].job.fail(ExecutionError("out of memory"))
    explorer.wait(10)
    message = box.last("run")
    assert message["state"] == state
    assert (message["error"] or {}).get("message") == ("out of memory" if end == "fail" else None)
    assert explorer.baseline.state == "done"


def test_a_run_reports_its_stages_and_the_job_that_it_waits_for(
    work: FakeWork, explorer: Explorer, box: Mailbox
) -> None:
    done(work, explorer)
    box.send({"type": "run", "variant": 0, "repeat": 3})
    explorer._threads.drain(time.monotonic() + 10)
    for stage in ("queued behind compiling 'jit_other' for cpu", "running"):
        work.runs[0].job.advance(stage)
        explorer._threads.drain(time.monotonic() + 10)
        assert (box.last("run")["state"], box.last("run")["stage"]) == ("running", stage)
    work.runs[0].finish()
    explorer._threads.drain(time.monotonic() + 10)
    assert box.last("run")["state"] == "done"


def test_a_run_that_cannot_start_shows_the_reason_in_its_pane(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    done(work, explorer)
    work.run = lambda *_: (_ for _ in ()).throw(RuntimeError("array has been deleted"))  # type: ignore[method-assign]
    box.send({"type": "run", "variant": 0, "repeat": 3})
    explorer.wait(10)
    assert box.last("run")["error"] == {"kind": "RuntimeError", "message": "array has been deleted"}


def test_a_compiling_variant_is_not_run_or_drawn(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    box.send({"type": "run", "variant": 0, "repeat": 3})
    box.send({"type": "graph", "variant": 0})
    explorer._threads.drain(time.monotonic() + 10)
    assert "baseline is still compiling (queued)" in box.last("run")["error"]["message"]
    assert "still compiling" in box.wait_for("graph")["error"]["message"]
    assert work.runs == []


def test_a_graph_and_its_costs_are_sent_once(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    done(work, explorer)
    module = explorer.baseline.compiled.module()
    for _ in range(2):
        box.send({"type": "graph", "variant": 0})
        box.send({"type": "graph", "variant": 7})  # gone
    box.wait_for("graph_costs")
    (graph,), (costs,) = box.of("graph"), box.of("graph_costs")
    assert (graph["variant"], graph["instructions"], graph["error"]) == (0, len(module.columns), None)
    assert (costs["variant"], costs["error"]) == (0, None)


def test_graph_costs_of_another_variant(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    done(work, explorer)
    explorer.add({FAST_MATH: True})
    work.finish(1)
    explorer.wait(10)
    for baseline in (0, 0, 7):
        box.send({"type": "graph_before", "variant": 1, "baseline": baseline})
    before = box.wait_for("graph_before")
    assert (before["variant"], before["baseline"], before["error"]) == (1, 0, None)
    box.send({"type": "graph", "variant": 1})
    box.wait_for("graph_costs", variant=1)
    assert len(box.of("graph_before")) == 1


# --------------------------------------------------------------------------- lowering again


def test_another_platform_is_lowered_for_once(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    tpu, again = explorer.add(None, "tpu:v5e:2x4"), explorer.add({FAST_MATH: True}, "tpu:v6e:2x2")
    assert work.lowerings == [([], "tpu")]
    assert [r.program.platform for r in work.requests] == ["cpu", "tpu", "tpu"]
    assert tpu.lowered is again.lowered
    assert explorer.baseline.lowered is explorer.lowered is not tpu.lowered
    done(work, explorer)
    assert {(m["pane"], m["variant"]) for m in box.of("document")} >= {
        ("stablehlo", None),
        ("stablehlo", 1),
        ("hlo", 2),
    }
    assert ("source", 1) not in {(m["pane"], m["variant"]) for m in box.of("document")}


def test_the_end_of_a_compile_is_reported_while_the_thread_is_busy(
    work: FakeWork, explorer: Explorer, box: Mailbox
) -> None:
    go = threading.Event()
    explorer._threads.later(lambda: go.wait(60))
    work.finish(0)
    assert box.last("variant")["state"] == "done"
    assert not box.of("stats")
    go.set()
    explorer.wait(10)
    assert box.of("stats")


def test_a_variant_is_compared_with_the_first_one_for_its_target(
    work: FakeWork, explorer: Explorer, box: Mailbox
) -> None:
    explorer.add(None, "tpu:v5e:2x4")
    explorer.add({FAST_MATH: True}, "tpu:v5e:2x4")
    explorer.add({FAST_MATH: True})

    def finish(number: int) -> None:
        work.finish(number)
        assert explorer.variants[number].shown.wait(10)
        explorer._threads.drain(time.monotonic() + 10)

    def pairs() -> list[tuple[int, int]]:
        return [(m["baseline"], m["variant"]) for m in box.of("diff")]

    finish(2)
    finish(1)  # later than what is compared with it
    assert pairs() == [(1, 2)]
    finish(0)
    assert pairs()[1:] == [(0, 1), (0, 2)]
    finish(3)
    assert pairs()[3:] == [(0, 3)]


def test_a_variant_has_its_target_and_whether_it_can_run(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add(None, "tpu:v5e:2x4")
    explorer.add({FAST_MATH: True}, "gpu:h100:8")
    facts = [[box.last("variant", variant=n)[key] for key in ("label", "target", "platform")] for n in range(3)]
    assert facts == [
        ["baseline", "attached", "cpu"],
        ["tpu:v5e:2x4", "tpu:v5e:2x4", "tpu"],
        [f"{FAST_MATH}=true", "gpu:h100:8", "gpu"],
    ]
    reasons = [box.last("variant", variant=n)["no_run"] for n in range(3)]
    assert reasons[0] == ""
    assert reasons[1] == "tpu:v5e:2x4 is not attached: its programs can be compiled but not run."
    assert reasons[2].startswith("gpu:h100:8 is not attached")


def test_an_empty_target_field_stands_for_the_baselines_target(work: FakeWork) -> None:
    explorer = work.explorer(target="cpu:2")
    box = Mailbox(explorer)
    assert box.last("controls")["target"] == "cpu:2"
    ask_to_add(explorer, FAST_MATH, "true")
    ask_to_add(explorer, target=" cpu:4 ")
    assert [str(v.target) for v in explorer.variants] == ["cpu:2", "cpu:2", "cpu:4"]
    ask_to_lower(explorer, "i=8")
    explorer._threads.drain(time.monotonic() + 10)
    assert (box.last("controls")["target"], box.last("controls")["axes"]) == ("cpu:8", "i=8")
    done(work, explorer)


@pytest.mark.parametrize("error", [LoweringError("no such kernel"), NotImplementedError("no rule for tpu")])
def test_a_failed_lowering_for_a_platform_is_a_failed_variant(
    work: FakeWork, explorer: Explorer, box: Mailbox, error: Exception
) -> None:
    work.lower_error = error
    variant = explorer.add(None, "tpu:v5e:2x4")
    assert (variant.state, variant.error) == ("failed", error)
    assert box.last("variant")["error"] == {"kind": type(error).__name__, "message": str(error)}
    assert len(work.requests) == 1
    with pytest.raises(type(error)):
        _ = variant.compiled
    done(work, explorer)


def test_the_controls_lower_for_another_platform_off_the_comms_thread(work: FakeWork, explorer: Explorer) -> None:
    threads: list[str] = []
    lower = work.lower

    def spied(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return lower(*arguments)

    work.lower = spied  # type: ignore[method-assign]
    ask_to_add(explorer, target="tpu:v5e:2x4")
    explorer._threads.drain(time.monotonic() + 10)
    assert threads
    assert threads[0].startswith("inspector-explorer")
    assert [str(v.target) for v in explorer.variants] == ["attached", "tpu:v5e:2x4"]


def test_lowering_again_keeps_the_platforms(work: FakeWork, explorer: Explorer) -> None:
    explorer.add(None, "tpu:v5e:2x4")
    ask_to_lower(explorer, "i=4")
    explorer._threads.drain(time.monotonic() + 10)
    assert work.lowerings[1:] == [([("i", 4)], "cpu"), ([("i", 4)], "tpu")]
    assert [v.lowered.program.platform for v in explorer.variants if v.lowered] == ["cpu", "tpu"]


def test_lowering_again_replaces_every_variant(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    explorer.add({FAST_MATH: True})
    work.finish(0)
    ask_to_lower(explorer, "i=4, j=2")
    explorer._threads.drain(time.monotonic() + 10)
    assert work.lowerings == [([("i", 4), ("j", 2)], "cpu")]
    assert [v.number for v in explorer.variants] == [2, 3]
    assert explorer.baseline.is_baseline
    assert [v.options for v in explorer.variants] == [Options(), Options(flags={FAST_MATH: True})]
    # Eight replicas need eight devices.
    assert [str(v.target) for v in explorer.variants] == ["cpu:8", "cpu:8"]
    assert work.jobs[1].stage == "cancelled"
    assert [m["variant"] for m in box.of("variant_removed")] == [0, 1]
    assert explorer.lowered.program.mesh is not None
    done(work, explorer)
    assert [(m["baseline"], m["variant"]) for m in box.of("diff")] == [(2, 3)]


@pytest.mark.parametrize("error", [LoweringError("unbound <axis>"), ZeroDivisionError("user code")])
def test_a_failed_lowering_is_reported_and_changes_nothing(
    work: FakeWork, explorer: Explorer, box: Mailbox, error: Exception
) -> None:
    work.lower_error = error
    before = explorer.variants
    ask_to_lower(explorer, "k=3")
    explorer._threads.drain(time.monotonic() + 10)
    assert explorer.variants == before
    assert box.last("said")["error"] == {"kind": type(error).__name__, "message": str(error)}
    assert work.jobs[0].stage == "queued"


def test_a_variant_added_while_lowering_again_is_of_the_new_program(work: FakeWork, explorer: Explorer) -> None:
    submit, reached, go = work.submit, threading.Event(), threading.Event()

    def slow(request: Any) -> Any:
        job = submit(request)
        if request.options.flags and not reached.is_set():
            reached.set()
            go.wait(10)
        return job

    work.submit = slow  # type: ignore[method-assign]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        added = pool.submit(explorer.add, {FAST_MATH: True})
        assert reached.wait(10)
        explorer._controls._start_over([("i", 4)])
        go.set()
        variant = added.result(10)
    assert variant in explorer.variants
    assert all(v.job is not None for v in explorer.variants)
    requests = {id(job): request for job, request in zip(work.jobs, work.requests, strict=True)}
    assert all(requests[id(v.job)].program is explorer.lowered.program for v in explorer.variants)
    assert work.jobs[1].stage == "cancelled"


# --------------------------------------------------------------------------- waiting, threads, ends


def test_wait_covers_the_contents_of_panes(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    for _ in range(20):
        explorer.add({FAST_MATH: True})
        threading.Thread(target=work.finish_all).start()
        explorer.wait(10)
        assert all(v.shown.is_set() for v in explorer.variants)
        assert len(box.of("stats")) == len(explorer.variants)


def test_a_timeout_names_the_pending_work(explorer: Explorer) -> None:
    explorer.add({FAST_MATH: True})
    with pytest.raises(TimeoutError, match=rf"Not done after 0\.2 s: baseline \(queued\), {FAST_MATH}=true \(queued\)"):
        explorer.wait(0.2)


def test_many_threads_add_at_once(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda n: explorer.add({"xla_dump_to": str(n)}), range(40)))
    assert len({v.number for v in added}) == 40
    assert len(explorer.variants) == 41
    for variant in added:
        index = work.jobs.index(variant.job)  # type: ignore[arg-type]
        assert work.requests[index].options == variant.options
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work.finish, range(len(work.jobs))))
    explorer.wait(60)
    assert {m["variant"] for m in box.of("diff")} == {v.number for v in added}
    assert not box.of("notice")


def test_a_click_returns_while_jobs_hang(work: FakeWork, explorer: Explorer) -> None:
    ask_to_add(explorer, f"--{FAST_MATH}=true")
    assert [v.state for v in explorer.variants] == ["queued", "queued"]


def test_close_cancels_everything_and_lets_waiters_go(work: FakeWork, box: Mailbox, explorer: Explorer) -> None:
    done(work, explorer)
    box.send({"type": "run", "variant": 0, "repeat": 1})
    explorer.wait(10)
    explorer.add({FAST_MATH: True})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(explorer.wait, 30)
        explorer.close()
        with pytest.raises(ClosedError, match="is closed"):
            waiting.result(5)
    assert work.jobs[1].stage == "cancelled"
    assert work.runs[0].job.stage == "cancelled"
    explorer.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.add(),
        lambda e: e.tune(),
        lambda e: e.remove(e),
        lambda e: e.wait(0),
        lambda e: e.compare(),
        lambda e: e.collectives(),
        lambda e: e.lowered,
        lambda e: e.variants,
        lambda e: e.baseline,
        lambda e: e.retraces,
    ],
)
def test_a_closed_explorer_refuses_requests(work: FakeWork, explorer: Explorer, ask: Any) -> None:
    explorer.close()
    with pytest.raises(ClosedError, match=r"This Explorer is closed\. Call explore\(\) again"):
        ask(explorer)
    assert len(work.requests) == 1


def test_a_lowering_that_ends_after_close_starts_nothing(work: FakeWork, explorer: Explorer) -> None:
    held, go = threading.Event(), threading.Event()
    lower = work.lower

    def slow(*arguments: Any) -> Any:
        held.set()
        go.wait(10)
        return lower(*arguments)

    work.lower = slow  # type: ignore[method-assign]
    ask_to_lower(explorer, "i=2")
    assert held.wait(10)
    explorer.close()
    go.set()
    explorer._threads._main.shutdown(wait=True)
    assert all(job.done() for job in work.jobs)


def test_a_refused_baseline_leaves_no_widget(work: FakeWork) -> None:
    before = set(registry._instances)
    with pytest.raises(FlagTypeError):
        work.explorer(options={FAST_MATH: "yes"})
    assert set(registry._instances) == before


def test_arguments_of_compare() -> None:
    options = Options(flags={FAST_MATH: True})
    entries = [options, {FAST_MATH: True}, f"--{FAST_MATH}=true", f"{FAST_MATH}=true", "cpu:2", Target("cpu:3")]
    assert variants_of(entries) == [
        (options, None), ({FAST_MATH: True}, None), (f"--{FAST_MATH}=true", None), (f"{FAST_MATH}=true", None),
        (None, "cpu:2"), (None, Target("cpu:3")),
    ]  # fmt: skip


def test_collectives_are_the_baselines(work: FakeWork, explorer: Explorer) -> None:
    done(work, explorer)
    assert len(explorer.collectives()) == 0
    assert not isinstance(explorer.baseline.compiled.memory, Unavailable)


def test_flags_are_read_when_the_first_compile_is_over(work: FakeWork, monkeypatch: pytest.MonkeyPatch) -> None:
    read = threading.Event()
    monkeypatch.setattr(catalog, "options", read.set)
    explorer = work.explorer()
    explorer._controls._searches.submit(lambda: None).result(60)  # whatever was begun before is done
    assert not read.is_set()
    work.finish(0)
    assert read.wait(60)
    explorer.close()


def test_an_equal_request_is_the_variant_that_is_there(work: FakeWork, explorer: Explorer, box: Mailbox) -> None:
    first = explorer.add({FAST_MATH: True})
    other = explorer.add({FAST_MATH: False})
    for equal in (f"--{FAST_MATH}=true", {FAST_MATH: True}, Options.of({FAST_MATH: True})):
        assert explorer.add(equal) is first
        assert box.last("existing")["variant"] == first.number
    assert explorer.add() is explorer.baseline
    assert box.last("existing")["variant"] == 0
    assert len(explorer.variants) == len(work.requests) == 3
    assert not any(entry.message["type"] == "existing" for entry in explorer._app.stored_messages()), (
        "of no use to a later browser"
    )
    work.jobs[first.number].fail(CompilationError("XLA refused"))
    again = explorer.add({FAST_MATH: True})
    assert again is not first, "a failed compile is tried again"
    explorer.remove(other)
    assert explorer.add({FAST_MATH: False}) is not other
