"""`ReplayEngine`: answers from a recording at once, and passes all other requests to another engine."""

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
    """A recorded request with its result: the program or the error."""

    request: CompileRequest
    result: CompiledProgram | InspectorError


class ReplayEngine:
    """Answers recorded requests without a compiler. Thread-safe."""

    name = "replay"

    def __init__(self, answers: Iterable[Answer], otherwise: Callable[[Program, Target], Engine]) -> None:
        """Creates the engine without starting anything.

        Args:
          answers: the recorded answers.
          otherwise: returns the engine for a program and a target, for requests that were not recorded and for every run.
            If it raises, the job fails with that error.
        """
        self._answers = {_key(answer.request): answer.result for answer in answers}
        self._otherwise = otherwise

    def has(self, request: CompileRequest) -> bool:
        """Reports whether the program was recorded."""
        return _key(request) in self._answers

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Answers from the recording, or starts compiling; see `Engine.submit`."""
        recorded = self._answers.get(_key(request))
        if isinstance(recorded, CompiledProgram) and not _has(recorded, request.products):
            recorded = None
        if recorded is None:
            return self._compile(request)
        job: Job[CompiledProgram] = Job()
        if isinstance(recorded, CompiledProgram):
            compiled = dataclasses.replace(recorded, program=request.program)
            job.show(Preview.of(compiled, job.elapsed_s))
            job.resolve(compiled)
        else:
            job.fail(recorded, stage="cancelled" if isinstance(recorded, CancelledError) else "failed")
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running a program that has machine code; see `Engine.run`."""
        try:
            return self._otherwise(request.compiled.program, request.compiled.target).run(request)
        except InspectorError as e:
            return _failed(e)

    def close(self) -> None:
        """Does nothing: the engine owns no resources."""

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
    """Reports whether a program has the products, or a reason why they could not be recorded."""
    values = [(name, getattr(compiled, name)) for name in products]
    return not any(isinstance(value, Unavailable) and value == not_asked_for(name) for name, value in values)
