"""Runs several compiled programs in turns, so that a machine that gets slower or busier affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.errors import CancelledError, InspectorError, ParameterError, Unavailable
from inspector.execution.run import choose_inputs, start
from inspector.support.notebook import short

_ROUNDS = 5
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


def run_interleaved(
    programs: Sequence[CompiledProgram],
    engines: Sequence[Engine],
    *,
    repeat: int,
    is_over: Callable[[], bool] = lambda: False,
) -> list[tuple[float, ...] | Unavailable]:
    """Returns the durations of executions of each program in seconds, or the reason why a program cannot be measured.

    The programs take turns in five rounds, every second one in reverse order. Those with the same parameters get the same
    generated inputs.

    Args:
      programs: the programs.
      engines: the engine that runs each of them.
      repeat: measured executions of each program, at least 1.
      is_over: whether to stop before the next run. Programs without a duration by then are unavailable.

    Raises:
      CancelledError: a run was canceled.
      ExecutionError: `repeat` is not a valid number of executions.
    """
    keys = [program.program.arguments for program in programs]
    inputs = {key: choose_inputs(program, (), {}) for key, program in dict(zip(keys, programs, strict=True)).items()}
    durations: list[tuple[float, ...] | Unavailable] = [() for _ in programs]
    rounds = min(_ROUNDS, repeat)
    for turn in range(rounds):
        count = repeat // rounds + (turn < repeat % rounds)
        order = range(len(programs))
        for index in order if turn % 2 == 0 else reversed(order):
            known = durations[index]
            if isinstance(known, Unavailable) or is_over():
                continue
            try:
                reply = start(programs[index], inputs[keys[index]], engines[index], repeat=count, warmup=1).result()
            except CancelledError:
                raise
            except InspectorError as error:  # flags can produce programs that fail or crash
                durations[index] = Unavailable(f"the run failed: {error}")
            else:
                durations[index] = (*known, *reply.durations_s)
    return [_TOO_LATE if each == () else each for each in durations]
