"""Python call stacks of a module, from its stack frame table."""

from __future__ import annotations

from typing import Any

from inspector.hlo.source import Frame

_LONGEST_STACK = 1000  # a damaged table may contain a cycle


class Stacks:
    """The stacks of an `xla.StackFrameIndexProto`. Each stack is built once."""

    def __init__(self, index: Any) -> None:
        self._stack_frames, self._locations = index.stack_frames, index.file_locations
        self._files, self._functions = index.file_names, index.function_names
        self._known: dict[int, tuple[Frame, ...]] = {}
        self._at_locations: dict[int, tuple[Frame, ...]] = {}

    def frames(self, frame_id: int) -> tuple[Frame, ...]:
        """Returns the frames of a stack, innermost first. Ids start at 1; 0 means no stack."""
        inner: list[tuple[int, int]] = []
        while frame_id not in self._known and len(inner) < _LONGEST_STACK:
            if not 0 < frame_id <= len(self._stack_frames):
                break
            frame = self._stack_frames[frame_id - 1]
            inner.append((frame_id, frame.file_location_id))
            frame_id = frame.parent_frame_id
        frames = self._known.get(frame_id, ())
        for frame_id, location in reversed(inner):
            frames = self._known[frame_id] = self._frame(location) + frames
        return frames

    def _frame(self, location_id: int) -> tuple[Frame, ...]:
        """Returns the frame of a location; none if the table does not have it."""
        if location_id not in self._at_locations:
            frames: tuple[Frame, ...] = ()
            if 0 < location_id <= len(self._locations):
                location = self._locations[location_id - 1]
                file = _entry(self._files, location.file_name_id)
                frames = (Frame(file, location.line, _entry(self._functions, location.function_name_id)),)
            self._at_locations[location_id] = frames
        return self._at_locations[location_id]


def _entry(names: Any, name_id: int) -> str:
    """Returns a name by its id. Ids start at 1; 0 means no name."""
    return str(names[name_id - 1]) if 0 < name_id <= len(names) else ""
