"""A module's instructions as columns: read once, shared by everything that asks about all of them.

Texts and messages that many instructions share (opcodes, shapes, metadata) are kept once, and a column has their
numbers. What one instruction says besides is read from its bytes when it is asked for (`hlo/module.py`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers, Octets
from inspector.hlo.reading.field_numbers import (
    BACKEND_CONFIG,
    CALLED_COMPUTATION_IDS,
    CHANNEL_ID,
    COLLECTIVE_DEVICE_LIST,
    CONTROL_PREDECESSOR_IDS,
    FRONTEND_ATTRIBUTES,
    METADATA,
    OPCODE,
    OPERAND_IDS,
    ORIGINAL_VALUE,
    SHAPE,
    SHARDING,
    STATISTICS_VIZ,
)
from inspector.hlo.reading.instruction_messages import Parts
from inspector.hlo.reading.message_offsets import Outline, outline
from inspector.hlo.reading.row_index import RowsById
from inspector.toolchain.schema import Schema, installed_schema

_SINGULAR = (
    OPCODE, SHAPE, METADATA, CHANNEL_ID, SHARDING, BACKEND_CONFIG, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE,
    COLLECTIVE_DEVICE_LIST,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of values that come again.

    Attributes:
      codes: of each row, -1 where it has none.
      values: what each code stands for, each once.
    """

    codes: Numbers
    values: list[Any]

    def at(self, row: int) -> Any:
        """The value of a row; b"" where it has none. Not of texts."""
        code = self.codes[row]
        return self.values[code] if code >= 0 else b""


@dataclasses.dataclass(frozen=True, eq=False)
class RowLists:
    """A column of lists of rows.

    Attributes:
      offsets: those of row `i` are `rows[offsets[i] : offsets[i + 1]]`; `[rows + 1]`.
      rows: of what is referred to.
    """

    offsets: Numbers
    rows: Numbers

    def of(self, row: int) -> list[int]:
        found: list[int] = self.rows[self.offsets[row] : self.offsets[row + 1]].tolist()
        return found

    @functools.cached_property
    def having(self) -> Numbers:
        """The rows that have any."""
        return np.flatnonzero(np.diff(self.offsets))

    @property
    def from_rows(self) -> Numbers:
        """Which row each link is of."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Columns:
    """The instructions of a module, in the order of its proto: computation by computation.

    Attributes:
      data: what it was read from.
      module: the `xla.HloModuleProto` without its computations.
      computations: of each its `xla.HloComputationProto` without its instructions, as bytes.
      computation_names, computation_ids, root_ids: of each computation.
      first: the row of each computation's first instruction, and at the end the number of all.
      ids: of each instruction.
      opcodes: as texts.
      shapes, metadata: as bytes.
      codes: what each instruction says besides its name, its id and what it refers to, as a number.
      contents: the fields of each thing that is said, by that number.
      outline, parts: where all this lies.
    """

    def __init__(self, data: bytes, schema: Schema | None = None, known: tuple[Outline, Parts] | None = None) -> None:
        """Reads serialized bytes.

        Args:
          data: an `xla.HloModuleProto`, or an `xla.HloProto` that holds one.
          schema: message classes; the installed jaxlib's by default.
          known: what was read of it before.

        Raises:
          ModuleError: neither, or damaged.
        """
        self.data = data
        self._schema = schema or installed_schema()
        found = outline(data) if known is None else known[0]
        self.outline = found
        self.computations = found.computations
        self.computation_names, self.computation_ids, self.root_ids = found.names, found.ids, found.root_ids
        self.first = found.first
        self.parts = self._regular(found) if known is None else known[1]
        self.module = self.message("xla.HloModuleProto", found.module)
        self.ids = self.parts.ids
        self.codes, self.contents = self.parts.codes, self.parts.contents
        self._coded: dict[int, Coded] = {}
        self._integers: dict[int, Numbers] = {}
        opcodes = self._of_rows(_with_empty(*self.contents.coded(OPCODE)))
        self.opcodes = Coded(opcodes.codes, [*map(_text, opcodes.values)])
        self.shapes = self._of_rows(_with_empty(*self.contents.coded(SHAPE)))
        self.metadata = self.coded(METADATA)

    def __len__(self) -> int:
        return len(self.ids)

    @functools.cached_property
    def names(self) -> list[str]:
        """Of each instruction.

        Raises:
          ModuleError: one is not UTF-8.
        """
        octets, names = self.parts.octets, self.parts.names
        texts = octets.gathered(ByteRanges(names.begins, names.lengths + 1))
        texts[np.cumsum(names.lengths + 1) - 1] = 0  # behind each
        found = _text(texts.tobytes()).split("\0")[:-1]
        return found if len(found) == len(self) else [*map(_text, octets.slices(names))]

    @functools.cached_property
    def _rows(self) -> RowsById:
        return RowsById(self.first, self.ids)

    @functools.cached_property
    def in_computation(self) -> npt.NDArray[np.int32]:
        """Which computation each instruction is in."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

    @functools.cached_property
    def opcode_texts(self) -> list[str]:
        """Of each instruction its opcode."""
        return [*map(self.opcodes.values.__getitem__, self.opcodes.codes.tolist())]

    def opcode_is(self, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Whether each instruction's opcode is one that is wanted."""
        return np.array([*map(wanted, self.opcodes.values)], bool)[self.opcodes.codes]

    def rows_of(self, wanted: Callable[[str], bool]) -> list[int]:
        """The rows whose opcode is one that is wanted, ascending."""
        found: list[int] = np.flatnonzero(self.opcode_is(wanted)).tolist()
        return found

    @functools.cached_property
    def calling(self) -> list[list[int]]:
        """Of each computation its rows that call others, ascending."""
        found: list[list[int]] = [[] for _ in self.computations]
        having = self.called.having
        for number, row in zip(self.in_computation[having].tolist(), having.tolist(), strict=True):
            found[number].append(row)
        return found

    def coded(self, number: int) -> Coded:
        """A singular field of `xla.HloInstructionProto` by its number, as bytes."""
        if number not in self._coded:
            self._coded[number] = self._of_rows(Coded(*self.contents.coded(number)))
        return self._coded[number]

    def integers(self, number: int) -> Numbers:
        """A singular integer of each instruction by its number, `[rows]`; 0 where it has none."""
        return self.contents.integers(number)[self.codes]

    def integer(self, number: int, row: int) -> int:
        """The same of one instruction."""
        if number not in self._integers:
            self._integers[number] = self.contents.integers(number)
        return int(self._integers[number][self.codes[row]])

    def _of_rows(self, said: Coded) -> Coded:
        return Coded(said.codes[self.codes], said.values)

    def row(self, computation: int, instruction_id: int) -> int:
        """The instruction of a computation that has an id; -1 for none."""
        return int(self._rows.of(np.array([computation]), np.array([instruction_id], np.int64))[0])

    def rows_with(self, computation: int, ids: Sequence[int]) -> list[int]:
        """The instructions of a computation that have ids.

        Raises:
          ModuleError: it lacks one: the proto is damaged.
        """
        found: list[int] = self._in_place(np.full(len(ids), computation), np.array(ids, np.int64)).tolist()
        return found

    @functools.cached_property
    def roots(self) -> Numbers:
        """The row of each computation's root.

        Raises:
          ModuleError: one lacks it: the proto is damaged.
        """
        return self._in_place(np.arange(len(self.root_ids)), np.array(self.root_ids, np.int64))

    @functools.cached_property
    def operands(self) -> RowLists:
        """The instructions that each one takes.

        Raises:
          ModuleError: a computation lacks one: the proto is damaged.
        """
        return self._others(OPERAND_IDS)

    @functools.cached_property
    def predecessors(self) -> RowLists:
        """The instructions that must come before each one, though it takes nothing of them; errors as `operands`."""
        return self._others(CONTROL_PREDECESSOR_IDS)

    @functools.cached_property
    def called(self) -> RowLists:
        """The computations that each one calls.

        Raises:
          ModuleError: the module lacks one: the proto is damaged.
        """
        offsets, ids = self._lists(CALLED_COMPUTATION_IDS)
        known = RowsById(np.array([0, len(self.computation_ids)]), np.array(self.computation_ids, np.int64))
        numbers = known.of(np.zeros(len(ids), np.int64), ids)
        if (numbers < 0).any():
            missing = int(ids[np.argmin(numbers)])
            raise ModuleError(f"Module {self.module.name} refers to a computation {missing} that it lacks.")
        return RowLists(offsets, numbers)

    @functools.cached_property
    def callees(self) -> dict[int, tuple[int, ...]]:
        """`called` by row, of those that call any."""
        return {row: tuple(self.called.of(row)) for row in self.called.having.tolist()}

    @functools.cached_property
    def positions(self) -> Numbers:
        """The place of each instruction in its computation's schedule; in the proto's order where XLA made none.

        Raises:
          ModuleError: the schedule names an instruction that there is not: the proto is damaged.
        """
        positions: Numbers = np.arange(len(self)) - self.first[self.in_computation]
        sequences = self.module.schedule.sequences
        found = [
            (number, np.array(sequences[computation].instruction_ids, np.int64))
            for number, computation in enumerate(self.computation_ids)
            if computation in sequences
        ]
        if found:
            computations = np.repeat([number for number, _ in found], [len(ids) for _, ids in found])
            places = np.concatenate([np.arange(len(ids)) for _, ids in found])
            positions[self._in_place(computations, np.concatenate([ids for _, ids in found]))] = places
        return positions

    @functools.cached_property
    def users(self) -> RowLists:
        """The instructions that take each one, each once, in the module's order; errors as `operands`."""
        taken, users = self.operands.rows, self.operands.from_rows
        order = np.argsort(taken, kind="stable")
        taken, users = taken[order], users[order]
        first = np.ones(len(order), bool)
        first[1:] = (taken[1:] != taken[:-1]) | (users[1:] != users[:-1])
        counts = np.bincount(taken[first], minlength=len(self))
        return RowLists(np.append(0, np.cumsum(counts)), users[first])

    def _others(self, number: int) -> RowLists:
        offsets, ids = self._lists(number)
        return RowLists(offsets, self._in_place(np.repeat(self.in_computation, np.diff(offsets)), ids))

    def _lists(self, number: int) -> tuple[Numbers, Numbers]:
        """The ids that a field lists: those of row `i` are `ids[offsets[i] : offsets[i + 1]]`."""
        lists = self.parts.links[number]
        offsets, ids = self.parts.octets.lists(lists.spans)
        counts = np.zeros(len(self), np.int64)
        counts[lists.rows] = np.diff(offsets)
        return np.append(0, np.cumsum(counts)), ids

    def _in_place(self, computations: npt.NDArray[Any], ids: Numbers) -> Numbers:
        """The rows of ids in computations. Raises ModuleError where one lacks it."""
        rows = self._rows.of(computations, ids)
        if (rows < 0).any():
            first = int(np.argmin(rows))
            name = self.computation_names[int(computations[first])]
            raise ModuleError(f"Computation {name} refers to an instruction {int(ids[first])} that it lacks.")
        return rows

    def instruction(self, row: int) -> Any:
        """The `xla.HloInstructionProto` of a row."""
        return self.message("xla.HloInstructionProto", self.parts.message(row))

    def computation(self, number: int) -> Any:
        """The `xla.HloComputationProto` of a computation without its instructions."""
        return self.message("xla.HloComputationProto", self.computations[number])

    def message(self, name: str, data: bytes) -> Any:
        """A message in the columns, such as an `xla.ShapeProto`.

        Raises:
          ModuleError: it is damaged.
        """
        try:
            return self._schema.message(name).FromString(data)
        except DecodeError as e:
            raise ModuleError(f"The module is damaged: {len(data)} bytes in it are no {name}: {e}.") from None

    def messages(self, name: str, data: Sequence[bytes]) -> Sequence[Any]:
        """Several messages of a kind; errors as `message`."""
        try:
            return self._schema.messages(name, data)
        except DecodeError:
            return [self.message(name, each) for each in data]  # which says which it is

    def _regular(self, found: Outline) -> Parts:
        """The instructions' parts, each singular field once, each list in one piece, and of none too many."""
        end = int(found.instructions.ends.max(initial=0))
        parts = Parts.of(Octets([found.data], end), found.instructions)
        irregular = np.append(parts.contents.irregular(_SINGULAR), parts.misplaced)
        if not len(irregular):
            return parts
        written = [*map(parts.message, range(len(parts)))]
        for row in np.flatnonzero(np.isin(parts.codes, irregular)).tolist():
            written[row] = _rewritten(self.message("xla.HloInstructionProto", written[row]))
        lengths = np.array([*map(len, written)], np.int64)
        parts = Parts.of(Octets(written), ByteRanges(np.cumsum(lengths) - lengths, lengths))
        if len(parts.misplaced):
            raise ModuleError("The module is damaged: the name, id or operands of an instruction are none.")
        return parts


def _rewritten(instruction: Any) -> bytes:
    """The same message with its lists of messages, which may be long, at the end."""
    last = type(instruction)()
    for field, values in instruction.ListFields():
        if field.is_repeated and field.message_type is not None:
            getattr(last, field.name).extend(values)
            instruction.ClearField(field.name)
    return bytes(instruction.SerializeToString() + last.SerializeToString())


def _with_empty(codes: Numbers, values: list[bytes]) -> Coded:
    """A field that is empty where it is not written."""
    missing = codes < 0
    if not missing.any():
        return Coded(codes, values)
    values = values if b"" in values else [*values, b""]
    return Coded(np.where(missing, values.index(b""), codes), values)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as e:
        raise ModuleError(f"The module is damaged: a text in it is not UTF-8: {e}.") from None
