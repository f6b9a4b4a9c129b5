"""What became of each instruction from one snapshot to a later one, and how sure that is.

Passes keep the names of what they leave alone, so only lines that one of the two modules has alone are looked at. Of
these, what computes the same of the same is the same, whatever its name and whether it stands in a fusion or not;
what took an instruction's place is what its users use now; and what is left is tied by its `op_name`.
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
    """How sure a match is, from the surest; the text says what it rests on."""

    KEPT = "same name and text"
    ALTERED = "same name, altered"
    EQUAL = "the same operation on the same operands"
    PLACE = "stands in its place: what used it uses this"
    OPERANDS = "the same opcode on the same operands, otherwise put"
    NAMED = "by op_name and opcode"
    SHAPED = "a guess by op_name and shape"
    GUESSED = "a guess by op_name"
    REMOVED = "removed"
    LOST = "lost"

    @classmethod
    def least(cls, found: Iterable[Certainty]) -> Certainty:
        """The least sure of several."""
        return max(found, key=[*cls].index, default=cls.KEPT)


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """What became of an instruction.

    Attributes:
      targets: names in the later module; several where it was split or computed in several places; () where it is gone.
      certainty: of that.
      why: of one that is gone, what is known of the reason, else "".
    """

    targets: tuple[str, ...]
    certainty: Certainty
    why: str = ""


UNUSED = "nothing used it"
WITH_USERS = "with all that used it"
WITHOUT = "what used it does without it"
UNKNOWN = "nothing tells what became of it"


class Correspondence:
    """Between two snapshots of one compile."""

    def __init__(self, snapshots: Snapshots, before: int, after: int) -> None:
        """Matches what differs.

        Args:
          snapshots: of the compile.
          before: index of the earlier text.
          after: index of the later text.
        """
        old_places, new_places = snapshots.differing(before, after)
        self.old = SnapshotSide(snapshots, before, old_places, snapshots.orphans(before, after))
        self.new = SnapshotSide(snapshots, after, new_places)
        self.kept = {name for name, row in self.old.rows.items() if self._is_kept(row)}
        self.old.settle(self.kept)
        self.new.settle(self.kept)
        self.gone = [name for name in self.old.rows if name not in self.kept]
        self.fresh = [name for name in self.new.rows if name not in self.kept]
        self._fates: dict[str, Fate] = {}
        self._match()

    def _is_kept(self, row: SnapshotInstruction) -> bool:
        """Whether an instruction of the same name is the same one."""
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
        """Whether the earlier module defines a name, for the same instruction if the later one does too."""
        return name in self.old.places and (name in self.kept or name not in self.new.rows)

    def fate(self, name: str) -> Fate:
        """What became of an instruction of the earlier module."""
        if name in self._fates:
            return self._fates[name]
        if name in self.kept:
            same = self.old.rows[name].number == self.new.rows[name].number
            return Fate((name,), Certainty.KEPT if same else Certainty.ALTERED)
        if name in self.old.places and name in self.new.places:
            return Fate((name,), Certainty.KEPT)
        return Fate((), Certainty.LOST, UNKNOWN)

    @functools.cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """Of each new instruction what it was made from."""
        found: dict[str, list[str]] = {}
        for name, fate in self._fates.items():
            for target in fate.targets:
                found.setdefault(target, []).append(name)
        return found

    # ------------------------------------------------------------------ matching

    def _match(self) -> None:
        values = Values(self.old, self.new, self.kept)
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
        """Why an instruction is gone; `unexplained` are opcodes of new ones of which nothing tells where they are from."""
        used_by = self.old.users.get(name, ())
        if all(user not in self.kept and user not in self._fates for user in used_by):
            return Fate((), Certainty.REMOVED, WITH_USERS if used_by else UNUSED)
        if self.old.rows[name].line.opcode in unexplained:
            return Fate((), Certainty.LOST, UNKNOWN)
        return Fate((), Certainty.REMOVED, WITHOUT)

    def _open(self) -> list[str]:
        return [name for name in self.gone if name not in self._fates]

    def _is_used(self, name: str) -> bool:
        """Whether a new instruction is not made in vain, as the partitioner makes some that it then does without."""
        return self.new.rows[name].line.is_root or name in self.new.users

    def _by_value(self, values: Values) -> int:
        found: dict[int, list[str]] = {}
        for name in self.fresh:
            if self.new.rows[name].line.opcode != "parameter" and self._is_used(name):
                found.setdefault(values.new(name), []).append(name)
        equal: dict[int, list[str]] = {}
        for name in self._open():
            if self.old.rows[name].line.opcode not in ("parameter", "call"):  # a call has its root's value
                equal.setdefault(values.old(name), []).append(name)
        matched = {value: names for value, names in equal.items() if value in found}
        for value, names in equal.items():
            twin = values.twin(value)
            if twin is not None:
                self._fates.update({name: Fate((twin,), Certainty.EQUAL) for name in names})
        for value, names in matched.items():
            if values.twin(value) is not None:
                continue
            own = [t for t in found[value] if t in self.new.outside]  # what a fusion gives stands for its root
            for name, targets in _dealt(names, own or found[value]):
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
        """What the users of an instruction use instead of it."""
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
            return name  # what used it reads as before, so that it is in neither module's rows
        root = self.new.roots.get(row.computation) if row.line.is_root else None
        return None if root is None else self._whole(root)

    def _whole(self, name: str) -> str:
        """What a new element is taken of, where that is new too: one operation may do the work of many."""
        holder = self.new.rows.get(holder_of(name))
        if holder is not None and holder.line.name not in self.kept:
            name = holder.line.name
        row = self.new.rows.get(name)
        while row is not None and row.line.opcode == "get-tuple-element" and name not in self.kept:
            inner = self.new.rows.get(row.line.operands[0]) if row.line.operands else None
            if inner is None or inner.line.name in self.kept:
                break
            name, row = inner.line.name, inner
        return name

    def _by_operands(self, values: Values) -> None:
        """Ties what does the same work otherwise; what only took the place of another may do that too.

        So is a product whose transpose is a product of the operands in the other order.
        """
        found: dict[Hashable, list[str]] = {}
        claimed: dict[str, set[str]] = {}
        for name, fate in self._fates.items():
            for target in fate.targets:
                opcode = "" if fate.certainty is Certainty.PLACE else self.old.rows[name].line.opcode
                claimed.setdefault(target, set()).add(opcode)
        for name in self.fresh:
            line = self.new.rows[name].line
            if line.operands and not any(claimed.get(name, ())):
                found.setdefault((line.opcode, values.operands(self.new, name)), []).append(name)
        for name in self._open():
            line = self.old.rows[name].line
            targets = found.get((line.opcode, values.operands(self.old, name)), []) if line.operands else []
            ends = {
                t for user in self.old.users.get(name, ()) if user in self._fates for t in self._fates[user].targets
            }
            targets = [target for target in targets if target in ends] or targets
            if len(targets) == 1:
                self._fates[name] = Fate((targets[0],), Certainty.OPERANDS)

    def _by_name(self, certainty: Certainty, key: _NameKey, left: list[str]) -> list[str]:
        """Ties what has the same key, in order; gives the new instructions that are still left."""
        found: dict[Hashable, list[str]] = {}
        for name in left:
            if key.applies_to(self.new.rows[name]) and self._is_used(name):
                found.setdefault(key(self.new.rows[name]), []).append(name)
        siblings: dict[Hashable, list[str]] = {}
        for name in self._open():
            if key.applies_to(self.old.rows[name]):
                siblings.setdefault(key(self.old.rows[name]), []).append(name)
        used: set[str] = set()
        for which, names in siblings.items():
            for name, targets in _dealt(names, found.get(which, [])):
                self._fates[name] = Fate(targets, certainty)
                used.update(targets)
        return [name for name in left if name not in used]


def _dealt(names: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name with its part of the targets, in order: the first of three has the first third."""
    for i, name in enumerate(names if targets else ()):
        first, last = i * len(targets) // len(names), (i + 1) * len(targets) // len(names)
        yield name, tuple(targets[first : max(last, first + 1)])


class _NameKey:
    """What instructions that are tied by name have in common."""

    def __init__(self, with_opcode: bool, with_shape: bool) -> None:
        self._with_opcode, self._with_shape = with_opcode, with_shape

    def applies_to(self, row: SnapshotInstruction) -> bool:
        """Reports whether an instruction has a name that ties it; that of a parameter is an argument's, not an operation's."""
        return bool(row.line.op_name) and (self._with_opcode or row.line.opcode != "parameter")

    def __call__(self, row: SnapshotInstruction) -> Hashable:
        line = row.line
        return line.op_name, self._with_opcode and line.opcode, self._with_shape and line.array_shape


_NAME_KEYS = {
    Certainty.NAMED: _NameKey(with_opcode=True, with_shape=False),
    Certainty.SHAPED: _NameKey(with_opcode=False, with_shape=True),
    Certainty.GUESSED: _NameKey(with_opcode=False, with_shape=False),
}
