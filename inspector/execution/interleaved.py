"""Runs several compiled programs in turns, so that a machine that gets slower or busier affects all of them alike."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.errors import CancelledError, InspectorError, ParameterError, Unavailable
from inspector.execution.comparison import Speed, speed_in_words
from inspector.execution.run import choose_inputs, start
from inspector.support.notebook import short

_ROUNDS = 5
_EACH = 2  # executions of a turn
_LOOKS = (10, 20, 40, 80)  # turns after which the comparison may end
_MOST_S = 60.0
_MOST_CHANCE = 0.005  # of a difference by chance at each look
_FEWEST_EXECUTIONS = 6
_TOO_LATE = Unavailable("the time limit ended before it was measured", "raise the time limit")


def check_repeat(repeat: object) -> None:
    """Checks a number of executions of each program.

    Raises:
      ParameterError: not a number, or too small for a confidence interval.
    """
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < _FEWEST_EXECUTIONS:
        raise ParameterError(
            f"repeat={short(repeat)}: expected a number of executions, at least {_FEWEST_EXECUTIONS}. Fewer cannot separate a"
            " difference from noise."
        )


Timer: TypeAlias = Callable[[int], Sequence[float]]
"""Executes a program a number of times, after one execution that is not measured, and returns the durations in seconds."""


def timers(
    programs: Sequence[CompiledProgram],
    engines: Sequence[Engine],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> list[Timer]:
    """Returns a timer for each program. Programs with the same parameters get the same inputs.

    Args:
      programs: the programs.
      engines: the engine that runs each of them.
      args: the function's arguments, as for `Compiled.run`; without any, inputs are generated.
      kwargs: its keyword arguments.

    Raises:
      ExecutionError: `args` are not the arguments of a program.
    """
    inputs = {
        key: choose_inputs(program, args, kwargs or {})
        for key, program in {program.program.arguments: program for program in programs}.items()
    }

    def timer(program: CompiledProgram, engine: Engine) -> Timer:
        given = inputs[program.program.arguments]
        return lambda count: start(program, given, engine, repeat=count, warmup=1).result().durations_s

    return [timer(*each) for each in zip(programs, engines, strict=True)]


def run_interleaved(
    timers: Sequence[Timer], *, repeat: int, is_over: Callable[[], bool] = lambda: False
) -> list[tuple[float, ...] | Unavailable]:
    """Returns the durations of executions of each program in seconds, or the reason why a program cannot be measured.

    The programs take turns in five rounds, every second one in reverse order.

    Args:
      timers: one for each program.
      repeat: measured executions of each program, at least 1.
      is_over: whether to stop before the next run. Programs without a duration by then are unavailable.

    Raises:
      CancelledError: a run was canceled.
    """
    durations: list[tuple[float, ...] | Unavailable] = [() for _ in timers]
    rounds = min(_ROUNDS, repeat)
    for turn in range(rounds):
        count = repeat // rounds + (turn < repeat % rounds)
        order = range(len(timers))
        for index in order if turn % 2 == 0 else reversed(order):
            known = durations[index]
            if isinstance(known, Unavailable) or is_over():
                continue
            try:
                latest = timers[index](count)
            except CancelledError:
                raise
            except InspectorError as error:  # flags can produce programs that fail or crash
                durations[index] = Unavailable(f"the run failed: {error}")
            else:
                durations[index] = (*known, *latest)
    return [_TOO_LATE if each == () else each for each in durations]


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The durations of two programs that ran in turns.

    Attributes:
      durations_s, other_s: durations of the executions of each program, in seconds.
      speed: the speed of the first program relative to the other one; its ratio is the median over the turns.
    """

    durations_s: tuple[float, ...]
    other_s: tuple[float, ...]
    speed: Speed


def run_until_apart(
    timers: tuple[Timer, Timer], *, is_over: Callable[[], bool] = lambda: False
) -> Measured | Unavailable:
    """Runs two programs in turns until one is known to be faster, in at most 80 turns of two executions, or for a minute.

    After 10, 20, 40 and 80 turns, the turns in which each program was faster are counted (a sign test). A difference is known if
    so uneven a count has a probability of at most 0.5 % for equal programs. Other work on the machine lasts longer than a turn,
    so it affects both programs.

    Args:
      timers: one for each program.
      is_over: whether to stop before the next run.

    Returns:
      The durations and the relative speed, or the reason why a program cannot be measured.

    Raises:
      CancelledError: a run was canceled.
    """
    times: list[tuple[float, ...]] = [(), ()]
    end = time.monotonic() + _MOST_S
    for look in _LOOKS:
        while len(times[0]) < look * _EACH:
            found = run_interleaved(timers, repeat=_ROUNDS * _EACH, is_over=is_over)
            latest = [each for each in found if not isinstance(each, Unavailable)]
            if len(latest) < len(found):
                return next(each for each in found if isinstance(each, Unavailable))
            if any(len(each) < _ROUNDS * _EACH for each in latest):
                return _TOO_LATE  # the time limit ended it
            times = [before + after for before, after in zip(times, latest, strict=True)]
        relative = _relative_speed(*times)
        if relative.is_known or time.monotonic() > end:
            break
    return Measured(times[0], times[1], relative)


def _relative_speed(durations_s: Sequence[float], other_s: Sequence[float]) -> Speed:
    """Returns the speed relative to the other program, of executions in turns."""
    turns = len(durations_s) // _EACH
    ours, theirs = (np.reshape(each, (turns, _EACH)).min(axis=1) for each in (durations_s, other_s))
    faster, slower = int((ours < theirs).sum()), int((ours > theirs).sum())
    middle, other_middle = float(np.median(durations_s)), float(np.median(other_s))
    ratio = float(np.exp(np.median(np.log(theirs) - np.log(ours))))
    is_known = (
        _chance(min(faster, turns - faster) if faster > slower else min(slower, turns - slower), turns) <= _MOST_CHANCE
    )
    return speed_in_words(ratio, middle, other_middle, is_known=is_known)


def _chance(fewer: int, turns: int) -> float:
    """Returns the probability that two equal programs split their turns at least as unevenly."""
    return float(min(1.0, 2 * sum(math.comb(turns, k) for k in range(fewer + 1)) / 2**turns))
