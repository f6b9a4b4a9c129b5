"""The focus and the arrangement of panes, from Python: readable, settable, refused where it makes no sense."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from inspector.errors import ParameterError
from inspector.widgets.explorer import Explorer
from tests.widgets.fakes import Mailbox, finished

COLUMNS = {"columns": [{"panes": ["source", "jaxpr"], "active": "jaxpr", "weight": 2}, {"panes": ["optimized"]}]}
STACKED = {
    "columns": [
        {"groups": [{"panes": ["source"], "weight": 2}, {"panes": ["hlo", "jaxpr"], "active": "jaxpr"}], "weight": 3},
        {"panes": ["optimized"]},
    ]
}


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    made = finished()
    yield made
    made.close()


def test_browsers_get_the_focus_also_later_ones(explorer: Explorer) -> None:
    explorer.focus("optimized", instruction="%add.1")
    explorer.focus("hlo", line=3, variant=explorer.baseline)
    box = Mailbox(explorer)
    (told,) = box.of("focus")
    assert (told["pane"], told["line"], told["instruction"], told["variant"]) == ("hlo", 3, None, 0)
    explorer.focus("optimized", instruction="%add.1")
    assert box.last("focus")["instruction"] == "add.1"


def test_a_selection_can_be_set_and_read_back(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    selection = {"pane": "hlo", "variant": None, "file": None, "line": 3, "origin": None, "instruction": "add.1"}
    box.send({"type": "select", "selection": selection})
    assert explorer.selection == selection
    explorer.selection = explorer.selection
    told = box.last("focus")
    assert (told["pane"], told["instruction"], told["line"]) == ("hlo", "add.1", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pane": "asm"}, r"Unknown pane 'asm'. Available: source, "),
        ({"pane": "stats", "line": 3}, r"A line must be a number from 1 in one of source, .*; got 3 in 'stats'"),
        ({"pane": "source", "line": 0}, "got 0 in 'source'"),
        ({"pane": "source", "instruction": "add"}, "An instruction must be a name in one of hlo, optimized"),
        ({"pane": "hlo", "line": 1, "instruction": "add"}, "not both"),
    ],
)
def test_a_place_that_there_cannot_be_is_refused(explorer: Explorer, arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        explorer.focus(**arguments)  # type: ignore[arg-type]


def test_an_arrangement_is_a_value_that_the_notebook_keeps(explorer: Explorer) -> None:
    assert explorer.arrangement == {}
    explorer.arrangement = "memory"
    assert explorer._app.get_state()["arrangement"] == {"preset": "memory"}
    explorer.arrangement = COLUMNS
    found = explorer.arrangement
    (first,) = found["columns"][0]["groups"]
    assert (first["panes"], first["active"], found["columns"][0]["weight"]) == (["source", "jaxpr"], "jaxpr", 2)
    alone = {"panes": ["optimized"], "active": "optimized", "weight": 1.0}
    assert found["columns"][1] == {"groups": [alone], "weight": 1.0}
    assert found["dock"] is None
    assert {"source", "jaxpr", "optimized", *found["hidden"]} == set(explorer._panes)
    explorer.arrangement = found  # what was read can be set
    assert explorer.arrangement == found


def test_groups_of_a_column_stand_one_below_the_other(explorer: Explorer) -> None:
    explorer.arrangement = STACKED
    found = explorer.arrangement
    left, right = found["columns"]
    assert [(group["panes"], group["active"], group["weight"]) for group in left["groups"]] == [
        (["source"], "source", 2),
        (["hlo", "jaxpr"], "jaxpr", 1),
    ]
    assert (left["weight"], right["weight"]) == (3, 1)
    assert len(json.dumps(found)) < 700  # bytes in the notebook
    explorer.arrangement = found
    assert explorer.arrangement == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("wide", "The named arrangements are read, compare, communicate, memory; got 'wide'"),
        ({}, "An arrangement must be a name or a mapping such as"),
        ({"columns": [["source"]]}, 'A group must be a mapping with a list of "panes"'),
        ({"columns": [{"groups": []}]}, 'The "groups" of a column must be a list of mappings with "panes", got'),
        ({"columns": [{"groups": [{"panes": ["hlo"]}, {"panes": ["hlo"]}]}]}, "'hlo' appears twice"),
        (
            {"columns": [{"panes": ["source"], "active": "hlo"}]},
            "The active pane must be in its group, source; got 'hlo'",
        ),
        ({"columns": [{"panes": ["asm"]}]}, "Unknown pane 'asm'. Available: source"),
        ({"columns": [{"panes": ["hlo"]}], "dock": {"panes": ["hlo"]}}, "'hlo' appears twice"),
    ],
)
def test_an_arrangement_that_there_cannot_be_is_refused(explorer: Explorer, value: object, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        explorer.arrangement = value  # type: ignore[assignment]
    assert explorer.arrangement == {}


def test_the_heights_of_the_panel_are_read_back(explorer: Explorer) -> None:
    explorer.arrangement = {**COLUMNS, "dock": {"panes": ["graph", "stats"]}, "dockShares": {"graph": 0.7}}
    explorer.arrangement = dict(explorer.arrangement)
    assert explorer.arrangement["dockShares"] == {"graph": 0.7}
