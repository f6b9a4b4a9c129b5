"""`Listing`: a text with the origins of its lines.

Python source, jaxpr, StableHLO and HLO all have this form. Panes use it to link lines of different listings through equal
origins.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterable, Sequence

from inspector.hlo.source import Origin
from inspector.hlo.text import defined_name


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """Lines of text with origins; `print` shows the lines.

    Attributes:
      text: the lines, joined by newlines.
      line_origins: one little-endian int32 per line: an index into `origins`, or -1.
      origins: the distinct origins of lines. An entry has more than one origin if the line stands for several operations,
        such as a line in a function that is called twice.
      defining: one byte per line: 1 if it defines an instruction, else 0; empty for languages without instructions.
      labels: the number to show next to each line, None for a heading; empty for 1, 2, 3, ...
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
        """Builds a listing from the origins of each line, which may be empty."""
        lines = [*origins]
        table: dict[tuple[Origin, ...], int] = {}
        known: dict[
            int, int
        ] = {}  # by identity: lines share objects, and hashing an object is slow because it covers all frames

        def index(entry: Sequence[Origin]) -> int:
            position = known.get(id(entry))
            if position is None:
                position = known[id(entry)] = table.setdefault(tuple(entry), len(table)) if entry else -1
            return position

        indices = array.array("i", map(index, lines))
        return cls(text, indices.tobytes(), tuple(table), bytes(defining), tuple(labels))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        known = self.line_count - memoryview(self.line_origins).cast("i").tolist().count(-1)
        return f"<Listing: {self.line_count} lines, {known} with an origin>"

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return len(self.line_origins) // 4

    @property
    def instructions(self) -> tuple[str | None, ...]:
        """The name of the instruction that each line defines, without `%`, or None; empty for languages without instructions."""
        if not self.defining:
            return ()
        pairs = zip(self.text.split("\n"), self.defining, strict=True)
        return tuple(defined_name(line) if defines else None for line, defines in pairs)

    def origins_of(self, line: int) -> tuple[Origin, ...]:
        """Returns the origins of a line (counted from 0); `()` if they are unknown."""
        index = memoryview(self.line_origins).cast("i")[line]
        return () if index < 0 else self.origins[index]
