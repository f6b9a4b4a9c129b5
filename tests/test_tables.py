"""Tables: numbers are numbers whatever is missing, and what is missing says why."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from inspector.errors import AtLeast, Missing, Unavailable
from inspector.tables import UNKNOWN, Kind, make_table

KINDS: dict[str, Kind] = {
    "name": "text", "count": "int", "seconds": "float", "changed": "bool", "parts": "object", UNKNOWN: "reasons",
}  # fmt: skip
WHY = Unavailable("nobody counted", "count")


def test_numbers_are_numbers_beside_what_is_missing() -> None:
    table = make_table(KINDS, [("a", 1, WHY, True, [1]), ("b", WHY, 2.5, WHY, []), ("c", 2, None, False, WHY)])
    assert list(table.columns) == list(KINDS)
    assert [str(table[name].dtype) for name in ("count", "seconds", "changed")] == ["Int64", "Float64", "boolean"]
    assert table["count"].sum() == 3
    assert table.sort_values("count")["name"].tolist() == ["a", "c", "b"]
    assert table[UNKNOWN].tolist() == [
        "seconds: nobody counted (count)",
        "count: nobody counted (count); changed: nobody counted (count)",
        "parts: nobody counted (count)",
    ]
    assert table["parts"].tolist() == [[1], [], None]
    assert table.isna().sum().sum() == 5


def test_a_table_can_be_drawn_where_values_are_missing() -> None:
    table = make_table(KINDS, [("a", 1, WHY, True, []), ("b", 3, 2.5, False, [])])
    axes = table.plot.bar(x="name", y="seconds")
    assert len(axes.patches) == 2
    plt.close(axes.figure)


def test_a_number_known_in_part_is_a_number_that_says_so() -> None:
    table = make_table(KINDS, [("a", 1, AtLeast(2.5, [Missing("call", "custom call", "not counted")]), True, [])])
    assert table["seconds"].sum() == 2.5
    assert table[UNKNOWN][0] == "seconds: at least; 1 custom call not counted"


def test_an_empty_table_has_the_types_of_a_full_one() -> None:
    table = make_table(KINDS, [])
    assert len(table) == 0
    assert [str(table[name].dtype) for name in ("count", "seconds", "changed")] == ["Int64", "Float64", "boolean"]
    assert list(pd.concat([table, table]).columns) == list(KINDS)


def test_a_large_whole_number_stays_exact() -> None:
    assert make_table({"bytes": "int"}, [((1 << 62) + 1,), (None,)])["bytes"][0] == (1 << 62) + 1


def test_nothing_is_missing_without_a_word() -> None:
    with pytest.raises(ValueError, match="no column says why: count: nobody counted"):
        make_table({"count": "int"}, [(1,), (WHY,)])


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011  zip's own
        make_table({"count": "int", "name": "text"}, [(1, "a"), (2,)])
