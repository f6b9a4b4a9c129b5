"""Finds given instructions of a module inside fusions or on their own."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from inspector.hlo.module import Instruction, Module


class Fused:
    """Given instructions of a module, indexed by the fusions that contain them.

    Attributes:
      instructions: the given instructions, in the module's order.
    """

    def __init__(self, module: Module, rows: Iterable[int]) -> None:
        """Indexes the instructions at the given rows."""
        self._by_computation: dict[int, list[Instruction]] = {}
        self._rows = set(rows)
        self.instructions = tuple(map(module.at, sorted(self._rows)))
        for instruction in self.instructions:
            self._by_computation.setdefault(instruction.computation.number, []).append(instruction)

    def of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields an instruction itself if it is given, or else the given ones fused into it, nested fusions last."""
        if instruction.row in self._rows:
            yield instruction
            return
        waiting = collections.deque([instruction] if self._rows else [])
        while waiting:
            outer = waiting.popleft()
            for computation in outer.called_computations if outer.opcode == "fusion" else ():
                yield from self._by_computation.get(computation.number, ())
                waiting.extend(inner for inner in computation.calling if inner.row not in self._rows)
