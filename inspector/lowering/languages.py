"""Determines whether a module, as text or bytes, is HLO or StableHLO, before it is parsed."""

from __future__ import annotations

import re

from inspector._jax.modules.isolated_reading import Language
from inspector.errors import ModuleError
from inspector.hlo.reading.module_message import decoded

EXPECTED = (
    "Expected HLO (text, or a serialized HloModuleProto or HloProto) or StableHLO (MLIR text, MLIR bytecode or a portable"
    " artifact)."
)
"""The end of messages about invalid modules."""
_MLIR_BYTECODE = b"ML\xefR"
_SHOWN = 60  # characters of an unrecognized text that a message quotes

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_HLO_LINE = re.compile(r"^\s*(HloModule|ENTRY)\b", re.MULTILINE)
_HLO_INSTRUCTION = re.compile(
    r"^\s*(ROOT\s+)?%?[\w.-]+\s*=\s*(\(.*\)|\w+\[[\d,<=?]*\](\{.*?\})?)\s+[\w-]+\(", re.MULTILINE
)
_HLO_NAME = re.compile(r"\s*%[\w.-]+\s*(\(|=\s*\w+\[)")
_MLIR = re.compile(
    r'\bmodule\b|^\s*\w+\.func\b|\bstablehlo\.|\bmhlo\.|^\s*[#!][\w.]+\s*=|"\w+\.\w+"\(|^\s*%\w+(:\d+)?\s*=\s*[a-z]\w*\.[a-z]|^\s*[a-z]\w*\.[a-z]\w*\s+@\w',
    re.MULTILINE,
)


def likely_language(module: bytes | str) -> Language | None:
    """Returns the language that a module shows signs of; None for text without any."""
    if isinstance(module, bytes):
        return "StableHLO" if module.startswith(_MLIR_BYTECODE) else "HLO"
    text = _COMMENT.sub("", module)
    if _HLO_LINE.search(text) or _HLO_INSTRUCTION.search(text) or _HLO_NAME.match(text):
        return "HLO"
    return "StableHLO" if _MLIR.search(text) else None


def hlo_module(data: bytes) -> bytes:
    """Extracts the serialized HloModuleProto from bytes of one, or of an HloProto with one, as in `*.hlo.pb` dumps.

    Raises:
      ModuleError: the bytes are neither.
    """
    try:
        return bytes(decoded(data).SerializeToString())
    except ModuleError as e:
        raise ModuleError(
            f"Cannot read {len(data)} bytes as a module: they are neither text, MLIR bytecode nor an HLO module. {EXPECTED}"
        ) from e


def check_text(data: bytes) -> None:
    """Checks bytes that are neither UTF-8 text nor MLIR bytecode.

    Raises:
      ModuleError: they are text except for a few bytes; with the first of these and its place.
    """
    if not _is_mostly_text(data[:_SAMPLE]) or not _is_mostly_text(data):
        return
    try:
        decoded(data)
    except ModuleError as e:
        text = data.decode(errors="surrogateescape")
        at = next(NOT_TEXT.finditer(text)).start()
        byte = text[at].encode(errors="surrogateescape")[0]
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        raise ModuleError(
            f"Cannot read the text as a module: byte 0x{byte:02x} in line {line}, column {column} is"
            f" {'a control character' if byte < _ASCII else 'not UTF-8'}. Remove it, or save the text as UTF-8."
        ) from e


def _is_mostly_text(data: bytes) -> bool:
    count = sum(1 for _ in NOT_TEXT.finditer(data.decode(errors="surrogateescape")))
    return count <= max(1, len(data) // _CHARACTERS_EACH)


_SAMPLE = 1 << 16  # bytes
NOT_TEXT = re.compile("[\0-\x08\x0e-\x1f\udc80-\udcff]")
"""Control characters, and bytes that are not UTF-8, which Python decodes as surrogates."""
_CHARACTERS_EACH = 50  # at least, for each such byte in a text; protos have one in every few
_ASCII = 128


def first_line(text: str) -> str:
    """Returns the first line of a text for messages, shortened."""
    first = text.splitlines()[0] if text else ""
    return repr(first if len(first) <= _SHOWN else f"{first[:_SHOWN]}...")
