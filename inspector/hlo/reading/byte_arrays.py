"""Reads bytes at many positions at once: parses protobuf integers, and finds equal byte ranges.

Overlapping views give eight bytes at any position as one number, and 64 bytes as one item. So one NumPy operation processes
everything at a position instead of a single byte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.support.value_ids import numbered
from inspector.support.varints import read_varint

Numbers: TypeAlias = npt.NDArray[np.int64]

BLOCK = 16384
"""Number of positions or messages that are read at once, so that intermediate values fit into the processor's cache."""

_STEPS = 4  # integers of a list that are read in sequence; the rest of the few longer lists is read at once
_LINE = 64  # bytes that are compared at once
_LINES = 4  # lines of a range that are compared; the rest of the few longer ranges is compared as bytes
_ALL = (1 << 64) - 1
_PADDING = 2 * _LINE  # so that reads at or just after the end stay within the data
_WORD, _WORD_BYTES = np.uint64, 8

_STOPS = _WORD(0x8080808080808080)
_SEVENS = _WORD(0x7F7F7F7F7F7F7F7F)
# Combines pairs of 7 bits into 14, those into 28, and those into 56.
_FOLDS = tuple(
    (_WORD(low), _WORD(low << width), _WORD(shift))
    for low, width, shift in ((0x007F007F007F007F, 8, 1), (0x00003FFF00003FFF, 16, 2), (0x000000000FFFFFFF, 32, 4))
)

_WITHIN = np.tril(np.full((_LINE + 1, _LINE), 0xFF, np.uint8), -1).view("<u8")
"""For each length up to a line, a mask of a line's words that covers this many bytes."""

_FACTORS, _ODD = (
    np.random.default_rng(0).integers(1 << 62, 1 << 63, shape, dtype=np.uint64) | _WORD(1)
    for shape in ((2, _LINE // _WORD_BYTES), 2)
)
"""Random factors for the words of a line, and for the previous sum; for each of the two sums."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ByteRanges:
    """Byte ranges.

    Attributes:
      begins, lengths: start and length of each range, `[n]`.
    """

    begins: Numbers
    lengths: Numbers

    @property
    def ends(self) -> Numbers:
        """End offset of each range."""
        return self.begins + self.lengths

    def __getitem__(self, which: Any) -> ByteRanges:
        return ByteRanges(self.begins[which], self.lengths[which])


class Octets:
    """Bytes that can be read at many positions at once.

    Attributes:
      data: the bytes, followed by padding.
      size: number of bytes without padding.
    """

    def __init__(self, pieces: Sequence[bytes], size: int | None = None) -> None:
        """Joins pieces. With `size`, the single piece already includes enough padding after `size` bytes and is not copied."""
        is_padded = size is not None and len(pieces[0]) - size >= _PADDING
        self.data = b"".join(pieces if is_padded else [*pieces, bytes(_PADDING)])
        self.size = len(self.data) - _PADDING
        self._octets = np.frombuffer(self.data, np.uint8)
        self._words = _everywhere(self._octets, np.dtype("<u8"))
        self._lines = _everywhere(self._octets, np.dtype(f"V{_LINE}"))

    def slices(self, spans: ByteRanges) -> list[bytes]:
        """Returns the bytes of each range."""
        data = self.data
        return [data[begin:end] for begin, end in zip(spans.begins.tolist(), spans.ends.tolist(), strict=True)]

    def gathered(self, spans: ByteRanges) -> npt.NDArray[np.uint8]:
        """Returns the concatenated bytes of all ranges."""
        ends = np.cumsum(spans.lengths)
        places = np.repeat(spans.begins - (ends - spans.lengths), spans.lengths)
        places += np.arange(len(places))
        octets: npt.NDArray[np.uint8] = self._octets[places]
        return octets

    def begins_with(self, at: Numbers, begin: bytes) -> npt.NDArray[np.bool_]:
        """Reports for each position whether the bytes there begin with `begin`, which has at most eight bytes."""
        mask = _WORD((1 << 8 * len(begin)) - 1)
        matches: npt.NDArray[np.bool_] = (self._words[at] & mask) == _WORD(int.from_bytes(begin, "little"))
        return matches

    def varints(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Reads the signed 64-bit integers at positions, as protobuf's `int64`, and the positions after them.

        Raises:
          ModuleError: an integer has more than 64 bits.
        """
        first = self._octets[at]
        longer = np.flatnonzero(first >= 0x80)
        if 2 * len(longer) > len(at):
            return self._longer(at)
        values, behind = first.astype(np.int64), at + 1
        if len(longer):
            values[longer], behind[longer] = self._longer(at[longer])
        return values, behind

    def _longer(self, at: Numbers) -> tuple[Numbers, Numbers]:
        words = self._words[at]
        stops = ~words & _STOPS
        mask = stops ^ (stops - _WORD(1))  # all bits up to the first stop bit
        words &= mask & _SEVENS
        for low, high, shift in _FOLDS:
            words = (words & low) | ((words & high) >> shift)
        values, behind = words.view(np.int64), at + (np.bitwise_count(mask) >> 3)
        for long in np.flatnonzero(stops == 0).tolist():
            values[long], behind[long] = self._longest(int(at[long]))
        return values, behind

    def _longest(self, at: int) -> tuple[int, int]:
        try:
            value, behind = read_varint(self.data, at)
        except ValueError:
            raise ModuleError("The module is damaged: an integer in it has more than 64 bits.") from None
        value &= _ALL
        return value - (value >> 63 << 64), behind

    def lists(self, spans: ByteRanges) -> tuple[Numbers, Numbers]:
        """Reads the integers of ranges that contain only integers and at least one byte.

        Returns:
          `(offsets, values)`: the integers of range `i` are `values[offsets[i] : offsets[i + 1]]`.

        Raises:
          ModuleError: a range ends within an integer, or an integer has more than 64 bits.
        """
        counts = np.zeros(len(spans.begins), np.int64)
        at, ends, rows = spans.begins, spans.ends, np.arange(len(counts))
        read = list[tuple[Numbers, Numbers | int, Numbers]]()  # rows of the lists, positions in them, and values
        for place in range(_STEPS):
            if not len(rows):
                break
            values, at = self.varints(at)
            read.append((rows, place, values))
            counts[rows] += 1
            if (at > ends).any():
                raise _endless()
            on = np.flatnonzero(at < ends)
            at, ends, rows = at[on], ends[on], rows[on]
        if len(rows):
            more, values = self._many(ByteRanges(at, ends - at))
            before = np.cumsum(more) - more - _STEPS
            read.append((np.repeat(rows, more), np.arange(len(values)) - np.repeat(before, more), values))
            counts[rows] += more
        offsets = np.append(0, np.cumsum(counts))
        integers = np.empty(offsets[-1], np.int64)
        for rows, places, values in read:
            integers[offsets[rows] + places] = values
        return offsets, integers

    def _many(self, spans: ByteRanges) -> tuple[Numbers, Numbers]:
        """Returns the number of integers of each long range, and the integers."""
        data, ends = self.gathered(spans), np.cumsum(spans.lengths)
        stops = data < 0x80
        if not stops[ends - 1].all():
            raise _endless()
        starts = np.ones(len(data), bool)
        starts[1:] = stops[:-1]
        values, _ = Octets([data.tobytes()]).varints(np.flatnonzero(starts))
        return np.add.reduceat(starts, ends - spans.lengths, dtype=np.int64), values

    def distinct(self, ranges: Sequence[ByteRanges]) -> tuple[Numbers, Numbers]:
        """Numbers items that consist of several ranges each. Items with equal bytes get equal numbers.

        Bytes count as equal if two 64-bit hash sums with random factors agree.

        Args:
          ranges: the first range of each item, the second range of each item, ...

        Returns:
          `(codes, first)`: the number of each item, from 0 in the order of first occurrence; and the index of the first
          item with each number.
        """
        count = len(ranges[0].begins)
        sums, others = np.zeros((2, count), _WORD)
        for spans in ranges:
            for start in range(0, count, BLOCK):
                block = slice(start, start + BLOCK)
                self._add(sums[block], others[block], spans[block])
        codes, first = numbered(sums)
        if (others[first][codes] == others).all():
            return codes, first
        pieces = zip(*map(self.slices, ranges), strict=True)
        known: dict[tuple[bytes, ...], int] = {}
        return numbered(np.fromiter((known.setdefault(each, len(known)) for each in pieces), np.int64, count))

    def _add(self, sums: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], left: ByteRanges) -> None:
        """Adds the bytes of each range to its two hash sums."""
        words = self._words[left.begins] & _WITHIN[: _WORD_BYTES + 1, 0].take(np.minimum(left.lengths, _WORD_BYTES))
        lengths, rows = left.lengths.astype(_WORD), np.arange(len(sums))
        for each, odd in ((sums, _ODD[0]), (others, _ODD[1])):
            each *= odd
            each += _mixed((words ^ each) * odd) + lengths
        left = ByteRanges(left.begins + _WORD_BYTES, left.lengths - _WORD_BYTES)
        for _ in range(_LINES):
            further = np.flatnonzero(left.lengths > 0)
            if not len(further):
                return
            left, rows = left[further], rows[further]
            lines = self._lines[left.begins].view("<u8").reshape(len(rows), -1)
            lines &= _WITHIN.take(np.minimum(left.lengths, _LINE), axis=0)
            lines ^= lines >> _WORD(32)  # otherwise the high bits would affect only a few bits of the sum
            for each, factors, odd in ((sums, _FACTORS[0], _ODD[0]), (others, _FACTORS[1], _ODD[1])):
                each[rows] = each[rows] * odd + _mixed(lines @ factors)
            left = ByteRanges(left.begins + _LINE, left.lengths - _LINE)
        long = np.flatnonzero(left.lengths > 0)
        for row, rest in zip(rows[long].tolist(), self.slices(left[long]), strict=True):
            for each, odd in ((sums, _ODD[0]), (others, _ODD[1])):
                each[row] = _WORD((int(each[row]) * int(odd) + hash(rest)) & _ALL)


def _endless() -> ModuleError:
    return ModuleError("The module is damaged: a list of integers in it does not end.")


def _mixed(sums: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = sums ^ sums >> _WORD(29)
    return words


def _everywhere(octets: npt.NDArray[np.uint8], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a view with an item of a dtype at every byte position."""
    first, count = octets[: kind.itemsize].view(kind), len(octets) - kind.itemsize + 1
    return np.lib.stride_tricks.as_strided(first, (count,), (1,), writeable=False)
