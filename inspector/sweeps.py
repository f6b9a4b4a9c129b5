"""`sweep`: one program under many options and targets, as a tidy table. Joins the rooms.

Compiles go to engines; rows go to a table, and to a file where the sweep is to outlive its process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import queue
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.compilation.compiled import Compiled
from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines import chosen_engine, default_engine
from inspector.errors import CancelledError, InspectorError, ModuleError, ParameterError, Unavailable
from inspector.hlo import compiler
from inspector.lowering.lowered import Lowered, check_lowered
from inspector.progress import Progress, foreground_progress
from inspector.settings import check_time_limit

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("compile_s", "flops", "bytes_accessed", "temp_bytes", "peak_bytes", "collectives")
"""Columns with what a compile gave, after `target` and the flags and before `error`."""

DEFAULT = "default"
"""In a flag's column: this variant does not say."""

# So many are asked for at once: enough to keep a cluster's workers busy, few enough to hold in memory.
_IN_FLIGHT = 64

FORMAT = "inspector-sweep"
FORMAT_VERSION = 1

Number = float | Unavailable
Grid = Mapping[str, Any]
Variant = tuple[Target, Options]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What one variant came to. `numbers` by `NUMBERS`, empty where `error` says why; "" is no error."""

    numbers: Mapping[str, Number]
    error: str = ""
    warnings: tuple[str, ...] = ()


def sweep(
    lowered: Lowered,
    options: Grid | Iterable[Options | Grid | str | None] | Options | str | None = None,
    targets: str | Target | Sequence[str | Target] = ("attached",),
    engine: EngineLike | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    time_limit_s: float | None = None,
) -> pd.DataFrame:
    """Compiles a program under every option set for every target.

    Shows a progress bar in a notebook and on a terminal. Ctrl-C ends it and returns the rows that
    there are.

    Args:
      lowered: the program.
      options: a grid, a dict of flag (or field of `Options`) to the list of its values, of which
        every combination is tried, None among the values for "do not say"; or a list of option sets
        as `Lowered.compile` takes them; or one.
      targets: what is compiled for.
      engine: an engine; "worker", "inline" or "dask" (this process's Dask client); or a Dask client.
        None for what suits each target: workers of its own for CPUs, so that an Explorer's compiles
        do not wait for a sweep's.
      path: a file for finished rows, made if need be. A later sweep with the same file compiles
        only what is not in it, by digest of program (without source lines), options, target and
        JAX (version and configuration), whatever stopped the first. Rows of failures count as finished.
      time_limit_s: a compile that takes longer is stopped and becomes a row with an error. Not with
        an engine of yours, which has its own, nor with "inline", which cannot be stopped.

    Returns:
      One row a variant, in the order of the grid, each target's together: `target`, one column a
      flag, `compile_s, flops, bytes_accessed, temp_bytes, peak_bytes, collectives` (how many), and
      `error`, "" for none, and `warnings`, such as that no pass has a name. Numbers of failed variants
      are NaN; what a compiler does not report is an `Unavailable`.

    Raises:
      UnknownFlagError, FlagTypeError: before anything is compiled.
      TargetError: an unknown target, or a Dask cluster that cannot be used.
      ParameterError: an engine that is none, or a `lowered`.
      ValueError: no time limit.
      ModuleError: `path` is another file.
    """
    check_lowered(lowered)
    check_time_limit(time_limit_s)
    option_sets = expand(options)
    for each in option_sets:
        each.check()
    variants = list(dict.fromkeys((Target.parse(t), each) for t in _listed(targets) for each in option_sets))
    ledger = Ledger(path, lowered) if path is not None else None
    findings: dict[Variant, Finding] = {}
    with _Engines(lowered, engine, time_limit_s) as engines:
        wanted = _requests(lowered, variants, findings, ledger)
        progress = foreground_progress(len(variants))
        progress.update(len(findings), "")
        try:
            with contextlib.closing(_compile_all([request for request, _ in wanted], engines.engine_for)) as ended:
                for index, finding in ended:
                    request, asked = wanted[index]
                    findings.update(dict.fromkeys(asked, finding))
                    if ledger is not None:
                        ledger.write(request, finding)
                    progress.update(len(findings), f"{request.target} {request.options}")
        except KeyboardInterrupt:
            progress.close(f"Stopped after {len(findings)} of {len(variants)} variants.")
        else:
            _close(progress, findings)
    return _table(variants, findings)


def expand(options: Any) -> tuple[Options, ...]:
    """The option sets of a grid or a list, in order; see `sweep`.

    Raises:
      OptionError: not options.
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


def _point(said: Mapping[str, Any]) -> Options:
    said = {name: value for name, value in said.items() if value is not None}
    flags = {name: value for name, value in said.items() if name not in _FIELDS}
    return Options(flags=flags, **{name: value for name, value in said.items() if name in _FIELDS})


def finding_of(compiled: Compiled) -> Finding:
    """What a compiled program's row says."""
    memory, cost = compiled.memory, compiled.cost
    unmeasured = Unavailable("the engine did not measure it")
    return Finding(
        {
            "compile_s": compiled.timings.get("compile_s", unmeasured),
            "flops": cost if isinstance(cost, Unavailable) else cost.flops,
            "bytes_accessed": cost if isinstance(cost, Unavailable) else cost.bytes_accessed,
            "temp_bytes": memory if isinstance(memory, Unavailable) else memory.temp_bytes,
            "peak_bytes": memory if isinstance(memory, Unavailable) else memory.peak_bytes,
            "collectives": _count_collectives(compiled),
        },
        warnings=compiled.warnings,
    )


def _count_collectives(compiled: Compiled) -> Number:
    try:
        return len(compiled.collectives())
    except ModuleError as e:
        return Unavailable(str(e))


class Ledger:
    """The file of finished rows: JSON, a line each, of which the last may have been cut off by a kill.

    The first line names the format; each other has `key`, `target` and `options` for a reader,
    `numbers`, `error` and `warnings`. A key is a digest of the program without source locations (a notebook's
    cell has others after a restart), of options, target, JAX's version, and what JAX's configuration
    and XLA_FLAGS add to every compile.
    """

    def __init__(self, path: str | os.PathLike[str], lowered: Lowered) -> None:
        """Reads the file, or makes it.

        Raises:
          ModuleError: the file is something else, or of a newer version.
          OSError: it cannot be read or made.
        """
        self._path = Path(path)
        versions = [f"{name}={metadata.version(name)}" for name in ("jax", "jaxlib")]
        self._common = hashlib.sha256("\n".join([*versions, lowered.program.platform, lowered.stablehlo]).encode())
        self._common.update(compiler.jax_options().SerializeToString(deterministic=True))
        self._found: dict[str, Finding] = {}
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        lines = text.splitlines()
        if any(line.strip() for line in lines):
            self._check(lines[0])
            for line in lines[1:]:
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # cut off: done again
                    row = json.loads(line)
                    self._found[row["key"]] = Finding(
                        {n: _decode(row["numbers"][n]) for n in row["numbers"]},
                        row["error"],
                        tuple(row.get("warnings", ())),  # files of before have none
                    )
            if not text.endswith("\n"):
                self._append("")  # ends the line that was cut off
        else:
            self._append(json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION}))

    def read(self, request: CompileRequest) -> Finding | None:
        """What an earlier sweep found."""
        return self._found.get(self._key(request))

    def write(self, request: CompileRequest, finding: Finding) -> None:
        """Adds a row; it is on the disk when this returns."""
        numbers = {name: _encode(value) for name, value in finding.numbers.items()}
        row = {"target": str(request.target), "options": str(request.options), "numbers": numbers}
        self._append(
            json.dumps({"key": self._key(request), **row, "error": finding.error, "warnings": finding.warnings})
        )

    def _key(self, request: CompileRequest) -> str:
        digest = self._common.copy()
        digest.update(f"\n{request.build_options.to_json()}\n{request.target}".encode())
        return digest.hexdigest()

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _check(self, line: str) -> None:
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        found = header.get("format") if isinstance(header, dict) else None
        if found != FORMAT:
            raise ModuleError(f"{os.fspath(self._path)!r} is not a sweep's file. Give a path that does not exist yet.")
        if header["format_version"] > FORMAT_VERSION:
            raise ModuleError(
                f"{os.fspath(self._path)!r} has format {header['format_version']}, this inspector reads up to"
                f" {FORMAT_VERSION}. Update inspector to read it."
            )


def _encode(value: Number) -> Any:
    return {"unavailable": [value.reason, value.remedy]} if isinstance(value, Unavailable) else value


def _decode(value: Any) -> Number:
    return Unavailable(*value["unavailable"]) if isinstance(value, dict) else value


class _Engines:
    """The engines of one sweep; those that it made end with it."""

    def __init__(self, lowered: Lowered, engine: Any, time_limit_s: float | None) -> None:
        self._program = lowered.program
        self._time_limit_s = time_limit_s
        self._made: list[Engine] = []
        self._worker: Engine | None = None
        self._engine = self._resolve(engine)

    def engine_for(self, target: Target) -> Engine:
        """Who compiles for a target."""
        if self._engine is not None:
            return self._engine
        suited = default_engine(self._program, target)
        return self._own_worker() if suited.name == "worker" else suited

    def __enter__(self) -> _Engines:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._made:
            engine.close()

    def _resolve(self, engine: Any) -> Engine | None:
        if engine == "worker":
            return self._own_worker()
        if engine == "dask" or type(engine).__module__.partition(".")[0] == "distributed":
            from inspector.engines.dask import DaskEngine

            return self._keep(DaskEngine(None if engine == "dask" else engine, self._time_limit_s))
        found = chosen_engine(engine)
        if found is None or engine == "inline":
            return found
        if self._time_limit_s is not None:
            raise ParameterError(
                f"time_limit_s={self._time_limit_s:g} is for engines that the sweep makes, and {engine!r} is one of"
                " yours. Leave one of them out."
            )
        return found

    def _own_worker(self) -> Engine:
        if self._worker is None:
            from inspector.engines.worker import WorkerEngine, WorkerSettings

            self._worker = self._keep(WorkerEngine(WorkerSettings(time_limit_s=self._time_limit_s)))
        return self._worker

    def _keep(self, engine: Engine) -> Engine:
        self._made.append(engine)
        return engine


def _requests(
    lowered: Lowered, variants: Sequence[Variant], findings: dict[Variant, Finding], ledger: Ledger | None
) -> list[tuple[CompileRequest, list[Variant]]]:
    """What is to be compiled, and for which variants; puts what is known already among the findings."""
    wanted: dict[str, tuple[CompileRequest, list[Variant]]] = {}
    for target, options in variants:
        try:
            request = CompileRequest(lowered.program, options, target)
        except InspectorError as e:  # options and target that do not go together
            findings[target, options] = Finding({}, _error_text(e))
            continue
        known = ledger.read(request) if ledger is not None else None
        if known is not None:
            findings[target, options] = known
        else:
            wanted.setdefault(request.digest, (request, []))[1].append((target, options))
    return list(wanted.values())


def _compile_all(
    requests: Sequence[CompileRequest], engine_for: Callable[[Target], Engine]
) -> Generator[tuple[int, Finding], None, None]:
    """Compiles, yielding each request's index and finding as it ends.

    What still runs when the caller stops is cancelled.
    """
    ended: queue.SimpleQueue[tuple[int, Job[Compiled]]] = queue.SimpleQueue()
    running: dict[int, Job[Compiled]] = {}
    waiting = iter(range(len(requests)))
    try:
        while True:
            for index in itertools.islice(waiting, _IN_FLIGHT - len(running)):
                job = running[index] = engine_for(requests[index].target).submit(requests[index])
                job.add_done_callback(functools.partial(_put, ended, index))
            if not running:
                return
            index, job = ended.get()
            del running[index]
            finding = _finding(job)
            del job  # with its result, which may be large
            yield index, finding
    finally:
        for job in running.values():
            job.cancel()


def _put(ended: queue.SimpleQueue[tuple[int, Job[Compiled]]], index: int, job: Job[Compiled]) -> None:
    ended.put((index, job))


def _finding(job: Job[Compiled]) -> Finding:
    error = job.exception()
    if isinstance(error, CancelledError):
        raise error
    return finding_of(job.result()) if error is None else Finding({}, _error_text(error))


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _listed(targets: Any) -> tuple[str | Target, ...]:
    return tuple(targets) if isinstance(targets, Iterable) and not isinstance(targets, str) else (targets,)


def _close(progress: Progress, findings: Mapping[Variant, Finding]) -> None:
    failed = sum(1 for finding in findings.values() if finding.error)
    progress.close(f"{len(findings)} variants, {failed} failed." if failed else f"{len(findings)} variants.")


def _table(variants: Sequence[Variant], findings: Mapping[Variant, Finding]) -> pd.DataFrame:
    import pandas as pd

    done = [variant for variant in variants if variant in findings]
    said = [options.as_dict() for _, options in done]
    flags = list(dict.fromkeys(name for _, options in variants for name in options.as_dict()))
    columns: dict[str, list[Any]] = {"target": [str(target) for target, _ in done]}
    for flag in flags:
        columns[flag] = [row.get(flag, DEFAULT) for row in said]
    for name in NUMBERS:
        columns[name] = [findings[variant].numbers.get(name, math.nan) for variant in done]
    columns["error"] = [findings[variant].error for variant in done]
    columns["warnings"] = ["\n".join(findings[variant].warnings) for variant in done]
    return pd.DataFrame(columns)
