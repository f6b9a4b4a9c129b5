"""Estimated times of compiled programs, to rank variants by, and the comparison of programs that includes them."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.analysis.cost import stats
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import roofline
from inspector.compilation.compiled import Built, CompiledProgram
from inspector.compilation.target import Target
from inspector.errors import About, ModuleError, Partial, Unavailable, missing
from inspector.platforms import Peak
from inspector.stages.compiled import collectives_of, instruction_costs

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time of one execution of a program on one device, as in the total of its roofline.

    Attributes:
      estimated_s: seconds, each kernel as fast as its roof allows; `About` if a part is unknown.
      exposed_s: seconds of communication that no kernel hides; included in `estimated_s`.
    """

    estimated_s: float | Unavailable
    exposed_s: float | Unavailable

    def minus(self, other: Estimate) -> Estimate:
        """Returns the difference from another estimate."""
        return Estimate(_difference(self.estimated_s, other.estimated_s), _difference(self.exposed_s, other.exposed_s))


def estimate(program: Built, peak: Peak | None = None) -> Estimate:
    """Returns the estimated time of a program.

    Args:
      program: a compiled program, or its preview.
      peak: the roofs; None for the published ones of the target.
    """
    roofs = peak or peak_of(program.target, program.devices)
    if isinstance(roofs, Unavailable):
        return Estimate(roofs, roofs)
    try:
        total = roofline(program.module(), instruction_costs(program), roofs, collectives_of(program)).total
    except ModuleError as error:
        return Estimate(Unavailable(str(error)), Unavailable(str(error)))
    return Estimate(total.least_s, total.exposed_s)


def _difference(value: float | Unavailable, baseline: float | Unavailable) -> float | Unavailable:
    """Returns a difference of estimates, which is about right if the unknown parts of both are equal."""
    if isinstance(value, Unavailable):
        return value
    if isinstance(baseline, Unavailable):
        return baseline
    change = float(value) - float(baseline)
    unknown = (
        [*missing(value), *missing(baseline)] if isinstance(value, Partial) or isinstance(baseline, Partial) else []
    )
    return About(change, tuple(dict.fromkeys(unknown))) if unknown else change


def compare(
    *compiled: CompiledProgram,
    names: Sequence[str] = (),
    peak: Peak | None = None,
    measure: bool = False,
    repeat: int = 20,
) -> pd.DataFrame:
    """Compares programs in a table with one row per number and one column per program.

    The first program is the baseline. The column of each other program is followed by its difference from the baseline
    (`delta`, in the row's unit). The index has these keys, with units in their names:
      - with `measure`, `measured_s` and `measured_spread_s`: median and interquartile range of the time of one execution.
        Differences smaller than the spread may be noise;
      - `estimated_s` and `exposed_s`: the estimated time of one execution, and the part of it in which the device only waits
        for communication;
      - those of `Compiled.memory` and `Compiled.cost`;
      - the compiler's own `peak_memory_in_bytes`;
      - `vmem_allocated_bytes`, and the same for each memory space other than main memory;
      - `kernels`, `fusions`, `custom_calls`, `collectives`, `collective_bytes` and `estimated_cycles` for one execution,
        with loops counted as often as they run (see `inspector.analysis.cost.kernels`).

    The last column, `unknown`, has the reasons why numbers are missing, and marks numbers known in part as "at least" or
    "about". Numbers known in part have no difference.

    Args:
      compiled: the programs.
      names: names of the columns; () for options and targets.
      peak: the roofs of the estimated times; None for the published ones of each target. For a CPU, pass
        `inspector.measured_peak()`.
      measure: run the programs in turns, with generated inputs. Those of targets that are not attached have no measured time.
      repeat: measured executions of each program, at least 6.

    Raises:
      ParameterError: there is nothing to compare, an argument is not a compiled program, or `repeat` is too small.
    """
    stats.check_compiled(compiled)
    times = measured_durations(compiled, repeat) if measure else None
    return stats.compare(
        *compiled,
        names=names,
        first=lambda program: _stats(estimate(program, peak), None if times is None else times[id(program)]),
    )


def can_be_measured(target: Target) -> bool:
    """Reports whether programs for a target can run on this machine with this version of JAX."""
    return not (target.is_absent or target.jax)


def measured_durations(programs: Sequence[CompiledProgram], repeat: int) -> dict[int, tuple[float, ...] | Unavailable]:
    """Returns the durations of executions in seconds by the `id` of the program. The programs take turns.

    Raises:
      ParameterError: `repeat` is too small.
    """
    from inspector.engines.choice import engine_for
    from inspector.execution.interleaved import check_repeat, run_interleaved, timers

    check_repeat(repeat)
    absent = [each for each in programs if not can_be_measured(each.target)]
    present = [each for each in dict(zip(map(id, programs), programs, strict=True)).values() if each not in absent]
    engines = [engine_for(None, each.program, each.target) for each in present]
    durations = run_interleaved(timers(present, engines), repeat=repeat)
    return {
        **{id(each): Unavailable(f"{each.target} is not attached") for each in absent},
        **dict(zip(map(id, present), durations, strict=True)),
    }


def _stats(known: Estimate, durations_s: tuple[float, ...] | Unavailable | None) -> tuple[stats.Stat, ...]:
    measured: tuple[stats.Stat, ...] = ()
    if durations_s is not None:
        from inspector.execution.run import interquartile_range

        median: float | Unavailable
        spread: float | Unavailable
        if isinstance(durations_s, Unavailable):
            median, spread = durations_s, durations_s
        else:
            median, spread = statistics.median(durations_s), interquartile_range(durations_s)
        measured = (
            stats.Stat("measured_s", "measured time", "seconds", median),
            stats.Stat("measured_spread_s", "spread of the measured time", "seconds", spread),
        )
    return (
        *measured,
        stats.Stat("estimated_s", "estimated time", "seconds", known.estimated_s),
        stats.Stat("exposed_s", "exposed communication", "seconds", known.exposed_s),
    )
