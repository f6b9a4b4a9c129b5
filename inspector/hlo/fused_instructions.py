"""Instructions that are looked for wherever they stand: alone, or in the fusions that hold them."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from inspector.hlo.module import Instruction, Module


class Fused:
    """Some instructions of a module, found by the fusion that holds them.

    Attributes:
      instructions: all of them, in the module's order.
    """

    def __init__(self, module: Module, rows: Iterable[int]) -> None:
        """Takes the rows of those that are looked for."""
        self._by_computation: dict[int, list[Instruction]] = {}
        self._rows = set(rows)
        self.instructions = tuple(map(module.at, sorted(self._rows)))
        for instruction in self.instructions:
            self._by_computation.setdefault(instruction.computation.number, []).append(instruction)

    def of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Those that an instruction is, or has fused into it, those in a fusion's fusions last."""
        if instruction.row in self._rows:
            yield instruction
            return
        waiting = collections.deque([instruction] if self._rows else [])
        while waiting:
            outer = waiting.popleft()
            for computation in outer.called_computations if outer.opcode == "fusion" else ():
                yield from self._by_computation.get(computation.number, ())
                waiting.extend(inner for inner in computation.calling if inner.row not in self._rows)
