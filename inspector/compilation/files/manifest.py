"""`manifest.json`: what an archive of inspector says of itself, as JSON: its format, the format's version, and the rest."""

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
    """A manifest's bytes; "format" and "format_version" are the first of its fields.

    Raises:
      ModuleError: more than is read again.
    """
    text = json.dumps(fields, indent=1).encode()
    if len(text) > _MAX_BYTES:
        raise ModuleError(f"{len(text):,} bytes describe what is in the file, which holds {_MAX_BYTES:,} of them.")
    return text


def read(opened: Archive, name: str, form: str, oldest: int, newest: int) -> dict[str, Any]:
    """The fields of an archive's manifest, of a version that can be read.

    Args:
      opened: the archive.
      name: of the file, for errors.
      form: the format that is expected.
      oldest: version of it that is read.
      newest: the same.

    Raises:
      OtherFileError: another format, or another version.
      ModuleError: there is no manifest.
      FormError: it is no JSON.
    """
    value = _value(opened)
    found = value.get("format") if isinstance(value, dict) else value
    if found != form:
        raise OtherFileError(f"{name} holds {repr(found)[:200]}, expected {form!r}.")
    version = value.get("format_version")
    if type(version) is not int or not oldest <= version <= newest:
        remedy = "Save it anew" if type(version) is int and version < oldest else "Update inspector to read a newer one"
        versions = f"{oldest}" if oldest == newest else f"{oldest} to {newest}"
        raise OtherFileError(f"{name} has format {repr(version)[:40]}, this inspector reads {versions}. {remedy}.")
    fields: dict[str, Any] = value
    return fields


def format_of(path: str | os.PathLike[str]) -> Any:
    """What the manifest of a file says of its format, whatever that is.

    Raises:
      FileNotFoundError: there is no such file.
      ModuleError: it is no archive with a manifest.
    """
    try:
        with Archive(path) as opened:
            value = _value(opened)
    except json_values.FormError as e:
        raise ModuleError(f"its {NAME}: {e}") from e
    return value.get("format") if isinstance(value, dict) else None


def _value(opened: Archive) -> Any:
    return json_values.parse(opened.read(NAME, _MAX_BYTES))
