"""`manifest.json`: the format of an inspector archive, the version of the format, and its other fields, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from inspector.compilation.files.archive import Archive
from inspector.errors import ModuleError
from inspector.support import json_values

NAME = "manifest.json"
_MAX_BYTES = 16 << 20


class OtherFileError(ModuleError):
    """A file of another format, or of another version than this inspector reads."""


def written(fields: Mapping[str, Any]) -> bytes:
    """Returns a manifest's bytes; "format" and "format_version" are the first of its fields.

    Raises:
      ModuleError: it is larger than `read` accepts.
    """
    text = json.dumps(fields, indent=1).encode()
    if len(text) > _MAX_BYTES:
        raise ModuleError(
            f"The description of the file's contents has {len(text):,} bytes, more than the limit of {_MAX_BYTES:,}."
        )
    return text


def read(opened: Archive, name: str, form: str, oldest: int, newest: int) -> dict[str, Any]:
    """Reads the fields of an archive's manifest, if this inspector can read its version.

    Args:
      opened: the archive.
      name: name of the file, for errors.
      form: the expected format.
      oldest: oldest version that can be read.
      newest: newest version that can be read.

    Raises:
      OtherFileError: another format, or another version.
      ModuleError: there is no manifest.
      FormError: the manifest is not JSON.
    """
    value = _value(opened)
    format_ = value.get("format") if isinstance(value, dict) else value
    if format_ != form:
        raise OtherFileError(f"{name} has the format {repr(format_)[:200]}, expected {form!r}.")
    version = value.get("format_version")
    if type(version) is not int or not oldest <= version <= newest:
        remedy = (
            "Save it again" if type(version) is int and version < oldest else "Update inspector to read a newer one"
        )
        versions = f"{oldest}" if oldest == newest else f"{oldest} to {newest}"
        raise OtherFileError(
            f"{name} has format version {repr(version)[:40]}, but this inspector reads {versions}. {remedy}."
        )
    fields: dict[str, Any] = value
    return fields


def format_of(path: str | os.PathLike[str]) -> Any:
    """Returns the format in a file's manifest, in any format.

    Raises:
      FileNotFoundError: the file does not exist.
      ModuleError: the file is not an archive with a manifest.
    """
    try:
        with Archive(path) as opened:
            value = _value(opened)
    except json_values.FormError as e:
        raise ModuleError(f"its {NAME}: {e}") from e
    return value.get("format") if isinstance(value, dict) else None


def _value(opened: Archive) -> Any:
    return json_values.parse(opened.read(NAME, _MAX_BYTES))
