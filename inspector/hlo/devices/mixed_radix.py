"""Mixed-radix sequences: reshapes and transposes of 0, 1, 2, ..., without expanding them.

A sequence of `n` numbers has digits (size, stride), slowest first, if its element `i` is the sum of `digit * stride` over
the digits of `i` in the radices `size`. Three or four digits describe a million ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


class Digit(NamedTuple):
    """A digit with `size` values, each `stride` larger than the previous one."""

    size: int
    stride: int

    def holds(self, other: Digit) -> bool:
        """Reports whether the values of `other` are among the values that this digit covers."""
        return self.stride <= other.stride and other.stride * other.size <= self.stride * self.size


Digits: TypeAlias = tuple[Digit, ...]


def length(digits: Iterable[Digit]) -> int:
    """Returns the length of the sequence."""
    return math.prod(digit.size for digit in digits)


def radices(sizes: Sequence[int]) -> Digits:
    """Returns the digits of 0, 1, 2, ... as an array of the given sizes, one per dimension."""
    return tuple(Digit(size, math.prod(sizes[place + 1 :])) for place, size in enumerate(sizes))


def reshaped(digits: Digits, sizes: Sequence[int]) -> tuple[Digits, ...] | None:
    """Reshapes a sequence to an array of the given sizes, in row-major order.

    Args:
      digits: digits of the sequence.
      sizes: positive sizes whose product is the length of the sequence.

    Returns:
      The digits of each dimension; None if a dimension would end within a digit that it does not divide.
    """
    left = list(merged(digits))
    dimensions: list[Digits] = []
    for dimension in reversed(sizes):
        taken: list[Digit] = []
        rest = dimension
        while rest > 1:
            size, stride = left.pop()
            part = math.gcd(rest, size)
            if part not in (rest, size):
                return None
            taken.append(Digit(part, stride))
            if part < size:
                left.append(Digit(size // part, stride * part))
            rest //= part
        dimensions.append(tuple(reversed(taken)))
    return tuple(reversed(dimensions))


def merged(digits: Iterable[Digit]) -> Digits:
    """Returns the unique representation of the same sequence with the fewest digits."""
    fewest: list[Digit] = []
    for digit in digits:
        if digit.size == 1:
            continue
        if fewest and fewest[-1].stride == digit.size * digit.stride:
            fewest[-1] = Digit(fewest[-1].size * digit.size, digit.stride)
        else:
            fewest.append(digit)
    return tuple(fewest)


def digits_of(sequence: npt.NDArray[np.int64]) -> Digits | None:
    """Returns the fewest digits of a sequence that begins with 0; None if there are none or a stride is negative."""
    digits: list[Digit] = []
    while len(sequence) > 1:
        stride = int(sequence[1])
        counted = np.arange(len(sequence), dtype=np.int64) * stride
        size = int(np.argmin(sequence == counted)) or len(sequence)
        if stride < 1 or len(sequence) % size:
            return None
        rows = sequence.reshape(-1, size)
        if (rows - rows[:, :1] != counted[:size]).any():
            return None
        digits.append(Digit(size, stride))
        sequence = rows[:, 0]
    return tuple(reversed(digits))
