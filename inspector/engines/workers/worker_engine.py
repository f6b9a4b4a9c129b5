"""`WorkerEngine`: warm, isolated worker processes, one for each device environment.

If a flag aborts XLA, or a compile hangs, leaks or runs out of memory, one worker ends. The notebook kernel and all
finished results are unaffected. Requests for one device environment are served in order, and different environments
in parallel. Cancelling kills the worker, so that the compile stops. The next request gets a new
worker, which the fork server makes in some tens of milliseconds.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from inspector.compilation.compiled import CompiledProgram, build_options_of
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.engines.job_queue import closed_error, compiling, running
from inspector.engines.workers.environment import Environment, accelerator, check_here, slice_of
from inspector.engines.workers.fork_server import Starter
from inspector.engines.workers.process_output import warnings_in
from inspector.engines.workers.worker_lane import WorkerLane, WorkerRequest
from inspector.engines.workers.worker_lane import WorkerSettings as WorkerSettings
from inspector.engines.workers.worker_memory import most_workers
from inspector.errors import OPTIMIZED, CompilationError, ExecutionError, TargetError, Unavailable, WorkerDiedError

if TYPE_CHECKING:
    from inspector.engines.workers.counting import Counts

T = TypeVar("T")


class WorkerEngine:
    """Compiles and runs in worker processes. Thread-safe."""

    name = "worker"

    def __init__(self, settings: WorkerSettings | None = None, starter: Starter | None = None) -> None:
        """Creates the engine without starting a process.

        Args:
          settings: limits and start method of workers.
          starter: starts the workers, and is closed with the engine; None for one according to the settings.
        """
        self._settings = settings or WorkerSettings()
        self._starter = starter or Starter(self._settings.start)
        self._lanes: dict[Environment, WorkerLane] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._owner = os.getpid()

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""

        def where() -> Environment:
            return Environment.of(request.target, request.build_options, request.products)

        return self._put(where, compiling(request), lambda lane, job: self._compile(lane, job, request))

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        compiled = request.compiled

        def where() -> Environment:
            check_here(compiled.target)
            if accelerator(compiled.target) is not None:
                raise TargetError(
                    f"The device of {compiled.target} belongs to this process, so a worker cannot run on it. Use"
                    " engine='inline', or the target 'cpu'."
                )
            return Environment.of(compiled.target, build_options_of(compiled))

        return self._put(where, running(request), lambda lane, job: self._run(lane, job, request))

    def warm(self, target: Target) -> Job[None]:
        """Starts the target's worker now, so that the first request finds it ready."""
        return self._put(lambda: Environment.of(target, Options()), "", lambda lane, job: lane.prepare(job))

    def count(self, modules: Sequence[bytes]) -> Job[Sequence[Counts | Unavailable]]:
        """Starts counting the operations of HLO modules; see `counting.count`."""
        from inspector.engines.workers import counting

        what = "counting the operations of a module"
        request = WorkerRequest(counting.request(modules), what, Options(), counting.read)
        return self._put(
            lambda: Environment.of(Target("cpu"), Options()),
            what,
            lambda lane, job: lane.ask(job, request)[0],
        )

    def close(self) -> None:
        """Ends every process and cancels every job. May be called repeatedly."""
        if os.getpid() != self._owner:  # in a fork of the notebook kernel: the workers belong to its parent
            return
        with self._lock:
            self._closed = True
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.close()
        self._starter.close()

    def _put(self, where: Callable[[], Environment], what: str, work: Callable[[WorkerLane, Job[T]], T]) -> Job[T]:
        try:
            lane = self._lane(where())
        except Exception as e:
            job: Job[T] = Job()
            job.fail(e)
            return job
        return lane.put(what, work)

    def _lane(self, where: Environment) -> WorkerLane:
        with self._lock:
            if self._closed:
                raise closed_error()
            lane = self._lanes.pop(where, None) or WorkerLane(where, self._starter, self._settings)
            self._lanes[where] = lane  # in order of last use
            for unused in list(self._lanes.values())[: -(self._settings.max_workers or most_workers())]:
                unused.rest()
            return lane

    def _compile(self, lane: WorkerLane, job: Job[CompiledProgram], request: CompileRequest) -> CompiledProgram:
        from inspector._jax.compiling.configuration import read_config
        from inspector.engines.assemble import Shower, check_request, refusal, request_warnings
        from inspector.engines.workers import messages

        queue_s = job.elapsed_s
        check_request(request)
        if request.program.host_callbacks:
            raise TargetError(_callbacks_text(request.program.name))
        plain = messages.plain_compile(request, read_config(), slice_of(request.target))
        message = messages.write_compile(plain)
        warnings = request_warnings(request)
        show = Shower(job, request, self.name, queue_s, warnings)
        worker_request = WorkerRequest(message, compiling(request), request.options, show.report, show)
        if request.program.is_optimized:
            worker_request = dataclasses.replace(worker_request, cause=OPTIMIZED)
        try:
            lane.ask(job, worker_request)
        except (CompilationError, WorkerDiedError) as e:
            show.failed(e)
            if isinstance(e, CompilationError):
                raise refusal(e, request.program) from e.__cause__
            if not warnings:
                raise
            # An invalid list of passes to enable can crash XLA, so the message includes the warnings.
            with_warnings = type(e)(" ".join([str(e), *warnings]))
            with_warnings.buffers = e.buffers
            raise with_warnings from e
        return job.result()

    def _run(self, lane: WorkerLane, job: Job[RunReply], request: RunRequest) -> RunReply:
        from inspector._jax.compiling.configuration import read_config
        from inspector.engines.assemble import make_reply
        from inspector.engines.workers import messages

        compiled = request.compiled
        if compiled.program.host_callbacks:
            raise ExecutionError(_callbacks_text(compiled.program.name))
        message = messages.write_run(messages.plain_run(request, read_config()))
        execution, log = lane.ask(
            job, WorkerRequest(message, running(request), compiled.options, messages.read_execution)
        )
        return make_reply(execution, warnings_in(log))


def _callbacks_text(name: str) -> str:
    return (
        f"The program {name!r} calls back into this process (jax.debug.print, io_callback, pure_callback), so a"
        " worker cannot compile or run it. Use engine='inline'."
    )
