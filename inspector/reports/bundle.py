"""Saves an exploration to one file, a zip archive of JSON and bytes. No pickle, so that any file is safe to open.

`manifest.json` has the content (`compilation/files/manifest.py`); long values are separate entries (`entries.py`). The
fields of the dataclasses are the schema: a field with a default may be missing. `_UPGRADES` has all other changes between
versions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from inspector.compilation.files import archive, manifest
from inspector.compilation.files.archive import Archive
from inspector.errors import InspectorError, ModuleError, cut
from inspector.reports.entries import PackedEntries, Unpacked
from inspector.reports.recorded_exploration import RecordedExploration
from inspector.reports.serialization import packing, unpacking
from inspector.support import json_values

FORMAT = "inspector-exploration"
FORMAT_VERSION = 3

_MOST_QUOTED = 2_000
"""Characters of an error message about a file, which may quote the file's contents."""

T = TypeVar("T")

Step = Mapping[str, Callable[[Any], Any]]
# From each version to the next: by the name of a dataclass, a function that converts its JSON value to the next version.
_UPGRADES: Mapping[int, Step] = {
    1: {
        "CompiledProgram": lambda value: _renamed(value, "engine", "_engine"),
        "Lowered": lambda value: _without(value, "tuple_args", "return_tuple"),
        "Exploration": lambda value: _american(value),
        "RecordedExploration": lambda value: _american(value),
    },
    2: {"CompiledProgram": lambda value: _renamed(value, "executable", "_executable")},
}


def save(exploration: RecordedExploration, path: str | os.PathLike[str]) -> None:
    """Writes the file atomically.

    Raises:
      ModuleError: its description is larger than this format allows.
      OSError: the file cannot be written.
    """
    write(exploration, path, FORMAT)


def load(path: str | os.PathLike[str]) -> RecordedExploration:
    """Reads a file that `save` wrote. Works without JAX. Nothing in the file is executed.

    Raises:
      FileNotFoundError: the file does not exist.
      ModuleError: another kind of file, a damaged one, or one of a newer version.
    """
    return read(RecordedExploration, path, FORMAT)


def write(value: object, path: str | os.PathLike[str], form: str, *, is_temporary: bool = False) -> None:
    """Saves another dataclass, to a file of another format. A temporary file is not compressed, and only this user may read it."""
    packed = PackedEntries()
    fields = {
        "format": form,
        "format_version": FORMAT_VERSION,
        "content": json_values.fields_of(value, packing(packed)),
    }
    entries = {manifest.NAME: manifest.written(fields), **packed.entries}
    archive.write(path, entries, compress=not is_temporary, private=is_temporary)


def read(kind: type[T], path: str | os.PathLike[str], form: str) -> T:
    """Loads another dataclass, from a file of another format."""
    name = repr(os.fspath(path))
    try:
        with Archive(path) as opened:
            fields = manifest.read(opened, name, form, 1, FORMAT_VERSION)
            version, about = fields["format_version"], fields.get("content")
            unpacked = Unpacked(opened, lambda kind, value: upgraded(kind.__name__, value, version))
            return json_values.decode_fields(
                kind, upgraded(kind.__name__, about, version), "content", unpacking(unpacked)
            )
    except manifest.OtherFileError:
        raise
    except RecursionError as e:
        raise ModuleError(f"{name} cannot be read: its values contain each other in a cycle.") from e
    except (InspectorError, ValueError) as e:
        raise ModuleError(
            f"{name} is not an inspector file, or damaged: {cut(str(e), _MOST_QUOTED)}. Save it again."
        ) from e


def upgraded(kind: str, value: Any, version: int) -> Any:
    """Converts the JSON value of a dataclass to the current version.

    Args:
      kind: name of the dataclass.
      value: JSON value in a file.
      version: version of the file.
    """
    for before in range(version, FORMAT_VERSION):
        step = _UPGRADES[before].get(kind)
        value = value if step is None else step(value)
    return value


def _without(value: Any, *names: str) -> Any:
    return {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value


def _renamed(value: Any, old: str, new: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {new if name == old else name: each for name, each in value.items()}


def _american(value: Any) -> Any:
    """Returns a JSON value whose British field names are spelled as they are since version 2."""
    if isinstance(value, list):
        return [_american(each) for each in value]
    if isinstance(value, dict):
        return {name.replace("rematerialise", "rematerialize"): _american(each) for name, each in value.items()}
    return value
