"""`OtherJax`: an engine that compiles with another version of JAX, in a separate installation and process, and runs for CPUs.

    request ── OtherJaxRequest ──▶ a file ── other JAX ──▶ a file ── Reply ──▶ result

That process imports this inspector, not one in its installation, and reads the module in its portable form. It stays for later
requests (`other_jax_connection.py`).
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import COMPILED_BY, Job
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.engines.job_queue import Lane, compiling, running
from inspector.errors import CancelledError, TargetError
from inspector.reports import bundle, jax_versions
from inspector.reports.other_jax_connection import Connection
from inspector.reports.other_jax_messages import QUESTION, REPLY, Measurement, OtherJaxRequest, Reply
from inspector.reports.portable import PortableModules, portable_modules
from inspector.reports.recorded_exploration import RecordedError


class OtherJax:
    """Compiles for targets that name a version of JAX, and runs those for CPUs. Thread-safe. One request at a time for each target."""

    name = "other JAX"

    def __init__(
        self,
        known: PortableModules | None = None,
        find: Callable[[str, str, Callable[[str], object]], Path] = jax_versions.install,
    ) -> None:
        """Creates the engine without installing anything.

        Args:
          known: modules of loaded programs.
          find: returns the Python of a version for a platform.
        """
        self._known, self._find, self._is_closed = known or {}, find, False
        self._lanes: dict[str, tuple[Lane, Connection]] = {}
        self._lock = threading.Lock()

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        return self._put(request, lambda job, connection: self._compile(job, request, connection), compiling(request))

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running a program that it compiled for CPUs, or fails the job: accelerators belong to this process; see `Engine.run`."""
        compiled = request.compiled
        compile_request = CompileRequest(compiled.program, compiled.options, compiled.target)
        asked = Measurement(request.inputs, request.per_replica, request.repeat, request.warmup, request.with_outputs)
        return self._put(
            compile_request,
            lambda job, connection: self._run(job, compile_request, asked, connection),
            running(request),
        )

    def install(self, request: CompileRequest) -> Job[Path]:
        """Starts installing the version that a request names, if needed. Later requests then take the time of their work only."""
        return self._put(request, lambda job, _: self._python(job, request), f"installing JAX {request.target.jax}")

    def close(self) -> None:
        """Cancels queued jobs, stops an installation, and ends the processes."""
        self._is_closed = True
        for lane, connection in self._lanes.values():
            lane.close()
            connection.close()

    def _put(self, request: CompileRequest, work: Callable[[Job[Any], Connection], Any], what: str) -> Job[Any]:
        asking: list[Connection] = []

        def cancel() -> None:
            for each in asking:
                each.stop()

        def begin() -> Any:
            asking.append(connection)
            try:
                return work(job, connection)
            finally:
                asking.clear()

        job: Job[Any] = Job(cancel=cancel)
        # Other requests do not wait for the installation of a version.
        with self._lock:
            lane, connection = self._lanes.setdefault(str(request.target), (Lane("inspector-other-jax"), Connection()))
        lane.put(job, begin, what)
        return job

    def _compile(self, job: Job[Any], request: CompileRequest, connection: Connection) -> CompiledProgram:
        version = request.target.jax
        python = self._python(job, request)
        job.advance(f"compiling with JAX {version}")
        result = self._ask(python, request, None, connection)
        assert isinstance(result, CompiledProgram)
        home = python.parent.parent
        where = f"{COMPILED_BY}{result.versions.get('jax', version)} in {home} ({jax_versions.size_of(home)} on disk)."
        return dataclasses.replace(
            result,
            program=request.program,
            options=request.options,
            target=request.target,
            warnings=(*result.warnings, where),
        )

    def _run(
        self, job: Job[Any], request: CompileRequest, measurement: Measurement, connection: Connection
    ) -> RunReply:
        target = request.target
        if _platform(request) != "cpu":
            raise TargetError(
                f"{target} uses JAX {target.jax}, which runs programs for CPUs only. Run the program for {target.by('')}."
            )
        python = self._python(job, request)
        job.advance(f"running with JAX {target.jax}")
        result = self._ask(python, request, measurement, connection)
        assert isinstance(result, RunReply)
        return result

    def _python(self, job: Job[Any], request: CompileRequest) -> Path:
        platform = _platform(request)
        with jax_versions.wanted_while(lambda: not job.done() and not self._is_closed):
            python = self._find(request.target.jax, platform, job.advance)
        if job.done():
            raise CancelledError("The job was canceled.")
        return python

    def _ask(
        self, python: Path, request: CompileRequest, measurement: Measurement | None, connection: Connection
    ) -> CompiledProgram | RunReply:
        program = request.program
        portable = portable_modules([program], self._known)[program.digest]
        target, products = request.target.by(""), tuple(sorted(request.products))
        content = OtherJaxRequest(program, request.options, target, products, portable, measurement)
        with tempfile.TemporaryDirectory(prefix="inspector-") as folder:
            question, answer = Path(folder) / "question", Path(folder) / "answer"
            bundle.write(content, question, QUESTION, is_temporary=True)
            connection.ask(python, request.target.jax, question, answer)
            result = bundle.read(Reply, answer, REPLY).result
        if isinstance(result, RecordedError):
            raise result.error
        return result


def _platform(request: CompileRequest) -> str:
    """Returns the platform to compile for: "cpu", "gpu" or "tpu". Attached accelerators belong to this process."""
    target, lowered_for = request.target, request.program.platform
    if target.kind == "cpu" or (target.kind == "attached" and lowered_for == "cpu"):
        return "cpu"
    if not target.is_absent:
        raise TargetError(
            f"{target} means the devices of this process, which another JAX cannot use. Name their kind instead, such as"
            f" 'gpu:h100@jax=={target.jax}'."
        )
    return target.kind


def other_jax_of(target: Target) -> OtherJax | None:
    """Returns the engine of a target that names another version of JAX; None for the installed JAX."""
    return shared_other_jax() if target.jax else None


@functools.cache
def shared_other_jax() -> OtherJax:
    """Returns this process's engine, which installs versions as needed. It is closed when the process ends."""
    engine = OtherJax()
    atexit.register(engine.close)
    return engine
