"""Determines whether a module, as text or bytes, is HLO or StableHLO, before it is parsed."""

from __future__ import annotations

import re

from inspector._jax.modules.isolated_reading import Language
from inspector.errors import ModuleError, ParameterError
from inspector.hlo.reading.module_message import decoded
from inspector.support.units import format_list

_EXPECTED = (
    "Expected HLO (text, or a serialized HloModuleProto or HloProto) or StableHLO (MLIR text, MLIR bytecode or a portable"
    " artifact)."
)
_MLIR_BYTECODE = b"ML\xefR"
_SHOWN = 60  # characters of an unrecognized text that a message quotes

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_HLO_LINE = re.compile(r"^\s*(HloModule|ENTRY)\b", re.MULTILINE)
_HEADER = re.compile(r"^\s*HloModule\s+([^\s,]+)", re.MULTILINE)
_HLO_INSTRUCTION = re.compile(
    r"^\s*(ROOT\s+)?%?[\w.-]+\s*=\s*(\(.*\)|\w+\[[\d,<=?]*\](\{.*?\})?)\s+[\w-]+\(", re.MULTILINE
)
_HLO_NAME = re.compile(r"\s*%[\w.-]+\s*(\(|=\s*\w+\[)")
_MLIR = re.compile(r'\bmodule\b|\bfunc\.func\b|\bstablehlo\.|\bmhlo\.|^\s*[#!][\w.]+\s*=|"\w+\.\w+"\(', re.MULTILINE)


def language_of(module: bytes | str) -> Language:
    """Returns the language of a module.

    Raises:
      ModuleError: it is empty, or text in neither language.
      ParameterError: the text can only be the path of a file that does not exist.
    """
    text = _COMMENT.sub("", module) if isinstance(module, str) else module
    if not text.strip():
        raise ModuleError(f"The module is empty. {_EXPECTED}")
    if isinstance(module, bytes):
        return "StableHLO" if module.startswith(_MLIR_BYTECODE) else "HLO"
    assert isinstance(text, str), "as the module"
    _check_single(text)
    if _HLO_LINE.search(text) or _HLO_INSTRUCTION.search(text) or _HLO_NAME.match(text):
        return "HLO"
    if _MLIR.search(text):
        return "StableHLO"
    if "\n" not in module.strip():
        raise ParameterError(f"{_cut(module)} is neither a file nor a module. {_EXPECTED}")
    raise ModuleError(f"The text is neither HLO nor StableHLO: it begins with {_cut(text.strip())}. {_EXPECTED}")


def _check_single(text: str) -> None:
    names = _HEADER.findall(text)
    if len(names) > 1:
        raise ModuleError(
            f"The text has {len(names)} HLO modules ({format_list(names)}). Expected one module. Save each to its own file: it"
            " extends from its HloModule line to the next."
        )


def hlo_module(data: bytes) -> bytes:
    """Extracts the serialized HloModuleProto from bytes of one, or of an HloProto with one, as in `*.hlo.pb` dumps.

    Raises:
      ModuleError: the bytes are neither.
    """
    try:
        return bytes(decoded(data).SerializeToString())
    except ModuleError as e:
        raise ModuleError(
            f"Cannot read {len(data)} bytes as a module: they are neither text, MLIR bytecode nor an HLO module. {_EXPECTED}"
        ) from e


def _cut(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return repr(first if len(first) <= _SHOWN else f"{first[:_SHOWN]}...")
