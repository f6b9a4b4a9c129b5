"""Takes XLA's final HLO while XLA still generates code.

When its passes are through, XLA can write the module to files (`*after_optimizations.txt` and
`*after_optimizations.hlo.pb`, an `xla.HloProto`, on CPU with the buffer assignment), long before there
is machine code. `FinalHlo` takes them out of a `Dump`. Whatever else XLA writes there is not looked at:
with a dump directory it also writes every kernel's code.

The text says more than the proto does: a module read back from the proto lacks fields of its first line
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
    """Whether a compile may dump into our directory: on Linux, and the user asks for no dump of his own.

    Args:
      flags: the user's, by name.
      debug_options: jaxlib's, as this process's environment set them.
    """
    return sys.platform == "linux" and not dumps_elsewhere(flags, debug_options)


def dumps_elsewhere(flags: Mapping[str, Any], debug_options: Any) -> str:
    """The user's own dump, in words, or ""; arguments as for `can_watch`."""
    theirs = [f"{name}={value}" for name, value in flags.items() if name.startswith("xla_dump_")]
    theirs = [said for said in theirs if said.partition("=")[0] not in _HARMLESS]
    if "xla_enable_dumping" in flags:
        theirs.append(f"xla_enable_dumping={flags['xla_enable_dumping']}")
    if debug_options.xla_dump_to:
        theirs.append(f"xla_dump_to={debug_options.xla_dump_to}")
    return ", ".join(theirs)


_HARMLESS = ("xla_dump_max_hlo_modules",)  # of a directory that holds only one


FLAGS: Mapping[str, Any] = {
    "xla_dump_hlo_as_text": True,
    "xla_dump_hlo_as_proto": True,
    "xla_dump_buffer_assignment_analysis": False,
}
"""What makes XLA write both files, beside the directory, and not before them long texts on buffers, which take time.

Who reads those asks for them (`Watch.flags`)."""


class FinalHlo:
    """Waits for both files among those of a dump; `take` is called at most once.

    Attributes:
      taken: it was called.
    """

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        """Nothing happens yet.

        Args:
          take: gets the text and the serialized `xla.HloProto`.
        """
        self._take = take
        self._text, self._proto = "", b""
        self.taken = False

    def see(self, file: Path) -> None:
        """Looks at a file of the dump, once it is whole."""
        if file.name.endswith(_TEXT):
            self._text = file.read_text()
        elif file.name.endswith(_PROTO):
            self._proto = self._proto or file.read_bytes()
        is_whole = self._text.rstrip().endswith("}")  # not where the disk is full
        if is_whole and self._proto and not self.taken:  # either may come first
            self.taken = True
            self._take(self._text, self._proto)


def split_hlo_proto(data: bytes) -> tuple[bytes, bytes]:
    """The `hlo_module` and the `buffer_assignment` (b"" without one) of a serialized `xla.HloProto`."""
    fields = dict(_fields(data))
    return fields[_MODULE], fields.get(_ASSIGNMENT, b"")


def joined_hlo_proto(hlo_module: bytes, buffer_assignment: bytes) -> bytes:
    """The inverse of `split_hlo_proto`."""
    fields = ((_MODULE, hlo_module), (_ASSIGNMENT, buffer_assignment))
    return b"".join(
        bytes([number << 3 | _LENGTH_DELIMITED]) + write_varint(len(data)) + data for number, data in fields
    )


def with_sorted_configurations(text: str) -> str:
    """HLO with the keys of each `backend_config={...}` in order, as the text of an executable has them."""
    if _CONFIGURATION not in text:
        return text
    return "\n".join(_with_sorted_configuration(line) for line in text.split("\n"))


def _with_sorted_configuration(line: str) -> str:
    before, found, rest = line.partition(_CONFIGURATION)
    if not found:
        return line
    try:
        configuration, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # not every back-end writes JSON
        return line
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{before}{found}{text}{rest[end:]}"


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each field of a message that has only messages as fields."""
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
