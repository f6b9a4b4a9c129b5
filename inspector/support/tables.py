"""`make_table`: the one way to a public table, so that numbers are numbers and what is missing says why.

A number that is not known is missing (`<NA>`), never a text among numbers: sums, orders and plots work. Why
it is missing stands in the same row, in the text column `unknown`.
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
"""What a column holds: "object" is anything, such as lists; "reasons" says of its row what is missing, and why."""

_NUMBERS: Mapping[Kind, Any] = {"int": "Int64", "float": "Float64", "bool": "boolean"}


UNKNOWN = "unknown"
"""The column that says what is not known in its row, and why: `column, column: reason`, joined by `; `."""


def make_table(kinds: Mapping[str, Kind], rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    """A table whose columns have the same types whatever is in it.

    Args:
      kinds: of each column, in order; one may be `UNKNOWN: "reasons"`, for which rows have no cell.
      rows: a cell a column. An `Unavailable` becomes a missing value with its reason, a `Partial` its known part
        with what is not in it; None is missing where there is nothing to tell.

    Raises:
      ValueError: something is not known, and there is no column to say so.
    """
    names = [name for name, kind in kinds.items() if kind != "reasons"]
    given = list(rows)
    cells = zip(*given, strict=True) if given else itertools.repeat((), len(names))
    return table_of(kinds, {name: Column(values) for name, values in zip(names, cells, strict=True)})


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
      cells: as in `make_table`.
      codes: which of them each row has, -1 the last; None where each has its own.
    """

    cells: Sequence[object]
    codes: npt.NDArray[np.integer[Any]] | None = None

    def __len__(self) -> int:
        return len(self.cells if self.codes is None else self.codes)

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What stands for each cell, for each row."""
        return values if self.codes is None else values[self.codes]


def table_of(kinds: Mapping[str, Kind], columns: Mapping[str, Column]) -> pd.DataFrame:
    """A table of columns, in time that goes with the different cells where many rows share them.

    Args:
      kinds: as in `make_table`.
      columns: of equal length.

    Raises:
      ValueError: something is not known, and there is no column to say so.
    """
    import pandas as pd

    ordered = {name: columns[name] for name, kind in kinds.items() if kind != "reasons"}
    said = _reasons(ordered)
    if said is not None and any(said) and "reasons" not in kinds.values():
        raise ValueError(f"a value is missing, and no column says why: {next(filter(None, said))}")
    count = max(map(len, ordered.values()), default=0)
    reasons = pd.Series([""] * count if said is None else said, dtype=None if count else object)
    made = {name: reasons if kind == "reasons" else _column(ordered[name], kind) for name, kind in kinds.items()}
    return pd.DataFrame(made)


class Tabular:
    """A value that a notebook shows as its table, under the line that `repr` gives."""

    __slots__ = ()

    def table(self) -> pd.DataFrame:
        """The value as a table."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())


def _column(column: Column, kind: Kind) -> Any:
    """The cells of all rows, as an array of pandas: a series of each column would take longer than its cells."""
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
    """Of each row, what is missing and why; None where nothing is."""
    doubtful = {name: column for name, column in columns.items() if any(map(_is_doubtful, _types(column)))}
    if not doubtful:
        return None
    codes = [column.spread(np.arange(len(column.cells))) for column in doubtful.values()]
    which, first = numbered(_combined(codes))
    rows = [[c.cells[of[row]] for c, of in zip(doubtful.values(), codes, strict=True)] for row in first.tolist()]
    return np.array([_reason(dict(zip(doubtful, row, strict=True))) for row in rows], object)[which]


def _types(column: Column) -> set[type]:
    return {*map(type, column.cells)}


def _is_doubtful(kind: type) -> bool:
    return issubclass(kind, (Unavailable, Partial))


def _combined(codes: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """One number for each row, equal where all its numbers are."""
    whole, count = np.zeros(len(codes[0]), np.int64), 1
    for each in codes:
        size = int(each.max(initial=0)) + 1
        if count * size >= 1 << 63:
            whole, first = numbered(whole)
            count = len(first)
        whole, count = whole * size + each, count * size
    return whole


def _reason(row: Mapping[str, object]) -> str:
    said: dict[str, list[str]] = {}
    for name, value in row.items():
        if isinstance(value, Unavailable):
            said.setdefault(str(value).removeprefix("unavailable: "), []).append(name)
        elif isinstance(value, Partial):
            said.setdefault(f"{value.word}; {value.reason}", []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in said.items())
