"""`bisect` finds the flag and the compiler pass that make two compiles of a program differ, and a small program that shows it.

    sides ─▶ flags (delta debugging) ─▶ passes (cut, then left out) ─▶ reduction (parts of the StableHLO)

Every phase compiles trials and lets a judge (`judges.py`) decide which of them show the difference. `work.py` has the phases,
`search.py` the searches. `compile_time.py` compares the parts of one program instead of two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from inspector.api.bisection.jobs import BisectJob as BisectJob
from inspector.api.bisection.judges import By, Judge, Predicate, can_run, judge_of
from inspector.api.bisection.work import Bisector, Question
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import EngineLike
from inspector.compilation.target import Target
from inspector.errors import OptionError, ParameterError, TargetError, check_bool
from inspector.settings import check_time_limit
from inspector.stages.bisection.result import Bisection as Bisection
from inspector.stages.bisection.sides import Side, SideLike
from inspector.stages.lowered import Lowered, check_lowered, lowered_for
from inspector.support.notebook import short


@overload
def bisect(
    lowered: Lowered, good: SideLike, bad: SideLike, *args: Any, by: By | Predicate = ..., target: str | Target = ...,
    wait: Literal[True] = ..., engine: EngineLike | None = ..., time_limit_s: float | None = ...,
    trial_limit_s: float | None = ..., rtol: float | None = ..., atol: float | None = ..., reproduce: bool = ...,
    show_progress: bool = ..., kwargs: Mapping[str, Any] | None = ...,
) -> Bisection: ...  # fmt: skip
@overload
def bisect(
    lowered: Lowered, good: SideLike, bad: SideLike, *args: Any, by: By | Predicate = ..., target: str | Target = ...,
    wait: Literal[False], engine: EngineLike | None = ..., time_limit_s: float | None = ...,
    trial_limit_s: float | None = ..., rtol: float | None = ..., atol: float | None = ..., reproduce: bool = ...,
    show_progress: bool = ..., kwargs: Mapping[str, Any] | None = ...,
) -> BisectJob: ...  # fmt: skip
def bisect(
    lowered: Lowered,
    good: SideLike,
    bad: SideLike,
    *args: Any,
    by: By | Predicate = "values",
    target: str | Target = "attached",
    wait: bool = True,
    engine: EngineLike | None = None,
    time_limit_s: float | None = 600.0,
    trial_limit_s: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    reproduce: bool = True,
    show_progress: bool = True,
    kwargs: Mapping[str, Any] | None = None,
) -> Bisection | BisectJob:
    """Finds the change between two compiles of a program that makes them differ: the flag, then the compiler pass, then the place.

    1. Both sides are compiled and compared, twice if their results may vary.
    2. If they differ in several flags, delta debugging finds the smallest set that makes the good side bad. One flag of n takes
       log2(n) + 1 compiles.
    3. The passes of the compile are cut off by bisection (`CompilerPasses.until`), and the pass found is left out
       (`CompilerPasses.without`).
    4. The program is reduced to the smallest part found that differs by itself.

    Args:
      lowered: the program.
      good: the side to compare with: options, a target, a pair of target and options, or a compiled program, which has both.
      bad: the side that differs, in the same forms. The sides may differ in options, targets and versions of JAX
        ("cpu@jax==0.12.0"); another version of JAX runs programs for CPUs only.
      args: the function's arguments, as for `Compiled.run`; without any, inputs are generated.
      by: the quantity to compare:
        - "values": the results of a run, within tolerances;
        - "memory": peak memory, without a run;
        - "time": the measured time of a run; the estimated time for targets that are not attached;
        - "compile_time": XLA's time for the compile;
        - a function from a `Compiled`, or from a `Compiled` and its `Run`, to a bool.
        If the bad side cannot be compiled or run, the bisection is about that failure.
      target: the target of sides given as options.
      wait: return the result; otherwise return at once the job that works in the background.
      engine: the engine, as for `Lowered.compile`; None for a separate worker where workers suit the target.
      time_limit_s: time limit of the whole bisection in seconds; what is not found by then is unavailable. None for no limit.
      trial_limit_s: time limit of one compile or run in seconds; None for ten times the time of the good side, at least 30 s.
      rtol: relative tolerance of values, as in NumPy's `allclose`; None for one by type, such as 1e-4 for float32.
      atol: absolute tolerance of values; None for `rtol` times the largest value of each output.
      reproduce: reduce the program to a small part.
      show_progress: show a bar in a notebook, or a line on a terminal.
      kwargs: the function's keyword arguments.

    Returns:
      The result, or the job.

    Raises:
      ParameterError: an invalid parameter, a compiled program of another function, or a predicate that fails.
      OptionError, TargetError: an invalid option or target, or targets that cannot run, by values.
      CompilationError: the good side cannot be compiled or observed.
      ExecutionError: arguments that the program does not accept.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    check_time_limit(trial_limit_s, "trial_limit_s")
    for name, value in {"wait": wait, "reproduce": reproduce, "show_progress": show_progress}.items():
        check_bool(name, value, OptionError)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ParameterError(f"kwargs must be a mapping of the function's keyword arguments, got {short(kwargs)}.")
    sides = Side.of(good, target), Side.of(bad, target)
    is_run = can_run(*(side.target for side in sides))
    judge = judge_of(by, rtol, atol, is_run)
    for side, given in zip(sides, (good, bad), strict=True):
        _check_side(lowered, side, given, judge)
    question = Question(
        lowered, *sides, args, dict(kwargs or {}), engine, time_limit_s, trial_limit_s, rtol, atol, reproduce
    )
    job = BisectJob(lambda tell: Bisector(question, judge, tell), has_bar=show_progress, is_background=not wait)
    return job.wait() if wait else job


def _check_side(lowered: Lowered, side: Side, given: SideLike, judge: Judge[Any]) -> None:
    if judge.needs_inputs and not can_run(side.target):
        raise TargetError(
            f"A bisection by {judge.by} runs the program, but {side.target} can only be compiled for. Use an attached device or"
            ' cpu:N, or by="memory" or by="time".'
        )
    if isinstance(given, CompiledProgram):
        program = lowered_for(lowered, side.target).program
        if given.program.digest != program.digest:
            raise ParameterError(
                f"The side {given!r} was compiled from another program than {lowered!r}. Pass the Lowered that it was compiled"
                " from, or compile both sides from one."
            )
