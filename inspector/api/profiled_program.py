"""`ProfiledProgram`: a program in a profile that was recorded elsewhere, with its measured time."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.cost.roofline import Roofline
from inspector.analysis.memory.timeline import Timeline
from inspector.analysis.profile.device_events import DeviceEvents
from inspector.analysis.profile.joining import join
from inspector.analysis.profile.profile import Profile
from inspector.api.opened_program import OpenedProgram
from inspector.api.shown_values import ShownAsExplorer
from inspector.compilation.caches import readings
from inspector.compilation.memory import Memory
from inspector.compilation.target import Target
from inspector.errors import Unavailable, needs_jax
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.support.notebook import described, with_hint
from inspector.support.units import counted, format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.api.exploration import Exploration

_NO_CODE = Unavailable(
    "a profile contains no machine code", "compile the function with inspector.lower(f, x).compile()"
)
_NOT_COUNTED = Unavailable("a profile contains no operation counts", "instructions() and roofline() count them")
_NO_STATISTICS = Unavailable("a profile contains no statistics of the compiler")
_NO_ASSIGNMENT = Unavailable("the profile contains no buffer assignment of this program")
_NO_PASSES = Unavailable("a profile contains no compiler passes")
_NO_ASSEMBLY = Unavailable("a profile contains no assembly")
_NO_STABLEHLO = Unavailable("a profile contains only its optimized HLO", "pass the function itself")


@dataclasses.dataclass(frozen=True)
class ProfiledProgram(ShownAsExplorer):
    """A program in a profile. `RecordedProfile.programs` has them.

    Analyses of the optimized HLO work without the devices and without compiling: `instructions`, `collectives`, `roofline`,
    `timeline`. `compiled` has all other analyses of a `Compiled`.

    Attributes:
      name: name of its module, such as "jit_step".
      id: its id in the profile.
      hlo_proto: a serialized `xla.HloProto`: the optimized HLO with its buffer assignment.
      platform: the platform that ran it, such as "cpu", "gpu" or "tpu".
      device_kind: JAX's kind of the devices, such as "AMD Instinct MI300X"; Unavailable if the profile does not show it.
      measured_s: measured time of all its executions on all devices, in seconds; 0 if it did not run.
      kernels: number of distinct instructions that ran.
      calls: number of its events.
    """

    name: str
    id: int
    hlo_proto: bytes = dataclasses.field(repr=False)
    platform: str
    device_kind: str | Unavailable
    measured_s: float
    kernels: int
    calls: int
    _events: DeviceEvents = dataclasses.field(repr=False, compare=False)

    def module(self) -> Module:
        """Returns the optimized HLO as a model: computations, instructions, shapes."""
        return readings.module(self, self.hlo_proto)

    @functools.cached_property
    def profile(self) -> Profile:
        """The measured time per instruction and device, beside the estimated time of the roofline."""
        points = {point.name: point for point in self.roofline().points}
        return join(self._events, self.module(), self.id, points)

    @property
    def memory(self) -> Memory | Unavailable:
        """Bytes by memory space and kind, from the buffer assignment."""
        return self.opened.memory

    @property
    @needs_jax("The text of a program in a profile")
    def hlo(self) -> str:
        """The optimized HLO as text."""
        return self.opened.hlo

    def instructions(self) -> pd.DataFrame:
        """Returns every instruction with its cost, one row each, as `Compiled.instructions` does."""
        return self.opened.instructions()

    def collectives(self) -> Collectives:
        """Returns the collectives with their replica groups. A profile does not contain the mesh, so they have no axes."""
        return self.opened.collectives()

    def roofline(self, peak: Peak | None = None) -> Roofline:
        """Returns the roofline, as `Compiled.roofline` does.

        Args:
          peak: the roofs; None for the published ones of the chip that ran the program, if it is known.
        """
        return self.opened.roofline(peak)

    def timeline(self) -> Timeline | Unavailable:
        """Returns the contents of each memory over time, if the buffer assignment has heap traces."""
        return self.opened.timeline()

    @property
    @needs_jax("A program in a profile as a Compiled")
    def compiled(self) -> Compiled:
        """The program as a `Compiled`, for `graph`, `diff`, `schedule` and comparisons. It has no machine code."""
        return self.opened.compiled

    @property
    @needs_jax("An Explorer of a profile")
    def exploration(self) -> Exploration:
        """The program as an `Exploration`, which can be saved to a file."""
        return self.opened.exploration_with("profiled", self.profile)

    @functools.cached_property
    def opened(self) -> OpenedProgram:
        """The program without its measured time."""
        num_replicas, num_partitions = self._counts
        kind = self.device_kind if isinstance(self.device_kind, str) else self.platform
        unknown = {} if isinstance(self.device_kind, str) else {"peak": self.device_kind}
        return OpenedProgram(
            name=self.name,
            hlo_proto=self.hlo_proto,
            platform=self.platform,
            target=Target("cpu" if self.platform == "cpu" else "attached"),
            is_optimized=True,
            num_replicas=num_replicas,
            num_partitions=num_partitions,
            device_kinds=tuple(f"{kind} {n}" for n in range(num_replicas * num_partitions)),
            passes=_NO_PASSES,
            assembly=_NO_ASSEMBLY,
            notes=("it was read from a profile",),
            _no_stablehlo=_NO_STABLEHLO,
            _reasons={
                "assignment": _NO_ASSIGNMENT,
                "statistics": _NO_STATISTICS,
                "cost": _NOT_COUNTED,
                "code": _NO_CODE,
                **unknown,
            },
        )

    @property
    def _counts(self) -> tuple[int, int]:
        """Number of replicas and partitions: those of the module's device assignment, else one partition on each device."""
        assignment = self.module().proto.device_assignment
        if assignment.computation_devices:
            return assignment.replica_count, assignment.computation_count
        used = len(set(self._events.device[self._events.program == self.id].tolist()))
        return 1, max(1, used)

    def __repr__(self) -> str:
        ran = f"{format_seconds(self.measured_s)} in {counted(self.kernels, 'kernel')}" if self.calls else "did not run"
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        text = f"<ProfiledProgram {self.name} on {self.platform}: {ran}{memory}>"
        return with_hint(text, ".profile, .roofline(), .memory, .hlo, .explorer()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.profile.table())
