"""A serialized executable that its worker still writes, while all else of the program is known.

XLA takes as long to write it as for all the rest, and who looks at the program need not wait for it: who runs it in another
process, or keeps it, does.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable

from inspector.errors import Unavailable

LOST = Unavailable("its worker ended before it had written the executable", "compile it again")
"""What there is instead, where it never came."""


class Awaited:
    """An executable to come. Made on the thread that reads it, behind what it tells before; any thread may ask."""

    def __init__(self) -> None:
        self._come: concurrent.futures.Future[bytes | Unavailable] = concurrent.futures.Future()
        self._thread = threading.get_ident()
        self._read: Callable[[], bytes | Unavailable] = lambda: LOST

    def follow(self, read: Callable[[], bytes | Unavailable]) -> None:
        """It is next: `read` waits for it on the thread that reads, and raises nothing."""
        self._read = read

    def get(self) -> bytes | Unavailable:
        """The executable, or why there is none. Waits; on the thread that reads, as in a callback of the job, it reads."""
        if threading.get_ident() == self._thread and not self._come.done():
            self._come.set_result(self._read())
        return self._come.result()
