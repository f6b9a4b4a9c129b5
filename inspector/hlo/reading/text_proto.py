"""Reads HLO in protobuf's text format, which XLA writes with `--xla_dump_hlo_as_textproto`."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import text_format

from inspector.errors import ModuleError
from inspector.toolchain.schema import installed_schema

_BEGINS = re.compile(r"(?:\s|#[^\n]*\n)*(?:(?:hlo_module|buffer_assignment)\s*:?\s*\{|(?P<module>name\s*:\s*\"))")


def is_text_proto(text: str) -> bool:
    """Reports whether a text begins like HLO in protobuf's text format."""
    return _BEGINS.match(text) is not None


def from_text_proto(text: str) -> bytes:
    """Converts an HloProto or HloModuleProto in protobuf's text format to bytes.

    Raises:
      ModuleError: it cannot be read; with the line and column.
    """
    begins = _BEGINS.match(text)
    kind = "HloModuleProto" if begins and begins["module"] else "HloProto"
    message: Any = installed_schema().message(f"xla.{kind}")()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as e:
        raise ModuleError(f"Cannot read the text as an {kind} in protobuf's text format: {e}") from e
    return bytes(message.SerializeToString())
