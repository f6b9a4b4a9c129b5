"""`flag_effect` finds the effect of one flag on a program, `scan` the flags that matter, in the background.

A flag is compiled with each value and compared with the program without it, by the fingerprints of
`analysis/diff/fingerprint.py`. The baseline is compiled twice: differences between these two compiles are noise. A scan stops
each compile once its optimized HLO, memory and cost are known, because machine code takes most of the compile time. Flags that
changed nothing up to there are "unknown", not "nothing".
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector import platforms
from inspector.api.flag_effects.effect import EFFECT_COLUMNS, not_tried, rank, summary
from inspector.api.flag_effects.effect import OUTCOMES as OUTCOMES
from inspector.api.flag_effects.effect import FlagEffect as FlagEffect
from inspector.api.flag_effects.order import in_order
from inspector.api.flag_effects.pool import OverError
from inspector.api.flag_effects.trials import Trial, trials
from inspector.api.flag_effects.trials import boolean_flags as boolean_flags
from inspector.api.flag_effects.trials import left_out as left_out
from inspector.api.flag_effects.variants import (
    Laboratory,
    ScanLimits,
    check_isolated,
    check_runnable,
    cores,
)
from inspector.api.progress import Quiet, background_progress
from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.engines.choice import chosen_engine
from inspector.errors import OptionError, check_bool
from inspector.execution.interleaved import check_repeat
from inspector.platforms import Peak
from inspector.settings import check_time_limit
from inspector.stages.lowered import Lowered, check_lowered

if TYPE_CHECKING:
    import pandas as pd


def flag_effect(
    lowered: Lowered,
    flag: str,
    values: Iterable[FlagValue] | None = None,
    *,
    target: str | Target = "attached",
    options: Options | Mapping[str, FlagValue] | str | None = None,
    engine: EngineLike | None = None,
    time_limit_s: float | None = 60.0,
    peak: Peak | None = None,
    measure: bool = False,
    repeat: int = 20,
) -> pd.DataFrame:
    """Compiles a program with each value of a flag and reports the changes.

    Args:
      lowered: the program.
      flag: name of the flag.
      values: values to try; None for all other values of a bool or an enum.
      target: the target.
      options: options of the baseline, which every compile uses.
      engine: the engine, as for `Lowered.compile`; None for separate workers where workers suit the target.
      time_limit_s: seconds after which a compile is stopped; None for no limit.
      peak: the roofs of estimated times; None for the published ones of the target. For a CPU, pass
        `inspector.measured_peak()`.
      measure: run the programs that differ, in turns with the baseline, and add the columns `measured_s`,
        `measured_spread_s` (interquartile range) and `delta_measured_s`, which is 0 unless the 95% confidence intervals of
        both medians are apart. Inputs are generated.
      repeat: measured executions of each program, at least 6.

    Returns:
      One row per value, in order, with the columns of `ScanJob.table`.

    Raises:
      UnknownFlagError, FlagTypeError: an invalid flag or value; nothing is compiled.
      OptionError: no values for a flag whose type has too many to try, or `values` is not a list.
      ParameterError: `lowered` is not a `Lowered`, or `repeat` is not a number of executions.
      TargetError: the program should be measured, and the target is not attached.
      CompilationError: the baseline cannot be compiled.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    base = Options.of(options)
    tried = trials({flag: values} if values is not None else [flag], base)
    executions = _executions(Target.parse(target), measure, repeat)
    limits = ScanLimits(has_code=True, trial_s=time_limit_s, executions=executions)
    laboratory = Laboratory(lowered, Target.parse(target), base, chosen_engine(engine), limits, peak=peak)
    try:
        return EFFECT_COLUMNS.data_frame(laboratory.measured([laboratory.effect(*trial) for trial in tried]))
    finally:
        laboratory.close()


def scan(
    lowered: Lowered,
    flags: str | Iterable[str] | Mapping[str, Iterable[FlagValue]] | None = None,
    *,
    target: str | Target = "attached",
    options: Options | Mapping[str, FlagValue] | str | None = None,
    engine: EngineLike | None = None,
    time_limit_s: float | None = 300.0,
    trial_limit_s: float | None = None,
    machine_code: bool = False,
    show_progress: bool = True,
    peak: Peak | None = None,
    measure: bool = False,
    repeat: int = 20,
) -> ScanJob:
    """Finds the flags that matter for a program: tries each in the background, on several cores.

    Each compile is stopped once its optimized HLO, memory and cost are known, which for a large program is a fraction of its
    time. A flag that crashes the compiler or hangs becomes a row like any other. A notebook shows a bar with a Stop button.

    Args:
      lowered: the program.
      flags: names (of bool or enum flags), or names with values, in the order to try; None for every boolean flag of the
        target's compiler (`boolean_flags`): first those about the program's collectives and the target, last those about
        operations that the program lacks or about the compiler itself.
      target: the target.
      options: options of the baseline, which every compile uses.
      engine: the engine, as for `Lowered.compile`, for one compile at a time; None for separate workers where workers suit the
        target, one per core and at most four.
      time_limit_s: time limit of the whole scan in seconds, baseline included. Flags that are not tried by then become rows with
        that reason, and `resume` continues. None for no limit.
      trial_limit_s: time limit of one compile in seconds; None for five times the time of the baseline, at least 10 s.
      machine_code: compile to the end, to find flags that change only the machine code, such as `xla_cpu_enable_fast_math`
        and `xla_gpu_ftz`. Otherwise such flags are "unknown".
      show_progress: show the bar in a notebook.
      peak: as for `flag_effect`.
      measure: as for `flag_effect`, after all compiles; the rows are then sorted by measured time first. Implies `machine_code`.
      repeat: as for `flag_effect`.

    Returns:
      The job: `table()` has the rows so far, `result()` waits for all of them, `cancel()` stops it, `resume()` continues.

    Raises:
      UnknownFlagError, FlagTypeError: an invalid flag or value; nothing is compiled.
      OptionError: a flag whose type has too many values to try, or `flags` names no flag; or a boolean that is not one.
      ValueError: an invalid time limit.
      ParameterError: `lowered` is not a `Lowered`, or `repeat` is not a number of executions.
      TargetError: the program should be measured, and the target is not attached; or no worker can compile the program, and in this process a flag that crashes XLA would end the process.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    check_time_limit(trial_limit_s, "trial_limit_s")
    check_bool("machine_code", machine_code, OptionError)
    check_bool("show_progress", show_progress, OptionError)
    base = Options.of(options)
    names: Any = boolean_flags(lowered.program.platform) if flags is None else flags
    tried = trials(names if isinstance(names, Iterable) and not isinstance(names, str) else [names], base)
    if engine is None:
        check_isolated(lowered.program, Target.parse(target))
    executions = _executions(Target.parse(target), measure, repeat)
    has_code = machine_code or executions > 0
    limits = ScanLimits(has_code, time_limit_s, "auto" if trial_limit_s is None else trial_limit_s, executions)
    return ScanJob(
        _Scan(
            lowered, Target.parse(target), base, chosen_engine(engine), limits, tried,
            is_ordered=flags is not None, has_bar=show_progress, peak=peak,
        )
    )  # fmt: skip


def _executions(target: Target, measure: bool, repeat: int) -> int:
    """Returns the number of measured executions, 0 for none, after checks."""
    check_bool("measure", measure, OptionError)
    check_repeat(repeat)
    if measure:
        check_runnable(target)
    return repeat if measure else 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Scan:
    """The parameters of a scan."""

    lowered: Lowered
    target: Target
    options: Options
    engine: Engine | None
    limits: ScanLimits
    tried: tuple[Trial, ...]
    is_ordered: bool
    has_bar: bool
    peak: Peak | None


class ScanJob(Job["pd.DataFrame"]):
    """A running scan. Thread-safe; `result` is the whole table.

    Its stage describes the progress, e.g. "compiling 3 of 77: xla_cpu_enable_fast_math=True".
    """

    def __init__(self, asked: _Scan, known: Sequence[FlagEffect] = ()) -> None:
        """Starts the scan; called by `scan` and `resume`."""
        super().__init__(cancel=lambda: self._laboratory.stop())
        self._request = asked
        self._lock = threading.Lock()
        self._effects = list(known)
        pairs = {(effect.flag, str(effect.value)) for effect in known}
        self._left = [(flag, value) for flag, value in asked.tried if (flag, str(value)) not in pairs]
        self._is_over = False
        self._error: BaseException | None = None
        self._laboratory = Laboratory(
            asked.lowered, asked.target, asked.options, asked.engine, asked.limits, peak=asked.peak, width=cores()
        )
        self._progress_bar = background_progress(self.total, self.cancel) if asked.has_bar else Quiet()
        threading.Thread(target=self._work, name="inspector-scan", daemon=True).start()

    @property
    def total(self) -> int:
        """The number of values to try."""
        return len(self._request.tried)

    @property
    def effects(self) -> tuple[FlagEffect, ...]:
        """The effects so far, in the order of their compiles."""
        with self._lock:
            return tuple(self._effects)

    @property
    def ranked(self) -> tuple[FlagEffect, ...]:
        """The effects so far, most important first."""
        return tuple(sorted(self.effects, key=rank))

    @property
    def rows(self) -> tuple[FlagEffect, ...]:
        """The rows of `table`."""
        rest = (not_tried(*trial) for trial in self.not_tried) if self._is_over else ()
        return (*self.ranked, *rest)

    @property
    def left_out(self) -> dict[str, int]:
        """The number of flags that are not tried, by reason."""
        return {} if self._request.is_ordered else left_out(self._request.lowered.program.platform)

    @property
    def not_tried(self) -> tuple[Trial, ...]:
        """The flags with the values still to be tried, in order."""
        pairs = {(effect.flag, str(effect.value)) for effect in self.effects}
        return tuple((flag, value) for flag, value in self._left if (flag, str(value)) not in pairs)

    def table(self) -> pd.DataFrame:
        """Returns the effects so far, the most important first.

        They are sorted by the difference in measured time, if it was measured, then in estimated time, exposed communication,
        peak memory and code size. Values that change nothing follow, then failures.

        Returns:
          One row per value tried, and after the time limit one per value that was not: `flag`, `value`, `outcome` (one of
          `OUTCOMES`), `hlo, memory, cost, code` (True if changed), `headline` (the structural change), `instructions` (the
          change in instruction counts), `changed_instructions`, then the differences from the baseline `measured_s, estimated_s,
          exposed_s, peak_bytes, temp_bytes, generated_code_bytes, flops, bytes_accessed, kernels, collectives` (executed kernels and
          collectives), each prefixed with `delta_`, `measured_s`, `measured_spread_s` (missing unless measured), `compile_s`, `error`, `warnings`. Unknown numbers are missing, with the
          reason in `unknown`.
        """
        return EFFECT_COLUMNS.data_frame(self.rows)

    def resume(self) -> ScanJob:
        """Returns a new job that tries the remaining values with the same time limit, and includes the results of this one.

        Raises:
          OptionError: this job is still running.
        """
        if not self.done():
            raise OptionError(f"The scan still runs ({self.stage}). Cancel it first, or wait for its result.")
        return ScanJob(self._request, self.effects)

    def _work(self) -> None:
        try:
            self._try_all()
            self.resolve(self.table())
        except BaseException as e:  # the thread has no one to raise to; the job carries the error
            self.fail(e)
        finally:
            self._laboratory.close()
            self._progress_bar.update(len(self._effects), "")
            self._progress_bar.close(f"{self.stage}: {self.summary}")

    def _try_all(self) -> None:
        if not self._left:
            return
        self.advance("compiling the baseline")
        self._laboratory.prepare()
        if not self._request.is_ordered:
            kind = platforms.named(self._request.lowered.program.platform).kind
            self._left = [*in_order(self._left, kind, self._laboratory.module)]
        waiting = iter(enumerate(self._left, 1 + self.total - len(self._left)))
        threads = [
            threading.Thread(target=self._try_some, args=(waiting,), name="inspector-scan", daemon=True)
            for _ in range(self._laboratory.width)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        if self._request.limits.executions:
            self.advance("measuring")
            effects = self._laboratory.measured(self.effects)
            with self._lock:
                self._effects = effects

    def _try_some(self, waiting: Iterator[tuple[int, Trial]]) -> None:
        """Tries values that no other thread tries, until none is left."""
        try:
            while (trial := self._next(waiting)) is not None:
                number, (flag, value) = trial
                self._progress_bar.update(len(self._effects), f"{flag}={value}")
                self.advance(f"compiling {number} of {self.total}: {flag}={value}")
                effect = self._laboratory.effect(flag, value)
                with self._lock:
                    self._effects.append(effect)
                self.advance(self.stage)  # notifies followers
        except OverError:
            self._is_over = True
        except BaseException as error:  # raised where all have ended
            self._error = self._error or error
            self._laboratory.stop()

    def _next(self, waiting: Iterator[tuple[int, Trial]]) -> tuple[int, Trial] | None:
        with self._lock:
            return next(waiting, None)

    @property
    def summary(self) -> str:
        """Returns the progress and the results as a sentence."""
        text = summary(self.effects, self.total)
        left = len(self.not_tried) if self._is_over else 0
        return f"{text}; {left} not tried within the time limit, resume() continues" if left else text

    def __repr__(self) -> str:
        return f"<ScanJob {self.stage}: {self.summary}>"
