"""`Lowered`: a function after JAX and before XLA. A frozen value of text, bytes and numbers.

Made by `lowering/`. Goes to engines as `Lowered.program`, to `analysis/` as HLO and listings. Loads and is read where JAX
is not installed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspector import platforms
from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.line_costs import OPTIMIZED, LineCosts, line_costs
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import Roofline
from inspector.analysis.graph.instruction_graph import graph
from inspector.analysis.hlo_listing import hlo_listing
from inspector.analysis.memory.timeline import Timeline, timeline
from inspector.analysis.memory.tpu_errors import NOT_ASSIGNED, KernelRefused, MemoryOverflow, advice, explain
from inspector.analysis.sharding.program_shardings import Shardings, shardings
from inspector.compilation.engine import EngineLike
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.preview import Preview
from inspector.compilation.program import Argument, Program, Result
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.request import CompileRequest, products_of
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_CALLED, WhatIf, batch_by_path
from inspector.errors import CompilationError, ModuleError, ParameterError, Unavailable, check_bool, needs_jax
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.reading.module_cache import held
from inspector.hlo.source import Root
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.stages.kernel import Kernel
from inspector.support.cross_process import TRAVELS, Portable
from inspector.support.deferred import Deferred

if TYPE_CHECKING:
    import graphviz

    from inspector._jax.lowering.observing import Logged, ObserveLimits
    from inspector.execution.collective_values import Observed
    from inspector.stages.observing import Observing


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Again:
    """How a program is lowered for another platform, or of another call, in the process where its function is.

    Attributes:
      lower: for a platform and a chip ("" for the usual one), of such a call.
      observe: for CPUs, with a log of what collectives take and give behind its results, and what is in it.
      chip: what Pallas kernels took for their device.
      what_if: what the call was supposed to be.
    """

    lower: Callable[[str, str, WhatIf], Lowered]
    observe: Callable[[ObserveLimits], tuple[Lowered, tuple[Logged, ...]]]
    chip: str
    what_if: WhatIf = AS_CALLED
    _done: dict[tuple[str, str], Lowered] = dataclasses.field(default_factory=dict)

    def __call__(self, platform: str, chip: str) -> Lowered:
        """The program for a platform; the same one when asked again."""
        key = (platform, chip)
        if key not in self._done:
            self._done[key] = self.lower(platform, chip, self.what_if)
        return self._done[key]


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Lowered(Deferred, Portable):
    """A lowered function. Its texts and `hlo_proto` are made when they are first asked for.

    Attributes:
      program: the module and its ends: what a compiler gets.
      source: the user's own code that the module came from.
      jaxpr_listing: the jaxpr with the origin of each line.
      stablehlo_listing: StableHLO with the origin of each line; long constants left out.
      hlo: HLO before any optimization, with metadata.
      hlo_proto: the same as a serialized HloModuleProto.
      root: where the program begins on the Python stack; listings end there, `hlo` goes on.
      tuple_args, return_tuple: how `computation` passes arguments and results.
      out_shape: the result's pytree with shapes and dtypes as leaves, or None when the module came
        without. Its containers are the user's own, so it never leaves the process and is never compared.
      kernels: the Pallas kernels that it calls, in the order of the program; none where the program
        came without a jaxpr.
      notes: arguments that are no arrays, with their values, which are part of the program; and what else is to be
        known of how it was lowered.
      timings: seconds by step: `trace_s` (the function to a jaxpr), `lower_s` (that to StableHLO); what is not there was
        not done here.
      again: lowers it for another platform, or of another call, where its function is still there; or None. Never compared nor pickled.
    """

    program: Program
    source: Listing | Unavailable
    jaxpr_listing: Listing | Unavailable
    stablehlo_listing: Listing
    hlo: str
    hlo_proto: bytes = dataclasses.field(compare=False, metadata=TRAVELS)  # XLA numbers instructions anew each time
    root: Root = dataclasses.field(default_factory=Root)
    tuple_args: bool = False
    return_tuple: bool = False
    out_shape: Any = dataclasses.field(default=None, compare=False, repr=False)
    kernels: tuple[Kernel, ...] = ()
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = dataclasses.field(default_factory=dict, compare=False, repr=False, metadata=TRAVELS)
    again: Again | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The module's name."""
        return self.program.name

    @property
    def jaxpr(self) -> str | Unavailable:
        """The jaxpr's text."""
        return self.jaxpr_listing if isinstance(self.jaxpr_listing, Unavailable) else self.jaxpr_listing.text

    @property
    @needs_jax("The StableHLO text of a module")
    def stablehlo(self) -> str:
        """The whole StableHLO module as MLIR text, every constant included."""
        from inspector._jax.modules import isolated_reading

        return isolated_reading.full_text(self.program.module)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The array arguments."""
        return self.program.arguments

    @property
    def outputs(self) -> tuple[Result, ...]:
        """The array results."""
        return self.program.results

    @property
    def axis_env(self) -> Mesh | None:
        """The axis environment, or None."""
        mesh = self.program.mesh
        return mesh if mesh is not None and mesh.kind == "replica" else None

    @property
    @needs_jax("An XlaComputation")
    def computation(self) -> Any:
        """Jaxlib's own `XlaComputation`: `as_hlo_text()`, `as_serialized_hlo_module_proto()`, ..."""
        from inspector._jax.modules import hlo

        return hlo.computation_from_proto(self.hlo_proto)

    def module(self) -> Module:
        """The HLO before optimization as a model. Read once, as long as there is room."""
        return held.module(self, self.hlo_proto)

    @needs_jax("XLA's own graph")
    def dot(self) -> str:
        """XLA's own graph of the HLO, as DOT text; `graph` is drawn in a notebook."""
        from inspector._jax.modules import hlo

        return hlo.hlo_dot(self.hlo_proto)

    def graph(
        self, mode: Literal["auto", "whole", "scopes", "around"] = "auto", selection: str | None = None
    ) -> graphviz.Source:
        """The HLO as a graph, which notebooks draw; arguments as for `Compiled.graph`."""
        return graph(self.module(), mode, selection).source

    def explain(
        self, error: BaseException | str, target: str | Target = "attached"
    ) -> MemoryOverflow | KernelRefused | Unavailable:
        """What a TPU's compiler had against the program or one of its Pallas kernels, as numbers, with what can be done about it.

        Of a program that does not fit into the device's memory, `MemoryOverflow.timeline` has what was to lie there when.

        Args:
          error: what `compile` raised, or its text.
          target: what was compiled for; says how much memory there is.
        """
        found = explain(str(error))
        if found is None:
            return Unavailable("it is no error of a TPU's compiler that has numbers", "its own text says all")
        if not isinstance(found, MemoryOverflow):
            return found
        parsed = Target.parse(target)
        if found.is_of_program and isinstance(error, CompilationError):
            found = dataclasses.replace(found, timeline=self.timeline_until(error, parsed, "tpu"))
        return dataclasses.replace(found, advice=advice(found, self.kernels, parsed.chip, self.program.arguments))

    def timeline_until(self, error: CompilationError, target: Target, platform: str = "") -> Timeline | Unavailable:
        """What was to lie in which memory, when, of a compile that failed after XLA had assigned the buffers.

        Args:
          error: which it failed with.
          target: for what.
          platform: whose compiler's error it is, where that is known; "" for the target's.
        """
        if not error.buffers:
            return NOT_ASSIGNED
        names = platforms.named(platform or target.platform or self.program.platform).name
        try:
            return timeline(Buffers.from_bytes(error.buffers).hlo_proto, names, peak_of(target))
        except ModuleError as unreadable:
            return Unavailable(str(unreadable))

    def collectives(self) -> Collectives:
        """The collectives of the HLO, with their replica groups and the axes that these mean."""
        options = self.program.options
        return collectives(
            self.module(),
            self.program.mesh,
            options.num_replicas or 1,
            options.num_partitions or 1,
            named_axes=self.program.named_axes,
            devices=self.program.device_ids,
        )

    def observe(self, *args: Any, executions: int = 16, **kwargs: Any) -> Observed:
        """What every device puts into each collective of the function, and gets out of it, when it runs on inputs.

        The function is evaluated anew with its collectives' values beside its results, inside loops, branches and
        `shard_map`s too, and run on virtual CPU devices in another process. Nothing of it is changed, and it runs once.
        Collectives that the partitioner inserts are not among them.

        Args:
          args: as of `Compiled.run`: the function's arguments; none at all for made ones.
          executions: values to keep of a collective in a loop: of the first so many rounds, fewer where all of them
            would be more than 256 MiB; what one round alone is too large for is not kept, and says so.
          kwargs: the function's keyword arguments.

        Raises:
          ParameterError: it calls no collective, or its function is gone; or more than 256 devices.
          ExecutionError: arguments that the program does not take, or a failure at run time.
        """
        return self.begin_observing(*args, executions=executions, **kwargs).result()

    @needs_jax("Observing a program")
    def begin_observing(self, *args: Any, executions: int = 16, **kwargs: Any) -> Observing:
        """The same, begun: `result()` waits for it, `cancel()` from another thread stops it. Arguments and errors as of `observe`."""
        from inspector.stages import observing

        limits = observing.limits(self.program, executions)
        logging, logged = self._again().observe(limits)
        request = logging.request(target=observing.target_of(logging.program, logged))
        return observing.Observing(request, logged, self.collectives(), args, kwargs)

    def shardings(self, compiled: Compiled) -> Shardings:
        """How arguments, results and values inside lie over the devices, once this is compiled.

        Args:
          compiled: what it was compiled to, as XLA shards what nobody asked for.
        """
        return shardings(compiled, self.module(), compiled.whole)

    def line_costs(self, compiled: Compiled, peak: Peak | None = None) -> LineCosts:
        """What each line of source, jaxpr, StableHLO, HLO and optimized HLO costs, once this is compiled.

        Args:
          compiled: what it was compiled to; where that has buffers, the memory at the peak is known too.
          peak: the roofs for the times; None for the published ones of the target.
        """
        return self.line_costs_under(compiled.roofline(peak), compiled, compiled.timeline())

    def line_costs_under(self, roofline: Roofline, compiled: Compiled, timeline: Timeline | Unavailable) -> LineCosts:
        """The same where its roofline is known, and its memory, or why that is not."""
        module = compiled.module()
        texts: dict[str, Listing | Unavailable] = {
            "source": self.source,
            "jaxpr": self.jaxpr_listing,
            "stablehlo": self.stablehlo_listing,
            "hlo": hlo_listing(self.hlo, self.module(), self.root),
            OPTIMIZED: hlo_listing(compiled.hlo, module, self.root),
        }
        listings = {name: text for name, text in texts.items() if not isinstance(text, Unavailable)}
        return line_costs(module, listings, roofline, timeline)

    def request(
        self,
        options: Options | Mapping[str, FlagValue] | str | None = None,
        target: str | Target = "attached",
        products: Collection[str] = (),
    ) -> CompileRequest:
        """What an engine is asked for; arguments as for `compile`.

        A target of another platform gets the program lowered for that, where the function is still there.

        Raises:
          LoweringError: it cannot be lowered for the target's platform.
          OptionError, UnknownFlagError, FlagTypeError: before any compiler sees them.
          TargetError: an unknown target.
        """
        checked = Options.of(options)
        checked.check()
        parsed = Target.parse(target)
        return CompileRequest(self.suited(parsed).program, checked, parsed, products_of(products))

    @needs_jax("Compiling")
    def suited(self, target: str | Target) -> Lowered:
        """This program lowered for a target's platform, and for its chip where Pallas kernels ask for it.

        Itself where that is so already, or where nobody can lower it again.
        """
        from inspector._jax.compiling.attached_devices import attached_platform

        parsed = Target.parse(target)
        if self.again is None:
            return self
        platform = parsed.platform or attached_platform()
        other_chip = bool(self.kernels) and parsed.chip not in ("", self.again.chip)
        if platform == self.program.platform and not other_chip:
            return self
        return self.again(platform, parsed.chip)

    def what_if(
        self,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str | int, int] | None = None,
        rematerialize: str | Sequence[str] = (),
    ) -> Lowered:
        """The same program of another call: what would it take if ...?

        Arguments are named by their paths, such as "x" or "params['w']"; "params" means all below it.

        Args:
          donate: arguments whose buffers the program may reuse.
          dtype: dtypes by argument; of several arrays those that are floating-point numbers get it.
          batch: lengths of the leading dimension by argument, such as `{"x": 32}`, or by the present length of all
            arrays that share it: `{4096: 32}` changes each array whose leading dimension is 4096.
          rematerialize: name scopes whose values are computed again for the backward pass in place of being kept, as
            `jax.checkpoint` around them does; "*" stands for anything in a name. A scope that is entered anew right after
            its end is taken for one: layers of a stack need names of their own.

        Raises:
          ParameterError: no such argument, dtype or scope; nothing of it is kept for a backward pass; or the function is gone.
          LoweringError: it cannot be lowered so.
        """
        again = self._again()
        lengths = batch_by_path(batch, ((a.path, a.shape) for a in self.inputs))
        supposed = WhatIf.of(donate=donate, dtype=dtype, batch=lengths, rematerialize=rematerialize)
        return again.lower(self.program.platform, again.chip, again.what_if.merge(supposed))

    def _again(self) -> Again:
        if self.again is None:
            raise ParameterError(
                f"{self.name} was given as it is, without its function, so it cannot be lowered for another call. Pass"
                " the function and its arguments."
            )
        return self.again

    @property
    def supposed(self) -> WhatIf:
        """What its call is supposed to be in place of what it is."""
        return AS_CALLED if self.again is None else self.again.what_if

    @needs_jax("Compiling")
    def compile(
        self,
        options: Options | Mapping[str, FlagValue] | str | None = None,
        target: str | Target = "attached",
        engine: EngineLike | None = None,
        products: Collection[str] = (),
        isolate: bool = False,
    ) -> Compiled:
        """Compiles and waits.

        Args:
          options: an `Options`, a dict of flags by name, or the text of an XLA_FLAGS variable.
          target: "attached" (this process's device), "cpu:N" (N virtual CPU devices), or devices that are not here,
            such as "tpu:v5e:2x4" or "gpu:h100:8" (see `inspector.targets()`).
          engine: who compiles: "worker" (a process of its own), "inline" (this process), "dask" or a Dask client, or
            an engine; None for the one that suits program and target, which remembers what it compiled.
          products: what to record besides: "passes" (what each compiler pass did), "assembly" (the
            back-end's code), "buffers" (the buffer assignment). The compile takes longer then.
          isolate: compile for an attached accelerator in a worker, ahead of time for that very chip, so that a flag that
            crashes the compiler costs only the worker; `run` then loads the result. Without the device at hand,
            XLA cannot autotune. CPU devices and devices that are not here are always compiled for like this.

        Raises:
          OptionError, TargetError: the request is wrong.
          ParameterError: an engine that is none; `isolate` is neither True nor False.
          CompilationError: XLA refused it.
          WorkerDiedError: XLA crashed; its worker is lost, nothing else.
        """
        from inspector.engines.choice import engine_for

        request = self.request(options, target, products)
        own = "worker" if check_bool("isolate", isolate) else None
        chosen = engine_for(engine or own, request.program, request.target)
        return Compiled.of(chosen.submit(request).result())

    @needs_jax("Compiling")
    def preview(
        self,
        options: Options | Mapping[str, FlagValue] | str | None = None,
        target: str | Target = "attached",
        engine: EngineLike | None = None,
    ) -> Preview:
        """What XLA's passes make of the program, without waiting for machine code: HLO, memory, cost.

        Code generation, most of a compile's time on a CPU, is then stopped where the engine can.

        Args:
          options: as for `compile`.
          target: as for `compile`.
          engine: as for `compile`.

        Raises:
          OptionError, TargetError: the request is wrong.
          CompilationError: XLA refused it, or crashed.
        """
        from inspector.engines.choice import engine_for

        request = self.request(options, target)
        job = engine_for(engine, request.program, request.target).submit(request)
        preview = job.preview(counted=True)
        job.cancel()
        return preview

    def __repr__(self) -> str:
        mesh = f", {self.program.mesh}" if self.program.mesh else ""
        return f"<Lowered {self.program.signature} for {self.program.platform}{mesh}>"


def check_lowered(given: object) -> None:
    """Refuses what is no `Lowered`, such as the function itself.

    Raises:
      ParameterError: with how one is made.
    """
    if not isinstance(given, Lowered):
        raise ParameterError(
            f"Expected a Lowered, got {given!r} ({type(given).__name__}). inspector.lower(fun, *args) makes one of a"
            " function and its arguments."
        )
