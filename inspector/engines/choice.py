"""The engine that a user means, in every form that users write one."""

from __future__ import annotations

from typing import Any, cast

from inspector.compilation.engine import Engine
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.engines.shared_engines import default_engine, inline_engine, worker_engine
from inspector.errors import ParameterError


def engine_for(given: object, program: Program, target: Target) -> Engine:
    """The engine that a user means; for None the one that suits program and target. Errors as of `chosen_engine`."""
    return chosen_engine(given) or default_engine(program, target)


def chosen_engine(given: object) -> Engine | None:
    """The engine that a user means; None for none, where the one that suits is to be taken.

    Args:
      given: "worker" (a process of its own), "inline" (this process), "dask" (this process's Dask client), a Dask
        client, or an engine. What is named compiles anew: nothing that is remembered is taken.

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
