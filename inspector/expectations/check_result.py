"""`CheckResult`: what one check came to, with the table that shows why."""

from __future__ import annotations

import dataclasses

from inspector.errors import Unavailable
from inspector.hlo.source import Frame


@dataclasses.dataclass(frozen=True, slots=True)
class TableLine:
    """A row of the table below a failure.

    Attributes:
      cells: one a column.
      frames: where it comes from, innermost first; () where nothing tells.
      is_against: whether it is what the expectation fails by.
    """

    cells: tuple[str, ...]
    frames: tuple[Frame, ...] = ()
    is_against: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check came to.

    Attributes:
      what: is checked, such as "all-reduce over data".
      expected: in words.
      got: in words.
      is_met: whether it is as expected; Unavailable where nobody can tell, which is a failure too.
      columns: names of the table's columns.
      lines: of the table; () where there is none.
      nearest: what comes nearest to what is expected, or how far off it is; "" for nothing to say.
      advice: what to do about a failure; "" for nothing to say.
    """

    what: str
    expected: str
    got: str
    is_met: bool | Unavailable
    columns: tuple[str, ...] = ()
    lines: tuple[TableLine, ...] = ()
    nearest: str = ""
    advice: str = ""
