"""`compile_time` finds the part of a program that makes its compile slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, overload

from inspector.api.bisection.compile_search import CompileTimeSearch
from inspector.api.bisection.jobs import CompileTimeJob as CompileTimeJob
from inspector.compilation.engine import EngineLike
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.errors import OptionError, check_bool
from inspector.settings import check_time_limit
from inspector.stages.bisection.compile_time_result import CompileTime as CompileTime
from inspector.stages.bisection.sides import Side
from inspector.stages.lowered import Lowered, check_lowered

OptionsLike: TypeAlias = Options | Mapping[str, FlagValue] | str


@overload
def compile_time(
    lowered: Lowered, options: OptionsLike | None = ..., *, target: str | Target = ..., wait: Literal[True] = ...,
    engine: EngineLike | None = ..., time_limit_s: float | None = ..., show_progress: bool = ...,
) -> CompileTime: ...  # fmt: skip
@overload
def compile_time(
    lowered: Lowered, options: OptionsLike | None = ..., *, target: str | Target = ..., wait: Literal[False],
    engine: EngineLike | None = ..., time_limit_s: float | None = ..., show_progress: bool = ...,
) -> CompileTimeJob: ...  # fmt: skip
def compile_time(
    lowered: Lowered,
    options: OptionsLike | None = None,
    *,
    target: str | Target = "attached",
    wait: bool = True,
    engine: EngineLike | None = None,
    time_limit_s: float | None = 600.0,
    show_progress: bool = True,
) -> CompileTime | CompileTimeJob:
    """Finds the part of a program that makes its compile slow, and the compiler passes that take the time.

    Times are CPU seconds of XLA's compile, because other work on the machine makes the elapsed time longer. A compile in several
    threads takes more CPU time than elapsed time.

    1. The whole program is compiled twice; the shorter time counts.
    2. Its operations are divided by scope; scopes with numbers, such as `layer_0` and `layer_1`, are one part. Each part is
       compiled alone. Intermediate values become arguments and results.
    3. The program is compiled without the slowest part. If at least a third of the time is saved, this part is divided in turn:
       by scope, then by line. The body of a loop is divided like a program.
    4. Both programs, with and without the smallest part found, are compiled with their passes recorded.

    Nothing runs, so this works for targets that are not attached. In a program for several devices the compiler chooses the
    shardings of intermediate values, so its parts may be partitioned differently.

    Args:
      lowered: the program.
      options: the compile options.
      target: the target.
      wait: return the result; otherwise return at once the job that works in the background.
      engine: the engine, as for `Lowered.compile`; None for a separate worker where workers suit the target.
      time_limit_s: time limit of all compiles in seconds; None for no limit.
      show_progress: show a bar in a notebook, or a line on a terminal.

    Returns:
      The result, or the job.

    Raises:
      ParameterError: an invalid parameter.
      OptionError, TargetError: an invalid option or target.
      ModuleError: a program without StableHLO.
      CompilationError: the program cannot be compiled, or not within the time limit.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    for name, value in {"wait": wait, "show_progress": show_progress}.items():
        check_bool(name, value, OptionError)
    side = Side.of((target, options), target)
    job = CompileTimeJob(
        lambda tell: CompileTimeSearch(lowered, side, engine, time_limit_s, tell),
        has_bar=show_progress,
        is_background=not wait,
    )
    return job.wait() if wait else job
