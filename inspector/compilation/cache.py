"""Compiled programs by key: the last ones in memory, more in a directory. Values only, no engine.

A file is a saved `Compiled` (`saved.py`, never pickle), written whole by a rename, so that any number
of processes share a directory without locks. A file that cannot be read is dropped and logged.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import logging
import threading
import time
from pathlib import Path

from inspector.compilation import saved
from inspector.compilation.cell_files import module_digest, renamed
from inspector.compilation.compiled import Compiled
from inspector.compilation.request import CompileRequest
from inspector.errors import ModuleError, Unavailable

_SUFFIX = ".compiled"
_PARTIAL_LIFE_S = 3600.0  # what a killed process left half-written

_log = logging.getLogger(__name__)


def cache_key(request: CompileRequest, compiler: str) -> str:
    """SHA-256 over all that decides what is compiled, in hex.

    Args:
      request: module, options and target.
      compiler: who would compile it: versions, machine, configuration.
    """
    digest = request.digest_with(module_digest(request.program.module))
    text = f"{saved.FORMAT_VERSION}\n{digest}\n{request.program.platform}\n{compiler}"
    return hashlib.sha256(text.encode()).hexdigest()


class MemoryCache:
    """The most recently used programs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: collections.OrderedDict[str, Compiled] = collections.OrderedDict()

    def get(self, key: str) -> Compiled | None:
        """The program, which then counts as used."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, compiled: Compiled, limit_bytes: int) -> None:
        """Remembers a program and forgets the least recently used ones above the limit."""
        with self._lock:
            self._held[key] = compiled
            self._held.move_to_end(key)
            total = sum(map(_bytes, self._held.values()))
            while total > limit_bytes and self._held:
                total -= _bytes(self._held.popitem(last=False)[1])


class DiskCache:
    """A directory of programs. Any number of processes may use it at once."""

    def __init__(self, directory: str) -> None:
        """Made when first written to."""
        self._directory = Path(directory)

    def __contains__(self, key: str) -> bool:
        return self._file(key).exists()

    def get(self, key: str, request: CompileRequest) -> Compiled | None:
        """The program, which then counts as used; None when there is none that can be read.

        Args:
          key: of the request.
          request: what the program must be of; a file of another one is dropped too.
        """
        file = self._file(key)
        try:
            compiled = saved.load(file)
            if not _is_of(compiled, request):
                raise ModuleError(f"{str(file)!r} holds another program than its name says.")
            compiled = renamed(compiled, request.program.module)
        except FileNotFoundError:
            return None
        except (ModuleError, OSError) as e:
            _log.warning("A cached program was dropped and is compiled anew: %s", e)
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            file.touch()
        return compiled

    def put(self, key: str, compiled: Compiled, limit_bytes: int) -> None:
        """Writes a program, then deletes the least recently used ones above the limit.

        A directory that cannot be written to is logged: it costs compiles, not results.
        """
        try:
            # Executables lie here that a process will load and run: nobody else may write.
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            saved.save(compiled, self._file(key), compress=False)
            self._evict(limit_bytes)
        except OSError as e:
            _log.warning("A compiled program could not be kept on disk: %s", e)

    def _evict(self, limit_bytes: int) -> None:
        files = []
        for file in self._directory.iterdir():
            with contextlib.suppress(OSError):  # another process deleted it
                stat = file.stat()
                if file.name.endswith(_SUFFIX):
                    files.append((stat.st_mtime, stat.st_size, file))
                elif f"{_SUFFIX}." in file.name and time.time() - stat.st_mtime > _PARTIAL_LIFE_S:
                    file.unlink()
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= limit_bytes:
                return
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            total -= size

    def _file(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"


def _is_of(compiled: Compiled, request: CompileRequest) -> bool:
    held, asked = compiled.program.module, request.program.module
    same = held == asked or module_digest(held) == module_digest(asked)
    return same and compiled.build_options == request.build_options


def _bytes(compiled: Compiled) -> int:
    blobs = (compiled.program.module, compiled.hlo, compiled.hlo_proto, compiled.executable)
    recorded = (compiled.passes, compiled.assembly, compiled.buffers)
    held = sum(product.byte_size for product in recorded if not isinstance(product, Unavailable))
    return held + sum(len(blob) for blob in blobs if isinstance(blob, (bytes, str)))
