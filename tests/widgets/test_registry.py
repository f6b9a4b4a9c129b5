"""The table of panes holds together: what it names is there, on both sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import pytest

from inspector.compilation.request import PRODUCTS
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Need, Pane
from inspector.widgets.panes.registry import PANES, PaneEntry, Place, offered
from inspector.widgets.panes.stats import Stats

BROWSER = Path(__file__).resolve().parent.parent.parent / "frontend" / "src" / "panes"


def faults(lines: Iterable[PaneEntry]) -> list[str]:
    """Lists the mistakes in a table of panes."""
    lines = tuple(lines)
    said = [*get_args(messages.OfExplorer), *(kind for line in lines for kind in line.says)]
    heard = [*get_args(messages.ToExplorer), *(kind for line in lines for kind in line.hears)]
    types = [messages.type_of(kind) for kind in said]
    found = [f"two messages are a {name!r}" for name in types if types.count(name) > 1]
    names = [messages.type_of(kind) for kind in heard]
    found += [f"two requests are a {name!r}" for name in names if names.count(name) > 1]
    found += [f"two panes are called {line.name!r}" for line in lines if sum(o.name == line.name for o in lines) > 1]
    for line in lines:
        found += [f"{line.name}: no message is a {topic!r}" for topic in line.topics if topic not in types]
        found += [f"{line.name}: nothing is called {need!r}" for need in line.needs if need not in get_args(Need)]
        hooks = {"recorded" if need in PRODUCTS else need for need in line.needs} | (
            {"answer"} if line.hears else set()
        )
        missing = [hook for hook in hooks if getattr(line.make, hook, None) is getattr(Pane, hook, None)]
        found += [f"{line.name}: {line.make.__name__} has no {hook}" for hook in sorted(missing)]
        if line.place not in get_args(Place):
            found.append(f"{line.name}: no place is called {line.place!r}")
        file = BROWSER / f"{line.name}.ts"
        if not file.exists() or "export const pane = " not in file.read_text():
            found.append(f"{line.name}: {file.name} in frontend/src/panes exports no `pane`")
    return found


def test_the_table_holds_together() -> None:
    assert faults(PANES) == []
    assert set(PRODUCTS) <= set(get_args(Need))


def test_some_panes_require_matching_contents_of_a_program() -> None:
    usual = offered(has_kernels=False, has_partitions=False)
    kernels = offered(has_kernels=True, has_partitions=False)
    partitions = offered(has_kernels=False, has_partitions=True)
    assert [line.name for line in kernels if line not in usual] == ["pallas"]
    assert [line.name for line in partitions if line not in usual] == ["shardings"]
    assert offered(has_kernels=True, has_partitions=True) == PANES


STATS = next(line for line in PANES if line.name == "stats")


class Twin(TypedDict):
    """A message of a type that there is."""

    type: Literal["run"]
    id: int


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topics": ("stats", "statistics")}, "stats: no message is a 'statistics'"),
        ({"needs": ("results",)}, "stats: nothing is called 'results'"),
        ({"needs": ("program",)}, "stats: StatsPane has no program"),
        ({"needs": ("passes",)}, "stats: StatsPane has no recorded"),
        ({"hears": (Twin,)}, "stats: StatsPane has no answer"),
        ({"hears": (Twin,)}, "two requests are a 'run'"),
        ({"says": (Stats, Twin)}, "two messages are a 'run'"),
        ({"place": "bottom"}, "stats: no place is called 'bottom'"),
        ({"name": "numbers"}, "numbers: numbers.ts in frontend/src/panes exports no `pane`"),
        ({"name": "states"}, "states: states.ts in frontend/src/panes exports no `pane`"),
        ({"name": "run"}, "two panes are called 'run'"),
    ],
)
def test_a_fault_is_noticed(changes: dict[str, Any], said: str) -> None:
    broken = dataclasses.replace(STATS, **changes)
    assert said in faults(broken if line is STATS else line for line in PANES)
