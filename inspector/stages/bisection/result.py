"""`Bisection`: the result of a bisection, with its steps."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Literal

from inspector.analysis.diff.module_diff import Diff
from inspector.errors import Unavailable, UnavailableError
from inspector.stages.bisection.reproduction import Reproduction
from inspector.stages.bisection.sides import FlagChange, Side
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.tables import Tabular
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["found", "no difference", "flaky", "not finished"]
Phase = Literal["sides", "flags", "passes", "reduction", "parts"]
Outcome = Literal["good", "bad", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One trial of a bisection.

    Attributes:
      number: position, from 1.
      phase: the part of the bisection.
      tried: the trial, in words.
      outcome: "bad" if it shows the difference, "failed" if it could not be compiled or run.
      observed: the value, or the difference from the good side; the error of a failure.
      compiles: number of compiles.
      seconds: wall-clock time.
    """

    number: int
    phase: Phase
    tried: str
    outcome: Outcome
    observed: str
    compiles: int
    seconds: float


STEP_COLUMNS: TableDescription[Step] = TableDescription(
    TableColumn("step", "int", lambda step: step.number, "#", views=("data_frame", "command_line", "pane")),
    TableColumn("phase", "text", lambda step: step.phase, "Phase", views=("data_frame", "command_line", "pane")),
    TableColumn("tried", "text", lambda step: step.tried, "Trial", views=("data_frame", "command_line", "pane")),
    TableColumn("outcome", "text", lambda step: step.outcome, "Outcome", views=("data_frame", "command_line", "pane")),
    TableColumn("observed", "text", lambda step: step.observed, "Observed", views=("data_frame", "command_line", "pane")),
    TableColumn("compiles", "int", lambda step: step.compiles),
    TableColumn("seconds", "float", lambda step: step.seconds, "Time", unit="seconds", views=("data_frame", "command_line", "pane")),
    has_reasons=False,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionChange:
    """A difference between two modules.

    Attributes:
      kind: one of the kinds of `Compiled.diff`, such as "rewritten".
      opcode: the opcode of the instruction, or "module".
      before, after: names of the instructions in either module; () for none.
      what: details, or "".
      scope: JAX's name stack of the instruction; "" if unknown.
      source: the user's line, such as `model.py:12`; "" if unknown.
    """

    kind: str
    opcode: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    what: str
    scope: str
    source: str


CHANGE_COLUMNS: TableDescription[InstructionChange] = TableDescription(
    TableColumn("kind", "text", lambda each: each.kind, "Change", views=("data_frame", "pane")),
    TableColumn("opcode", "text", lambda each: each.opcode, "Opcode", views=("data_frame", "pane")),
    TableColumn("before", "object", lambda each: each.before, "Before", views=("data_frame", "pane")),
    TableColumn("after", "object", lambda each: each.after, "After", views=("data_frame", "pane")),
    TableColumn("what", "text", lambda each: each.what, "Details", views=("data_frame", "pane")),
    TableColumn("scope", "text", lambda each: each.scope),
    TableColumn("source", "text", lambda each: each.source, "Line", views=("data_frame", "pane")),
    has_reasons=False,
)


def instruction_changes(difference: Diff) -> tuple[InstructionChange, ...]:
    """Returns the changes of a comparison as values that pickle."""
    found = []
    for change in difference.changes:
        first = (change.after or change.before or (None,))[0]
        line = first.origin.line if first else None
        found.append(
            InstructionChange(
                change.kind,
                change.opcode or "module",
                tuple(each.name for each in change.before),
                tuple(each.name for each in change.after),
                change.what,
                first.op_name if first else "",
                f"{line.file}:{line.line}" if line else "",
            )
        )
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True)
class CulpritPass:
    """The compiler pass that makes the difference.

    Attributes:
      name, pipeline, index: XLA's name of the pass, its pipeline, and its position among the passes of the compile.
      side: the side whose compile runs it: "bad" if the pass makes the difference, "good" if its absence does.
      together_with: other passes without which it does not have this effect.
      runs: number of its runs that changed the module.
      before, after: the HLO before and after its first such run.
      confirmed: whether leaving out this pass alone removes the difference (adds it, for side "good"), or why that is unknown.
    """

    name: str
    pipeline: str
    index: int
    side: Literal["good", "bad"]
    together_with: tuple[str, ...]
    runs: int
    before: str
    after: str
    confirmed: bool | Unavailable

    def __str__(self) -> str:
        verb = "makes" if self.side == "bad" else "prevents"
        others = f" together with {', '.join(self.together_with)}" if self.together_with else ""
        return f"the pass {self.name} (pipeline {self.pipeline}){others} {verb} the difference"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Bisection(Tabular):
    """The result of a bisection.

    Attributes:
      verdict: "found"; "no difference" between the sides; "flaky" if a side differs from itself; "not finished" if the time
        limit ended before the changes were known.
      by: the quantity that differs.
      good, bad: the sides.
      difference: the difference between the sides, in words.
      culprits: the smallest set of changes found that makes the good side bad.
      compiler_pass: the pass that makes the difference, or why none can be named.
      changes: the differences between the optimized modules of two compiles: without the pass and with it (later passes left
        out); without a pass, of the good side and of the good side with `culprits`.
      reproduction: a small part of the program that shows the difference, or why there is none.
      steps: the trials, in order.
      notes: remarks on the search.
    """

    verdict: Verdict
    by: str
    good: Side
    bad: Side
    difference: str
    culprits: tuple[FlagChange, ...]
    compiler_pass: CulpritPass | Unavailable
    changes: tuple[InstructionChange, ...] | Unavailable
    reproduction: Reproduction | Unavailable
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Returns the steps, one row each: `step, phase, tried, outcome, observed, compiles, seconds`."""
        return STEP_COLUMNS.data_frame(self.steps)

    def changes_table(self) -> pd.DataFrame:
        """Returns `changes` as a table, one row each. The columns are the attributes of `InstructionChange`.

        Raises:
          UnavailableError: there are no changes to show; with the reason.
        """
        changes = self.changes
        if isinstance(changes, Unavailable):
            raise UnavailableError(f"There are no changes of instructions: {changes.reason}.")
        return CHANGE_COLUMNS.data_frame(changes)

    def compiles(self, *phases: Phase) -> int:
        """Returns the number of compiles of some phases; of all phases without arguments."""
        return sum(step.compiles for step in self.steps if not phases or step.phase in phases)

    def save_reproduction(self, folder: str | os.PathLike[str]) -> None:
        """Writes the reproduction to a folder; see `Reproduction.save`.

        Raises:
          UnavailableError: there is no reproduction; with the reason.
          OSError: the files cannot be written.
        """
        reproduction = self.reproduction
        if isinstance(reproduction, Unavailable):
            raise UnavailableError(f"There is no reproduction to save: {reproduction.reason}.")
        reproduction.save(folder)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The parts of the result, each with its name."""
        seconds = sum(step.seconds for step in self.steps)
        effort = f"{len(self.steps)} steps, {self.compiles()} compiles, {format_seconds(seconds)}"
        facts = [(f"by {self.by}", f"{self.verdict}: {self.difference} ({effort})")]
        if self.culprits:
            facts.append(("changes", "; ".join(map(str, self.culprits))))
        if self.verdict == "found":
            facts += [("pass", self._pass_words), ("reproduction", str(self.reproduction))]
        return (*facts, *(("note", note) for note in self.notes))

    @property
    def words(self) -> str:
        """The result in a few lines."""
        return "\n".join(f"{name}: {text}" for name, text in self.facts)

    @property
    def _pass_words(self) -> str:
        found = self.compiler_pass
        if isinstance(found, Unavailable):
            return str(found)
        if found.confirmed is True:
            return f"{found}; confirmed by leaving it out"
        reason = found.confirmed.reason if isinstance(found.confirmed, Unavailable) else "leaving it out is not enough"
        return f"{found}; not confirmed: {reason}"

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        return f"<Bisection {self.words}>"
