"""Chooses the engine for every form in which users may name one."""

from __future__ import annotations

from typing import Any, cast

from inspector.compilation.engine import Engine
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.engines.shared_engines import default_engine, inline_engine, worker_engine
from inspector.errors import ParameterError
from inspector.support.notebook import short


def engine_for(choice: object, program: Program, target: Target) -> Engine:
    """Returns the engine that a user names; for None, the default of the program and target. Raises as `chosen_engine`."""
    return chosen_engine(choice) or default_engine(program, target)


def chosen_engine(choice: object) -> Engine | None:
    """Returns the engine that a user names, or None for None, which means the default engine.

    Args:
      choice: "worker" (a separate process), "inline" (this process), "dask" (this process's Dask client), a Dask
        client, or an engine. These engines always compile: they do not use the cache.

    Raises:
      ParameterError: none of these.
      MissingPackageError, TargetError: there is no Dask client.
    """
    if choice is None:
        return None
    if isinstance(choice, str) and choice in ("worker", "inline"):
        return worker_engine() if choice == "worker" else inline_engine()
    if choice == "dask" or type(choice).__module__.partition(".")[0] == "distributed":
        from inspector.engines.dask import DaskEngine

        return DaskEngine(None if choice == "dask" else cast("Any", choice))
    if isinstance(choice, type) or not all(hasattr(choice, name) for name in ("submit", "run", "close")):
        raise ParameterError(
            f"engine must be 'worker', 'inline', 'dask', a Dask client, an engine or None, got {short(choice)}."
        )
    return cast("Engine", choice)
