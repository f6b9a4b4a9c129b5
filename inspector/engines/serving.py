"""Serves compile and run requests with a compiler of this process, and remembers the last executables.

The same in the notebook kernel (inline engine) and in a worker. Each executable costs memory and a few
hundred memory maps, of which a process has a limited number, so only a few stay alive.
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
    """The compilers of a process with the executables it holds. Used by one thread at a time."""

    def __init__(
        self, compiler_of: Callable[[Slice | None], Compiler], count: Count = count_here, max_executables: int = 4
    ) -> None:
        """Nothing is started yet.

        Args:
          compiler_of: the compiler for devices that are not here, or for None the one of those that are.
          count: XLA's cost analysis of modules.
          max_executables: that are kept alive.
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
        """Compiles and keeps the executable for a run to come.

        Args:
          request: what is asked.
          progress: gets the stages.
          callbacks: of a program that calls back into this process.
          watch: as in `Compiler.compile`; a request with products needs its directory, or a temporary one.
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
        # The preview needs protos, and with passes XLA would write one a pass.
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
        """Runs: the executable still held, else its bytes, else compiled again."""
        runnable = self._runnables.get(_key(request.compile, callbacks))
        if runnable is None and request.executable is not None:
            progress("loading")
            c = request.compile
            runnable = self._compiler_of(c.slice).load(request.executable, c.module, c.build_options, request.versions)
            self._hold(_key(c, callbacks), runnable)
        if runnable is None:
            runnable, _ = self._compile(request.compile, progress, callbacks)
        if runnable is None:
            raise ExecutionError("A program for a device that is not here cannot run.")
        progress("running")
        return runnable.run(
            request.inputs, request.per_replica, repeat=request.repeat, warmup=request.warmup, names=request.names
        )

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
    """Free space that the dump of a compile should have: files are deleted as they come, but not at once."""
    return ROOM_BYTES + _ROOM_PER_MODULE_BYTE * len(request.module)


_ROOM_PER_MODULE_BYTE = 40  # some snapshots of a module as text and as proto


def _key(request: PlainCompile, callbacks: HostCallbacks | None) -> tuple[str, int]:
    # Modules that differ only in what they call back are equal in bytes. An executable holds its
    # callbacks, so while it is remembered no other object has that id.
    return request.key, id(callbacks)


def compiler_of(target: Target) -> Compiler:
    """The compiler of this process for a target that is here.

    Raises:
      TargetError: it is not.
    """
    from inspector._jax.compiling.compiler import Compiler

    return Compiler() if target.kind == "attached" else Compiler(target.kind, target.device_count)


def callbacks_of(program: Program) -> HostCallbacks | None:
    """What a program calls in this process."""
    if not program.host_callbacks:
        return None
    if program.callbacks is None:
        raise ExecutionError(
            f"The program {program.name!r} calls back into the process that lowered it, and this is another one"
            " (it was saved, or sent, without its callbacks). Lower the function again here."
        )
    return program.callbacks  # type: ignore[return-value]  # an object to all who only carry it
