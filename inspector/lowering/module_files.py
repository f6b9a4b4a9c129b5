"""Reads modules from files, bytes and text."""

from __future__ import annotations

import os
import re
from typing import Any

from inspector.errors import ParameterError
from inspector.support import files

MAX_MODULE_BYTES = 2 << 30
"""The size limit of a protobuf message, and so of an XLA module, in bytes."""


def read_module(source: Any) -> bytes | str:
    """Returns a module as text, or as bytes if it is not text.

    Args:
      source: a path, bytes or text.

    Raises:
      ParameterError: the file cannot be read.
    """
    if isinstance(source, (bytes, bytearray)):
        return _text_if_utf8(bytes(source))
    if isinstance(source, os.PathLike) or (
        isinstance(source, str) and "\n" not in source and os.path.exists(source)  # noqa: PTH110 - False for a long text
    ):
        try:
            return _text_if_utf8(files.read(source, MAX_MODULE_BYTES))
        except OSError as e:
            raise ParameterError(
                f"Cannot read {os.fspath(source)!r}: {e.strerror or e}. Expected a file with StableHLO or HLO, as text or"
                " bytes."
            ) from e
    return str(source)


def _text_if_utf8(data: bytes) -> bytes | str:
    # MLIR bytecode begins with `ML\xefR`, and a proto has field tags (0x1a for its computations). No text has these bytes.
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if _NO_TEXT.search(text) else text


_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f]")
