"""Reads the files that XLA dumps during one compile, from a directory used by that compile only.

On Linux, a thread reads each file as soon as XLA has closed it and then deletes it, so the directory stays
small for any program. On other systems, all files are read when the compile has ended.

If the file system is full, XLA skips or truncates files, writes a line to stderr and continues. `Dump.lost` reports this.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import shutil
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

_IN_CLOSE_WRITE = 0x8
# struct inotify_event of inotify(7): watch, mask, cookie, length of the following name.
_EVENT = struct.Struct("iIII")
_EVENTS_BYTES = 1 << 16
_BATCH_S = 0.05
_NOT_WRITTEN = b"Could not write XLA debug data"
_LEAST_FREE_BYTES = 64 << 10  # with less, a file that was just written may be cut off
# Parts of the names of files that contain HLO as text, which ends with a brace.
_HLO_TEXTS = (
    "_optimizations.txt",
    ".before_",
    ".after_",
)

_log = logging.getLogger(__name__)

See = Callable[[Path], None]


class Dump:
    """A context around one compile that dumps into `directory`."""

    def __init__(
        self,
        directory: str,
        see: Sequence[See],
        *,
        must_watch: bool = False,
        is_awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        """Stores the arguments; watching starts when the context is entered.

        Args:
          directory: used by this compile only; created on entry and deleted on exit.
          see: callbacks for each complete file, called on a separate thread or after the compile has
            ended. Their exceptions are logged: a compile does not fail because its dump cannot be read.
          must_watch: whether to fail if files can only be read after the compile has ended.
          is_awaited: reports whether the next file is needed at once. Otherwise several files are read together, because
            waking up for each file would take as long as XLA's own thread needs to write it.
        """
        self._directory = Path(directory)
        self._callbacks = tuple(see)
        self._must_watch = must_watch
        self._is_awaited = is_awaited
        self._events = -1
        self._lost: list[str] = []
        self._stderr = _Stderr()

    @property
    def lost(self) -> str:
        """The reason why the dump is incomplete, once the compile has ended; "" if no loss was detected."""
        return self._lost[0] if self._lost else ""

    def __enter__(self) -> Dump:
        """Starts to watch the directory.

        Raises:
          OSError: the directory cannot be created, or cannot be watched although `must_watch` is set.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._stderr = _Stderr()
        try:
            self._events = _watch(self._directory)
        except OSError:
            if self._must_watch:
                shutil.rmtree(self._directory, ignore_errors=True)
                raise
            return self
        self._stopped, self._stop = os.pipe()
        self._served = threading.Event()
        threading.Thread(target=self._serve, name="inspector-dump", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._events >= 0:
            os.write(self._stop, b"x")
            self._served.wait()
        self._check_room()
        for file in sorted(self._directory.rglob("*")):
            self._see(file)
        if count := self._stderr.count(_NOT_WRITTEN):
            self._lost.insert(0, f"XLA could not write {count} files into {self._directory.parent}")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        try:
            self._see_until_stopped()
        finally:
            self._served.set()  # before the watch is closed, which takes 10 ms that the compile need not wait for
            _close(self._events, self._stopped, self._stop)

    def _see_until_stopped(self) -> None:
        stopping = False
        while not stopping:
            if not self._is_awaited():
                select.select([self._stopped], [], [], _BATCH_S)
            readable, _, _ = select.select([self._events, self._stopped], [], [])
            self._check_room()
            stopping = self._stopped in readable  # checked before the events are read, so that no earlier event is lost
            for name in _closed_files(self._events):
                # A file may be created first and written later, or never: an empty one is left until then, or to the end.
                if _has_content(self._directory / name):
                    self._see(self._directory / name)

    def _see(self, file: Path) -> None:
        if not file.is_file():  # already read and deleted after the first of two write events
            return
        if _is_cut_off(file):
            self._lost.append(f"{file.name!r} in {self._directory.parent} is cut off")
        for callback in self._callbacks:
            try:
                callback(file)
            except Exception:
                _log.exception("XLA's dump %s could not be read.", file.name)
        with contextlib.suppress(OSError):
            file.unlink()

    def _check_room(self) -> None:
        if not self._lost and (free := free_bytes(self._directory)) is not None and free < _LEAST_FREE_BYTES:
            self._lost.append(f"{self._directory.parent} was full ({free} bytes left)")


class _Stderr:
    """The text that this process writes to stderr after construction, if stderr is a file, as in a worker."""

    def __init__(self) -> None:
        self._start = self._end()

    def count(self, words: bytes) -> int:
        """Counts the occurrences of `words`; 0 if stderr cannot be read."""
        end = self._end()
        if self._start is None or end is None or end <= self._start:
            return 0
        try:
            return os.pread(2, end - self._start, self._start).count(words)
        except OSError:  # open for writing only
            return 0

    @staticmethod
    def _end() -> int | None:
        try:
            status = os.fstat(2)
        except OSError:  # closed
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) and hasattr(os, "pread") else None


def free_bytes(directory: str | Path) -> int | None:
    """Returns the bytes that this user can still write to a file system; None if unknown."""
    try:
        status = os.statvfs(directory)
    except (OSError, AttributeError):
        return None
    return status.f_bavail * status.f_frsize if status.f_blocks else None


def _is_cut_off(file: Path) -> bool:
    """Reports whether a file contains only the beginning of an HLO module."""
    name = file.name
    if not name.endswith(".txt") or "_optimizations-" in name or not any(words in name for words in _HLO_TEXTS):
        return False
    try:
        with file.open("rb") as opened:
            if opened.read(len(_BEGINS)) not in (_BEGINS, b""):  # another text about a module, such as its live ranges
                return False
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - _BRACE_BYTES))
            return not opened.read().rstrip().endswith(b"}")
    except OSError:
        return False


_BEGINS = b"HloModule"
_BRACE_BYTES = 64


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:  # already read and deleted
        return False


def _watch(directory: Path) -> int:
    """Returns a descriptor that reports every file closed after writing; see inotify(7).

    Raises:
      OSError: the system has no inotify, or no more watches.
    """
    if sys.platform != "linux":
        raise OSError(f"no inotify on {sys.platform}")
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0 or libc.inotify_add_watch(events, os.fsencode(directory), _IN_CLOSE_WRITE) < 0:
        error = ctypes.get_errno()
        if events >= 0:
            os.close(events)
        raise OSError(error, f"inotify: {os.strerror(error)}", str(directory))
    return int(events)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _closed_files(events: int) -> Iterator[str]:
    while True:
        try:
            data = os.read(events, _EVENTS_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            _, _, _, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            yield os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
