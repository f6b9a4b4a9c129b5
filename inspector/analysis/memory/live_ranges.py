"""Buffers with their live ranges, and the memory spaces that contain them."""

from __future__ import annotations

import dataclasses

from inspector.compilation.memory import MemorySpace
from inspector.errors import Unavailable

Curve = tuple[tuple[int, int], ...]
"""Bytes over the schedule: pairs of a position and the bytes from there on."""

NO_CAPACITY = Unavailable("its capacity is not published")
"""The capacity of a memory space for which no vendor publishes one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Life:
    """A buffer and its live range.

    Attributes:
      instruction, shape_index: the instruction whose value it holds, and the index of the leaf.
      byte_size: size of the buffer in bytes.
      start, end: positions in the schedule: where it is created, and the last position where another buffer was
        created during its life. Arguments, outputs and constants are live throughout.
      space: name of the memory space.
      kind: kind of its allocation.
      allocation, offset: index of its allocation, and its offset there in bytes.
      parameter: number of the argument that it holds; None for other buffers.
      padding_bytes: the part of `byte_size` without elements of the value, such as the padding of a TPU's tiles.
    """

    instruction: str
    shape_index: tuple[int, ...]
    byte_size: int
    start: int
    end: int
    space: str
    kind: str
    allocation: int
    offset: int
    parameter: int | None = None
    padding_bytes: int = 0

    @property
    def value(self) -> str:
        """Returns the instruction and the index of the leaf: `while.6{2}`."""
        index = ",".join(map(str, self.shape_index))
        return f"{self.instruction}{{{index}}}" if index else self.instruction


@dataclasses.dataclass(frozen=True, slots=True)
class Space(MemorySpace):
    """A memory space and its use, in bytes per device; the sums are those of `Compiled.memory`.

    Attributes:
      live_bytes: maximum of the live bytes in the heaps of temporaries: `temp_bytes` without fragmentation.
      untraced_bytes: buffers in these heaps for which XLA recorded no events: tables of tuples, and values that pass
        through a loop in the buffer of another value.
      peak_instruction: the instruction at which `live_bytes` is reached, "" without temporaries.
      capacity_bytes: capacity of the whole memory, if the vendor publishes it.
    """

    live_bytes: int = 0
    untraced_bytes: int = 0
    peak_instruction: str = ""
    capacity_bytes: int | Unavailable = NO_CAPACITY


def steps(curve: Curve) -> Curve:
    """Converts the live bytes after each event of a heap: each position gets its maximum, the next one the remaining bytes."""
    most: dict[int, int] = {}
    left: dict[int, int] = {}
    for position, live in curve:
        most[position] = max(live, most.get(position, 0))
        left[position] = live
    return tuple(sorted({**{p + 1: b for p, b in left.items()}, **most}.items()))
