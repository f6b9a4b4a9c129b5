"""Judges decide whether a compiled program shows the difference of a bisection: in values, memory, times or a predicate."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np

from inspector.api.flag_effects.pool import EnginePool
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.request import RunReply
from inspector.compilation.target import Target
from inspector.errors import CancelledError, InspectorError, ParameterError, Unavailable
from inspector.execution.array_difference import Array, difference
from inspector.execution.inputs import Input
from inspector.execution.interleaved import run_until_apart
from inspector.execution.output_error import Tolerance
from inspector.execution.run import finish, start
from inspector.execution.tolerances import departures
from inspector.stages.compiled import as_compiled
from inspector.stages.estimates import can_be_measured, estimate
from inspector.support.notebook import short
from inspector.support.units import format_bytes, format_seconds

T = TypeVar("T")

By = Literal["values", "memory", "time", "compile_time"]
Predicate = Callable[..., bool]

_SHARE = 0.5  # of the difference between both sides, from which on a trial counts as bad
_LEAST_COMPILE_S = 0.02  # smaller differences of compile times are noise
_LEAST_SHARE = {"memory": 0.0, "time": 1e-3, "compile_time": 0.25}  # smaller relative differences are none


class NoResultError(Exception):
    """A program has no value to judge. The message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A compiled program to observe.

    Attributes:
      compiled: the program.
      inputs: the inputs of its runs.
      pool: the engines that run it.
      limit_s: seconds after which a run is stopped; None for no limit.
    """

    compiled: CompiledProgram
    inputs: Sequence[Input]
    pool: EnginePool
    limit_s: float | None = None

    def run(self) -> RunReply:
        """Runs the program once.

        Raises:
          NoResultError: the run failed.
          CancelledError, OverError: the bisection ends.
        """
        return self._run(1, warmup=0, with_outputs=True)

    def time(self, count: int) -> Sequence[float]:
        """Returns the durations of a number of executions in seconds, after one that is not measured. Raises as `run` does."""
        return self._run(count, warmup=1, with_outputs=False).durations_s

    def _run(self, repeat: int, warmup: int, *, with_outputs: bool) -> RunReply:
        try:
            return self.pool.work(
                lambda engine: start(
                    self.compiled, self.inputs, engine, repeat=repeat, warmup=warmup, with_outputs=with_outputs
                ),
                self.limit_s,
            )
        except TimeoutError:
            raise NoResultError(f"the run was stopped after the limit of {self.limit_s:g} s") from None
        except CancelledError:
            raise
        except InspectorError as e:
            raise NoResultError(f"the run failed: {e}") from e


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of an observation with that of the good side.

    Attributes:
      differs: whether the program shows the difference.
      words: the difference, or the value, in words.
    """

    differs: bool
    words: str


class Judge(abc.ABC, Generic[T]):
    """Observes compiled programs and compares the observations with that of the good side.

    Attributes:
      by: the name of the quantity.
      needs_inputs: whether programs run.
      is_exact: whether a repeated observation is always equal.
      can_reduce: whether parts of a program can be judged, or why not.
    """

    by: str = ""
    needs_inputs = False
    is_exact = True
    can_reduce: Unavailable | None = None

    @abc.abstractmethod
    def observe(self, trial: Trial) -> T:
        """Returns the observation of a program.

        Raises:
          NoResultError: it has none, because it fails to run or its value is unknown.
          CancelledError, OverError: the bisection ends.
        """

    def calibrate(self, good: T, bad: T) -> Compared:
        """Compares the sides, and takes their difference as the measure of later ones."""
        return self.compare(good, bad)

    @abc.abstractmethod
    def compare(self, good: T, other: T) -> Compared:
        """Compares an observation with that of the good side."""


class ValuesJudge(Judge[tuple[Array, ...]]):
    """Compares results within tolerances. If both sides differ in NaN or infinity, only such differences count later on."""

    by = "values"
    needs_inputs = True
    is_exact = False

    def __init__(self, rtol: float | None, atol: float | None) -> None:
        self._rtol, self._atol = rtol, atol
        self._only_odd = False

    def observe(self, trial: Trial) -> tuple[Array, ...]:
        return trial.run().outputs

    def calibrate(self, good: tuple[Array, ...], bad: tuple[Array, ...]) -> Compared:
        self._only_odd = False
        self._only_odd = self._count(good, bad, only_odd=True) > 0
        return self.compare(good, bad)

    def compare(self, good: tuple[Array, ...], other: tuple[Array, ...]) -> Compared:
        return Compared(self._count(good, other, self._only_odd) > 0, self._words(good, other))

    def _count(self, good: tuple[Array, ...], other: tuple[Array, ...], only_odd: bool) -> int:
        if [(a.shape, a.dtype) for a in good] != [(b.shape, b.dtype) for b in other]:
            return 1
        count = 0
        for reference, ours in zip(good, other, strict=True):
            apart = departures(ours, reference, self._rtol, self._atol)
            if only_odd:
                apart = apart & ~(_is_finite(ours) & _is_finite(reference))
            count += int(apart.sum())
        return count

    def _words(self, good: tuple[Array, ...], other: tuple[Array, ...]) -> str:
        for number, (reference, ours) in enumerate(zip(good, other, strict=True)):
            apart = int(departures(ours, reference, self._rtol, self._atol).sum())
            if not apart:
                continue
            found = difference("", ours, reference)
            place = f"output {number}" if len(good) > 1 else "output"
            if found.nans != found.other_nans or found.infinities != found.other_infinities:
                return (
                    f"{place}: {found.nans:,} NaN and {found.infinities:,} infinite of {found.count:,} values, instead of"
                    f" {found.other_nans:,} and {found.other_infinities:,}"
                )
            size = found.scaled if isinstance(found.scaled, float) else None
            by = f", by up to {size:.2g} of the largest value" if size is not None else ""
            return f"{place}: {apart:,} of {found.count:,} values differ{by}"
        return "equal within tolerance"


def _is_finite(values: Array) -> Any:
    if values.dtype.kind in "biu":
        return np.ones(values.shape, bool)
    return np.isfinite(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))


class NumberJudge(Judge[float]):
    """Compares a number that every compile has. A trial is bad from the middle of both sides on.

    Compile times are compared by ratio: a small part of a program is as many times slower to compile as the whole program.
    """

    def __init__(
        self, by: str, value: Callable[[CompiledProgram], float | Unavailable], text: Callable[[float], str]
    ) -> None:
        self.by = by
        self.is_exact = by != "compile_time"
        self._value = value
        self._text = text
        self._gap = 0.0

    def observe(self, trial: Trial) -> float:
        value = self._value(trial.compiled)
        if isinstance(value, Unavailable):
            raise NoResultError(value.reason)
        return float(value)

    def calibrate(self, good: float, bad: float) -> Compared:
        self._gap = self._change(good, bad)
        if abs(bad - good) <= _LEAST_SHARE[self.by] * max(abs(good), abs(bad)):
            self._gap = 0.0
        return self.compare(good, bad)

    def _change(self, good: float, other: float) -> float:
        """Returns the change from the good side: a difference, or the logarithm of a ratio of compile times."""
        if self.by != "compile_time":
            return other - good
        return 0.0 if abs(other - good) < _LEAST_COMPILE_S or min(good, other) <= 0 else math.log(other / good)

    def compare(self, good: float, other: float) -> Compared:
        differs = self._gap != 0 and self._change(good, other) / self._gap >= _SHARE
        return Compared(differs, f"{self._text(other)}, good {self._text(good)}")


class MeasuredTimeJudge(Judge[Trial]):
    """Runs a program and the good one in turns until one is known to be faster."""

    by = "time"
    needs_inputs = True
    is_exact = False
    can_reduce = Unavailable("measured times of small parts do not add up to that of the program")

    def __init__(self) -> None:
        self._log_ratio = 0.0

    def observe(self, trial: Trial) -> Trial:
        trial.run()  # so that a program that fails has no result, rather than no time
        return trial

    def calibrate(self, good: Trial, bad: Trial) -> Compared:
        self._log_ratio, words = _measured(good, bad)
        return Compared(self._log_ratio != 0, words)

    def compare(self, good: Trial, other: Trial) -> Compared:
        log_ratio, words = _measured(good, other)
        return Compared(self._log_ratio != 0 and log_ratio / self._log_ratio >= _SHARE, words)


def _measured(good: Trial, other: Trial) -> tuple[float, str]:
    """Returns the logarithm of the good side's time over the other's, and its speed in words; 0 without a known difference."""
    found = run_until_apart((other.time, good.time))
    if isinstance(found, Unavailable):
        raise NoResultError(found.reason)
    return math.log(found.speed.ratio) if found.speed.is_known else 0.0, found.speed.words


class PredicateJudge(Judge[bool]):
    """Calls the user's predicate, with the compiled program and, if it takes two arguments, with its run."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self.by = f"predicate {getattr(predicate, '__name__', type(predicate).__name__)}"
        self.needs_inputs = _argument_count(predicate) == 2
        self.is_exact = not self.needs_inputs

    def observe(self, trial: Trial) -> bool:
        compiled = trial.compiled
        given: list[Any] = [as_compiled(compiled)]
        if self.needs_inputs:
            given.append(finish(compiled, tuple(trial.inputs), trial.run()))
        try:
            answer = self._predicate(*given)
        except CancelledError:
            raise
        except Exception as e:
            raise ParameterError(
                f"The {self.by} failed for {compiled.options}: {type(e).__name__}: {e}. It must return True or False for every"
                " program that compiles."
            ) from e
        if not isinstance(answer, bool | np.bool_):
            raise ParameterError(f"The {self.by} must return True or False, got {short(answer)}.")
        return bool(answer)

    def compare(self, good: bool, other: bool) -> Compared:
        return Compared(good != other, f"{other}, good {good}")


def _argument_count(predicate: Predicate) -> int:
    try:
        parameters = inspect.signature(predicate).parameters.values()
    except (TypeError, ValueError):
        return 1
    needed = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
    ]
    return 2 if len(needed) == 2 else 1


class FailureJudge(Judge[bool]):
    """Judges by whether a program compiles and runs at all, for a bad side that does not. Observes only programs that do."""

    by = "failure"

    def __init__(self, needs_inputs: bool) -> None:
        self.needs_inputs = needs_inputs

    def observe(self, trial: Trial) -> bool:
        if self.needs_inputs:
            trial.run()
        return True

    def compare(self, good: bool, other: bool) -> Compared:
        return Compared(good != other, "no failure")


def _peak(compiled: CompiledProgram) -> float | Unavailable:
    return compiled.memory if isinstance(compiled.memory, Unavailable) else float(compiled.memory.peak_bytes)


def _compile_s(compiled: CompiledProgram) -> float | Unavailable:
    return compiled.timings.get("compile_s", Unavailable("the engine reports no compile time"))


def judge_of(by: By | Predicate, rtol: float | None, atol: float | None, is_run: bool) -> Judge[Any]:
    """Returns the judge of a quantity.

    Args:
      by: the quantity, or a predicate.
      rtol: relative tolerance of values.
      atol: absolute tolerance of values.
      is_run: whether programs of both sides can run.

    Raises:
      ParameterError: an unknown quantity, or tolerances that are not used.
    """
    if (rtol is not None or atol is not None) and by != "values":
        raise ParameterError(f"rtol and atol are tolerances of values, but the bisection is by {short(by)}.")
    Tolerance(rtol, atol)  # checks both
    if callable(by):
        return PredicateJudge(by)
    judges: Mapping[By, Callable[[], Judge[Any]]] = {
        "values": lambda: ValuesJudge(rtol, atol),
        "memory": lambda: NumberJudge("memory", _peak, format_bytes),
        "time": lambda: (
            MeasuredTimeJudge() if is_run else NumberJudge("time", lambda c: estimate(c).estimated_s, format_seconds)
        ),
        "compile_time": lambda: NumberJudge("compile_time", _compile_s, format_seconds),
    }
    if by not in judges:
        expected = ", ".join(repr(each) for each in get_args(By))
        raise ParameterError(f"by must be {expected} or a function of a compiled program, got {short(by)}.")
    return judges[by]()


def can_run(*targets: Target) -> bool:
    """Reports whether programs for all targets can run on this machine. Another version of JAX runs those for CPUs only."""
    return all(can_be_measured(target) or (target.kind == "cpu" and bool(target.jax)) for target in targets)
