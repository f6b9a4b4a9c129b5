"""What did a flag do? `flag_effect` for one, `scan` for all of a target, in the background. Joins the rooms.

A flag is compiled with each value and held against the program without it, by the fingerprints of
`analysis/diff/fingerprint.py`. The program without it is compiled twice: what differs between those two
tells nothing of any flag. A scan stops each compile where its optimized HLO, memory and cost are known, because
generating machine code takes most of a compile. Flags that changed nothing up to there are "unknown", not "nothing".
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector import platforms
from inspector.api.flag_effects.effect import OUTCOMES as OUTCOMES
from inspector.api.flag_effects.effect import FlagEffect as FlagEffect
from inspector.api.flag_effects.effect import not_tried, rank, summary, table
from inspector.api.flag_effects.order import in_order
from inspector.api.flag_effects.trials import Trial, trials
from inspector.api.flag_effects.trials import boolean_flags as boolean_flags
from inspector.api.flag_effects.trials import left_out as left_out
from inspector.api.flag_effects.variants import Laboratory, OverError, ScanLimits, check_isolated, cores
from inspector.api.progress import Quiet, background_progress
from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.engines.choice import chosen_engine
from inspector.errors import OptionError, check_bool
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
) -> pd.DataFrame:
    """Compiles a program with each value of a flag and says what that changed.

    Args:
      lowered: the program.
      flag: its name.
      values: to try; None for those that a bool or an enum has beside the present one.
      target: for what is compiled.
      options: what holds besides; the baseline.
      engine: who compiles, as for `Lowered.compile`; None for workers of its own where workers suit the target.
      time_limit_s: a compile that takes longer is stopped; None for no limit.

    Returns:
      One row a value, in their order, with the columns of `ScanJob.table`.

    Raises:
      UnknownFlagError, FlagTypeError: before anything is compiled.
      OptionError: no values, and the flag's type has too many to try; or no list of values.
      ParameterError: `lowered` is none.
      CompilationError: the baseline itself cannot be compiled.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    base = Options.of(options)
    tried = trials({flag: values} if values is not None else [flag], base)
    limits = ScanLimits(has_code=True, trial_s=time_limit_s)
    laboratory = Laboratory(lowered, Target.parse(target), base, chosen_engine(engine), limits)
    try:
        return table([laboratory.effect(name, value) for name, value in tried])
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
) -> ScanJob:
    """Finds the flags that matter for this program: tries each, in the background, side by side where there are cores.

    Each compile is stopped where its optimized HLO, memory and cost are known, which for a large program is a fraction
    of its time. A flag that crashes the compiler or hangs becomes a row like any other. In a notebook, a bar with
    a Stop button shows how far it is.

    Args:
      lowered: the program.
      flags: names (of bool or enum flags), or names with values to try, in this order; None for every boolean flag
        but those of other back ends (`boolean_flags`), those first that are about the program's collectives and
        the target, and those last that are about what the program has not, or about the compiler itself.
      target: for what is compiled.
      options: what holds besides; the baseline.
      engine: who compiles, as for `Lowered.compile`, one program at a time; None for workers of its own where workers
        suit the target, one for each core, four at most.
      time_limit_s: of the whole scan, the compiles without a flag included; what is not tried by then is a row that
        says so, and `resume` goes on. None for no limit.
      trial_limit_s: what a hang costs at most; None for five times as long as the program takes without a flag, and at
        least 10 s.
      machine_code: whether to compile to the end, so that flags are found too that change nothing but that, such as
        `xla_cpu_enable_fast_math` and `xla_gpu_ftz`. Without it, flags that change nothing else are "unknown".
      show_progress: whether a notebook shows the bar.

    Returns:
      The job: `table()` has the rows so far, `result()` waits for all of them, `cancel()` stops it,
      `resume()` goes on.

    Raises:
      UnknownFlagError, FlagTypeError: before anything is compiled.
      OptionError: a flag whose type has too many values to try, or no flag's name; no boolean.
      ValueError: no time limit.
      ParameterError: `lowered` is none.
      TargetError: no worker can compile this, and in this process a flag that crashes XLA would end it.
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
    limits = ScanLimits(machine_code, time_limit_s, "auto" if trial_limit_s is None else trial_limit_s)
    return ScanJob(
        _Scan(
            lowered, Target.parse(target), base, chosen_engine(engine), limits, tried,
            is_ordered=flags is not None, has_bar=show_progress,
        )
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class _Scan:
    """What a scan is asked for."""

    lowered: Lowered
    target: Target
    options: Options
    engine: Engine | None
    limits: ScanLimits
    tried: tuple[Trial, ...]
    is_ordered: bool
    has_bar: bool


class ScanJob(Job["pd.DataFrame"]):
    """A scan under way. Thread-safe; `result` is the whole table.

    Its stage says how far it is, such as "compiling 3 of 77: xla_cpu_enable_fast_math=True".
    """

    def __init__(self, asked: _Scan, known: Sequence[FlagEffect] = ()) -> None:
        """Made by `scan` and `resume`; starts at once."""
        super().__init__(cancel=lambda: self._laboratory.stop())
        self._asked = asked
        self._lock = threading.Lock()
        self._effects = list(known)
        found = {(effect.flag, str(effect.value)) for effect in known}
        self._left = [(flag, value) for flag, value in asked.tried if (flag, str(value)) not in found]
        self._is_over = False
        self._error: BaseException | None = None
        self._laboratory = Laboratory(
            asked.lowered, asked.target, asked.options, asked.engine, asked.limits, width=cores()
        )
        self._progress_bar = background_progress(self.total, self.cancel) if asked.has_bar else Quiet()
        threading.Thread(target=self._work, name="inspector-scan", daemon=True).start()

    @property
    def total(self) -> int:
        """How many values are tried in all."""
        return len(self._asked.tried)

    @property
    def effects(self) -> tuple[FlagEffect, ...]:
        """What was found so far, in the order in which it was."""
        with self._lock:
            return tuple(self._effects)

    @property
    def ranked(self) -> tuple[FlagEffect, ...]:
        """What was found so far, the flags that matter first."""
        return tuple(sorted(self.effects, key=rank))

    @property
    def left_out(self) -> dict[str, int]:
        """How many flags of the installed compilers are not among those to try, by the reason in words."""
        return {} if self._asked.is_ordered else left_out(self._asked.lowered.program.platform)

    @property
    def not_tried(self) -> tuple[Trial, ...]:
        """Flags with values that are still to be tried, in that order."""
        found = {(effect.flag, str(effect.value)) for effect in self.effects}
        return tuple((flag, value) for flag, value in self._left if (flag, str(value)) not in found)

    def table(self) -> pd.DataFrame:
        """What was found so far, the flags that matter first.

        Returns:
          One row a value tried, and once the time is over one for each that was not: `flag`, `value`, `outcome` (one of
          `OUTCOMES`, in that order), `hlo, memory, cost, code` (whether each changed), `headline` (what changed, by
          structure), `instructions` (how they differ in number), `changed_instructions`, then differences to the
          baseline: `temp_bytes, peak_bytes, flops, bytes_accessed, kernels, collectives` (of these two what is
          executed), each with `delta_` before it, and `compile_s`, `error`, `warnings`. A number that is not known is
          missing, and `unknown` says why.
        """
        rows = self.ranked
        return table([*rows, *(not_tried(*trial) for trial in self.not_tried)] if self._is_over else rows)

    def resume(self) -> ScanJob:
        """A new job that tries what this one has not, for as long again, and knows what it found.

        Raises:
          OptionError: this one still runs.
        """
        if not self.done():
            raise OptionError(f"The scan still runs ({self.stage}). Cancel it first, or wait for its result.")
        return ScanJob(self._asked, self.effects)

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
        self.advance("compiling without any flag")
        self._laboratory.prepare()
        if not self._asked.is_ordered:
            kind = platforms.named(self._asked.lowered.program.platform).kind
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

    def _try_some(self, waiting: Iterator[tuple[int, Trial]]) -> None:
        """Tries what nobody else does, until there is nothing left."""
        try:
            while (trial := self._next(waiting)) is not None:
                number, (flag, value) = trial
                self._progress_bar.update(len(self._effects), f"{flag}={value}")
                self.advance(f"compiling {number} of {self.total}: {flag}={value}")
                effect = self._laboratory.effect(flag, value)
                with self._lock:
                    self._effects.append(effect)
                self.advance(self.stage)  # whoever follows hears of it
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
        """How far it is and what came of it, in words."""
        said = summary(self.effects, self.total)
        left = len(self.not_tried) if self._is_over else 0
        return f"{said}; the time was over for {left}, resume() goes on" if left else said

    def __repr__(self) -> str:
        return f"<ScanJob {self.stage}: {self.summary}>"
