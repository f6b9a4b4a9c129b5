"""Reads the tables of files, functions and stack frames in the text of a module, before its computations."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping

from inspector.hlo.call_stacks import Stacks
from inspector.hlo.source import Frame

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def read_frames(lines: Iterable[str]) -> Mapping[int, tuple[Frame, ...]]:
    """Returns the stacks, innermost frame first, by the number that instructions have as `stack_frame_id`.

    Args:
      lines: lines of the module's text, at least those of the tables.
    """
    tables: dict[str, list[str]] = {name: [] for name in _TABLES}
    current: list[str] | None = None
    for line in lines:
        if line in tables:
            current = tables[line]
        elif not line:
            current = None
        elif current is not None:
            current.append(line.partition(" ")[2])
    names = {name: [entry.strip('"') for entry in tables[name]] for name in _TABLES[:2]}
    index = types.SimpleNamespace(
        file_names=names["FileNames"],
        function_names=names["FunctionNames"],
        file_locations=[_fields(entry) for entry in tables["FileLocations"]],
        stack_frames=[_frame(entry) for entry in tables["StackFrames"]],
    )
    stacks = Stacks(index)
    return {number: stacks.frames(number) for number in range(1, len(index.stack_frames) + 1)}


def _fields(entry: str) -> types.SimpleNamespace:
    """Parses an entry such as `{file_name_id=1 line=5}`."""
    pairs = (part.partition("=") for part in entry.strip("{}").split())
    values = {name: int(value) for name, _, value in pairs if value.isdecimal()}
    names = ("file_name_id", "function_name_id", "line", "file_location_id", "parent_frame_id")
    return types.SimpleNamespace(**{name: values.get(name, 0) for name in names})


def _frame(entry: str) -> types.SimpleNamespace:
    frame = _fields(entry)
    frame.parent_frame_id -= 1  # the text has the proto's value plus one; 0 in the proto means no parent
    return frame
