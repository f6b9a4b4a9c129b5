"""`Compiled`: a compiled program as users hold it: the value, with what can be asked of it as methods."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Literal, Self

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import Roofline, course, roofline
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.diff.module_diff import Diff, diff, totals
from inspector.analysis.graph.instruction_graph import graph
from inspector.analysis.instructions import instructions
from inspector.analysis.memory.timeline import Timeline, timeline
from inspector.analysis.sharding.program_shardings import Shardings, shardings
from inspector.analysis.sharding.reshardings import Reshardings, reshardings
from inspector.compilation import machine_code
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.cost import InstructionCost, costs
from inspector.compilation.engine import EngineLike
from inspector.compilation.files import saved_compiled
from inspector.compilation.placement import device_ids
from inspector.compilation.records.passes import Passes
from inspector.errors import ParameterError, Unavailable, needs_jax
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.platforms import Peak
from inspector.stages.passes import CompilerPasses

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from inspector.engines.executable import LoadedExecutable
    from inspector.execution.run import Run


_costs: weakref.WeakKeyDictionary[Module, dict[str, InstructionCost]] = weakref.WeakKeyDictionary()
_counting: weakref.WeakKeyDictionary[Module, threading.Lock] = weakref.WeakKeyDictionary()


class Compiled(CompiledProgram):
    """A compiled program; its fields are those of `CompiledProgram`, which an engine made."""

    __slots__ = ()

    passes: CompilerPasses | Unavailable

    @classmethod
    def of(cls, program: CompiledProgram) -> Self:
        """The same program with these methods; itself where it has them."""
        if isinstance(program, cls):
            return program
        passes = program.passes
        return cls.like(program, passes=CompilerPasses.of(passes) if isinstance(passes, Passes) else passes)

    def collectives(self) -> Collectives:
        """The collectives of the optimized HLO, with their replica groups and the axes that these mean."""
        options = self.build_options
        return collectives(
            self.module(),
            self.mesh,
            options.num_replicas or 1,
            options.num_partitions or 1,
            named_axes=self.program.named_axes,
            devices=device_ids(self.devices),
        )

    def reshardings(self) -> Reshardings:
        """Where the partitioner changes how an array is split: from what to what, at which line, and what helps.

        Where the compile recorded its passes (`products=("passes",)`), also for which instruction, on which whole arrays.
        """
        return reshardings(self, self.collectives(), self.whole)

    def shardings(self) -> Shardings:
        """How the arrays of a partitioned program lie over its devices: arguments, results, and values inside.

        The values are those that the partitioner takes, which is known where the compile recorded its passes
        (`products=("passes",)`); `Lowered.shardings` has besides what the user constrains.
        """
        return shardings(self, whole=self.whole)

    @property
    def whole(self) -> Module | None:
        """The program of whole arrays that the partitioner takes; None without one, and where no passes were recorded."""
        if isinstance(self.passes, Unavailable) or (self.build_options.num_partitions or 1) == 1:
            return None
        found = self.passes.before_partitioning()
        return None if isinstance(found, Unavailable) else found

    def instructions(self) -> pd.DataFrame:
        """Every instruction of the optimized HLO, one row each, with what it costs.

        The columns are described at `inspector.analysis.instructions.instructions`. XLA counts in a
        worker process; where it cannot, the costs say why.
        """
        return instructions(self.module(), self.instruction_costs())

    def instruction_costs(self) -> dict[str, InstructionCost]:
        """What one execution of each instruction costs, by name, with all that it calls.

        XLA counts in a worker process; where it cannot, the costs say why. Who asks meanwhile waits for the same count.
        """
        module = self.module()
        with _counting.setdefault(module, threading.Lock()):
            known = _costs.get(module)
            return dict(_count(module) if known is None else known)

    def roofline(self, peak: Peak | None = None) -> Roofline:
        """Each kernel under the roofs of the target's chip: bound by arithmetic, memory or links, and the least time.

        Args:
          peak: the roofs; None for the published ones of the target (`inspector.analysis.cost.peaks`).
        """
        if not isinstance(peak, (Peak, Unavailable, type(None))):
            raise ParameterError(f"peak is an inspector.Peak, such as inspector.measured_peak() gives, got {peak!r}.")
        found = peak or peak_of(self.target, self.devices)
        return roofline(self.module(), self.instruction_costs(), found, self.collectives())

    def course(self, peak: Peak | None = None, computation: str | None = None) -> Schedule | Unavailable:
        """What is under way when in one execution, each kernel as fast as its roof lets it be: exchanges hidden and exposed.

        Args:
          peak: the roofs; None for the published ones of the target, Unavailable where there are none.
          computation: a loop's body, say, by its name; None for the entry.

        Raises:
          ModuleError: there is no such computation.
        """
        found = peak or peak_of(self.target, self.devices)
        if isinstance(found, Unavailable):
            return found
        return course(self.module(), self.instruction_costs(), found, self.collectives(), computation)

    def timeline(self) -> Timeline | Unavailable:
        """What lies in which memory, when: XLA's heaps replayed, with a table and a figure.

        Where the compile recorded the buffer assignment (`products=("buffers",)`), else why there is none.
        """
        if isinstance(self.buffers, Unavailable):
            return self.buffers
        peak = peak_of(self.target, self.devices)
        return timeline(self.buffers.hlo_proto, self.program.platform, peak)

    def diff(self, other: CompiledProgram) -> Diff:
        """How another program differs from this one: `baseline.diff(variant)`.

        Both may be of any options, targets and versions of JAX (`Compiled.load`). Instructions are matched by what they
        compute and what becomes of it, so a program that is only renamed, reordered or numbered anew is the same. Where
        the optimized HLO is the same, `Diff.other_code` and the headline state whether the machine code is.

        Raises:
          ParameterError: it is not compiled.
          ModuleError: one of the modules is damaged.
        """
        if not isinstance(other, CompiledProgram):
            raise ParameterError(f"diff() takes a Compiled, got {other!r} ({type(other).__name__}).")
        theirs = Compiled.of(other)
        counted = lambda: (self.instruction_costs(), theirs.instruction_costs())  # noqa: E731
        found = diff(self.module(), theirs.module(), totals(self, theirs), counted)
        return found if found.changes else found.with_code(machine_code.differ(self, theirs))

    def graph(
        self, mode: Literal["auto", "whole", "scopes", "around"] = "auto", selection: str | None = None
    ) -> graphviz.Source:
        """The optimized HLO as a graph.

        Args:
          mode: "whole" (every instruction of the entry computation), "scopes" (one node a named
            scope), "around" (what is near `selection`), or "auto" for whole where it is readable.
          selection: an instruction's name, for "around".

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
          args: the function's arguments, static ones left out. Under an axis environment each array
            has one replica's shape, for all replicas, or a leading axis with one value a replica.
            No arguments at all: inputs are made (and the result says so).
          repeat: measured executions, at least 1.
          warmup: executions before them.
          engine: who runs, as for `Lowered.compile`; None for the one that suits program and target.
          kwargs: the function's keyword arguments.

        Raises:
          ExecutionError: arguments that the program does not take, or a failure at run time.
        """
        from inspector.engines.choice import engine_for
        from inspector.execution.run import run

        chosen = engine_for(engine, self.program, self.target)
        return run(self, chosen, args, kwargs, repeat=repeat, warmup=warmup)

    @needs_jax("An executable")
    def runtime_executable(self) -> LoadedExecutable:
        """The executable on the devices of this process, under jaxlib's own methods (docs/runtime.md).

        Loaded from its bytes; a program without any, such as one with host callbacks, is compiled
        anew, where this process has compiled it before. What runs it here has none of a worker's
        protection, and `run` needs none of it.

        Raises:
          TargetError: this process has not the target's devices.
          ExecutionError: another jaxlib's executable, or one that cannot leave its process.
        """
        from inspector.engines.executable import load

        return load(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file that `load` reads, also where JAX is not installed.

        Raises:
          OSError: the place cannot be written.
        """
        saved_compiled.save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Compiled:
        """Reads a file that `save` wrote.

        Raises:
          FileNotFoundError: there is none.
          ModuleError: not such a file, damaged, or of a newer version.
        """
        return Compiled.of(saved_compiled.load(path))


def _count(module: Module) -> dict[str, InstructionCost]:
    from inspector.engines.shared_engines import try_to_count

    parts = singles(module)
    counts = try_to_count([part.module for part in parts])
    counted = costs(module, parts, counts)
    is_whole = not isinstance(counts, Unavailable) and not any(isinstance(c, Unavailable) for c in counts)
    if is_whole:  # else a worker may know more the next time
        _costs[module] = counted
    return counted
