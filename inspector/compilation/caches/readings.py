"""Caches parsed HLO in the cache directory, so that the HLO of a program is parsed only once.

A file is named by its source and by the code that parses it, and is in the same directory as the programs of
`compilation/caches/program_cache.py`. It is written atomically by a rename. An unusable file is deleted, and its source
parsed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from inspector import settings
from inspector.compilation.caches import kernel_pids
from inspector.compilation.files import archive
from inspector.compilation.files.archive import Archive
from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.reading import displayed_text, saved_columns
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.displayed_text import DisplayedText
from inspector.hlo.reading.module_cache import shared_cache
from inspector.support import files, packages

SUFFIX = ".read"
_PID = "pid"
"""The entry with the notebook kernel's pid, if the parsed data contains names of its cells' files."""

T = TypeVar("T")

_MARK = "inspector-reading"
_HEAD_BYTES = 64  # covers the archive's first header, which has that name
_LEAST_BYTES = 1 << 20  # smaller sources are parsed faster than a file is read


def module(owner: object, hlo_proto: bytes) -> Module:
    """Returns the parsed module of a value. The module is cached while there is space.

    Args:
      owner: the value, a program.
      hlo_proto: a serialized `xla.HloModuleProto`.

    Raises:
      ModuleError: not such a message.
    """
    return shared_cache.module(owner, hlo_proto, lambda data: Module(_columns(data)))


def _columns(hlo_proto: bytes) -> Columns:
    return _read_or_make(
        "columns",
        hlo_proto,
        saved_columns.NAMES,
        lambda blobs: saved_columns.read(hlo_proto, blobs),
        lambda: Columns(hlo_proto),
        saved_columns.entries,
    )


def shown_text(hlo: str, module: Module) -> DisplayedText:
    """Returns the text of a module for display.

    Args:
      hlo: jaxlib's text of the module.
      module: the module.

    Raises:
      ModuleError: the text cannot be read.
    """
    return _read_or_make(
        "shown",
        hlo.encode("utf-8", "surrogatepass"),
        displayed_text.NAMES,
        lambda blobs: displayed_text.read(blobs, module),
        lambda: DisplayedText.of(hlo, module),
        displayed_text.entries,
    )


def is_reading(path: str | os.PathLike[str]) -> bool:
    """Reports whether a file looks like a file of this cache. Raises OSError."""
    with files.open_regular(path) as file:
        return _MARK.encode() in file.read(_HEAD_BYTES)


def _read_or_make(
    kind: str,
    source: bytes,
    names: Collection[str],
    read: Callable[[Mapping[str, bytes]], T],
    make: Callable[[], T],
    entries: Callable[[T], Mapping[str, bytes] | None],
) -> T:
    """Returns the result for a source from the cache if possible, otherwise makes it and caches it."""
    pid, plain = kernel_pids.without_pid(source) if len(source) >= _LEAST_BYTES else (b"", source)
    file = _file(kind, plain)
    if file is None:
        return make()
    with contextlib.suppress(OSError):
        try:
            return _from(file, names, lambda blobs: read(_of_kernel(blobs, pid)))
        except ModuleError:
            file.unlink(missing_ok=True)
    made = make()
    written = entries(made)
    if written is not None:
        with contextlib.suppress(OSError):
            files.make_own_folder(file.parent)
            archive.write(file, {_MARK: b"", _PID: pid, **written}, compress=False, private=True)
    return made


def _of_kernel(blobs: Mapping[str, bytes], pid: bytes) -> Mapping[str, bytes]:
    """Returns data that another notebook kernel cached, with this kernel's names of cells' files."""
    before = blobs[_PID]
    if before == pid:
        return blobs
    if len(before) != len(pid):
        raise ModuleError("The cached data contains a pid of another length.")
    return {name: kernel_pids.with_pid(data, before, pid) for name, data in blobs.items()}


def _from(file: Path, names: Collection[str], read: Callable[[Mapping[str, bytes]], T]) -> T:
    files.check_own_folder(file.parent)
    files.open_regular(file, own=True).close()
    with Archive(file) as opened:
        result = read({name: opened.read(name) for name in (_PID, *names)})
    file.touch()
    return result


def _file(kind: str, source: bytes) -> Path | None:
    """Returns the path of the cache file; None if the result is not cached."""
    chosen = settings.current()
    if len(source) < _LEAST_BYTES or not (chosen.cache and chosen.cache_directory):
        return None
    digest = hashlib.sha256(f"{packages.code_stamp()}\n{kind}\n".encode())
    digest.update(source)
    return Path(chosen.cache_directory) / f"{digest.hexdigest()}{SUFFIX}"
