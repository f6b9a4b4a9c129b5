"""`recording_prints`: the text that a program's host callbacks print, such as that of `jax.debug.print`."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

_MOST = 4_000  # characters


class Printed:
    """The beginning of what callbacks printed. Thread-safe."""

    def __init__(self) -> None:
        """Creates the object; nothing is printed yet."""
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._length = self._lines = 0
        self._is_full = False

    def add(self, text: str) -> None:
        """Adds text."""
        with self._lock:
            self._is_full = self._is_full or self._length + len(text) > _MOST  # whole texts, so that no line is cut
            kept = "" if self._is_full else text
            self._parts.append(kept)
            self._length += len(kept)
            self._lines += text[len(kept) :].count("\n")

    def __str__(self) -> str:
        with self._lock:
            more = f"\n… {self._lines:,} more lines" if self._lines else ""
            return "".join(self._parts).rstrip("\n") + more


@contextlib.contextmanager
def recording_prints() -> Iterator[Printed]:
    """Records what the runtime's threads and this thread print until the block ends. The text is printed as usual too.

    XLA calls back on threads of its own, which Python did not start, or on the thread that executes the program. Threads that Python
    started, such as that of a cell, are not recorded.
    """
    printed = Printed()
    own, out = threading.get_ident(), sys.stdout
    recorder: Any = _Recorder(out, printed, own)
    sys.stdout = recorder
    try:
        yield printed
    finally:
        if sys.stdout is recorder:  # otherwise somebody else replaced it in the meantime
            sys.stdout = out


class _Recorder:
    """A standard output that also records."""

    def __init__(self, out: TextIO, printed: Printed, own: int) -> None:
        self._out, self._printed, self._own = out, printed, own

    def write(self, text: str) -> int:
        # Python gives this name to threads that it did not start.
        if threading.get_ident() == self._own or threading.current_thread().name.startswith("Dummy-"):
            self._printed.add(text)
        return self._out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)
