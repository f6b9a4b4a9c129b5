"""Which options name files or folders, and whether those lie where a user allows it.

Compilers write, read and load what such options name, with the rights of the user. XLA's schema does not
tell them apart from other texts, so it is told by the words of their names; what LLVM takes for itself
(`xla_backend_extra_options`) has such options too, under names that no catalogue holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspector.errors import OptionError, UnknownFlagError, cut
from inspector.toolchain.flags.types import flag_type

_PATH_WORDS = frozenset({"to", "from", "file", "files", "filename", "dir", "directory", "path", "folder"})
_UNREADABLE = frozenset({"xla_backend_extra_options", "extra_proto"})  # whatever is in them may name a file
_DUMP_TO = "xla_dump_to"
_SHOWN = 200
_PYTHON = " From Python, explorer.add({...}) takes it."


def names_path(name: str) -> bool:
    """Whether an option's value is the name of a file or folder."""
    try:
        kind = flag_type(name).kind
    except UnknownFlagError:
        return False
    return kind in ("string", "bytes") and not _PATH_WORDS.isdisjoint(name.split("_"))


def check_paths(said: Mapping[str, Any], folder: str) -> None:
    """Lets options pass that have no file written or read outside of a folder.

    Args:
      said: options by name.
      folder: below which files may be named; "" for nowhere.

    Raises:
      OptionError: an option names a file elsewhere, may do so out of sight, or dumps to where none is named: a TPU's
        compiler then writes into the current folder.
    """
    for name, value in said.items():
        if not value:
            continue
        if name in _UNREADABLE:
            raise OptionError(f"{name} can make the compiler write files, so it is taken from Python only.{_PYTHON}")
        if names_path(name):
            for text in str(value).split(","):
                _check_path(name, text, folder)
        elif "dump" in name.split("_") and not said.get(_DUMP_TO):
            raise OptionError(f"{name} makes the compiler write files: say where, with {_DUMP_TO}.{_PYTHON}")


def _check_path(name: str, text: str, folder: str) -> None:
    if folder and Path(text).resolve().is_relative_to(Path(folder).resolve()):
        return
    raise OptionError(
        f"{name} makes the compiler use the file or folder {cut(text, _SHOWN)!r}. What is typed here may name those"
        f" below a folder of yours only: {folder or 'none yet'};"
        f" inspector.settings.update(dump_directory=...) names it.{_PYTHON}"
    )
