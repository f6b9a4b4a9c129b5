"""Integers in the body of a Pallas kernel, for all executions of a region at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Known = Ints | None
"""A value for each execution, or a single value for all of them; None if it depends on data."""

_UNSIGNED = 0xFFFFFFFF


class Scope:
    """The executions of a region, and the known values in it.

    Attributes:
      size: number of groups of executions that have the same values.
    """

    def __init__(
        self, size: int, weight: Ints | float = 1.0, parent: Scope | None = None, rows: Ints | None = None
    ) -> None:
        """Stores the number of groups, executions of each, and the enclosing region with the rows of its groups."""
        self.size = size
        self._weight, self._parent, self._rows = weight, parent, rows
        self._values: dict[int, Known] = {}

    @property
    def executions(self) -> float:
        """Returns the number of executions."""
        weight = np.asarray(self._weight)
        return float(weight.sum()) if weight.ndim else float(weight) * self.size

    def get(self, value: int) -> Known:
        """Returns a value, also of an enclosing region."""
        if value not in self._values:
            outer = None if self._parent is None else self._parent.get(value)
            self._values[value] = taken(outer, self._rows)
        return self._values[value]

    def set(self, value: int, known: Known) -> None:
        """Sets a value."""
        self._values[value] = known

    def child(self, rows: Ints | None = None, weight: Ints | float = 1.0) -> Scope:
        """Returns the executions of an inner region.

        Args:
          rows: the groups that execute it; None for all.
          weight: executions of it for each execution of this region.
        """
        own = np.asarray(self._weight)
        inner = own[rows] if rows is not None and own.ndim else own
        size = self.size if rows is None else len(rows)
        return Scope(size, inner * np.asarray(weight, float), self, rows)


def taken(known: Known, rows: Ints | None) -> Known:
    """Returns the values in some rows; None as the rows stands for all."""
    return known if known is None or rows is None or not known.ndim else known[rows]


def merged(before: Known, now: Known, rows: Ints | None, size: int) -> Known:
    """Returns values of which those in some rows are replaced; None as the rows stands for all."""
    if rows is None or len(rows) == size:
        return now
    if before is None or now is None:
        return None
    whole = np.broadcast_to(before, (size,)).copy()
    whole[rows] = now
    return whole


def evaluate(name: str, operands: Sequence[Known], attributes: Mapping[str, Any], elements: Sequence[str]) -> Known:
    """Returns the result of an operation on integers; None if it is unknown.

    Args:
      name: name of the operation.
      operands: its operands.
      attributes: its attributes.
      elements: types of the result and of the first operand.
    """
    if name == "arith.constant":
        value = attributes.get("value")
        return np.asarray(value, np.int64) if isinstance(value, int) else None
    if name == "arith.select" and len(operands) == 3:
        return _selected(*operands)
    known = [each for each in operands if each is not None]
    if len(known) < len(operands) or not known:
        return _absorbed(name, known, elements[0])
    if name == "arith.cmpi":
        return _compared(int(attributes.get("predicate", -1)), *known)
    if name == "arith.trunci" and elements[0] == "i1":
        return known[0] & 1
    if name == "arith.extsi" and elements[-1] == "i1":
        return -known[0]
    if name in _SAME:
        return known[0]
    compute = _COMPUTED.get(name)
    if compute is None or (name in _DIVISIONS and not known[1].all()):
        return None
    return np.asarray(compute(*known), np.int64)


def _selected(condition: Known, first: Known, second: Known) -> Known:
    if condition is None:
        is_same = first is not None and second is not None and np.array_equal(first, second)
        return first if is_same else None
    if not condition.ndim:
        return first if condition else second
    if condition.all():
        return first
    if not condition.any():
        return second
    return None if first is None or second is None else np.where(condition, first, second)


def _absorbed(name: str, known: Sequence[Ints], element: str) -> Known:
    """Returns the result of a logical operation that one operand determines."""
    if name == "arith.andi" and any(not each.any() for each in known):
        return np.asarray(0, np.int64)
    if name == "arith.ori" and element == "i1" and any(each.all() for each in known):
        return np.asarray(1, np.int64)
    return None


def _compared(predicate: int, left: Ints, right: Ints) -> Known:
    if predicate not in range(len(_PREDICATES)):
        return None
    if predicate >= _FIRST_UNSIGNED:
        left, right = left & _UNSIGNED, right & _UNSIGNED
    return np.asarray(_PREDICATES[predicate](left, right), np.int64)


_Binary = Callable[..., Any]
_PREDICATES: tuple[_Binary, ...] = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.less, np.less_equal, np.greater,
    np.greater_equal,
)  # fmt: skip
_FIRST_UNSIGNED = 6
_SAME = frozenset({
    "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui", "arith.extsi", "tpu.assume_multiple",
    "tpu.assume",
})  # fmt: skip
_DIVISIONS = frozenset({
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui",
})  # fmt: skip
_COMPUTED: Mapping[str, _Binary] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": np.right_shift, "arith.minsi": np.minimum, "arith.maxsi": np.maximum, "arith.minui": np.minimum,
    "arith.maxui": np.maximum, "arith.floordivsi": np.floor_divide, "arith.divui": np.floor_divide,
    "arith.remui": np.remainder, "arith.remsi": np.fmod,
    "arith.divsi": lambda a, b: (a - np.fmod(a, b)) // b,
    "arith.ceildivsi": lambda a, b: -((-a) // b), "arith.ceildivui": lambda a, b: -((-a) // b),
}  # fmt: skip
