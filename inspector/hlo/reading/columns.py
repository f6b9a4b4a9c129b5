"""A module's instructions as columns, read once and shared by all code that processes many instructions.

Texts and messages that many instructions share (opcodes, shapes, metadata) are stored once, and columns refer to them by
number. Other fields of an instruction are read from its bytes on demand (`hlo/module.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
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
    PARAMETER_NUMBER,
    SHAPE,
    SHARDING,
    STATISTICS_VIZ,
)
from inspector.hlo.reading.instruction_messages import Parts
from inspector.hlo.reading.message_offsets import Outline, outline
from inspector.hlo.reading.row_index import RowsById
from inspector.support.field_equality import OfFields
from inspector.toolchain.schema import Schema, installed_schema

_SINGULAR = (
    OPCODE, SHAPE, METADATA, CHANNEL_ID, SHARDING, BACKEND_CONFIG, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE,
    COLLECTIVE_DEVICE_LIST, PARAMETER_NUMBER,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of repeated values.

    Attributes:
      codes: the code of each row's value; -1 for a row without a value.
      values: the distinct values, by code.
    """

    codes: Numbers
    values: list[Any]

    def at(self, row: int) -> Any:
        """Returns the value of a row; b"" if it has none. Not for columns of text."""
        code = self.codes[row]
        return self.values[code] if code >= 0 else b""


@dataclasses.dataclass(frozen=True, eq=False)
class RowLists(OfFields):
    """A column of lists of rows.

    Attributes:
      offsets: the list of row `i` is `rows[offsets[i] : offsets[i + 1]]`; `[rows + 1]`.
      rows: the concatenated lists.
    """

    offsets: Numbers
    rows: Numbers

    @functools.cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        """Memory views of the offsets and the rows; reading one element is faster than from a NumPy array."""
        return self.offsets.data, self.rows.data

    def of(self, row: int) -> list[int]:
        offsets, rows = self._views
        return rows[offsets[row] : offsets[row + 1]].tolist()

    def lists(self, rows: range) -> list[list[int]]:
        """Returns the lists of consecutive rows."""
        offsets: list[int] = self.offsets[rows.start : rows.stop + 1].tolist()
        flat: list[int] = self.rows[offsets[0] : offsets[-1]].tolist()
        return [flat[start - offsets[0] : end - offsets[0]] for start, end in itertools.pairwise(offsets)]

    @functools.cached_property
    def having(self) -> Numbers:
        """The rows with a non-empty list."""
        return np.flatnonzero(np.diff(self.offsets))

    @property
    def from_rows(self) -> Numbers:
        """The row to which each list element belongs."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Columns:
    """The instructions of a module, in the order of its proto: computation by computation.

    Attributes:
      data: the bytes of the module.
      module: the `xla.HloModuleProto` without its computations.
      computations: the `xla.HloComputationProto` of each computation without its instructions, as bytes.
      computation_names, computation_ids, root_ids: names, ids and root ids of computations.
      first: the row of each computation's first instruction, followed by the number of all instructions.
      ids: ids of instructions.
      opcodes: opcodes of instructions, as text.
      shapes, metadata: shapes and metadata of instructions, as bytes.
      codes: the code of each instruction's other contents: all fields except name, id and links.
      contents: the fields of these contents, by code.
      outline, parts: the byte positions of all this.
    """

    def __init__(self, data: bytes, schema: Schema | None = None, known: tuple[Outline, Parts] | None = None) -> None:
        """Reads serialized bytes.

        Args:
          data: an `xla.HloModuleProto`, or an `xla.HloProto` that contains one.
          schema: message classes; those of the installed jaxlib by default.
          known: the saved outline and parts of the module, if it was read before.

        Raises:
          ModuleError: the bytes are neither, or damaged.
        """
        self.data = data
        self._schema = schema or installed_schema()
        parsed = outline(data) if known is None else known[0]
        self.outline = parsed
        self.computations = parsed.computations
        self.computation_names, self.computation_ids, self.root_ids = parsed.names, parsed.ids, parsed.root_ids
        self.first = parsed.first
        self.parts = self._regular(parsed) if known is None else known[1]
        self.module = self.message("xla.HloModuleProto", parsed.module)
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
        """The name of each instruction.

        Raises:
          ModuleError: a name is not UTF-8.
        """
        octets, names = self.parts.octets, self.parts.names
        texts = octets.gathered(ByteRanges(names.begins, names.lengths + 1))
        texts[np.cumsum(names.lengths + 1) - 1] = 0  # a separator after each name
        strings = _text(texts.tobytes()).split("\0")[:-1]
        return strings if len(strings) == len(self) else [*map(_text, octets.slices(names))]

    @functools.cached_property
    def _rows(self) -> RowsById:
        return RowsById(self.first, self.ids)

    @functools.cached_property
    def in_computation(self) -> npt.NDArray[np.int32]:
        """The number of the computation that contains each instruction."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

    @functools.cached_property
    def opcode_texts(self) -> list[str]:
        """The opcode of each instruction."""
        return [*map(self.opcodes.values.__getitem__, self.opcodes.codes.tolist())]

    def opcode_is(self, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Reports for each instruction whether its opcode satisfies a predicate."""
        return np.array([*map(wanted, self.opcodes.values)], bool)[self.opcodes.codes]

    def rows_of(self, wanted: Callable[[str], bool]) -> list[int]:
        """Returns the rows whose opcode satisfies a predicate, ascending."""
        rows: list[int] = np.flatnonzero(self.opcode_is(wanted)).tolist()
        return rows

    @functools.cached_property
    def calling(self) -> list[list[int]]:
        """The rows of each computation that call computations, ascending."""
        rows: list[list[int]] = [[] for _ in self.computations]
        having = self.called.having
        for number, row in zip(self.in_computation[having].tolist(), having.tolist(), strict=True):
            rows[number].append(row)
        return rows

    @functools.cached_property
    def parameters(self) -> list[list[int]]:
        """The rows of each computation's parameters, by parameter number."""
        rows: list[list[int]] = [[] for _ in self.computations]
        found = np.flatnonzero(self.opcode_is("parameter".__eq__))
        found = found[np.argsort(self.integers(PARAMETER_NUMBER)[found], kind="stable")]
        for number, row in zip(self.in_computation[found].tolist(), found.tolist(), strict=True):
            rows[number].append(row)
        return rows

    def coded(self, number: int) -> Coded:
        """Returns a singular field of `xla.HloInstructionProto`, by its number, as bytes."""
        if number not in self._coded:
            self._coded[number] = self._of_rows(Coded(*self.contents.coded(number)))
        return self._coded[number]

    def integers(self, number: int) -> Numbers:
        """Returns a singular integer field of each instruction, by its number, `[rows]`; 0 if it is not set."""
        return self.contents.integers(number)[self.codes]

    def integer(self, number: int, row: int) -> int:
        """Returns a singular integer field of one instruction; 0 if it is not set."""
        if number not in self._integers:
            self._integers[number] = self.contents.integers(number)
        return int(self._integers[number][self.codes[row]])

    def _of_rows(self, contents: Coded) -> Coded:
        return Coded(contents.codes[self.codes], contents.values)

    def rows_with(self, computation: int, ids: Sequence[int]) -> list[int]:
        """Returns the rows of a computation's instructions by their ids.

        Raises:
          ModuleError: an id is missing, because the proto is damaged.
        """
        rows: list[int] = self._in_place(np.full(len(ids), computation), np.array(ids, np.int64)).tolist()
        return rows

    @functools.cached_property
    def roots(self) -> Numbers:
        """The row of each computation's root.

        Raises:
          ModuleError: a root is missing, because the proto is damaged.
        """
        return self._in_place(np.arange(len(self.root_ids)), np.array(self.root_ids, np.int64))

    @functools.cached_property
    def operands(self) -> RowLists:
        """The operands of each instruction.

        Raises:
          ModuleError: an operand is missing, because the proto is damaged.
        """
        return self._others(OPERAND_IDS)

    @functools.cached_property
    def predecessors(self) -> RowLists:
        """The control predecessors of each instruction. Errors are those of `operands`."""
        return self._others(CONTROL_PREDECESSOR_IDS)

    @functools.cached_property
    def called(self) -> RowLists:
        """The computations that each instruction calls.

        Raises:
          ModuleError: a computation is missing, because the proto is damaged.
        """
        offsets, ids = self._lists(CALLED_COMPUTATION_IDS)
        known = RowsById(np.array([0, len(self.computation_ids)]), np.array(self.computation_ids, np.int64))
        numbers = known.of(np.zeros(len(ids), np.int64), ids)
        if (numbers < 0).any():
            missing = int(ids[np.argmin(numbers)])
            raise ModuleError(f"Module {self.module.name} refers to computation {missing}, which it does not have.")
        return RowLists(offsets, numbers)

    @functools.cached_property
    def callees(self) -> dict[int, tuple[int, ...]]:
        """The numbers of called computations by row, for instructions that call any."""
        return {row: tuple(self.called.of(row)) for row in self.called.having.tolist()}

    @functools.cached_property
    def positions(self) -> Numbers:
        """The position of each instruction in its computation's schedule, or in the proto's order without a schedule.

        Raises:
          ModuleError: the schedule names a missing instruction, because the proto is damaged.
        """
        positions: Numbers = np.arange(len(self)) - self.first[self.in_computation]
        sequences = self.module.schedule.sequences
        schedules = [
            (number, np.array(sequences[computation].instruction_ids, np.int64))
            for number, computation in enumerate(self.computation_ids)
            if computation in sequences
        ]
        if schedules:
            computations = np.repeat([number for number, _ in schedules], [len(ids) for _, ids in schedules])
            places = np.concatenate([np.arange(len(ids)) for _, ids in schedules])
            positions[self._in_place(computations, np.concatenate([ids for _, ids in schedules]))] = places
        return positions

    @functools.cached_property
    def users(self) -> RowLists:
        """The users of each instruction, without duplicates, in the module's order. Errors are those of `operands`."""
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
        """Returns the ids that a field lists: those of row `i` are `ids[offsets[i] : offsets[i + 1]]`."""
        lists = self.parts.links[number]
        offsets, ids = self.parts.octets.lists(lists.spans)
        counts = np.zeros(len(self), np.int64)
        counts[lists.rows] = np.diff(offsets)
        return np.append(0, np.cumsum(counts)), ids

    def _in_place(self, computations: npt.NDArray[Any], ids: Numbers) -> Numbers:
        """Returns the rows of ids in computations. Raises ModuleError if an id is missing."""
        rows = self._rows.of(computations, ids)
        if (rows < 0).any():
            first = int(np.argmin(rows))
            name = self.computation_names[int(computations[first])]
            raise ModuleError(f"Computation {name} refers to instruction {int(ids[first])}, which it does not have.")
        return rows

    def instruction(self, row: int) -> Any:
        """Returns the `xla.HloInstructionProto` of a row."""
        return self.message("xla.HloInstructionProto", self.parts.message(row))

    def computation(self, number: int) -> Any:
        """Returns the `xla.HloComputationProto` of a computation, without its instructions."""
        return self.message("xla.HloComputationProto", self.computations[number])

    def message(self, name: str, data: bytes) -> Any:
        """Decodes a message in the columns, such as an `xla.ShapeProto`.

        Raises:
          ModuleError: the message is damaged.
        """
        try:
            return self._schema.message(name).FromString(data)
        except DecodeError as e:
            raise ModuleError(f"The module is damaged: {len(data)} bytes in it are not a valid {name}: {e}.") from None

    def messages(self, name: str, data: Sequence[bytes]) -> Sequence[Any]:
        """Decodes several messages of one type. Errors are those of `message`."""
        try:
            return self._schema.messages(name, data)
        except DecodeError:
            return [self.message(name, each) for each in data]  # raises an error for the damaged one

    def _regular(self, parsed: Outline) -> Parts:
        """Splits instructions into parts, after rewriting those with repeated singular fields, split lists or too many fields."""
        end = int(parsed.instructions.ends.max(initial=0))
        parts = Parts.of(Octets([parsed.data], end), parsed.instructions)
        irregular = np.append(parts.contents.irregular(_SINGULAR), parts.misplaced)
        if not len(irregular):
            return parts
        written = [*map(parts.message, range(len(parts)))]
        for row in np.flatnonzero(np.isin(parts.codes, irregular)).tolist():
            written[row] = _rewritten(self.message("xla.HloInstructionProto", written[row]))
        lengths = np.array([*map(len, written)], np.int64)
        parts = Parts.of(Octets(written), ByteRanges(np.cumsum(lengths) - lengths, lengths))
        if len(parts.misplaced):
            raise ModuleError("The module is damaged: the name, id or operands of an instruction are invalid.")
        return parts


def _rewritten(instruction: Any) -> bytes:
    """Serializes a message with its lists of messages, which may be long, at the end."""
    last = type(instruction)()
    for field, values in instruction.ListFields():
        if field.is_repeated and field.message_type is not None:
            getattr(last, field.name).extend(values)
            instruction.ClearField(field.name)
    return bytes(instruction.SerializeToString() + last.SerializeToString())


def _with_empty(codes: Numbers, values: list[bytes]) -> Coded:
    """Returns a field in which unset values are empty."""
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
