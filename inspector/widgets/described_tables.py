"""Tables with described columns (`support/columns.py`) as messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from inspector.support.columns import TableDescription
from inspector.widgets.messages.common import TableCell, TableHead

T = TypeVar("T")


def heads_of(description: TableDescription[T], without: Collection[str] = ()) -> list[TableHead]:
    """Returns the headings of the columns that a pane shows, without some columns."""
    return [
        TableHead(name=column.name, title=column.title, tooltip=column.tooltip, is_number=column.is_number)
        for column in description.of("pane")
        if column.name not in without
    ]


def text_of(cell: TableCell) -> str:
    """Returns the text of a cell."""
    return cell["text"] or str(cell["value"] or "")


def cells_of(description: TableDescription[T], row: T, without: Collection[str] = ()) -> list[TableCell]:
    """Returns the cells of a row, in the order of `heads_of`."""
    cells = (column.cell(row) for column in description.of("pane") if column.name not in without)
    return [
        TableCell(value=cell.value, text="" if cell.text == cell.value else cell.text, note=cell.note) for cell in cells
    ]
