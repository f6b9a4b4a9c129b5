"""`Diff`: the differences between two compiled modules, ignoring the names and the order of instructions.

The modules are matched by structure (`analysis/diff/matching.py`); the rest is reported as changes
(`analysis/diff/changes.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.analysis.collectives.operations import OPCODES
from inspector.analysis.diff.changes import KINDS, Change, Kind, changes, respellings
from inspector.analysis.diff.matching import Matching, match
from inspector.analysis.diff.text_diff import longest_run
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.cost import Cost, InstructionCost
from inspector.compilation.memory import Memory
from inspector.compilation.preview import Preview
from inspector.errors import Partial, Unavailable, total
from inspector.hlo.execution_counts import places
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import library_text
from inspector.support.tables import UNKNOWN, Tabular, make_table
from inspector.support.tables import Kind as ColumnKind
from inspector.support.units import format_bytes, format_count

if TYPE_CHECKING:
    import pandas as pd

Number = float | Unavailable
Costs = Mapping[str, InstructionCost]
Totals: TypeAlias = "tuple[Total, ...]"

NOT_COUNTED = Unavailable("the costs of this comparison were not computed", "use Compiled.diff, which computes them")

SAME = "the same program"
SAME_HLO = "the same optimized HLO"
OTHER_CODE = "different machine code"

_MOST_PHRASES = 4
_LONGEST_DETAIL = 60
_NEXT = ("while", "conditional", "custom-call", "dot", "convolution")
_REGROUPING: frozenset[Kind] = frozenset({"split", "merged", "regrouped", "grown", "shrunk", "formed", "dissolved"})
_VERBS: Mapping[Kind, str] = {"configured": "reconfigured"}


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """A quantity of both programs as a whole.

    Attributes:
      name: its name in the headline, such as "peak".
      before, after: its values for both programs, in bytes or operations.
      is_bytes: whether it counts bytes; otherwise it counts operations.
    """

    name: str
    before: Number
    after: Number
    is_bytes: bool

    @property
    def words(self) -> str:
        """Returns the difference, such as "peak +1.2 MiB"; "" if it is zero or not known exactly for both programs."""
        known = not isinstance(self.before, (Unavailable, Partial)) and not isinstance(
            self.after, (Unavailable, Partial)
        )
        more = float(self.after) - float(self.before) if known else 0.0  # type: ignore[arg-type]
        text = format_bytes(abs(more)) if self.is_bytes else format_count(abs(more))
        return f"{self.name} {'+' if more > 0 else '−'}{text}" if more else ""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Diff(Tabular):
    """The differences between two modules; false if no difference of modules or machine code is known.

    Attributes:
      changes: the changes by kind, the most informative first; empty if the modules differ only in names and order.
      before, after: the modules.
      partners: for each row of `before` the matched row of `after`, -1 for none; `[instructions of before]`.
      computations: maps computations of `before` to the matched ones of `after`, by number.
      totals: quantities of both programs as a whole, where known.
      other_code: whether the machine code of two compiled programs differs, or why that is unknown; None if only modules
        were compared, or if the modules differ.
      reordered: number of instructions that XLA scheduled in a different order from their partners, outside the longest
        sequence that keeps its order. Not a change of the computation.
      respelled: matched instructions whose replica groups, source-target pairs or shardings are written differently and
        mean the same. Not changes either.
    """

    changes: tuple[Change, ...]
    before: Module
    after: Module
    partners: npt.NDArray[np.int32]
    computations: Mapping[int, int]
    totals: Totals = ()
    reordered: int = 0
    respelled: tuple[Change, ...] = ()
    other_code: bool | Unavailable | None = None
    _count: Callable[[], tuple[Costs, Costs] | Unavailable] | None = None

    def __bool__(self) -> bool:
        return bool(self.changes) or self.other_code is True

    @property
    def common(self) -> int:
        """Returns the number of instructions that both modules have, changed or not."""
        return int((self.partners >= 0).sum())

    @property
    def changed(self) -> int:
        """Returns the number of changed instructions of both modules, without those of kind "configured"."""
        return sum(change.count for change in self.changes if change.kind != "configured")

    @property
    def headline(self) -> str:
        """Returns a one-line summary, such as "3 fusions split, 1 all-gather appeared, peak +1.2 MiB".

        Without changes it begins with `SAME`. For two compiled programs whose machine code differs or was not compared, it
        begins with `SAME_HLO` and states that.
        """
        phrases = [*_phrases(self.changes), *filter(None, (each.words for each in self.totals))]
        if not self.changes:
            phrases = [*self._same, *phrases]
            if self.reordered:
                noun = "instruction runs" if self.reordered == 1 else "instructions run"
                phrases.append(f"{self.reordered:,} {noun} in a different order")
        if all(change.kind == "configured" for change in self.changes):
            phrases += _respelled(self.respelled)
        return ", ".join(phrases)

    @property
    def _same(self) -> tuple[str, ...]:
        if self.other_code is None or self.other_code is False:
            return (SAME,)
        if isinstance(self.other_code, Unavailable):
            reason = self.other_code.reason.partition(":")[0]
            why = f" ({reason})" if len(reason) <= _LONGEST_DETAIL else ""
            return SAME_HLO, f"machine code not compared{why}"
        return SAME_HLO, OTHER_CODE

    @functools.cached_property
    def costs(self) -> tuple[Costs, Costs] | Unavailable:
        """Returns the cost of one execution of each instruction of both modules, by name; computed at first use."""
        return NOT_COUNTED if self._count is None else self._count()

    def with_code(self, other_code: bool | Unavailable) -> Diff:
        """Returns a copy with `other_code` set."""
        return dataclasses.replace(self, other_code=other_code)

    def counted(self, count: Callable[[], tuple[Costs, Costs] | Unavailable]) -> Diff:
        """Returns a copy with the function that computes the costs of instructions."""
        return dataclasses.replace(self, _count=count)

    def cost(self, change: Change) -> Mapping[str, Number]:
        """Returns the cost of one execution of the changed instructions.

        Returns:
          `flops_before, flops_after, bytes_before, bytes_after`, in FLOPs and bytes.
        """
        costs: dict[str, Number] = {}
        for column, attribute in (("flops", "flops"), ("bytes", "bytes_accessed")):
            for side, instructions in enumerate((change.before, change.after)):
                name = f"{column}_{('before', 'after')[side]}"
                costs[name] = _sum_of(self.costs, side, instructions, attribute)
        return costs

    def table(self) -> pd.DataFrame:
        """Returns one row per change.

        Columns: `kind, opcode, before, after` (instructions, separated by commas), `what` (in words),
        `computation, flops_before, flops_after, bytes_before, bytes_after` (of one execution; the bytes of fused
        instructions are unavailable, since only the fusion as a whole accesses memory), `scope, source_file, source_line,
        library_line, unknown`.
        """
        return make_table(_COLUMNS, map(self._row, self.changes))

    def _row(self, change: Change) -> tuple[object, ...]:
        first = (change.after or change.before or (None,))[0]
        frame = first.origin.line if first else None
        cost = self.cost(change)
        return (
            change.kind, change.opcode or "module", _names(change.before), _names(change.after), change.what,
            first.computation.name if first else "", *(cost[name] for name in _COSTS), first.op_name if first else "",
            frame.file if frame else None, frame.line if frame else None, library_text(first.frames) if first else None,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Diff: {self.headline}>"


_COSTS = ("flops_before", "flops_after", "bytes_before", "bytes_after")
_COLUMNS: Mapping[str, ColumnKind] = {
    "kind": "text", "opcode": "text", "before": "text", "after": "text", "what": "text", "computation": "text",
    **dict.fromkeys(_COSTS, "float"), "scope": "text", "source_file": "text", "source_line": "int", "library_line": "text", UNKNOWN: "reasons",
}  # fmt: skip


def is_other(headline: str) -> bool:
    """Reports whether a headline states that the programs or their machine code differ."""
    if headline.startswith(SAME_HLO):
        return headline.startswith(f"{SAME_HLO}, {OTHER_CODE}")
    return not headline.startswith(SAME)


def totals(before: Preview | CompiledProgram, after: Preview | CompiledProgram) -> Totals:
    """Returns the quantities of two programs that a headline compares."""
    return tuple(
        Total(name, _number(getattr(before, of), key), _number(getattr(after, of), key), is_bytes=is_bytes)
        for name, of, key, is_bytes in (("peak", "memory", "peak_bytes", True), ("flops", "cost", "flops", False))
    )


def _number(known: Memory | Cost | Unavailable, name: str) -> Number:
    value: Number = known if isinstance(known, Unavailable) else getattr(known, name)
    return value


def diff(
    before: Module,
    after: Module,
    numbers: Sequence[Total] = (),
    count: Callable[[], tuple[Costs, Costs] | Unavailable] | None = None,
) -> Diff:
    """Compares two modules.

    Args:
      before: the first module.
      after: the second module, compiled with any options, target and version of JAX.
      numbers: quantities of both programs as a whole, for the headline; see `totals`.
      count: computes the costs of the instructions, called on demand; None if costs are unavailable.

    Raises:
      ModuleError: a module is damaged.
    """
    matching = match(before, after)
    pairs = dict(matching.regions)
    for group, computation in matching.before.opened.items():
        if (other := matching.after.opened.get(matching.to_after[group])) is not None:
            pairs[computation] = other
    partners = np.array(matching.to_after, np.int32)
    differences = changes(matching)
    return Diff(
        differences,
        before,
        after,
        partners,
        pairs,
        tuple(numbers),
        _reordered(matching),
        respellings(matching),
        _count=count,
    )


def _respelled(differences: Sequence[Change]) -> list[str]:
    """Describes differences in spelling, such as "replica groups spelled differently in 2 instructions"."""
    if not differences:
        return []
    names = ", ".join(dict.fromkeys(aspect.name for change in differences for aspect in change.aspects))
    count = sum(bool(change.before) for change in differences)
    return [f"{names} spelled differently" + (f" in {counted(count, 'instruction')}" if count else "")]


def _phrases(differences: Sequence[Change]) -> list[str]:
    """Summarizes changes with their counts, the most informative first; changes beyond the limit are only counted."""
    groups: dict[tuple[int, str, Kind], list[Change]] = collections.defaultdict(list)
    for change in differences:
        rank = _rank(change)
        opcode = change.opcode if rank < len(_NEXT) + 3 else ""
        groups[rank, opcode, change.kind].append(change)
    order = {kind: number for number, kind in enumerate(KINDS)}
    ranked = sorted(groups, key=lambda key: (key[0], order[key[2]], -len(groups[key])))
    shown, rest = ranked[:_MOST_PHRASES], ranked[_MOST_PHRASES:]
    phrases = [_phrase(groups[key], key[1], key[2]) for key in shown]
    left = sum(len(groups[key]) for key in rest)
    return [*phrases, f"{left:,} other change{'s' if left > 1 else ''}"] if left else phrases


def _rank(change: Change) -> int:
    opcode, last = change.opcode, len(_NEXT) + 4
    if change.kind == "configured":
        return last + 1
    if opcode.removesuffix("-start") in OPCODES:
        return 0
    if change.kind in _REGROUPING:
        return 1
    if opcode in _NEXT:
        return 2 + _NEXT.index(opcode)
    if opcode == "fusion":
        return 2 + len(_NEXT)
    return last if opcode else last - 1


def _phrase(group: Sequence[Change], opcode: str, kind: Kind) -> str:
    count = len(group)
    noun = counted(count, opcode or (group[0].opcode if len({c.opcode for c in group}) == 1 else "") or "instruction")
    if not any(change.before or change.after for change in group):
        return "module attributes altered"
    return f"{noun} {_VERBS.get(kind, kind)}{_detail(group)}"


def _detail(group: Sequence[Change]) -> str:
    """Returns the description that all changes share, else the names of the properties if all share these, in brackets."""
    for words in ({change.what for change in group}, {change.respects for change in group}):
        shared = words.pop() if len(words) == 1 else ""
        if shared and len(shared) <= _LONGEST_DETAIL and any(change.aspects for change in group):
            return f" ({shared})"
    return ""


def counted(count: int, noun: str) -> str:
    """Formats a number with a noun: `2, "fusion"` -> `2 fusions`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("copy"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'sh', 'ch')) else 's'}"


def _sum_of(
    costs: tuple[Costs, Costs] | Unavailable, side: int, instructions: Sequence[Instruction], attribute: str
) -> Number:
    if isinstance(costs, Unavailable):
        return costs
    values: list[float] = []
    for instruction in instructions:
        place = places(instruction.module).get(instruction.computation.name)
        if attribute == "bytes_accessed" and place is not None and place.fused:
            return Unavailable(f"{instruction.name} is part of {place.counted_in}, which accesses memory as a whole")
        known = costs[side].get(instruction.name)
        value = NOT_COUNTED if known is None else getattr(known, attribute)
        if isinstance(value, Unavailable):
            return value
        values.append(value)
    return total(values)


def _names(instructions: Sequence[Instruction]) -> str:
    return ", ".join(instruction.name for instruction in instructions)


def _reordered(matching: Matching) -> int:
    """Counts the scheduled instructions outside the longest sequence that keeps the order of their partners."""
    before, after = matching.before.module, matching.after.module
    if not (before.proto.schedule.sequences and after.proto.schedule.sequences):
        return 0
    moved = 0
    for number, other in matching.regions.items():
        ours, theirs = before.computations[number], after.computations[other]
        place = {i.row: n for n, i in enumerate(theirs.schedule)}
        positions = [place[row] for i in ours.schedule if (row := matching.to_after[i.row]) in place]
        moved += len(positions) - len(longest_run(positions))
    return moved
