"""Ends of kernels by the kernels that need their results.

The event that marks the end of a thunk (`thunk_ends.py`) is late where the system pauses the thread that writes it. A kernel
has ended when one that reads its result starts.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping

import numpy as np

from inspector.analysis.profile.device_events import DeviceEvents
from inspector.hlo.module import Instruction
from inspector.hlo.reading.byte_arrays import Numbers

_CPU = "CPU:"
_PASSED_ON = frozenset({"bitcast", "get-tuple-element"})  # have no events


def elapsed_until_read_ps(events: DeviceEvents, kernels: Mapping[str, Instruction]) -> Numbers:
    """Returns the length of each event, which ends at the latest when a kernel starts that reads its result.

    Args:
      events: events of one program. Those of other devices than CPUs keep their lengths.
      kernels: its instructions by name, except those that contain the events of others.
    """
    elapsed = events.elapsed_ps.copy()
    is_cpu = np.array([_CPU in device for device in events.devices], bool)
    chosen = np.flatnonzero(is_cpu[events.device] & events.is_instruction)
    of_name = _by_name(events, chosen) if len(chosen) else {}
    for name, own in of_name.items():
        if name not in kernels:
            continue
        places = events.device[own], events.run[own]
        for user in _readers(kernels[name]):
            theirs = of_name.get(user.name)
            if theirs is None or len(theirs) != len(own):
                continue
            if all(np.array_equal(a, b[theirs]) for a, b in zip(places, (events.device, events.run), strict=True)):
                until = events.start_ps[theirs] - events.start_ps[own]
                elapsed[own] = np.where(until >= 0, np.minimum(elapsed[own], until), elapsed[own])
    return elapsed


def _by_name(events: DeviceEvents, chosen: Numbers) -> Mapping[str, Numbers]:
    """Returns the events of each name, by device, execution and start."""
    keys = (events.start_ps[chosen], events.run[chosen], events.device[chosen], events.name[chosen])
    ordered = chosen[np.lexsort(keys)]
    borders = np.flatnonzero(np.diff(events.name[ordered])) + 1
    return {events.texts[events.name[each[0]]]: each for each in np.split(ordered, borders)}


def _readers(instruction: Instruction) -> Iterator[Instruction]:
    """Yields the instructions that read a result, looking through those that only pass it on."""
    waiting = collections.deque(instruction.users)
    while waiting:
        user = waiting.popleft()
        if user.opcode in _PASSED_ON:
            waiting.extend(user.users)
        else:
            yield user
