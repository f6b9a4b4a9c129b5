"""`Compiled`: what a compiler gave back. A frozen value: compare, pickle, save to one file, load without JAX.

Made by an engine, or by `Compiled.load`. Read by every analysis.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from inspector.compilation.cost import Cost, InstructionCost
from inspector.compilation.memory import Memory
from inspector.compilation.options import Options
from inspector.compilation.program import Program
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.compilation.target import Target
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.module import Module
from inspector.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from inspector.analysis.collectives import Collectives
    from inspector.analysis.peaks import Peak
    from inspector.analysis.roofline import Roofline
    from inspector.analysis.timeline import Timeline
    from inspector.compilation.engine import EngineLike
    from inspector.engines.executable import LoadedExecutable
    from inspector.execution.run import Run


def not_asked_for(product: str) -> Unavailable:
    """What stands in the place of a product that a compile was not asked for."""
    return Unavailable("was not asked for", f"compile with products=({product!r},)")


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program.

    Attributes:
      program: what was compiled.
      options: the user's options (see `build_options` for all that the compiler got).
      target: for what.
      engine: who compiled: "worker" or "inline".
      hlo: the optimized HLO, the text of JAX's `compiled.as_text()`.
      hlo_proto: the same as a serialized `xla.HloModuleProto`.
      memory: totals, or why there are none.
      cost: operation counts of one execution, or why there are none.
      timings: seconds by stage: `compile_s` (XLA), `queue_s`, `parse_s`, `read_s`, `total_s`. Of a
        program that was compiled before and remembered, those of that time, and `cache_s` (fetching
        it) and `saved_s` (what that spared).
      executable: XLA's serialized executable, or why there is none.
      versions: `jax`, `jaxlib`, `platform_version` of the compiler.
      warnings: what the compiler warned of, a line each. A compile in this process (engine "inline") does not hear XLA,
        and says so in a line.
      devices: kind, id and, of a TPU, place of the devices compiled for, one a replica and partition in
        row-major order: a mesh's devices in the order of its axes.
      passes: what each compiler pass did, where the compile was asked for it (`products=("passes",)`).
      assembly: the back-end's code, likewise.
      buffers: the buffer assignment with heap traces, likewise.
    """

    program: Program
    options: Options
    target: Target
    engine: str
    hlo: str
    hlo_proto: bytes
    memory: Memory | Unavailable
    cost: Cost | Unavailable
    timings: Mapping[str, float]
    executable: bytes | Unavailable
    versions: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    passes: Passes | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("passes"))
    assembly: Assembly | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("assembly"))
    buffers: Buffers | Unavailable = dataclasses.field(default_factory=lambda: not_asked_for("buffers"))

    @property
    def build_options(self) -> Options:
        """All that the compiler was told: the program's implied options with the user's on top."""
        return self.program.options.merge(self.options)

    @property
    def digest(self) -> str:
        """SHA-256 over module, options, target and compiler versions, in hex."""
        parts = (self.program.digest, self.build_options.to_json(), str(self.target), *sorted(self.versions.items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def from_cache(self) -> bool:
        """Whether it was compiled before and remembered, not compiled for this request."""
        return "cache_s" in self.timings

    def module(self) -> Module:
        """The optimized HLO as a model: computations, instructions, shapes."""
        return Module.from_proto(self.hlo_proto)

    def collectives(self) -> Collectives:
        """The collectives of the optimized HLO, with their replica groups and the axes that these mean."""
        from inspector.analysis.collectives import collectives

        options = self.build_options
        return collectives(
            self.module(),
            self.program.mesh,
            options.num_replicas or 1,
            options.num_partitions or 1,
            named_axes=self.program.named_axes,
        )

    def instructions(self) -> pd.DataFrame:
        """Every instruction of the optimized HLO, one row each, with what it costs.

        The columns are described at `inspector.analysis.instructions.instructions`. XLA counts in a
        worker process; where it cannot, the costs say why.
        """
        from inspector.analysis.instructions import instructions

        return instructions(self.module(), self.instruction_costs())

    def instruction_costs(self) -> dict[str, InstructionCost]:
        """What one execution of each instruction costs, by name, with all that it calls.

        XLA counts in a worker process; where it cannot, the costs say why.
        """
        from inspector.compilation.cost import costs
        from inspector.engines.counting import try_to_count
        from inspector.hlo.single import singles

        module = self.module()
        parts = singles(module)
        return costs(module, parts, try_to_count([part.module for part in parts]))

    def roofline(self, peak: Peak | None = None) -> Roofline:
        """Each kernel under the roofs of the target's chip: bound by arithmetic, memory or links, and the least time.

        Args:
          peak: the roofs; None for the published ones of the target (`inspector.analysis.peaks`).
        """
        from inspector.analysis.peaks import Peak, peak_of
        from inspector.analysis.roofline import roofline

        if not isinstance(peak, (Peak, Unavailable, type(None))):
            raise ParameterError(f"peak is an inspector.Peak, such as inspector.measured_peak() gives, got {peak!r}.")
        found = peak or peak_of(self.target, self.devices)
        return roofline(self.module(), self.instruction_costs(), found, self.collectives())

    def timeline(self) -> Timeline | Unavailable:
        """What lies in which memory, when: XLA's heaps replayed, with a table and a figure.

        Where the compile recorded the buffer assignment (`products=("buffers",)`), else why there is none.
        """
        if isinstance(self.buffers, Unavailable):
            return self.buffers
        from inspector.analysis.peaks import peak_of
        from inspector.analysis.timeline import timeline

        peak = peak_of(self.target, self.devices)
        return timeline(self.buffers.hlo_proto, self.program.platform, peak)

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
        from inspector.analysis.graph import graph

        return graph(self.module(), mode, selection).source

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
        from inspector.execution.run import run

        return run(self, args, kwargs, repeat=repeat, warmup=warmup, engine=engine)

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
        from inspector.compilation.saved import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Compiled:
        """Reads a file that `save` wrote.

        Raises:
          FileNotFoundError: there is none.
          ModuleError: not such a file, damaged, or of a newer version.
        """
        from inspector.compilation.saved import load

        return load(path)

    def __repr__(self) -> str:
        memory = "" if isinstance(self.memory, Unavailable) else f", peak {format_bytes(self.memory.peak_bytes)}"
        flops = "" if isinstance(self.cost, Unavailable) else f", {format_count(self.cost.flops, 'flop')}"
        seconds = format_seconds(self.timings.get("compile_s", 0.0))
        return f"<Compiled {self.program.name} for {self.target}, {self.options}: compiled in {seconds}{memory}{flops}>"
