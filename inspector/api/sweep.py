"""`sweep`: compiles one program with many options and targets and returns a table.

Engines compile; rows go to the table and, for a sweep that should survive its process, to a file.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import queue
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.analysis.cost.kernels import structure
from inspector.api.progress import Progress, foreground_progress
from inspector.api.sweep_engines import SweepEngines
from inspector.api.sweep_ledger import Ledger, Number, VariantResult
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import TRIES, Engine, EngineLike, Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.errors import (
    CancelledError,
    CompilationError,
    InspectorError,
    ModuleError,
    OptionError,
    ParameterError,
    Unavailable,
    WorkerDiedError,
    WorkerLostError,
)
from inspector.execution.interleaved import check_repeat
from inspector.execution.run import interquartile_range
from inspector.settings import check_time_limit
from inspector.stages.estimates import can_be_measured, estimate, measured_durations
from inspector.stages.lowered import Lowered, check_lowered
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import counted

if TYPE_CHECKING:
    import pandas as pd


NUMBERS = (
    "estimated_s", "exposed_s", "compile_s", "flops", "bytes_accessed", "temp_bytes", "peak_bytes",
    "generated_code_bytes", "collectives",
)  # fmt: skip
"""Columns with what a compile gave, after `target` and the flags and before `error`."""

DEFAULT = "default"
"""In a flag's column: the variant does not set the flag."""

# Requests in flight: enough to keep a cluster's workers busy, few enough to hold in memory.
_IN_FLIGHT = 64

MEASURED = ("measured_s", "measured_spread_s")
"""Columns with the measured times, before `NUMBERS`."""
_MOST_MEASURED = 64
_OLD_ROW = Unavailable("an older version of inspector wrote this row", "Delete the file to compile it again")

_log = logging.getLogger(__name__)

Grid = Mapping[str, Any]
Variant = tuple[Target, Options]


def sweep(
    lowered: Lowered,
    options: Grid | Iterable[Options | Grid | str | None] | Options | str | None = None,
    targets: str | Target | Sequence[str | Target] = ("attached",),
    engine: EngineLike | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    time_limit_s: float | None = None,
    measure: bool = False,
    repeat: int = 20,
) -> pd.DataFrame:
    """Compiles a program with every option set for every target.

    Shows a progress bar in a notebook and on a terminal. Ctrl-C stops it and raises `SweepInterrupt`, a
    `KeyboardInterrupt` whose `rows` has the finished rows.

    Args:
      lowered: the program.
      options: a grid: a dict of flags (or fields of `Options`) to lists of values, of which every combination is compiled,
        None for the default; or a list of option sets as `Lowered.compile` accepts them; or one option set.
      targets: the targets.
      engine: an engine, "worker", "inline" or "dask" (this process's Dask client), or a Dask client. None for the default of
        each target: separate workers for CPUs, so that an Explorer's compiles do not wait for the sweep.
      path: a file for finished rows, created if necessary. A later sweep with the same file compiles only the missing rows, by
        a digest of program (without source lines), options, target and JAX (version and configuration). Failures that
        the compiler reported count as finished, a worker that was killed from outside does not. Several sweeps may
        share a file.
      time_limit_s: seconds after which a compile is stopped and becomes a row with an error. Not with an engine object, which
        has its own limit, nor with "inline", which cannot be stopped.
      measure: also run the variants that can run here, in turns and with generated inputs, after all are compiled. At most
        64, whose programs are kept until then. Rows in the file have no program, so they are compiled again.
      repeat: measured executions of each variant, at least 6.

    Returns:
      One row per variant, in the order of the grid for each target: `target`, one column per flag, with `measure` also
      `measured_s, measured_spread_s` (median and interquartile range of an execution's time), then `estimated_s, exposed_s`
      (estimated time of an execution, and the part of it in which the device only waits for communication), `compile_s,
      flops, bytes_accessed, temp_bytes, peak_bytes, generated_code_bytes, collectives` (executed collectives), `error` (""
      for none), `warnings`, and `unknown` (the reason for a missing or partial number). Failed variants have no numbers. To
      rank the variants: `sweep(...).sort_values("estimated_s")`, or `"measured_s"`.

    Raises:
      UnknownFlagError, FlagTypeError: an invalid flag; nothing is compiled.
      TargetError: an unknown target, or a Dask cluster that cannot be used.
      ParameterError: an unknown engine, `lowered` is not a `Lowered`, `repeat` is too small, or too many variants to measure.
      ValueError: an invalid time limit.
      ModuleError: `path` is another kind of file.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    option_sets = expand(options)
    for each in option_sets:
        each.check()
    variants = list(dict.fromkeys((Target.parse(t), each) for t in _listed(targets) for each in option_sets))
    if measure:
        _check_measured(variants, repeat)
    programs: dict[Variant, CompiledProgram] | None = {} if measure else None
    ledger = Ledger(path, lowered) if path is not None else None
    findings: dict[Variant, VariantResult] = {}
    with SweepEngines(lowered, engine, time_limit_s) as engines:
        wanted = _requests(lowered, variants, findings, ledger, is_measured=measure)
        progress = foreground_progress(len(variants))
        progress.update(len(findings), "")
        try:
            compiling = _compile_all([r for r, _ in wanted], engines.engine_for, ledger, is_measured=measure)
            with contextlib.closing(compiling) as ended:
                for index, finding, program in ended:
                    request, its_variants = wanted[index]
                    if programs is not None and program is not None:
                        programs |= dict.fromkeys(its_variants, program)
                    findings.update(dict.fromkeys(its_variants, finding))
                    if ledger is not None:
                        _write(ledger, request, finding)
                    progress.update(len(findings), f"{request.target} {request.options}")
            if programs is not None:
                progress.update(len(findings), "measuring")
                _add_times(findings, programs, repeat)
        except KeyboardInterrupt as e:
            progress.close(f"Stopped after {len(findings)} of {counted(len(variants), 'variant')}.")
            raise SweepInterrupt(_table(variants, findings), len(variants), is_kept=ledger is not None) from e
        _close(progress, findings)
    return _table(variants, findings, MEASURED if measure else ())


class SweepInterrupt(KeyboardInterrupt):
    """Raised by Ctrl-C during a sweep.

    Attributes:
      rows: the table of the finished variants.
    """

    def __init__(self, rows: pd.DataFrame, total: int, *, is_kept: bool) -> None:
        """Makes the message.

        Args:
          rows: see `rows`.
          total: number of variants.
          is_kept: True if the rows are also in a file.
        """
        advice = (
            "To continue, call sweep with the same path."
            if is_kept
            else "In a notebook, sys.last_value.rows has the finished rows. To save them, pass path=..."
        )
        super().__init__(f"The sweep was stopped after {len(rows)} of {total} variants. {advice}")
        self.rows = rows


def expand(options: Any) -> tuple[Options, ...]:
    """Returns the option sets of a grid or a list, in order; see `sweep`.

    Raises:
      OptionError: invalid options.
    """
    if isinstance(options, Mapping):
        names = [name.removeprefix("--") for name in options]
        choices = [list(v) if _are_many(v) else [v] for v in options.values()]
        return tuple(_point(dict(zip(names, values, strict=True))) for values in itertools.product(*choices))
    if options is None or isinstance(options, (str, Options)) or not isinstance(options, Iterable):
        return (Options.of(options),)
    return tuple(_point(dict(each)) if isinstance(each, Mapping) else Options.of(each) for each in options)


def _are_many(values: Any) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))


_FIELDS = frozenset(field.name for field in dataclasses.fields(Options)) - {"flags"}


def _point(values: Mapping[str, Any]) -> Options:
    values = {name: value for name, value in values.items() if value is not None}
    flags = {name: value for name, value in values.items() if name not in _FIELDS}
    return Options(flags=flags, **{name: value for name, value in values.items() if name in _FIELDS})


def finding_of(compiled: CompiledProgram) -> VariantResult:
    """Returns the row of a compiled program."""
    memory, cost = compiled.memory, compiled.cost
    unmeasured, times = Unavailable("the engine did not measure it"), estimate(compiled)
    return VariantResult(
        {
            "estimated_s": times.estimated_s,
            "exposed_s": times.exposed_s,
            "compile_s": compiled.timings.get("compile_s", unmeasured),
            "flops": cost if isinstance(cost, Unavailable) else cost.flops,
            "bytes_accessed": cost if isinstance(cost, Unavailable) else cost.bytes_accessed,
            "temp_bytes": memory if isinstance(memory, Unavailable) else memory.temp_bytes,
            "peak_bytes": memory if isinstance(memory, Unavailable) else memory.peak_bytes,
            "generated_code_bytes": memory if isinstance(memory, Unavailable) else memory.generated_code_bytes,
            "collectives": _count_collectives(compiled),
        },
        warnings=compiled.warnings,
    )


def _count_collectives(compiled: CompiledProgram) -> Number:
    try:
        return structure(compiled.module()).collectives
    except ModuleError as e:
        return Unavailable(str(e))


def _requests(
    lowered: Lowered,
    variants: Sequence[Variant],
    findings: dict[Variant, VariantResult],
    ledger: Ledger | None,
    *,
    is_measured: bool,
) -> list[tuple[CompileRequest, list[Variant]]]:
    """Returns the requests with their variants, and adds known rows to the results."""
    wanted: dict[str, tuple[CompileRequest, list[Variant]]] = {}
    for target, options in variants:
        try:
            request = CompileRequest(lowered.program, options, target)
        except InspectorError as e:  # options and target that do not go together
            findings[target, options] = VariantResult({}, _error_text(e))
            continue
        runs = is_measured and can_be_measured(target)
        known = ledger.read(request) if ledger is not None and not runs else None
        if known is not None:
            findings[target, options] = known
        else:
            wanted.setdefault(request.digest, (request, []))[1].append((target, options))
    return list(wanted.values())


def _compile_all(
    requests: Sequence[CompileRequest],
    engine_for: Callable[[Target], Engine],
    ledger: Ledger | None,
    *,
    is_measured: bool,
) -> Generator[tuple[int, VariantResult, CompiledProgram | None], None, None]:
    """Compiles, and yields each request's index and result when it ends or when another sweep has written it.

    Programs that will be measured are yielded as well; the others are dropped, as they may be large.

    Requests whose worker was lost are tried again. Running compiles are canceled when the caller stops.
    """
    ended: queue.SimpleQueue[tuple[int, Job[CompiledProgram]]] = queue.SimpleQueue()
    running: dict[int, Job[CompiledProgram]] = {}
    tries: collections.Counter[int] = collections.Counter()
    waiting = collections.deque(range(len(requests)))
    try:
        while waiting or running:
            while waiting and len(running) < _IN_FLIGHT:
                index = waiting.popleft()
                runs = is_measured and can_be_measured(requests[index].target)
                if ledger is not None and not runs and (known := ledger.read(requests[index])):
                    yield index, known, None
                    continue
                tries[index] += 1
                job = running[index] = engine_for(requests[index].target).submit(requests[index])
                job.add_done_callback(functools.partial(_put, ended, index))
            if not running:
                return
            index, job = ended.get()
            del running[index]
            if isinstance(job.exception(), WorkerLostError) and tries[index] < TRIES:
                waiting.append(index)
                continue
            finding = _finding(job)
            runs = is_measured and can_be_measured(requests[index].target) and not finding.error
            program = job.result() if runs else None
            del job  # with its result, which may be large
            yield index, finding, program
    finally:
        for job in running.values():
            job.cancel()


def _write(ledger: Ledger, request: CompileRequest, finding: VariantResult) -> None:
    """Writes a row. If the file cannot be written, the next sweep compiles the row again; this sweep goes on."""
    try:
        ledger.write(request, finding)
    except OSError as e:
        _log.warning("A row of the sweep could not be written: %s", e)


def _put(ended: queue.SimpleQueue[tuple[int, Job[CompiledProgram]]], index: int, job: Job[CompiledProgram]) -> None:
    ended.put((index, job))


def _finding(job: Job[CompiledProgram]) -> VariantResult:
    error = job.exception()
    if isinstance(error, CancelledError):
        raise error
    if error is None:
        return finding_of(job.result())
    return VariantResult({}, _error_text(error), is_final=_is_verdict(error))


def _is_verdict(error: BaseException) -> bool:
    """Reports whether a failure is the compiler's, not one of the machine, another process or a missing package."""
    return isinstance(error, (CompilationError, WorkerDiedError, OptionError)) and not isinstance(
        error, WorkerLostError
    )


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _listed(targets: Any) -> tuple[str | Target, ...]:
    return tuple(targets) if isinstance(targets, Iterable) and not isinstance(targets, str) else (targets,)


def _close(progress: Progress, findings: Mapping[Variant, VariantResult]) -> None:
    failed = sum(1 for finding in findings.values() if finding.error)
    progress.close(f"{counted(len(findings), 'variant')}{f', {failed} failed' if failed else ''}.")


def _check_measured(variants: Sequence[Variant], repeat: int) -> None:
    check_repeat(repeat)
    count = sum(can_be_measured(target) for target, _ in variants)
    if count > _MOST_MEASURED:
        raise ParameterError(
            f"{count} variants can run here, but a sweep measures at most {_MOST_MEASURED}. Sweep without measure=True, and"
            " measure the best ones."
        )


def _cannot_run(target: Target) -> Unavailable:
    return Unavailable(f"{target} is for another JAX" if target.jax else "the target is not attached")


def _add_times(
    findings: dict[Variant, VariantResult], programs: Mapping[Variant, CompiledProgram], repeat: int
) -> None:
    """Adds the measured times to the rows."""
    durations = measured_durations(list(programs.values()), repeat) if programs else {}
    for variant, finding in findings.items():
        if finding.error:
            continue
        program = programs.get(variant)
        times = _cannot_run(variant[0]) if program is None else durations[id(program)]
        numbers: tuple[Number, ...] = (times, times) if isinstance(times, Unavailable) else (
            statistics.median(times), interquartile_range(times),
        )  # fmt: skip
        measured = dict(zip(MEASURED, numbers, strict=True))
        findings[variant] = dataclasses.replace(finding, numbers={**finding.numbers, **measured})


def _table(
    variants: Sequence[Variant], findings: Mapping[Variant, VariantResult], measured: Sequence[str] = ()
) -> pd.DataFrame:
    done = [variant for variant in variants if variant in findings]
    flags = list(dict.fromkeys(name for _, options in variants for name in options.as_dict()))
    kinds: dict[str, Kind] = {
        "target": "text",
        **dict.fromkeys(flags, "object"),
        **dict.fromkeys((*measured, *NUMBERS), "float"),
    }
    kinds |= {"error": "text", "warnings": "text", UNKNOWN: "reasons"}
    return make_table(kinds, (_row(variant, flags, findings[variant], (*measured, *NUMBERS)) for variant in done))


def _row(variant: Variant, flags: Sequence[str], finding: VariantResult, columns: Sequence[str]) -> list[object]:
    target, options = variant
    values = options.as_dict()
    absent = None if finding.error else _OLD_ROW
    numbers = (finding.numbers.get(name, absent) for name in columns)
    return [str(target), *(values.get(f, DEFAULT) for f in flags), *numbers, finding.error, "\n".join(finding.warnings)]
