"""`OpenedProgram`: HLO that was compiled or written elsewhere, shown without compiling it."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from google.protobuf.message import DecodeError

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import Roofline, roofline, schedule
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.graph.instruction_graph import graph
from inspector.analysis.instructions import instructions
from inspector.analysis.memory.scheduled_values import is_scheduled, scheduled_timeline
from inspector.analysis.memory.timeline import Timeline, timeline
from inspector.analysis.sharding.program_shardings import Shardings
from inspector.api.shown_values import ShownAsExplorer
from inspector.compilation.caches import readings
from inspector.compilation.compiled import OPENED
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.compilation.placement import device_ids
from inspector.compilation.preview import assigned_memory
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.compilation.target import Target
from inspector.errors import ModuleError, ParameterError, Unavailable, needs_jax
from inspector.hlo.allocation_totals import assignment_in
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.stages.compiled import Compiled, module_costs
from inspector.stages.lowered import Lowered
from inspector.stages.passes import CompilerPasses
from inspector.support import deferred
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted, format_bytes

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from inspector.analysis.profile.profile import Profile
    from inspector.api.exploration import Exploration
    from inspector.hlo.devices.mesh import Mesh

_COMPILE = "compile the function with inspector.lower(f, x).compile()"
_NO_CODE = Unavailable("a file with HLO contains no machine code", _COMPILE)
_NOT_COUNTED = Unavailable("a file with HLO contains no operation counts", "instructions() and roofline() count them")
_NO_STATISTICS = Unavailable("a file with HLO contains no statistics of the compiler")
_NO_ASSIGNMENT = Unavailable(
    "the file contains no buffer assignment", "open the HloProto that XLA writes with --xla_dump_hlo_as_proto"
)
_NO_PASSES = Unavailable("a file with HLO contains no compiler passes", "open the folder of --xla_dump_to")
_NO_ASSEMBLY = Unavailable("a file with HLO contains no assembly", "open the folder of --xla_dump_to")
_NOT_COMPILED = Unavailable("it was opened without compiling it", "pass the file to inspector.lower")
_NO_STABLEHLO = Unavailable(
    "it was opened as HLO that is compiled already", "open the module before optimization, or pass the function itself"
)


@dataclasses.dataclass(frozen=True)
class OpenedProgram(ShownAsExplorer):
    """HLO from a file, opened without compiling it. `inspector.load` returns one; `of` makes one.

    An optimized module is shown as the optimized HLO of its compile: it is neither partitioned nor optimized again. All
    analyses of the optimized HLO work without its devices. `compiled` has all other analyses of a `Compiled`.

    Attributes:
      name: name of the module, such as "jit_step".
      hlo_proto: a serialized `xla.HloModuleProto`, or an `xla.HloProto` with the buffer assignment.
      platform: the platform that the module is for, such as "cpu", "gpu" or "tpu".
      target: the target for estimated times.
      is_optimized: whether a compiler has optimized the module.
      num_replicas, num_partitions: its devices: replicas times partitions.
      mesh: the mesh of the partitions; None if unknown.
      source: path of the file; "" if it was not read from one.
      device_kinds: the devices that ran it, as in `Compiled.devices`; () if unknown.
      options: the options of its compile, as far as known.
      versions: the versions of its compiler, as in `Compiled.versions`.
      passes, assembly: the records of its compile; Unavailable with the reason if there are none.
      before: the program before optimization; None if unknown.
      notes: remarks, such as assumptions about the module.
    """

    name: str
    hlo_proto: bytes = dataclasses.field(repr=False)
    platform: str
    target: Target
    is_optimized: bool
    num_replicas: int = 1
    num_partitions: int = 1
    mesh: Mesh | None = None
    source: str = ""
    device_kinds: tuple[str, ...] = ()
    options: Options = dataclasses.field(default_factory=Options)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    passes: CompilerPasses | Unavailable = dataclasses.field(default=_NO_PASSES, repr=False)
    assembly: Assembly | Unavailable = dataclasses.field(default=_NO_ASSEMBLY, repr=False)
    before: Lowered | None = dataclasses.field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    _text: str | None = dataclasses.field(default=None, repr=False, compare=False)
    _header: str = dataclasses.field(default="", repr=False, compare=False)
    _no_stablehlo: Unavailable = dataclasses.field(default=_NO_STABLEHLO, repr=False, compare=False)
    _live_range: str = dataclasses.field(default="", repr=False, compare=False)
    _reasons: Mapping[str, Unavailable] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @classmethod
    @needs_jax("Opening HLO")
    def of(
        cls,
        hlo: bytes | str,
        *,
        platform: str | None = None,
        target: str | Target | None = None,
        source: str = "",
        device_kinds: tuple[str, ...] = (),
        options: Options | None = None,
        versions: Mapping[str, str] | None = None,
        passes: Passes | Unavailable = _NO_PASSES,
        assembly: Assembly | Unavailable = _NO_ASSEMBLY,
        before: Lowered | None = None,
        live_range: str = "",
        no_stablehlo: Unavailable | None = None,
        notes: tuple[str, ...] = (),
    ) -> OpenedProgram:
        """Opens HLO. XLA reads it in a separate process, because damaged HLO can crash it.

        Args:
          hlo: HLO as text, or a serialized `xla.HloModuleProto` or `xla.HloProto`. An HloProto may have a buffer assignment.
          platform: the platform that it is for; None for that of the target, or the one whose compiler wrote it.
          target: the target for estimated times, such as "tpu:v5e:2x4"; None if unknown.
          source: path of the file, for messages.
          device_kinds: the devices that ran it, as in `Compiled.devices`.
          options: the options of its compile.
          versions: the versions of its compiler, as in `Compiled.versions`.
          passes: the recorded passes.
          assembly: the recorded assembly.
          before: the program before optimization.
          live_range: XLA's text of live ranges.
          no_stablehlo: the reason why the program cannot be compiled here; None if it only was opened without compiling it.
          notes: remarks for the user.

        Raises:
          ModuleError: XLA cannot read it; with XLA's message.
          TargetError: an unknown target.
        """
        from inspector import platforms
        from inspector._jax.modules import isolated_reading
        from inspector.hlo.devices.optimizing_compiler import is_optimized, platform_of
        from inspector.hlo.reading.module_message import decoded
        from inspector.lowering.hlo_only import devices_of

        given = hlo if isinstance(hlo, str) else bytes(decoded(hlo).SerializeToString())
        read = isolated_reading.read_hlo(given)
        module = Module.from_proto(read.source.proto)
        parsed = None if target is None else Target.parse(target)
        name = platform or (parsed and parsed.platform) or platform_of(module)
        if name is None:
            name = "cpu"
            notes = (*notes, "the module does not state its platform, and CPU is assumed; target= sets it")
        name = platforms.named(name).name
        devices = devices_of(module, read.source.header)
        optimized = is_optimized(module)
        if not optimized:
            notes = (*notes, "this is HLO before optimization: costs and times are those of unfused instructions")
        return cls(
            name=module.name,
            hlo_proto=read.source.proto if isinstance(hlo, str) else hlo,
            platform=name,
            target=parsed or Target("cpu" if name == "cpu" else "attached"),
            is_optimized=optimized,
            num_replicas=devices.num_replicas,
            num_partitions=devices.num_partitions,
            mesh=devices.mesh or (before.program.mesh if before else None),
            source=source,
            device_kinds=device_kinds,
            options=options or Options(),
            versions=versions or {},
            passes=CompilerPasses.of(passes) if isinstance(passes, Passes) else passes,
            assembly=assembly,
            before=before,
            notes=(*devices.notes, *notes),
            _text=read.text,
            _header=read.source.header,
            _no_stablehlo=no_stablehlo if no_stablehlo is not None else _NO_STABLEHLO if optimized else _NOT_COMPILED,
            _live_range=live_range,
        )

    def module(self) -> Module:
        """Returns the HLO as a model: computations, instructions, shapes."""
        return readings.module(self, self.hlo_proto)

    @functools.cached_property
    def memory(self) -> Memory | Unavailable:
        """Bytes by memory space and kind, from the buffer assignment."""
        if not self._assignment:
            return self._reason("assignment", _NO_ASSIGNMENT)
        return assigned_memory(self._assignment, self.platform, self._reason("statistics", _NO_STATISTICS))

    @property
    def hlo(self) -> str:
        """The HLO as text."""
        return self._read[0]

    def instructions(self) -> pd.DataFrame:
        """Returns every instruction with its cost, one row each, as `Compiled.instructions` does."""
        return instructions(self.module(), module_costs(self.module()))

    def collectives(self) -> Collectives:
        """Returns the collectives with their replica groups, and their mesh axes if the mesh is known."""
        ids = device_ids(self.device_kinds)
        return collectives(self.module(), self.mesh, self.num_replicas, self.num_partitions, devices=ids)

    def shardings(self) -> Shardings:
        """Returns the shardings of arguments, results and intermediate values over the devices."""
        return self.lowered.shardings(self.compiled)

    def roofline(self, peak: Peak | None = None, target: str | Target | None = None) -> Roofline:
        """Returns the roofline, as `Compiled.roofline` does.

        Args:
          peak: the roofs; None for the published ones of the target.
          target: the target, such as "tpu:v5e:2x4"; None for the program's own.
        """
        roofs, parsed = self._roofs(peak, target)
        return roofline(self.module(), module_costs(self.module()), roofs, self.collectives(), parsed)

    def schedule(
        self, peak: Peak | None = None, computation: str | None = None, target: str | Target | None = None
    ) -> Schedule | Unavailable:
        """Returns the estimated schedule of one execution, as `Compiled.schedule` does.

        Args:
          peak: the roofs; None for the published ones of the target.
          computation: the name of a computation; None for the entry computation.
          target: the target; None for the program's own.

        Raises:
          ModuleError: no such computation.
        """
        roofs, parsed = self._roofs(peak, target)
        if isinstance(roofs, Unavailable):
            return roofs
        costs = module_costs(self.module())
        return schedule(self.module(), costs, roofs, self.collectives(), computation, parsed)

    def timeline(self) -> Timeline | Unavailable:
        """Returns the contents of each memory over time, from the buffer assignment, or else from the schedule.

        Without a buffer assignment it is an estimate (`Timeline.is_estimated`); without a schedule it is Unavailable.
        """
        peak = peak_of(self.target, self.device_kinds)
        if self._assignment:
            return timeline(self.hlo_proto, self.platform, peak)
        if is_scheduled(self.module()):
            return scheduled_timeline(self.module(), self.platform, peak)
        return self._reason("assignment", _NO_ASSIGNMENT)

    def graph(
        self, mode: Literal["auto", "whole", "scopes", "around"] = "auto", selection: str | None = None
    ) -> graphviz.Source:
        """Returns the HLO as a graph that a notebook draws; arguments as for `Compiled.graph`."""
        return graph(self.module(), mode, selection).source

    @functools.cached_property
    @needs_jax("Showing HLO")
    def lowered(self) -> Lowered:
        """The program before optimization if it is known, else the module itself, which cannot be compiled."""
        from inspector._jax.modules.hlo import SourceHlo
        from inspector.lowering.hlo_only import devices_for, without_stablehlo

        if self.before is not None:
            return deferred.convert(type(self.before), self.before, notes=(*self.before.notes, *self._notes))
        text, header = self._read
        devices = devices_for(self.num_replicas, self.num_partitions, self.mesh, per_device=self.is_optimized)
        return without_stablehlo(
            SourceHlo(header, self.hlo_module_bytes), text, self.platform, self._no_stablehlo, devices=devices,
            notes=self._notes,
        )  # fmt: skip

    @property
    def _notes(self) -> tuple[str, ...]:
        made = "optimized HLO" if self.is_optimized else "HLO before optimization"
        return f"this {made}{f' from {self.source}' if self.source else ''} was not compiled here", *self.notes

    @functools.cached_property
    def compiled(self) -> Compiled:
        """The program as a `Compiled`, for `diff`, `line_costs` and comparisons. It has no machine code and cannot run."""
        return Compiled(
            program=self.lowered.program,
            options=self.options,
            target=self.target,
            _engine=OPENED,
            hlo=self.hlo,
            hlo_proto=self.hlo_module_bytes,
            memory=self.memory,
            cost=self._reason("cost", _NOT_COUNTED),
            timings={},
            _executable=self._reason("code", _NO_CODE),
            versions=self.versions,
            warnings=self._notes,
            devices=self.device_kinds,
            passes=self.passes,
            assembly=self.assembly,
            buffers=Buffers.of(self.hlo_proto, self._live_range)
            if self._assignment
            else self._reason("assignment", _NO_ASSIGNMENT),
        )

    @property
    def exploration(self) -> Exploration:
        """The program as an `Exploration`, which can be saved to a file."""
        return self.exploration_with("opened", None)

    def exploration_with(self, label: str, profile: Profile | None) -> Exploration:
        """Returns the program as an `Exploration` of one variant.

        Args:
          label: the variant's label.
          profile: the measured time of the program; None if unknown.
        """
        from inspector.api.exploration import Exploration

        return Exploration.of(RecordedExploration.now(self.lowered, (self.variant(label, profile),)))

    def variant(self, label: str, profile: Profile | None = None) -> RecordedVariant:
        """Returns the program as a variant of an exploration; arguments as for `exploration_with`."""
        return RecordedVariant(
            label, self.options, self.target, "done", lowered=self.lowered, program=self.compiled, profile=profile
        )

    def with_reason(self, no_stablehlo: Unavailable) -> OpenedProgram:
        """Returns the same program with another reason why it cannot be compiled."""
        return dataclasses.replace(self, _no_stablehlo=no_stablehlo)

    @functools.cached_property
    @needs_jax("The text of HLO")
    def _read(self) -> tuple[str, str]:
        """The text and its first line."""
        from inspector._jax.modules import isolated_reading

        if self._text is not None:
            return self._text, self._header
        try:
            read = isolated_reading.read_hlo(self.hlo_module_bytes)
        except ModuleError as e:
            raise ModuleError(f"XLA cannot print the HLO of {self.name}, so it may be damaged: {e}") from e
        return read.text, read.source.header

    @functools.cached_property
    def _assignment(self) -> bytes:
        """The serialized buffer assignment; b"" if there is none that can be read."""
        try:
            return assignment_in(self.hlo_proto)
        except DecodeError:
            return b""

    @functools.cached_property
    def hlo_module_bytes(self) -> bytes:
        """The serialized `xla.HloModuleProto`."""
        from inspector.hlo.reading.module_message import decoded

        return bytes(decoded(self.hlo_proto).SerializeToString())

    def _roofs(self, peak: Peak | None, target: str | Target | None) -> tuple[Peak | Unavailable, Target]:
        if not isinstance(peak, (Peak, type(None))):
            raise ParameterError(f"peak must be an inspector.Peak, got {short(peak)}.")
        if target is None:
            return peak or self._reason_or_peak(), self.target
        parsed = Target.parse(target)
        return peak or peak_of(parsed), parsed

    def _reason_or_peak(self) -> Peak | Unavailable:
        known = self._reasons.get("peak")
        return known if known is not None else peak_of(self.target, self.device_kinds)

    def _reason(self, name: str, reason: Unavailable) -> Unavailable:
        return self._reasons.get(name, reason)

    def __repr__(self) -> str:
        kind = "optimized HLO" if self.is_optimized else "HLO before optimization"
        devices = f", per-device program of {counted(self.num_partitions, 'partition')}" if self._is_partitioned else ""
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        where = f" from {os.path.basename(self.source)}" if self.source else ""  # noqa: PTH119 - a text, not a file
        text = f"<OpenedProgram {self.name} for {self.platform}: {kind}{where}{devices}{memory}>"
        return with_hint(text, '.hlo, .instructions(), .roofline(target="tpu:v5e:2x4"), .collectives(), .explorer()')

    def _repr_html_(self) -> str:
        return described(repr(self), {f"note {n}": note for n, note in enumerate(self.notes, 1)})

    @property
    def _is_partitioned(self) -> bool:
        return self.is_optimized and self.num_partitions > 1
