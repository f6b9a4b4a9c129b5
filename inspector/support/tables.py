"""`make_table`: builds all public tables, with numeric columns and reasons for missing values.

An unknown number is missing (`<NA>`), never text among numbers, so sums, sorting and plots work. The reason is in the text
column `unknown` of the same row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from inspector.errors import Partial, Unavailable
from inspector.support.notebook import described
from inspector.support.value_ids import numbered

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["int", "float", "bool", "text", "object", "reasons"]
"""Kinds of columns: "object" for any values, such as lists; "reasons" for the row's missing values and their reasons."""

_NUMBERS: Mapping[Kind, Any] = {"int": "Int64", "float": "Float64", "bool": "boolean"}


UNKNOWN = "unknown"
"""The column of the row's unknown values and their reasons: `column, column: reason`, joined by `; `."""


def make_table(kinds: Mapping[str, Kind], rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    """Builds a table whose column types do not depend on its contents.

    Args:
      kinds: the kind of each column, in order. One may be `UNKNOWN: "reasons"`, for which rows have no cell.
      rows: one cell per column. An `Unavailable` becomes a missing value with its reason. A `Partial` becomes its known
        part, with the missing parts as reason. None becomes a missing value without a reason.

    Raises:
      ValueError: a value is unknown, and there is no column for reasons.
    """
    names = [name for name, kind in kinds.items() if kind != "reasons"]
    records = list(rows)
    cells = zip(*records, strict=True) if records else itertools.repeat((), len(names))
    return table_of(kinds, {name: Column(values) for name, values in zip(names, cells, strict=True)})


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
      cells: cells as in `make_table`, possibly shared by rows.
      codes: index of each row's cell in `cells`, -1 for the last; None if each row has its own cell.
    """

    cells: Sequence[object]
    codes: npt.NDArray[np.integer[Any]] | None = None

    def __len__(self) -> int:
        return len(self.cells if self.codes is None else self.codes)

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Maps one value per cell to one value per row."""
        return values if self.codes is None else values[self.codes]


def table_of(kinds: Mapping[str, Kind], columns: Mapping[str, Column]) -> pd.DataFrame:
    """Builds a table from columns. If many rows share cells, the time depends on the number of distinct cells.

    Args:
      kinds: see `make_table`.
      columns: columns of equal length, by name.

    Raises:
      ValueError: a value is unknown, and there is no column for reasons.
    """
    import pandas as pd

    ordered = {name: columns[name] for name, kind in kinds.items() if kind != "reasons"}
    texts = _reasons(ordered)
    if texts is not None and any(texts) and "reasons" not in kinds.values():
        raise ValueError(f"a value is unknown, and the table has no column for reasons: {next(filter(None, texts))}")
    count = max(map(len, ordered.values()), default=0)
    reasons = pd.Series([""] * count if texts is None else texts, dtype=None if count else object)
    filled = {name: reasons if kind == "reasons" else _column(ordered[name], kind) for name, kind in kinds.items()}
    return pd.DataFrame(filled)


class Tabular:
    """Base of values that notebooks show as their `repr` followed by their table."""

    __slots__ = ()

    def table(self) -> pd.DataFrame:
        """Returns the value as a table."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())


def _column(column: Column, kind: Kind) -> Any:
    """Returns the cells of all rows as a pandas array, which is faster than a series per column."""
    import pandas as pd

    known: Any = column.cells
    types = _types(column)
    if any(issubclass(each, Unavailable) for each in types):
        known = [None if isinstance(value, Unavailable) else value for value in known]
    is_text = kind == "text" and any(issubclass(each, str) for each in types)
    dtype = _NUMBERS.get(kind, None if is_text else object)
    cells: Any = pd.array(known, dtype=dtype) if kind in _NUMBERS else pd.Series(known, dtype=dtype).array
    return cells if column.codes is None else cells.take(column.codes)


def _reasons(columns: Mapping[str, Column]) -> npt.NDArray[Any] | None:
    """Returns each row's unknown values and reasons as text; None if all values are known."""
    incomplete = {name: column for name, column in columns.items() if any(map(_is_incomplete, _types(column)))}
    if not incomplete:
        return None
    codes = [column.spread(np.arange(len(column.cells))) for column in incomplete.values()]
    which, first = numbered(_combined(codes))
    rows = [[c.cells[of[row]] for c, of in zip(incomplete.values(), codes, strict=True)] for row in first.tolist()]
    return np.array([_reason(dict(zip(incomplete, row, strict=True))) for row in rows], object)[which]


def _types(column: Column) -> set[type]:
    return {*map(type, column.cells)}


def _is_incomplete(kind: type) -> bool:
    return issubclass(kind, (Unavailable, Partial))


def _combined(codes: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Combines several codes per row into one, which is equal for rows with equal codes."""
    whole, count = np.zeros(len(codes[0]), np.int64), 1
    for each in codes:
        size = int(each.max(initial=0)) + 1
        if count * size >= 1 << 63:
            whole, first = numbered(whole)
            count = len(first)
        whole, count = whole * size + each, count * size
    return whole


def _reason(row: Mapping[str, object]) -> str:
    columns: dict[str, list[str]] = {}
    for name, value in row.items():
        if isinstance(value, Unavailable):
            columns.setdefault(str(value).removeprefix("unavailable: "), []).append(name)
        elif isinstance(value, Partial):
            columns.setdefault(f"{value.word}; {value.reason}", []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in columns.items())
