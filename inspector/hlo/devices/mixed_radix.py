"""Sequences that count in digits: what reshaping and transposing 0, 1, 2, ... can make, without writing it out.

A sequence of `n` numbers has digits (size, stride), slowest first, when its element `i` is the sum of
`digit * stride` over the digits of `i` in the radices `size`. A million ids are three or four of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


class Digit(NamedTuple):
    """A digit that takes `size` values, each `stride` from the one before."""

    size: int
    stride: int

    def holds(self, other: Digit) -> bool:
        """Whether the values of `other` are among those that this one runs over."""
        return self.stride <= other.stride and other.stride * other.size <= self.stride * self.size


Digits: TypeAlias = tuple[Digit, ...]


def length(digits: Iterable[Digit]) -> int:
    """How many numbers the digits count through."""
    return math.prod(digit.size for digit in digits)


def radices(sizes: Sequence[int]) -> Digits:
    """The digits of 0, 1, 2, ... as an array of this shape: one a dimension."""
    return tuple(Digit(size, math.prod(sizes[place + 1 :])) for place, size in enumerate(sizes))


def reshaped(digits: Digits, sizes: Sequence[int]) -> tuple[Digits, ...] | None:
    """The sequence as an array of this shape, in row-major order.

    Args:
      digits: of the sequence.
      sizes: positive; their product is the sequence's length.

    Returns:
      The digits of each dimension; None where a dimension ends within a digit that it does not divide.
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
    """The same sequence in as few digits as can be: the only such way to write it."""
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
    """The fewest digits of a sequence that begins with 0; None where it has none, or one counts down."""
    found: list[Digit] = []
    while len(sequence) > 1:
        stride = int(sequence[1])
        counted = np.arange(len(sequence), dtype=np.int64) * stride
        size = int(np.argmin(sequence == counted)) or len(sequence)
        if stride < 1 or len(sequence) % size:
            return None
        rows = sequence.reshape(-1, size)
        if (rows - rows[:, :1] != counted[:size]).any():
            return None
        found.append(Digit(size, stride))
        sequence = rows[:, 0]
    return tuple(reversed(found))
