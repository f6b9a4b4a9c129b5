"""Encodes a `Listing` compactly: each file, frame, stack and origin is stored once and referenced by number."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin
from inspector.support.json_values import FormError

_Numbers = npt.NDArray[np.int32]

_MOST_ROWS = 1 << 20  # each row becomes objects of many times its size


@dataclasses.dataclass(frozen=True, slots=True)
class PlainListing:
    """An encoded listing.

    Attributes:
      text, instructions, labels: as in the listing.
      lines: for each line an index into `entries`, or -1; int32, little-endian, as all numbers below.
      names: files, functions and operations.
      frames: three numbers each: file and function as indices into `names`, and the line.
      stacks: the number of frames in each stack, then the frames of all stacks.
      origins: two numbers each: an operation and a stack.
      entries: the number of origins in each entry, then the origins of all entries.
    """

    text: str
    lines: bytes
    names: tuple[str, ...]
    frames: bytes
    stacks: tuple[bytes, bytes]
    origins: bytes
    entries: tuple[bytes, bytes]
    instructions: tuple[str | None, ...] = ()
    labels: tuple[int | None, ...] = ()


def written(listing: Listing) -> PlainListing:
    """Encodes a listing."""
    names, frames, stacks, origins = _Table(), _Table(), _Table(), _Table()
    entries: list[list[int]] = []
    for entry in listing.origins:
        entries.append([])
        for origin in entry:
            stack = stacks.known(origin.frames)
            if stack is None:
                rows = [frames.index((names.index(f.file), names.index(f.function), f.line)) for f in origin.frames]
                stack = stacks.index(tuple(rows), origin.frames)
            entries[-1].append(origins.index((names.index(origin.op_name), stack)))
    return PlainListing(
        text=listing.text,
        lines=listing.line_origins,
        names=tuple(names.rows),
        frames=_flat(frames.rows),
        stacks=_ragged(stacks.rows),
        origins=_flat(origins.rows),
        entries=_ragged(entries),
        instructions=listing.instructions,
        labels=listing.labels,
    )


def read(plain: PlainListing, at: str) -> Listing:
    """Decodes a listing.

    Raises:
      FormError: its numbers are inconsistent.
    """
    try:
        return _read(plain)
    except (ValueError, IndexError, OverflowError) as e:
        raise FormError(f"{at}: inconsistent numbers in a listing ({e})") from e


def _read(plain: PlainListing) -> Listing:
    names = plain.names
    frames = [
        Frame(names[file], line, names[function])
        for file, function, line in _rows(plain.frames, 3, (len(names), len(names), None))
    ]
    stacks = [tuple(frames[i] for i in rows) for rows in _parts(plain.stacks, len(frames))]
    origins = [Origin(names[name], stacks[stack]) for name, stack in _rows(plain.origins, 2, (len(names), len(stacks)))]
    entries = tuple(tuple(origins[i] for i in rows) for rows in _parts(plain.entries, len(origins)))
    lines = _numbers(plain.lines)
    count = plain.text.count("\n") + 1
    for name, values in (("lines", lines), ("instructions", plain.instructions), ("labels", plain.labels)):
        if len(values) != count and (len(values) or name == "lines"):
            raise ValueError(f"{len(values)} {name} for a text of {count} lines")
    if lines.min(initial=0) < -1 or lines.max(initial=-1) >= len(entries):
        raise ValueError(f"lines with origins beyond the {len(entries)} entries")
    defining = bytes(name is not None for name in plain.instructions)
    listing = Listing(plain.text, plain.lines, entries, defining, plain.labels)
    if listing.instructions != plain.instructions:
        raise ValueError("instructions that the lines do not define")
    return listing


class _Table:
    """Distinct rows by number."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._same: dict[int, int] = {}

    def known(self, same: object) -> int | None:
        """Returns the number of the row for this object: most stacks are shared objects, and comparing them takes time."""
        return self._same.get(id(same))

    def index(self, row: Hashable, same: object = None) -> int:
        number = self._numbers.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        if same is not None:
            self._same[id(same)] = number
        return number


def _flat(rows: Iterable[Iterable[int]]) -> bytes:
    return np.fromiter(itertools.chain.from_iterable(rows), "<i4").tobytes()


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[bytes, bytes]:
    return _flat([map(len, rows)]), _flat(rows)


def _numbers(data: bytes) -> _Numbers:
    return np.frombuffer(data, "<i4").astype(np.int32)


def _rows(data: bytes, width: int, limits: Sequence[int | None]) -> list[list[int]]:
    """Decodes rows of `width` numbers, each from 0 to below its limit."""
    numbers = _numbers(data).reshape(-1, width)
    _check_count(len(numbers))
    for column, limit in zip(numbers.T, limits, strict=True):
        if column.min(initial=0) < 0 or (limit is not None and column.max(initial=-1) >= limit):
            raise ValueError(f"a number beyond {limit}")
    rows: list[list[int]] = numbers.tolist()
    return rows


def _parts(parts: tuple[bytes, bytes], limit: int) -> list[list[int]]:
    """Decodes rows of any length, with numbers from 0 to below the limit."""
    lengths, numbers = map(_numbers, parts)
    _check_count(len(lengths))
    if lengths.min(initial=0) < 0 or int(lengths.sum(dtype=np.int64)) != len(numbers):
        raise ValueError(f"{len(numbers)} numbers for {len(lengths)} rows")
    if numbers.min(initial=0) < 0 or numbers.max(initial=-1) >= limit:
        raise ValueError(f"a number beyond {limit}")
    ends = np.cumsum(lengths)
    return [part.tolist() for part in np.split(numbers, ends[:-1])] if len(lengths) else []


def _check_count(rows: int) -> None:
    if rows > _MOST_ROWS:
        raise ValueError(f"{rows:,} rows, more than the limit of {_MOST_ROWS:,}")
