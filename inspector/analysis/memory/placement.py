"""The main memory of results and temporaries if arguments are donated or results are left out, without another compile.

XLA's buffer assignment gives each result a buffer, and keeps temporaries in it until it is written: those that are smaller and whose live
ranges are over. A donated argument brings the buffer of its result, so that these temporaries need another place. `Placement` repeats this
for the live ranges of the schedule (`scheduled_values.py`): larger buffers come first, the newest buffer with room is taken, and the
temporaries that are left are as large as their sum at the peak. Another schedule of the changed program and the gaps between temporaries
are unknown, so that the bytes are an estimate.
"""

from __future__ import annotations

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
        changes = np.zeros(self._length + 2, np.int64)
        temporaries.sort(key=lambda each: -each[0])
        sizes = np.array([each.byte_size for each in places], np.int64)
        known = [(number, *use) for number, each in enumerate(places) for use in each.uses]
        uses = np.empty((len(known) + min(len(temporaries), _MOST), 3), np.int64)
        uses[: len(known)] = np.array(known, np.int64).reshape(-1, 3)
        count, is_used = len(known), np.empty(len(places), bool)
        for number, (byte_size, start, end) in enumerate(temporaries):
            fitting = int(np.searchsorted(-sizes, -byte_size, "right")) if number < _MOST else 0
            place = -1
            if fitting:
                owners, first, last = uses[:count].T
                is_used[:] = False
                is_used[owners[(first <= end) & (last >= start)]] = True
                free = np.flatnonzero(~is_used[:fitting])
                place = int(free[-1]) if free.size else -1
            if place >= 0:
                uses[count] = place, start, end
                count += 1
            else:
                changes[start] += byte_size
                changes[end + 1] -= byte_size
        return int(np.cumsum(changes).max())
