"""`Work`, through which an Explorer lowers, compiles and runs. It is injected, so the Explorer does not depend on engines and lowering."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from inspector.errors import ExecutionError, ParameterError
from inspector.stages.lowered import compile_request

if TYPE_CHECKING:
    from inspector.analysis.findings.finding import Finding
    from inspector.analysis.profile.profile import Profile
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Engine, Job
    from inspector.compilation.options.options import FlagValue, Options
    from inspector.compilation.request import CompileRequest
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.errors import Unavailable
    from inspector.execution.collective_values import Observed
    from inspector.execution.run import Run
    from inspector.hlo.pallas import ParamField
    from inspector.reports.portable import PortableModules
    from inspector.stages.accuracy_result import Accuracy
    from inspector.stages.bisection.compile_time_result import CompileTime
    from inspector.stages.bisection.result import Bisection, Step
    from inspector.stages.bisection.sides import Side
    from inspector.stages.kernel import Kernel
    from inspector.stages.lowered import Lowered
    from inspector.stages.retraces import RetraceWatch

T_co = TypeVar("T_co", covariant=True)

Sides = tuple["Side", "Side"]
"""A good and a bad side of a bisection."""

Axes = Sequence[tuple[str, int]] | None
"""An axis environment as pairs of name and size, or None."""

_NO_SEARCH = "The exploration was loaded from a file, so its program cannot be bisected."
NO_FUNCTION = "The exploration was loaded from a file, without its function, so it cannot run again."


class Work(abc.ABC):
    """Lowers, compiles and runs for an Explorer. All methods return immediately, except `lower`."""

    @property
    @abc.abstractmethod
    def targets(self) -> Sequence[str]:
        """Texts of the targets to offer."""

    @property
    def portable(self) -> PortableModules:
        """The modules of loaded programs, for other versions of JAX."""
        return {}

    @property
    def retraces(self) -> RetraceWatch | None:
        """Watches why JAX traces again in this process; None if the function is not in it."""
        return None

    def watched_findings(self, lowered: Lowered | None) -> tuple[Finding, ...]:
        """Returns what calls of a program's function could avoid, as far as they were watched."""
        if self.retraces is None or lowered is None:
            return ()
        found = self.retraces.retraces.findings(lowered.program.name)
        return (*found.items, *found.folded)

    @abc.abstractmethod
    def lower(self, axes: Axes, platform: str, tuning: Tuning) -> Lowered:
        """Lowers the program, which runs user code.

        Args:
          axes: the axis environment; None for no axes.
          platform: "cpu", "tpu" or "gpu".
          tuning: changes to the program's Pallas kernels and its call.
        """

    @abc.abstractmethod
    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts a compile."""

    @abc.abstractmethod
    def run(self, compiled: CompiledProgram, repeat: int) -> RunJob:
        """Starts a measurement of a compiled program with a number of executions."""

    def run_in_turns(self, programs: Sequence[CompiledProgram], repeat: int) -> Sequence[RunJob]:
        """Starts a measurement of several compiled programs in turns, with at least so many executions of each."""
        return [self.run(each, repeat) for each in programs]

    def profile(self, compiled: CompiledProgram, repeat: int) -> ProfileJob:  # noqa: ARG002
        """Starts measuring the time of each kernel of a compiled program with a number of executions.

        Raises:
          ExecutionError: the program cannot be profiled.
        """
        raise ExecutionError("Programs cannot be profiled in this Explorer.")

    def engine_of_proofs(self, target: Target) -> Engine | None:  # noqa: ARG002
        """Returns the engine that compiles the changed programs of proofs for a target, which are not run then.

        None for the default engine, which also runs them on CPUs.
        """
        return None

    def request(self, lowered: Lowered, options: Options, target: Target) -> CompileRequest:
        """Returns the argument of `submit`; raises the errors of options and target."""
        return compile_request(lowered, options, target)

    def platform(self, target: Target) -> str:
        """Returns the platform that programs for a target are lowered for."""
        return target.platform or "cpu"

    def suit(self, lowered: Lowered, target: Target) -> Target:  # noqa: ARG002
        """Returns the target, or one with the devices that the program needs. Called when a program is lowered again for its targets."""
        return target

    def kernel_fields(self, kernel: Kernel, platform: str) -> Sequence[ParamField]:  # noqa: ARG002
        """Returns the compiler parameters that a kernel can have on a platform."""
        return ()

    def observe(self, lowered: Lowered, is_numbered: bool) -> ObserveJob:  # noqa: ARG002
        """Starts a run of a program's function on its inputs, to observe the inputs and outputs of its collectives.

        Args:
          lowered: the program.
          is_numbered: whether to add each replica's number to its inputs.

        Raises:
          ParameterError: the function is not in this process.
        """
        raise ParameterError(NO_FUNCTION)

    def accuracy(self, lowered: Lowered, variants: Sequence[tuple[Options, Target]]) -> AccuracyJob:  # noqa: ARG002
        """Starts measuring the errors of variants of a program against 64-bit values.

        Args:
          lowered: the program.
          variants: options and target of each variant, the baseline first.

        Raises:
          ParameterError: the function is not in this process.
        """
        raise ParameterError(NO_FUNCTION)

    def scan(self, lowered: Lowered, target: Target, options: Options, limits: ScanLimits) -> ScanJob:  # noqa: ARG002
        """Starts trying flags on a program, in addition to the given options.

        Raises:
          ExecutionError: the exploration was loaded from a file.
        """
        raise ExecutionError("The exploration was loaded from a file, so flags cannot be tried.")

    def bisect(self, lowered: Lowered, sides: Sides, by: str, time_limit_s: float) -> SearchJob[Bisection]:  # noqa: ARG002
        """Starts looking for the change that makes two compiles of a program differ, on the inputs of the call.

        Args:
          lowered: the program.
          sides: the side to compare with, and the side that differs.
          by: the quantity that differs.
          time_limit_s: time limit in seconds.

        Raises:
          ExecutionError: the exploration was loaded from a file.
        """
        raise ExecutionError(_NO_SEARCH)

    def compile_time(self, lowered: Lowered, side: Side, time_limit_s: float) -> SearchJob[CompileTime]:  # noqa: ARG002
        """Starts looking for the part of a program that makes its compile slow.

        Raises:
          ExecutionError: the exploration was loaded from a file.
        """
        raise ExecutionError(_NO_SEARCH)


@dataclasses.dataclass(frozen=True, slots=True)
class ScanLimits:
    """The time limit of a scan in seconds, and whether it compiles to machine code and measures the programs that differ."""

    time_limit_s: float
    machine_code: bool
    measure: bool = False


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


class ObserveJob(Protocol):
    """A running observation: `inspector.stages.observing.Observing`."""

    def cancel(self) -> None: ...
    def result(self) -> Observed: ...


class AccuracyJob(Protocol):
    """A running measurement of accuracy: `inspector.stages.accuracy.AccuracyMeasurement`."""

    def cancel(self) -> None: ...
    def errors(self) -> Accuracy: ...
    def result(self) -> Accuracy: ...


class SearchJob(Protocol[T_co]):
    """A running search: `inspector.api.bisection.jobs.SearchJob`."""

    @property
    def stage(self) -> str: ...
    @property
    def elapsed_s(self) -> float: ...
    @property
    def steps(self) -> Sequence[Step]: ...
    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def result(self) -> T_co: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...


class Measurement(Protocol[T_co]):
    """A running measurement."""

    @property
    def stage(self) -> str: ...
    @property
    def elapsed_s(self) -> float: ...
    def cancel(self) -> bool: ...
    def result(self) -> T_co: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...


if TYPE_CHECKING:
    RunJob = Measurement[Run]
    ProfileJob = Measurement[Profile]
