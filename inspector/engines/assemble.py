"""Converts a compiler's report to the values of the engine contract. Used by every engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from inspector._jax.compiling.execution import Execution
from inspector._jax.compiling.final_hlo import joined_hlo_proto
from inspector._jax.compiling.report import EarlyReport, Report
from inspector.compilation.compiled import CompiledProgram, not_asked_for
from inspector.compilation.cost import Cost
from inspector.compilation.device_warnings import device_warnings
from inspector.compilation.engine import Job
from inspector.compilation.memory import Memory
from inspector.compilation.options.flag_targets import check_targets, target_warnings
from inspector.compilation.options.pass_names import pass_warnings
from inspector.compilation.preview import COUNTING, Preview, assigned_memory
from inspector.compilation.program import Program
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.request import CompileRequest, RunReply
from inspector.engines.unreadable_parts import readable
from inspector.engines.workers import messages
from inspector.engines.workers.pending_executable import Awaited
from inspector.engines.workers.process_output import warnings_in
from inspector.errors import OPTIMIZED, CompilationError, OptionError, TargetError, Unavailable, WorkerDiedError
from inspector.platforms import PLATFORMS
from inspector.support import deferred, json_values

T = TypeVar("T")


def check_request(request: CompileRequest) -> None:
    """Checks a request for errors that are known beforehand and that XLA would ignore, hang on or abort on.

    Raises:
      OptionError: an invalid flag or value, or a partitioner that the program was not lowered for.
    """
    request.options.check()
    check_targets(request.options, request.program.platform, is_attached=not request.target.is_absent)
    _check_target(request)
    _check_products(request)
    lowered, choice = request.program.options.use_shardy_partitioner, request.options.use_shardy_partitioner
    if choice is not None and lowered is not None and choice != lowered:
        names = {True: "Shardy", False: "GSPMD"}
        raise OptionError(
            f"use_shardy_partitioner={choice} selects {names[choice]}, but the program was lowered for"
            f" {names[lowered]}, and XLA hangs or aborts on a mix. Set jax_use_shardy_partitioner to {choice}"
            " and lower the function again."
        )


def _check_products(request: CompileRequest) -> None:
    """Rejects a request for assembly code whose flags redirect the files that contain it."""
    ours = {argument.removeprefix("--").partition("=")[0] for platform in PLATFORMS for argument in platform.load_args}
    theirs = sorted(ours & request.build_options.flags.keys())
    if "assembly" in request.products and theirs:
        raise OptionError(
            f"products=('assembly',) needs the files that libtpu writes with its assembly code, but {', '.join(theirs)}"
            " redirects them, and libtpu writes them only once. Remove one of the two."
        )


def _check_target(request: CompileRequest) -> None:
    """Rejects a target of another platform than the program's, or with too few devices."""
    program, target = request.program, request.target
    if not target.is_absent:
        return
    if program.platform != target.platform:
        raise TargetError(
            f"{program.name!r} was lowered for {program.platform}, but {target} needs programs for {target.platform}."
            f" Lower it with platform={target.platform!r}, or use inspector.explore, which does so automatically."
        )
    options = request.build_options
    replicas, partitions = options.num_replicas or 1, options.num_partitions or 1
    if replicas * partitions > (target.device_count or 1):
        enough = target.with_devices(replicas * partitions)
        raise TargetError(
            f"{program.name!r} needs {replicas * partitions} devices (num_replicas {replicas} x num_partitions {partitions}), but"
            f" {target} has {target.device_count}. {f'Use {enough}' if enough else 'No such target has enough'}."
        )
    if program.host_callbacks:
        raise TargetError(
            f"The program {program.name!r} calls back into this process (jax.debug.print, io_callback, pure_callback),"
            f" which is not possible from a device that is not attached. Remove the callbacks to compile for {target}."
        )


def request_warnings(request: CompileRequest) -> tuple[str, ...]:
    """Returns warnings about parts of the request that XLA silently ignores or replaces."""
    platform = request.program.platform
    return (*pass_warnings(request.build_options, platform), *target_warnings(request.options, platform))


def refusal(error: CompilationError, program: Program) -> CompilationError:
    """Returns the error of a compile, with the likely cause and the remedy if the program is optimized already."""
    if not program.is_optimized or "RESOURCE_EXHAUSTED" in str(error):
        return error
    explained = CompilationError(f"{error} {OPTIMIZED}")
    explained.buffers = error.buffers
    return explained


def make_compiled(
    request: CompileRequest,
    engine: str,
    report: Report,
    *,
    queue_s: float,
    total_s: float,
    warnings: tuple[str, ...],
) -> CompiledProgram:
    """Creates a `Compiled` from a report. The executable is read on first use.

    Args:
      request: the request.
      engine: name of the engine.
      report: the compiler's report.
      queue_s: seconds from submission until work began.
      total_s: seconds from submission until now.
      warnings: warnings about the request, and those of the compiler.
    """
    recorded: dict[str, Any] = {name: _recorded(report, name, kind.from_bytes) for name, kind in RECORDS.items()}
    rest = deferred.replace(report, recorded={})  # kept until the executable is read; the products are large
    return deferred.defer(
        CompiledProgram,
        {"_executable": lambda _: rest.executable},
        program=request.program,
        options=request.options,
        target=request.target,
        _engine=engine,
        hlo=report.hlo,
        hlo_proto=report.hlo_proto,
        memory=readable("memory", lambda: _memory(report, recorded["buffers"], request.program.platform)),
        cost=readable("cost", lambda: _cost(report.cost)),
        timings={**report.timings, "queue_s": queue_s, "total_s": total_s},
        versions=report.versions,
        devices=report.devices,
        warnings=warnings,
        **recorded,
    )


class Shower:
    """Reports the progress of a compile on its job: the preview, then its cost, then the result.

    Attributes:
      executable: the executable that follows a worker's result.
    """

    def __init__(
        self,
        job: Job[CompiledProgram],
        request: CompileRequest,
        engine: str,
        queue_s: float = 0.0,
        warnings: tuple[str, ...] = (),
    ) -> None:
        """Creates a shower for one compile.

        Args:
          job: the job.
          request: its request.
          engine: name of the engine.
          queue_s: seconds from submission until work began.
          warnings: warnings about the request.
        """
        self._job = job
        self._request = request
        self._engine = engine
        self._warnings = warnings
        self._queue_s = queue_s
        self.executable = Awaited()
        self._early_report: EarlyReport | None = None
        self._preview: Preview | None = None

    def hear(self, header: messages.Header, blobs: Sequence[bytes]) -> None:
        """Handles a message that a worker sends before its report: the preview or its cost."""
        if "preview" in header:
            self._early_report = messages.read_early(header, blobs)
            self._preview = self._early(self._early_report)
            self._job.show(self._preview)
        elif self._preview is not None:
            self._show_counted(self._preview, readable("cost", lambda: _cost(messages.read_counted(header))))

    def report(self, header: messages.Header, blobs: Sequence[bytes]) -> Report:
        """Reads the worker's report, which refers to the earlier messages."""
        return messages.read_report(header, blobs, self.executable.get, self._early_report)

    def failed(self, error: CompilationError | WorkerDiedError) -> None:
        """Adds the buffer assignment of the preview to an error, for example of a program that does not fit into memory."""
        if self._early_report is not None and self._early_report.buffer_assignment:
            proto = joined_hlo_proto(self._early_report.hlo_proto, self._early_report.buffer_assignment)
            error.buffers = Buffers.of(proto).to_bytes()

    def result(self, report: Report, log: str = "") -> None:
        """Resolves the job with a result, after the preview or cost that was not shown before.

        Args:
          report: the compiler's report.
          log: the output of XLA during the compile.
        """
        compiled = make_compiled(
            self._request, self._engine, report, queue_s=self._queue_s, total_s=self._job.elapsed_s,
            warnings=(*device_warnings(self._request, report.devices), *self._warnings, *warnings_in(log)),
        )  # fmt: skip
        if self._preview is None:
            self._job.show(Preview.of(compiled, self._job.elapsed_s))
        else:
            self._show_counted(self._preview, compiled.cost)
        self._job.resolve(compiled)

    def _show_counted(self, preview: Preview, cost: Cost | Unavailable) -> None:
        self._job.show(dataclasses.replace(preview, cost=cost))

    def _early(self, early: EarlyReport) -> Preview:
        request = self._request
        return Preview(
            program=request.program,
            options=request.options,
            target=request.target,
            engine=self._engine,
            hlo=early.hlo,
            hlo_proto=early.hlo_proto,
            memory=readable("memory", lambda: assigned_memory(early.buffer_assignment, request.program.platform)),
            cost=COUNTING,
            elapsed_s=self._job.elapsed_s,
            devices=early.devices,
        )


def make_reply(execution: Execution, warnings: tuple[str, ...] = ()) -> RunReply:
    """Creates a `RunReply` from a measurement."""
    return RunReply(
        execution.outputs, execution.durations_s, execution.device_kind, warnings, execution.xspace,
        execution.plain_durations_s, execution.first_s, execution.dispatch_s,
    )  # fmt: skip


def _recorded(report: Report, name: str, read: Callable[[bytes], T]) -> T | Unavailable:
    value = report.recorded.get(name, not_asked_for(name))
    return value if isinstance(value, Unavailable) else readable(name, lambda: read(value))


def _memory(report: Report, buffers: Buffers | Unavailable, platform: str) -> Memory | Unavailable:
    """Reads the memory from the buffer assignment, or from the recorded buffers if the report has none."""
    assignment = report.buffer_assignment
    if not assignment and not isinstance(buffers, Unavailable):
        assignment = buffers.assignment
    return assigned_memory(assignment, platform, report.memory)


def _cost(cost: Mapping[str, Any] | Unavailable) -> Cost | Unavailable:
    return cost if isinstance(cost, Unavailable) else json_values.decode(Cost, cost)
