"""Does compile and run orders with a client of this process, and remembers the last executables.

The same in the kernel (inline engine) and in a worker. Each executable costs memory and a few
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

from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.engines.counting import Count, count_here, program_cost
from inspector.engines.messages import CompileOrder, RunOrder
from inspector.engines.scratch import Scratch
from inspector.errors import ExecutionError

if TYPE_CHECKING:
    from inspector._jax.callbacks import HostCallbacks
    from inspector._jax.client import Client, Watch
    from inspector._jax.execution import Executable, Execution
    from inspector._jax.products import Products
    from inspector._jax.slices import Slice

Progress = Callable[[str], None]


class Server:
    """The clients of a process with the executables it holds. Used by one thread at a time."""

    def __init__(
        self, client_of: Callable[[Slice | None], Client], count: Count = count_here, max_executables: int = 4
    ) -> None:
        """Nothing is started yet.

        Args:
          client_of: the client for devices that are not here, or for None the one of those that are.
          count: XLA's cost analysis of modules.
          max_executables: that are kept alive.
        """
        self._count = count
        self._client_of = client_of
        self._max_executables = max_executables
        self._executables: collections.OrderedDict[tuple[str, int], Executable] = collections.OrderedDict()

    def compile(
        self,
        order: CompileOrder,
        progress: Progress,
        callbacks: HostCallbacks | None = None,
        watch: Watch | None = None,
    ) -> Products:
        """Compiles and keeps the executable for a run to come.

        Args:
          order: what is asked.
          progress: gets the stages.
          callbacks: of a program that calls back into this process.
          watch: as in `Client.compile`; an order with products needs its directory, or a temporary one.
        """
        from inspector._jax.client import Watch

        if not order.products:
            return self._compile(order, progress, callbacks, watch)[1]
        if watch is not None:
            return self._record(order, progress, callbacks, watch)
        scratch = Scratch(os.getpid())
        try:
            return self._record(order, progress, callbacks, Watch(f"{scratch.path}/hlo"))
        finally:
            scratch.delete()

    def _record(
        self, order: CompileOrder, progress: Progress, callbacks: HostCallbacks | None, watch: Watch
    ) -> Products:
        from inspector._jax.dump import Dump
        from inspector.engines.recording import Recording

        recording = Recording(order.products, order.platform)
        # The preview needs protos, and with passes XLA would write one a pass.
        take = None if "passes" in order.products else watch.take
        watch = dataclasses.replace(watch, take=take, see=recording.see, flags=recording.flags)
        with contextlib.ExitStack() as stack:
            for folder in recording.folders:
                stack.enter_context(Dump(str(Path(watch.directory).with_name(folder)), [recording.see]))
            stack.enter_context(recording.timing())
            _, products = self._compile(order, progress, callbacks, watch)
        progress("recording")
        started = time.perf_counter()
        recorded = recording.read(products)
        timings = {**products.timings, "record_s": time.perf_counter() - started}
        assignment = products.buffer_assignment or recording.assignment(products)
        return dataclasses.replace(products, recorded=recorded, timings=timings, buffer_assignment=assignment)

    def run(self, order: RunOrder, progress: Progress, callbacks: HostCallbacks | None = None) -> Execution:
        """Runs: the executable still held, else its bytes, else compiled again."""
        executable = self._executables.get(_key(order.compile, callbacks))
        if executable is None and order.executable is not None:
            progress("loading")
            c = order.compile
            executable = self._client_of(c.slice).load(order.executable, c.module, c.build_options, order.versions)
            self._hold(_key(c, callbacks), executable)
        if executable is None:
            executable, _ = self._compile(order.compile, progress, callbacks)
        if executable is None:
            raise ExecutionError("A program for a device that is not here cannot run.")
        progress("running")
        return executable.run(
            order.inputs, order.per_replica, repeat=order.repeat, warmup=order.warmup, names=order.names
        )

    def _compile(
        self, order: CompileOrder, progress: Progress, callbacks: HostCallbacks | None, watch: Watch | None = None
    ) -> tuple[Executable | None, Products]:
        executable, products = self._client_of(order.slice).compile(
            order.module,
            order.build_options,
            platform=order.platform,
            callbacks=callbacks,
            progress=progress,
            watch=watch,
            costing=lambda hlo_proto, reported: program_cost(hlo_proto, reported, self._count),
        )
        if executable is not None:
            self._hold(_key(order, callbacks), executable)
        return executable, products

    def _hold(self, key: tuple[str, int], executable: Executable) -> None:
        self._executables[key] = executable
        self._executables.move_to_end(key)
        while len(self._executables) > self._max_executables:
            self._executables.popitem(last=False)


def _key(order: CompileOrder, callbacks: HostCallbacks | None) -> tuple[str, int]:
    # Modules that differ only in what they call back are equal in bytes. An executable holds its
    # callbacks, so while it is remembered no other object has that id.
    return order.key, id(callbacks)


def client_of(target: Target) -> Client:
    """The client of this process for a target that is here.

    Raises:
      TargetError: it is not.
    """
    from inspector._jax.client import Client

    return Client() if target.kind == "attached" else Client(target.kind, target.device_count)


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
