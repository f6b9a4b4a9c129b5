"""`Guarded`: an engine for the programs of a file, which rejects options of the file that could access files."""

from __future__ import annotations

from collections.abc import Collection

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.options.recorded_options import RecordedOptions
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.errors import OptionError
from inspector.reports.recorded_exploration import RecordedExploration


class Guarded:
    """Compiles and runs with another engine, except compiles that `RecordedOptions` rejects. Thread-safe."""

    name = "guarded"

    def __init__(self, engine: Engine, exploration: RecordedExploration, allow: Collection[str] = ()) -> None:
        """Creates the engine without starting anything.

        Args:
          engine: the other engine.
          exploration: contents of the file.
          allow: names of options that the user trusts.

        Raises:
          ParameterError: as in `RecordedOptions.of`.
        """
        self._engine = engine
        # The options of a variant and of its compiled program may differ in a file, and panes compile with the program's.
        recorded = [variant.options for variant in exploration.variants]
        recorded += [variant.program.options for variant in exploration.variants if variant.program is not None]
        self._options = RecordedOptions.of(recorded, allow)

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        try:
            self._options.check(request)
        except OptionError as e:
            job: Job[CompiledProgram] = Job()
            job.fail(e)
            return job
        return self._engine.submit(request)

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        return self._engine.run(request)

    def close(self) -> None:
        """Closes the other engine."""
        self._engine.close()
