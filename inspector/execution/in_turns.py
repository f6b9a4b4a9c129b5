"""`start_in_turns`: runs several programs in turns in the background, with a job for each of them."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TypeAlias

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.request import RunReply
from inspector.errors import ExecutionError, Unavailable
from inspector.execution.inputs import Input
from inspector.execution.interleaved import run_all_until_apart
from inspector.execution.run import Run, finish, start

_LIMIT_S = 20.0
"""Seconds after which no executions are added to those that were asked for."""
_SLOW_S = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Runnable:
    """A program with its inputs and the engine that runs it."""

    compiled: CompiledProgram
    inputs: tuple[Input, ...]
    engine: Engine


Prepare: TypeAlias = Callable[[], Runnable]
"""Returns a program that is ready to run, or raises the reason why it cannot run. May take seconds."""


def start_in_turns(programs: Sequence[Prepare], repeat: int) -> tuple[Job[Run], ...]:
    """Starts running programs in turns, so that a machine that gets slower or busier affects all of them alike.

    Every program gets at least `repeat` executions. Programs that are not known to be faster or slower than the first one get up to
    160 in the first 20 seconds. A program that fails, or whose job is canceled, leaves the turns.

    Args:
      programs: the programs; the others are compared with the first one.
      repeat: measured executions of each program, at least 1.

    Returns:
      A job for each program. The results have the same `Run.series`.
    """
    members = tuple(_Member(prepare) for prepare in programs)
    threading.Thread(target=_measure, args=(members, repeat), name="inspector-turns", daemon=True).start()
    return tuple(member.job for member in members)


def _measure(members: Sequence[_Member], repeat: int) -> None:
    series = uuid.uuid4().hex
    try:
        ready = [member for member in members if member.prepare()]
        if not ready:
            return
        durations = run_all_until_apart([member.execute for member in ready], fewest=repeat, limit_s=_LIMIT_S)
        for member, known in zip(ready, durations, strict=True):
            if not isinstance(known, Unavailable):
                member.finish(known, series)
    except BaseException as error:  # the thread has no one to raise to; the jobs carry the error
        for member in members:
            member.job.fail(error)


class _Member:
    """A program that takes turns with others."""

    def __init__(self, prepare: Prepare) -> None:
        self.job: Job[Run] = Job(cancel=self._stop)
        self._prepare = prepare
        self._program: Runnable | None = None
        self._running: Job[RunReply] | None = None
        self._replies: list[RunReply] = []

    def prepare(self) -> bool:
        """Creates the inputs. Returns whether the program can run."""
        self.job.advance("creating the inputs")
        try:
            self._program = self._prepare()
        except Exception as error:  # the job carries it
            self.job.fail(error)
        else:
            self.job.advance("waiting for its turn")
        return not self.job.done()

    def execute(self, count: int) -> tuple[float, ...]:
        """Executes the program a number of times and returns the durations in seconds.

        Raises:
          InspectorError: the program failed or its job was canceled; it takes no more turns.
        """
        if self._program is None or self.job.done():
            raise ExecutionError("The run was canceled.")
        done = sum(len(reply.durations_s) for reply in self._replies)
        self.job.advance(f"{done} executions, in turns")
        compiled, inputs, engine = self._program.compiled, self._program.inputs, self._program.engine
        try:
            is_first = not self._replies
            warmup = 2 if is_first else 0 if self._is_slow else 1
            self._running = start(compiled, inputs, engine, repeat=count, warmup=warmup, with_outputs=is_first)
            if self.job.done():
                self._running.cancel()
            reply = self._running.result()
        except Exception as error:
            self.job.fail(error)
            raise error if isinstance(error, ExecutionError) else ExecutionError(str(error)) from error
        self._replies.append(reply)
        return reply.durations_s

    @property
    def _is_slow(self) -> bool:
        """Whether an unmeasured execution before each turn would take long. Cold caches matter little for such programs."""
        return min(self._replies[-1].durations_s) > _SLOW_S

    def finish(self, durations_s: tuple[float, ...], series: str) -> None:
        """Ends the job with the run."""
        assert self._program is not None
        first = self._replies[0]
        dispatch_s = tuple(each for reply in self._replies for each in reply.dispatch_s)
        warnings = tuple(dict.fromkeys(each for reply in self._replies for each in reply.warnings))
        reply = dataclasses.replace(first, durations_s=durations_s, dispatch_s=dispatch_s, warnings=warnings)
        run = finish(self._program.compiled, self._program.inputs, reply)
        self.job.resolve(dataclasses.replace(run, series=series))

    def _stop(self) -> None:
        running = self._running
        if running is not None:
            running.cancel()
