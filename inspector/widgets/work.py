"""The functions that an Explorer uses to lower, compile and run. They are injected, so the Explorer does not depend on their providers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from inspector.compilation.request import CompileRequest
from inspector.compilation.tuning import Tuning
from inspector.hlo.pallas import ParamField
from inspector.reports.portable import PortableModules
from inspector.stages.kernel import Kernel
from inspector.stages.lowered import compile_request

if TYPE_CHECKING:
    import pandas as pd

    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.compilation.options.options import FlagValue, Options
    from inspector.compilation.target import Target
    from inspector.errors import Unavailable
    from inspector.execution.collective_values import Observed
    from inspector.execution.run import Run
    from inspector.stages.lowered import Lowered


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """The services of an Explorer. All return immediately, except `lower` and `tune`.

    Attributes:
      lower: lowers with an axis environment (pairs of name and size, None for the original one) for a
        platform ("cpu", "tpu", "gpu").
      platform: returns the platform that programs for a target are lowered for.
      submit: starts a compile.
      request: returns the argument of `submit`; raises the errors of options and target.
      run: starts a measurement of a compiled program with a number of executions.
      targets: texts of the targets to offer.
      suit: returns the target itself, or one with the devices that a program needs; called when a program
        that was lowered again keeps its targets.
      tune: lowers like `lower`, with other compiler parameters for the program's Pallas kernels; None if there are none.
      kernel_fields: returns the compiler parameters that a kernel can have on a platform.
      portable: the modules of loaded programs, for other versions of JAX.
      retraces: watches why JAX traces again in this process; None if the function is not in it.
      observe: starts a run of a program's function on its inputs, optionally plus each replica's number, to observe the inputs
        and outputs of its collectives; None if this is not possible.
      scan: starts trying flags on a program, on top of the given options; None if this is not possible.
    """

    lower: Callable[[Sequence[tuple[str, int]] | None, str], Lowered]
    submit: Callable[[CompileRequest], Job[CompiledProgram]]
    run: Callable[[CompiledProgram, int], RunJob]
    targets: Sequence[str]
    platform: Callable[[Target], str] = lambda target: target.platform or "cpu"
    suit: Callable[[Lowered, Target], Target] = lambda _, target: target
    tune: Callable[[Sequence[tuple[str, int]] | None, str, Tuning], Lowered] | None = None
    kernel_fields: Callable[[Kernel, str], Sequence[ParamField]] = lambda *_: ()
    observe: Callable[[Lowered, bool], ObserveJob] | None = None
    scan: Callable[[Lowered, Target, Options, ScanLimits], ScanJob] | None = None
    retraces: RetraceWatch | None = None
    portable: PortableModules = dataclasses.field(default_factory=dict)
    request: Callable[[Lowered, Options, Target], CompileRequest] = lambda lowered, options, target: compile_request(
        lowered, options, target
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ScanLimits:
    """The time limit of a scan in seconds, and whether it compiles to machine code."""

    time_limit_s: float
    machine_code: bool


class FlagEffect(Protocol):
    """The effect of a flag's value: `inspector.api.flag_effects.FlagEffect`."""

    @property
    def flag(self) -> str: ...
    @property
    def value(self) -> FlagValue: ...
    @property
    def outcome(self) -> str: ...
    @property
    def headline(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def deltas(self) -> Mapping[str, float | Unavailable]: ...


class ScanJob(Protocol):
    """A running scan: `inspector.api.flag_effects.ScanJob`."""

    @property
    def stage(self) -> str: ...
    @property
    def elapsed_s(self) -> float: ...
    @property
    def total(self) -> int: ...
    @property
    def ranked(self) -> Sequence[FlagEffect]: ...
    @property
    def not_tried(self) -> Sequence[tuple[str, FlagValue]]: ...
    @property
    def left_out(self) -> Mapping[str, int]: ...
    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def resume(self) -> ScanJob: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...


class Change(Protocol):
    """A difference between a call and the one before: `inspector._jax.caches.retraces.Changed`."""

    @property
    def what(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def now(self) -> str: ...
    @property
    def before(self) -> str: ...


class Retrace(Protocol):
    """A call that JAX traced again or XLA compiled again: `inspector._jax.caches.retraces.Retrace`."""

    @property
    def fun_name(self) -> str: ...
    @property
    def defined_at(self) -> str: ...
    @property
    def called_at(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def changes(self) -> Sequence[Change]: ...
    @property
    def explanation(self) -> str: ...
    @property
    def event(self) -> str: ...


class Retraces(Protocol):
    """A sequence of retraces, in order: `inspector._jax.caches.retraces.Retraces`."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Retrace]: ...
    def __getitem__(self, index: int, /) -> Retrace: ...
    def table(self) -> pd.DataFrame: ...


class RetraceWatch(Protocol):
    """Collects retraces while it is on: `inspector._jax.caches.retraces.RetraceWatch`."""

    @property
    def found(self) -> Retraces: ...
    @property
    def is_on(self) -> bool: ...
    def start(self, heard: Callable[[], None]) -> None: ...
    def stop(self) -> None: ...


class ObserveJob(Protocol):
    """A running observation: `inspector.stages.observing.Observing`."""

    def cancel(self) -> None: ...
    def result(self) -> Observed: ...


class RunJob(Protocol):
    """A running measurement."""

    @property
    def stage(self) -> str: ...
    @property
    def elapsed_s(self) -> float: ...
    def cancel(self) -> bool: ...
    def result(self) -> Run: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...
