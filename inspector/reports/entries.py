"""Contents of a bundle, each in an entry whose name is its digest: so nothing is there twice, nor changed unnoticed.

    value ── Packed.put ──▶ {"bytes": name} ── Unpacked.get ──▶ an equal value

What is short stands where it is asked for. A value that several others have is a document: JSON in an entry of its own,
read once and then the same object for all. Since a name is a digest, no document can contain itself.
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

_SHORT = 256  # bytes that stand where they are asked for
_NAME = re.compile("[0-9a-f]{64}")
_MAX_DOCUMENT_BYTES = 64 << 20


class PackedEntries:
    """Entries as they are made.

    Attributes:
      entries: bytes by name.
    """

    def __init__(self) -> None:
        """There is none yet."""
        self.entries: dict[str, bytes] = {}

    def data(self, value: bytes) -> Any:
        """What stands for bytes."""
        if len(value) <= _SHORT:
            return {"base64": base64.b64encode(value).decode()}
        return {"bytes": self._put(value)}

    def text(self, value: str) -> Any:
        """What stands for a text. Half of a surrogate pair, which UTF-8 has not, becomes a question mark."""
        encoded = value.encode(errors="replace")
        return encoded.decode() if len(encoded) <= _SHORT else {"text": self._put(encoded)}

    def document(self, value: object, forms: Forms) -> Any:
        """What stands for a dataclass that is an entry of its own."""
        written = json_values.fields_of(value, forms)
        return {"document": self._put(json.dumps(written, separators=(",", ":"), sort_keys=True).encode())}

    def _put(self, value: bytes) -> str:
        name = hashlib.sha256(value).hexdigest()
        self.entries[name] = value
        return name


class Unpacked:
    """Entries of an archive that a stranger may have made."""

    def __init__(self, archive: Archive, upgraded: Callable[[type, Any], Any]) -> None:
        """Nothing is read yet.

        Args:
          archive: what is read.
          upgraded: gives the JSON value of a document of a type as it is written today.
        """
        self._archive, self._upgraded = archive, upgraded
        self._read: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}
        self._documents: dict[tuple[str, type], Any] = {}

    def data(self, value: Any, at: str) -> bytes:
        """The bytes that a value stands for. Raises FormError."""
        if not isinstance(value, dict) or "base64" not in value:
            return self._get(value, "bytes", at)
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError, binascii.Error) as e:
            raise FormError(f"{at}: no base64 ({e})") from e

    def text(self, value: Any, at: str) -> str:
        """The text that a value stands for. Raises FormError."""
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
        """The dataclass that a value stands for. Raises FormError."""
        data = self._get(value, "document", at)
        key = value["document"], kind
        if key not in self._documents:
            if len(data) > _MAX_DOCUMENT_BYTES:
                raise FormError(f"{at}: a document of {len(data):,} bytes, of at most {_MAX_DOCUMENT_BYTES:,}")
            self._documents[key] = json_values.decode_fields(
                kind, self._upgraded(kind, json_values.parse(data)), at, forms
            )
        found: T = self._documents[key]
        return found

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
                raise FormError(f"{at}: the entry {name[:12]} is not what was saved")
            self._read[name] = data
        return self._read[name]
