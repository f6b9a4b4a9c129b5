"""Profiles of compiled programs, from the `XSpace` that a run recorded."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.profile.device_events import NO_PROGRAM, DeviceEvents, device_events
from inspector.analysis.profile.joining import join
from inspector.analysis.profile.profile import Profile, WallTimes
from inspector.compilation.request import RunReply
from inspector.errors import ProfileError
from inspector.hlo.module import Module
from inspector.profiles.xspace import XSpace


def profile_of_run(module: Module, points: Iterable[Point], reply: RunReply) -> Profile:
    """Returns the profile of the executions that an engine measured.

    Args:
      module: the optimized HLO of the program that ran.
      points: the kernels of its roofline.
      reply: the engine's reply.

    Raises:
      ProfileError: the profile does not contain the program.
    """
    space = XSpace.from_bytes(reply.xspace, f"the profile of {module.name}")
    events = device_events([("", space)])
    return join(
        events,
        module,
        _program_in(events, module, space),
        {point.name: point for point in points},
        wall=WallTimes(reply.durations_s, reply.plain_durations_s),
        executions=len(reply.durations_s),
        with_rest=True,
        notes=space.warnings,
    )


def _program_in(events: DeviceEvents, module: Module, space: XSpace) -> int:
    """Returns the id of the program with the most events of the module's instructions: other threads may run others.

    Raises:
      ProfileError: there is none.
    """
    names = set(module.columns.names)
    is_named = np.array([text in names for text in events.texts] + [False], bool)[events.name] & events.is_instruction
    programs, counts = np.unique(events.program[is_named & (events.program != NO_PROGRAM)], return_counts=True)
    if not len(programs):
        planes = ", ".join(f"{plane.name} ({len(plane)} events)" for plane in space.planes) or "none"
        problems = "".join(f" The profiler reports: {text}" for text in space.errors)
        raise ProfileError(
            f"The profile of {module.name} has no event of its instructions, so their times are unknown. It has these planes:"
            f" {planes}.{problems} Expected events with the statistic hlo_op. A GPU records them if its profiler library is"
            " installed (CUPTI for NVIDIA, rocprofiler for AMD) and the process may use performance counters."
        )
    return int(programs[counts.argmax()])
