"""Reads `xla.HloModuleMetadataProto` as text: every pass with its time (`xla_dump_module_metadata`)."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from inspector.compilation.records.pass_record import TimedPass
from inspector.errors import ModuleError
from inspector.toolchain.schema import Schema, installed_schema

_S = 1e-6  # the timestamps are in microseconds


def timed_passes(text: str, schema: Schema | None = None) -> list[TimedPass]:
    """Returns the passes of a module.

    Args:
      text: a `module_NNNN.metadata.textproto` of a dump.
      schema: message classes; the installed jaxlib's by default.

    Raises:
      ModuleError: not such a text.
    """
    message: Any = (schema or installed_schema()).message("xla.HloModuleMetadataProto")()
    try:
        # A plugin may write fields that the installed jaxlib does not know.
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError as e:
        raise ModuleError(f"XLA's module metadata cannot be read: {e}") from e
    return [
        TimedPass(p.pipeline_name, p.pass_name, p.start_timestamp_usec * _S, p.end_timestamp_usec * _S)
        for p in message.pass_metadata
    ]
