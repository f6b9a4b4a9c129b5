"""The lowerings of an Explorer's program, one for each platform and tuning."""

from __future__ import annotations

import dataclasses

from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.hlo.devices.mesh import Mesh
from inspector.stages.lowered import Lowered
from inspector.widgets.work import Axes, Work

Key = tuple[str, Tuning]


class Lowerings:
    """Lowers a program on first use, which runs user code, and stores the result."""

    def __init__(self, work: Work, lowered: Lowered, tuning: Tuning = AS_IT_IS) -> None:
        """Starts with the baseline's lowering.

        Args:
          work: lowers the program.
          lowered: the baseline's program.
          tuning: the tuning that it was lowered with.
        """
        self.work, self.lowered, self.tuning = work, lowered, tuning
        self._known: dict[Key, Lowered] = {(lowered.program.platform, tuning): lowered}

    def adapted(self, target: Target, tuning: Tuning) -> Tuning:
        """Adapts a tuning to a target.

        Kernels see the target's chip and are interpreted only on a CPU. Without kernels, only the changes to the call remain.
        """
        if not self.lowered.kernels:
            return tuning.without_kernels()
        interpret = tuning.interpret and self.work.platform(target) == "cpu"
        return dataclasses.replace(tuning, chip=target.chip, interpret=interpret)

    def knows(self, target: Target) -> bool:
        """Reports whether the baseline's program is already lowered for a target, so that no user code runs."""
        return (self.work.platform(target), self.adapted(target, self.tuning)) in self._known

    def get(self, target: Target, tuning: Tuning) -> Lowered:
        """Returns the program for a target's platform; raises the errors of lowering."""
        key = (self.work.platform(target), tuning)
        if key not in self._known:
            self._known[key] = self._lower(axes_of(self.lowered.program.mesh), key)
        return self._known[key]

    def under(self, axes: Axes) -> Lowerings:
        """Lowers the same function with a different axis environment; raises the errors of lowering."""
        key = (self.lowered.program.platform, self.tuning)
        return Lowerings(self.work, self._lower(axes, key), self.tuning)

    def _lower(self, axes: Axes, key: Key) -> Lowered:
        platform, tuning = key
        return self.work.lower(axes, platform, tuning)


def axes_of(mesh: Mesh | None) -> list[tuple[str, int]] | None:
    """Returns an axis environment as pairs; None if there is none."""
    if mesh is None or mesh.kind != "replica":
        return None
    return list(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
