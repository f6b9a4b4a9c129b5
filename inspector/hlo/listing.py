"""`Listing`: a text for reading, with where each of its lines came from.

The common form of Python source, jaxpr, StableHLO and HLO: the panes link on it, so a line of one
listing finds its relatives in all others through equal origins.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterable, Sequence

from inspector.hlo.source import Origin
from inspector.hlo.text import defined_name


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """Lines with origins; `print` shows them.

    Attributes:
      text: the lines, joined by newlines.
      line_origins: little-endian int32, one a line: an index into `origins`, or -1.
      origins: the distinct places that lines come from. More than one origin in an entry: the line
        stands for several, as inside of a function that is called twice.
      defining: one byte a line, 1 where it defines an instruction, else 0; empty when the language has no instructions.
      labels: the number to show beside each line or None for a heading; empty for 1, 2, 3, ...
    """

    text: str
    line_origins: bytes
    origins: tuple[tuple[Origin, ...], ...]
    defining: bytes = b""
    labels: tuple[int | None, ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        origins: Iterable[Sequence[Origin]],
        defining: Iterable[bool] = (),
        labels: Sequence[int | None] = (),
    ) -> Listing:
        """A listing from the origins of each line, none or more."""
        lines = [*origins]
        table: dict[tuple[Origin, ...], int] = {}
        known: dict[int, int] = {}  # by identity: lines share objects, and a hash of one goes through all its frames

        def index(entry: Sequence[Origin]) -> int:
            found = known.get(id(entry))
            if found is None:
                found = known[id(entry)] = table.setdefault(tuple(entry), len(table)) if entry else -1
            return found

        indices = array.array("i", map(index, lines))
        return cls(text, indices.tobytes(), tuple(table), bytes(defining), tuple(labels))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        known = self.line_count - memoryview(self.line_origins).cast("i").tolist().count(-1)
        return f"<Listing: {self.line_count} lines, {known} with the place that they come from>"

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return len(self.line_origins) // 4

    @property
    def instructions(self) -> tuple[str | None, ...]:
        """What each line defines (an instruction's name, without `%`) or None; empty when the language has no instructions."""
        if not self.defining:
            return ()
        pairs = zip(self.text.split("\n"), self.defining, strict=True)
        return tuple(defined_name(line) if defines else None for line, defines in pairs)

    def origins_of(self, line: int) -> tuple[Origin, ...]:
        """Where a line (from 0) came from; `()` when nothing says."""
        index = memoryview(self.line_origins).cast("i")[line]
        return () if index < 0 else self.origins[index]
