"""A module's instructions as columns: read once, shared by everything that asks about all of them.

Texts and messages that many instructions share (opcodes, shapes, metadata) are kept once, and a column has their
numbers. What one instruction says besides is read from its bytes when it is asked for (`hlo/module.py`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from inspector.errors import ModuleError
from inspector.hlo.fields import Fields, Numbers
from inspector.toolchain.schema import READ_FIELDS, Schema, installed_schema

_FIELDS = READ_FIELDS["xla.HloInstructionProto"]
NAME, OPCODE, SHAPE, METADATA, PARAMETER_NUMBER, TUPLE_INDEX = (
    _FIELDS[name] for name in ("name", "opcode", "shape", "metadata", "parameter_number", "tuple_index")
)
CHANNEL_ID, ID, OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS = (
    _FIELDS[name] for name in ("channel_id", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids")
)
SHARDING, BACKEND_CONFIG, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE = (
    _FIELDS[name] for name in ("sharding", "backend_config", "frontend_attributes", "statistics_viz", "original_value")
)

_SINGULAR = (
    NAME,
    OPCODE,
    SHAPE,
    METADATA,
    CHANNEL_ID,
    ID,
    SHARDING,
    BACKEND_CONFIG,
    FRONTEND_ATTRIBUTES,
    STATISTICS_VIZ,
    ORIGINAL_VALUE,
)
_PACKED = (OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS)


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
class Links:
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
      names, ids: of each instruction.
      opcodes: as texts.
      shapes, metadata: as bytes.
      fields: everything else.
    """

    def __init__(self, data: bytes, schema: Schema | None = None) -> None:
        """Reads serialized bytes.

        Args:
          data: an `xla.HloModuleProto`, or an `xla.HloProto` that holds one.
          schema: message classes; the installed jaxlib's by default.

        Raises:
          ModuleError: neither, or damaged.
        """
        self.data = data
        self._schema = schema or installed_schema()
        outline = _outline(data)
        if outline is None:
            raise ModuleError(
                f"Cannot read {len(data)} bytes as an HLO module: expected a serialized xla.HloModuleProto or"
                " xla.HloProto with an entry computation. Such bytes come from"
                " hlo_module.as_serialized_hlo_module_proto() or from a *.hlo.pb dump."
            )
        found = list(outline.computations)
        self.computation_names: list[str] = [computation.name for computation in found]
        self.computation_ids: list[int] = [computation.id for computation in found]
        self.root_ids: list[int] = [computation.root_id for computation in found]
        self.first = np.append(0, np.cumsum([len(c.instructions) for c in found], dtype=np.int64))
        self.fields = self._regular([i for computation in found for i in computation.instructions])
        self.computations: list[bytes] = []
        for computation in found:
            computation.ClearField("instructions")
            self.computations.append(computation.SerializeToString())
        outline.ClearField("computations")
        self.module = self.message("xla.HloModuleProto", outline.SerializeToString())
        self._rows: dict[int, dict[int, int]] = {}
        self._coded: dict[int, Coded] = {}
        self.names = self.fields.texts(NAME)
        self.ids = self.fields.integers(ID)
        opcodes = _with_empty(*self.fields.coded(OPCODE))
        self.opcodes = Coded(opcodes.codes, [_text(value) for value in opcodes.values])
        self.shapes = _with_empty(*self.fields.coded(SHAPE))
        self.metadata = Coded(*self.fields.coded(METADATA))

    def __len__(self) -> int:
        return len(self.names)

    @functools.cached_property
    def in_computation(self) -> npt.NDArray[np.int32]:
        """Which computation each instruction is in."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))

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
            self._coded[number] = Coded(*self.fields.coded(number))
        return self._coded[number]

    def row(self, computation: int, instruction_id: int) -> int:
        """The instruction of a computation that has an id; -1 for none."""
        if computation not in self._rows:
            first, last = self.first[computation : computation + 2].tolist()
            self._rows[computation] = {each: first + n for n, each in enumerate(self.ids[first:last].tolist())}
        return self._rows[computation].get(instruction_id, -1)

    @functools.cached_property
    def roots(self) -> Numbers:
        """The row of each computation's root.

        Raises:
          ModuleError: one lacks it: the proto is damaged.
        """
        return self._in_place(np.arange(len(self.root_ids)), np.array(self.root_ids, np.int64))

    @functools.cached_property
    def operands(self) -> Links:
        """The instructions that each one takes.

        Raises:
          ModuleError: a computation lacks one: the proto is damaged.
        """
        return self._others(OPERAND_IDS)

    @functools.cached_property
    def predecessors(self) -> Links:
        """The instructions that must come before each one, though it takes nothing of them; errors as `operands`."""
        return self._others(CONTROL_PREDECESSOR_IDS)

    @functools.cached_property
    def called(self) -> Links:
        """The computations that each one calls.

        Raises:
          ModuleError: the module lacks one: the proto is damaged.
        """
        offsets, ids = self.fields.packed(CALLED_COMPUTATION_IDS)
        known = np.array(self.computation_ids, np.int64)
        numbers = _find(np.zeros(len(known), np.int64), known, np.zeros(len(ids), np.int64), ids)
        if (numbers < 0).any():
            missing = int(ids[np.argmin(numbers)])
            raise ModuleError(f"Module {self.module.name} refers to a computation {missing} that it lacks.")
        return Links(offsets, numbers)

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
    def users(self) -> Links:
        """The instructions that take each one, each once, in the module's order; errors as `operands`."""
        taken, users = self.operands.rows, self.operands.from_rows
        order = np.argsort(taken, kind="stable")
        taken, users = taken[order], users[order]
        first = np.ones(len(order), bool)
        first[1:] = (taken[1:] != taken[:-1]) | (users[1:] != users[:-1])
        counts = np.bincount(taken[first], minlength=len(self))
        return Links(np.append(0, np.cumsum(counts)), users[first])

    def _others(self, number: int) -> Links:
        offsets, ids = self.fields.packed(number)
        return Links(offsets, self._in_place(np.repeat(self.in_computation, np.diff(offsets)), ids))

    def _in_place(self, computations: npt.NDArray[Any], ids: Numbers) -> Numbers:
        """The rows of ids in computations. Raises ModuleError where one lacks it."""
        rows = _find(self.in_computation, self.ids, computations, ids)
        if (rows < 0).any():
            first = int(np.argmin(rows))
            name = self.computation_names[int(computations[first])]
            raise ModuleError(f"Computation {name} refers to an instruction {int(ids[first])} that it lacks.")
        return rows

    def instruction(self, row: int) -> Any:
        """The `xla.HloInstructionProto` of a row."""
        return self.message("xla.HloInstructionProto", self.fields.message(row))

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

    def _regular(self, messages: list[bytes]) -> Fields:
        """The instructions' fields, each singular one once, each list in one piece, and of none too many."""
        fields = Fields(messages)
        irregular = fields.irregular(_SINGULAR, _PACKED)
        if not len(irregular):
            return fields
        for row in irregular.tolist():
            messages[row] = _rewritten(self.message("xla.HloInstructionProto", messages[row]))
        return Fields(messages)


def _rewritten(instruction: Any) -> bytes:
    """The same message with its lists of messages, which may be long, at the end."""
    last = type(instruction)()
    for field, values in instruction.ListFields():
        if field.is_repeated and field.message_type is not None:
            getattr(last, field.name).extend(values)
            instruction.ClearField(field.name)
    return bytes(instruction.SerializeToString() + last.SerializeToString())


def _find(in_computation: npt.NDArray[Any], ids: Numbers, of_computation: npt.NDArray[Any], wanted: Numbers) -> Numbers:
    """The rows that have wanted ids in the same computation, -1 for none; of equal ones the last."""
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1)
    known, codes = np.unique(ids, return_inverse=True)
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    keys = in_computation.astype(np.int64) * len(known) + codes
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    asked = of_computation.astype(np.int64) * len(known) + place
    found = np.searchsorted(keys, asked, side="right") - 1
    there = (known[place] == wanted) & (found >= 0) & (keys[found] == asked)
    return np.where(there, order[found], -1)


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


def _outline(data: bytes) -> Any | None:
    """A module in which each instruction is its bytes; None for what is none."""
    module = _outlined(data, "Module")
    if module is not None and _is_module(module):
        return module
    wrapper = _outlined(data, "Proto")
    return wrapper.hlo_module if wrapper is not None and _is_module(wrapper.hlo_module) else None


def _outlined(data: bytes, message: str) -> Any | None:
    try:
        return _outline_type(message).FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError):
        return None


def _is_module(outline: Any) -> bool:
    """HloProto and HloModuleProto share field 1, so bytes of one may parse as the other."""
    return any(computation.id == outline.entry_computation_id for computation in outline.computations)


@functools.cache
def _outline_type(message: str) -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"string": field.TYPE_STRING, "bytes": field.TYPE_BYTES, "int64": field.TYPE_INT64}
    file = descriptor_pb2.FileDescriptorProto(name="outline.proto", package="outline", syntax="proto3")
    for name, fields in _OUTLINE.items():
        described = file.message_type.add(name=name)
        for field_name, (number, kind, *repeated) in fields.items():
            added = described.field.add(name=field_name, number=number, label=3 if repeated else 1)
            added.type = kinds.get(kind, field.TYPE_MESSAGE)
            if kind not in kinds:
                added.type_name = f".outline.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"outline.{message}"))


# Numbers are those of xla.HloProto, xla.HloModuleProto and xla.HloComputationProto; the rest stays as it is.
_OUTLINE: dict[str, dict[str, tuple[Any, ...]]] = {
    "Computation": {
        "name": (1, "string"), "instructions": (2, "bytes", "repeated"), "id": (5, "int64"), "root_id": (6, "int64"),
    },
    "Module": {
        "name": (1, "string"), "computations": (3, "Computation", "repeated"), "entry_computation_id": (6, "int64"),
    },
    "Proto": {"hlo_module": (1, "Module")},
}  # fmt: skip
