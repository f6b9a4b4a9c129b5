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

import numpy as np

from inspector.analysis.snapshots import Row, Snapshots
from inspector.hlo.line import InstructionLine


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
        differing = snapshots.differing(before, after)
        self.old, self.new = (Side(snapshots, *of) for of in zip((before, after), differing, strict=True))
        self.kept = {name for name, row in self.old.rows.items() if self._is_kept(row)}
        self.old.settle(self.kept)
        self.new.settle(self.kept)
        self.gone = [name for name in self.old.rows if name not in self.kept]
        self.fresh = [name for name in self.new.rows if name not in self.kept]
        self._fates: dict[str, Fate] = {}
        self._match()

    def _is_kept(self, row: Row) -> bool:
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
        values = _Values(self.old, self.new, self.kept)
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

    def _by_value(self, values: _Values) -> int:
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

    def _by_place(self, values: _Values) -> int:
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
        return self.new.roots.get(row.computation) if row.line.is_root else None

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

    def _by_operands(self, values: _Values) -> None:
        found: dict[Hashable, list[str]] = {}
        claimed = {target for fate in self._fates.values() for target in fate.targets}
        for name in self.fresh:
            line = self.new.rows[name].line
            if name not in claimed and line.operands:
                found.setdefault((line.opcode, values.operands(self.new, name)), []).append(name)
        for name in self._open():
            line = self.old.rows[name].line
            targets = found.get((line.opcode, values.operands(self.old, name)), []) if line.operands else []
            if len(targets) == 1:
                self._fates[name] = Fate((targets[0],), Certainty.OPERANDS)

    def _by_name(self, certainty: Certainty, key: _NameKey, left: list[str]) -> list[str]:
        """Ties what has the same key, in order; gives the new instructions that are still left."""
        found: dict[Hashable, list[str]] = {}
        for name in left:
            if self.new.rows[name].line.op_name and self._is_used(name):
                found.setdefault(key(self.new.rows[name]), []).append(name)
        siblings: dict[Hashable, list[str]] = {}
        for name in self._open():
            if self.old.rows[name].line.op_name:
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

    def __call__(self, row: Row) -> Hashable:
        line = row.line
        return line.op_name, self._with_opcode and line.opcode, self._with_shape and line.array_shape


_NAME_KEYS = {
    Certainty.NAMED: _NameKey(with_opcode=True, with_shape=False),
    Certainty.SHAPED: _NameKey(with_opcode=False, with_shape=True),
    Certainty.GUESSED: _NameKey(with_opcode=False, with_shape=False),
}
_CALLERS = frozenset({"fusion", "call"})


class Side:
    """What one of the two modules has alone, with the bodies of the fusions and calls among it.

    Attributes:
      rows: by name, in the order of the text.
      fusions: of each computation that a fusion of the module calls, the fusion's name.
      roots: of each computation the name of its root, where that is among the rows.
      outside: names of the rows that are in no fusion.
    """

    def __init__(self, snapshots: Snapshots, text: int, places: Iterable[int]) -> None:
        """Reads the lines at these places."""
        self._snapshots, self._text = snapshots, text
        self.places = snapshots.places(text)
        self.rows: dict[str, Row] = {row.line.name: row for row in snapshots.rows(text, places)}
        self.fusions = snapshots.fusions(text)
        self._callers: dict[str, list[str]] = {}
        self._read_bodies(_Bodies(snapshots, text))
        self.roots = {row.computation: name for name, row in self.rows.items() if row.line.is_root}
        self.outside = frozenset(name for name, row in self.rows.items() if row.computation not in self.fusions)
        self._canonical: dict[str, str] = {}
        self._settled: Collection[str] = ()

    def settle(self, names: Collection[str]) -> None:
        """Takes instructions for themselves, whatever is in them: the other module has them too."""
        self._settled = names

    def line(self, name: str) -> InstructionLine | None:
        """An instruction of the module, whether the other one has it too or not."""
        if name in self.rows:
            return self.rows[name].line
        place = self.places.get(name)
        row = None if place is None else next(self._snapshots.rows(self._text, (place,)), None)
        return None if row is None else row.line

    def _read_bodies(self, bodies: _Bodies) -> None:
        waiting = list(self.rows.values())
        while waiting:
            row = waiting.pop()
            if row.line.opcode not in _CALLERS:
                continue
            for called in row.line.called:
                is_read = called in self._callers
                self._callers.setdefault(called, []).append(row.line.name)
                for inner in () if is_read else bodies.of(called):
                    if inner.line.name not in self.rows:
                        self.rows[inner.line.name] = inner
                        waiting.append(inner)

    @functools.cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """Of each instruction the rows that use it."""
        found: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            for operand in dict.fromkeys(map(holder_of, row.line.operands)):
                found.setdefault(operand, []).append(name)
        return found

    def unit(self, name: str) -> str:
        """The outermost fusion that an instruction is in, or itself."""
        for _ in range(_DEEPEST):
            row = self.rows.get(name)
            holder = self.fusions.get(row.computation) if row is not None else None
            if holder is None:
                return name
            name = holder
        return name

    def canonical(self, name: str) -> str:
        """The instruction that computes a value: of a fusion or call its root, of a parameter within what is passed."""
        if name not in self._canonical:
            found = name
            for _ in range(_DEEPEST):
                behind = self._behind(found)
                if behind is None:
                    break
                found = behind
            self._canonical[name] = found
        return self._canonical[name]

    def _behind(self, name: str) -> str | None:
        whole, is_element, index = name.partition(_ELEMENT)
        if is_element:
            return None if whole in self._settled else self._element(whole, index)
        row = self.rows.get(name)
        if row is None:
            return None
        line = row.line
        if name in self._settled and line.opcode != "parameter":
            return None
        if line.opcode == "parameter":
            callers = self._callers.get(row.computation, ())
            passed = self.rows[callers[0]].line.operands if len(callers) == 1 else ()
            number = int(line.literal) if line.literal.isdecimal() else len(passed)
            return passed[number] if number < len(passed) else None
        if line.opcode in _CALLERS and line.called:
            root = self.roots.get(line.called[0])
            return None if root is None or self.rows[root].line.opcode == "tuple" else root
        if line.opcode == "get-tuple-element" and line.operands:
            return self._element(line.operands[0], line.attributes.partition("index=")[2].partition(",")[0])
        return None

    def _element(self, whole: str, index: str) -> str | None:
        row = self.rows.get(self.canonical(whole))
        if row is not None and row.line.opcode in _CALLERS and row.line.called:
            row = self.rows.get(self.roots.get(row.line.called[0], ""))
        if row is None or row.line.opcode != "tuple" or not index.isdecimal():
            return None
        return row.line.operands[int(index)] if int(index) < len(row.line.operands) else None


_ELEMENT = "#"


def holder_of(operand: str) -> str:
    """The instruction that an operand is, or is an element of, as newer texts write `%tuple.1#0`."""
    return operand.partition(_ELEMENT)[0]


_DEEPEST = 64  # fusions in fusions, parameters of parameters


class _Bodies:
    """The rows of whole computations of one module."""

    def __init__(self, snapshots: Snapshots, text: int) -> None:
        self._snapshots, self._text = snapshots, text
        headers = snapshots.state(text).headers
        starts = np.flatnonzero(np.diff(headers, prepend=-2))
        ends = [*starts[1:].tolist(), len(headers)]
        named = (
            (snapshots.computation(int(headers[start])), (start, end))
            for start, end in zip(starts.tolist(), ends, strict=True)
        )
        self._ranges = dict(named)

    def of(self, computation: str) -> Iterator[Row]:
        start, end = self._ranges.get(computation, (0, 0))
        return self._snapshots.rows(self._text, range(start, end))


class _Values:
    """Numbers for what instructions compute: equal where opcode, shape, attributes and operands are."""

    def __init__(self, old: Side, new: Side, kept: set[str]) -> None:
        self._old, self._new, self._kept = old, new, kept
        self._numbers: dict[Hashable, int] = {}
        self._tokens: dict[int, dict[str, Hashable]] = {id(old): {}, id(new): {}}
        self._known: dict[int, dict[str, int]] = {id(old): {}, id(new): {}}
        self._twins: dict[int, str] = {}
        if len(new.outside) < len(new.rows):
            self._know_copies()

    def _know_copies(self) -> None:
        """What computes the same as an instruction that stayed is a copy of it, as fusions have them of what they use."""
        near = {o for n, row in self._old.rows.items() if n not in self._kept for o in row.line.operands}
        known: set[str] = set()
        for _ in range(_COPIED_DEPTH):
            near = {name for name in near if name not in known and self._stays(name)}
            known |= near
            lines = {name: self._old.line(name) for name in near}
            near = set()
            for name, line in lines.items():
                if line is None or line.opcode in _COPIED or not line.operands:
                    continue
                operands = [self._old.canonical(operand) for operand in line.operands]
                numbers = [self._value(self._old, operand) for operand in operands]
                number = self._numbers.setdefault(("name", name), len(self._numbers))
                if self._numbers.setdefault(_computed(line, numbers), number) == number:
                    self._twins[number] = name
                near.update(operands)

    def twin(self, value: int) -> str | None:
        """An instruction that stayed and computes the same."""
        return self._twins.get(value)

    def _stays(self, name: str) -> bool:
        """Whether both modules have an instruction, but for metadata."""
        if name not in self._old.rows or name not in self._kept:
            return name not in self._old.rows
        old, new = (dataclasses.replace(s.rows[name].line, op_name="", frame=0) for s in (self._old, self._new))
        return old == new

    def old(self, name: str) -> int:
        return self._value(self._old, name)

    def new(self, name: str) -> int:
        return self._value(self._new, name)

    def operands(self, side: Side, name: str) -> Hashable:
        """The values that an instruction uses, in no order."""
        return frozenset(self._value(side, operand) for operand in side.rows[name].line.operands)

    def equate(self, name: str, target: str) -> None:
        """From now on an old instruction and a new one compute the same."""
        token: Hashable = ("replaced", name)
        if target in self._new.rows and target not in self._kept:
            token = self._tokens[id(self._new)].setdefault(target, token)
        else:
            token = ("name", target)
        self._tokens[id(self._old)][self._old.canonical(name)] = token
        for known in self._known.values():
            known.clear()

    def _value(self, side: Side, name: str) -> int:
        known = self._known[id(side)]
        waiting = [side.canonical(name)]
        while waiting:
            each = waiting[-1]
            if each in known:
                waiting.pop()
                continue
            missing = [o for o in self._needs(side, each) if o not in known]
            if missing and len(waiting) < _LONGEST:
                waiting += missing
                continue
            known[each] = self._numbers.setdefault(self._key(side, each, known), len(self._numbers))
        return known[side.canonical(name)]

    def _needs(self, side: Side, name: str) -> list[str]:
        if _ELEMENT in name:
            return [side.canonical(holder_of(name))]
        line = None if name in self._tokens[id(side)] else self._line(side, name)
        return [] if line is None else [side.canonical(operand) for operand in line.operands]

    def _line(self, side: Side, name: str) -> InstructionLine | None:
        """What an instruction computes; None of one that both modules have and none has copies of."""
        if name in side.rows and name not in self._kept:
            return side.rows[name].line
        same = name not in side.rows or self._old.rows[name].number == self._new.rows[name].number
        line = side.line(name) if same else None
        return line if line is not None and line.opcode in _COPIED else None

    def _key(self, side: Side, name: str, known: Mapping[str, int]) -> Hashable:
        token = self._tokens[id(side)].get(name)
        if token is not None:
            return token
        if _ELEMENT in name:
            return "element", known.get(side.canonical(holder_of(name)), -1), name.partition(_ELEMENT)[2]
        line = self._line(side, name)
        if line is None:
            return "name", name
        if line.opcode == "parameter":
            return "parameter", side.rows[name].computation, line.literal
        return _computed(line, [known.get(side.canonical(operand), -1) for operand in line.operands])


def _computed(line: InstructionLine, operands: Sequence[int]) -> Hashable:
    """What an instruction computes of values."""
    used = sorted(operands) if line.opcode in _COMMUTATIVE else operands
    return line.opcode, line.array_shape, line.literal, attributes_of(line.attributes), tuple(used)


_LONGEST = 100_000  # a damaged text may go round in a circle
_COPIED_DEPTH = 6
_COPIED = frozenset({"constant", "broadcast", "iota"})  # into each fusion that uses them
_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
# Attributes that name, place or tune an instruction rather than say what it computes.
_NAMING = (
    "calls=", "to_apply=", "condition=", "body=", "backend_config=", "frontend_attributes=", "sharding=", "channel_id=",
    "control-predecessors=", "origin=", "metadata=", "operand_precision=", "branch_computations=", "kind=",
)  # fmt: skip


@functools.lru_cache(maxsize=1 << 14)
def attributes_of(attributes: str) -> tuple[str, ...]:
    """The attributes that say what an instruction computes."""
    return tuple(part for part in _split(attributes) if not part.startswith(_NAMING))


def _split(attributes: str) -> Iterator[str]:
    """Cut at the commas that stand in no braces and no string."""
    depth, start, in_string = 0, 0, False
    for position, character in enumerate(attributes):
        if character == '"' and attributes[position - 1 : position] != "\\":
            in_string = not in_string
        elif not in_string:
            depth += (character in "{([") - (character in "})]")
            if character == "," and depth == 0:
                yield attributes[start:position].strip()
                start = position + 1
    if attributes[start:].strip():
        yield attributes[start:].strip()
