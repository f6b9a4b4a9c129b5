"""The user's line in a finding's sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from inspector.hlo.source import Frame, own_frame


def at_line(frames: Sequence[Frame]) -> str:
    """Returns the user's innermost line, such as " at model.py:31"; "" without frames."""
    frame = own_frame(frames)
    return f" at {PurePath(frame.file).name}:{frame.line}" if frame else ""
