"""`CompileTime`: the parts of a program that make its compile slow, and the compiler passes that take the time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from inspector.errors import Unavailable, UnavailableError
from inspector.hlo.source import short_places
from inspector.stages.bisection.result import Step
from inspector.stages.bisection.sides import Side
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.tables import Tabular
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_PASSES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class PartTime:
    """The compile time of a part of a program.

    Attributes:
      part: its scope, such as `layer_*/attention` for the scopes of all numbered layers; its line; or its operations.
      depth: number of larger parts around it.
      lines: the user's lines of its operations, such as `/home/me/model.py:12`, in order.
      operations: number of its StableHLO operations; a loop counts once.
      within: the loop of whose body it is a part; "" for a part of the whole program.
      alone_s: CPU seconds that the compile of the part alone takes, or why that is unknown.
      without_s: CPU seconds that the compile takes without the part; None if it was not left out.
      whole_s: CPU seconds that the compile of the whole program takes, or that of one iteration of the loop.
    """

    part: str
    depth: int
    lines: tuple[str, ...]
    operations: int
    within: str
    alone_s: float | Unavailable
    without_s: float | None
    whole_s: float

    @property
    def saved(self) -> float | None:
        """The share of the compile time that is saved if the part is left out, at most 1; None if it was not left out."""
        return None if self.without_s is None else 1 - self.without_s / self.whole_s

    @property
    def lines_text(self) -> str:
        """The first lines, without folders."""
        return short_places(self.lines)

    def __str__(self) -> str:
        lines = self.lines_text
        loop = f" of {self.within}" if self.within else ""
        place = f"{lines}; " if lines and lines not in self.part else ""
        return f"{self.part}{loop} ({place}{self.operations:,} operation{'' if self.operations == 1 else 's'})"


PART_COLUMNS: TableDescription[PartTime] = TableDescription(
    TableColumn("part", "text", lambda each: each.part, "Part", views=("data_frame", "command_line", "pane"),
                text=lambda each: "  " * each.depth + each.part),
    TableColumn("depth", "int", lambda each: each.depth),
    TableColumn("within", "text", lambda each: each.within),
    TableColumn("lines", "object", lambda each: each.lines, "Lines", views=("data_frame", "command_line", "pane"),
                text=lambda each: each.lines_text),
    TableColumn("operations", "int", lambda each: each.operations, "Operations", views=("data_frame", "command_line", "pane")),
    TableColumn("alone_s", "float", lambda each: each.alone_s, "Alone", "Compile time of the part alone", unit="seconds",
                views=("data_frame", "command_line", "pane")),
    TableColumn("without_s", "float", lambda each: each.without_s, "Without it", "Compile time without the part",
                views=("data_frame", "command_line", "pane"),
                text=lambda each: "" if each.without_s is None else format_seconds(each.without_s)),
    TableColumn("saved", "float", lambda each: each.saved, "Saved", "Share of the compile time that is saved without the part",
                views=("data_frame", "command_line", "pane"),
                text=lambda each: "" if each.saved is None else f"{each.saved:.0%}"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class PassTime:
    """The elapsed time of a compiler pass, over all its runs of a compile.

    Attributes:
      name: XLA's name of the pass, or `CODE_GENERATION`.
      with_s: seconds in the compile with the slowest part.
      without_s: seconds in the compile without it.
    """

    name: str
    with_s: float
    without_s: float

    @property
    def saved_s(self) -> float:
        """The difference in seconds."""
        return self.with_s - self.without_s

    def __str__(self) -> str:
        return f"{self.name} {format_seconds(self.with_s)}, without it {format_seconds(self.without_s)}"


CODE_GENERATION = "code generation and other work outside of passes"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CompileTime(Tabular):
    """The compile time of a program by part.

    Attributes:
      side: the target and the options of the compiles.
      compile_s: CPU seconds of XLA's compile of the whole program: the shorter one of two.
      operations: number of StableHLO operations of its `main`, with calls inlined; a loop counts once.
      parts: the parts that were compiled alone, in the order of the search; the slowest of a level comes first.
      slowest: the smallest part found without which at least a third of the time is saved,
        or why there is none.
      passes: times of passes with and without the slowest part, the largest difference first, or why they are unknown.
      steps: the compiles, in order.
      notes: remarks on the search.
    """

    side: Side
    compile_s: float
    operations: int
    parts: tuple[PartTime, ...]
    slowest: PartTime | Unavailable
    passes: tuple[PassTime, ...] | Unavailable
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Returns `parts`, one row each: `part, depth, within, lines, operations, alone_s, without_s, saved, unknown`."""
        return PART_COLUMNS.data_frame(self.parts)

    def passes_table(self) -> pd.DataFrame:
        """Returns `passes` as a table: `name, with_s, without_s, saved_s`.

        Raises:
          UnavailableError: they are unknown; with the reason.
        """
        if isinstance(self.passes, Unavailable):
            raise UnavailableError(f"There are no times of passes: {self.passes.reason}.")
        return _PASS_COLUMNS.data_frame(self.passes)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The parts of the result, each with its name."""
        seconds = sum(step.seconds for step in self.steps)
        effort = f"{len(self.steps)} compiles, {format_seconds(seconds)}"
        facts = [("compile", f"{format_seconds(self.compile_s)} of CPU time for {self.side} ({effort})")]
        slowest = self.slowest
        if isinstance(slowest, Unavailable):
            facts.append(("slowest part", str(slowest)))
        else:
            whole = f" instead of {format_seconds(slowest.whole_s)}" if slowest.within else ""
            without_s = 0.0 if slowest.without_s is None else slowest.without_s
            facts += [
                ("slowest part", f"{slowest}: {_time(slowest.alone_s)} alone"),
                ("without it", f"{format_seconds(without_s)}{whole}, {slowest.saved or 0:.0%} less"),
                ("passes", self._passes_words),
            ]
        return (*facts, *(("note", note) for note in self.notes))

    @property
    def words(self) -> str:
        """The result in a few lines."""
        return "\n".join(f"{name}: {text}" for name, text in self.facts)

    @property
    def _passes_words(self) -> str:
        if isinstance(self.passes, Unavailable):
            return str(self.passes)
        return "; ".join(map(str, self.passes[:_SHOWN_PASSES])) or "no difference"

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        return f"<CompileTime {self.words}>"


_PASS_COLUMNS: TableDescription[PassTime] = TableDescription(
    TableColumn("name", "text", lambda each: each.name),
    TableColumn("with_s", "float", lambda each: each.with_s),
    TableColumn("without_s", "float", lambda each: each.without_s),
    TableColumn("saved_s", "float", lambda each: each.saved_s),
    has_reasons=False,
)


def _time(seconds: float | Unavailable) -> str:
    return str(seconds) if isinstance(seconds, Unavailable) else format_seconds(seconds)
