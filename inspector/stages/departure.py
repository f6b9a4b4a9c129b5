"""`Departure`: the line whose value departs from a 64-bit evaluation, found from the errors of all equations.

The search begins at the worst result and follows, at each equation, the operand with the largest error. On this path, the equation
whose error grows most over that of its operands is the departure. For unexpected NaN and infinity it is the equation that has
them first.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np

from inspector._jax.lowering.equation_log import COUNT, FIRST, OPERANDS, PEAK, PEAK_AT, SUM, EquationLog
from inspector.errors import Unavailable
from inspector.hlo.source import Frame, own_frame, own_line
from inspector.support.units import format_array

Cause = Literal["not finite", "error", "accumulation", "choice", "options"]

_FAR = 8.0  # times the error of the operands, or of a rounding
_LOST = 0.5  # relative error of a value without a correct digit


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Departure:
    """The equation whose value departs from a 64-bit evaluation.

    Attributes:
      cause: "not finite" for the first value that is NaN or infinite in only one of the evaluations, unless an operand of it had
        lost all digits before, such as a negative variance; "error" if its error is much larger than that of its operands; "accumulation" if its error grows with each execution of a loop; "choice" for an
        integer or a boolean that differs, such as the index of a maximum; "options" if the variant's options change the number of
        its NaN and infinite values, or a boolean or an integer, which the baseline's options do not.
      primitive: JAX's primitive, such as `sub`.
      shape: type and shape of its result, such as `float32[8]`.
      frames: its source frames, innermost first; () if unknown.
      before: the largest relative error of its operands.
      after: the largest relative error of its result; infinite for "not finite" and "options".
      digits: decimal digits that it loses: the error of its result over that of its operands, or over the rounding error of the
        program's results if that is larger, at most all digits of their type; infinite for "not finite" and "options".
      execution: the execution with this error, from 0; more than 0 only in a loop.
      executions: how often it ran.
    """

    cause: Cause
    primitive: str
    shape: str
    frames: tuple[Frame, ...]
    before: float
    after: float
    digits: float
    execution: int
    executions: int

    @property
    def line(self) -> Frame | Unavailable:
        """The innermost line in the user's code."""
        return own_frame(self.frames) or Unavailable("its call stack has no line of Python code")

    @property
    def words(self) -> str:
        """A description in one sentence, such as `model.py:12 sub loses 6 digits by cancellation`."""
        line = own_line(self.frames)
        place = f"{self.primitive} in {line}" if " " in line else f"{line} {self.primitive}".strip()
        where = f" in execution {self.execution + 1:,} of {self.executions:,}" if self.executions > 1 else ""
        match self.cause:
            case "not finite":
                return f"{place} is the first value that is NaN or infinite in only one evaluation{where}"
            case "options":
                return f"{place} gives another value under these options"
            case "choice":
                return f"{place} gives another value{where}"
            case "accumulation":
                return f"{place} accumulates a relative error of {self.after:.1g} over {self.executions:,} executions"
        lost = f"{self.digits:.0f} digit{'s' if round(self.digits) != 1 else ''}"
        how = " by cancellation" if self.primitive in ("sub", "add", "add_any") else ""
        return f"{place} loses {lost}{how}{where} (relative error {self.before:.1g} before, {self.after:.1g} after)"

    def __repr__(self) -> str:
        return f"<Departure {self.words}>"


def departure(log: EquationLog, numbers: np.ndarray, epsilon: float) -> Departure | Unavailable:
    """Returns the departure of a program; Unavailable if none stands out.

    Args:
      log: the equations.
      numbers: the statistics of all equations.
      epsilon: the rounding error of the program's results, from 1 to the next number of their type.
    """
    return _Search(log, numbers, epsilon).departure()


def difference_under_options(log: EquationLog, numbers: np.ndarray, baseline: np.ndarray) -> Departure | Unavailable:
    """Returns the first equation whose values differ from those of the same program with other options.

    For options that change both evaluations alike, such as fast math that removes a test for NaN. Compares the numbers of NaN and
    infinite elements, and the sums of integers and booleans.

    Args:
      log: the equations.
      numbers: the statistics of all equations.
      baseline: the statistics with the other options.
    """
    search = _Search(log, numbers, 0.0)
    for number, node in enumerate(log.nodes):
        if node.slot >= 0 and numbers[node.slot + SUM] != baseline[node.slot + SUM]:
            return search.made(number, "options")
    return _NOTHING


class _Search:
    """The search in one program."""

    def __init__(self, log: EquationLog, numbers: np.ndarray, epsilon: float) -> None:
        self._nodes, self._results = log.nodes, [node for node in log.results if node >= 0]
        self._numbers, self._epsilon = numbers, epsilon

    def departure(self) -> Departure | Unavailable:
        for result in self._results:
            if self._is_odd(result):
                odd = self._first_odd(result)
                lost = self._lost_before(odd)
                return self.made(odd, "not finite") if lost < 0 else self.made(lost, "error")
        if not self._results:
            return _NOTHING
        worst = max(self._results, key=self._error)
        if self._error(worst) < 4 * self._epsilon:
            return _NOTHING
        path, is_loop = self._path(worst)
        if not path:
            return _NOTHING
        culprit = max(path, key=self._growth)
        if self._growth(culprit) >= _FAR:
            return self.made(culprit, "error" if self._is_float(culprit) else "choice")
        if is_loop:
            return self.made(path[-1], "accumulation")
        return Unavailable(f"the error grows gradually over {len(path)} equations, without a single cause")

    def made(self, number: int, cause: Cause) -> Departure:
        """Returns the departure at an equation."""
        node, record = self._nodes[number], self._record(number)
        is_odd = cause in ("not finite", "options")
        return Departure(
            cause=cause,
            primitive=node.primitive,
            shape=format_array(node.dtype, node.shape),
            frames=tuple(Frame(*frame) for frame in node.frames),
            before=max(self._operand_errors(number), default=0.0),
            after=math.inf if is_odd else float(record[PEAK]),
            digits=math.inf if is_odd else min(max(0.0, math.log10(self._growth(number))), -math.log10(self._epsilon)),
            execution=max(0, int(record[FIRST if is_odd else PEAK_AT])),
            executions=int(record[COUNT]),
        )

    def _record(self, number: int) -> np.ndarray:
        node = self._nodes[number]
        return self._numbers[node.slot : node.slot + OPERANDS + 2 * len(node.operands)]

    def _operand_errors(self, number: int) -> list[float]:
        return list(map(float, self._record(number)[OPERANDS + len(self._nodes[number].operands) :]))

    def _growth(self, number: int) -> float:
        before = max(self._operand_errors(number), default=0.0)
        return float(self._record(number)[PEAK]) / max(before, self._epsilon)

    def _error(self, number: int) -> float:
        """Returns the largest error of a value; for one that only moves or comes from several equations, that of its sources."""
        return max((float(self._record(leaf)[PEAK]) for leaf in self._leaves(number)), default=0.0)

    def _is_odd(self, number: int) -> bool:
        return any(self._record(leaf)[FIRST] >= 0 for leaf in self._leaves(number))

    def _leaves(self, number: int) -> list[int]:
        """Returns the equations with statistics that a value comes from, the nearest ones."""
        pending, seen, leaves = [number], set[int](), list[int]()
        while pending:
            current = pending.pop()
            if current < 0 or current in seen:
                continue
            seen.add(current)
            node = self._nodes[current]
            if node.slot >= 0:
                leaves.append(current)
            else:
                pending += node.operands
        return leaves

    def _first_odd(self, number: int) -> int:
        """Follows unexpected NaN and infinity to the equation that has them first."""
        current, seen = self._worst_leaf(number, set(), FIRST), set[int]()
        while True:
            seen.add(current)
            node, record = self._nodes[current], self._record(current)
            flags = record[OPERANDS : OPERANDS + len(node.operands)]
            sources = [
                self._worst_leaf(each, seen, FIRST) for each, flag in zip(node.operands, flags, strict=True) if flag
            ]
            earlier = [each for each in sources if each >= 0]
            if not earlier:
                return current
            current = earlier[0]

    def _lost_before(self, odd: int) -> int:
        """Returns the equation that lost the digits of an operand of the first unexpected NaN or infinity; -1 if there is none."""
        leaves = {leaf for operand in self._nodes[odd].operands for leaf in self._leaves(operand)} - {odd}
        first = self._record(odd)[FIRST]
        lost = [leaf for leaf in leaves if self._error(leaf) >= _LOST and self._record(leaf)[PEAK_AT] <= first]
        if not lost:
            return -1
        path, _ = self._path(max(lost, key=self._error))
        culprit = max(path, key=self._growth, default=-1)
        return culprit if culprit >= 0 and self._growth(culprit) >= _FAR and self._is_float(culprit) else -1

    def _is_float(self, number: int) -> bool:
        return any(kind in self._nodes[number].dtype for kind in ("float", "complex"))

    def _path(self, number: int) -> tuple[list[int], bool]:
        """Follows the largest errors from a result. Also returns whether the path ends where a loop begins again."""
        path: list[int] = []
        current = self._worst_leaf(number, set(), PEAK)
        while current >= 0:
            path.append(current)
            node, errors = self._nodes[current], self._operand_errors(current)
            if not errors or max(errors) < self._epsilon / 4:
                return path, False
            operand = node.operands[int(np.argmax(errors))]
            following = self._worst_leaf(operand, set(path), PEAK)
            if following < 0:
                return path, any(leaf in path for leaf in self._leaves(operand))
            current = following
        return path, False

    def _worst_leaf(self, number: int, seen: set[int], by: int) -> int:
        """Returns the equation behind a value that has the largest error, or unexpected values; -1 if there is no further one."""
        leaves = [leaf for leaf in self._leaves(number) if leaf not in seen]
        if by == FIRST:
            return next((leaf for leaf in leaves if self._record(leaf)[FIRST] >= 0), -1)
        return max(leaves, key=lambda leaf: float(self._record(leaf)[PEAK]), default=-1)


_NOTHING = Unavailable("with intermediate values returned, which can change fusions, the program has no such error")
