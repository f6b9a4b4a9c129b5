"""The mesh bench and the race: what they show, refuse and run; the numbers that pages compute again are Python's."""

from __future__ import annotations

import json
from typing import Any

import pytest

import inspector
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.course.explorables import mesh_bench as bench
from inspector.errors import ParameterError
from inspector.widgets.explorables.explorable import Explorable
from tests.course.explorable_numbers import FILE, expanded, numbers


def content(explorable: Explorable, kind: str) -> dict[str, Any]:
    (message,) = [m.message for m in explorable._app.stored_messages() if m.message["type"] == kind]
    return dict(message)


def test_the_numbers_of_the_front_ends_tests_are_pythons() -> None:
    known = json.loads(FILE.read_text(encoding="utf-8"))
    assert known == numbers(), "write the file again: python -m tests.course.explorable_numbers"
    for grouping in known["groupings"]:
        assert expanded(grouping["iota"]) == grouping["groups"]


@pytest.mark.slow
@pytest.mark.parametrize("over", [["x"], ["y"], ["x", "y"]])
def test_a_mesh_runs(over: list[str]) -> None:
    reply = bench._run({"axis_names": ["x", "y"], "axis_sizes": [2, 4], "over": over})
    assert reply["error"] is None
    assert expanded(reply["replica_groups"]) == reply["groups"]
    for group in reply["groups"]:
        assert {reply["after"][id_] for id_ in group} == {str(sum(2**member for member in group))}


def test_a_run_of_unknown_axes_reports_an_error() -> None:
    reply = bench._run({"axis_names": ["x"], "axis_sizes": [2], "over": ["z"]})
    assert "z" in reply["error"]["message"]


def test_a_mesh_has_a_slice_of_its_size() -> None:
    message = content(inspector.mesh_bench({"data": 4, "model": 4}, "model"), "mesh_bench")
    assert (message["shape"], message["over"], len(message["devices"])) == ([4, 4], ["model"], 16)
    ring = inspector.mesh_bench({"i": 6}, slice=Torus((6,), (True,)))
    assert content(ring, "mesh_bench")["wraps"] == [True]
    assert repr(ring) == "<Mesh of i = 6>"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({"x": 64},), "2 to 32 devices"),
        ((3,), "expected sizes by name"),
        (({"x": 0},), "2 to 32 devices"),
        (({"x": 4}, "z"), "there is no axis 'z'. Axes: x"),
    ],
)
def test_impossible_meshes_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        inspector.mesh_bench(*arguments)


def test_a_slice_of_another_size_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected 8 chips"):
        inspector.mesh_bench(slice=Torus((4, 4), (False, False)))


def test_a_race_has_the_algorithms_of_each_network() -> None:
    message = content(inspector.race("all-reduce", 8), "race")
    (table,) = [each for each in message["tables"] if each["opcode"] == "all-reduce"]
    names = {network["name"]: {cost["algorithm"] for cost in network["costs"]} for network in table["networks"]}
    assert set(names) == {"ring", "torus 4x2", "switch"}
    assert "all links" in names["torus 4x2"]
    assert any("NVLS" in name for name in names["switch"])
    page = inspector.race("all-gather", 4)._bundle()["text/html"]
    assert "halving and doubling" in page[: page.index("application/x-inspector")]


@pytest.mark.parametrize("arguments", [("psum",), ("all-reduce", 5), ("all-reduce", "8")])
def test_impossible_races_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ParameterError, match="expected one of"):
        inspector.race(*arguments)
