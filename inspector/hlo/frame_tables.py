"""The tables of files, functions and stack frames that stand in the text of a module, before its computations."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping

from inspector.hlo.call_stacks import Stacks
from inspector.hlo.source import Frame

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def read_frames(lines: Iterable[str]) -> Mapping[int, tuple[Frame, ...]]:
    """The stack of each number that instructions have as `stack_frame_id`, innermost first.

    Args:
      lines: of the module's text, or as many of them as hold the tables.
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
    """`{file_name_id=1 line=5}` as numbers."""
    pairs = (part.partition("=") for part in entry.strip("{}").split())
    found = {name: int(value) for name, _, value in pairs if value.isdecimal()}
    names = ("file_name_id", "function_name_id", "line", "file_location_id", "parent_frame_id")
    return types.SimpleNamespace(**{name: found.get(name, 0) for name in names})


def _frame(entry: str) -> types.SimpleNamespace:
    found = _fields(entry)
    found.parent_frame_id -= 1  # XLA writes one more than the proto has, where 0 is none
    return found
