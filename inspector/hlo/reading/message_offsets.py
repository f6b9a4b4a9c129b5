"""Where a module's computations and instructions lie in its bytes; what instructions say is read in columns."""

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

_COMPUTATION, _INSTRUCTION = b"\x1a", b"\x12"  # tags of fields 3 and 2, which have a length


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """The parts of a module.

    Attributes:
      data: where its instructions are.
      module: the `xla.HloModuleProto` without its computations.
      computations: of each its `xla.HloComputationProto` without its instructions.
      names, ids, root_ids: of each computation.
      first: the first instruction of each computation, and at the end the number of all.
      instructions: where each instruction is in `data`.
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
        """The same, with what computations say of themselves.

        Raises:
          ValueError: there is no entry computation, or a computation has more instructions.
        """
        written = [part for about in computations for part in (_COMPUTATION, write_varint(len(about)), about)]
        said = _message("Heads", b"".join([module, *written]))
        heads = [] if said is None else [*said.computations]
        ids = [each.id for each in heads]
        if len(heads) != len(computations) or said is None or said.entry_computation_id not in ids:
            raise ValueError("no module")
        if any(each.instructions for each in heads):
            raise ValueError("a computation has other instructions")
        names, root_ids = [each.name for each in heads], [each.root_id for each in heads]
        return cls(data, module, computations, names, ids, root_ids, first, instructions)


def outline(data: bytes) -> Outline:
    """Finds the parts.

    Args:
      data: an `xla.HloModuleProto`, or an `xla.HloProto` that holds one.

    Raises:
      ModuleError: neither.
    """
    found = _parts(data) or _parts(_written_anew(data))
    if found is None:
        raise _no_module(data)
    return found


def _written_anew(data: bytes) -> bytes:
    """The module as XLA writes it: what is read twice as fast, but other ways mean the same."""
    for name in ("Module", "Proto"):
        message = _message(name, data)
        module = message.hlo_module if name == "Proto" and message is not None else message
        # HloProto and HloModuleProto share field 1, so bytes of one may parse as the other.
        if module is not None and any(each.id == module.entry_computation_id for each in module.computations):
            written: bytes = module.SerializeToString()
            return written
    raise _no_module(data)


def _no_module(data: bytes) -> ModuleError:
    return ModuleError(
        f"Cannot read {len(data)} bytes as an HLO module: expected a serialized xla.HloModuleProto or"
        " xla.HloProto with an entry computation. Such bytes come from"
        " hlo_module.as_serialized_hlo_module_proto() or from a *.hlo.pb dump."
    )


def _parts(data: bytes) -> Outline | None:
    """The parts of a module; None where it is none, or written in another way than XLA does."""
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
    """Where the content of a field begins, and where it ends. Raises ValueError or IndexError where there is none."""
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
        raise ValueError("a field ends behind its message")


class _Runs:
    """Instructions that follow each other."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # how many instructions

    def add(self, data: bytes, at: int, end: int, sizes: list[int]) -> tuple[int, int]:
        """Finds those of a computation, and where the first begins and the last ends.

        Passes each instruction of a module, so it calls nothing.
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
        """Where all are.

        Args:
          sizes: of each, in order.

        Raises:
          ValueError: one is written in more bytes than it needs.
        """
        heads = np.full(len(sizes), 2)  # tag and length
        for more in range(7, 35, 7):
            heads += sizes >= 1 << more
        ends = np.append(0, np.cumsum(sizes + heads))
        before = np.array([*self._before, len(sizes)], np.int64)
        steps = np.array(self._begins, np.int64) - ends[before[:-1]]
        if (ends[before[1:]] + steps != self._ends).any():
            raise ValueError("a size is written in more bytes than it needs")
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


# Numbers are those of xla.HloProto, xla.HloModuleProto and xla.HloComputationProto; the rest stays as it is.
_OUTLINE: dict[str, dict[str, tuple[Any, ...]]] = {
    "Computation": {
        "name": (1, "string"), "instructions": (2, "bytes", "repeated"), "id": (5, "int64"), "root_id": (6, "int64"),
    },
    "Module": {
        "name": (1, "string"), "computations": (3, "Computation", "repeated"), "entry_computation_id": (6, "int64"),
    },
    "Proto": {"hlo_module": (1, "Module")},
    # To ask for a list that is not there would take memory of its own (`Schema.messages`).
    "Head": {"name": (1, "string"), "instructions": (2, "bytes"), "id": (5, "int64"), "root_id": (6, "int64")},
    "Heads": {"computations": (3, "Head", "repeated"), "entry_computation_id": (6, "int64")},
}  # fmt: skip
