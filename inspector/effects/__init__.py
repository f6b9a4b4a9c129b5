"""What did a flag do? `flag_effect` for one, `scan` for all of a target, in the background. Joins the rooms.

A flag is compiled with each value and held against the program without it, by the fingerprints of
`analysis/fingerprint.py`. The program without it is compiled twice: what differs between those two
tells nothing of any flag.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.effects.effect import OUTCOMES as OUTCOMES
from inspector.effects.effect import FlagEffect as FlagEffect
from inspector.effects.effect import rank, summary, table
from inspector.effects.laboratory import Laboratory, check_isolated
from inspector.effects.trials import Trial, trials
from inspector.effects.trials import boolean_flags as boolean_flags
from inspector.engines.choice import chosen_engine
from inspector.errors import OptionError
from inspector.progress import background_progress
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
    laboratory = Laboratory(lowered, Target.parse(target), base, chosen_engine(engine), time_limit_s)
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
    time_limit_s: float | None = 60.0,
) -> ScanJob:
    """Finds the flags that matter for this program: tries each, in the background, one at a time.

    A flag that crashes the compiler or hangs becomes a row like any other. In a notebook, a bar with
    a Stop button shows how far it is.

    Args:
      lowered: the program.
      flags: names (of bool or enum flags), or names with values to try; None for every boolean flag
        but those of other back ends (`boolean_flags`).
      target: for what is compiled.
      options: what holds besides; the baseline.
      engine: who compiles, as for `Lowered.compile`; None for workers of its own where workers suit the target.
      time_limit_s: what a hang costs at most; None for no limit.

    Returns:
      The job: `table()` has the rows so far, `result()` waits for all of them, `cancel()` stops it,
      `resume()` goes on.

    Raises:
      UnknownFlagError, FlagTypeError: before anything is compiled.
      OptionError: a flag whose type has too many values to try, or no flag's name.
      ValueError: no time limit.
      ParameterError: `lowered` is none.
      TargetError: no worker can compile this, and in this process a flag that crashes XLA would end it.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    base = Options.of(options)
    names: Any = boolean_flags(lowered.program.platform) if flags is None else flags
    tried = trials(names if isinstance(names, Iterable) and not isinstance(names, str) else [names], base)
    if engine is None:
        check_isolated(lowered.program, Target.parse(target))
    return ScanJob(_Scan(lowered, Target.parse(target), base, chosen_engine(engine), time_limit_s, tried))


@dataclasses.dataclass(frozen=True, slots=True)
class _Scan:
    """What a scan is asked for."""

    lowered: Lowered
    target: Target
    options: Options
    engine: Engine | None
    time_limit_s: float | None
    tried: tuple[Trial, ...]


class ScanJob(Job["pd.DataFrame"]):
    """A scan under way. Thread-safe; `result` is the whole table.

    Its stage says how far it is, such as "compiling 3 of 77: xla_cpu_enable_fast_math=True".
    """

    def __init__(self, asked: _Scan, known: Sequence[FlagEffect] = ()) -> None:
        """Made by `scan` and `resume`; starts at once."""
        super().__init__(cancel=lambda: self._laboratory.stop())
        self._asked = asked
        self._effects = list(known)
        self._laboratory = Laboratory(asked.lowered, asked.target, asked.options, asked.engine, asked.time_limit_s)
        self._progress_bar = background_progress(self.total, self.cancel)
        threading.Thread(target=self._work, name="inspector-scan", daemon=True).start()

    @property
    def total(self) -> int:
        """How many values are tried in all."""
        return len(self._asked.tried)

    @property
    def effects(self) -> tuple[FlagEffect, ...]:
        """What was found so far, in the order of the trials."""
        return tuple(self._effects)

    def table(self) -> pd.DataFrame:
        """What was found so far, the flags that matter first.

        Returns:
          One row a value tried: `flag`, `value`, `outcome` (one of `OUTCOMES`, in that order), `hlo,
          memory, cost, code` (whether each changed), `instructions` (how they differ), `changed_instructions`,
          then differences to the baseline: `temp_bytes, peak_bytes, flops, bytes_accessed`, each with
          `delta_` before it, and `compile_s`, `error`, `warnings`. A number that is not known is missing, and
          `unknown` says why.
        """
        return table(sorted(self.effects, key=rank))

    def resume(self) -> ScanJob:
        """A new job that tries what this one has not, and knows what it found.

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
            self._progress_bar.close(f"{self.stage}: {summary(self._effects, self.total)}")

    def _try_all(self) -> None:
        found = {(effect.flag, str(effect.value)) for effect in self._effects}
        for flag, value in self._asked.tried:
            if (flag, str(value)) in found:
                continue
            done = len(self._effects)
            self._progress_bar.update(done, f"{flag}={value}")
            self.advance(f"compiling {done + 1} of {self.total}: {flag}={value}")
            self._effects.append(self._laboratory.effect(flag, value))

    def __repr__(self) -> str:
        return f"<ScanJob {self.stage}: {summary(self._effects, self.total)}>"
