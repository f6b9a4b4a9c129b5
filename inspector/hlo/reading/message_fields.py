"""Parses the fields of many protobuf messages at once, as arrays.

A module has hundreds of thousands of instructions, each of which is a message of some ten fields. A message class gives
access to one field of one message at a time. This module parses all messages in parallel with NumPy: each step reads the
next field of every message that has one. Contents of fields are not copied, but given as byte ranges.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import BLOCK, ByteRanges, Numbers, Octets

TAIL = 0
"""Pseudo field number for the rest of a message with more than `MOST_FIELDS` fields."""

MOST_FIELDS = 128

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types: the low bits of a field's tag."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """All occurrences of one field, in the order of the messages.

    Attributes:
      rows: the message of each occurrence, `[occurrences]`, ascending.
      values: the value of an integer, or the start position of other contents.
      lengths: the byte length of the contents; -1 for an integer.
      begins, ends: byte range of the whole field, including its tag.
    """

    rows: npt.NDArray[np.int32]
    values: Numbers
    lengths: npt.NDArray[np.int32]
    begins: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]


class Fields:
    """The fields of messages.

    Attributes:
      octets: the concatenated messages.
      starts, ends: byte range of each message, `[messages]`.
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        """Parses messages.

        Raises:
          ModuleError: a message is damaged: a field ends after its message, or has an unknown wire type.
        """
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        ends = np.cumsum(lengths)
        self._parse(Octets(messages), ends - lengths, ends)

    @classmethod
    def at(cls, octets: Octets, ranges: ByteRanges) -> Self:
        """Parses messages at positions of bytes that are in memory, without a copy. Errors are those of `Fields`."""
        fields = cls.__new__(cls)
        fields._parse(octets, ranges.begins, ranges.ends)  # noqa: SLF001  # of this class
        return fields

    def _parse(self, octets: Octets, starts: Numbers, ends: Numbers) -> None:
        self.octets, self.starts, self.ends = octets, starts, ends
        self._fields = _read(octets, starts, ends)

    def __len__(self) -> int:
        return len(self.starts)

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the fields that occur, ascending; includes `TAIL` if a message has too many fields."""
        return tuple(sorted(self._fields))

    def field(self, number: int) -> Field:
        """Returns the occurrences of a field, which may be empty."""
        return self._fields.get(number, _NONE)

    def integers(self, number: int) -> Numbers:
        """Returns a singular integer field of each message, `[messages]`; 0 if it is not set.

        Raises:
          ModuleError: a value is not an integer.
        """
        values = np.zeros(len(self), np.int64)
        field = self.field(number)
        if (field.lengths >= 0).any():
            raise ModuleError(f"The module is damaged: field {number} of an instruction is not an integer.")
        values[field.rows] = field.values
        return values

    def contents(self, number: int) -> list[bytes]:
        """Returns the bytes of each occurrence of a field.

        Raises:
          ModuleError: a value is an integer.
        """
        field = self.field(number)
        if (field.lengths < 0).any():
            raise ModuleError(f"The module is damaged: field {number} of an instruction is an integer.")
        return self.octets.slices(ByteRanges(field.values, field.lengths.astype(np.int64)))

    def coded(self, number: int) -> tuple[Numbers, list[bytes]]:
        """Returns a code for a singular field of each message, -1 if it is not set, and the distinct values by code."""
        codes = np.full(len(self), -1)
        contents = self.contents(number)
        known = {value: code for code, value in enumerate(dict.fromkeys(contents))}
        codes[self.field(number).rows] = np.fromiter(map(known.__getitem__, contents), np.int64, len(contents))
        return codes, list(known)

    def without(self, numbers: Collection[int]) -> list[bytes]:
        """Returns the bytes of each message without some fields."""
        steps, lengths = np.zeros(self.octets.size + 1, np.int8), self.ends - self.starts
        for number in set(numbers):
            field = self.field(number)
            steps[field.begins] += 1
            steps[field.ends] -= 1
            lengths -= np.bincount(field.rows, field.ends - field.begins, len(self)).astype(np.int64)
        mask = np.cumsum(steps[:-1], dtype=np.int8) == 0
        left = np.frombuffer(self.octets.data, np.uint8, self.octets.size)[mask].tobytes()
        spans = np.append(0, np.cumsum(lengths)).tolist()
        return [left[start:end] for start, end in itertools.pairwise(spans)]

    def irregular(self, singular: Sequence[int]) -> Numbers:
        """Returns the messages with a repeated singular field or too many fields, which must be rewritten."""
        messages = [self.field(TAIL).rows]
        for number in singular:
            rows = self.field(number).rows
            messages.append(rows[1:][rows[1:] == rows[:-1]])
        return np.unique(np.concatenate(messages))


_NO_ROWS = np.zeros(0, np.int32)
_NONE = Field(_NO_ROWS, np.zeros(0, np.int64), _NO_ROWS, _NO_ROWS, _NO_ROWS)


def contents(octets: Octets, kinds: Numbers, at: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Reads the contents of fields.

    Args:
      octets: the bytes.
      kinds: the wire type of each field.
      at: the position after each field's tag.

    Returns:
      `(values, lengths, behind)`: see `Field.values` and `Field.lengths`; `behind` is the end of the field, or a position
      before its tag for an unknown wire type.
    """
    has_length, is_integer = kinds == LENGTH, kinds == VARINT
    if has_length.all():
        values, begin = octets.varints(at)
        return begin, values, begin + values
    is_fixed = (kinds == FIXED64) | (kinds == FIXED32)
    values, begin = octets.varints(np.where(is_fixed, 0, at))  # position 0 has a field's tag, which is a valid integer
    begin = np.where(is_fixed, at, begin)
    sizes = np.select([has_length, is_integer, is_fixed], [values, 0, np.where(kinds == FIXED64, 8, 4)], _NO_KIND)
    return np.where(is_integer, values, begin), np.where(is_integer, -1, sizes), begin + sizes


_NO_KIND = -(1 << 62)


def check_ends(behind: Numbers, at: Numbers, ends: Numbers) -> None:
    """Checks that fields are within their messages.

    Args:
      behind: the end of each field, from `contents`.
      at: the start of each field, or the position after its tag.
      ends: the end of its message.

    Raises:
      ModuleError: a field ends before it begins, as for an unknown wire type, or after its message.
    """
    if (behind < at).any() or (behind > ends).any():
        raise ModuleError("The module is damaged: a field of an instruction ends after it, or has an unknown type.")


def _read(octets: Octets, starts: Numbers, ends: Numbers) -> Mapping[int, Field]:
    blocks = range(0, len(starts), BLOCK)
    steps = [step for first in blocks for step in _steps(octets, first, starts, ends)]
    return _by_number([np.concatenate(column) for column in zip(*steps, strict=True)]) if steps else {}


def _steps(octets: Octets, first: int, starts: Numbers, ends: Numbers) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yields rows, numbers, values, lengths, begins and ends of the first field of each message in a block, then the second, ..."""
    at, until = starts[first : first + BLOCK], ends[first : first + BLOCK]
    rows = np.arange(first, first + len(at), dtype=np.int32)
    some = at < until
    rows, at, until = rows[some], at[some], until[some]
    for _ in range(MOST_FIELDS):
        if not len(rows):
            return
        begins = at
        tags, behind = octets.varints(begins)
        values, lengths, at = contents(octets, tags & 7, behind)
        check_ends(at, behind, until)
        if (tags < 8).any():
            raise ModuleError("The module is damaged: a field of an instruction has the number 0.")
        yield rows, tags >> 3, values, *(each.astype(np.int32) for each in (lengths, begins, at))
        on = at < until
        if not on.all():
            rows = rows[on]
            at, until = at[on], until[on]
    if len(rows):
        yield rows, np.full(len(rows), TAIL), at, *(each.astype(np.int32) for each in (until - at, at, until))


def _by_number(columns: Sequence[npt.NDArray[Any]]) -> Mapping[int, Field]:
    rows, numbers, *others = columns
    small = numbers.max() < 1 << 16
    order = np.argsort(
        numbers.astype(np.uint16) if small else numbers, kind="stable"
    )  # sorting 16-bit numbers takes linear time
    numbers = numbers[order]
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    fields = {}
    for start, end in itertools.pairwise(cuts):
        these = order[start:end]
        these = these[np.argsort(rows[these], kind="stable")]
        fields[int(numbers[start])] = Field(rows[these], *(column[these] for column in others))
    return fields
