"""`DaskEngine`: the same requests on a Dask cluster that exists already, for sweeps beyond one machine.

Requests and results cross as bytes. On the other side inspector's own engines do the work, so what
aborts XLA costs a process of ours there and not the Dask worker. Dask alone decides who does what,
and when.

    here                           a Dask worker
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

# JAX's configuration is one for a process, and a Dask worker may have several threads.
_configuring = threading.Lock()


class DaskEngine:
    """Compiles and runs on a cluster. Thread-safe.

    A job that was cancelled is not begun; one that runs goes on until it is done, and its result is
    dropped. The target "attached" means the device of the Dask worker that gets the request.
    """

    name = "dask"

    def __init__(self, client: Client | None = None, time_limit_s: float | None = None) -> None:
        """Connects nothing: it takes a connection that there is.

        Args:
          client: of `dask.distributed`, not an asynchronous one; None for this process's own.
          time_limit_s: a compile that takes longer costs its process over there; None for no limit.

        Raises:
          MissingPackageError: `distributed` is not installed.
          TargetError: there is no client, or it is asynchronous.
        """
        self._client = client or _current_client()
        if self._client.asynchronous:
            raise TargetError("The Dask client is asynchronous. Make one with Client(..., asynchronous=False).")
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
        """Cancels every job. The client and its cluster are the user's and stay."""
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
        if job.done():  # closed while it was sent
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
                " pure_callback), so no other machine can compile or run it. Use engine='inline'."
            )
        # A key of its own and pure=False: Dask would answer an equal request from its memory, with old timings.
        key = f"inspector-{uuid.uuid4().hex}"
        data = pickle.dumps(request)
        return self._client.submit(serve, data, read_config(), self._time_limit_s, key=key, pure=False)

    def _forget(self, job: Job[Any]) -> None:
        with self._lock:
            self._jobs.pop(job, None)


def serve(data: bytes, config: Mapping[str, Any], time_limit_s: float | None) -> Reply:
    """Does one request. Called by Dask on a worker's thread.

    Args:
      data: a pickled `CompileRequest` or `RunRequest`.
      config: JAX's configuration where the request comes from.
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
            found = _limited(job, time_limit_s)
        # The other side has the module.
        return "value", pickle.dumps(dataclasses.replace(found, program=dataclasses.replace(found.program, module=b"")))
    except Exception as e:
        return "error", messages.write_error(e)[0]


def _limited(job: Job[T], time_limit_s: float | None) -> T:
    try:
        return job.result(time_limit_s)
    except TimeoutError:
        job.cancel()
        raise TimeLimitError(
            f"The request took longer than the limit of {time_limit_s:g} s, so its process was stopped. Nothing else"
            " was lost."
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
    """Ends a job by its future; on a thread of the client's."""
    from inspector.engines.workers import messages

    try:
        if future.cancelled():  # not by this job's own `cancel`, which ended it
            job.fail(WorkerLostError("The cluster dropped the request. Its scheduler may have been started again."))
            return
        kind, value = future.result()
        if kind == "error":
            job.fail(messages.read_error(value))
        else:
            result = finish(pickle.loads(value))
            if isinstance(result, CompiledProgram):
                job.show(Preview.of(result, job.elapsed_s))
            job.resolve(result)
    except BaseException as e:  # whatever it is, someone waits for the job
        job.fail(_map_error(e))
    finally:
        future.release()  # or the cluster keeps the result for as long as the job lives


def _map_error(error: BaseException) -> BaseException:
    if type(error).__name__ == "KilledWorker":
        # What XLA ends is a process of ours over there, and no worker of Dask's.
        return WorkerLostError(f"The Dask workers that had the request were ended, and Dask gave up: {error}")
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
            "engine='dask' takes this process's Dask client, and there is none. Connect one first, such as"
            " client = dask.distributed.Client('scheduler:8786'), or give the client itself."
        ) from e
