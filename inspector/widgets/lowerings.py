"""An Explorer's program as often as it was lowered: for each platform, and with each tuning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.hlo.devices.mesh import Mesh
from inspector.stages.lowered import Lowered
from inspector.widgets.work import Work

Key = tuple[str, Tuning]
Axes = Sequence[tuple[str, int]] | None


class Lowerings:
    """Lowers when first asked, which runs user code, and keeps what came of it."""

    def __init__(self, work: Work, lowered: Lowered, tuning: Tuning = AS_IT_IS) -> None:
        """Begins with the baseline's.

        Args:
          work: how to lower.
          lowered: the baseline's program.
          tuning: what it was lowered with.
        """
        self.lowered, self.tuning = lowered, tuning
        self._work = work
        self._known: dict[Key, Lowered] = {(lowered.program.platform, tuning): lowered}

    def adapted(self, target: Target, tuning: Tuning) -> Tuning:
        """Kernels see the target's chip, and only a CPU has to interpret them; without kernels there is only the call."""
        if not self.lowered.kernels:
            return tuning.without_kernels()
        interpret = tuning.interpret and self._work.platform(target) == "cpu"
        return dataclasses.replace(tuning, chip=target.chip, interpret=interpret)

    def knows(self, target: Target) -> bool:
        """Whether the baseline's program is there for a target, so that no user code runs to get it."""
        return (self._work.platform(target), self.adapted(target, self.tuning)) in self._known

    def get(self, target: Target, tuning: Tuning) -> Lowered:
        """The program for a target's platform; raises whatever lowering raises."""
        key = (self._work.platform(target), tuning)
        if key not in self._known:
            self._known[key] = self._lower(axes_of(self.lowered.program.mesh), key)
        return self._known[key]

    def under(self, axes: Axes) -> Lowerings:
        """The same function under another axis environment; raises whatever lowering raises."""
        key = (self.lowered.program.platform, self.tuning)
        return Lowerings(self._work, self._lower(axes, key), self.tuning)

    def _lower(self, axes: Axes, key: Key) -> Lowered:
        platform, tuning = key
        if self._work.tune is None or tuning == AS_IT_IS:
            return self._work.lower(axes, platform)
        return self._work.tune(axes, platform, tuning)


def axes_of(mesh: Mesh | None) -> list[tuple[str, int]] | None:
    """An axis environment as pairs; None without one."""
    if mesh is None or mesh.kind != "replica":
        return None
    return list(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
