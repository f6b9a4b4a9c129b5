"""The main memory of results and temporaries if arguments are donated or results are left out, without another compile.

XLA's buffer assignment gives each result a buffer, and keeps temporaries in it until it is written: those that are smaller and whose live
ranges are over. A donated argument brings the buffer of its result, so that these temporaries need another place. `Placement` repeats this
for the live ranges of the schedule (`scheduled_values.py`): larger buffers come first, the newest buffer with room is taken, and the
temporaries that are left are as large as their sum at the peak. Another schedule of the changed program and the gaps between temporaries
are unknown, so that the bytes are an estimate.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inspector.analysis.memory.donations import reused_parameters
from inspector.analysis.memory.scheduled_values import buffers_of
from inspector.hlo.module import Module

_MOST = 4000
"""The largest buffers that are placed one by one; smaller temporaries stay out of the buffers of results."""


class _Place(NamedTuple):
    """A buffer with the positions of the schedule from and to which it is in use."""

    byte_size: int
    uses: Sequence[tuple[int, int]]


class Placement:
    """The buffers of a scheduled module, in the main memory."""

    def __init__(self, module: Module) -> None:
        """Reads the live ranges.

        Args:
          module: a module with a schedule.
        """
        found, self._length = buffers_of(module)
        self._buffers = [each for each in found if each.space == 0 and each.byte_size]
        self._temporaries = sorted(
            (each for each in self._buffers if each.kind == "temporary"), key=lambda each: -each.byte_size
        )
        self._arguments = {each.parameter: each for each in self._buffers if each.parameter is not None}
        self._outputs = sorted(
            (each for each in self._buffers if each.kind in ("output", "donated")), key=lambda each: -each.byte_size
        )
        self._reused = {result: parameter for parameter, result in reused_parameters(module).items()}
        self._as_compiled: int | None = None

    def byte_size(self, donated: Mapping[int, int] | None = None, without: Collection[int] = ()) -> int:
        """Returns the bytes of results and temporaries that are in no argument's buffer.

        Args:
          donated: the number of the result that is written to the buffer of an argument, by the argument's parameter number. XLA copies
            arguments that are read after the result is written.
          without: numbers of the results that need no buffer.
        """
        if not donated and not without:
            if self._as_compiled is None:
                self._as_compiled = self._changed_size({}, ())
            return self._as_compiled
        return self._changed_size(donated or {}, without)

    def _changed_size(self, donated: Mapping[int, int], without: Collection[int]) -> int:
        by_result = {result: parameter for parameter, result in donated.items()} | self._reused
        places, whole = list[_Place](), 0
        temporaries: list[tuple[int, int, int]] = [(each.byte_size, each.start, each.end) for each in self._temporaries]
        for each in self._outputs:
            if each.outputs & {*without}:
                continue
            parameter = next((by_result[n] for n in each.outputs if n in by_result), each.parameter)
            uses = [(each.start, self._length)]
            if parameter is None:
                whole += each.byte_size
            elif (argument := self._arguments.get(parameter)) is not None and argument is not each:
                uses.append((0, min(argument.end, each.start)))
                if (
                    argument.end > each.start and not each.outputs & self._reused.keys()
                ):  # otherwise the copy is in the module
                    temporaries.append((each.byte_size, each.start, argument.end))
            else:
                uses = [(0, self._length)]
            places.append(_Place(each.byte_size, uses))
        return whole + self._heap(temporaries, places)

    def _heap(self, temporaries: list[tuple[int, int, int]], places: Sequence[_Place]) -> int:
        """Returns the peak of the temporaries that are in no other buffer."""
        temporaries.sort(key=lambda each: -each[0])
        in_use = [functools.reduce(operator.or_, itertools.starmap(_bits, each.uses)) for each in places]
        from_then_on = np.array([max(start for start, _ in each.uses) for each in places], np.int64)
        sizes = -np.array([each.byte_size for each in places], np.int64)
        fitting = np.searchsorted(sizes, [-size for size, _, _ in temporaries[:_MOST]], "right").tolist()
        left = temporaries[_MOST:]
        for count, temporary in zip(fitting, temporaries, strict=False):
            _, start, end = temporary
            wanted = _bits(start, end)
            newest_first = (from_then_on[:count] > end).nonzero()[0][::-1].tolist()
            place = next((each for each in newest_first if not in_use[each] & wanted), None)
            if place is None:
                left.append(temporary)
            else:
                in_use[place] |= wanted
        changes = np.zeros(self._length + 2, np.int64)
        for byte_size, start, end in left:
            changes[start] += byte_size
            changes[end + 1] -= byte_size
        return int(np.cumsum(changes).max())


def _bits(start: int, end: int) -> int:
    """Returns a bit for each position from `start` to `end`; 0 if there is none."""
    return (2 << end) - (1 << start) if end >= start else 0
