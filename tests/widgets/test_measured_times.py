"""Measured times beside lines, in the graph and of collectives, in an Explorer of a profile that was recorded elsewhere."""

from __future__ import annotations

import collections
import dataclasses
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.profile.collective_times import collective_time
from inspector.analysis.profile.profile import Profile
from inspector.api.exploration import Exploration
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.text import display_text
from inspector.reports import bundle
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.widgets.explorer import Explorer
from inspector.widgets.saving.transcript import Transcript
from tests.modules import module_of
from tests.widgets.fakes import Mailbox

DEVICES = 2


def step(x: jax.Array) -> jax.Array:
    def body(_: int, y: jax.Array) -> jax.Array:
        return jnp.tanh(y @ y) + 1

    y = jax.lax.fori_loop(0, 3, body, x)
    total: jax.Array = jax.lax.psum(y, "i")
    return total + jnp.sort(x, axis=0)


@pytest.fixture(scope="module")
def profile_and_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Path]:
    x = jnp.ones((64, 64))
    lowered = inspector.lower(step, x, axis_env=[("i", DEVICES)])
    compiled = lowered.compile(target=f"cpu:{DEVICES}")
    profile = compiled.profile(x, repeat=3)
    variant = RecordedVariant(
        "baseline", compiled.options, compiled.target, "done", lowered=lowered, program=compiled, profile=profile
    )
    path = tmp_path_factory.mktemp("measured") / "step.inspector"
    bundle.save(RecordedExploration.now(lowered, (variant,)), path)
    return profile, path


@pytest.fixture(scope="module")
def profile(profile_and_file: tuple[Profile, Path]) -> Profile:
    return profile_and_file[0]


@pytest.fixture(scope="module")
def explorer(profile_and_file: tuple[Profile, Path]) -> Iterator[Explorer]:
    loaded = inspector.load(profile_and_file[1])
    assert isinstance(loaded, Exploration)
    made = loaded.explorer().wait(60)
    yield made
    made.close()


class Box(Mailbox):
    """The messages of one Explorer with their buffers."""

    def __init__(self, explorer: Explorer) -> None:
        self.buffers: dict[str, Any] = {}
        super().__init__(explorer)
        explorer._app.send = self._take

    def _take(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.buffers[content["type"]] = buffers
        self.all.append(content)


def each_execution(profile: Profile) -> dict[str, float]:
    """Returns the time of each instruction in one execution on one device, and of other work as ""."""
    assert isinstance(profile.executions, int)
    times: dict[str, float] = collections.defaultdict(float)
    for row in profile.rows:
        times[row.name if row.opcode else ""] += row.total_s / profile.executions / len(profile.devices)
    return times


def test_the_times_beside_lines_are_those_of_the_profile(explorer: Explorer, profile: Profile) -> None:
    assert isinstance(profile.executions, int)
    box, times = Box(explorer), each_execution(profile)
    box.send({"type": "line_costs", "variant": 0, "is_measured": False, "profile": 1})
    message = box.wait_for("line_costs", profile=1)
    assert message["total"]["measured_s"] == pytest.approx(sum(times.values()))
    assert "measured_s" not in message["reasons"]
    columns = json.loads(gzip.decompress(box.buffers["line_costs"][0]))
    for text in columns.values():
        assert sum(text["measured_s"]) == pytest.approx(sum(times.values()))
    names = display_text(explorer.baseline.compiled.hlo).instruction_names
    optimized = columns["optimized"]
    shown = {
        names[line]: seconds
        for line, seconds in zip(optimized["line"], optimized["measured_s"], strict=True)
        if line >= 0 and seconds
    }
    assert shown == pytest.approx({name: seconds for name, seconds in times.items() if name})


def test_the_times_of_source_lines_are_the_groups_of_the_profile(explorer: Explorer, profile: Profile) -> None:
    assert isinstance(profile.executions, int)
    lowered, compiled = explorer.baseline.lowered, explorer.baseline.compiled
    assert lowered is not None
    table = lowered.line_costs(compiled, profile=profile).table("source")
    lines = table.dropna(subset=["line"]).groupby("line")["measured_s"].sum()
    groups = {
        int(group.name.rpartition(":")[2]): group.total_s / profile.executions / DEVICES
        for group in profile.groups("line")
        if group.name is not None
    }
    assert len(groups) > 2
    assert {line: s for line, s in lines.items() if s} == pytest.approx(groups)


def test_costs_without_a_profile_state_the_reason(explorer: Explorer) -> None:
    lowered, compiled = explorer.baseline.lowered, explorer.baseline.compiled
    assert lowered is not None
    costs = lowered.line_costs(compiled)
    assert isinstance(costs.measured, Unavailable)
    assert "without a profile" in costs.measured.reason
    assert costs.table()["measured_s"].isna().all()


def test_a_box_of_the_graph_has_the_time_of_its_contents(explorer: Explorer, profile: Profile) -> None:
    box, times = Box(explorer), each_execution(profile)
    box.send({"type": "graph_times", "variant": 0, "profile": 1})
    assert box.wait_for("graph_times")["error"] is None
    seconds = np.frombuffer(gzip.decompress(box.buffers["graph_times"][0]), "<f4")
    module = explorer.baseline.compiled.module()
    known = {name: float(s) for name, s in zip(module.columns.names, seconds, strict=False) if not np.isnan(s)}
    assert seconds[len(module.columns)] == pytest.approx(sum(s for name, s in times.items() if name))
    (loop,) = (i for i in module.entry.instructions if i.opcode == "while")
    inside = sum(times.get(i.name, 0.0) for c in loop.called_computations for i in c.instructions)
    assert inside > 0
    assert known[loop.name] == pytest.approx(times.get(loop.name, 0.0) + inside)


def test_collectives_have_a_column_of_measured_times(explorer: Explorer, profile: Profile) -> None:
    box, times = Box(explorer), each_execution(profile)
    before, after = (box.last("collectives", program=stage) for stage in ("hlo", "optimized"))
    names = [head["name"] for head in after["columns"]]
    assert "measured_s" not in [head["name"] for head in before["columns"]]
    (row,) = after["rows"]
    assert row["cells"][names.index("measured_s")]["value"] == pytest.approx(times[row["name"]])


def test_a_new_profile_reaches_the_collectives(explorer: Explorer, profile: Profile) -> None:
    box = Box(explorer)
    explorer.baseline.profile = dataclasses.replace(profile, executions=6)
    box.all.clear()
    try:
        explorer._compiles.board.show_profile(explorer.baseline)
        message = box.wait_for("collectives", program="optimized")
    finally:
        explorer.baseline.profile = profile
        explorer._compiles.board.show_profile(explorer.baseline)
    names = [head["name"] for head in message["columns"]]
    (row,) = message["rows"]
    assert row["cells"][names.index("measured_s")]["value"] == pytest.approx(each_execution(profile)[row["name"]] / 2)


def test_other_work_belongs_to_no_line(explorer: Explorer, profile: Profile) -> None:
    lowered, compiled = explorer.baseline.lowered, explorer.baseline.compiled
    assert lowered is not None
    copy = dataclasses.replace(profile.rows[0], opcode="", parts=(), total_s=6.0)
    costs = lowered.line_costs(compiled, profile=dataclasses.replace(profile, rows=(*profile.rows, copy)))
    before = lowered.line_costs(compiled, profile=profile)
    for text in costs.listings:
        (nowhere,) = [cost for cost in costs.on(text) if cost.line is None and cost.phase is None]
        known = sum(cost.amounts.measured_s for cost in before.on(text) if cost.line is None and cost.phase is None)
        assert nowhere.amounts.measured_s - known == pytest.approx(6.0 / 3 / DEVICES), text


PAIR = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[] parameter(0)
  start = f32[] all-reduce-start(p), replica_groups={{0,1}}, to_apply=add
  n = f32[] negate(p)
  done = f32[] all-reduce-done(start)
  ROOT t = (f32[], f32[]) tuple(n, done)
}"""


@pytest.mark.parametrize(
    ("times", "seconds"),
    [({"start": 1.0, "n": 8.0, "done": 2.0}, 3.0), ({"done": 2.0}, 2.0), ({"n": 8.0}, None)],
)
def test_start_and_done_are_one_collective(times: Mapping[str, float], seconds: float | None) -> None:
    (only,) = collectives(module_of(PAIR), Mesh(("i",), (2,), "replica"), 2, 1)
    found = collective_time(only, times)
    assert found == seconds if seconds is not None else isinstance(found, Unavailable)


def test_a_page_of_the_explorer_has_the_times(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Transcript] = []
    repacked = Transcript.repacked

    def keep(transcript: Transcript) -> Transcript:
        saved.append(transcript)
        return repacked(transcript)

    monkeypatch.setattr(Transcript, "repacked", keep)
    explorer._recorder.page()
    (transcript,) = saved
    kept = {message.message["type"]: message.message for message in transcript.messages}
    assert kept["variant"]["profile"] == kept["line_costs"]["profile"] == kept["graph_times"]["profile"] == 1
    assert "measured_s" in [head["name"] for head in kept["collectives"]["columns"]]
