"""`accuracy`: the errors of a program's variants against a reference with 64-bit values, and where they begin.

The reference is the traced function with every floating-point value widened (`_jax/lowering/widening.py`), compiled without
fast math and run on CPUs in another process.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.errors import (
    CancelledError,
    ExecutionError,
    InspectorError,
    ParameterError,
    Unavailable,
    check_bool,
    needs_jax,
)
from inspector.execution.inputs import Input, given_inputs, made_inputs
from inspector.execution.output_error import OutputError, Tolerance, output_error, scale_of
from inspector.execution.run import start
from inspector.hlo.source import Frame, own_line
from inspector.stages.accuracy_result import Accuracy, NotWidened, OutputAccuracy, VariantAccuracy
from inspector.stages.departure import Departure, departure, difference_under_options
from inspector.stages.lowered import Lowered, check_lowered, compile_request, required_relowering
from inspector.stages.variant_forms import OptionsLike, variants_of
from inspector.support.units import format_list

if TYPE_CHECKING:
    from inspector._jax.lowering.equation_log import EquationLog
    from inspector._jax.lowering.widening import Narrow

T = TypeVar("T")

BASELINE = "baseline"
"""Name of the variant that the others are compared with."""

_MOST_DEVICES = 256
_NAMED = 3
_STRICT = Options.of({"xla_cpu_enable_fast_math": False})
_NOT_NEEDED = Unavailable("the variant is correct, and at least as accurate as the baseline")
_SEARCHED = Unavailable("its search has not ended")
_NOT_LOCATED = Unavailable("the search was switched off", "pass locate=True")


@needs_jax("Measuring accuracy")
def accuracy(
    lowered: Lowered,
    *args: Any,
    variants: Iterable[OptionsLike | Target] | OptionsLike | Target = (),
    target: str | Target = "attached",
    options: OptionsLike = None,
    rtol: float | None = None,
    atol: float | None = None,
    locate: bool = True,
    engine: EngineLike | None = None,
    **kwargs: Any,
) -> Accuracy:
    """Measures the error of a program's variants against a reference in which every floating-point value has 64 bits.

    The reference is the same function with every float widened to float64 and every complex number to complex128, also inside
    loops, branches and `shard_map`, and with casts to narrower types left out. Integers, booleans and random bits are the same.
    It runs on virtual CPU devices in another process, unless the function calls back into this one. Operations without a wider form, such as Pallas kernels and custom
    calls, are computed at their own width and listed in the result.

    Args:
      lowered: the program, from `inspector.lower(fun, *args)`.
      args: the function's arguments, as for `Compiled.run`; without any, inputs are generated.
      variants: variants of the baseline, one or a list: options or targets, as for `explore(compare=...)`, but not of another JAX,
        which only an Explorer runs. Each is compiled for
        the baseline's target, or without options for its own target.
      target: the target of the baseline.
      options: the options of the baseline.
      rtol: the relative tolerance of NumPy's `allclose` beyond which a result is wrong; None for the default of its type
        (docs/accuracy.md).
      atol: the absolute tolerance; None for `rtol` times the root mean square of the output.
      locate: whether to search for the line whose value departs from the reference, for variants that are wrong or less accurate.
        Such a search compiles a larger program with the variant's options, which returns the errors of all equations. That can
        change fusions, and with them the error.
      engine: the engine of the variants, as for `Lowered.compile`.
      kwargs: the function's keyword arguments. Names of parameters of `accuracy` cannot be passed.

    Returns:
      The `Accuracy`, the baseline first. A variant that could not be compiled or run has the reason instead of errors.

    Raises:
      ParameterError: the function is not available, an invalid tolerance, or more than 256 devices.
      OptionError, TargetError: an invalid option or target.
      ExecutionError: arguments that the program does not accept; or it calls back into this process, which uses an accelerator.
    """
    return begin_accuracy(
        lowered, args, kwargs, variants, target, options, rtol=rtol, atol=atol, locate=locate, engine=engine
    ).result()


def begin_accuracy(
    lowered: Lowered,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    variants: Iterable[OptionsLike | Target] | OptionsLike | Target = (),
    target: str | Target = "attached",
    options: OptionsLike = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    locate: bool = True,
    engine: EngineLike | None = None,
) -> AccuracyMeasurement:
    """Starts `accuracy` and returns the measurement: `result()` waits for it, `cancel()` from another thread stops it."""
    check_lowered(lowered)
    tolerance = Tolerance(rtol, atol)
    requests = {BASELINE: compile_request(lowered, options, target)}
    for its_options, its_target in variants_of(variants, target):
        request = compile_request(lowered, its_options, target if its_target is None else its_target)
        name = " ".join(filter(None, ("" if its_options is None else str(request.options), str(its_target or ""))))
        requests.setdefault(name or "defaults", request)
    return AccuracyMeasurement(
        lowered, requests, (args, kwargs or {}), tolerance, lambda request: _engine(request, engine),
        locate=check_bool("locate", locate),
    )  # fmt: skip


EngineOf = Callable[[CompileRequest], Engine]


@dataclasses.dataclass(frozen=True, slots=True)
class _Outputs:
    """The outputs of a run, on one device kind."""

    arrays: tuple[np.ndarray, ...]
    device_kind: str


class AccuracyMeasurement:
    """The compiles and runs of an accuracy measurement. Any thread may cancel it."""

    def __init__(
        self,
        lowered: Lowered,
        requests: Mapping[str, CompileRequest],
        call: tuple[Sequence[Any], Mapping[str, Any]],
        tolerance: Tolerance,
        engine_of: EngineOf,
        *,
        locate: bool,
    ) -> None:
        """Lowers the reference and starts the compiles.

        Args:
          lowered: the program.
          requests: the compile request of each variant by name, the baseline first.
          call: positional and keyword arguments.
          tolerance: the tolerance of correct results.
          engine_of: returns the engine of a variant.
          locate: whether to search for the lines of errors.
        """
        from inspector._jax.lowering.reevaluation import Width

        self._lowered, self._requests, self._tolerance, self._engine_of = lowered, requests, tolerance, engine_of
        self._is_locating = locate
        self._measured: Accuracy | None = None
        self._lock, self._is_cancelled, self._jobs = threading.Lock(), False, list[_Stoppable]()
        self._inputs = _all_inputs(requests[BASELINE].program, *call)
        self._inputs_scale = max((scale_of(each.value) for each in self._inputs), default=0.0)
        reference, described = required_relowering(lowered).evaluate("cpu", Width.WIDE)
        self._narrow = cast("tuple[Narrow, ...]", described)
        self._reference = CompileRequest(reference.program, _STRICT, _cpu_target(reference.program))
        self._compiles = {name: self._submitted(request, engine_of) for name, request in requests.items()}
        self._reference_job = self._submitted(self._reference, _engine)

    def cancel(self) -> None:
        """Cancels the compiles and the run. `result` then raises a CancelledError."""
        with self._lock:
            self._is_cancelled = True
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel()

    def result(self) -> Accuracy:
        """Waits for the compiles, runs the programs, searches the lines of errors, and returns both."""
        measured = self.errors()
        variants = [
            dataclasses.replace(each, departure=self._departure(self._requests[each.name], each.outputs))
            for each in measured
        ]
        return dataclasses.replace(measured, variants=tuple(variants))

    def errors(self) -> Accuracy:
        """Waits for the compiles, runs the programs and returns their errors without the lines, whose search takes longer."""
        if self._measured is None:
            self._measured = self._errors_of_all()
        return self._measured

    def _errors_of_all(self) -> Accuracy:
        exact = self._run(self._reference_job.result(), self._reference, _engine)
        runs = {name: self._tried(name) for name in self._requests}
        errors = {name: self._errors(run, exact) for name, run in runs.items()}
        baseline = errors[BASELINE]
        found = []
        for name, request in self._requests.items():
            run, own = runs[name], errors[name]
            outputs = own if isinstance(own, Unavailable) else _judged(own, baseline)
            found.append(
                VariantAccuracy(
                    name=name,
                    options=str(request.options),
                    target=str(request.target),
                    device_kind=run if isinstance(run, Unavailable) else run.device_kind,
                    outputs=outputs,
                    departure=_SEARCHED,
                )
            )
        return Accuracy(
            program=self._lowered.name,
            variants=tuple(found),
            narrow=tuple(map(_not_widened, self._narrow)),
            notes=self._notes(exact, baseline),
        )

    def _notes(self, exact: _Outputs, baseline: tuple[OutputError, ...] | Unavailable) -> tuple[str, ...]:
        made = sum(each.made for each in self._inputs)
        notes = [f"{made} of {len(self._inputs)} inputs are generated"] if made else []
        types = {result.dtype for result in self._lowered.outputs}
        if types & {"float64", "complex128"}:
            notes.append("results in 64 bits are compared with a reference of the same width")
        if not isinstance(baseline, Unavailable) and (zeros := [each.path for each in baseline if each.is_zero]):
            listed = format_list([f"result{path}" for path in zeros], _NAMED)
            notes.append(f"0 up to rounding, so that the errors are relative to the inputs: {listed}")
        if not isinstance(baseline, Unavailable) and (under := [each for each in baseline if each.underflows]):
            listed = format_list([f"result{each.path} ({each.dtype})" for each in under], _NAMED)
            notes.append(f"0 by underflow: the exact values are below the smallest normal number of the type: {listed}")
        results = zip(self._requests[BASELINE].program.results, exact.arrays, strict=True)
        if odd := [
            f"result{each.path}" for each, array in results if array.dtype.kind in "fc" and np.isnan(array).any()
        ]:
            notes.append(f"NaN also with 64 bits: {format_list(odd, _NAMED)}")
        if not any(array.dtype.kind in "fc" for array in exact.arrays):
            notes.append("the program has no floating-point results")
        return tuple(notes)

    def _submitted(self, request: CompileRequest, engine_of: EngineOf) -> Job[CompiledProgram]:
        try:
            job = engine_of(request).submit(request)
        except InspectorError as error:  # the other variants are measured
            job = Job()
            job.fail(error)
        return self._known(job)

    def _known(self, job: Job[T]) -> Job[T]:
        with self._lock:
            if self._is_cancelled:
                job.cancel()
                raise CancelledError("The measurement was canceled.")
            self._jobs.append(job)
        return job

    def _tried(self, name: str) -> _Outputs | Unavailable:
        try:
            return self._run(self._compiles[name].result(), self._requests[name], self._engine_of)
        except CancelledError:
            raise
        except InspectorError as error:
            return Unavailable(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def _run(self, compiled: CompiledProgram, request: CompileRequest, engine_of: EngineOf) -> _Outputs:
        arguments = zip(request.program.arguments, self._inputs, strict=True)
        inputs = [given for argument, given in arguments if argument.parameter is not None]
        reply = self._known(start(compiled, inputs, engine_of(request), repeat=1, warmup=0)).result()
        return _Outputs(tuple(map(np.asarray, reply.outputs)), reply.device_kind)

    def _errors(self, run: _Outputs | Unavailable, exact: _Outputs) -> tuple[OutputError, ...] | Unavailable:
        if isinstance(run, Unavailable):
            return run
        triples = zip(self._requests[BASELINE].program.results, run.arrays, exact.arrays, strict=True)
        return tuple(
            output_error(result.path, own, other, self._tolerance, self._inputs_scale) for result, own, other in triples
        )

    def _departure(
        self, request: CompileRequest, outputs: tuple[OutputAccuracy, ...] | Unavailable
    ) -> Departure | Unavailable:
        if isinstance(outputs, Unavailable):
            return outputs
        worst = [each for each in outputs if each.verdict in ("wrong", "less accurate")]
        if not worst:
            return _NOT_NEEDED
        if not self._is_locating:
            return _NOT_LOCATED
        epsilon = min((each.error.epsilon for each in worst if each.error.epsilon), default=np.finfo(np.float32).eps)
        try:
            return self._located(request, float(epsilon))
        except CancelledError:
            raise
        except InspectorError as error:
            return Unavailable(f"its line is not known: {str(error).partition(chr(10))[0]}")

    def _located(self, request: CompileRequest, epsilon: float) -> Departure | Unavailable:
        log, numbers = self._equations(request)
        found = departure(log, numbers, epsilon)
        baseline = self._requests[BASELINE]
        is_other = request.options != baseline.options and request.target == baseline.target
        if isinstance(found, Departure) or not is_other:
            return found
        under = difference_under_options(log, numbers, self._equations(baseline)[1])
        return under if isinstance(under, Departure) else found

    def _equations(self, request: CompileRequest) -> tuple[EquationLog, np.ndarray]:
        """Returns the equations, and their statistics under the options of a request."""
        from inspector._jax.lowering.equation_errors import worst_of_replicas
        from inspector._jax.lowering.reevaluation import Width

        measured, described = required_relowering(self._lowered).evaluate(request.program.platform, Width.BOTH)
        inner = CompileRequest(measured.program, request.options, request.target)
        run = self._run(self._submitted(inner, self._engine_of).result(), inner, self._engine_of)
        (numbers,) = run.arrays
        log = cast("EquationLog", described)
        return log, worst_of_replicas(log, numbers) if numbers.ndim > 1 else numbers


class _Stoppable(Protocol):
    def cancel(self) -> object:
        """Cancels a job."""
        ...


def _engine(request: CompileRequest, engine: EngineLike | None = None) -> Engine:
    from inspector.engines.choice import engine_for

    return engine_for(engine, request.program, request.target)


def _all_inputs(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Input, ...]:
    """Returns the input of every argument, including those that the lowering dropped: the reference may use them."""
    arguments = tuple(dataclasses.replace(each, parameter=index) for index, each in enumerate(program.arguments))
    whole = dataclasses.replace(program, arguments=arguments)
    if not args and not kwargs:
        return made_inputs(whole)
    return given_inputs(whole, args, kwargs, program.options.num_replicas or 1)


def _cpu_target(program: Program) -> Target:
    """Returns the target of the reference.

    Raises:
      ParameterError: too many devices.
      ExecutionError: the program calls back into this process, which uses an accelerator.
    """
    if program.host_callbacks:  # only this process has the functions
        from inspector._jax.compiling.attached_devices import attached_platform

        if attached_platform() != "cpu":
            raise ExecutionError(
                f"{program.name} calls back into this process (io_callback, pure_callback), so its reference must run here, but"
                f" this process uses a {attached_platform()}. Remove the callbacks, or start Python with JAX_PLATFORMS=cpu."
            )
        return Target.parse("attached")
    if program.device_count > _MOST_DEVICES:
        raise ParameterError(
            f"{program.name} needs {program.device_count:,} devices, but the reference runs on at most {_MOST_DEVICES} virtual"
            " devices. Lower it for a smaller mesh or axis environment."
        )
    return Target.parse(f"cpu:{program.device_count}" if program.device_count > 1 else "cpu")


def _judged(errors: Sequence[OutputError], baseline: Sequence[OutputError] | Unavailable) -> tuple[OutputAccuracy, ...]:
    if isinstance(baseline, Unavailable):
        unknown = Unavailable(f"the baseline has no error: {baseline.reason}")
        return tuple(OutputAccuracy(each, unknown, "wrong" if each.outside else unknown) for each in errors)
    pairs = zip(errors, baseline, strict=True)
    return tuple(OutputAccuracy(each, each.ratio(other), each.verdict(other)) for each, other in pairs)


def _not_widened(narrow: Narrow) -> NotWidened:
    frames = tuple(Frame(*frame) for frame in narrow.frames)
    return NotWidened(narrow.primitive, frames, own_line(frames))
