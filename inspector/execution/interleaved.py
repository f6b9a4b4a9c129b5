"""Runs several compiled programs in turns, so that a machine that gets slower or busier affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.errors import CancelledError, InspectorError, Unavailable
from inspector.execution.run import choose_inputs, start

_ROUNDS = 5
_TOO_LATE = Unavailable("the time limit ended before it was measured", "raise the time limit")


def run_interleaved(
    programs: Sequence[CompiledProgram], engine: Engine, *, repeat: int, is_over: Callable[[], bool] = lambda: False
) -> list[tuple[float, ...] | Unavailable]:
    """Returns the durations of executions of each program in seconds, or the reason why a program cannot be measured.

    The programs take turns in five rounds, every second one in reverse order. All get the same generated inputs.

    Args:
      programs: programs with the same parameters.
      engine: the engine that runs them.
      repeat: measured executions of each program, at least 1.
      is_over: whether to stop before the next run. Programs without a duration by then are unavailable.

    Raises:
      CancelledError: a run was canceled.
      ExecutionError: `repeat` is not a valid number of executions.
    """
    inputs = choose_inputs(programs[0], (), {}) if programs else ()
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
                reply = start(programs[index], inputs, engine, repeat=count, warmup=1).result()
            except CancelledError:
                raise
            except InspectorError as error:  # flags can produce programs that fail or crash
                durations[index] = Unavailable(f"the run failed: {error}")
            else:
                durations[index] = (*known, *reply.durations_s)
    return [_TOO_LATE if each == () else each for each in durations]
