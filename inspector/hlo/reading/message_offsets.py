"""Finds the byte ranges of a module's computations and instructions, whose contents are then read in columns."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers
from inspector.support.varints import read_varint, write_varint

_COMPUTATION, _INSTRUCTION = b"\x1a", b"\x12"  # tags of fields 3 and 2, length-delimited


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """The parts of a module.

    Attributes:
      data: the bytes that contain the instructions.
      module: the `xla.HloModuleProto` without its computations.
      computations: the `xla.HloComputationProto` of each computation without its instructions.
      names, ids, root_ids: names, ids and root ids of computations.
      first: the index of each computation's first instruction, followed by the number of all instructions.
      instructions: the byte range of each instruction in `data`.
    """

    data: bytes
    module: bytes
    computations: list[bytes]
    names: list[str]
    ids: list[int]
    root_ids: list[int]
    first: Numbers
    instructions: ByteRanges

    @classmethod
    def of(
        cls, data: bytes, module: bytes, computations: list[bytes], first: Numbers, instructions: ByteRanges
    ) -> Outline:
        """Builds an outline, and reads names, ids and root ids of computations.

        Raises:
          ValueError: there is no entry computation, or a computation still contains instructions.
        """
        written = [part for about in computations for part in (_COMPUTATION, write_varint(len(about)), about)]
        message = _message("Heads", b"".join([module, *written]))
        heads = [] if message is None else [*message.computations]
        ids = [each.id for each in heads]
        if len(heads) != len(computations) or message is None or message.entry_computation_id not in ids:
            raise ValueError("not a module")
        if any(each.instructions for each in heads):
            raise ValueError("a computation has other instructions")
        names, root_ids = [each.name for each in heads], [each.root_id for each in heads]
        return cls(data, module, computations, names, ids, root_ids, first, instructions)


def outline(data: bytes) -> Outline:
    """Finds the parts of a module.

    Args:
      data: an `xla.HloModuleProto`, or an `xla.HloProto` that contains one.

    Raises:
      ModuleError: the bytes are neither.
    """
    parts = _parts(data) or _parts(_rewritten(data))
    if parts is None:
        raise _not_a_module(data)
    return parts


def _rewritten(data: bytes) -> bytes:
    """Serializes a module in XLA's form. Other serializations are valid too, but XLA's form is read twice as fast."""
    for name in ("Module", "Proto"):
        message = _message(name, data)
        module = message.hlo_module if name == "Proto" and message is not None else message
        # HloProto and HloModuleProto share field 1, so bytes of one may parse as the other.
        if module is not None and any(each.id == module.entry_computation_id for each in module.computations):
            written: bytes = module.SerializeToString()
            return written
    raise _not_a_module(data)


def _not_a_module(data: bytes) -> ModuleError:
    return ModuleError(
        f"Cannot read {len(data)} bytes as an HLO module: expected a serialized xla.HloModuleProto or"
        " xla.HloProto with an entry computation. Such bytes come from"
        " hlo_module.as_serialized_hlo_module_proto() or from a *.hlo.pb dump."
    )


def _parts(data: bytes) -> Outline | None:
    """Returns the parts of a module; None if it is not a module, or not serialized in XLA's form."""
    runs, sizes = _Runs(), list[int]()
    rest, heads, counts = list[bytes](), list[bytes](), [0]
    at, end, computation = 0, len(data), _COMPUTATION[0]
    try:
        while at < end:
            start, is_computation = at, data[at] == computation
            content, at = _field(data, at)
            if not is_computation:
                rest.append(data[start:at])
                continue
            begin, stop = runs.add(data, content, at, sizes)
            heads.append(data[content:begin] + data[stop:at])
            counts.append(len(sizes))
        instructions = runs.spans(np.array(sizes, np.int64))
        _check(at, end)
        return Outline.of(data, b"".join(rest), heads, np.array(counts, np.int64), instructions)
    except (ValueError, IndexError):
        return None


def _field(data: bytes, at: int) -> tuple[int, int]:
    """Returns the start and end of a field's content. Raises ValueError or IndexError for invalid fields."""
    tag, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
    kind = tag & 7
    if kind == 2:
        size, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
        return at, at + size
    if kind == 0:
        return at, read_varint(data, at)[1]
    return at, at + {1: 8, 5: 4}.get(kind, len(data) + 1)


def _check(at: int, end: int) -> None:
    if at != end:
        raise ValueError("a field ends after its message")


class _Runs:
    """Runs of consecutive instructions, one per computation."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # number of instructions before each run

    def add(self, data: bytes, at: int, end: int, sizes: list[int]) -> tuple[int, int]:
        """Adds the instructions of a computation. Returns the start of the first and the end of the last.

        This loop runs for every instruction of a module, so it avoids function calls.
        """
        instruction = _INSTRUCTION[0]
        while at < end and data[at] != instruction:
            _, at = _field(data, at)
        begin, add = at, sizes.append
        self._begins.append(at)
        self._before.append(len(sizes))
        while at < end and data[at] == instruction:
            size = data[at + 1]
            if size < 0x80:
                at += size + 2
            elif data[at + 2] < 0x80:
                size += (data[at + 2] << 7) - 0x80
                at += size + 3
            else:
                size, at = read_varint(data, at + 1)
                at += size
            add(size)
        _check(min(at, end), at)
        self._ends.append(at)
        return begin, at

    def spans(self, sizes: Numbers) -> ByteRanges:
        """Returns the byte ranges of all instructions.

        Args:
          sizes: the size of each instruction, in order.

        Raises:
          ValueError: a size is encoded with more bytes than necessary.
        """
        heads = np.full(len(sizes), 2)  # tag and length
        for more in range(7, 35, 7):
            heads += sizes >= 1 << more
        ends = np.append(0, np.cumsum(sizes + heads))
        before = np.array([*self._before, len(sizes)], np.int64)
        steps = np.array(self._begins, np.int64) - ends[before[:-1]]
        if (ends[before[1:]] + steps != self._ends).any():
            raise ValueError("a size is encoded with more bytes than necessary")
        return ByteRanges(ends[1:] - sizes + np.repeat(steps, np.diff(before)), sizes)


def _message(name: str, data: bytes) -> Any | None:
    try:
        return _type(name).FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError):
        return None


@functools.cache
def _type(message: str) -> Any:
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


# Field numbers are those of xla.HloProto, xla.HloModuleProto and xla.HloComputationProto. Other fields stay unparsed.
_OUTLINE: dict[str, dict[str, tuple[Any, ...]]] = {
    "Computation": {
        "name": (1, "string"), "instructions": (2, "bytes", "repeated"), "id": (5, "int64"), "root_id": (6, "int64"),
    },
    "Module": {
        "name": (1, "string"), "computations": (3, "Computation", "repeated"), "entry_computation_id": (6, "int64"),
    },
    "Proto": {"hlo_module": (1, "Module")},
    # Reading an unset list would allocate memory (see `Schema.messages`).
    "Head": {"name": (1, "string"), "instructions": (2, "bytes"), "id": (5, "int64"), "root_id": (6, "int64")},
    "Heads": {"computations": (3, "Head", "repeated"), "entry_computation_id": (6, "int64")},
}  # fmt: skip
