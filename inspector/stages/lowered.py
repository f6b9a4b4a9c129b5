"""`Lowered`: a traced and lowered function that XLA has not compiled yet. A frozen value of text, bytes and numbers.

Made by `lowering/`. Engines receive `Lowered.program`; analyses read its HLO and listings. Loads where JAX is not
installed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from inspector import platforms
from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.cost.line_costs import NO_PROFILE, OPTIMIZED, LineCosts, line_costs
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
from inspector.compilation.what_if import AS_CALLED, WhatIf
from inspector.errors import (
    CompilationError,
    ModuleError,
    ParameterError,
    Unavailable,
    WorkerDiedError,
    check_bool,
    needs_jax,
)
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.reading.module_cache import shared_cache
from inspector.hlo.source import Root
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled, as_compiled, whole_program
from inspector.stages.kernel import Kernel
from inspector.support.cross_process import TRAVELS, Portable
from inspector.support.deferred import Deferred
from inspector.support.notebook import described, short, with_hint

if TYPE_CHECKING:
    import graphviz

    from inspector._jax.lowering.observing import Logged
    from inspector._jax.lowering.reevaluation import Description, Reevaluation
    from inspector.analysis.profile.profile import Profile
    from inspector.execution.collective_values import Observed
    from inspector.stages.observing import Observing


_SHOWN = 20  # arguments and results of a program in a notebook


def _shape_text(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Relowering:
    """Lowers a function again for another platform or another call, in the process that has the function.

    Attributes:
      lower: lowers for a platform and a chip ("" for the platform's default chip).
      evaluate: lowers another evaluation of the function for a platform, such as one that also returns the values of its
        collectives, and returns a description of the further results.
      chip: the chip that Pallas kernels were lowered for.
      what_if: changes of the call that `Lowered.what_if` made.
    """

    lower: Callable[[str, str, WhatIf], Lowered]
    evaluate: Callable[[str, Reevaluation], tuple[Lowered, Description]]
    chip: str
    what_if: WhatIf = AS_CALLED
    _done: dict[tuple[str, str], Lowered] = dataclasses.field(default_factory=dict)

    def __call__(self, platform: str, chip: str) -> Lowered:
        """Returns the program lowered for a platform; the same value for the same arguments."""
        key = (platform, chip)
        if key not in self._done:
            self._done[key] = self.lower(platform, chip, self.what_if)
        return self._done[key]


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Lowered(Deferred, Portable):
    """A lowered function. Its texts and `hlo_proto` are made on first access.

    Attributes:
      program: the module with its arguments and results: the part that engines compile.
      source: the user's Python source of the module.
      jaxpr_listing: the jaxpr with the origin of each line.
      stablehlo_listing: StableHLO with the origin of each line, without long constants; Unavailable for HLO that has none.
      hlo: HLO before optimization, with metadata; for a program that was opened after its compile, the module that was opened.
        Unavailable for StableHLO that XLA cannot convert to HLO.
      hlo_proto: the same module as a serialized `xla.HloModuleProto`.
      root: the frame of the Python stack where the program begins. Listings omit the frames above it.
      out_shape: the result's pytree with shapes and dtypes as leaves, or None for a module without one. It contains the user's
        own containers, so it is neither pickled nor compared.
      kernels: the Pallas kernels, in program order; empty for a program without a jaxpr.
      notes: remarks on the lowering, such as non-array arguments and their values, which are part of the program.
      timings: seconds by step: `trace_s` (function to jaxpr) and `lower_s` (jaxpr to StableHLO); steps that were not done
        are missing.
    """

    program: Program
    source: Listing | Unavailable
    jaxpr_listing: Listing | Unavailable
    stablehlo_listing: Listing | Unavailable
    hlo: str | Unavailable
    hlo_proto: bytes = dataclasses.field(compare=False, metadata=TRAVELS)  # XLA renumbers instructions each time
    root: Root = dataclasses.field(default_factory=Root)
    out_shape: Any = dataclasses.field(default=None, compare=False, repr=False)
    kernels: tuple[Kernel, ...] = ()
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = dataclasses.field(default_factory=dict, compare=False, repr=False, metadata=TRAVELS)
    _again: Relowering | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The module's name."""
        return self.program.name

    @property
    def jaxpr(self) -> str | Unavailable:
        """The text of the jaxpr."""
        return self.jaxpr_listing if isinstance(self.jaxpr_listing, Unavailable) else self.jaxpr_listing.text

    @property
    @needs_jax("The StableHLO text of a module")
    def stablehlo(self) -> str | Unavailable:
        """The complete StableHLO module as MLIR text, including all constants; Unavailable for HLO that has none."""
        if self.program.no_stablehlo is not None:
            return self.program.no_stablehlo
        from inspector._jax.modules import isolated_reading

        return isolated_reading.full_text(self.program.module)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The array arguments of the program."""
        return self.program.arguments

    @property
    def outputs(self) -> tuple[Result, ...]:
        """The array results of the program."""
        return self.program.results

    @property
    def axis_env(self) -> Mesh | None:
        """The axis environment as a mesh, or None."""
        mesh = self.program.mesh
        return mesh if mesh is not None and mesh.kind == "replica" else None

    @property
    @needs_jax("An XlaComputation")
    def computation(self) -> Any:
        """The module as jaxlib's `XlaComputation`, with `as_hlo_text()`, `as_serialized_hlo_module_proto()` and so on."""
        from inspector._jax.modules import hlo

        return hlo.computation_from_proto(self.hlo_proto)

    def module(self) -> Module:
        """Returns the HLO before optimization as a `Module`: computations, instructions, shapes. Parsed once while memory allows.

        Raises:
          ModuleError: XLA cannot convert its StableHLO to HLO.
        """
        if self.program.no_hlo is not None:
            raise ModuleError(f"{self.name} has no HLO: {self.program.no_hlo.reason}")
        return shared_cache.module(self, self.hlo_proto)

    @needs_jax("XLA's graph")
    def dot(self) -> str:
        """Returns XLA's own graph of the HLO as DOT text. `graph` returns one that a notebook draws."""
        from inspector._jax.modules import hlo

        return hlo.hlo_dot(self.hlo_proto)

    def graph(
        self, mode: Literal["auto", "whole", "scopes", "around"] = "auto", selection: str | None = None
    ) -> graphviz.Source:
        """Returns the HLO as a graph that a notebook draws; arguments as for `Compiled.graph`."""
        return graph(self.module(), mode, selection).source

    def explain(
        self, error: BaseException | str, target: str | Target = "attached"
    ) -> MemoryOverflow | KernelRefused | Unavailable:
        """Explains why a TPU compiler rejected the program or one of its Pallas kernels, with figures and remedies.

        For a program that exceeds the device's memory, `MemoryOverflow.timeline` shows the contents of the memory over time.

        Args:
          error: the exception that `compile` raised, or its text.
          target: the target of that compile. Determines the memory size.

        Returns:
          A `MemoryOverflow` or `KernelRefused`; Unavailable for any other error.
        """
        explanation = explain(str(error))
        if explanation is None:
            return Unavailable("it is not a TPU compiler error that contains figures", "read the error's own text")
        if not isinstance(explanation, MemoryOverflow):
            return explanation
        parsed = Target.parse(target)
        if explanation.is_of_program and isinstance(error, (CompilationError, WorkerDiedError)):
            explanation = dataclasses.replace(explanation, timeline=timeline_until(self, error, parsed, "tpu"))
        return dataclasses.replace(
            explanation, advice=advice(explanation, self.kernels, parsed.chip, self.program.arguments)
        )

    def collectives(self) -> Collectives:
        """Returns the collectives of the HLO with their replica groups and mesh axes."""
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
        """Runs the function and returns the values that enter and leave each collective on every device.

        The function is traced again with the values of its collectives as further results, also inside loops, branches and
        `shard_map`, and runs once on virtual CPU devices in another process. The function itself is not changed. Collectives
        that the partitioner inserts are not observed.

        Args:
          args: the function's arguments, as for `Compiled.run`; without any, inputs are generated.
          executions: number of loop iterations to keep for a collective in a loop, from the first on; fewer if they exceed 256 MiB
            together. If a single one exceeds it, none is kept, and the result states it.
          kwargs: the function's keyword arguments.

        Raises:
          ParameterError: the function calls no collective or is not available; or it needs more than 256 devices.
          ExecutionError: arguments that the program does not accept, or a failure at run time.
        """
        return begin_observing(self, *args, executions=executions, **kwargs).result()

    def shardings(self, compiled: Compiled) -> Shardings:
        """Returns the shardings of arguments, results and intermediate values over the devices.

        Args:
          compiled: the compiled program. XLA chooses the shardings that the user left open.
        """
        return shardings(compiled, self.module(), whole_program(compiled))

    def line_costs(self, compiled: Compiled, peak: Peak | None = None, profile: Profile | None = None) -> LineCosts:
        """Returns the cost of each line of source, jaxpr, StableHLO, HLO and optimized HLO.

        Args:
          compiled: the compiled program. With recorded buffers, the memory at the peak is included.
          peak: the roofs for the estimated times; None for the published ones of the target.
          profile: measured times of the compiled program, as from `Compiled.profile`; None for costs without them.
        """
        measured = NO_PROFILE if profile is None else profile
        return line_costs_under(self, compiled.roofline(peak), compiled, compiled.timeline(), measured)

    def what_if(
        self,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str | int, int] | None = None,
        shape: Mapping[str | int, Sequence[int | None] | int] | None = None,
        rematerialize: str | Sequence[str] = (),
        checkpoint: str = "",
    ) -> Lowered:
        """Returns the program lowered for a changed call.

        Arguments are named by path, e.g. "x" or "params['w']"; "params" means every array below it.

        Args:
          donate: arguments whose buffers the program may reuse.
          dtype: dtypes by argument. A name that means several arrays changes the floating-point ones.
          batch: leading dimensions by argument, e.g. `{"x": 32}`, or by the present leading dimension: `{4096: 32}` changes
            every array whose leading dimension is 4096.
          shape: lengths of the dimensions by argument, None to keep one, e.g. `{"w": (None, 128)}`; or by the current length, for all
            dimensions of all arrays that have it: `{50257: 50304}` pads a vocabulary.
          rematerialize: name scopes whose values are recomputed in the backward pass instead of saved, as with `jax.checkpoint`
            around them; "*" matches any part of a name. A scope that is entered again directly after its end counts as one
            scope, so the layers of a stack need names of their own.
          checkpoint: "none" removes every `jax.checkpoint`; "loops" puts one around the body of every `jax.lax.scan`, "segments"
            around segments of long ones; the name of a
            policy in `jax.checkpoint_policies`, such as "dots_saveable", gives it to every checkpoint.

        Raises:
          ParameterError: an unknown argument, length, dtype or scope; a scope without saved values; or the function is not available.
          LoweringError: the changed call cannot be lowered.
        """
        again = required_relowering(self)
        supposed = WhatIf.of(
            donate=donate, dtype=dtype, batch=batch, rematerialize=rematerialize, checkpoint=checkpoint, shape=shape,
            arrays=[(each.path, each.shape) for each in self.inputs],
        )  # fmt: skip
        return again.lower(self.program.platform, again.chip, again.what_if.merge(supposed))

    @needs_jax("Compiling")
    def compile(
        self,
        options: Options | Mapping[str, FlagValue] | str | None = None,
        target: str | Target = "attached",
        engine: EngineLike | None = None,
        products: Collection[str] = (),
        isolate: bool = False,
    ) -> Compiled:
        """Compiles the program and waits for the result.

        Args:
          options: an `Options`, a dict of flags by name, or text in the form of XLA_FLAGS.
          target: "attached" (this process's device), "cpu:N" (N virtual CPU devices), or a target that need not be attached, e.g.
            "tpu:v5e:2x4" or "gpu:h100:8" (see `inspector.targets()`).
          engine: "worker" (a separate process), "inline" (this process), "dask", a Dask client or an engine object; None for the
            default engine of the program and target, which caches results.
          products: additional recordings: "passes" (the module after each compiler pass), "assembly" (machine code at each stage),
            "buffers" (the buffer assignment). They make the compile slower.
          isolate: compile for an attached accelerator in a worker process, ahead of time for that chip, so that a flag that
            crashes the compiler ends only the worker; `run` then loads the result. XLA cannot autotune this way. CPU targets and
            targets that are not attached always compile like this.

        Raises:
          OptionError, TargetError: an invalid option or target.
          ParameterError: an unknown engine, or an `isolate` that is not a bool.
          CompilationError: XLA rejected the program.
          WorkerDiedError: XLA crashed and its worker process ended. Nothing else was lost.
        """
        from inspector.engines.choice import engine_for

        request = compile_request(self, options, target, products)
        own = "worker" if check_bool("isolate", isolate) else None
        chosen = engine_for(engine or own, request.program, request.target)
        return as_compiled(chosen.submit(request).result())

    @needs_jax("Compiling")
    def preview(
        self,
        options: Options | Mapping[str, FlagValue] | str | None = None,
        target: str | Target = "attached",
        engine: EngineLike | None = None,
    ) -> Preview:
        """Returns the optimized HLO with memory and cost, without waiting for machine code.

        Where the engine can, code generation is then stopped. On a CPU it is most of the compile time.

        Args:
          options: as for `compile`.
          target: as for `compile`.
          engine: as for `compile`.

        Raises:
          OptionError, TargetError: an invalid option or target.
          CompilationError: XLA rejected the program.
          WorkerDiedError: XLA crashed.
        """
        from inspector.engines.choice import engine_for

        request = compile_request(self, options, target)
        job = engine_for(engine, request.program, request.target).submit(request)
        preview = job.preview(counted=True)
        job.cancel()
        return preview

    def __repr__(self) -> str:
        mesh = f", {self.program.mesh}" if self.program.mesh else ""
        text = f"<Lowered {self.program.signature} for {self.program.platform}{mesh}>"
        return with_hint(text, ".compile(), .jaxpr, .stablehlo, .hlo, .collectives()")

    def _repr_html_(self) -> str:
        facts = {
            **{argument.path: _shape_text(argument.dtype, argument.shape) for argument in self.inputs[:_SHOWN]},
            **{f"result {i}": _shape_text(each.dtype, each.shape) for i, each in enumerate(self.outputs[:_SHOWN])},
            **{f"note {i}": note for i, note in enumerate(self.notes, 1)},
        }
        return described(repr(self), facts)


def check_lowered(value: object) -> None:
    """Raises an error for a value that is not a `Lowered`, such as the function itself.

    Raises:
      ParameterError: the value, and how to make a `Lowered`.
    """
    if not isinstance(value, Lowered):
        raise ParameterError(
            f"Expected a Lowered, got {short(value)} ({type(value).__name__}). Create one with inspector.lower(fun, *args)."
        )


def relowering_of(lowered: Lowered) -> Relowering | None:
    """Returns the means to lower a program again, or None where its function is not available."""
    return lowered._again  # noqa: SLF001  # kept out of the public surface of Lowered


def compile_request(
    lowered: Lowered,
    options: Options | Mapping[str, FlagValue] | str | None = None,
    target: str | Target = "attached",
    products: Collection[str] = (),
) -> CompileRequest:
    """Returns the request that compiles a program; arguments as for `Lowered.compile`.

    For a target of another platform the program is lowered again, where its function is available.

    Raises:
      LoweringError: the program cannot be lowered for the target's platform.
      OptionError, UnknownFlagError, FlagTypeError: an invalid option.
      TargetError: an unknown target.
      ModuleError: the program has no StableHLO.
    """
    checked = Options.of(options)
    checked.check()
    parsed = Target.parse(target)
    program = lowered_for(lowered, parsed).program
    program.check_compilable()
    return CompileRequest(program, checked, parsed, products_of(products))


@needs_jax("Compiling")
def lowered_for(lowered: Lowered, target: str | Target) -> Lowered:
    """Returns the program lowered for a target's platform, and for its chip if it calls Pallas kernels.

    Returns the same value if it is lowered for that platform already, or if its function is not available.
    """
    from inspector._jax.compiling.attached_devices import attached_platform

    parsed, again = Target.parse(target), relowering_of(lowered)
    if again is None:
        return lowered
    platform = parsed.platform or attached_platform()
    other_chip = bool(lowered.kernels) and parsed.chip not in ("", again.chip)
    if platform == lowered.program.platform and not other_chip:
        return lowered
    return again(platform, parsed.chip)


def what_if_of(lowered: Lowered) -> WhatIf:
    """Returns the changes of the call that `Lowered.what_if` made; `AS_CALLED` for none."""
    again = relowering_of(lowered)
    return AS_CALLED if again is None else again.what_if


def timeline_until(
    lowered: Lowered, error: CompilationError | WorkerDiedError, target: Target, platform: str = ""
) -> Timeline | Unavailable:
    """Returns the memory timeline of a compile that failed after XLA had assigned the buffers.

    Args:
      lowered: the program.
      error: the error of the compile.
      target: its target.
      platform: the platform of the compiler; "" for the target's.
    """
    if not error.buffers:
        return NOT_ASSIGNED
    names = platforms.named(platform or target.platform or lowered.program.platform).name
    try:
        return timeline(Buffers.from_bytes(error.buffers).hlo_proto, names, peak_of(target))
    except ModuleError as unreadable:
        return Unavailable(str(unreadable))


@needs_jax("Observing a program")
def begin_observing(lowered: Lowered, *args: Any, executions: int = 16, **kwargs: Any) -> Observing:
    """Starts `Lowered.observe` and returns the run: `result()` waits for it, `cancel()` from another thread stops it."""
    from inspector.stages import observing

    limits = observing.limits(lowered.program, executions)
    logging, described = required_relowering(lowered).evaluate("cpu", limits)
    logged = cast("tuple[Logged, ...]", described)
    request = compile_request(logging, target=observing.target_of(logging.program, logged))
    return observing.Observing(request, logged, lowered.collectives(), args, kwargs)


def line_costs_under(
    lowered: Lowered,
    roofline: Roofline,
    compiled: Compiled,
    timeline: Timeline | Unavailable,
    profile: Profile | Unavailable,
) -> LineCosts:
    """Returns `Lowered.line_costs` for a known roofline, memory timeline and profile."""
    module = compiled.module()
    texts: dict[str, Listing | Unavailable] = {
        "source": lowered.source,
        "jaxpr": lowered.jaxpr_listing,
        "stablehlo": lowered.stablehlo_listing,
        "hlo": lowered.hlo
        if isinstance(lowered.hlo, Unavailable)
        else hlo_listing(lowered.hlo, lowered.module(), lowered.root),
        OPTIMIZED: hlo_listing(compiled.hlo, module, lowered.root),
    }
    listings = {name: text for name, text in texts.items() if not isinstance(text, Unavailable)}
    return line_costs(module, listings, roofline, timeline, profile)


def required_relowering(lowered: Lowered) -> Relowering:
    """Returns the means to lower a program again.

    Raises:
      ParameterError: its function is not available.
    """
    again = relowering_of(lowered)
    if again is None:
        raise ParameterError(
            f"{lowered.name} was loaded without its function, so it cannot be lowered again. Pass the function"
            " and its arguments."
        )
    return again
