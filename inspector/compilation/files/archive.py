"""Zip archives that a stranger may have packed: every size is known and bounded before a byte is unpacked.

What `write` packs, `Archive` reads. Knows nothing of what is in them.
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
"""So much may come of however few bytes."""

RATIO = 64
"""More bytes come of each byte beyond. HLO packs to a tenth; what packs better is stored as it is."""

_END = struct.Struct("<4s4H2LH")  # the end record, without a comment (APPNOTE 4.3.16)
_LOCATOR = struct.Struct("<4sLQL")  # of the end record of large archives (4.3.15)
_LARGE_END = struct.Struct("<4sQ2H2L4Q")  # that record (4.3.14)
_MAX_DIRECTORY_BYTES = 1 << 18
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LEVEL = 1
_PIECE_BYTES = 1 << 18

# What `zipfile` raises for bytes that are no archive, or a damaged one.
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, TypeError, EOFError, NotImplementedError,
    RuntimeError, OSError, MemoryError, OverflowError,
)  # fmt: skip


class Archive:
    """An archive that is open for reading; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the directory of the archive.

        Raises:
          FileNotFoundError: there is no such file.
          ModuleError: the file is no archive, or no regular file.
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
        """What is in it."""
        return frozenset(self._zip.namelist())

    def read(self, name: str, limit_bytes: int | None = None) -> bytes:
        """The bytes of an entry.

        Raises:
          ModuleError: there is none, it is damaged, or says that it is larger than it could be.
        """
        try:
            entry = self._zip.getinfo(name)
            most = min(self._left, max(FREE_BYTES, RATIO * entry.compress_size), limit_bytes or self._left)
            if entry.file_size > most or entry.compress_size > self._bytes:
                raise ValueError(f"its {name} says that it has {entry.file_size:,} bytes, of at most {most:,}")
            if entry.compress_type not in _METHODS:
                raise ValueError(f"its {name} is packed by the method {entry.compress_type}")
            self._left -= entry.file_size
            with self._zip.open(entry) as packed:
                return packed.read(entry.file_size + 1)  # without a number, all that it unpacks to
        except _UNREADABLE as e:
            raise ModuleError(str(e) if isinstance(e, ValueError) else f"{type(e).__name__}: {e}") from e


def write(path: str | os.PathLike[str], entries: Mapping[str, bytes], *, compress: bool, private: bool = False) -> None:
    """Writes an archive whole or not at all.

    Args:
      path: where; an older file there is replaced.
      entries: bytes by name.
      compress: a fifth of the size for five times the time.
      private: whether only this user may read it, and whether it is a cache entry: not worth a wait for the disk.

    Raises:
      OSError: the place cannot be written.
    """
    mode = 0o600 if private else None
    with files.writing(path, mode=mode, durable=not private) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data, _method(data, compress), _LEVEL)


def inflate(data: bytes) -> bytes:
    """What zlib packed, within the same bounds.

    Raises:
      ModuleError: it is damaged, or larger.
    """
    most = max(FREE_BYTES, RATIO * len(data))
    try:
        size = _inflated_size(data, most)
        found = b"" if size is None else zlib.decompress(data, bufsize=max(size, 1))
    except (zlib.error, MemoryError) as e:
        raise ModuleError(f"{len(data)} packed bytes are damaged ({e}).") from e
    if size is None:
        raise ModuleError(f"{len(data)} packed bytes are damaged: cut off, or more than {most:,} unpacked.")
    return found


def _inflated_size(data: bytes, most: int) -> int | None:
    """How many bytes come of it, counted piece by piece; None where it is cut off, or more come than `most`."""
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
    """Refuses an archive whose directory would take much memory, by its last bytes. Ours have no comment behind."""
    if not tail:
        return
    start = len(tail) - _END.size
    if start < 0 or tail[start : start + 4] != b"PK\x05\x06":
        raise ValueError("the file does not end as such an archive does")
    length = _END.unpack_from(tail, start)[5]
    if start >= _LOCATOR.size and tail[start - _LOCATOR.size :][:4] == b"PK\x06\x07" and len(tail) == _TAIL:
        length = _LARGE_END.unpack_from(tail, 0)[8]
    if length > _MAX_DIRECTORY_BYTES:
        raise ValueError(f"its directory says that it has {length:,} bytes")


def _method(data: bytes, compress: bool) -> int:
    """How to pack an entry: as it is when it would pack so well that it looks like a bomb."""
    packs_too_well = compress and len(data) > FREE_BYTES and RATIO * len(zlib.compress(data, _LEVEL)) < len(data)
    return zipfile.ZIP_DEFLATED if compress and not packs_too_well else zipfile.ZIP_STORED
