"""The fields of many protobuf messages at once, as arrays.

A module has hundreds of thousands of instructions, each of which is a message of some ten fields; a message class
gives one field of one message at a time. Here all messages are read beside each other: in each step the next field
of every message that has one, with NumPy. What a field holds stays where it is, as the bytes between two positions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.varint_arrays import varint_ends, varints_at

Numbers: TypeAlias = npt.NDArray[np.int64]

TAIL = 0
"""The number (no field's) under which the rest of a message stands that has more than `MOST_FIELDS` fields."""

MOST_FIELDS = 128

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BLOCK = 8192  # messages, so that what a step works on stays in the processor's cache
_PADDING = 16  # so that an integer that the end cuts off is read as one that ends too late
_MOST_BITS = 63


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """All occurrences of one field, in the order of the messages.

    Attributes:
      rows: which message each is in, `[occurrences]`, ascending.
      values: the integer; of what is no integer, where its bytes begin.
      lengths: of its bytes; -1 for an integer.
      begins, ends: of the whole field in the messages' bytes, its number included.
    """

    rows: npt.NDArray[np.int32]
    values: Numbers
    lengths: npt.NDArray[np.int32]
    begins: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]


class Fields:
    """The fields of messages that follow each other in a buffer.

    Attributes:
      data: the messages.
      starts, ends: of each message, `[messages]`.
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        """Reads the messages.

        Raises:
          ModuleError: one is damaged: a field ends behind it, or is of no kind that there is.
        """
        self.data = b"".join(messages)
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        self._fields = _read(np.frombuffer(self.data + bytes(_PADDING), np.uint8), self.starts, self.ends)

    def __len__(self) -> int:
        return len(self.starts)

    def message(self, row: int) -> bytes:
        """The bytes of one message."""
        return self.data[self.starts[row] : self.ends[row]]

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the fields that occur, ascending; `TAIL` where a message has too many."""
        return tuple(sorted(self._fields))

    def field(self, number: int) -> Field:
        """The occurrences of a field; of none, empty."""
        return self._fields.get(number, _NONE)

    def integers(self, number: int) -> Numbers:
        """A singular integer of each message, `[messages]`; 0 where it has none.

        Raises:
          ModuleError: one is no integer.
        """
        found = np.zeros(len(self), np.int64)
        field = self.field(number)
        if (field.lengths >= 0).any():
            raise ModuleError(f"The module is damaged: field {number} of an instruction is no integer.")
        found[field.rows] = field.values
        return found

    def texts(self, number: int) -> list[str]:
        """A singular text of each message; "" where it has none.

        Raises:
          ModuleError: one is not UTF-8.
        """
        contents, rows = self.contents(number), self.field(number).rows
        try:
            if len(rows) == len(self):
                return [*map(bytes.decode, contents)]
            found = dict(zip(rows.tolist(), map(bytes.decode, contents), strict=True))
        except UnicodeDecodeError as e:
            raise ModuleError(f"The module is damaged: a text in it is not UTF-8: {e}.") from None
        return [found.get(row, "") for row in range(len(self))]

    def contents(self, number: int) -> list[bytes]:
        """The bytes of each occurrence of a field.

        Raises:
          ModuleError: one is an integer.
        """
        field, data = self.field(number), self.data
        if (field.lengths < 0).any():
            raise ModuleError(f"The module is damaged: field {number} of an instruction is an integer.")
        ends = field.values + field.lengths
        return [data[start:end] for start, end in zip(field.values.tolist(), ends.tolist(), strict=True)]

    def coded(self, number: int) -> tuple[Numbers, list[bytes]]:
        """A singular field of each message as a number, and what each number stands for; -1 where it has none."""
        codes = np.full(len(self), -1)
        contents = self.contents(number)
        known = {value: code for code, value in enumerate(dict.fromkeys(contents))}
        codes[self.field(number).rows] = np.fromiter(map(known.__getitem__, contents), np.int64, len(contents))
        return codes, list(known)

    def without(self, numbers: Collection[int]) -> list[bytes]:
        """The bytes of each message without some of its fields."""
        steps, lengths = np.zeros(len(self.data) + 1, np.int8), self.ends - self.starts
        for number in set(numbers):
            field = self.field(number)
            steps[field.begins] += 1
            steps[field.ends] -= 1
            lengths -= np.bincount(field.rows, field.ends - field.begins, len(self)).astype(np.int64)
        left = np.frombuffer(self.data, np.uint8)[np.cumsum(steps[:-1], dtype=np.int8) == 0].tobytes()
        spans = np.append(0, np.cumsum(lengths)).tolist()
        return [left[start:end] for start, end in itertools.pairwise(spans)]

    def packed(self, number: int) -> tuple[Numbers, Numbers]:
        """A repeated integer of each message.

        Returns:
          `(offsets, values)`: those of message `i` are `values[offsets[i] : offsets[i + 1]]`.

        Raises:
          ModuleError: they are damaged.
        """
        field, data = self.field(number), b"".join(self.contents(number))
        pieces = np.cumsum(field.lengths, dtype=np.int64)
        try:
            ends = varint_ends(data)
            values = varints_at(data, ends)
        except ValueError as e:
            raise ModuleError(f"The module is damaged: {e}.") from None
        if (np.frombuffer(data, np.uint8)[pieces[pieces > 0] - 1] >= 0x80).any():
            raise ModuleError("The module is damaged: a list of integers in it does not end.")
        counts = np.zeros(len(self), np.int64)
        np.add.at(counts, field.rows, np.diff(np.searchsorted(ends, pieces), prepend=0))
        return np.append(0, np.cumsum(counts)), values

    def irregular(self, singular: Sequence[int], packed: Sequence[int]) -> Numbers:
        """The messages in which a field occurs again, or is written as no other is: to be written anew."""
        found = [self.field(TAIL).rows]
        for number in (*singular, *packed):
            rows = self.field(number).rows
            found.append(rows[1:][rows[1:] == rows[:-1]])
        for number in packed:
            field = self.field(number)
            found.append(field.rows[field.lengths < 0])
        return np.unique(np.concatenate(found))


_NO_ROWS = np.zeros(0, np.int32)
_NONE = Field(_NO_ROWS, np.zeros(0, np.int64), _NO_ROWS, _NO_ROWS, _NO_ROWS)


def _read(buffer: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers) -> Mapping[int, Field]:
    blocks = range(0, len(starts), _BLOCK)
    steps = [step for first in blocks for step in _steps(buffer, first, starts, ends)]
    return _by_number([np.concatenate(column) for column in zip(*steps, strict=True)]) if steps else {}


def _steps(
    buffer: npt.NDArray[np.uint8], first: int, starts: Numbers, ends: Numbers
) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Rows, numbers, values, lengths and ends of the first field of each message of a block, then of the second, ..."""
    at, until = starts[first : first + _BLOCK], ends[first : first + _BLOCK]
    rows = np.arange(first, first + len(at), dtype=np.int32)
    some = at < until
    rows, at, until = rows[some], at[some], until[some]
    for _ in range(MOST_FIELDS):
        if not len(rows):
            return
        begins = at
        tags, at = _varints(buffer, begins)
        values, lengths, behind, at = _contents(buffer, tags & 7, at)
        if (at > until).any() or (at < behind).any() or (lengths < -1).any() or (tags < 8).any():
            raise ModuleError(
                "The module is damaged: a field of an instruction ends behind it, or is of no known kind."
            )
        yield rows, tags >> 3, values, *(each.astype(np.int32) for each in (lengths, begins, at))
        on = at < until
        if not on.all():
            rows = rows[on]
            at, until = at[on], until[on]
    if len(rows):
        yield rows, np.full(len(rows), TAIL), at, *(each.astype(np.int32) for each in (until - at, at, until))


def _contents(buffer: npt.NDArray[np.uint8], kinds: Numbers, at: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Of the contents of fields: `Field.values`, `Field.lengths` (-2 for no kind that there is), begin and end."""
    has_length, is_integer = kinds == _LENGTH, kinds == _VARINT
    if (has_length | is_integer).all():
        values, begin = _varints(buffer, at)
        lengths = np.where(has_length, np.where(values < 0, -2, values), -1)
    else:
        is_fixed = (kinds == _FIXED64) | (kinds == _FIXED32)
        values, begin = _varints(buffer, np.where(is_fixed, len(buffer) - 1, at))  # the last is a zero
        begin = np.where(is_fixed, at, begin)
        lengths = np.select(
            [has_length & (values >= 0), is_integer, is_fixed], [values, -1, np.where(kinds == _FIXED64, 8, 4)], -2
        )
    return np.where(lengths < 0, values, begin), lengths, begin, begin + np.maximum(lengths, 0)


def _by_number(columns: Sequence[npt.NDArray[Any]]) -> Mapping[int, Field]:
    rows, numbers, *contents = columns
    small = numbers.max() < 1 << 16
    order = np.argsort(numbers.astype(np.uint16) if small else numbers, kind="stable")  # 16 bits: in linear time
    numbers = numbers[order]
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    found = {}
    for start, end in itertools.pairwise(cuts):
        these = order[start:end]
        these = these[np.argsort(rows[these], kind="stable")]
        found[int(numbers[start])] = Field(rows[these], *(column[these] for column in contents))
    return found


def _varints(buffer: npt.NDArray[np.uint8], at: Numbers) -> tuple[Numbers, Numbers]:
    """The integers at positions, and the positions behind them."""
    first = buffer[at]
    values: Any = (first & 0x7F).astype(np.int64)
    behind = at + 1
    more, shift = np.flatnonzero(first >= 0x80), 7
    while len(more):
        if shift > _MOST_BITS:
            raise ModuleError("The module is damaged: an integer in it has more than 64 bits.")
        byte = buffer[behind[more]].astype(np.int64)
        values[more] |= (byte & 0x7F) << shift
        behind[more] += 1
        more, shift = more[byte >= 0x80], shift + 7
    return values, behind
