"""The injected work of an Explorer: how it lowers, compiles and runs without knowing who does."""

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
    """What an Explorer may ask for. All return at once but `lower`.

    Attributes:
      lower: a new lowering under an axis environment (pairs of name and size, none for the first one's) for a
        platform ("cpu", "tpu", "gpu").
      platform: what programs for a target are lowered for.
      submit: starts a compile.
      request: what `submit` is asked for; raises what is wrong with options and target.
      run: starts a measurement of a compiled program with so many executions.
      targets: the texts of the targets to offer.
      suit: the target itself, or one with the devices that a program needs; asked when a program
        that was lowered again keeps its targets.
      tune: as `lower`, with other compiler parameters for the program's Pallas kernels; None where there are none.
      kernel_fields: the compiler parameters that a kernel can have on a platform.
      portable: the modules of programs that were loaded, for other versions of JAX.
      retraces: hears why JAX traces again in this process; None where the function is not in it.
      observe: starts to run a program's function on its inputs, or on those plus each replica's number, to see what its
        collectives take and give; None where nobody can.
      scan: starts to try flags on a program, with what options hold besides; None where nobody can.
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
    """How long a scan may take in all, in seconds, and whether it compiles to machine code."""

    time_limit_s: float
    machine_code: bool


class FlagEffect(Protocol):
    """What a value of a flag did: `inspector.api.flag_effects.FlagEffect`."""

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
    """A scan under way: `inspector.api.flag_effects.ScanJob`."""

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
    """What a call has other than the one before: `inspector._jax.caches.retraces.Changed`."""

    @property
    def what(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def now(self) -> str: ...
    @property
    def before(self) -> str: ...


class Retrace(Protocol):
    """A call that JAX traced, or XLA compiled again: `inspector._jax.caches.retraces.Retrace`."""

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
    """Some of them, in order: `inspector._jax.caches.retraces.Retraces`."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Retrace]: ...
    def __getitem__(self, index: int, /) -> Retrace: ...
    def table(self) -> pd.DataFrame: ...


class RetraceWatch(Protocol):
    """Lists them while it is on: `inspector._jax.caches.retraces.RetraceWatch`."""

    @property
    def found(self) -> Retraces: ...
    @property
    def is_on(self) -> bool: ...
    def start(self, heard: Callable[[], None]) -> None: ...
    def stop(self) -> None: ...


class ObserveJob(Protocol):
    """An observation under way: `inspector.stages.observing.Observing`."""

    def cancel(self) -> None: ...
    def result(self) -> Observed: ...


class RunJob(Protocol):
    """A measurement under way."""

    @property
    def stage(self) -> str: ...
    @property
    def elapsed_s(self) -> float: ...
    def cancel(self) -> bool: ...
    def result(self) -> Run: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...
