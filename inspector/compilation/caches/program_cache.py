"""Compiled programs by key: the last ones in memory, more in a directory. Values only, no engine.

A file is a saved `Compiled` (`saved.py`, never pickle), written whole by a rename, so that any number
of processes share a directory without locks. A file that cannot be read is dropped and logged. Executables
lie here that a process will load and run, so a directory or file that others could write is not used.
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
from inspector.compilation.compiled import CompiledProgram, build_options_of
from inspector.compilation.files import saved_compiled
from inspector.compilation.request import CompileRequest
from inspector.errors import ModuleError, Unavailable
from inspector.support import files, packages

_SUFFIX = ".compiled"
_PARTIAL = re.compile(rf"\..*({re.escape(_SUFFIX)}|{re.escape(readings.SUFFIX)})\.[0-9a-f]{{16}}")

_log = logging.getLogger(__name__)


def cache_key(request: CompileRequest, compiler: str) -> str:
    """SHA-256 over all that decides what is compiled and what is told of it, in hex.

    What is kept was partly worked out by inspector itself, such as the cost, so another inspector finds none of it.

    Args:
      request: module, options and target.
      compiler: who would compile it: versions, machine, configuration.
    """
    digest = request.digest_with(module_digest(request.program.module))
    text = f"{packages.code_stamp()}\n{digest}\n{request.program.platform}\n{compiler}"
    return hashlib.sha256(text.encode()).hexdigest()


_LARGE_PART = 16


def is_large(compiled: CompiledProgram, limit_bytes: int) -> bool:
    """Whether a program is left to the disk, where that has it: it would take its memory as long as the process lives.

    One that takes more than the limit divided by 16 is: to read it takes a hundredth of its compile.

    Args:
      compiled: the program.
      limit_bytes: of all programs in memory.
    """
    return _bytes(compiled) * _LARGE_PART > limit_bytes


class MemoryCache:
    """The most recently used programs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: collections.OrderedDict[str, CompiledProgram] = collections.OrderedDict()

    def get(self, key: str) -> CompiledProgram | None:
        """The program, which then counts as used."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, compiled: CompiledProgram, limit_bytes: int) -> None:
        """Remembers a program and forgets the least recently used ones above the limit.

        One that is above the limit by itself is not remembered, and none is forgotten for it.
        """
        if _bytes(compiled) > limit_bytes:
            return
        with self._lock:
            self._held[key] = compiled
            self._held.move_to_end(key)
            total = sum(map(_bytes, self._held.values()))
            while total > limit_bytes:
                total -= _bytes(self._held.popitem(last=False)[1])


class DiskCache:
    """A directory of programs. Any number of processes may use it at once."""

    def __init__(self, directory: str) -> None:
        """Made when first written to."""
        self._directory = Path(directory)

    def __contains__(self, key: str) -> bool:
        return self._may_be_used() and self._file(key).is_file()

    def get(self, key: str, request: CompileRequest) -> CompiledProgram | None:
        """The program, which then counts as used; None when there is none that can be read.

        Args:
          key: of the request.
          request: what the program must be of; a file of another one is dropped too.
        """
        file = self._file(key)
        if not self._may_be_used():
            return None
        try:
            files.open_regular(file, own=True).close()
            compiled = saved_compiled.load(file)
            if not _is_of(compiled, request):
                raise ModuleError(f"{str(file)!r} holds another program than its name says.")
            compiled = renamed(compiled, request.program.module)
        except FileNotFoundError:
            return None
        except files.RefusedError as e:
            _tell(f"A cached program is not used: {e}.")
            return None
        except (ModuleError, OSError) as e:
            _log.warning("A cached program was dropped and is compiled anew: %s", e)
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            file.touch()
        return compiled

    def put(self, key: str, compiled: CompiledProgram, limit_bytes: int) -> bool:
        """Writes a program, then deletes the least recently used ones above the limit.

        A directory that cannot or must not be written to is logged, once: it costs compiles, not results.

        Returns:
          Whether the program is there now.
        """
        try:
            files.make_own_folder(self._directory)
            saved_compiled.save(compiled, self._file(key), compress=False, private=True)
            self._evict(limit_bytes)
            return self._file(key).is_file()
        except (OSError, ModuleError) as e:
            _tell(f"Compiled programs are not kept on disk: {e}.")
            return False

    def _may_be_used(self) -> bool:
        try:
            files.check_own_folder(self._directory)
        except FileNotFoundError:
            return False
        except OSError as e:
            _tell(f"Compiled programs are not kept on disk: {e}.")
            return False
        return True

    def _evict(self, limit_bytes: int) -> None:
        found = []
        for file, stat in files.entries(self._directory):
            if file.name.endswith((_SUFFIX, readings.SUFFIX)):
                found.append((stat.st_mtime, stat.st_size, file))
            elif _PARTIAL.fullmatch(file.name) and time.time() - stat.st_mtime > files.PARTIAL_LIFE_S:
                with contextlib.suppress(OSError):  # another process deleted it
                    file.unlink()
        total = sum(size for _, size, _ in found)
        for _, size, file in sorted(found):
            if total <= limit_bytes:
                return
            total -= size
            with contextlib.suppress(OSError):
                if saved_compiled.is_saved(file) or readings.is_reading(file):  # and not a user's, of such a name
                    file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"


@functools.cache
def _tell(text: str) -> None:
    """Logs a text once."""
    _log.warning("%s", text)


def _is_of(compiled: CompiledProgram, request: CompileRequest) -> bool:
    held, asked = compiled.program.module, request.program.module
    same = held == asked or module_digest(held) == module_digest(asked)
    return same and build_options_of(compiled) == request.build_options


def _bytes(compiled: CompiledProgram) -> int:
    blobs = (compiled.program.module, compiled.hlo, compiled.hlo_proto, compiled.executable)
    recorded = (compiled.passes, compiled.assembly, compiled.buffers)
    held = sum(product.byte_size for product in recorded if not isinstance(product, Unavailable))
    return held + sum(len(blob) for blob in blobs if isinstance(blob, (bytes, str)))
