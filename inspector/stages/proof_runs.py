"""Executions of a program and of its form after a finding's remedy, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.errors import Unavailable
from inspector.execution.inputs import Input
from inspector.execution.interleaved import Timer, run_interleaved
from inspector.execution.run import start
from inspector.stages.proof_time import ProofTime

FEWEST = 6
"""Executions of each program for which medians have an interval."""
MOST_S = 60.0
"""Seconds of all executions of a proof without a time limit."""
_MOST = 20
_USUAL_S = 5.0  # for the executions of a program, if that allows for more than the fewest
_LONG_S = 1.0  # programs whose execution takes longer run once, if only memory is saved
_COLD_S = 5.0  # an execution that takes longer is measured without another one before
_ROUNDS = 5


class ProofRuns(NamedTuple):
    """The outputs of both programs, and the durations of their executions in seconds."""

    outputs: tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
    durations: tuple[Sequence[float], Sequence[float]]

    @property
    def longest_s(self) -> float:
        """The longest duration."""
        return max(map(max, self.durations))


def run_both(
    before: tuple[CompiledProgram, Sequence[Input]],
    after: tuple[CompiledProgram, Sequence[Input]],
    engine: Engine,
    time: ProofTime,
    *,
    saves_time: bool,
) -> ProofRuns:
    """Runs both programs in turns, as often as the time allows. Slow ones run once if only memory is saved.

    Args:
      before: the program and its inputs.
      after: the program with the remedy, and its inputs.
      engine: runs both.
      time: the time limit of the proof.
      saves_time: whether the finding promises to save time.

    Raises:
      TimeOverError: the time was over before both had run once.
      InspectorError: one of them failed.
    """
    limit = time.of_runs(MOST_S)

    def once(side: tuple[CompiledProgram, Sequence[Input]]) -> tuple[Sequence[np.ndarray], float]:
        job = start(*side, engine, repeat=1, warmup=0)
        reply = (limit if time.waiting else time).result(job)
        return reply.outputs, max(reply.durations_s)

    def timer(side: tuple[CompiledProgram, Sequence[Input]]) -> Timer:
        return lambda count: limit.result(
            start(*side, engine, repeat=count, warmup=0, with_outputs=False)
        ).durations_s  # fmt: skip

    (outputs, once_s), (other_outputs, other_once_s) = once(before), once(after)
    slowest_s = max(once_s, other_once_s)
    cold = [(each,) if slowest_s > _COLD_S else () for each in (once_s, other_once_s)]  # that of others is slower
    wanted = max(FEWEST, min(_MOST, int(_USUAL_S / slowest_s))) if saves_time or slowest_s <= _LONG_S else 0
    rounds = _ROUNDS if slowest_s <= _LONG_S else wanted
    turn_s = 2 * slowest_s * (wanted / rounds if rounds else 0)
    found = run_interleaved(
        [timer(before), timer(after)],
        repeat=wanted - len(cold[0]),
        rounds=rounds,
        is_over=lambda: turn_s >= limit.left_s,
    )
    ours, theirs = ((*c, *(() if isinstance(f, Unavailable) else f)) for c, f in zip(cold, found, strict=True))
    durations = (ours, theirs) if ours and theirs else ((slowest_s,), (slowest_s,))
    return ProofRuns((outputs, other_outputs), durations)
