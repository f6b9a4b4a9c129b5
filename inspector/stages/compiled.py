"""`Compiled`: a compiled program with its analyses as methods."""

from __future__ import annotations

import os
import threading
import types
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.measured_peak import stored_peak
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import Roofline, roofline, schedule
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.diff.module_diff import Diff, diff, totals
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.graph.instruction_graph import graph
from inspector.analysis.headline import Headline, headline
from inspector.analysis.instructions import instructions
from inspector.analysis.memory.donations import Donations, donations
from inspector.analysis.memory.scheduled_values import is_scheduled, scheduled_timeline
from inspector.analysis.memory.timeline import Timeline, timeline
from inspector.analysis.sharding.program_shardings import Shardings, shardings
from inspector.analysis.sharding.reshardings import Reshardings, reshardings
from inspector.compilation import machine_code
from inspector.compilation.compiled import OPENED, Built, CompiledProgram, build_options_of, engine_of, placed_mesh
from inspector.compilation.cost import InstructionCost, costs
from inspector.compilation.engine import EngineLike
from inspector.compilation.files import saved_compiled
from inspector.compilation.placement import device_ids
from inspector.compilation.program import Program
from inspector.compilation.records.passes import Passes
from inspector.errors import ModuleError, ParameterError, Unavailable, needs_jax
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.platforms import Peak
from inspector.stages.findings import Findings, Proofs, findings_of, module_before
from inspector.stages.passes import CompilerPasses
from inspector.support import deferred, packages
from inspector.support.notebook import short

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from inspector.analysis.profile.profile import Profile
    from inspector.execution.run import Run


_costs: weakref.WeakKeyDictionary[Module, dict[str, InstructionCost]] = weakref.WeakKeyDictionary()
_rooflines: weakref.WeakKeyDictionary[Module, tuple[object, Roofline]] = weakref.WeakKeyDictionary()
"""The last roofline of a module, with what it was computed for: views and findings share it."""
_counting: weakref.WeakKeyDictionary[Module, threading.Lock] = weakref.WeakKeyDictionary()


class Compiled(CompiledProgram):
    """A compiled program. Its fields are those of `CompiledProgram`, which an engine made."""

    __slots__ = ()

    passes: CompilerPasses | Unavailable

    def collectives(self) -> Collectives:
        """Returns the collectives of the optimized HLO with their replica groups and mesh axes."""
        return collectives_of(self)

    def reshardings(self) -> Reshardings:
        """Returns the changes of sharding that the partitioner made: from which sharding to which, at which line, and the remedy.

        With recorded passes (`products=("passes",)`) also the instruction that needs the change, and the whole arrays.
        """
        return reshardings(self, self.collectives(), whole_program(self))

    def shardings(self) -> Shardings:
        """Returns the shardings of arguments, results and intermediate values over the devices.

        Intermediate values need recorded passes (`products=("passes",)`). `Lowered.shardings` also has the user's constraints.
        """
        return shardings(self, whole=whole_program(self))

    def instructions(self) -> pd.DataFrame:
        """Returns every instruction of the optimized HLO with its cost, one row each.

        The columns are described at `inspector.analysis.instructions.instructions`. XLA counts the costs in a worker process; an
        unknown cost has its reason in the column `unknown`.
        """
        return instructions(self.module(), instruction_costs(self))

    def roofline(self, peak: Peak | None = None) -> Roofline:
        """Returns the roofline: each kernel's bound (arithmetic, memory or links) and estimated time on the target's chip.

        Args:
          peak: the roofs; None for the published ones of the target (`inspector.analysis.cost.peaks`).
        """
        if not isinstance(peak, (Peak, Unavailable, type(None))):
            raise ParameterError(
                f"peak must be an inspector.Peak, such as inspector.measured_peak(), got {short(peak)}."
            )
        roofs = peak or peak_of(self.target, self.devices)
        module = self.module()
        key = (roofs, self.target, self.options, self.program.mesh, self.program.named_axes, self.devices)
        known = _rooflines.get(module)
        if known is not None and known[0] == key:
            return known[1]
        found = roofline(module, instruction_costs(self), roofs, self.collectives(), self.target)
        if module in _costs:
            _rooflines[module] = (key, found)
        return found

    def schedule(self, peak: Peak | None = None, computation: str | None = None) -> Schedule | Unavailable:
        """Returns the estimated schedule of one execution: each kernel's start and end, and exposed and hidden communication.

        Each kernel takes its time at the roof.

        Args:
          peak: the roofs; None for the published ones of the target, Unavailable if there are none.
          computation: the name of a computation, such as the body of a loop; None for the entry computation.

        Raises:
          ModuleError: no such computation.
        """
        roofs = peak or peak_of(self.target, self.devices)
        if isinstance(roofs, Unavailable):
            return roofs
        return schedule(self.module(), instruction_costs(self), roofs, self.collectives(), computation, self.target)

    def timeline(self) -> Timeline | Unavailable:
        """Returns the contents of each memory over time, from XLA's heap traces, with a table and a figure.

        Needs a recorded buffer assignment (`products=("buffers",)`); Unavailable with the reason otherwise. For a program that
        was opened from a file without one, it is an estimate from the schedule (`Timeline.is_estimated`).
        """
        peak = peak_of(self.target, self.devices)
        if isinstance(self.buffers, Unavailable):
            if engine_of(self) == OPENED and is_scheduled(self.module()):
                return scheduled_timeline(self.module(), self.program.platform, peak)
            return self.buffers
        return timeline(self.buffers.hlo_proto, self.program.platform, peak)

    def headline(self, peak: Peak | None = None, profile: Profile | None = None) -> Headline:
        """Returns the most important facts: memory, time, the most expensive part and donated arguments that are not reused.

        Args:
          peak: the roofs that times are estimated from, as for `roofline`.
          profile: measured times (`Compiled.profile`), which replace the estimated ones.
        """
        measured = profile if profile is not None else Unavailable("it was not profiled")
        return headline(self.memory, self.roofline(peak), self.donations(), self.program.device_count, measured)

    def findings(self, peak: Peak | None = None, kinds: Collection[str] | None = None) -> Findings:
        """Returns what the user can change in the program and what it would gain, largest gain first.

        `Findings.prove` compiles the program with each remedy and compares. docs/findings.md describes every kind.

        Args:
          peak: the roofs that times are estimated from, as for `roofline`; None for those of the target, or on a CPU those
            that `measured_peak` stored.
          kinds: the kinds to look for; None for all.

        Raises:
          ParameterError: an unknown kind.
        """
        return findings_under(self, peak, kinds)

    def donations(self) -> Donations:
        """Returns the arguments: which of them outputs reuse, and the reason why the other donated ones are not reused."""
        return donations(self)

    def diff(self, other: CompiledProgram) -> Diff:
        """Returns the differences of another program from this one: `baseline.diff(variant)`.

        The programs may have different options, targets and JAX versions. Instructions are matched by what they compute and how
        they are used, so renamed, reordered or renumbered instructions are equal. If the optimized HLO is the same,
        `Diff.other_code` and the headline state whether the machine code differs.

        Raises:
          ParameterError: `other` is not a compiled program.
          ModuleError: a damaged module.
        """
        if not isinstance(other, CompiledProgram):
            raise ParameterError(f"diff() takes a Compiled, got {short(other)} ({type(other).__name__}).")
        theirs = as_compiled(other)
        counted = lambda: (instruction_costs(self), instruction_costs(theirs))  # noqa: E731
        difference = diff(self.module(), theirs.module(), totals(self, theirs), counted)
        return difference if difference.changes else difference.with_code(machine_code.differ(self, theirs))

    def graph(
        self, mode: Literal["auto", "whole", "scopes", "around"] = "auto", selection: str | None = None
    ) -> graphviz.Source:
        """Returns the optimized HLO as a graph that a notebook draws.

        Args:
          mode: "whole" (every instruction of the entry computation), "scopes" (one node per name scope), "around" (the
            neighborhood of `selection`), or "auto" for whole if it is small enough to read.
          selection: the name of an instruction, for "around".

        Raises:
          ModuleError: no such instruction.
        """
        return graph(self.module(), mode, selection).source

    @needs_jax("Running a program")
    def run(
        self, *args: Any, repeat: int = 10, warmup: int = 2, engine: EngineLike | None = None, **kwargs: Any
    ) -> Run:
        """Runs the program and measures it.

        Args:
          args: the function's arguments without static ones. Under an axis environment an array has either the shape of one
            replica, used by all, or a leading axis with one value per replica. Without any arguments, inputs are
            generated, and the result states it.
          repeat: measured executions, at least 1.
          warmup: executions before the measured ones.
          engine: the engine, as for `Lowered.compile`; None for the default.
          kwargs: the function's keyword arguments.

        Raises:
          ExecutionError: arguments that the program does not accept, or a failure at run time.
        """
        from inspector.engines.choice import engine_for
        from inspector.execution.run import run

        chosen = engine_for(engine, self.program, self.target)
        return run(self, chosen, args, kwargs, repeat=repeat, warmup=warmup)

    @needs_jax("Profiling a program")
    def profile(
        self, *args: Any, repeat: int = 5, warmup: int = 2, engine: EngineLike | None = None, **kwargs: Any
    ) -> Profile:
        """Runs the program under JAX's profiler and returns the measured time of each instruction.

        A worker profiles programs for `cpu:N`; this process profiles those for the attached accelerator. As many executions
        run without the profiler, half before and half after, so `Profile.wall` shows what the profiler itself costs.

        Args:
          args: the function's arguments, as for `run`. Without any arguments, inputs are generated.
          repeat: profiled executions, at least 1.
          warmup: executions before the measured ones.
          engine: the engine, as for `Lowered.compile`; None for the default.
          kwargs: the function's keyword arguments.

        Raises:
          ExecutionError: arguments that the program does not accept, or a failure at run time.
          TargetError: the device is not attached.
          ProfileError: the profile does not contain the program.
        """
        from inspector.engines.choice import engine_for
        from inspector.execution.profiled_run import run_profiled
        from inspector.stages.measured import profile_of_run

        chosen = engine_for(engine, self.program, self.target)
        reply = run_profiled(self, chosen, args, kwargs, repeat=repeat, warmup=warmup)
        return profile_of_run(self.module(), self.roofline().points, reply)

    def as_text(self) -> str:
        """Returns the optimized HLO, as `jax.stages.Compiled.as_text` does."""
        return self.hlo

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's operation counts of one execution under XLA's names, as `jax.stages.Compiled.cost_analysis` does.

        The keys are "flops", "transcendentals" and "bytes accessed".

        Raises:
          UnavailableError: the backend reports no costs.
        """
        cost: Any = self.cost  # reading a field of an Unavailable raises its error
        counts = {"flops": cost.flops, "transcendentals": cost.transcendentals, "bytes accessed": cost.bytes_accessed}
        return {name: float(count) for name, count in counts.items() if not isinstance(count, Unavailable)}

    def memory_analysis(self) -> types.SimpleNamespace:
        """Returns XLA's memory statistics, with the attributes of `jax.stages.Compiled.memory_analysis`.

        Raises:
          UnavailableError: the backend reports no memory.
        """
        memory: Any = self.memory  # as above
        return types.SimpleNamespace(**memory.reported)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to one file that `inspector.load` reads, also with another version of JAX or without it.

        Raises:
          OSError: the file cannot be written.
        """
        saved_compiled.save(self, path, portable=_portable(self.program))


def _portable(program: Program) -> bytes:
    """Returns a program's module in a form that other versions of JAX read; b"" if there is none, or no JAX to convert it."""
    if program.no_stablehlo or not packages.version("jaxlib"):
        return b""
    from inspector._jax.modules import stablehlo

    try:
        return stablehlo.portable(program.module)
    except ModuleError:
        return b""


def as_compiled(program: CompiledProgram) -> Compiled:
    """Returns a program of an engine as a `Compiled`; the same value if it is one."""
    if isinstance(program, Compiled):
        return program
    passes = program.passes
    return deferred.convert(
        Compiled,
        program,
        passes=CompilerPasses.of(passes, program.module) if isinstance(passes, Passes) else passes,
    )


def load_compiled(path: str | os.PathLike[str]) -> Compiled:
    """Reads a file that `Compiled.save` wrote. `inspector.load` reads it too.

    Raises:
      FileNotFoundError: no such file.
      ModuleError: not such a file, damaged, or of a newer version.
    """
    return as_compiled(saved_compiled.load(path))


def whole_program(compiled: CompiledProgram) -> Module | None:
    """Returns the program before partitioning, on whole arrays; None if it has one partition or its passes were not recorded."""
    passes = as_compiled(compiled).passes
    if isinstance(passes, Unavailable) or (build_options_of(compiled).num_partitions or 1) == 1:
        return None
    module = passes.before_partitioning()
    return None if isinstance(module, Unavailable) else module


def collectives_of(program: Built) -> Collectives:
    """Returns the collectives of a compiled program, or of its preview."""
    options = build_options_of(program)
    return collectives(
        program.module(),
        placed_mesh(program),
        options.num_replicas or 1,
        options.num_partitions or 1,
        named_axes=program.program.named_axes,
        devices=device_ids(program.devices),
    )


def instruction_costs(compiled: Built) -> dict[str, InstructionCost]:
    """Returns the cost of one execution of each instruction, by name, with everything that it calls.

    XLA counts in a worker process; where it cannot, the costs state the reason. Concurrent callers wait for the same count.
    """
    return module_costs(compiled.module())


def module_costs(module: Module) -> dict[str, InstructionCost]:
    """Returns the costs of `instruction_costs` for the optimized HLO of a program."""
    with _counting.setdefault(module, threading.Lock()):
        known = _costs.get(module)
        return dict(_count(module) if known is None else known)


def _count(module: Module) -> dict[str, InstructionCost]:
    from inspector.engines.shared_engines import try_to_count

    parts = singles(module)
    counts = try_to_count([part.module for part in parts])
    counted = costs(module, parts, counts)
    is_whole = not isinstance(counts, Unavailable) and not any(isinstance(c, Unavailable) for c in counts)
    if is_whole:  # else a worker may know more the next time
        _costs[module] = counted
    return counted


def findings_under(
    compiled: Compiled,
    peak: Peak | None = None,
    kinds: Collection[str] | None = None,
    proofs: Proofs | None = None,
    further: Sequence[Finding] = (),
) -> Findings:
    """Returns the findings of a program; arguments as for `Compiled.findings`.

    Args:
      compiled: the program.
      peak: the roofs.
      kinds: the kinds to look for.
      proofs: proofs of its findings so far, which the result continues; None for none.
      further: further findings, such as those of a watch.
    """
    roofs = peak or (stored_peak() if compiled.program.platform == "cpu" else None)
    subject = Subject(
        compiled,
        lambda: module_before(compiled.program),
        lambda: instruction_costs(compiled),
        lambda: compiled.roofline(roofs),
        compiled.collectives,
    )
    return findings_of(
        subject, kinds, lambda program: as_compiled(program).roofline(roofs).total.least_s, proofs, further
    )
