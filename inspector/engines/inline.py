"""`InlineEngine`: compiles with the notebook kernel's own compiler, on a separate thread.

Its previews come with the result only: an earlier preview needs a dump, which belongs in a process that may crash.

Used for the attached accelerator, because only the process that holds it can compile as the program will run, and
for programs with host callbacks, which exist in this process only. If XLA aborts, it ends the
notebook kernel. A canceled compile continues in the background.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TypeVar

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import UNHEARD as UNHEARD
from inspector.compilation.engine import Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.engines.job_queue import Lane, advance, compiling, running
from inspector.engines.printed import recording_prints
from inspector.engines.serving import Server, callbacks_of, compiler_of
from inspector.engines.workers.counting import Count, count_here
from inspector.errors import CancelledError, CompilationError, TargetError

T = TypeVar("T")

PATIENCE_S = 10.0
"""Seconds after which other jobs do not wait for a run with callbacks, because a callback may never return."""


class InlineEngine:
    """Compiles and runs in this process. Thread-safe; one job at a time.

    A program that calls back into Python may never return. If it is canceled or runs for longer than `PATIENCE_S`, the jobs
    that wait for it continue on another thread.
    """

    name = "inline"

    def __init__(self, count: Count = count_here) -> None:
        """Creates the engine. `count` is XLA's cost analysis of modules, best in a separate process."""
        self._count = count
        self._lane = Lane("inspector-inline")
        self._lock = threading.Lock()
        self._of_thread = threading.local()

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        job: Job[CompiledProgram] = _InlineJob(lambda: None)
        self._put(job, lambda: self._compile(job, request), compiling(request))
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        lanes: list[Lane] = []

        def give_up() -> None:
            for lane in lanes:
                self._leave(lane)

        def work() -> RunReply:
            lanes.append(self._lane)
            timer = threading.Timer(PATIENCE_S, give_up)
            timer.daemon = True
            if request.compiled.program.host_callbacks:
                timer.start()
            try:
                return self._run(job, request)
            finally:
                timer.cancel()

        job: Job[RunReply] = _InlineJob(give_up if request.compiled.program.host_callbacks else lambda: None)
        self._put(job, work, running(request))
        return job

    def close(self) -> None:
        """Cancels queued jobs and waits up to 5 s for XLA, which cannot be stopped."""
        self._lane.close(timeout_s=5.0)

    def _put(self, job: Job[T], work: Callable[[], T], what: str) -> None:
        with self._lock:
            self._lane.put(job, work, what)

    def _leave(self, lane: Lane) -> None:
        """Leaves a lane to the job that runs there. Queued jobs move to another lane."""
        with self._lock:
            if lane is self._lane:
                self._lane = Lane("inspector-inline")
                lane.hand_over(self._lane)

    def _compile(self, job: Job[CompiledProgram], request: CompileRequest) -> CompiledProgram:
        from inspector._jax.compiling.configuration import read_config
        from inspector.compilation.options.flag_targets import start_warnings
        from inspector.engines.assemble import Shower, check_request, refusal, request_warnings
        from inspector.engines.workers.messages import plain_compile

        queue_s = job.elapsed_s
        check_request(request)
        started = start_warnings(request.options, request.program.platform)
        warnings = (*request_warnings(request), *started, *_notices(request.program), UNHEARD)
        callbacks = callbacks_of(request.program)
        plain = plain_compile(request, read_config())
        server = self._server(request.target)
        try:
            report = server.compile(plain, lambda stage: advance(job, stage), callbacks)
        except CompilationError as e:
            raise refusal(e, request.program) from e.__cause__
        Shower(job, request, self.name, queue_s, warnings).result(report)
        _ = report.executable  # otherwise, XLA's executable would live as long as the result
        return job.result()

    def _run(self, job: Job[RunReply], request: RunRequest) -> RunReply:
        from inspector._jax.compiling.configuration import read_config
        from inspector.engines.assemble import make_reply
        from inspector.engines.workers.messages import plain_run

        callbacks = callbacks_of(request.compiled.program)
        plain = plain_run(request, read_config())
        server = self._server(request.compiled.target)
        if callbacks is None:
            return make_reply(server.run(plain, lambda stage: advance(job, stage)))
        with recording_prints() as printed:
            reply = make_reply(server.run(plain, lambda stage: advance(job, stage), callbacks))
        return dataclasses.replace(reply, printed=str(printed))

    def _server(self, target: Target) -> Server:
        if target.is_absent:
            raise TargetError(
                f"{target} is not attached, and its compiler is not loaded into this process, because that would change the"
                " process's own devices. Remove the engine argument: a worker compiles for it."
            )
        servers: dict[Target, Server]  # a server is for one thread
        servers = self._of_thread.servers = getattr(self._of_thread, "servers", {})
        if target not in servers:
            compiler = compiler_of(target)
            servers[target] = Server(lambda _: compiler, self._count)
        return servers[target]


class _InlineJob(Job[T]):
    def __init__(self, give_up: Callable[[], None]) -> None:
        """Creates the job. `give_up` lets other jobs continue when this one may never end."""
        super().__init__()
        self._give_up = give_up

    def cancel(self) -> bool:
        """Drops the result. The error reports when the work itself continues."""
        if self.is_queued:
            return super().cancel()
        is_ended = self.fail(
            CancelledError(
                "The job was canceled and its result will be dropped, but XLA cannot be stopped inside this"
                " process: it continues in the background until it is done. Later jobs wait for it, unless it is a run of a"
                " program that calls back into Python."
            ),
            stage="cancelled",
        )
        self._give_up()
        return is_ended


def _notices(program: Program) -> tuple[str, ...]:
    if not program.host_callbacks:
        return ()
    notice = (
        f"The program {program.name!r} calls back into this process (jax.debug.print, io_callback, pure_callback), so it"
        " is compiled and run here, not in a worker, and is not cached. If XLA crashes, this process ends."
    )
    return (notice,)
