"""Counts instructions, fusions, bytes and collectives of a module between two passes, from the lines of its text.

Most lines are common to all snapshots: each distinct line is read once, and a snapshot is counted as the sum over its lines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.hlo.opcodes import COLLECTIVES
from inspector.hlo.text import header_name, is_header
from inspector.hlo.text_line import shape_bytes, shape_end


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a module.

    Attributes:
      instructions: instructions of all computations, including those in fusions.
      fusions: instructions that are fusions.
      written_bytes: bytes of all results written to memory if each instruction runs once. Excludes instructions in
        fusions, parameters, constants, and instructions that only name other values (tuples, bitcasts, loops, calls).
        Without padding.
      collectives: collective operations, including those in fusions; a start and its done count as one.
    """

    instructions: int
    fusions: int
    written_bytes: int
    collectives: int


def count_texts(lines: Iterable[str], orders: Iterable[npt.NDArray[np.integer[Any]]]) -> tuple[Counts, ...]:
    """Counts modules.

    Args:
      lines: the distinct lines of all texts.
      orders: numbers of the lines of each text.
    """
    table = _Table(lines)
    return tuple(table.count(order) for order in orders)


_STARTED = frozenset({*COLLECTIVES, *(f"{opcode}-start" for opcode in COLLECTIVES)})
_UNWRITTEN = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency"),
        *("while", "conditional", "call", "async-update", "opt-barrier", "optimization-barrier"),
        *("partition-id", "replica-id"),
    }
)
_NOTHING, _INSTRUCTION, _HEADER = 0, 1, 2
_CALLS = "calls=%"


class _Table:
    """The counts of each distinct line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._names: dict[str, int] = {}
        rows = np.array([self._row(line) for line in lines], np.int64).reshape(-1, 6)
        self._kind, self._name, self._fusion, self._bytes, self._collective, self._called = rows.T

    def _row(self, line: str) -> tuple[int, int, int, int, int, int]:
        if not line.startswith(" "):
            return (_HEADER, self._number(header_name(line)), 0, 0, 0, -1) if is_header(line) else _NO_ROW
        rest = line.partition(" = ")[2]
        end = shape_end(rest) if rest else 0
        opcode = rest[end + 1 : rest.find("(", end)] if rest else ""
        if not opcode:
            return _NO_ROW
        is_fusion = opcode == "fusion"
        is_written = opcode not in _UNWRITTEN and not opcode.endswith("-start")
        written = shape_bytes(rest[:end]) if is_written else 0
        called = self._number(_called_name(rest)) if is_fusion else -1
        return _INSTRUCTION, -1, int(is_fusion), written, int(opcode in _STARTED), called

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def count(self, order: npt.NDArray[np.integer[Any]]) -> Counts:
        headers = self._kind[order] == _HEADER
        within = np.cumsum(headers)
        rows = order[(self._kind[order] == _INSTRUCTION) & (within > 0)]
        holders = within[(self._kind[order] == _INSTRUCTION) & (within > 0)] - 1
        called = self._called[rows]
        is_fused = np.isin(self._name[order[headers]], called[called >= 0])
        outside = rows[~is_fused[holders]] if len(rows) else rows
        return Counts(
            len(rows), int(self._fusion[rows].sum()), int(self._bytes[outside].sum()), int(self._collective[rows].sum())
        )


_NO_ROW = (_NOTHING, -1, 0, 0, 0, -1)


def _called_name(rest: str) -> str:
    return rest.partition(_CALLS)[2].partition(",")[0].partition(" ")[0]
