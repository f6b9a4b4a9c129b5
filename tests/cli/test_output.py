"""Printed tables."""

from __future__ import annotations

import pytest

from inspector.cli.output import print_described
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.support.columns import TableColumn, TableDescription

COLUMNS: TableDescription[float | Unavailable] = TableDescription(
    TableColumn("size_bytes", "int", lambda value: value, "size", unit="bytes", views=("command_line",)),
    TableColumn("double_bytes", "int", lambda value: value, "again", unit="bytes", views=("command_line",)),
    TableColumn("kind", "text", lambda _: Unavailable("no match"), "kind", views=("command_line",), text=lambda _: "no match"),
    TableColumn("hidden", "text", lambda _: "hidden", "hidden"),
)  # fmt: skip


def test_numbers_are_aligned_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_described(COLUMNS, [2048, 700])
    assert capsys.readouterr().out.splitlines() == [
        " size  again  kind",
        "2 KiB  2 KiB  no match",
        "700 B  700 B  no match",
    ]


def test_reasons_that_no_cell_shows_are_printed_once_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_described(COLUMNS, [7, AtLeast(4096, [Missing("a", "loop")]), Unavailable("not recorded")])
    assert capsys.readouterr().out.splitlines() == [
        "   size    again  kind      unknown",
        "    7 B      7 B  no match",
        "≥ 4 KiB  ≥ 4 KiB  no match  1 loop not counted",
        "unknown  unknown  no match  not recorded",
    ]
