"""The Instructions pane's rows: counted once for a variant, sorted, cut, gone with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from inspector.analysis.instructions import INSTRUCTION_COLUMNS
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import instructions
from inspector.widgets.panes.instructions import InstructionsPane
from tests.widgets.fakes import Mailbox, finished

NONE = Unavailable("this test has none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")
NOT_COUNTED = Unavailable("its cost is not counted")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """Which programs were counted; the n-th instruction costs n flops, the first is not known."""
    asked: list[Compiled] = []

    def count(compiled: Compiled) -> dict[str, InstructionCost]:
        asked.append(compiled)
        names = [each.name for each in compiled.module().instructions()]
        known = {name: InstructionCost(float(n), 0.0, 8.0 * n, 0.0) for n, name in enumerate(names)}
        return known | {names[0]: InstructionCost(NOT_COUNTED, 0.0, NOT_COUNTED, 0.0)}

    monkeypatch.setattr("inspector.stages.compiled.instruction_costs", count)
    return asked


@pytest.fixture
def explorer(counted: list[Compiled]) -> Iterator[Explorer]:
    made = finished()
    yield made
    made.close()


def ask(box: Mailbox, number: int, variant: int = 0, **changes: Any) -> dict[str, Any]:
    request = {"type": "instructions", "id": number, "variant": variant, "column": "flops", "is_descending": True}
    return box.reply("instruction_table", {**request, "has_fused": True, "profile": 0, "measured_roofs": 0, **changes})


def name_of(row: dict[str, Any]) -> str:
    name: str = row["cells"][[c.name for c in INSTRUCTION_COLUMNS.of("pane")].index("name")]["value"]
    return name


def test_nothing_is_counted_before_somebody_looks_and_then_once(explorer: Explorer, counted: list[Compiled]) -> None:
    box = Mailbox(explorer)
    assert counted == []
    ask(box, 1)
    once = len(counted)
    assert once > 0
    for number in (2, 3):
        ask(box, number)
    assert len(counted) == once


def test_rows_are_sorted_by_any_column_with_unknown_values_last(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    names = [each.name for each in explorer.baseline.compiled.module().instructions()]
    by_flops = ask(box, 1)["rows"]
    assert [name_of(row) for row in by_flops] == [*reversed(names[1:]), names[0]]
    columns = [head["name"] for head in ask(box, 30)["columns"]]
    flops = by_flops[-1]["cells"][columns.index("flops")]
    assert flops["value"] is None
    assert "flops: its cost is not counted" in flops["note"]
    assert by_flops[0]["cells"][columns.index("flops")]["text"] == str(len(names) - 1)
    rising = ask(box, 2, is_descending=False)["rows"]
    assert [name_of(row) for row in rising] == [*names[1:], names[0]]
    in_order = ask(box, 3, column="order", is_descending=False)["rows"]
    assert [name_of(row) for row in in_order] == names
    for number, column in enumerate(("name", "opcode", "shape", "bytes_accessed", "executions", "source"), start=4):
        assert len(ask(box, number, column=column)["rows"]) == len(names)
    by_name = ask(box, 20, column="name", is_descending=False)["rows"]
    assert [name_of(row) for row in by_name] == sorted(names)


def test_the_most_expensive_come_first(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox(explorer)
    unknown = ask(box, 1, column=None)
    assert unknown["column"] == "bytes_accessed"
    assert "least_s" not in [head["name"] for head in unknown["columns"]]
    monkeypatch.setattr(instructions, "stored_peak", lambda: ROOFS)
    estimated = ask(box, 2, column=None, measured_roofs=1)
    assert estimated["column"] == "least_s"
    place = [head["name"] for head in estimated["columns"]].index("least_s")
    times = {name_of(row): row["cells"][place]["value"] for row in estimated["rows"]}
    known = {p.name: p.least_s for p in explorer.baseline.compiled.roofline(ROOFS).points}
    assert {name: seconds for name, seconds in times.items() if seconds is not None} == known
    seconds = [each for each in times.values() if each is not None]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > 0
    assert ask(box, 3, column="measured_s", measured_roofs=1)["column"] == "least_s"  # not profiled


def test_the_columns_that_can_be_requested_are_those_of_the_pane() -> None:
    assert set(get_args(instructions.InstructionColumn)) == {c.name for c in INSTRUCTION_COLUMNS.of("pane")}


def test_fused_instructions_are_omitted_unless_requested(explorer: Explorer) -> None:
    box = Mailbox(explorer)
    table = explorer.baseline.compiled.instructions()
    alone = set(table[table["fusion"].isna()]["name"])
    assert {name_of(row) for row in ask(box, 1, has_fused=False)["rows"]} == alone
    assert alone < {name_of(row) for row in ask(box, 2)["rows"]}


def test_only_the_first_rows_of_a_large_program_are_sent(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "_SHOWN_ROWS", 2)
    reply = ask(Mailbox(explorer), 1)
    assert (len(reply["rows"]), reply["total"]) == (2, len(list(explorer.baseline.compiled.module().instructions())))


def test_counting_errors_appear_in_the_pane(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Mailbox(explorer)
    assert "no variant 9" in ask(box, 1, variant=9)["error"]["message"]
    running = explorer.add({"xla_cpu_enable_fast_math": True})
    assert "still compiling" in ask(box, 2, variant=running.number)["error"]["message"]


def test_a_variant_takes_its_table_along(explorer: Explorer) -> None:
    ask(Mailbox(explorer), 1)
    pane = explorer._compiles.board._panes["instructions"]
    assert isinstance(pane, InstructionsPane)
    assert set(pane._values) == {0}
    pane.forget(explorer.baseline)()
    assert pane._values == {}


@pytest.mark.parametrize("is_descending", [False, True])
def test_orders_are_those_of_pandas(is_descending: bool) -> None:
    source = np.random.default_rng(0)
    count = 500
    is_lost = source.random(count) < 0.2
    files = source.choice(["b.py", "a.py", "c/a.py"], count).astype(object)
    table = pd.DataFrame({
        "name": source.permutation([f"add.{i}" for i in range(count)]),
        "opcode": source.choice(["add", "dot", "fusion"], count),
        "shape": source.choice(["f32[8]", "f32[16]"], count),
        "flops": pd.array(source.integers(0, 9, count), "Float64"),
        "bytes_accessed": pd.array(source.integers(0, 2**60, count), "Float64"),
        "executions": pd.array(source.integers(1, 4, count), "Int64"),
        "source_file": np.where(is_lost, None, files),
        "source_line": pd.array(source.integers(1, 50, count), "Int64"),
    })  # fmt: skip
    table.loc[is_lost, ["flops", "executions", "source_line"]] = pd.NA
    for column in (c for c in get_args(instructions.InstructionColumn) if not c.endswith("_s")):
        keys = instructions._sort_keys(table, column)
        order = np.argsort(-keys if is_descending else keys, kind="stable")
        by = {"order": [], "source": ["source_file", "source_line"]}.get(column, [column])
        if by:
            expected = table.sort_values(by, ascending=not is_descending, kind="stable", na_position="last")
        else:
            expected = table[::-1] if is_descending else table
        assert order.tolist() == expected.index.tolist(), column
