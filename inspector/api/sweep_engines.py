"""The engines of one sweep: the caller's, or workers that the sweep starts and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspector.compilation.engine import Engine
from inspector.compilation.target import Target
from inspector.engines.choice import chosen_engine
from inspector.engines.shared_engines import default_engine
from inspector.errors import ParameterError
from inspector.stages.lowered import Lowered
from inspector.support.notebook import short

if TYPE_CHECKING:
    from inspector.engines.workers.worker_engine import WorkerEngine


class SweepEngines:
    """The engines of one sweep. Those that it started are closed with it."""

    def __init__(self, lowered: Lowered, engine: Any, time_limit_s: float | None) -> None:
        self._program = lowered.program
        self._time_limit_s = time_limit_s
        self._made: list[Engine] = []
        self._worker: WorkerEngine | None = None
        self._warmed: set[Target] = set()
        self._engine = self._resolve(engine)

    def engine_for(self, target: Target) -> Engine:
        """Returns the engine that compiles for a target."""
        engine = self._engine
        if engine is None:
            suited = default_engine(self._program, target)
            engine = self._own_worker() if suited.name == "worker" else suited
        if self._worker is not None and engine is self._worker and target not in self._warmed:
            self._warmed.add(target)
            self._worker.warm(target)  # so that the limit of the first compile does not pay for it
        return engine

    def __enter__(self) -> SweepEngines:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._made:
            engine.close()

    def _resolve(self, engine: Any) -> Engine | None:
        if engine == "worker":
            return self._own_worker()
        if engine == "dask" or type(engine).__module__.partition(".")[0] == "distributed":
            from inspector.engines.dask import DaskEngine

            return self._keep(DaskEngine(None if engine == "dask" else engine, self._time_limit_s))
        result = chosen_engine(engine)
        if result is None or engine == "inline":
            return result
        if self._time_limit_s is not None:
            raise ParameterError(
                f"time_limit_s={self._time_limit_s:g} has no effect on an existing engine, got {short(engine)}. Remove one of"
                " the two."
            )
        return result

    def _own_worker(self) -> WorkerEngine:
        if self._worker is None:
            from inspector.engines.workers.worker_engine import WorkerEngine, WorkerSettings

            self._worker = WorkerEngine(WorkerSettings(time_limit_s=self._time_limit_s))
            self._keep(self._worker)
        return self._worker

    def _keep(self, engine: Engine) -> Engine:
        self._made.append(engine)
        return engine
