"""Zip archives from untrusted sources: every size is known and limited before any byte is unpacked.

`Archive` reads the archives that `write` writes. Must know nothing of their contents.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping

from inspector.errors import ModuleError
from inspector.support import files

FREE_BYTES = 16 << 20
"""Unpacked size that is allowed for any packed size."""

RATIO = 64
"""Unpacked bytes allowed for each packed byte beyond that. HLO packs to a tenth; data that packs better is stored unpacked."""

_END = struct.Struct("<4s4H2LH")  # the end record, without a comment (APPNOTE 4.3.16)
_LOCATOR = struct.Struct("<4sLQL")  # locator of the end record of large archives (4.3.15)
_LARGE_END = struct.Struct("<4sQ2H2L4Q")  # end record of large archives (4.3.14)
_MAX_DIRECTORY_BYTES = 1 << 18
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LEVEL = 1
_PIECE_BYTES = 1 << 18

# Errors of `zipfile` for damaged archives and for other files.
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, TypeError, EOFError, NotImplementedError,
    RuntimeError, OSError, MemoryError, OverflowError,
)  # fmt: skip


class Archive:
    """An archive that is open for reading. A context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the directory of the archive.

        Raises:
          FileNotFoundError: the file does not exist.
          ModuleError: the file is not an archive, or not a regular file.
        """
        self._stack = contextlib.ExitStack()
        try:
            file = self._stack.enter_context(files.open_regular(path))
            self._bytes = os.fstat(file.fileno()).st_size
            _check_directory(
                os.pread(file.fileno(), _TAIL, max(0, self._bytes - _TAIL)) if hasattr(os, "pread") else b""
            )
            self._zip = self._stack.enter_context(zipfile.ZipFile(file))
            self._left = max(FREE_BYTES, RATIO * self._bytes)
        except BaseException as e:
            self._stack.close()
            if isinstance(e, _UNREADABLE) and not isinstance(e, FileNotFoundError):
                raise ModuleError(f"{e}") from e
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def names(self) -> frozenset[str]:
        """Returns the names of the entries."""
        return frozenset(self._zip.namelist())

    def read(self, name: str, limit_bytes: int | None = None) -> bytes:
        """Returns the bytes of an entry.

        Raises:
          ModuleError: there is no such entry, it is damaged, or it claims an impossible size.
        """
        try:
            entry = self._zip.getinfo(name)
            most = min(self._left, max(FREE_BYTES, RATIO * entry.compress_size), limit_bytes or self._left)
            if entry.file_size > most or entry.compress_size > self._bytes:
                raise ValueError(f"its {name} claims {entry.file_size:,} bytes, more than the limit of {most:,}")
            if entry.compress_type not in _METHODS:
                raise ValueError(f"its {name} uses the unsupported compression method {entry.compress_type}")
            self._left -= entry.file_size
            with self._zip.open(entry) as packed:
                return packed.read(entry.file_size + 1)  # the number limits the unpacked size
        except _UNREADABLE as e:
            raise ModuleError(str(e) if isinstance(e, ValueError) else f"{type(e).__name__}: {e}") from e


def write(path: str | os.PathLike[str], entries: Mapping[str, bytes], *, compress: bool, private: bool = False) -> None:
    """Writes an archive atomically.

    Args:
        path: the file to write; an existing file is replaced.
        entries: bytes by name.
        compress: compresses to a fifth of the size, in five times the time.
        private: True for a cache entry: only this user may read it, and writing does not wait for the disk.

    Raises:
        OSError: the file cannot be written.
    """
    mode = 0o600 if private else None
    with files.writing(path, mode=mode, durable=not private) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data, _method(data, compress), _LEVEL)


def inflate(data: bytes) -> bytes:
    """Unpacks zlib data within the same limits.

    Raises:
      ModuleError: the data is damaged, or unpacks to more than the limit.
    """
    most = max(FREE_BYTES, RATIO * len(data))
    try:
        size = _inflated_size(data, most)
        unpacked = b"" if size is None else zlib.decompress(data, bufsize=max(size, 1))
    except (zlib.error, MemoryError) as e:
        raise ModuleError(f"{len(data)} packed bytes are damaged ({e}).") from e
    if size is None:
        raise ModuleError(f"{len(data)} packed bytes are damaged: cut off, or more than {most:,} unpacked.")
    return unpacked


def _inflated_size(data: bytes, most: int) -> int | None:
    """Returns the unpacked size, counted piece by piece; None if the data is cut off or unpacks to more than `most`."""
    stream, size = zlib.decompressobj(), 0
    for start in range(0, len(data), _PIECE_BYTES):
        rest, piece = data[start : start + _PIECE_BYTES], None
        while not stream.eof and (piece is None or rest or len(piece) == _PIECE_BYTES):
            piece = stream.decompress(rest, _PIECE_BYTES)
            rest, size = stream.unconsumed_tail, size + len(piece)
            if size > most:
                return None
    return size if stream.eof else None


_TAIL = _LARGE_END.size + _LOCATOR.size + _END.size


def _check_directory(tail: bytes) -> None:
    """Rejects an archive whose directory would need much memory, by its last bytes. inspector's archives have no comment."""
    if not tail:
        return
    start = len(tail) - _END.size
    if start < 0 or tail[start : start + 4] != b"PK\x05\x06":
        raise ValueError("not a zip archive")
    length = _END.unpack_from(tail, start)[5]
    if start >= _LOCATOR.size and tail[start - _LOCATOR.size :][:4] == b"PK\x06\x07" and len(tail) == _TAIL:
        length = _LARGE_END.unpack_from(tail, 0)[8]
    if length > _MAX_DIRECTORY_BYTES:
        raise ValueError(f"its directory claims {length:,} bytes, more than the limit of {_MAX_DIRECTORY_BYTES:,}")


def _method(data: bytes, compress: bool) -> int:
    """Returns the compression method of an entry. Data that packs so well that it looks like a zip bomb is stored unpacked."""
    packs_too_well = compress and len(data) > FREE_BYTES and RATIO * len(zlib.compress(data, _LEVEL)) < len(data)
    return zipfile.ZIP_DEFLATED if compress and not packs_too_well else zipfile.ZIP_STORED
