"""Does compile and run orders with a client of this process, and remembers the last executables.

The same in the kernel (inline engine) and in a worker. Each executable costs memory and a few
hundred memory maps, of which a process has a limited number, so only a few stay alive.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from inspector.engines.messages import CompileOrder, RunOrder

if TYPE_CHECKING:
    from inspector._jax.client import Client, Products, Watch
    from inspector._jax.execution import Executable, Execution

Progress = Callable[[str], None]
# JAX's callback objects in the module's order, and whatever else must stay alive.
Callbacks = tuple[Sequence[Any], object] | None


class Server:
    """One client with the executables it holds. Used by one thread at a time."""

    def __init__(self, client: Client, max_executables: int = 4) -> None:
        self.client = client
        self._max_executables = max_executables
        self._executables: collections.OrderedDict[tuple[str, int], Executable] = collections.OrderedDict()

    def compile(
        self, order: CompileOrder, progress: Progress, callbacks: Callbacks = None, watch: Watch | None = None
    ) -> Products:
        """Compiles and keeps the executable for a run to come; `watch` as in `Client.compile`."""
        return self._compile(order, progress, callbacks, watch)[1]

    def run(self, order: RunOrder, progress: Progress, callbacks: Callbacks = None) -> Execution:
        """Runs: the executable still held, else its bytes, else compiled again."""
        executable = self._executables.get(_key(order.compile, callbacks))
        if executable is None and order.executable is not None:
            progress("loading")
            c = order.compile
            executable = self.client.load(order.executable, c.module, c.build_options, order.versions)
            self._hold(_key(c, callbacks), executable)
        if executable is None:
            executable, _ = self._compile(order.compile, progress, callbacks)
        progress("running")
        return executable.run(
            order.inputs, order.per_replica, repeat=order.repeat, warmup=order.warmup, names=order.names
        )

    def _compile(
        self, order: CompileOrder, progress: Progress, callbacks: Callbacks, watch: Watch | None = None
    ) -> tuple[Executable, Products]:
        executable, products = self.client.compile(
            order.module,
            order.build_options,
            platform=order.platform,
            host_callbacks=callbacks[0] if callbacks else (),
            keepalive=callbacks,
            progress=progress,
            watch=watch,
        )
        self._hold(_key(order, callbacks), executable)
        return executable, products

    def _hold(self, key: tuple[str, int], executable: Executable) -> None:
        self._executables[key] = executable
        self._executables.move_to_end(key)
        while len(self._executables) > self._max_executables:
            self._executables.popitem(last=False)


def _key(order: CompileOrder, callbacks: Callbacks) -> tuple[str, int]:
    # Modules that differ only in what they call back are equal in bytes. An executable holds its
    # callbacks, so while it is remembered no other object has that id.
    return order.key, id(callbacks)
