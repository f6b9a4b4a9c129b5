"""The length of the segments into which a long loop is split for checkpoints."""

from __future__ import annotations

import math

_FEWEST = 64
"""Smallest number of iterations of a loop that is split."""


def segment_length(iterations: int) -> int:
    """Returns the divisor of a number of iterations that is closest to its square root; 1 for a short loop, or one without a divisor close to it."""
    if iterations < _FEWEST:
        return 1
    root = math.isqrt(iterations)
    found = [n for n in range(root // 2, 2 * root + 1) if iterations % n == 0]
    return min(found, key=lambda n: abs(n - math.sqrt(iterations)), default=1)
