"""`ReplayEngine`: answers from what was recorded, at once; asks another engine for everything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from inspector.compilation.compiled import CompiledProgram, not_asked_for
from inspector.compilation.engine import Engine, Job
from inspector.compilation.preview import Preview
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.errors import CancelledError, InspectorError, Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered with: the program, or the error."""

    request: CompileRequest
    result: CompiledProgram | InspectorError


class ReplayEngine:
    """Answers what was asked before, without a compiler. Thread-safe."""

    name = "replay"

    def __init__(self, answers: Iterable[Answer], otherwise: Callable[[Program, Target], Engine]) -> None:
        """Nothing is started.

        Args:
          answers: what was recorded.
          otherwise: the engine for a program and a target; asked for what was not recorded, and for every run. What it
            raises, the job ends with.
        """
        self._answers = {_key(answer.request): answer.result for answer in answers}
        self._otherwise = otherwise

    def has(self, request: CompileRequest) -> bool:
        """Whether such a program was recorded."""
        return _key(request) in self._answers

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Answers, or starts compiling; see `Engine.submit`."""
        found = self._answers.get(_key(request))
        if isinstance(found, CompiledProgram) and not _has(found, request.products):
            found = None
        if found is None:
            return self._compile(request)
        job: Job[CompiledProgram] = Job()
        if isinstance(found, CompiledProgram):
            compiled = dataclasses.replace(found, program=request.program)
            job.show(Preview.of(compiled, job.elapsed_s))
            job.resolve(compiled)
        else:
            job.fail(found, stage="cancelled" if isinstance(found, CancelledError) else "failed")
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running what has machine code; see `Engine.run`."""
        try:
            return self._otherwise(request.compiled.program, request.compiled.target).run(request)
        except InspectorError as e:
            return _failed(e)

    def close(self) -> None:
        """Nothing is its own."""

    def _compile(self, request: CompileRequest) -> Job[CompiledProgram]:
        try:
            return self._otherwise(request.program, request.target).submit(request)
        except InspectorError as e:
            return _failed(e)


def _failed(error: InspectorError) -> Job:  # type: ignore[type-arg]  # of anything
    job: Job[object] = Job()
    job.fail(error)
    return job


def _key(request: CompileRequest) -> tuple[str, str, Target]:
    return request.program.digest, request.build_options.to_json(), request.target


def _has(compiled: CompiledProgram, products: Iterable[str]) -> bool:
    """Whether it has the products, or says why there are none though they were asked for."""
    values = [(name, getattr(compiled, name)) for name in products]
    return not any(isinstance(value, Unavailable) and value == not_asked_for(name) for name, value in values)
