"""`Values`: value numbers for the instructions of two snapshots; equal numbers mean that instructions compute the same."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence

from inspector.analysis.passes.sides import ELEMENT, SnapshotSide, holder_of
from inspector.hlo.text_line import InstructionLine

_LONGEST = 100_000  # a damaged text may contain a cycle
_COPIED_DEPTH = 6
_COPIED = frozenset({"constant", "broadcast", "iota"})  # copied into each fusion that uses them
_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
# Attributes that name, place or configure an instruction and do not determine its result.
_NAMING = (
    "calls=", "to_apply=", "condition=", "body=", "backend_config=", "frontend_attributes=", "sharding=", "channel_id=",
    "control-predecessors=", "origin=", "metadata=", "operand_precision=", "branch_computations=", "kind=",
)  # fmt: skip


class Values:
    """The value numbers of two sides: equal if opcode, shape, attributes and operands are equal."""

    def __init__(self, old: SnapshotSide, new: SnapshotSide, survivors: set[str]) -> None:
        self._old, self._new, self._survivors = old, new, survivors
        self._numbers: dict[Hashable, int] = {}
        self._tokens: dict[int, dict[str, Hashable]] = {id(old): {}, id(new): {}}
        self._known: dict[int, dict[str, int]] = {id(old): {}, id(new): {}}
        self._twins: dict[int, str] = {}
        if len(new.outside) < len(new.rows):
            self._know_copies()

    def _know_copies(self) -> None:
        """Numbers surviving instructions near the changed ones, so that copies of them in fusions are recognized."""
        near = {o for n, row in self._old.rows.items() if n not in self._survivors for o in row.line.operands}
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
        """Returns a surviving instruction that computes the value, None if there is none."""
        return self._twins.get(value)

    def _stays(self, name: str) -> bool:
        """Reports whether both modules have the same instruction, ignoring metadata."""
        if name not in self._old.rows or name not in self._survivors:
            return name not in self._old.rows
        old, new = (dataclasses.replace(s.rows[name].line, op_name="", frame=0) for s in (self._old, self._new))
        return old == new

    def old(self, name: str) -> int:
        return self._value(self._old, name)

    def new(self, name: str) -> int:
        return self._value(self._new, name)

    def operands(self, side: SnapshotSide, name: str) -> Hashable:
        """Returns the values that an instruction uses, unordered."""
        return frozenset(self._value(side, operand) for operand in side.rows[name].line.operands)

    def equate(self, name: str, target: str) -> None:
        """Records that an old instruction and a new one compute the same."""
        token: Hashable = ("replaced", name)
        if target in self._new.rows and target not in self._survivors:
            token = self._tokens[id(self._new)].setdefault(target, token)
        else:
            token = ("name", target)
        self._tokens[id(self._old)][self._old.canonical(name)] = token
        for known in self._known.values():
            known.clear()

    def _value(self, side: SnapshotSide, name: str) -> int:
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

    def _needs(self, side: SnapshotSide, name: str) -> list[str]:
        if ELEMENT in name:
            return [side.canonical(holder_of(name))]
        line = None if name in self._tokens[id(side)] else self._line(side, name)
        return [] if line is None else [side.canonical(operand) for operand in line.operands]

    def _line(self, side: SnapshotSide, name: str) -> InstructionLine | None:
        """Returns the line of an instruction; None for one that both modules have and that is never copied into fusions."""
        if name in side.rows and name not in self._survivors:
            return side.rows[name].line
        same = name not in side.rows or self._old.rows[name].number == self._new.rows[name].number
        line = side.line(name) if same else None
        return line if line is not None and line.opcode in _COPIED else None

    def _key(self, side: SnapshotSide, name: str, known: Mapping[str, int]) -> Hashable:
        token = self._tokens[id(side)].get(name)
        if token is not None:
            return token
        if ELEMENT in name:
            return "element", known.get(side.canonical(holder_of(name)), -1), name.partition(ELEMENT)[2]
        line = self._line(side, name)
        if line is None:
            return "name", name
        if line.opcode == "parameter":
            return "parameter", side.rows[name].computation, line.literal
        return _computed(line, [known.get(side.canonical(operand), -1) for operand in line.operands])


def _computed(line: InstructionLine, operands: Sequence[int]) -> Hashable:
    """Returns the key of an instruction's result, given the value numbers of its operands."""
    used = sorted(operands) if line.opcode in _COMMUTATIVE else operands
    return line.opcode, line.array_shape, line.literal, attributes_of(line.attributes), tuple(used)


@functools.lru_cache(maxsize=1 << 14)
def attributes_of(attributes: str) -> tuple[str, ...]:
    """Returns the attributes that determine an instruction's result."""
    return tuple(part for part in _split(attributes) if not part.startswith(_NAMING))


def _split(attributes: str) -> Iterator[str]:
    """Splits at the commas outside braces and strings."""
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
