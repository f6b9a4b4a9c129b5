"""A serialized executable that the worker is still writing while all else of the program is known.

XLA takes as long to write the executable as for all other results. To look at the program, a user need not wait for it;
to run it in another process or to save it, they do.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable

from inspector.errors import Unavailable

LOST = Unavailable("its worker ended before it had written the executable", "compile it again")
"""The executable of a program whose worker ended too early."""


class Awaited:
    """An executable to come. Created on the thread that reads it after the other messages. Any thread may call `get`."""

    def __init__(self) -> None:
        self._come: concurrent.futures.Future[bytes | Unavailable] = concurrent.futures.Future()
        self._thread = threading.get_ident()
        self._read: Callable[[], bytes | Unavailable] = lambda: LOST

    def follow(self, read: Callable[[], bytes | Unavailable]) -> None:
        """Sets `read`, which waits for the executable on the reading thread and must not raise."""
        self._read = read

    def get(self) -> bytes | Unavailable:
        """Returns the executable, or why there is none. Waits; on the reading thread, as in a job's callback, reads it."""
        if threading.get_ident() == self._thread and not self._come.done():
            self._come.set_result(self._read())
        return self._come.result()
