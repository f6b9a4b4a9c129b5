"""A serialized executable that its worker still writes, while all else of the program is known.

XLA takes as long to write it as for all the rest, and who looks at the program need not wait for it: who runs it in another
process, or keeps it, does.
"""

from __future__ import annotations

import concurrent.futures
import threading

from inspector.errors import Unavailable

LOST = Unavailable("its worker ended before it had written the executable", "compile it again")
"""What there is instead, where it never came."""


class Awaited:
    """An executable to come. Made on the thread that will have it; any other may ask."""

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[bytes | Unavailable] = concurrent.futures.Future()
        self._thread = threading.get_ident()

    def come(self, executable: bytes | Unavailable) -> None:
        """It is there, or why it will not be."""
        self._future.set_result(executable)

    def wait(self) -> bytes | Unavailable:
        """The executable, or why there is none.

        Raises:
          RuntimeError: asked by the thread that would have it next, as in a callback of the job: it would wait for itself.
        """
        if threading.get_ident() == self._thread and not self._future.done():
            raise RuntimeError(
                "A callback of a job asked for the executable, which comes when the callback has returned."
            )
        return self._future.result()
