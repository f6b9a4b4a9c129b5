"""Buffers and how long they live, and the memory spaces that they lie in."""

from __future__ import annotations

import dataclasses

from inspector.compilation.memory import MemorySpace
from inspector.errors import Unavailable

Curve = tuple[tuple[int, int], ...]
"""Bytes over the schedule: pairs of position and bytes from there on."""

NO_CAPACITY = Unavailable("no published size of it is known")
"""Of a memory space that no maker tells of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Life:
    """A buffer and how long it lives.

    Attributes:
      instruction, shape_index: whose value it holds, and which leaf of it.
      byte_size: of the buffer.
      start, end: positions in the schedule: where it is made, and the last place where another buffer was
        made while it lived. Arguments, outputs and constants live all the time.
      space: name of the memory space.
      kind: what its allocation is for.
      allocation, offset: where it lies.
      parameter: number of the argument that it is; None for others.
      padding_bytes: of `byte_size`, what no element of the value is in, such as the rest of a TPU's tiles.
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
        """The instruction, and which leaf of it: `while.6{2}`."""
        index = ",".join(map(str, self.shape_index))
        return f"{self.instruction}{{{index}}}" if index else self.instruction


@dataclasses.dataclass(frozen=True, slots=True)
class Space(MemorySpace):
    """A memory and how full it gets, in bytes of one device; the sums are those of `Compiled.memory`.

    Attributes:
      live_bytes: the most that lives in the heaps of temporaries at one time: what `temp_bytes` would be without gaps.
      untraced_bytes: buffers in these heaps of which XLA wrote down no step: tables of tuples, and values
        that pass through a loop in the place of another.
      peak_instruction: where in the schedule `live_bytes` is reached, "" without temporaries.
      capacity_bytes: of the whole memory, where the chip's maker publishes it.
    """

    live_bytes: int = 0
    untraced_bytes: int = 0
    peak_instruction: str = ""
    capacity_bytes: int | Unavailable = NO_CAPACITY


def steps(curve: Curve) -> Curve:
    """Of what lives after each step of a heap: at each position the most, and from the next one on what was left."""
    most: dict[int, int] = {}
    left: dict[int, int] = {}
    for position, live in curve:
        most[position] = max(live, most.get(position, 0))
        left[position] = live
    return tuple(sorted({**{p + 1: b for p, b in left.items()}, **most}.items()))
