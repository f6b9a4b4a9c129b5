"""`TableDescription`: the columns of a table, described once for data frames, panes, the command line, checks and pages.

A column has a name, a title, a unit, its value and the views that show it. Every view formats its cells with the same
function, so the same number reads the same everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from inspector.errors import Partial, Unavailable
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import Unit, format_number

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

View = Literal["data_frame", "pane", "command_line", "check", "page"]
"""Places that show a table: "check" for the failed checks of `expectations`, "page" for pages without scripts."""

_SIGNS = {"at least": "≥", "about": "≈"}


@dataclasses.dataclass(frozen=True, slots=True)
class TableColumn(Generic[T]):
    """A column of a table.

    Attributes:
      name: name in data frames, with the unit.
      kind: type of the cells in data frames (`support/tables.py`).
      value: returns the cell of a row. `Unavailable` and `Partial` as in `make_table`; None for an empty cell.
      title: heading in the other views; two or three words.
      tooltip: explanation of the heading.
      unit: unit of the numbers; None for text, positions and counts that are shown in full.
      views: the views that show the column.
      text: returns the text of a row's cell; None to format the value.
    """

    name: str
    kind: Kind
    value: Callable[[T], object]
    title: str = ""
    tooltip: str = ""
    unit: Unit | None = None
    views: tuple[View, ...] = ("data_frame",)
    text: Callable[[T], str] | None = None

    @property
    def is_number(self) -> bool:
        """Reports whether the cells are numbers."""
        return self.kind in ("int", "float")

    def cell(self, row: T) -> ViewCell:
        """Returns the cell of a row for a view other than data frames."""
        value = self.value(row)
        note = value.reason if isinstance(value, (Unavailable, Partial)) else ""
        if self.text is not None:
            text = self.text(row)
            known = None if isinstance(value, Unavailable) else _plain(value) if self.is_number else text or None
            return ViewCell(known, text, note)
        if isinstance(value, Unavailable):
            return ViewCell(None, "unknown", note)
        plain = _plain(value)
        if isinstance(plain, float):
            sign = f"{_SIGNS[value.word]} " if isinstance(value, Partial) else ""
            known = int(plain) if plain.is_integer() else plain
            return ViewCell(plain, sign + (format_number(known, self.unit) if self.unit else f"{known:,}"), note)
        return ViewCell(plain or None, plain or "", note)


@dataclasses.dataclass(frozen=True, slots=True)
class ViewCell:
    """A cell as a view shows it.

    Attributes:
      value: the number or the text to sort by; None if unknown or empty.
      text: the formatted value: "" for an empty cell, "unknown" for an unknown one.
      note: the reason why the value is unknown or incomplete; "" if it is known.
    """

    value: str | float | None
    text: str
    note: str


class TableDescription(Generic[T]):
    """The columns of a table, in the order in which views show them."""

    def __init__(self, *columns: TableColumn[T], first: Sequence[str] = (), has_reasons: bool = True) -> None:
        """Describes a table.

        Args:
          columns: the columns.
          first: names of the columns that data frames begin with. Scripts may rely on their positions.
          has_reasons: whether data frames end with the column `unknown`, which tables with unknown values need.
        """
        self.columns = columns
        self._reasons: dict[str, Kind] = {UNKNOWN: "reasons"} if has_reasons else {}
        shown = {column.name: column for column in columns if "data_frame" in column.views}
        self._framed = [*(shown.pop(name) for name in first), *shown.values()]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of data frames."""
        return (*(column.name for column in self._framed), *self._reasons)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns of data frames, with the types of their cells as `make_table` takes them."""
        return {**{column.name: column.kind for column in self._framed}, **self._reasons}

    def of(self, view: View) -> tuple[TableColumn[T], ...]:
        """Returns the columns of a view. In panes, which cut off wide tables, the source line follows the name."""
        shown = [column for column in self.columns if view in column.views]
        names = [column.name for column in shown]
        if view == "pane" and "source" in names and "name" in names:
            shown.insert(names.index("name") + 1, shown.pop(names.index("source")))
        return tuple(shown)

    def data_frame(self, rows: Iterable[T]) -> pd.DataFrame:
        """Returns rows as a data frame with the reasons for missing values in the column `unknown`."""
        return make_table(self.kinds, ([column.value(row) for column in self._framed] for row in rows))

    def titles(self, view: View) -> tuple[str, ...]:
        """Returns the headings of a view."""
        return tuple(column.title for column in self.of(view))

    def texts(self, view: View, row: T) -> tuple[str, ...]:
        """Returns the cells of a row as text."""
        return tuple(column.cell(row).text for column in self.of(view))


def _plain(value: object) -> str | float | None:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, str) else float(value)  # type: ignore[arg-type]
