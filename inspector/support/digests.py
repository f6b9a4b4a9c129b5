"""Digests of sequences of bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Returns the SHA-256 digest of parts with their lengths, so that `[b"ab"]` and `[b"a", b"b"]` differ."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
