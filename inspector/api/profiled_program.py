"""`ProfiledProgram`: a program in a profile that was recorded elsewhere, with its measured time."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import Roofline, roofline
from inspector.analysis.instructions import instructions
from inspector.analysis.memory.timeline import Timeline, timeline
from inspector.analysis.profile.device_events import DeviceEvents
from inspector.analysis.profile.joining import join
from inspector.analysis.profile.profile import Profile
from inspector.compilation.caches import readings
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.compilation.preview import assigned_memory
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ModuleError, ParameterError, Unavailable, needs_jax
from inspector.hlo.allocation_totals import assignment_in
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.stages.compiled import Compiled, module_costs
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted, format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.api.exploration import Exploration
    from inspector.widgets.explorer import Explorer

_NO_CODE = Unavailable(
    "a profile contains no machine code", "compile the function with inspector.lower(f, x).compile()"
)
_NOT_COUNTED = Unavailable("a profile contains no operation counts", "instructions() and roofline() count them")
_NO_STATISTICS = Unavailable("a profile contains no statistics of the compiler")
_NO_ASSIGNMENT = Unavailable("the profile contains no buffer assignment of this program")


@dataclasses.dataclass(frozen=True)
class ProfiledProgram:
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

    @functools.cached_property
    def memory(self) -> Memory | Unavailable:
        """Bytes by memory space and kind, from the buffer assignment."""
        if not self._assignment:
            return _NO_ASSIGNMENT
        return assigned_memory(self._assignment, self.platform, _NO_STATISTICS)

    @property
    @needs_jax("The text of a program in a profile")
    def hlo(self) -> str:
        """The optimized HLO as text."""
        from inspector._jax.modules.hlo import hlo_text

        try:
            return hlo_text(self._module_bytes)
        except Exception as e:  # XLA's error, or text that is not UTF-8
            raise ModuleError(
                f"XLA cannot print the optimized HLO of {self.name}, so the profile may be damaged: {e}"
            ) from e

    def instructions(self) -> pd.DataFrame:
        """Returns every instruction with its cost, one row each, as `Compiled.instructions` does."""
        return instructions(self.module(), module_costs(self.module()))

    def collectives(self) -> Collectives:
        """Returns the collectives with their replica groups. A profile does not contain the mesh, so they have no axes."""
        num_replicas, num_partitions = self._counts
        return collectives(self.module(), None, num_replicas, num_partitions)

    def roofline(self, peak: Peak | None = None) -> Roofline:
        """Returns the roofline, as `Compiled.roofline` does.

        Args:
          peak: the roofs; None for the published ones of the chip that ran the program, if it is known.
        """
        if not isinstance(peak, (Peak, type(None))):
            raise ParameterError(f"peak must be an inspector.Peak, got {short(peak)}.")
        return roofline(self.module(), module_costs(self.module()), peak or self._peak, self.collectives())

    def timeline(self) -> Timeline | Unavailable:
        """Returns the contents of each memory over time, if the buffer assignment has heap traces."""
        if not self._assignment:
            return _NO_ASSIGNMENT
        return timeline(self.hlo_proto, self.platform, self._peak)

    @functools.cached_property
    @needs_jax("Converting a program in a profile")
    def compiled(self) -> Compiled:
        """The program as a `Compiled`, for `graph`, `diff`, `schedule` and comparisons. It has no machine code."""
        return self._variant.compiled

    @needs_jax("An Explorer of a profile")
    def explorer(self, height_px: int = 700) -> Explorer:
        """Returns an Explorer of the program, with the panes that need no compiling.

        Args:
          height_px: initial height of the panes in CSS pixels.
        """
        return self.exploration.explorer(height_px)

    @property
    def exploration(self) -> Exploration:
        """The program as an `Exploration`, which can be saved to a file."""
        from inspector.api.exploration import Exploration

        variant = self._variant
        assert variant.lowered is not None
        return Exploration.of(RecordedExploration.now(variant.lowered, (variant,)))

    @functools.cached_property
    def _variant(self) -> RecordedVariant:
        """The program as a compiled variant. The conversion of its HLO runs in a separate process."""
        from inspector.lowering.lower import lower

        try:
            lowered = lower(self._module_bytes, platform=self.platform)
        except InspectorError as e:
            raise ModuleError(
                f"{self.name} cannot be converted to StableHLO, which an Explorer and a Compiled need: {e} Its profile, memory,"
                " instructions(), collectives() and roofline() are available."
            ) from e
        target = Target("cpu" if self.platform == "cpu" else "attached")
        kind = self.device_kind if isinstance(self.device_kind, str) else self.platform
        compiled = Compiled(
            program=lowered.program,
            options=Options(),
            target=target,
            _engine="profile",
            hlo=self.hlo,
            hlo_proto=self._module_bytes,
            memory=self.memory,
            cost=_NOT_COUNTED,
            timings={},
            _executable=_NO_CODE,
            versions={},
            warnings=("This program was read from a profile. It was not compiled here.", *lowered.notes),
            devices=tuple(f"{kind} {n}" for n in range(lowered.program.device_count)),
            buffers=Buffers.of(self.hlo_proto) if self._assignment else _NO_ASSIGNMENT,
        )
        return RecordedVariant(
            "profiled", Options(), target, "done", lowered=lowered, program=compiled, profile=self.profile
        )

    @property
    def _assignment(self) -> bytes:
        """The serialized buffer assignment; b"" if there is none that can be read."""
        try:
            return assignment_in(self.hlo_proto)
        except DecodeError:
            return b""

    @functools.cached_property
    def _module_bytes(self) -> bytes:
        proto: Any = self.module().columns.message("xla.HloProto", self.hlo_proto)
        written: bytes = proto.hlo_module.SerializeToString()
        return written

    @property
    def _counts(self) -> tuple[int, int]:
        """Number of replicas and partitions: those of the module's device assignment, else one partition on each device."""
        assignment = self.module().proto.device_assignment
        if assignment.computation_devices:
            return assignment.replica_count, assignment.computation_count
        used = len(set(self._events.device[self._events.program == self.id].tolist()))
        return 1, max(1, used)

    @property
    def _peak(self) -> Peak | Unavailable:
        if isinstance(self.device_kind, Unavailable):
            return self.device_kind
        return peak_of(Target("cpu" if self.platform == "cpu" else "attached"), (f"{self.device_kind} 0",))

    def __repr__(self) -> str:
        ran = f"{format_seconds(self.measured_s)} in {counted(self.kernels, 'kernel')}" if self.calls else "did not run"
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        text = f"<ProfiledProgram {self.name} on {self.platform}: {ran}{memory}>"
        return with_hint(text, ".profile, .roofline(), .memory, .hlo, .explorer()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.profile.table())
