"""Steps from one sharding to another, each of which is one slice, one all-to-all or one gather.

XLA changes two splits of an array at once only by copying the whole array to every device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Axes: TypeAlias = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dimension, slowest first."""


def sharding_steps(had: Axes, needed: Axes) -> tuple[Axes, ...]:
    """Returns the shardings between two shardings; () if there are none, or if the axes of a dimension would change their order.

    First, axes that the array does not use yet split it further, which needs no exchange. Then each axis that splits another
    dimension moves there. The last step, to `needed`, gathers the rest.
    """
    if len(had) != len(needed):
        return ()
    steps = [had]
    while (following := _split_further(steps[-1], needed) or _moved(steps[-1], needed)) is not None:
        steps.append(following)
    is_reached = all(last[: len(each)] == each for last, each in zip(steps[-1], needed, strict=True))
    return tuple(each for each in steps[1:] if each != needed) if is_reached else ()


def received_part(steps: Sequence[Axes], sizes: Mapping[str, int]) -> float:
    """Returns the part of an array that each device receives in steps.

    Args:
      steps: the shardings, from the first to the last.
      sizes: the number of devices along each axis.
    """
    received = 0.0
    for before, after in itertools.pairwise(steps):
        had, has = _part(before, sizes), _part(after, sizes)
        lost = [axis for one, other in zip(before, after, strict=True) for axis in one if axis not in other]
        kept = had / math.prod(sizes[axis] for axis in lost) if had == has else had  # an all-to-all keeps a part
        received += max(0.0, has - kept)
    return received


def _part(axes: Axes, sizes: Mapping[str, int]) -> float:
    return 1 / math.prod(sizes[axis] for each in axes for axis in each)


def _next(present: Axes, needed: Axes) -> list[tuple[int, str]]:
    """Returns the dimensions that need another axis, with the next one."""
    return [
        (dimension, wanted[len(axes)])
        for dimension, (axes, wanted) in enumerate(zip(present, needed, strict=True))
        if len(axes) < len(wanted) and wanted[: len(axes)] == axes
    ]


def _split_further(present: Axes, needed: Axes) -> Axes | None:
    """Returns the sharding with the next axes that no dimension has; None if there are none."""
    used = {axis for axes in present for axis in axes}
    further = {dimension: axis for dimension, axis in _next(present, needed) if axis not in used}
    if not further:
        return None
    return tuple((*axes, further[d]) if d in further else axes for d, axes in enumerate(present))


def _moved(present: Axes, needed: Axes) -> Axes | None:
    """Returns the sharding with the next axis that is the last one of another dimension; None if there is none."""
    for dimension, axis in _next(present, needed):
        for other, axes in enumerate(present):
            if axes and axes[-1] == axis:
                moved = {other: axes[:-1], dimension: (*present[dimension], axis)}
                return tuple(moved.get(d, each) for d, each in enumerate(present))
    return None
