"""`Recompiler`: an engine for recorded programs, from untrusted sources and possibly from another JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from inspector.compilation.compiled import CompiledProgram, executable_of
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
    """Compiles recorded programs with the installed JAX, in workers. Thread-safe.

    Modules are read and compiled in other processes only, because a damaged module may crash the process.
    """

    name = "recompile"

    def __init__(self, portable: PortableModules) -> None:
        """Creates the engine without starting anything. `portable` has the modules of the programs."""
        self._portable = portable
        self._other = OtherJax(portable, _installed_python)
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
            local = dataclasses.replace(request, program=self._for_this_jax(request.program))
            started.append(_engine(local.program, local.target).submit(local))
            forward(started[0], job)

        job: Job[CompiledProgram] = Job(cancel=cancel)
        reading: Job[None] = Job()
        reading.add_done_callback(fail)
        self._lane.put(reading, start)
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running a program that it compiled; see `Engine.run`."""
        if request.compiled.target.jax not in ("", installed_jax()):
            return self._other.run(request)
        return _engine(request.compiled.program, request.compiled.target).run(request)

    def close(self) -> None:
        """Closes the engine without waiting."""
        self._lane.close()
        self._other.close()

    def _for_this_jax(self, program: Program) -> Program:
        """Returns the program in a form for this JAX."""
        callbacks_of(program)  # raises an error if its callbacks are missing
        if program.digest not in self._ported:
            self._ported[program.digest] = ported(program, self._portable)
        return dataclasses.replace(program, module=self._ported[program.digest].module)


def _engine(program: Program, target: Target) -> Engine:
    """Returns the default engine, but a worker instead of the inline engine."""
    engine = default_engine(program, target)
    return worker_engine() if engine.name == "inline" else engine


def runnable(compiled: CompiledProgram, engine: Engine) -> CompiledProgram:
    """Returns a recorded program with machine code of this JAX. Waits for its compile."""
    if not isinstance(executable_of(compiled), Unavailable):
        return compiled
    return engine.submit(CompileRequest(compiled.program, compiled.options, compiled.target)).result()


def _installed_python(version: str, platform: str, _: Callable[[str], object]) -> Path:
    """Returns the Python of another JAX if it is installed. Opening a file must not install anything."""
    python = jax_versions.installed(version, platform)
    if python is None:
        raise TargetError(
            f"This was recorded with JAX {version}, which is not installed in {jax_versions.folder_of(version, platform)}."
            f" Use a target without '@jax=={version}' to compile with JAX {installed_jax()}, or install that version with"
            f" exploration.replay(jax={version!r})."
        )
    return python
