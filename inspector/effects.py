"""What did a flag do? `flag_effect` for one, `scan` for all of a target, in the background. Joins the rooms.

A flag is compiled with each value and held against the program without it, by the fingerprints of
`analysis/fingerprint.py`. The program without it is compiled twice: what differs between those two
tells nothing of any flag.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspector import platforms
from inspector.analysis.diff import instruction_changes, instruction_multiset
from inspector.analysis.fingerprint import ASPECTS, Fingerprint, changes, fingerprint, reliable
from inspector.analysis.stats import difference
from inspector.compilation import options_proto
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import TRIES, Engine, EngineLike, Job
from inspector.compilation.options import FlagValue, Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.choice import chosen_engine
from inspector.errors import (
    CancelledError,
    InspectorError,
    OptionError,
    TargetError,
    Unavailable,
    WorkerDiedError,
    WorkerLostError,
)
from inspector.progress import background_progress
from inspector.settings import check_time_limit
from inspector.stages.lowered import Lowered, check_lowered
from inspector.tables import UNKNOWN, Kind, make_table
from inspector.toolchain import flags as flag_types

if TYPE_CHECKING:
    import pandas as pd

Trial = tuple[str, FlagValue]
Outcome = Literal["hlo", "memory", "cost", "code", "nothing", "refused", "crashed", "timed out"]

OUTCOMES: tuple[Outcome, ...] = ("hlo", "memory", "cost", "code", "nothing", "refused", "crashed", "timed out")
"""What a flag may come to, in the order of a scan's rows: the most telling aspect that changed, or how it failed."""

DELTAS = ("temp_bytes", "peak_bytes", "flops", "bytes_accessed")
"""Numbers of `Memory` and `Cost` of which a row has the difference to the baseline."""

_NOT_COMPILED = Unavailable("it could not be compiled")


@dataclasses.dataclass(frozen=True, slots=True)
class FlagEffect:
    """What one value of one flag did to a program.

    Attributes:
      flag, value: what was tried.
      outcome: one of `OUTCOMES`.
      hlo, memory, cost, code: whether each changed, names and metadata apart, or why that is not known.
      instructions: how the instructions differ, in words; "" where the HLO did not change.
      changed_instructions: how many of both programs the other does not have; 0 where only their
        order, wiring or backend configuration changed.
      deltas: differences to the baseline by the names in `DELTAS`; empty where it failed.
      compile_s: XLA's time for it.
      error: how it failed, "" where it did not.
      warnings: what the compile warned of and the baseline did not, such as that no pass has a name.
    """

    flag: str
    value: FlagValue
    outcome: Outcome
    hlo: bool | Unavailable
    memory: bool | Unavailable
    cost: bool | Unavailable
    code: bool | Unavailable
    instructions: str = ""
    changed_instructions: int = 0
    deltas: Mapping[str, float | Unavailable] = dataclasses.field(default_factory=dict)
    compile_s: float | Unavailable = _NOT_COMPILED
    error: str = ""
    warnings: tuple[str, ...] = ()


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
    tried = _trials({flag: values} if values is not None else [flag], base)
    laboratory = _Laboratory(lowered, Target.parse(target), base, chosen_engine(engine), time_limit_s)
    try:
        return _table([laboratory.effect(name, value) for name, value in tried])
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
    tried = _trials(names if isinstance(names, Iterable) and not isinstance(names, str) else [names], base)
    if engine is None:
        _check_isolated(lowered.program, Target.parse(target))
    return ScanJob(_Scan(lowered, Target.parse(target), base, chosen_engine(engine), time_limit_s, tried))


def boolean_flags(platform: str) -> tuple[str, ...]:
    """The boolean flags of XLA, and of libtpu for a TPU, that the compiler for a platform may read, by name.

    Those that dump are left out: they change no program, and some write into the folder one is in.

    Args:
      platform: such as "cpu", "gpu" or "tpu".
    """
    own = platforms.named(platform)
    others = tuple(p.flag_prefix for p in platforms.PLATFORMS if p.kind != own.kind)
    names = flag_types.flag_names() if own is platforms.TPU else flag_types.xla_flag_names()
    types = {name: flag_types.flag_type(name) for name in names if not name.startswith(others)}
    return tuple(
        name
        for name, type_ in types.items()
        if type_.kind == "bool"
        and not type_.repeated
        and "dump" not in name
        and type_.home in ("debug_options", "libtpu")
        and type_.is_per_compile
    )


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
        self._laboratory = _Laboratory(asked.lowered, asked.target, asked.options, asked.engine, asked.time_limit_s)
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
        return _table(sorted(self.effects, key=_rank))

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
            self._progress_bar.close(f"{self.stage}: {_summary(self._effects, self.total)}")

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
        return f"<ScanJob {self.stage}: {_summary(self._effects, self.total)}>"


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    outcome: Literal["refused", "crashed", "timed out"]
    error: str


class _Laboratory:
    """Compiles variants of one program, one at a time, and compares each with the baseline."""

    def __init__(
        self, lowered: Lowered, target: Target, options: Options, engine: Engine | None, time_limit_s: float | None
    ) -> None:
        options.check()
        self._request = CompileRequest(lowered.program, options, target)
        self._time_limit_s = time_limit_s
        self._given = engine
        self._engine: Engine | None = None
        self._baseline: tuple[CompiledProgram, Fingerprint] | None = None
        self._lock = threading.Lock()
        self._job: Job[CompiledProgram] | None = None
        self._stopped = False

    def effect(self, flag: str, value: FlagValue) -> FlagEffect:
        """What a value does.

        Raises:
          CancelledError: `stop` was called.
          CompilationError: the baseline cannot be compiled.
        """
        baseline, digests = self._compile_baseline()
        found = self._attempt(self._request.options.merge(Options(flags={flag: value})))
        if isinstance(found, _Failure):
            no = _NOT_COMPILED
            return FlagEffect(flag, value, found.outcome, hlo=no, memory=no, cost=no, code=no, error=found.error)
        return _compare(flag, value, baseline, digests, found)

    def stop(self) -> None:
        """Ends the compile under way. From any thread."""
        with self._lock:
            self._stopped = True
            job = self._job
        if job is not None:
            job.cancel()

    def close(self) -> None:
        """Ends the engine, if it is its own."""
        if self._engine is not None and self._given is None and self._engine.name == "worker":
            self._engine.close()

    def _compile_baseline(self) -> tuple[CompiledProgram, Fingerprint]:
        if self._baseline is None:
            first, second = self._compile(self._request.options), self._compile(self._request.options)
            self._baseline = first, reliable(fingerprint(first), fingerprint(second))
        return self._baseline

    def _attempt(self, options: Options, tries: int = TRIES) -> CompiledProgram | _Failure:
        try:
            return self._compile(options)
        except TimeoutError:
            return _Failure("timed out", f"stopped after the limit of {self._time_limit_s:g} s")
        except CancelledError:
            raise
        except WorkerLostError as e:
            return self._attempt(options, tries - 1) if tries > 1 else _Failure("crashed", str(e))
        except WorkerDiedError as e:
            return _Failure("crashed", str(e))
        except InspectorError as e:
            return _Failure("refused", f"{type(e).__name__}: {e}")

    def _compile(self, options: Options) -> CompiledProgram:
        with self._lock:
            if self._stopped:
                raise CancelledError("The scan was cancelled.")
            self._job = self._ready().submit(dataclasses.replace(self._request, options=options))
            job = self._job
        try:
            return job.result(self._time_limit_s)
        except TimeoutError:
            job.cancel()  # kills the worker: XLA itself cannot be interrupted
            raise

    def _ready(self) -> Engine:
        if self._engine is None:
            self._engine = self._given or _own_engine(self._request.program, self._request.target)
        return self._engine


def _check_isolated(program: Program, target: Target) -> None:
    from inspector.engines.shared import default_engine

    if default_engine(program, target).name == "inline":
        why = "it calls back into it" if program.host_callbacks else f"the target {target} belongs to it"
        raise TargetError(
            f"The program {program.name!r} can only be compiled in this process ({why}), and a scan tries flags that"
            " crash XLA, which would end the process. Use the target 'cpu' if the program was lowered for it, or"
            " flag_effect for single flags; engine='inline' scans all the same."
        )


def _own_engine(program: Program, target: Target) -> Engine:
    """Workers that nobody else waits for, where workers suit; else the engine that does."""
    from inspector.engines.shared import default_engine
    from inspector.engines.worker import WorkerEngine

    suited = default_engine(program, target)
    return WorkerEngine() if suited.name == "worker" else suited


def _compare(
    flag: str, value: FlagValue, baseline: CompiledProgram, digests: Fingerprint, found: CompiledProgram
) -> FlagEffect:
    changed = changes(digests, fingerprint(found))
    words, count = "", 0
    if changed["hlo"]:
        moved = instruction_changes(instruction_multiset(baseline.module()), instruction_multiset(found.module()))
        count = moved.only_before.total() + moved.only_after.total()
        words = str(moved) if count else "the same instructions, otherwise ordered, connected or configured"
    return FlagEffect(
        flag=flag,
        value=value,
        outcome=next((aspect for aspect in _ASPECT_OUTCOMES if changed[aspect]), "nothing"),
        hlo=changed["hlo"],
        memory=changed["memory"],
        cost=changed["cost"],
        code=changed["code"],
        instructions=words,
        changed_instructions=count,
        deltas={name: difference(_number(found, name), _number(baseline, name)) for name in DELTAS},
        compile_s=found.timings.get("compile_s", Unavailable("the engine did not measure it")),
        warnings=tuple(warning for warning in found.warnings if warning not in baseline.warnings),
    )


_ASPECT_OUTCOMES: tuple[Outcome, ...] = ("hlo", "memory", "cost", "code")


def _number(compiled: CompiledProgram, name: str) -> float | Unavailable:
    holder: Any = compiled.memory if name in ("temp_bytes", "peak_bytes") else compiled.cost
    value: float | Unavailable = holder if isinstance(holder, Unavailable) else getattr(holder, name)
    return value


def _trials(flags: Iterable[str] | Mapping[str, Iterable[FlagValue]], options: Options) -> tuple[Trial, ...]:
    """Flags with each value to try, checked."""
    tried = [
        trial
        for name in flags
        for value in (_listed(name, flags[name]) if isinstance(flags, Mapping) else _values(name, options))
        for trial in Options(flags={name: value}).flags.items()
    ]
    for name, value in tried:
        flag_types.check_value(name, value)
    return tuple(tried)


def _listed(flag: str, values: Iterable[FlagValue]) -> list[FlagValue]:
    given: Any = values  # a user's, whatever the annotation says
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise OptionError(f"The values to try of {flag} must be a list, such as [{given!r}], got {given!r}.")
    return list(given)


def _values(flag: str, options: Options) -> list[FlagValue]:
    """The values of a bool or an enum beside the one that it has."""
    type_ = flag_types.flag_type(flag)
    name = flag.removeprefix("--")
    if type_.repeated or type_.kind not in ("bool", "enum"):
        raise OptionError(f"{name} takes values of the type {type_}: say which to try, such as {{{name!r}: [...]}}.")
    choices: list[FlagValue] = [False, True] if type_.kind == "bool" else [choice for choice, _ in type_.choices]
    present = options.flags[name] if name in options.flags else options_proto.unsaid_value(name)
    return [choice for choice in choices if choice != present]


def _rank(effect: FlagEffect) -> tuple[Any, ...]:
    deltas = (effect.deltas.get(name, 0.0) for name in DELTAS)
    sizes = (0.0 if isinstance(delta, Unavailable) else -abs(delta) for delta in deltas)
    return OUTCOMES.index(effect.outcome), -effect.changed_instructions, *sizes, effect.flag


def _summary(effects: Sequence[FlagEffect], total: int) -> str:
    counts = {outcome: sum(effect.outcome == outcome for effect in effects) for outcome in OUTCOMES}
    said = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    return f"{len(effects)} of {total} tried" + (f" ({', '.join(said)})" if said else "")


def _table(effects: Sequence[FlagEffect]) -> pd.DataFrame:
    before: dict[str, Kind] = {
        "flag": "text", "value": "object", "outcome": "text", **dict.fromkeys(ASPECTS, "bool"), "instructions": "text",
        "changed_instructions": "int",
    }  # fmt: skip
    deltas: dict[str, Kind] = {f"delta_{name}": "float" for name in DELTAS}
    after: dict[str, Kind] = {"compile_s": "float", "error": "text", "warnings": "text", UNKNOWN: "reasons"}
    rows = [
        [
            *(getattr(effect, name) for name in before),
            *(effect.deltas.get(name, _NOT_COMPILED) for name in DELTAS),
            effect.compile_s,
            effect.error,
            "\n".join(effect.warnings),
        ]
        for effect in effects
    ]
    return make_table({**before, **deltas, **after}, rows)
