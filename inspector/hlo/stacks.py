"""Python call stacks of a module, from its table of frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.hlo.source import Frame

_LONGEST_STACK = 1000  # a damaged table may go round in a circle


class Stacks:
    """The stacks of an `xla.StackFrameIndexProto`, each made once."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._known: dict[int, tuple[Frame, ...]] = {}

    def frames(self, frame_id: int) -> tuple[Frame, ...]:
        """Frames of a stack, innermost first. Ids are 1-based, 0 is none."""
        if frame_id not in self._known:
            self._known[frame_id] = tuple(self._walk(frame_id))
        return self._known[frame_id]

    def _walk(self, frame_id: int) -> Iterator[Frame]:
        index = self._index
        for _ in range(_LONGEST_STACK):
            if not 0 < frame_id <= len(index.stack_frames):
                return
            frame = index.stack_frames[frame_id - 1]
            if 0 < frame.file_location_id <= len(index.file_locations):
                location = index.file_locations[frame.file_location_id - 1]
                yield Frame(
                    _entry(index.file_names, location.file_name_id),
                    location.line,
                    _entry(index.function_names, location.function_name_id),
                )
            frame_id = frame.parent_frame_id


def _entry(names: Any, name_id: int) -> str:
    """Name by its 1-based id; 0 is none."""
    return str(names[name_id - 1]) if 0 < name_id <= len(names) else ""
