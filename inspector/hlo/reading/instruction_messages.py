"""What the messages of instructions consist of: names, ids, links to others, and what they say besides.

Only names, ids and links differ from one instruction of a large module to the next: what 220,000 of them say besides
is some 3,000 different things. So the messages are cut into these parts, what is said is read once for each
different thing, and the rest is numbers. A message is one that XLA wrote: its fields ascend, each list is one field.
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
"""The lists of ids, ascending; right behind the instruction's own."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of integers in some of the messages.

    Attributes:
      rows: the messages that have one, ascending.
      spans: the bytes of each.
    """

    rows: Numbers
    spans: ByteRanges


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of messages.

    Attributes:
      octets: where the messages are.
      messages: of each.
      names: where each name is, of no length where there is none.
      ids: of each; 0 where there is none.
      links: by field, of `LINKS`.
      codes: what each message says besides, as a number.
      contents: the fields of what is said, by that number.
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
        """Reads messages.

        Raises:
          ModuleError: one is damaged.
        """
        ends, lengths = messages.ends, messages.lengths
        blocks = [_block(octets, ends[b : b + BLOCK], lengths[b : b + BLOCK]) for b in range(0, len(ends), BLOCK)]
        names, middles, ids, *links, tails = zip(*blocks, strict=True) if blocks else [()] * 7
        said = _joined(middles), _joined(tails)
        codes, first = octets.distinct(said)
        both = zip(*(octets.slices(spans[first]) for spans in said), strict=True)
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
        """The bytes of one message."""
        begin, length = int(self.messages.begins[row]), int(self.messages.lengths[row])
        return self.octets.data[begin : begin + length]

    @property
    def misplaced(self) -> Numbers:
        """The contents in which a name, an id or a link stands, where XLA does not write it."""
        return np.unique(np.concatenate([self.contents.field(number).rows for number in (NAME, ID, *LINKS)]))


def _block(octets: Octets, ends: Numbers, lengths: Numbers) -> tuple[Any, ...]:
    """Names, what comes before ids, ids, each of `LINKS`, and what comes behind, of some messages."""
    names, at = _bytes(octets, NAME, ends - lengths, ends)
    before = _behind(octets, ID, at, ends)
    ids, behind = _integers(octets, ID, before, ends)
    found = [names, ByteRanges(at, before - at), ids]
    for number in LINKS:
        spans, behind = _bytes(octets, number, behind, ends)
        found.append(spans)
    return (*found, ByteRanges(behind, ends - behind))


def _bytes(octets: Octets, number: int, at: Numbers, ends: Numbers) -> tuple[ByteRanges, Numbers]:
    """A field of bytes where one stands at a position, of no length where none does; and the positions behind."""
    lengths, begins = _field(octets, number << 3 | LENGTH, at, ends)
    return ByteRanges(begins, lengths), _checked(begins + lengths, at, ends)


def _integers(octets: Octets, number: int, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """An integer where one stands at a position, else 0; and the positions behind."""
    found, behind = _field(octets, number << 3 | VARINT, at, ends)
    return found, _checked(behind, at, ends)


def _field(octets: Octets, tag: int, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The integers behind a tag where one stands at a position, else 0; and the positions behind."""
    written = write_varint(tag)
    is_there = octets.begins_with(at, written) & (at < ends)
    if is_there.all():
        return octets.varints(at + len(written))
    found, behind, there = np.zeros_like(at), at.copy(), np.flatnonzero(is_there)
    if len(there):
        found[there], behind[there] = octets.varints(at[there] + len(written))
    return found, behind


def _behind(octets: Octets, number: int, at: Numbers, ends: Numbers) -> Numbers:
    """The positions behind all fields below a number that follow each other from positions on."""
    found, rows = at.copy(), np.arange(len(at))
    while len(rows):
        tags, begins = octets.varints(at)
        on = (tags < number << 3) & (at < ends)
        if not on.all():
            still = np.flatnonzero(on)
            rows, ends, tags, begins = (each[still] for each in (rows, ends, tags, begins))
        _, _, behind = contents(octets, tags & 7, begins)
        at = _checked(behind, begins, ends)
        found[rows] = at
    return found


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
