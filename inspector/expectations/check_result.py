"""`CheckResult`: the result of one check, with a table that explains it."""

from __future__ import annotations

import dataclasses

from inspector.errors import Unavailable
from inspector.hlo.source import Frame


@dataclasses.dataclass(frozen=True, slots=True)
class TableLine:
    """A row of the table below a failure.

    Attributes:
      cells: one cell per column.
      frames: its source frames, innermost first; () if unknown.
      is_against: true for a row that violates the expectation.
    """

    cells: tuple[str, ...]
    frames: tuple[Frame, ...] = ()
    is_against: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Attributes:
      what: the checked quantity, such as "all-reduce over data".
      expected: the expected value as text.
      got: the actual value as text.
      is_met: true if the check passed; Unavailable if the quantity is unknown, which is also a failure.
      columns: names of the table's columns.
      lines: rows of the table; () if there is none.
      nearest: the nearest match to the expectation, or the distance to the limit; may be "".
      advice: how to handle a failure; may be "".
    """

    what: str
    expected: str
    got: str
    is_met: bool | Unavailable
    columns: tuple[str, ...] = ()
    lines: tuple[TableLine, ...] = ()
    nearest: str = ""
    advice: str = ""
