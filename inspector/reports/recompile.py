"""`Recompiler`: an engine for recorded programs, which come from outside and perhaps from another JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.engines.job_queue import Lane, forward
from inspector.engines.serving import callbacks_of
from inspector.engines.shared_engines import default_engine, worker_engine
from inspector.errors import TargetError, Unavailable
from inspector.reports import jax_versions
from inspector.reports.other_jax import OtherJax
from inspector.reports.portable import PortableModules, installed_jax, ported


class Recompiler:
    """Compiles with the installed JAX, in workers, what an exploration has the programs of. Thread-safe.

    What reads a module or compiles it is never this process: a damaged one may end whoever does.
    """

    name = "recompile"

    def __init__(self, portable: PortableModules) -> None:
        """Nothing is started yet; `portable` are the modules of the programs."""
        self._portable = portable
        self._other = OtherJax(portable, _there)
        self._ported: dict[str, Program] = {}
        self._lane = Lane("inspector-recompile")

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        if request.target.jax not in ("", installed_jax()):
            return self._other.submit(request)
        request = dataclasses.replace(request, target=request.target.by(""))
        started: list[Job[CompiledProgram]] = []

        def cancel() -> None:
            for inner in started:
                inner.cancel()

        def fail(reading: Job[None]) -> None:
            error = reading.exception()
            if error is not None:
                job.fail(error)

        def start() -> None:
            job.advance("reading the module")
            here = dataclasses.replace(request, program=self._here(request.program))
            started.append(_engine(here.program, here.target).submit(here))
            forward(started[0], job)

        job: Job[CompiledProgram] = Job(cancel=cancel)
        reading: Job[None] = Job()
        reading.add_done_callback(fail)
        self._lane.put(reading, start)
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running what it compiled; see `Engine.run`."""
        if request.compiled.target.jax not in ("", installed_jax()):
            return self._other.run(request)
        return _engine(request.compiled.program, request.compiled.target).run(request)

    def close(self) -> None:
        """Waits for nothing."""
        self._lane.close()
        self._other.close()

    def _here(self, program: Program) -> Program:
        """The program for this JAX."""
        callbacks_of(program)  # refuses those that are gone
        if program.digest not in self._ported:
            self._ported[program.digest] = ported(program, self._portable)
        return dataclasses.replace(program, module=self._ported[program.digest].module)


def _engine(program: Program, target: Target) -> Engine:
    """The engine that suits, but for this process's own."""
    found = default_engine(program, target)
    return worker_engine() if found.name == "inline" else found


def runnable(compiled: CompiledProgram, engine: Engine) -> CompiledProgram:
    """A recorded program with machine code of this JAX; waits for its compile."""
    if not isinstance(compiled.executable, Unavailable):
        return compiled
    return engine.submit(CompileRequest(compiled.program, compiled.options, compiled.target)).result()


def _there(version: str, platform: str, _: Callable[[str], object]) -> Path:
    """The Python of another JAX that was installed before: a file that was opened installs nothing."""
    found = jax_versions.installed(version, platform)
    if found is None:
        raise TargetError(
            f"This was recorded with JAX {version}, which is not installed in {jax_versions.folder_of(version, platform)}."
            f" Choose a target without '@jax=={version}', for which JAX {installed_jax()} compiles, or have it installed:"
            f" exploration.replay(jax={version!r})."
        )
    return found
