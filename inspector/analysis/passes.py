"""What one compiler pass changed: lines, and instructions by name.

Passes keep the names of instructions that they leave alone, so names tell more than lines do.
"""

from __future__ import annotations

import collections
import dataclasses

from inspector.analysis.diff import Hunk, line_hunks
from inspector.compilation.records.passes import Pass
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import Origin, Root
from inspector.hlo.text import DisplayText, display_text, op_names


@dataclasses.dataclass(frozen=True, slots=True)
class PassChange:
    """The module before and after a pass, without metadata.

    Attributes:
      before, after: readable texts, with the instruction that each line defines.
      hunks: where the texts differ, as `line_hunks` gives them.
      gone, made: opcode to number of instructions that only `before` has, that only `after` has.
      altered: instructions of the same name that read otherwise.
      changed: whether anything did, metadata included.
    """

    before: DisplayText
    after: DisplayText
    hunks: tuple[Hunk, ...]
    gone: collections.Counter[str]
    made: collections.Counter[str]
    altered: int
    changed: bool

    def __str__(self) -> str:
        parts = [
            f"{counts.total():,} {word} ({_listed(counts)})"
            for counts, word in ((self.gone, "gone"), (self.made, "new"))
            if counts
        ]
        parts += [f"{self.altered:,} altered"] if self.altered else []
        if parts:
            return f"Instructions: {'; '.join(parts)}"
        if self.hunks:
            return "No instruction changed, but the module's attributes did"
        return "Only metadata changed" if self.changed else "Nothing changed"


def pass_change(compiler_pass: Pass) -> PassChange:
    """What a pass did."""
    before, after = (display_text(text) for text in (compiler_pass.before, compiler_pass.after))
    old, new = _instructions(before), _instructions(after)
    return PassChange(
        before=before,
        after=after,
        hunks=line_hunks(before.text.split("\n"), after.text.split("\n")),
        gone=collections.Counter(opcode(line) for name, line in old.items() if name not in new),
        made=collections.Counter(opcode(line) for name, line in new.items() if name not in old),
        altered=sum(new[name] != line for name, line in old.items() if name in new),
        changed=compiler_pass.changed,
    )


def listing_after(compiler_pass: Pass, change: PassChange, lowered: Module, root: Root) -> Listing:
    """The text after a pass, with the origins of its lines.

    Snapshots name operations, and the program before any pass knows where each of them comes from.

    Args:
      compiler_pass: the pass.
      change: what it did.
      lowered: the HLO before any pass.
      root: where the user's program begins; origins end there.
    """
    known: dict[str, tuple[Origin, ...]] = {}
    for origin in dict.fromkeys(lowered.origins().values()):
        known[origin.op_name] = (*known.get(origin.op_name, ()), origin)[:_ORIGINS]
    names = op_names(compiler_pass.after)
    trimmed: dict[str, tuple[Origin, ...]] = {}
    entries: list[tuple[Origin, ...]] = []
    for name in change.after.instruction_names:
        operation = names.get(name, "") if name is not None else ""
        if operation and operation not in trimmed:
            # XLA joins the names of merged operations with semicolons.
            parts = operation.split(";")
            trimmed[operation] = root.trim(o for part in parts for o in known.get(part, (Origin(part),)))
        entries.append(trimmed.get(operation, ()))
    return Listing.of(change.after.text, entries, change.after.instruction_names)


_ORIGINS = 4  # an operation that is called from many places is linked to the first ones


def opcode(line: str) -> str:
    """The opcode of a line of HLO: `%a.1 = (f32[2]{0}, s32[]) fusion(%b), kind=kLoop` -> `fusion`."""
    rest = line.partition(" = ")[2]
    depth = position = 0
    while position < len(rest) and (depth or rest[position] != " "):  # the shape has spaces only within brackets
        depth += (rest[position] in "({[") - (rest[position] in ")}]")
        position += 1
    return rest[position:].strip().partition("(")[0]


def _instructions(text: DisplayText) -> dict[str, str]:
    """Lines by the name of the instruction that they define."""
    lines = text.text.split("\n")
    return {name: line for name, line in zip(text.instruction_names, lines, strict=True) if name is not None}


def _listed(counts: collections.Counter[str]) -> str:
    common = counts.most_common(4)
    rest = counts.total() - sum(count for _, count in common)
    return ", ".join([f"{count:,} {name}" for name, count in common] + ([f"{rest:,} other"] if rest else []))
