"""Matches the instructions of one snapshot with those of a later one, with the certainty of each match.

Passes keep the names of instructions that they do not change, so only lines that occur in just one of the two modules
are compared. These are matched in three steps:

- Instructions that compute the same from the same operands match, whatever their names, inside or outside of fusions.
- An instruction matches the one that its users use in the later module.
- The remaining instructions are matched by `op_name`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from inspector.analysis.passes.side_values import Values
from inspector.analysis.passes.sides import SnapshotSide, holder_of
from inspector.analysis.passes.snapshots import SnapshotInstruction, Snapshots


class Certainty(enum.StrEnum):
    """Certainty of a match, highest first; the text gives the evidence."""

    KEPT = "same name and text"
    ALTERED = "same name, altered"
    EQUAL = "the same operation on the same operands"
    PLACE = "its users use this instead"
    OPERANDS = "the same opcode on the same operands, in a different form"
    NAMED = "by op_name and opcode"
    SHAPED = "a guess by op_name and shape"
    GUESSED = "a guess by op_name"
    REMOVED = "removed"
    LOST = "lost"

    @classmethod
    def least(cls, certainties: Iterable[Certainty]) -> Certainty:
        """Returns the lowest of several certainties."""
        return max(certainties, key=[*cls].index, default=cls.KEPT)


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """The result of following an instruction to the later module.

    Attributes:
      targets: names in the later module; several if the instruction was split or is computed in several places; () if it
        was removed.
      certainty: of the match.
      why: the known reason for a removal, else "".
    """

    targets: tuple[str, ...]
    certainty: Certainty
    why: str = ""


UNUSED = "it was unused"
WITH_USERS = "together with all its users"
WITHOUT = "its users do not need it"
UNKNOWN = "no match in the later module"


class Correspondence:
    """The matches between the instructions of two snapshots of one compile."""

    def __init__(self, snapshots: Snapshots, before: int, after: int) -> None:
        """Matches the instructions that differ.

        Args:
          snapshots: all snapshots of the compile.
          before: index of the earlier text.
          after: index of the later text.
        """
        old_places, new_places = snapshots.differing(before, after)
        self.old = SnapshotSide(snapshots, before, old_places, snapshots.orphans(before, after))
        self.new = SnapshotSide(snapshots, after, new_places)
        self.survivors = {name for name, row in self.old.rows.items() if self._is_survivor(row)}
        self.old.settle(self.survivors)
        self.new.settle(self.survivors)
        self.gone = [name for name in self.old.rows if name not in self.survivors]
        self.fresh = [name for name in self.new.rows if name not in self.survivors]
        self._fates: dict[str, Fate] = {}
        self._match()

    def _is_survivor(self, row: SnapshotInstruction) -> bool:
        """Reports whether the instruction of the same name in the later module is the same instruction."""
        other = self.new.rows.get(row.line.name)
        if other is None:
            return False
        old, new = row.line, other.line
        if old.opcode != new.opcode and (old.op_name != new.op_name or not old.op_name):
            return False
        return row.computation == other.computation or (
            old.opcode == new.opcode and old.array_shape == new.array_shape and old.op_name == new.op_name
        )

    def had_old(self, name: str) -> bool:
        """Reports whether the earlier module defines a name, for the same instruction if the later module also defines it."""
        return name in self.old.places and (name in self.survivors or name not in self.new.rows)

    def fate(self, name: str) -> Fate:
        """Returns the fate of an instruction of the earlier module."""
        if name in self._fates:
            return self._fates[name]
        if name in self.survivors:
            same = self.old.rows[name].number == self.new.rows[name].number
            return Fate((name,), Certainty.KEPT if same else Certainty.ALTERED)
        if name in self.old.places and name in self.new.places:
            return Fate((name,), Certainty.KEPT)
        return Fate((), Certainty.LOST, UNKNOWN)

    @functools.cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """Maps each new instruction to the instructions that it was made from."""
        sources: dict[str, list[str]] = {}
        for name, fate in self._fates.items():
            for target in fate.targets:
                sources.setdefault(target, []).append(name)
        return sources

    # ------------------------------------------------------------------ matching

    def _match(self) -> None:
        values = Values(self.old, self.new, self.survivors)
        while self._by_value(values) + self._by_place(values):
            pass
        self._by_operands(values)
        claimed = {target for fate in self._fates.values() for target in fate.targets}
        left = [name for name in self.fresh if name not in claimed]
        for certainty, key in _NAME_KEYS.items():
            left = self._by_name(certainty, key, left)
        unexplained = {self.new.rows[name].line.opcode for name in left}
        gone = {name: self._death(name, unexplained) for name in self._open()}
        self._fates.update(gone)

    def _death(self, name: str, unexplained: Collection[str]) -> Fate:
        """Explains why an instruction was removed; `unexplained` are the opcodes of new instructions without a match."""
        used_by = self.old.users.get(name, ())
        if all(user not in self.survivors and user not in self._fates for user in used_by):
            return Fate((), Certainty.REMOVED, WITH_USERS if used_by else UNUSED)
        if self.old.rows[name].line.opcode in unexplained:
            return Fate((), Certainty.LOST, UNKNOWN)
        return Fate((), Certainty.REMOVED, WITHOUT)

    def _open(self) -> list[str]:
        return [name for name in self.gone if name not in self._fates]

    def _is_used(self, name: str) -> bool:
        """Reports whether a new instruction is used; the partitioner creates some that it then leaves unused."""
        return self.new.rows[name].line.is_root or name in self.new.users

    def _by_value(self, values: Values) -> int:
        by_value: dict[int, list[str]] = {}
        for name in self.fresh:
            if self.new.rows[name].line.opcode != "parameter" and self._is_used(name):
                by_value.setdefault(values.new(name), []).append(name)
        equal: dict[int, list[str]] = {}
        for name in self._open():
            if self.old.rows[name].line.opcode not in ("parameter", "call"):  # a call has its root's value
                equal.setdefault(values.old(name), []).append(name)
        matched = {value: names for value, names in equal.items() if value in by_value}
        for value, names in equal.items():
            twin = values.twin(value)
            if twin is not None:
                self._fates.update({name: Fate((twin,), Certainty.EQUAL) for name in names})
        for value, names in matched.items():
            if values.twin(value) is not None:
                continue
            own = [t for t in by_value[value] if t in self.new.outside]  # a fusion stands for its root
            for name, targets in _dealt(names, own or by_value[value]):
                self._fates[name] = Fate(targets, Certainty.EQUAL)
        return sum(name in self._fates for names in equal.values() for name in names)

    def _by_place(self, values: Values) -> int:
        count = 0
        for name in reversed(self._open()):  # users come later in the text
            place = self._place(name)
            if place is not None:
                self._fates[name] = Fate((place,), Certainty.PLACE)
                values.equate(name, place)
                count += 1
        return count

    def _place(self, name: str) -> str | None:
        """Returns the instruction that the users of an instruction use instead of it."""
        row = self.old.rows[name]
        for user in self.old.users.get(name, ()):
            fate = self.fate(user)
            now = self.new.line(fate.targets[0]) if fate.targets else None
            was = self.old.rows[user].line
            if now is None or now.opcode != was.opcode or len(now.operands) != len(was.operands):
                continue
            used = now.operands[[holder_of(operand) for operand in was.operands].index(name)]
            return self._whole(self.new.canonical(used))
        other = self.new.rows.get(name)
        if other is not None and other.computation == row.computation:
            return name  # its users are unchanged, so they are in neither module's rows
        root = self.new.roots.get(row.computation) if row.line.is_root else None
        return None if root is None else self._whole(root)

    def _whole(self, name: str) -> str:
        """Returns the new instruction whose result holds an element: one operation may do the work of several.

        Returns the name itself if it is not an element of a new instruction.
        """
        holder = self.new.rows.get(holder_of(name))
        if holder is not None and holder.line.name not in self.survivors:
            name = holder.line.name
        row = self.new.rows.get(name)
        while row is not None and row.line.opcode == "get-tuple-element" and name not in self.survivors:
            inner = self.new.rows.get(row.line.operands[0]) if row.line.operands else None
            if inner is None or inner.line.name in self.survivors:
                break
            name, row = inner.line.name, inner
        return name

    def _by_operands(self, values: Values) -> None:
        """Matches instructions that do the same work in a different form.

        Example: a dot whose transpose is a dot of the same operands in reverse order. A target may also be one that so
        far only replaces another instruction for its users.
        """
        by_operands: dict[Hashable, list[str]] = {}
        claimed: dict[str, set[str]] = {}
        for name, fate in self._fates.items():
            for target in fate.targets:
                opcode = "" if fate.certainty is Certainty.PLACE else self.old.rows[name].line.opcode
                claimed.setdefault(target, set()).add(opcode)
        for name in self.fresh:
            line = self.new.rows[name].line
            if line.operands and not any(claimed.get(name, ())):
                by_operands.setdefault((line.opcode, values.operands(self.new, name)), []).append(name)
        for name in self._open():
            line = self.old.rows[name].line
            targets = by_operands.get((line.opcode, values.operands(self.old, name)), []) if line.operands else []
            ends = {
                t for user in self.old.users.get(name, ()) if user in self._fates for t in self._fates[user].targets
            }
            targets = [target for target in targets if target in ends] or targets
            if len(targets) == 1:
                self._fates[name] = Fate((targets[0],), Certainty.OPERANDS)

    def _by_name(self, certainty: Certainty, key: _NameKey, left: list[str]) -> list[str]:
        """Matches instructions with the same key, in order. Returns the new instructions that remain unmatched."""
        by_key: dict[Hashable, list[str]] = {}
        for name in left:
            if key.applies_to(self.new.rows[name]) and self._is_used(name):
                by_key.setdefault(key(self.new.rows[name]), []).append(name)
        siblings: dict[Hashable, list[str]] = {}
        for name in self._open():
            if key.applies_to(self.old.rows[name]):
                siblings.setdefault(key(self.old.rows[name]), []).append(name)
        used: set[str] = set()
        for which, names in siblings.items():
            for name, targets in _dealt(names, by_key.get(which, [])):
                self._fates[name] = Fate(targets, certainty)
                used.update(targets)
        return [name for name in left if name not in used]


def _dealt(names: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each name with its share of the targets, in order: the first of three names gets the first third."""
    for i, name in enumerate(names if targets else ()):
        first, last = i * len(targets) // len(names), (i + 1) * len(targets) // len(names)
        yield name, tuple(targets[first : max(last, first + 1)])


class _NameKey:
    """The properties that instructions matched by name must share."""

    def __init__(self, with_opcode: bool, with_shape: bool) -> None:
        self._with_opcode, self._with_shape = with_opcode, with_shape

    def applies_to(self, row: SnapshotInstruction) -> bool:
        """Reports whether an instruction has an `op_name` to match by; that of a parameter names an argument, not an operation."""
        return bool(row.line.op_name) and (self._with_opcode or row.line.opcode != "parameter")

    def __call__(self, row: SnapshotInstruction) -> Hashable:
        line = row.line
        return line.op_name, self._with_opcode and line.opcode, self._with_shape and line.array_shape


_NAME_KEYS = {
    Certainty.NAMED: _NameKey(with_opcode=True, with_shape=False),
    Certainty.SHAPED: _NameKey(with_opcode=False, with_shape=True),
    Certainty.GUESSED: _NameKey(with_opcode=False, with_shape=False),
}
