"""What was read of a program's HLO, kept in the cache directory: what was read once is not read again.

A file is named by what it was read from and by the code that read it, and lies beside the programs of
`compilation/caches/program_cache.py`. It is written whole by a rename. One that cannot be used is deleted, and its source read anew.
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
from inspector.hlo.reading.module_cache import held
from inspector.support import files, packages

SUFFIX = ".read"
_PID = "pid"
"""The entry with the notebook kernel's, where the names of its cells' files are in what was read."""

T = TypeVar("T")

_MARK = "inspector-reading"
_HEAD_BYTES = 64  # the archive's first header, with that name
_LEAST_BYTES = 1 << 20  # below, reading takes less than a file


def module(owner: object, hlo_proto: bytes) -> Module:
    """The module of a value, read once as long as there is room.

    Args:
      owner: the value, a program.
      hlo_proto: a serialized `xla.HloModuleProto`.

    Raises:
      ModuleError: it is none.
    """
    return held.module(owner, hlo_proto, lambda data: Module(_columns(data)))


def _columns(hlo_proto: bytes) -> Columns:
    return _kept(
        "columns",
        hlo_proto,
        saved_columns.NAMES,
        lambda kept: saved_columns.read(hlo_proto, kept),
        lambda: Columns(hlo_proto),
        saved_columns.entries,
    )


def shown_text(hlo: str, module: Module) -> DisplayedText:
    """A module's text for reading.

    Args:
      hlo: jaxlib's text of it.
      module: the same.

    Raises:
      ModuleError: the text cannot be read.
    """
    return _kept(
        "shown",
        hlo.encode("utf-8", "surrogatepass"),
        displayed_text.NAMES,
        lambda kept: displayed_text.read(kept, module),
        lambda: DisplayedText.of(hlo, module),
        displayed_text.entries,
    )


def is_reading(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks as if it was kept here. Raises OSError."""
    with files.open_regular(path) as file:
        return _MARK.encode() in file.read(_HEAD_BYTES)


def _kept(
    kind: str,
    source: bytes,
    names: Collection[str],
    read: Callable[[Mapping[str, bytes]], T],
    make: Callable[[], T],
    entries: Callable[[T], Mapping[str, bytes] | None],
) -> T:
    """What was made of a source, from its file where there is one that can be used; else made, and kept for later."""
    pid, plain = kernel_pids.without_pid(source) if len(source) >= _LEAST_BYTES else (b"", source)
    file = _file(kind, plain)
    if file is None:
        return make()
    with contextlib.suppress(OSError):
        try:
            return _from(file, names, lambda kept: read(_of_kernel(kept, pid)))
        except ModuleError:
            file.unlink(missing_ok=True)
    made = make()
    written = entries(made)
    if written is not None:
        with contextlib.suppress(OSError):
            files.make_own_folder(file.parent)
            archive.write(file, {_MARK: b"", _PID: pid, **written}, compress=False, private=True)
    return made


def _of_kernel(kept: Mapping[str, bytes], pid: bytes) -> Mapping[str, bytes]:
    """What was kept in another notebook kernel, with the names that cells' files have in this one."""
    before = kept[_PID]
    if before == pid:
        return kept
    if len(before) != len(pid):
        raise ModuleError("What was kept is of names of another length.")
    return {name: kernel_pids.with_pid(data, before, pid) for name, data in kept.items()}


def _from(file: Path, names: Collection[str], read: Callable[[Mapping[str, bytes]], T]) -> T:
    files.check_own_folder(file.parent)
    files.open_regular(file, own=True).close()
    with Archive(file) as opened:
        found = read({name: opened.read(name) for name in (_PID, *names)})
    file.touch()
    return found


def _file(kind: str, source: bytes) -> Path | None:
    """Where it is kept; None where nothing is."""
    chosen = settings.current()
    if len(source) < _LEAST_BYTES or not (chosen.cache and chosen.cache_directory):
        return None
    digest = hashlib.sha256(f"{packages.code_stamp()}\n{kind}\n".encode())
    digest.update(source)
    return Path(chosen.cache_directory) / f"{digest.hexdigest()}{SUFFIX}"
