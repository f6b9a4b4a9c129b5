"""Splits instruction messages into names, ids, links to other instructions, and other contents.

In a large module, mostly names, ids and links differ between instructions: 220,000 instructions have some 3,000 distinct other
contents. So messages are split into these parts, distinct contents are read once, and the rest is numbers. Messages must be
in the form that XLA writes: fields in ascending order, and each list as one field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inspector.hlo.reading.byte_arrays import BLOCK, ByteRanges, Numbers, Octets
from inspector.hlo.reading.field_numbers import CALLED_COMPUTATION_IDS, CONTROL_PREDECESSOR_IDS, ID, NAME, OPERAND_IDS
from inspector.hlo.reading.message_fields import LENGTH, VARINT, Fields, check_ends, contents
from inspector.support.varints import write_varint

LINKS = (OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS)
"""Field numbers of the lists of ids, ascending. XLA writes them directly after the instruction's id."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The values of a list field in those messages that have it.

    Attributes:
      rows: the messages that have the list, ascending.
      spans: the byte range of each list.
    """

    rows: Numbers
    spans: ByteRanges


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of messages.

    Attributes:
      octets: the bytes of the messages.
      messages: the byte range of each message.
      names: the byte range of each name, with length 0 if there is none.
      ids: the id of each message; 0 if there is none.
      links: the lists of ids, by field number of `LINKS`.
      codes: the code of each message's other contents.
      contents: the fields of the distinct contents, by code.
    """

    octets: Octets
    messages: ByteRanges
    names: ByteRanges
    ids: Numbers
    links: Mapping[int, Lists]
    codes: Numbers
    contents: Fields

    @classmethod
    def of(cls, octets: Octets, messages: ByteRanges) -> Parts:
        """Splits messages.

        Raises:
          ModuleError: a message is damaged.
        """
        ends, lengths = messages.ends, messages.lengths
        blocks = [_block(octets, ends[b : b + BLOCK], lengths[b : b + BLOCK]) for b in range(0, len(ends), BLOCK)]
        names, middles, ids, *links, tails = zip(*blocks, strict=True) if blocks else [()] * 7
        others = _joined(middles), _joined(tails)
        codes, first = octets.distinct(others)
        both = zip(*(octets.slices(spans[first]) for spans in others), strict=True)
        return cls(
            octets,
            messages,
            _joined(names),
            np.concatenate([_NONE, *ids]),
            {number: _some(_joined(spans)) for number, spans in zip(LINKS, links, strict=True)},
            codes,
            Fields([*map(b"".join, both)]),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def message(self, row: int) -> bytes:
        """Returns the bytes of one message."""
        begin, length = int(self.messages.begins[row]), int(self.messages.lengths[row])
        return self.octets.data[begin : begin + length]

    @property
    def misplaced(self) -> Numbers:
        """The codes of contents with a name, an id or a link in a position where XLA does not write it."""
        return np.unique(np.concatenate([self.contents.field(number).rows for number in (NAME, ID, *LINKS)]))


def _block(octets: Octets, ends: Numbers, lengths: Numbers) -> tuple[Any, ...]:
    """Splits a block of messages into names, fields before ids, ids, each of `LINKS`, and the remaining fields."""
    names, at = _bytes(octets, NAME, ends - lengths, ends)
    before = _behind(octets, ID, at, ends)
    ids, behind = _integers(octets, ID, before, ends)
    parts = [names, ByteRanges(at, before - at), ids]
    for number in LINKS:
        spans, behind = _bytes(octets, number, behind, ends)
        parts.append(spans)
    return (*parts, ByteRanges(behind, ends - behind))


def _bytes(octets: Octets, number: int, at: Numbers, ends: Numbers) -> tuple[ByteRanges, Numbers]:
    """Reads a bytes field at each position, with length 0 if there is none, and the positions after it."""
    lengths, begins = _field(octets, number << 3 | LENGTH, at, ends)
    return ByteRanges(begins, lengths), _checked(begins + lengths, at, ends)


def _integers(octets: Octets, number: int, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Reads an integer field at each position, 0 if there is none, and the positions after it."""
    integers, behind = _field(octets, number << 3 | VARINT, at, ends)
    return integers, _checked(behind, at, ends)


def _field(octets: Octets, tag: int, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Reads the integer after a tag at each position, 0 if there is none, and the positions after it."""
    written = write_varint(tag)
    is_there = octets.begins_with(at, written) & (at < ends)
    if is_there.all():
        return octets.varints(at + len(written))
    integers, behind, there = np.zeros_like(at), at.copy(), np.flatnonzero(is_there)
    if len(there):
        integers[there], behind[there] = octets.varints(at[there] + len(written))
    return integers, behind


def _behind(octets: Octets, number: int, at: Numbers, ends: Numbers) -> Numbers:
    """Returns the positions after all consecutive fields with smaller numbers."""
    positions, rows = at.copy(), np.arange(len(at))
    while len(rows):
        tags, begins = octets.varints(at)
        on = (tags < number << 3) & (at < ends)
        if not on.all():
            still = np.flatnonzero(on)
            rows, ends, tags, begins = (each[still] for each in (rows, ends, tags, begins))
        _, _, behind = contents(octets, tags & 7, begins)
        at = _checked(behind, begins, ends)
        positions[rows] = at
    return positions


def _checked(behind: Numbers, at: Numbers, ends: Numbers) -> Numbers:
    check_ends(behind, at, ends)
    return behind


_NONE = np.zeros(0, np.int64)


def _joined(spans: Sequence[ByteRanges]) -> ByteRanges:
    return ByteRanges(
        *(np.concatenate([_NONE, *each]) for each in ([s.begins for s in spans], [s.lengths for s in spans]))
    )


def _some(spans: ByteRanges) -> Lists:
    rows = np.flatnonzero(spans.lengths)
    return Lists(rows, spans[rows])
