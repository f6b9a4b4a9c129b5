"""Reads XLA's final HLO while XLA still generates code.

After its passes, XLA can write the module to files (`*after_optimizations.txt` and
`*after_optimizations.hlo.pb`, an `xla.HloProto`, on CPU with the buffer assignment), long before
machine code is ready. `FinalHlo` picks them out of a `Dump` and ignores the other files:
given a dump directory, XLA also writes every kernel's code.

The text has more information than the proto: a module read back from the proto lacks fields of its first line
and has its stack frames in another order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from inspector.support.varints import read_varint, write_varint

_TEXT, _PROTO = "after_optimizations.txt", "after_optimizations.hlo.pb"
_CONFIGURATION = ", backend_config="
_LENGTH_DELIMITED = 2
_MODULE, _ASSIGNMENT = 1, 3  # fields of an xla.HloProto


def can_watch(flags: Mapping[str, Any], debug_options: Any) -> bool:
    """Reports whether a compile may dump into our directory: only on Linux, and only if the user requests no dump.

    Args:
      flags: the user's flags, by name.
      debug_options: jaxlib's, as this process's environment set them.
    """
    return sys.platform == "linux" and not dumps_elsewhere(flags, debug_options)


def dumps_elsewhere(flags: Mapping[str, Any], debug_options: Any) -> str:
    """Returns the flags of the user's own dump as text, or ""; arguments as for `can_watch`."""
    theirs = [f"{name}={value}" for name, value in flags.items() if name.startswith("xla_dump_")]
    theirs = [setting for setting in theirs if setting.partition("=")[0] not in _HARMLESS]
    if "xla_enable_dumping" in flags:
        theirs.append(f"xla_enable_dumping={flags['xla_enable_dumping']}")
    if debug_options.xla_dump_to:
        theirs.append(f"xla_dump_to={debug_options.xla_dump_to}")
    return ", ".join(theirs)


_HARMLESS = ("xla_dump_max_hlo_modules",)  # has no effect on a directory for one module


FLAGS: Mapping[str, Any] = {
    "xla_dump_hlo_as_text": True,
    "xla_dump_hlo_as_proto": True,
    "xla_dump_buffer_assignment_analysis": False,
}
"""Flags that, in addition to the dump directory, make XLA write both files, without the long buffer reports that would delay them.

Code that needs those reports requests them (`Watch.flags`)."""


class FinalHlo:
    """Waits for both files of a dump; calls `take` at most once.

    Attributes:
      taken: whether `take` was called.
    """

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        """Stores the callback.

        Args:
          take: receives the text and the serialized `xla.HloProto`.
        """
        self._take = take
        self._text, self._proto = "", b""
        self.taken = False

    def see(self, file: Path) -> None:
        """Reads a file of the dump, once it is complete."""
        if file.name.endswith(_TEXT):
            self._text = file.read_text()
        elif file.name.endswith(_PROTO):
            self._proto = self._proto or file.read_bytes()
        is_whole = self._text.rstrip().endswith("}")  # incomplete if the disk is full
        if is_whole and self._proto and not self.taken:  # either file may come first
            self.taken = True
            self._take(self._text, self._proto)


def split_hlo_proto(data: bytes) -> tuple[bytes, bytes]:
    """Returns the `hlo_module` and the `buffer_assignment` (b"" without one) of a serialized `xla.HloProto`."""
    fields = dict(_fields(data))
    return fields[_MODULE], fields.get(_ASSIGNMENT, b"")


def joined_hlo_proto(hlo_module: bytes, buffer_assignment: bytes) -> bytes:
    """Joins both parts; the inverse of `split_hlo_proto`."""
    fields = ((_MODULE, hlo_module), (_ASSIGNMENT, buffer_assignment))
    return b"".join(
        bytes([number << 3 | _LENGTH_DELIMITED]) + write_varint(len(data)) + data for number, data in fields
    )


def with_sorted_configurations(text: str) -> str:
    """Returns HLO with the keys of each `backend_config={...}` sorted, as in the text of an executable."""
    if _CONFIGURATION not in text:
        return text
    return "\n".join(_with_sorted_configuration(line) for line in text.split("\n"))


def _with_sorted_configuration(line: str) -> str:
    before, separator, rest = line.partition(_CONFIGURATION)
    if not separator:
        return line
    try:
        configuration, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # not every backend writes JSON
        return line
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{before}{separator}{text}{rest[end:]}"


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and bytes of each field of a message whose fields are all messages."""
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        if key & 7 != _LENGTH_DELIMITED:
            raise ValueError(f"not an xla.HloProto: wire type {key & 7} at byte {position}")
        length, position = read_varint(data, position)
        if position + length > len(data):
            raise ValueError(f"an xla.HloProto cut off at {len(data)} of {position + length} bytes")
        yield key >> 3, data[position : position + length]
        position += length
