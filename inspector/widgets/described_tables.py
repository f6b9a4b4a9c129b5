"""Tables with described columns (`support/columns.py`) as messages."""

from __future__ import annotations

from typing import TypeVar

from inspector.support.columns import TableDescription
from inspector.widgets.messages.common import TableCell, TableHead

T = TypeVar("T")


def heads_of(description: TableDescription[T]) -> list[TableHead]:
    """Returns the headings of the columns that a pane shows."""
    return [
        TableHead(name=column.name, title=column.title, tooltip=column.tooltip, is_number=column.is_number)
        for column in description.of("pane")
    ]


def cells_of(description: TableDescription[T], row: T) -> list[TableCell]:
    """Returns the cells of a row, in the order of `heads_of`."""
    cells = (column.cell(row) for column in description.of("pane"))
    return [TableCell(value=cell.value, text=cell.text, note=cell.note) for cell in cells]
