"""The contents of a bundle. The name of each entry is its digest, so no entry is stored twice or changed unnoticed.

    value ── PackedEntries.data, text, document ──▶ {"bytes": name} ── Unpacked ──▶ an equal value

Short values are stored in place. A value that several others share is a document: a separate entry with JSON, which
is read once and becomes one object. Since a name is a digest, no document can contain itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from inspector.compilation.files.archive import Archive
from inspector.errors import ModuleError
from inspector.support import json_values
from inspector.support.json_values import FormError, Forms

T = TypeVar("T")

_SHORT = 256  # maximum size in bytes of a value that is stored in place
_NAME = re.compile("[0-9a-f]{64}")
_MAX_DOCUMENT_BYTES = 64 << 20


class PackedEntries:
    """Entries to be written.

    Attributes:
      entries: bytes by name.
    """

    def __init__(self) -> None:
        """Creates an empty collection."""
        self.entries: dict[str, bytes] = {}

    def data(self, value: bytes) -> Any:
        """Returns the JSON value for bytes."""
        if len(value) <= _SHORT:
            return {"base64": base64.b64encode(value).decode()}
        return {"bytes": self._put(value)}

    def text(self, value: str) -> Any:
        """Returns the JSON value for a text. Unpaired surrogates, which UTF-8 does not allow, become question marks."""
        encoded = value.encode(errors="replace")
        return encoded.decode() if len(encoded) <= _SHORT else {"text": self._put(encoded)}

    def document(self, value: object, forms: Forms) -> Any:
        """Returns the JSON value for a dataclass in a separate entry."""
        written = json_values.fields_of(value, forms)
        return {"document": self._put(json.dumps(written, separators=(",", ":"), sort_keys=True).encode())}

    def _put(self, value: bytes) -> str:
        name = hashlib.sha256(value).hexdigest()
        self.entries[name] = value
        return name


class Unpacked:
    """Entries of an archive from an untrusted source."""

    def __init__(self, archive: Archive, upgraded: Callable[[type, Any], Any]) -> None:
        """Creates a reader without reading anything.

        Args:
          archive: the archive to read.
          upgraded: converts the JSON value of a document of a type to the current version.
        """
        self._archive, self._upgraded = archive, upgraded
        self._read: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}
        self._documents: dict[tuple[str, type], Any] = {}

    def data(self, value: Any, at: str) -> bytes:
        """Returns the bytes for a JSON value. Raises FormError."""
        if not isinstance(value, dict) or "base64" not in value:
            return self._get(value, "bytes", at)
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError, binascii.Error) as e:
            raise FormError(f"{at}: not base64 ({e})") from e

    def text(self, value: Any, at: str) -> str:
        """Returns the text for a JSON value. Raises FormError."""
        if not isinstance(value, dict):
            return json_values.decode(str, value, at)
        data = self._get(value, "text", at)
        name = value["text"]
        if name not in self._texts:
            try:
                self._texts[name] = data.decode()
            except UnicodeDecodeError as e:
                raise FormError(f"{at}: {e}") from e
        return self._texts[name]

    def document(self, kind: type[T], value: Any, at: str, forms: Forms) -> T:
        """Returns the dataclass for a JSON value. Raises FormError."""
        data = self._get(value, "document", at)
        key = value["document"], kind
        if key not in self._documents:
            if len(data) > _MAX_DOCUMENT_BYTES:
                raise FormError(
                    f"{at}: a document of {len(data):,} bytes, more than the limit of {_MAX_DOCUMENT_BYTES:,}"
                )
            self._documents[key] = json_values.decode_fields(
                kind, self._upgraded(kind, json_values.parse(data)), at, forms
            )
        document: T = self._documents[key]
        return document

    def _get(self, value: Any, kind: str, at: str) -> bytes:
        name = value.get(kind) if isinstance(value, dict) and len(value) == 1 else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise FormError(f'{at}: expected {{"{kind}": the name of an entry}}, got {repr(value)[:80]}')
        if name not in self._read:
            try:
                data = self._archive.read(name)
            except ModuleError as e:
                raise FormError(f"{at}: {e}") from e
            if hashlib.sha256(data).hexdigest() != name:
                raise FormError(f"{at}: the entry {name[:12]} does not match its digest")
            self._read[name] = data
        return self._read[name]
