"""Described columns: every view has the same cells, and unknown values have their reasons."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from inspector.errors import About, AtLeast, Missing, Unavailable
from inspector.support.columns import TableColumn, TableDescription, View, ViewCell

ROWS: list[dict[str, Any]] = [
    {"name": "a", "bytes": 1536, "time": 0.00125},
    {"name": "b", "bytes": Unavailable("not recorded"), "time": AtLeast(2.0, [Missing("c", "loop")])},
    {"name": "c", "bytes": None, "time": About(0.5, [Missing("c", "loop")])},
]
DESCRIPTION: TableDescription[dict[str, Any]] = TableDescription(
    TableColumn(
        "bytes", "int", lambda row: row["bytes"], "size", "Size in memory", "bytes", ("data_frame", "pane", "page")
    ),
    TableColumn("name", "text", lambda row: row["name"], "name", views=("data_frame", "page")),
    TableColumn("time_s", "float", lambda row: row["time"], "time", unit="seconds", views=("data_frame", "pane")),
    TableColumn(
        "tags", "object", lambda row: [row["name"], 1], "tags", views=("pane",), text=lambda row: row["name"].upper()
    ),
    first=("name",),
)


def test_views_show_their_columns_in_the_described_order() -> None:
    assert DESCRIPTION.names == ("name", "bytes", "time_s", "unknown")
    assert DESCRIPTION.titles("pane") == ("size", "time", "tags")
    assert DESCRIPTION.titles("page") == ("size", "name")
    assert DESCRIPTION.titles("command_line") == ()


def test_the_source_follows_the_name_in_panes_only() -> None:
    views: tuple[View, ...] = ("pane", "command_line")
    description: TableDescription[str] = TableDescription(
        *(TableColumn(name, "text", str, name, views=views) for name in ("name", "bytes", "source"))
    )
    assert description.titles("pane") == ("name", "source", "bytes")
    assert description.titles("command_line") == ("name", "bytes", "source")


def test_cells_are_formatted_with_their_unit() -> None:
    assert DESCRIPTION.texts("pane", ROWS[0]) == ("1.5 KiB", "1.25 ms", "A")
    assert DESCRIPTION.texts("page", ROWS[0]) == ("1.5 KiB", "a")
    (count,) = (TableColumn("n", "int", lambda n: n).cell(12345),)
    assert count == ViewCell(12345.0, "12,345", "")
    assert TableColumn("name", "text", str).cell("") == ViewCell(None, "", "")
    assert TableColumn("n", "int", int).cell(0) == ViewCell(0, "0", "")


def test_unknown_and_partly_known_cells_have_their_reasons() -> None:
    size, time, _ = DESCRIPTION.of("pane")
    assert size.cell(ROWS[1]) == ViewCell(None, "unknown", "not recorded")
    assert size.cell(ROWS[2]) == ViewCell(None, "", "")
    assert time.cell(ROWS[1]).text == "≥ 2 s"
    assert time.cell(ROWS[2]).text == "≈ 500 ms"
    assert time.cell(ROWS[2]).note == "1 loop not counted"


def test_a_text_function_also_gives_the_value_to_sort_by() -> None:
    assert DESCRIPTION.of("pane")[2].cell(ROWS[0]) == ViewCell("A", "A", "")


def test_data_frames_keep_numbers_and_reasons() -> None:
    frame = DESCRIPTION.data_frame(ROWS)
    assert frame["bytes"].dtype == "Int64"
    assert pd.isna(frame["bytes"][1])
    assert "not recorded" in frame["unknown"][1]
    assert "at least" in frame["unknown"][1]


def test_a_table_of_known_values_has_no_reasons() -> None:
    column = TableColumn("name", "text", lambda row: row["name"])
    description: TableDescription[dict[str, Any]] = TableDescription(column, has_reasons=False)
    assert description.names == (*description.data_frame(ROWS).columns,) == ("name",)


def test_a_first_column_must_be_in_data_frames() -> None:
    with pytest.raises(KeyError, match="tags"):
        TableDescription(TableColumn("tags", "text", str, views=("pane",)), first=("tags",))
