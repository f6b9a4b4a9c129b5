"""The user's line in a finding's sentence."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.hlo.source import Frame, own_line


def at_line(frames: Sequence[Frame], preposition: str = "at") -> str:
    """Returns the user's innermost line, such as " at model.py:31"; "" without frames."""
    line = own_line(frames)
    return f" {preposition} {line}" if line else ""
