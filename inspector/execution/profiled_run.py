"""Runs a compiled program under JAX's profiler and returns the engine's reply with the recorded `XSpace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine
from inspector.compilation.request import RunReply
from inspector.errors import ExecutionError
from inspector.execution.run import choose_inputs, start


def run_profiled(
    compiled: CompiledProgram,
    engine: Engine,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    repeat: int,
    warmup: int,
) -> RunReply:
    """Runs a program under the profiler and waits for the result. See `Compiled.profile`.

    Raises:
      ExecutionError: the inputs do not match the program, the run failed, or it has no profile.
    """
    inputs = choose_inputs(compiled, args, kwargs or {})
    reply = start(compiled, inputs, engine, repeat=repeat, warmup=warmup, profiled=True).result()
    if not reply.xspace:
        raise ExecutionError(
            f"The engine {engine.name!r} returned no profile of {compiled.program.name}. Use engine='worker' or 'inline'."
        )
    return reply
