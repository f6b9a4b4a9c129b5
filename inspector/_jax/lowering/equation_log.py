"""The format of the statistics that `equation_errors.py` measures. Loads without JAX, as saved explorations do."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

Frames: TypeAlias = tuple[tuple[str, int, str], ...]
"""(file, line, function) of user frames, innermost first."""

COUNT, FIRST, PEAK, PEAK_AT, SUM, OPERANDS = range(6)
"""Positions in the statistics of an equation: number of executions; the first execution (from 0) with a finite value that should
not be finite, or the reverse, -1 for none; the largest error of any execution; the execution that has it; the number of NaN and
infinite elements, or for integers and booleans the sum of all elements, of all executions as the program computes them. From
`OPERANDS` on, for each operand: 1 if it had such values in that first execution; then for each operand: its error in the execution with the largest."""


@dataclasses.dataclass(frozen=True, slots=True)
class EquationNode:
    """A value of a program, with the equation that computes it.

    Attributes:
      primitive: JAX's name; "" for a value that comes from several equations, such as one that a loop carries.
      frames: user frames of the equation.
      shape, dtype: of its first result.
      operands: nodes of its operands, -1 for arguments and constants.
      slot: position of its statistics in the log; -1 for an equation that only moves values.
    """

    primitive: str
    frames: Frames
    shape: tuple[int, ...]
    dtype: str
    operands: tuple[int, ...]
    slot: int = -1


@dataclasses.dataclass(frozen=True, slots=True)
class EquationLog:
    """The equations of a program, and the format of its statistics.

    Attributes:
      nodes: the values.
      results: the node of each result of the program; -1 for arguments and constants.
    """

    nodes: tuple[EquationNode, ...]
    results: tuple[int, ...]
