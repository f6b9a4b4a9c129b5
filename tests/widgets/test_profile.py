"""Profiles that follow runs: the pane Profile, and the measured times in other panes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from inspector.analysis.cost.attribution import Part
from inspector.analysis.profile.profile import Profile, WallTimes
from inspector.analysis.profile.rows import ProfileRow
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.errors import ExecutionError, Unavailable
from inspector.hlo.source import Frame, Origin
from tests.widgets.fakes import FakeWork, Mailbox

ORIGIN = Origin("jit(step)/mul", (Frame("/home/me/step.py", 7),))
NO_ESTIMATE = Unavailable("no roofs")


def row(name: str, seconds: float, device: str = "CPU:0", opcode: str = "fusion", calls: int = 2) -> ProfileRow:
    parts = (Part(name, ORIGIN, "forward", 1.0, 1.0, 1.0),) if opcode else ()
    return ProfileRow(
        name,
        opcode,
        "main",
        device,
        calls,
        seconds,
        seconds / calls,
        seconds / calls,
        (seconds / 2,) * 2,
        NO_ESTIMATE,
        parts,
    )


def profile_of(program: CompiledProgram, devices: tuple[str, ...] = ("CPU:0",)) -> Profile:
    names = [i.name for i in program.module().entry.instructions if i.opcode not in ("parameter", "constant")]
    rows = [row(name, 1e-3 * (n + 1), device) for device in devices for n, name in enumerate(reversed(names))]
    rows.append(row("MemcpyD2H", 5e-4, devices[0], ""))
    return Profile(
        "jit_step", devices, tuple(sorted(rows, key=lambda r: -r.total_s)), 2, WallTimes((2e-3,) * 2, (1e-3,) * 2), (4e-3,),
        ("kernels run in parallel",),
    )  # fmt: skip


class Profiled(FakeWork):
    """Work whose profiles a test ends."""

    devices: tuple[str, ...] = ("CPU:0",)

    def __init__(self) -> None:
        super().__init__()
        self.profiles: list[tuple[CompiledProgram, int, Job[Profile]]] = []
        self.profile_error: Exception | None = None

    def profile(self, compiled: CompiledProgram, repeat: int) -> Job[Profile]:
        if self.profile_error is not None:
            raise self.profile_error
        self.profiles.append((compiled, repeat, Job()))
        return self.profiles[-1][2]

    def finish_profile(self) -> Profile:
        program, _, job = self.profiles[-1]
        job.resolve(known := profile_of(program, self.devices))
        return known


class Box(Mailbox):
    """The messages of one Explorer, with requests of the pane."""

    def ask(self, number: int, by: str = "instruction", profile: int = 1) -> dict[str, Any]:
        request = {"type": "profile", "id": number, "variant": 0, "number": profile, "by": by}
        return self.reply("profile_table", request)


@pytest.fixture
def work() -> Profiled:
    return Profiled()


@pytest.fixture
def box(work: Profiled) -> Iterator[Box]:
    explorer = work.explorer()
    work.finish_all()
    yield Box(explorer)
    explorer.close()


def run(work: Profiled, box: Box, repeat: int = 20) -> None:
    before = len(work.runs)
    box.send({"type": "run", "variant": 0, "repeat": repeat})
    until(lambda: len(work.runs) > before)
    work.runs[-1].finish()


def until(holds: Any, limit_s: float = 20) -> Any:
    deadline = time.monotonic() + limit_s
    while not (result := holds()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return result


def test_a_run_is_followed_by_a_profile_of_a_few_executions(work: Profiled, box: Box) -> None:
    assert box.of("variant")[-1]["profile"] == 0
    run(work, box)
    until(lambda: work.profiles)
    assert work.profiles[0][1] == 5
    until(lambda: box.of("profiling", state="running"))
    known = work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    assert box.of("variant")[-1]["profile"] == 1
    reply = box.ask(1)
    assert reply["error"] is None
    assert (reply["heading"], reply["notes"]) == (known.heading, ["kernels run in parallel"])
    assert "device" not in [head["name"] for head in reply["columns"]]
    assert [r["instruction"] for r in reply["rows"]] == [r.name if r.opcode else "" for r in known.rows]
    assert sum(r["share"] for r in reply["rows"]) == pytest.approx(1)
    assert reply["rows"][0]["source"] == {"file": "/home/me/step.py", "line": 7, "library": ""}


def test_groups_have_the_times_of_the_profile(work: Profiled, box: Box) -> None:
    work.devices = ("CPU:0", "CPU:1")
    run(work, box)
    until(lambda: work.profiles)
    known = work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    assert "device" in [head["name"] for head in box.ask(1)["columns"]]
    for number, by in enumerate(("kernel", "line", "phase", "opcode", "scope"), 2):
        reply = box.ask(number, by)
        total = [head["name"] for head in reply["columns"]].index("total_s")
        assert reply["columns"][0]["title"] == by
        assert sum(r["cells"][total]["value"] for r in reply["rows"]) == pytest.approx(known.total_s), by


def test_other_panes_show_the_time_of_one_execution_on_one_device(work: Profiled, box: Box) -> None:
    request = {"type": "instructions", "variant": 0, "column": "measured_s", "is_descending": True, "has_fused": False}
    request["measured_roofs"] = 0
    roofs = {"type": "roofline", "variant": 0, "by": "kernel", "is_measured": False}
    assert "measured_s" not in heads(box.reply("roofline", {**roofs, "id": 1, "profile": 0}))
    work.devices = ("CPU:0", "CPU:1")
    run(work, box)
    until(lambda: work.profiles)
    known = work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    table = box.reply("instruction_table", {**request, "id": 2, "profile": 1})
    slowest = known.rows[0]
    name, measured = heads(table).index("name"), heads(table).index("measured_s")
    first = table["rows"][0]["cells"]
    assert first[name]["value"] == slowest.name
    assert first[measured]["value"] == pytest.approx(slowest.total_s / 2)  # two executions, and equal on two devices
    kernels = box.reply("roofline", {**roofs, "id": 3, "profile": 1})
    times = {r["instruction"]: r["cells"][heads(kernels).index("measured_s")]["value"] for r in kernels["rows"]}
    assert times
    assert all(seconds == pytest.approx(known.execution_times[n]) for n, seconds in times.items())


def heads(reply: dict[str, Any]) -> list[str]:
    return [head["name"] for head in reply["columns"]]


def test_a_failed_profile_leaves_the_run(work: Profiled, box: Box) -> None:
    work.profile_error = ExecutionError("no profiler here")
    run(work, box)
    failed = until(lambda: box.of("profiling", state="failed"))[0]
    assert failed["error"]["message"] == "no profiler here"
    assert box.of("run", state="done")
    assert box.of("variant")[-1]["profile"] == 0
    assert "was not run here" in box.ask(1, profile=0)["error"]["message"]


def test_a_profile_can_be_canceled_and_the_next_one_counts(work: Profiled, box: Box) -> None:
    run(work, box)
    until(lambda: work.profiles)
    box.send({"type": "cancel", "variant": 0})
    until(lambda: box.of("profiling", state="cancelled"))
    run(work, box, repeat=2)
    until(lambda: len(work.profiles) == 2)
    assert work.profiles[1][1] == 2
    work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    assert box.of("variant")[-1]["profile"] == 1


def test_a_saved_page_has_the_profile(work: Profiled, box: Box) -> None:
    run(work, box)
    until(lambda: work.profiles)
    known = work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    pane, variant = box.explorer._compiles.board._panes["profile"], box.explorer.baseline
    assert {r["by"] for r in pane.recordable(variant, is_whole=True)} == {
        "instruction", "kernel", "line", "scope", "phase", "opcode",
    }  # fmt: skip
    (excerpt,) = pane.excerpts(variant)
    assert known.heading in excerpt.title
    assert known.groups("kernel")[0].name in excerpt.text


def test_the_stored_output_follows_a_profile(work: Profiled, box: Box) -> None:
    recorder = box.explorer._recorder
    recorder._ask_new()
    run(work, box)
    until(lambda: work.profiles)
    work.finish_profile()
    until(lambda: box.of("profiling", state="done"))
    recorder._ask_new()
    replies = [reply.request for each in recorder._replies.values() for reply in each if reply.request is not None]
    assert {request["profile"] for request in replies if request["type"] in ("instructions", "roofline")} == {1}
    assert [request["number"] for request in replies if request["type"] == "profile"]
