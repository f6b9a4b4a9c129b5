"""`DaskEngine`: serves requests on an existing Dask cluster, for sweeps beyond one machine.

Requests and results are sent as bytes. On the cluster, inspector's own engines do the work, so if XLA
aborts, one of inspector's workers ends and not the Dask worker. Dask alone schedules the
requests.

    this process                   a Dask worker
    DaskEngine.submit ─ bytes ─▶   serve ─▶ default_engine ─▶ Job.result
    Job ◀─ callback of the future ── bytes
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.preview import Preview
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.engines.job_queue import closed_error
from inspector.errors import (
    ExecutionError,
    MissingPackageError,
    TargetError,
    TimeLimitError,
    WorkerLostError,
)
from inspector.support.install_commands import install_command, sentence

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
Reply = tuple[Literal["value", "error"], Any]

# JAX's configuration is shared by a process, and a Dask worker may have several threads.
_configuring = threading.Lock()


class DaskEngine:
    """Compiles and runs on a cluster. Thread-safe.

    A canceled job that has not begun is not run. One that runs continues until it is done, and its result is
    dropped. The target "attached" means the device of the Dask worker that runs the request.
    """

    name = "dask"

    def __init__(self, client: Client | None = None, time_limit_s: float | None = None) -> None:
        """Uses an existing connection and creates none.

        Args:
          client: a client of `dask.distributed`, not an asynchronous one; None for this process's own.
          time_limit_s: a compile that takes longer is stopped; None for no limit.

        Raises:
          MissingPackageError: `distributed` is not installed.
          TargetError: there is no client, or it is asynchronous.
        """
        self._client = client or _current_client()
        if self._client.asynchronous:
            raise TargetError("The Dask client is asynchronous. Create one with Client(..., asynchronous=False).")
        self._time_limit_s = time_limit_s
        self._lock = threading.Lock()
        self._jobs: dict[Job[Any], list[Future]] = {}
        self._closed = False

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""

        def finish(compiled: CompiledProgram) -> CompiledProgram:
            return dataclasses.replace(compiled, program=request.program, _engine=self.name)

        return self._send(request, request.program, finish)

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        return self._send(request, request.compiled.program, lambda reply: reply)

    def close(self) -> None:
        """Cancels every job. Does not close the client or its cluster, which belong to the user."""
        with self._lock:
            self._closed = True
            jobs = tuple(self._jobs.items())
        for job, futures in jobs:
            if job.fail(closed_error(), stage="cancelled"):
                for future in futures:
                    future.cancel()

    def _send(self, request: CompileRequest | RunRequest, program: Program, finish: Callable[[Any], T]) -> Job[T]:
        job: Job[T] = Job(cancel=lambda: futures[0].cancel() if futures else None)
        futures: list[Future] = []
        job.add_done_callback(self._forget)
        try:
            with self._lock:
                if self._closed:
                    raise closed_error()
                self._jobs[job] = futures
            futures.append(self._start(request, program))
        except Exception as e:
            job.fail(e)
            return job
        if job.done():  # the engine was closed meanwhile
            futures[0].cancel()
        job.advance("on the cluster")
        futures[0].add_done_callback(lambda future: _settle(job, future, finish))
        return job

    def _start(self, request: CompileRequest | RunRequest, program: Program) -> Future:
        from inspector._jax.compiling.configuration import read_config
        from inspector.engines.assemble import check_request

        if isinstance(request, CompileRequest):
            check_request(request)
        if program.host_callbacks:
            raise TargetError(
                f"The program {program.name!r} calls back into this process (jax.debug.print, io_callback,"
                " pure_callback), so another machine cannot compile or run it. Use engine='inline'."
            )
        # A unique key and pure=False: otherwise, Dask would return an earlier result with old timings for an equal request.
        key = f"inspector-{uuid.uuid4().hex}"
        data = pickle.dumps(request)
        return self._client.submit(serve, data, read_config(), self._time_limit_s, key=key, pure=False)

    def _forget(self, job: Job[Any]) -> None:
        with self._lock:
            self._jobs.pop(job, None)


def serve(data: bytes, config: Mapping[str, Any], time_limit_s: float | None) -> Reply:
    """Serves one request. Called by Dask on a worker's thread.

    Args:
      data: a pickled `CompileRequest` or `RunRequest`.
      config: JAX's configuration in the process that sent the request.
      time_limit_s: see `DaskEngine`.

    Returns:
      ("value", a pickled `Compiled` without its module, or `RunReply`), or ("error", a header of
      `messages.write_error`).
    """
    from inspector.engines.shared_engines import default_engine
    from inspector.engines.workers import messages

    request: CompileRequest | RunRequest = pickle.loads(data)
    try:
        if isinstance(request, RunRequest):
            compiled = request.compiled
            job: Job[Any] = default_engine(compiled.program, compiled.target).run(request)
            return "value", pickle.dumps(_limited(job, time_limit_s))
        with _configured(config):
            job = default_engine(request.program, request.target).submit(request)
            result = _limited(job, time_limit_s)
        # The process that sent the request has the module.
        return "value", pickle.dumps(
            dataclasses.replace(result, program=dataclasses.replace(result.program, module=b""))
        )
    except Exception as e:
        return "error", messages.write_error(e)[0]


def _limited(job: Job[T], time_limit_s: float | None) -> T:
    try:
        return job.result(time_limit_s)
    except TimeoutError:
        job.cancel()
        raise TimeLimitError(
            f"The request took longer than the limit of {time_limit_s:g} s, so its process was stopped. Your session is"
            " unaffected."
        ) from None


@contextlib.contextmanager
def _configured(config: Mapping[str, Any]) -> Iterator[None]:
    from inspector._jax.compiling.configuration import apply_config, read_config

    ours = read_config()
    if ours == config:
        yield
        return
    with _configuring:
        ours = read_config()
        apply_config(config)
        try:
            yield
        finally:
            apply_config(ours)


def _settle(job: Job[T], future: Future, finish: Callable[[Any], T]) -> None:
    """Ends a job with the result of its future. Called on a thread of the client."""
    from inspector.engines.workers import messages

    try:
        if future.cancelled():  # not by `Job.cancel`, which would have ended the job
            job.fail(
                WorkerLostError("The cluster dropped the request. Its scheduler may have been restarted. Try again.")
            )
            return
        kind, value = future.result()
        if kind == "error":
            job.fail(messages.read_error(value))
        else:
            result = finish(pickle.loads(value))
            if isinstance(result, CompiledProgram):
                job.show(Preview.of(result, job.elapsed_s))
            job.resolve(result)
    except BaseException as e:  # any error must end the job, because callers wait for it
        job.fail(_map_error(e))
    finally:
        future.release()  # otherwise, the cluster would store the result as long as the job lives


def _map_error(error: BaseException) -> BaseException:
    if type(error).__name__ == "KilledWorker":
        # XLA runs in a process of inspector there, so it cannot have ended the Dask worker.
        return WorkerLostError(f"The Dask workers that ran the request ended, and Dask does not retry it: {error}")
    return ExecutionError(f"The Dask cluster failed: {type(error).__name__}: {error}")


def _current_client() -> Client:
    try:
        import distributed
    except ImportError as e:
        raise MissingPackageError(
            "engine='dask' needs the package distributed, which is not installed."
            f" {sentence(install_command('jax-inspector[dask]'))}"
        ) from e
    try:
        return distributed.default_client()
    except ValueError as e:
        raise TargetError(
            "engine='dask' uses this process's Dask client, but there is none. Connect one first, for example with"
            " client = dask.distributed.Client('scheduler:8786'), or pass a client as the engine."
        ) from e
