"""Runs several compiled programs in turns, so that a machine that gets slower or busier affects all of them alike."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.errors import CancelledError, InspectorError, ParameterError, Unavailable
from inspector.execution.comparison import TURN, Speed, speed_in_turns
from inspector.execution.run import choose_inputs, start
from inspector.support.notebook import short

_ROUNDS = 5
_LOOKS = (10, 20, 40, 80)  # turns after which the comparison may end
_MOST_S = 60.0
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
        return lambda count: (
            start(program, given, engine, repeat=count, warmup=1, with_outputs=False).result().durations_s
        )

    return [timer(*each) for each in zip(programs, engines, strict=True)]


def run_interleaved(
    timers: Sequence[Timer], *, repeat: int, rounds: int = _ROUNDS, is_over: Callable[[], bool] = lambda: False
) -> list[tuple[float, ...] | Unavailable]:
    """Returns the durations of executions of each program in seconds, or the reason why a program cannot be measured.

    The programs take turns, in every second round in reverse order.

    Args:
      timers: one for each program.
      repeat: measured executions of each program, at least 1.
      rounds: number of turns of each program.
      is_over: whether to stop before the next run. Programs without a duration by then are unavailable.

    Raises:
      CancelledError: a run was canceled.
    """
    durations: list[tuple[float, ...] | Unavailable] = [() for _ in timers]
    rounds = min(rounds, repeat)
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
    """Runs two programs in turns until one is known to be faster, in at most 80 turns, or for a minute.

    Args:
      timers: one for each program.
      is_over: whether to stop before the next run.

    Returns:
      The durations and the relative speed, or the reason why a program cannot be measured.

    Raises:
      CancelledError: a run was canceled.
    """
    ours, theirs = run_all_until_apart(timers, fewest=_LOOKS[0] * TURN, limit_s=_MOST_S, is_over=is_over)
    for each in (ours, theirs):
        if isinstance(each, Unavailable):
            return each
    assert not isinstance(ours, Unavailable)
    assert not isinstance(theirs, Unavailable)
    if min(len(ours), len(theirs)) < _LOOKS[0] * TURN:
        return _TOO_LATE
    relative = speed_in_turns(ours, theirs)
    return relative if isinstance(relative, Unavailable) else Measured(ours, theirs, relative)


def run_all_until_apart(
    timers: Sequence[Timer], *, fewest: int, limit_s: float, is_over: Callable[[], bool] = lambda: False
) -> list[tuple[float, ...] | Unavailable]:
    """Runs programs in turns until each is known to be faster or slower than the first one, in at most 80 turns.

    After 10, 20, 40 and 80 turns, programs whose difference is known (`speed_in_turns`) stop.

    Args:
      timers: one for each program.
      fewest: executions of each program in any case, at least 1.
      limit_s: seconds after which no more executions than these begin.
      is_over: whether to stop before the next run.

    Returns:
      The durations of the executions of each program in seconds, or the reason why it cannot be measured.

    Raises:
      CancelledError: a run was canceled.
    """
    end = time.monotonic() + limit_s
    fewest += fewest % TURN if fewest > 1 else 0
    times = run_interleaved(timers, repeat=fewest, rounds=-(-fewest // TURN), is_over=is_over)
    going = list(range(len(timers)))
    for look in _LOOKS:
        going = _undecided(times, going)
        while going and len(_durations(times[0])) < look * TURN:
            if time.monotonic() > end or is_over():
                return times
            found = run_interleaved([timers[each] for each in going], repeat=_ROUNDS * TURN, is_over=is_over)
            for place, latest in zip(going, found, strict=True):
                if isinstance(latest, Unavailable) and latest is not _TOO_LATE:
                    times[place] = latest
                elif len(_durations(latest)) == _ROUNDS * TURN:
                    times[place] = _durations(times[place]) + _durations(latest)
                else:
                    return times
            going = [each for each in going if not isinstance(times[each], Unavailable)]
            if going[:1] != [0] or len(going) == 1:
                return times
    return times


def _undecided(times: Sequence[tuple[float, ...] | Unavailable], going: Sequence[int]) -> list[int]:
    """Returns the first program and those whose difference from it is unknown; [] if there are none."""
    first, unknown = times[0], []
    if isinstance(first, Unavailable):
        return []
    for place in going:
        each = times[place]
        if place == 0 or isinstance(each, Unavailable):
            continue
        relative = speed_in_turns(each, first)
        if isinstance(relative, Unavailable) or not relative.is_known:
            unknown.append(place)
    return [0, *unknown] if unknown else []


def _durations(known: tuple[float, ...] | Unavailable) -> tuple[float, ...]:
    return () if isinstance(known, Unavailable) else known
