"""Serves compile and run requests with a compiler of this process, and keeps the last executables loaded.

Used in the notebook kernel (inline engine) and in workers. Each executable costs memory and a few
hundred memory maps, and the number of maps per process is limited, so only a few executables stay loaded.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.engines.workers.counting import Count, count_here, program_cost
from inspector.engines.workers.messages import PlainCompile, PlainRun
from inspector.engines.workers.scratch import ROOM_BYTES, Scratch
from inspector.errors import ExecutionError
from inspector.support import deferred

if TYPE_CHECKING:
    from inspector._jax.compiling.compiler import Compiler, Watch
    from inspector._jax.compiling.execution import Execution, Runnable
    from inspector._jax.compiling.report import Report
    from inspector._jax.compiling.slices import Slice
    from inspector._jax.lowering.callbacks import HostCallbacks
    from inspector.compilation.program import Program
    from inspector.compilation.target import Target

Progress = Callable[[str], None]


class Server:
    """The compilers and loaded executables of a process. Used by one thread at a time."""

    def __init__(
        self, compiler_of: Callable[[Slice | None], Compiler], count: Count = count_here, max_executables: int = 4
    ) -> None:
        """Creates the server without starting a compiler.

        Args:
          compiler_of: returns the compiler for ahead-of-time devices, or for None that of the attached ones.
          count: XLA's cost analysis of modules.
          max_executables: number of executables that stay loaded.
        """
        self._count = count
        self._compiler_of = compiler_of
        self._max_executables = max_executables
        self._runnables: collections.OrderedDict[tuple[str, int], Runnable] = collections.OrderedDict()

    def compile(
        self,
        request: PlainCompile,
        progress: Progress,
        callbacks: HostCallbacks | None = None,
        watch: Watch | None = None,
    ) -> Report:
        """Compiles, and keeps the executable loaded for a later run.

        Args:
          request: the request.
          progress: receives the stages.
          callbacks: callbacks of a program that calls back into this process.
          watch: as in `Compiler.compile`; a request with products uses its directory, or a temporary one.
        """
        from inspector._jax.compiling.compiler import Watch

        if not request.products:
            return self._compile(request, progress, callbacks, watch)[1]
        if watch is not None:
            return self._record(request, progress, callbacks, watch)
        scratch = Scratch(os.getpid(), room_bytes(request))
        try:
            return self._record(request, progress, callbacks, Watch(f"{scratch.path}/hlo"))
        finally:
            scratch.delete()

    def _record(
        self, request: PlainCompile, progress: Progress, callbacks: HostCallbacks | None, watch: Watch
    ) -> Report:
        from inspector._jax.compiling.dump import Dump
        from inspector.engines.dump_products import DumpedProducts

        recording = DumpedProducts(request.products, request.platform)
        # The preview needs protos, and with passes XLA would write one proto per pass.
        take = None if "passes" in request.products else watch.take
        watch = dataclasses.replace(watch, take=take, see=recording.see, flags=recording.flags, lost=recording.lose)
        folders = [Dump(str(Path(watch.directory).with_name(folder)), [recording.see]) for folder in recording.folders]
        with contextlib.ExitStack() as stack:
            for folder in folders:
                stack.enter_context(folder)
            stack.enter_context(recording.timing())
            _, report = self._compile(request, progress, callbacks, watch)
        for folder in folders:
            if folder.lost:
                recording.lose(folder.lost)
        progress("recording")
        started = time.perf_counter()
        recorded = recording.read(report)
        timings = {**report.timings, "record_s": time.perf_counter() - started}
        assignment = report.buffer_assignment or recording.assignment(report)
        return deferred.replace(report, recorded=recorded, timings=timings, buffer_assignment=assignment)

    def run(self, request: PlainRun, progress: Progress, callbacks: HostCallbacks | None = None) -> Execution:
        """Runs a program with the loaded executable if there is one, else loads its bytes, else compiles it again."""
        runnable = self._runnables.get(_key(request.compile, callbacks))
        if runnable is None and request.executable is not None:
            progress("loading")
            c = request.compile
            runnable = self._compiler_of(c.slice).load(request.executable, c.module, c.build_options, request.versions)
            self._hold(_key(c, callbacks), runnable)
        if runnable is None:
            runnable, _ = self._compile(request.compile, progress, callbacks)
        if runnable is None:
            raise ExecutionError("A program for a device that is not attached cannot run.")
        progress("running")
        return runnable.run(
            request.inputs, request.per_replica, repeat=request.repeat, warmup=request.warmup, names=request.names,
            profiled=request.profiled, with_outputs=request.with_outputs,
        )  # fmt: skip

    def _compile(
        self, request: PlainCompile, progress: Progress, callbacks: HostCallbacks | None, watch: Watch | None = None
    ) -> tuple[Runnable | None, Report]:
        runnable, report = self._compiler_of(request.slice).compile(
            request.module,
            request.build_options,
            platform=request.platform,
            callbacks=callbacks,
            progress=progress,
            watch=watch,
            costing=lambda hlo_proto, reported: program_cost(hlo_proto, reported, self._count),
        )
        if runnable is not None:
            self._hold(_key(request, callbacks), runnable)
        return runnable, report

    def _hold(self, key: tuple[str, int], runnable: Runnable) -> None:
        self._runnables[key] = runnable
        self._runnables.move_to_end(key)
        while len(self._runnables) > self._max_executables:
            self._runnables.popitem(last=False)


def room_bytes(request: PlainCompile) -> int:
    """Returns the free space that a compile's dump needs: its files are deleted while it is written, with a delay."""
    return ROOM_BYTES + _ROOM_PER_MODULE_BYTE * len(request.module)


_ROOM_PER_MODULE_BYTE = 40  # for a few snapshots of a module, as text and as proto


def _key(request: PlainCompile, callbacks: HostCallbacks | None) -> tuple[str, int]:
    # Modules that differ only in their callbacks have equal bytes. An executable references its
    # callbacks, so no other object can have this id while the executable is loaded.
    return request.key, id(callbacks)


def compiler_of(target: Target) -> Compiler:
    """Returns this process's compiler for an attached target.

    Raises:
      TargetError: the target is not attached.
    """
    from inspector._jax.compiling.compiler import Compiler

    return Compiler() if target.kind == "attached" else Compiler(target.kind, target.device_count)


def callbacks_of(program: Program) -> HostCallbacks | None:
    """Returns the host callbacks of a program; None if it has none."""
    if not program.host_callbacks:
        return None
    if program.callbacks is None:
        raise ExecutionError(
            f"The program {program.name!r} calls back into the process that lowered it, which is not this one"
            " (it was saved or sent without its callbacks). Lower the function again in this process."
        )
    return program.callbacks  # type: ignore[return-value]  # typed as object outside of `_jax/`
