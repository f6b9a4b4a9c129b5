"""One file for an exploration: a zip of JSON and bytes. Never pickle, so that a stranger's file is safe to open.

`manifest.json` has the format, its version and the content; what is long is an entry of its own (`entries.py`). The
fields of the dataclasses are the schema: one that has a default may be missing. What else changed between versions,
`_UPGRADES` tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from inspector.compilation import archive, plain
from inspector.compilation.archive import Archive
from inspector.errors import InspectorError, ModuleError
from inspector.reports.entries import Packed, Unpacked
from inspector.reports.forms import packing, unpacking
from inspector.reports.recorded import RecordedExploration

FORMAT = "inspector-exploration"
FORMAT_VERSION = 1

_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 16 << 20

T = TypeVar("T")

Step = Mapping[str, Callable[[Any], Any]]
# From each version to the next: by the name of a dataclass, what makes of its JSON value in that version one of the next.
_UPGRADES: Mapping[int, Step] = {}


def save(exploration: RecordedExploration, path: str | os.PathLike[str]) -> None:
    """Writes the file whole or not at all.

    Raises:
      ModuleError: there is more to say of it than a file of this form holds.
      OSError: the place cannot be written.
    """
    write(exploration, path, FORMAT)


def load(path: str | os.PathLike[str]) -> RecordedExploration:
    """Reads a file that `save` wrote, also where JAX is not installed. Nothing in it is executed.

    Raises:
      FileNotFoundError: there is none.
      ModuleError: not such a file, damaged, or of a newer version.
    """
    return read(RecordedExploration, path, FORMAT)


def write(value: object, path: str | os.PathLike[str], form: str) -> None:
    """`save`, of another dataclass and in a file of another format."""
    packed = Packed()
    manifest = {"format": form, "format_version": FORMAT_VERSION, "content": plain.fields_of(value, packing(packed))}
    text = json.dumps(manifest, indent=1).encode()
    if len(text) > _MAX_MANIFEST_BYTES:
        raise ModuleError(
            f"{len(text):,} bytes describe what is in the file, which holds {_MAX_MANIFEST_BYTES:,} of them."
        )
    archive.write(path, {_MANIFEST: text, **packed.entries}, compress=True)


def read(kind: type[T], path: str | os.PathLike[str], form: str) -> T:
    """`load`, of another dataclass from a file of another format."""
    name = repr(os.fspath(path))
    try:
        with Archive(path) as opened:
            version, about = _manifest(opened, name, form)
            unpacked = Unpacked(opened, lambda kind, value: upgraded(kind.__name__, value, version))
            return plain.decode_fields(kind, upgraded(kind.__name__, about, version), "content", unpacking(unpacked))
    except _OtherFileError:
        raise
    except RecursionError as e:
        raise ModuleError(f"{name} cannot be read: its values lie in each other without end.") from e
    except (InspectorError, ValueError) as e:
        raise ModuleError(f"{name} is no such file, or damaged: {e}. Save it anew.") from e


def format_of(path: str | os.PathLike[str]) -> Any:
    """What the manifest of a file says of its format, whatever that is.

    Raises:
      FileNotFoundError: there is no such file.
      ModuleError: it is no archive with a manifest.
    """
    try:
        with Archive(path) as opened:
            value = plain.parse(opened.read(_MANIFEST, _MAX_MANIFEST_BYTES))
    except plain.FormError as e:
        raise ModuleError(f"its {_MANIFEST}: {e}") from e
    return value.get("format") if isinstance(value, dict) else None


def upgraded(kind: str, value: Any, version: int) -> Any:
    """The JSON value of a dataclass as it is written today.

    Args:
      kind: the dataclass's name.
      value: as a file of some version has it.
      version: of the file.
    """
    for before in range(version, FORMAT_VERSION):
        step = _UPGRADES[before].get(kind)
        value = value if step is None else step(value)
    return value


class _OtherFileError(ModuleError):
    """A file of another format, or of a newer version."""


def _manifest(opened: Archive, name: str, form: str) -> tuple[int, Any]:
    """The version of a file, and its content."""
    value = plain.parse(opened.read(_MANIFEST, _MAX_MANIFEST_BYTES))
    found = value.get("format") if isinstance(value, dict) else value
    if found != form:
        raise _OtherFileError(f"{name} holds {repr(found)[:200]}, expected {form!r}.")
    version = value.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise _OtherFileError(
            f"{name} has format {repr(version)[:40]}, this inspector reads 1 to {FORMAT_VERSION}. Update inspector to"
            " read a newer one."
        )
    return version, value.get("content")
