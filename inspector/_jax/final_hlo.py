"""Takes XLA's final HLO while XLA still generates code.

When its passes are through, XLA can write the module to files (`*after_optimizations.txt` and
`*after_optimizations.hlo.pb`, an `xla.HloProto`, on CPU with the buffer assignment), long before there
is machine code. A thread waits for them in a private directory and hands them on. Whatever else XLA
writes there is deleted as it comes: with a dump directory it also writes every kernel's code.

The text is taken for its first line, which says more than the proto does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import select
import shutil
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

_TEXT, _PROTO = "after_optimizations.txt", "after_optimizations.hlo.pb"
_CONFIGURATION = ", backend_config="
_IN_CLOSE_WRITE = 0x8
# struct inotify_event of inotify(7): watch, mask, cookie, length of the name that follows.
_EVENT = struct.Struct("iIII")
_EVENTS_BYTES = 1 << 16
_LENGTH_DELIMITED = 2

_log = logging.getLogger(__name__)


def can_watch(flags: Mapping[str, Any], debug_options: Any) -> bool:
    """Whether a compile may dump into our directory: on Linux, and the user asks for no dump of his own.

    Args:
      flags: the user's, by name.
      debug_options: jaxlib's, as this process's environment set them.
    """
    theirs = any(name.startswith("xla_dump_") and name not in _HARMLESS for name in flags)
    return sys.platform == "linux" and not (theirs or "xla_enable_dumping" in flags or debug_options.xla_dump_to)


_HARMLESS = ("xla_dump_max_hlo_modules",)  # of a directory that holds only one


class FinalHlo:
    """A context around one compile; `take` is called at most once, on a thread of its own, before it ends."""

    def __init__(self, directory: str, take: Callable[[str, bytes], None]) -> None:
        """Nothing happens yet.

        Args:
          directory: private to this compile, made here and deleted in the end.
          take: gets the first line of the text and the serialized `xla.HloProto`. What it raises is logged.
        """
        self.flags: Mapping[str, Any] = {
            "xla_dump_to": directory,
            "xla_dump_hlo_as_text": True,
            "xla_dump_hlo_as_proto": True,
        }
        self._directory = Path(directory)
        self._take = take
        self._header, self._proto = "", b""
        self._taken = False

    def __enter__(self) -> FinalHlo:
        """Starts to watch.

        Raises:
          OSError: the directory cannot be made, or the system has no more watches.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._events = _watch(self._directory)
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="inspector-final-hlo", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.write(self._stop, b"x")
        self._thread.join()
        for descriptor in (self._events, self._stopped, self._stop):
            os.close(descriptor)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            readable, _, _ = select.select([self._events, self._stopped], [], [])
            stopping = self._stopped in readable  # read before the events, so that none that came earlier is lost
            for name in _closed_files(self._events):
                self._see(self._directory / name)

    def _see(self, file: Path) -> None:
        try:
            if file.name.endswith(_TEXT):
                with file.open() as text:
                    self._header = text.readline().rstrip("\n")
            elif file.name.endswith(_PROTO):
                self._proto = self._proto or file.read_bytes()
            if self._header and self._proto and not self._taken:  # either may come first
                self._taken = True
                self._take(self._header, self._proto)
        except Exception:  # the compile goes on, and its result has the HLO too
            _log.exception("XLA's final HLO could not be read from its dump.")
        finally:
            with contextlib.suppress(OSError):
                file.unlink()


def split_hlo_proto(data: bytes) -> tuple[bytes, bytes]:
    """The `hlo_module` and the `buffer_assignment` (b"" without one) of a serialized `xla.HloProto`."""
    fields = dict(_fields(data))
    return fields[1], fields.get(3, b"")


def with_sorted_configurations(text: str) -> str:
    """HLO with the keys of each `backend_config={...}` in order, as the text of an executable has them."""
    if _CONFIGURATION not in text:
        return text
    return "\n".join(_with_sorted_configuration(line) for line in text.split("\n"))


def _with_sorted_configuration(line: str) -> str:
    before, found, rest = line.partition(_CONFIGURATION)
    if not found:
        return line
    try:
        configuration, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # not every back-end writes JSON
        return line
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{before}{found}{text}{rest[end:]}"


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each field of a message that has only messages as fields."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        if key & 7 != _LENGTH_DELIMITED:
            raise ValueError(f"not an xla.HloProto: wire type {key & 7} at byte {position}")
        length, position = _varint(data, position)
        if position + length > len(data):
            raise ValueError(f"an xla.HloProto cut off at {len(data)} of {position + length} bytes")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _watch(directory: Path) -> int:
    """A descriptor that tells of every file closed after writing; see inotify(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0 or libc.inotify_add_watch(events, os.fsencode(directory), _IN_CLOSE_WRITE) < 0:
        error = ctypes.get_errno()
        if events >= 0:
            os.close(events)
        raise OSError(error, f"inotify: {os.strerror(error)}", str(directory))
    return int(events)


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
