"""`make_table`: the one way to a public table, so that numbers are numbers and what is missing says why.

A number that is not known is missing (`<NA>`), never a text among numbers: sums, orders and plots work. Why
it is missing stands in the same row, in the text column `unknown`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspector.errors import AtLeast, Unavailable

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["int", "float", "bool", "text", "object", "reasons"]
"""What a column holds: "object" is anything, such as lists; "reasons" says of its row what is missing, and why."""

_NUMBERS: Mapping[Kind, Any] = {"int": "Int64", "float": "Float64", "bool": "boolean"}

_MAX_ROWS = 60  # that a notebook shows, as of any table of pandas

UNKNOWN = "unknown"
"""The column that says what is not known in its row, and why: `column, column: reason`, joined by `; `."""


def make_table(kinds: Mapping[str, Kind], rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    """A table whose columns have the same types whatever is in it.

    Args:
      kinds: of each column, in order; one may be `UNKNOWN: "reasons"`, for which rows have no cell.
      rows: a cell a column. An `Unavailable` becomes a missing value with its reason, an `AtLeast` its known part
        with what is not in it; None is missing where there is nothing to tell.

    Raises:
      ValueError: something is not known, and there is no column to say so.
    """
    import pandas as pd

    names = [name for name, kind in kinds.items() if kind != "reasons"]
    given = list(rows)
    cells = dict(zip(names, zip(*given, strict=True), strict=True)) if given else dict.fromkeys(names, ())
    columns = {name: _column(cells[name], kinds[name]) for name in names}
    reasons = _reasons(cells, len(given))
    if any(reasons) and "reasons" not in kinds.values():
        raise ValueError(f"a value is missing, and no column says why: {next(filter(None, reasons))}")
    said = pd.Series(reasons, dtype=None if reasons else object)
    return pd.DataFrame({name: columns.get(name, said) for name in kinds})


class Tabular:
    """A value that a notebook shows as its table, under the line that `repr` gives."""

    __slots__ = ()

    def table(self) -> pd.DataFrame:
        """The value as a table."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.table().to_html(max_rows=_MAX_ROWS, notebook=True)}"


def _column(values: Sequence[object], kind: Kind) -> pd.Series:
    import pandas as pd

    known = [None if isinstance(value, Unavailable) else value for value in values]
    if kind in _NUMBERS:
        return pd.Series(pd.array(known, dtype=_NUMBERS[kind]))
    is_text = kind == "text" and any(isinstance(value, str) for value in known)
    return pd.Series(known, dtype=None if is_text else object)


def _reasons(cells: Mapping[str, Sequence[object]], count: int) -> list[str]:
    said: list[dict[str, list[str]]] = [{} for _ in range(count)]
    for name, values in cells.items():
        for row, value in enumerate(values):
            if isinstance(value, Unavailable):
                said[row].setdefault(str(value).removeprefix("unavailable: "), []).append(name)
            elif isinstance(value, AtLeast):
                said[row].setdefault(f"at least; {value.reason}", []).append(name)
    return ["; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items()) for reasons in said]
