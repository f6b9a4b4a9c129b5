"""Chooses the engine for every form in which users may name one."""

from __future__ import annotations

from typing import Any, cast

from inspector.compilation.engine import Engine
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.engines.shared_engines import default_engine, inline_engine, worker_engine
from inspector.errors import ParameterError


def engine_for(given: object, program: Program, target: Target) -> Engine:
    """Returns the engine that a user names; for None, the default of the program and target. Raises as `chosen_engine`."""
    return chosen_engine(given) or default_engine(program, target)


def chosen_engine(given: object) -> Engine | None:
    """Returns the engine that a user names, or None for None, which means the default engine.

    Args:
      given: "worker" (a separate process), "inline" (this process), "dask" (this process's Dask client), a Dask
        client, or an engine. These engines always compile: they do not use the cache.

    Raises:
      ParameterError: none of these.
      MissingPackageError, TargetError: there is no Dask client.
    """
    if given is None:
        return None
    if isinstance(given, str) and given in ("worker", "inline"):
        return worker_engine() if given == "worker" else inline_engine()
    if given == "dask" or type(given).__module__.partition(".")[0] == "distributed":
        from inspector.engines.dask import DaskEngine

        return DaskEngine(None if given == "dask" else cast("Any", given))
    if isinstance(given, type) or not all(hasattr(given, name) for name in ("submit", "run", "close")):
        raise ParameterError(
            f"engine must be 'worker', 'inline', 'dask', a Dask client, an engine or None, got {given!r}."
        )
    return cast("Engine", given)
