"""`compare_runs`: compares the results and the times of two runs, or of two programs that run in turns."""

from __future__ import annotations

import dataclasses
from typing import Any, overload

from inspector.compilation.compiled import CompiledProgram
from inspector.errors import ParameterError
from inspector.execution.comparison import Comparison, compare_outcomes
from inspector.execution.outcome import Outcome
from inspector.execution.run import Run, run
from inspector.support.notebook import short


@overload
def compare_runs(run: Run, other: Run, /) -> Comparison: ...


@overload
def compare_runs(run: CompiledProgram, other: CompiledProgram, /, *args: Any, **kwargs: Any) -> Comparison: ...


def compare_runs(
    first: Run | CompiledProgram, other: Run | CompiledProgram, /, *args: Any, **kwargs: Any
) -> Comparison:
    """Compares the outputs and durations of two runs with the same inputs, or of two compiled programs.

    Two compiled programs run in turns, so that a machine that gets slower or busier affects both alike, until one is known to be
    faster: 20 to 160 times each, for about a minute.

    Args:
      first: a run, or a compiled program.
      other: another one, with which it is compared.
      args: for programs, the function's arguments, as for `Compiled.run`; without any, inputs are generated.
      kwargs: for programs, its keyword arguments.

    Raises:
      ExecutionError: the inputs, or the number, shapes or types of outputs, differ; or a program cannot run.
      ParameterError: neither two runs nor two compiled programs, or arguments for runs.
    """
    if isinstance(first, Run) and isinstance(other, Run):
        if args or kwargs:
            raise ParameterError(
                f"compare_runs of two runs takes no further arguments, got {len(args) + len(kwargs)}. Pass two compiled programs to run"
                " them in turns."
            )
        return compare_outcomes(Outcome.of(first), Outcome.of(other))
    if isinstance(first, CompiledProgram) and isinstance(other, CompiledProgram):
        return _in_turns(first, other, args, kwargs)
    raise ParameterError(
        f"compare_runs compares two runs, from Compiled.run(), or two compiled programs, from Lowered.compile(). Got {short(first)} and"
        f" {short(other)}."
    )


def _in_turns(
    first: CompiledProgram, other: CompiledProgram, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Comparison:
    from inspector.engines.choice import engine_for
    from inspector.execution.interleaved import Measured, run_until_apart, timers

    programs = first, other
    engines = engine_for(None, first.program, first.target), engine_for(None, other.program, other.target)
    runs = [run(each, engine, args, kwargs, repeat=1, warmup=0) for each, engine in zip(programs, engines, strict=True)]
    compared = compare_outcomes(*map(Outcome.of, runs))
    ours, theirs = timers(programs, engines, args, kwargs)
    measured = run_until_apart((ours, theirs))
    return dataclasses.replace(compared, speed=measured.speed if isinstance(measured, Measured) else measured)
