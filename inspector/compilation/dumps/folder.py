"""`DumpFolder`: lists a folder that XLA wrote with `xla_dump_to`, and reads its files on demand.

The folder may come from somebody else: links, pipes and devices are left out, and sizes are limited.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import zlib
from pathlib import Path

from inspector.compilation.dumps.names import DumpEntry, ModuleFiles, grouped
from inspector.errors import ModuleError
from inspector.support import files
from inspector.support.units import counted, format_bytes

MAX_BYTES = 2 << 30
"""The size limit of a file and of its unpacked contents, in bytes: that of a protobuf message."""

_MAX_ENTRIES = 1_000_000
_MODULE = re.compile(r"(?:\d+\.)?module_\d+\.")
_GZIP = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class DumpFolder:
    """A listed folder.

    Attributes:
      path: the folder.
      modules: its modules by number and name.
      others: files that belong to no module.
      notes: entries that were left out.
    """

    path: str
    modules: tuple[ModuleFiles, ...]
    others: tuple[DumpEntry, ...]
    notes: tuple[str, ...]

    def read(self, entry: DumpEntry) -> bytes:
        """Returns the contents of a file, unpacked.

        Raises:
          ModuleError: it cannot be read, is not a regular file, or is too large.
        """
        place = Path(self.path, entry.path)
        try:
            data = files.read(place, MAX_BYTES)
        except (OSError, ValueError) as e:
            raise ModuleError(f"{entry.path!r} of the dump cannot be read: {e}") from e
        return _unpacked(data, entry.path) if data.startswith(_GZIP) else data


def is_dump(path: str | os.PathLike[str]) -> bool:
    """Reports whether a path is a folder with files that XLA names after a module."""
    try:
        with os.scandir(path) as entries:
            return any(_MODULE.match(entry.name) for entry in entries)
    except OSError:
        return False


def list_folder(path: str | os.PathLike[str]) -> DumpFolder:
    """Lists a folder: its files, and those in the folders of modules.

    Raises:
      FileNotFoundError: no such folder.
      ModuleError: it contains no module of XLA's dump.
      OSError: it cannot be read.
    """
    skipped: list[str] = []
    found: list[DumpEntry] = []
    subfolders: list[str] = []
    _list(path, "", found, skipped, subfolders)
    for folder in subfolders:
        if _MODULE.match(folder):
            _list(Path(path, folder), f"{folder}/", found, skipped, [])
    modules, others = grouped(found)
    if not modules:
        raise ModuleError(
            f"The folder {os.fspath(path)!r} contains no dump of XLA. Expected files such as module_0001.jit_f.before_optimizations.txt,"
            " as XLA writes them with XLA_FLAGS=--xla_dump_to=FOLDER."
        )
    notes = (
        [f"left out: {counted(len(skipped), 'entry', 'entries')} that are not regular files, such as {skipped[0]!r}"]
        if skipped
        else []
    )
    return DumpFolder(os.fspath(path), tuple(modules), tuple(others), tuple(notes))


def _list(
    path: str | os.PathLike[str], prefix: str, found: list[DumpEntry], skipped: list[str], subfolders: list[str]
) -> None:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        if not prefix:
            raise
        skipped.append(prefix)
        return
    for entry in entries:
        name = os.fsencode(entry.name).decode("utf-8", "surrogateescape")
        try:
            mode = entry.stat(follow_symlinks=False)
        except OSError:
            skipped.append(prefix + name)
            continue
        if stat.S_ISREG(mode.st_mode):
            if len(found) >= _MAX_ENTRIES:
                raise ModuleError(
                    f"The dump has more than {_MAX_ENTRIES:,} files. Copy those of some modules to another folder."
                )
            found.append(DumpEntry(prefix + name, mode.st_size))
        elif stat.S_ISDIR(mode.st_mode):
            subfolders.append(name)
        else:
            skipped.append(prefix + name)


def _unpacked(data: bytes, name: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        written = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as e:
        raise ModuleError(f"{name!r} of the dump is not complete gzip data: {e}") from e
    if unpacker.unconsumed_tail:
        raise ModuleError(f"{name!r} of the dump is larger than {format_bytes(MAX_BYTES)} when unpacked.")
    if not unpacker.eof:
        raise ModuleError(f"{name!r} of the dump is cut off: its gzip data has no end.")
    return written
