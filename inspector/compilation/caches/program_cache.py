"""Compiled programs by key: the most recent ones in memory, more in a directory. Values only, no engine.

A file is a saved `Compiled` (`saved_compiled.py`, no pickle), written atomically by a rename, so that any number
of processes can share a directory without locks. A file that cannot be read is deleted and logged. Processes load and
run the executables in this directory, so a directory or file that others can write to is not used.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import logging
import re
import threading
import time
from pathlib import Path

from inspector.compilation.caches import readings
from inspector.compilation.caches.cell_files import module_digest, renamed
from inspector.compilation.compiled import CompiledProgram, build_options_of, executable_of
from inspector.compilation.files import saved_compiled
from inspector.compilation.request import CompileRequest
from inspector.errors import ModuleError, Unavailable
from inspector.support import files, packages

_SUFFIX = ".compiled"
_PARTIAL = re.compile(rf"\..*({re.escape(_SUFFIX)}|{re.escape(readings.SUFFIX)})\.[0-9a-f]{{16}}")

_log = logging.getLogger(__name__)


def cache_key(request: CompileRequest, compiler: str) -> str:
    """Returns the SHA-256 over everything that determines the result and inspector's description of it, in hex.

    inspector computes parts of the cached results, such as the cost, so another version of inspector has other keys.

    Args:
      request: module, options and target.
      compiler: the compiler's identity: versions, machine, configuration.
    """
    digest = request.digest_with(module_digest(request.program.module))
    text = f"{packages.code_stamp()}\n{digest}\n{request.program.platform}\n{compiler}"
    return hashlib.sha256(text.encode()).hexdigest()


_LARGE_PART = 16


def is_large(compiled: CompiledProgram, limit_bytes: int) -> bool:
    """Reports whether a program is cached on disk only, because it would use memory as long as the process lives.

    True if it is larger than the limit divided by 16: reading it takes a hundredth of the time of its compile.

    Args:
      compiled: the program.
      limit_bytes: limit for all programs in memory.
    """
    return _bytes(compiled) * _LARGE_PART > limit_bytes


class MemoryCache:
    """The most recently used programs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: collections.OrderedDict[str, CompiledProgram] = collections.OrderedDict()

    def get(self, key: str) -> CompiledProgram | None:
        """Returns the program, or None, and marks it as recently used."""
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
            return self._programs.get(key)

    def put(self, key: str, compiled: CompiledProgram, limit_bytes: int) -> None:
        """Adds a program and removes the least recently used ones above the limit.

        A program that exceeds the limit by itself is not added.
        """
        if _bytes(compiled) > limit_bytes:
            return
        with self._lock:
            self._programs[key] = compiled
            self._programs.move_to_end(key)
            total = sum(map(_bytes, self._programs.values()))
            while total > limit_bytes:
                total -= _bytes(self._programs.popitem(last=False)[1])


class DiskCache:
    """A directory of programs. Any number of processes may use it at once."""

    def __init__(self, directory: str) -> None:
        """Creates the cache. The directory is created on the first write."""
        self._directory = Path(directory)

    def __contains__(self, key: str) -> bool:
        return self._may_be_used() and self._file(key).is_file()

    def get(self, key: str, request: CompileRequest) -> CompiledProgram | None:
        """Returns the program and marks it as recently used; None if there is no readable one.

        Args:
          key: key of the request.
          request: the expected request; a file of another program is deleted.
        """
        file = self._file(key)
        if not self._may_be_used():
            return None
        try:
            files.open_regular(file, own=True).close()
            compiled = saved_compiled.load(file)
            if not _is_of(compiled, request):
                raise ModuleError(f"{str(file)!r} contains another program than its name indicates.")
            compiled = renamed(compiled, request.program.module)
        except FileNotFoundError:
            return None
        except files.RefusedError as e:
            _warn_once(f"A cached program is not used: {e}.")
            return None
        except (ModuleError, OSError) as e:
            _log.warning("A cached program cannot be used and is compiled again: %s", e)
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            file.touch()
        return compiled

    def put(self, key: str, compiled: CompiledProgram, limit_bytes: int) -> bool:
        """Writes a program, then deletes the least recently used ones above the limit.

        If the directory cannot or must not be written to, this is logged once. It costs time for compiles, not results.

        Returns:
          True if the program is in the directory.
        """
        try:
            files.make_own_folder(self._directory)
            saved_compiled.save(compiled, self._file(key), compress=False, private=True)
            self._evict(limit_bytes)
            return self._file(key).is_file()
        except (OSError, ModuleError) as e:
            _warn_once(f"Compiled programs are not cached on disk: {e}.")
            return False

    def _may_be_used(self) -> bool:
        try:
            files.check_own_folder(self._directory)
        except FileNotFoundError:
            return False
        except OSError as e:
            _warn_once(f"Compiled programs are not cached on disk: {e}.")
            return False
        return True

    def _evict(self, limit_bytes: int) -> None:
        entries = []
        for file, stat in files.entries(self._directory):
            if file.name.endswith((_SUFFIX, readings.SUFFIX)):
                entries.append((stat.st_mtime, stat.st_size, file))
            elif _PARTIAL.fullmatch(file.name) and time.time() - stat.st_mtime > files.PARTIAL_LIFE_S:
                with contextlib.suppress(OSError):  # another process deleted it
                    file.unlink()
        total = sum(size for _, size, _ in entries)
        for _, size, file in sorted(entries):
            if total <= limit_bytes:
                return
            total -= size
            with contextlib.suppress(OSError):
                if saved_compiled.is_saved(file) or readings.is_reading(file):  # not a user's file of a similar name
                    file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"


@functools.cache
def _warn_once(text: str) -> None:
    """Logs a warning once."""
    _log.warning("%s", text)


def _is_of(compiled: CompiledProgram, request: CompileRequest) -> bool:
    cached, requested = compiled.program.module, request.program.module
    same = cached == requested or module_digest(cached) == module_digest(requested)
    return same and build_options_of(compiled) == request.build_options


def _bytes(compiled: CompiledProgram) -> int:
    blobs = (compiled.program.module, compiled.hlo, compiled.hlo_proto, executable_of(compiled))
    recorded = (compiled.passes, compiled.assembly, compiled.buffers)
    recorded_bytes = sum(product.byte_size for product in recorded if not isinstance(product, Unavailable))
    return recorded_bytes + sum(len(blob) for blob in blobs if isinstance(blob, (bytes, str)))
