"""Python call stacks of a module, from its table of frames."""

from __future__ import annotations

from typing import Any

from inspector.hlo.source import Frame

_LONGEST_STACK = 1000  # a damaged table may go round in a circle


class Stacks:
    """The stacks of an `xla.StackFrameIndexProto`, each made once."""

    def __init__(self, index: Any) -> None:
        self._stack_frames, self._locations = index.stack_frames, index.file_locations
        self._files, self._functions = index.file_names, index.function_names
        self._known: dict[int, tuple[Frame, ...]] = {}
        self._at_locations: dict[int, tuple[Frame, ...]] = {}

    def frames(self, frame_id: int) -> tuple[Frame, ...]:
        """Frames of a stack, innermost first. Ids are 1-based, 0 is none."""
        inner: list[tuple[int, int]] = []
        while frame_id not in self._known and len(inner) < _LONGEST_STACK:
            if not 0 < frame_id <= len(self._stack_frames):
                break
            frame = self._stack_frames[frame_id - 1]
            inner.append((frame_id, frame.file_location_id))
            frame_id = frame.parent_frame_id
        found = self._known.get(frame_id, ())
        for frame_id, location in reversed(inner):
            found = self._known[frame_id] = self._frame(location) + found
        return found

    def _frame(self, location_id: int) -> tuple[Frame, ...]:
        """The frame of a location; none where the table lacks it."""
        if location_id not in self._at_locations:
            found: tuple[Frame, ...] = ()
            if 0 < location_id <= len(self._locations):
                location = self._locations[location_id - 1]
                file = _entry(self._files, location.file_name_id)
                found = (Frame(file, location.line, _entry(self._functions, location.function_name_id)),)
            self._at_locations[location_id] = found
        return self._at_locations[location_id]


def _entry(names: Any, name_id: int) -> str:
    """Name by its 1-based id; 0 is none."""
    return str(names[name_id - 1]) if 0 < name_id <= len(names) else ""
