"""Assigns numbers to equal values of a long array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_ODDS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64)
"""Hash multipliers. Different values collide with different multipliers, so a few suffice unless an adversary chose the
values."""


def numbered(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers distinct 64-bit integers in the order of their first occurrence.

    A hash table takes a fraction of the time of sorting. The first value at a slot keeps it; values that collide with it
    try again with the next multiplier.

    Returns:
      The number of each value, and the index of the first occurrence of each number.
    """
    words, rows = values.view(np.uint64), np.arange(len(values))
    bits = len(values).bit_length() + 1
    table, firsts = np.empty(1 << bits, np.int64), np.empty(len(values), np.int64)
    left = rows
    for odd in _ODDS:
        if not len(left):
            break
        keys = words[left]
        slots = (keys * odd >> np.uint64(64 - bits)).view(np.int64)
        table[slots[::-1]] = left[::-1]  # reversed, because the last write to a slot wins
        firsts[left] = owners = table[slots]
        left = left[words[owners] != keys]
    if len(left):
        _, first, which = np.unique(words[left], return_index=True, return_inverse=True)
        firsts[left] = left[first][which]
    is_first = firsts == rows
    return (np.cumsum(is_first) - 1)[firsts], np.flatnonzero(is_first)
