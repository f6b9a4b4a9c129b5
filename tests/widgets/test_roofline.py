"""The Roofline pane's messages: kernels and their sums, under roofs that are published or measured."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from inspector.analysis.cost.kernels import kernels
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import roofline
from tests.widgets.fakes import Mailbox, finished

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Peak]:
    """The peaks that were measured; each instruction computes 10 flops and moves 8 bytes, the last kernel is unknown."""
    asked: list[Peak] = []

    def measure() -> Peak:
        asked.append(ROOFS)
        return ROOFS

    def count(compiled: Compiled) -> dict[str, InstructionCost]:
        names = [each.name for each in compiled.module().instructions()]
        known = {name: InstructionCost(10.0, 0.0, 8.0, 8.0) for name in names}
        last = kernels(compiled.module())[-1].instruction.name
        return known | {last: InstructionCost(NONE, NONE, NONE, NONE)}

    monkeypatch.setattr(roofline, "measured_peak", measure)
    monkeypatch.setattr("inspector.stages.compiled.instruction_costs", count)
    monkeypatch.setattr("inspector.stages.compiled._rooflines", weakref.WeakKeyDictionary())  # with the real costs
    return asked


@pytest.fixture
def explorer(measured: list[Peak]) -> Iterator[Explorer]:
    made = finished()
    yield made
    made.close()


def ask(explorer: Explorer, number: int, **changes: Any) -> dict[str, Any]:
    request = {"type": "roofline", "id": number, "variant": 0, "by": "kernel", "is_measured": False, "profile": 0}
    return Mailbox(explorer).reply("roofline", request | changes)


def values(reply: dict[str, Any], column: str) -> list[Any]:
    """The values of a column of the table."""
    index = [head["name"] for head in reply["columns"]].index(column)
    return [row["cells"][index]["value"] for row in reply["rows"]]


def test_without_peak_figures_the_kernels_and_a_remedy_are_sent(explorer: Explorer, measured: list[Peak]) -> None:
    reply = ask(explorer, 1)
    assert reply["error"] is None
    assert reply["peak"] is None
    assert reply["can_measure"]
    assert "published figures" in reply["reason"]
    assert reply["count"] == len(reply["points"]) == len(explorer.baseline.compiled.roofline().points) > 1
    assert {row["least_s"] for row in reply["points"]} == {None}
    assert values(reply, "least_s") == [None] * len(reply["rows"])
    assert set(values(reply, "flops")) == {10.0, None}
    assert "link_bytes" not in [head["name"] for head in reply["columns"]], "there are no collectives"
    assert measured == []


def test_this_machine_is_measured_once(explorer: Explorer, measured: list[Peak]) -> None:
    first, second = (ask(explorer, number, is_measured=True) for number in (1, 2))
    assert len(measured) == 1
    assert first["points"] == second["points"]
    assert first["peak"] == {
        "chip": "toy",
        "source": "this test",
        "name": "f32",
        "flops_per_s": 1e6,
        "memory_bytes_per_s": 1e5,
        "reason": "",
    }
    assert not first["can_measure"]
    known = [row for row in first["points"] if row["least_s"] is not None]
    assert {row["least_s"] for row in known} == {8 / 1e5}
    assert {row["bound_by"] for row in known} == {"memory"}
    assert sum(row["share"] for row in known) == pytest.approx(1)


@pytest.mark.parametrize("by", ["scope", "line", "phase", "opcode", "roof"])
def test_sums_have_every_kernel_once(explorer: Explorer, by: str) -> None:
    kernels, sums = ask(explorer, 1, is_measured=True), ask(explorer, 2, by=by, is_measured=True)
    assert sums["columns"][0]["title"] == by
    assert sum(values(sums, "kernels")) == kernels["count"]
    for number in ("flops", "main_memory_bytes", "least_s"):
        assert sum(known or 0 for known in values(sums, number)) == pytest.approx(
            sum(known or 0 for known in values(kernels, number))
        )
    assert set(values(sums, "slowest")) <= set(values(kernels, "name"))
    times = [head["name"] for head in sums["columns"]].index("least_s")
    cells = [row["cells"][times] for row in sums["rows"]]
    unknown = None in values(kernels, "least_s")
    assert any(cell["value"] is None or "not counted" in cell["note"] for cell in cells) == unknown
    assert all(cell["text"].startswith("≈ ") == bool(cell["note"]) for cell in cells if cell["value"] is not None)


def test_the_slowest_kernels_are_shown_and_the_rest_are_counted(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = ask(explorer, 1)["count"]
    monkeypatch.setattr(roofline, "_SHOWN", 1)
    assert [(len(reply["points"]), reply["count"]) for reply in [ask(explorer, 2)]] == [(1, count)]
    groups = ask(explorer, 3, by="opcode")
    assert len(groups["rows"]) == 1 < groups["count"]


def test_a_failure_and_a_removed_variant_are_reported(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no variant 7" in ask(explorer, 1, variant=7)["error"]["message"]

    def fail(*_: object) -> None:
        raise RuntimeError("no worker")

    monkeypatch.setattr("inspector.stages.compiled.instruction_costs", fail)
    reply = ask(explorer, 2, is_measured=True)
    assert reply["error"]["message"] == "no worker"
    assert reply["rows"] == []
