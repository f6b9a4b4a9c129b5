"""What an Explorer has said, kept: enough for a page to show the app again where there is no notebook kernel.

`frontend/src/state/recorded.ts` reads it.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from inspector.support.units import format_bytes
from inspector.widgets import messages
from inspector.widgets.saving.packing import Packing, lines, pack


@dataclasses.dataclass(frozen=True, slots=True)
class SentMessage:
    """A message with its buffers, as it was sent.

    Attributes:
      request: what it answers; None where nobody has to ask for it.
      packings: of the buffers; () where all are gzip.
    """

    message: Mapping[str, Any]
    buffers: Sequence[bytes] = ()
    request: Mapping[str, Any] | None = None
    packings: Sequence[Packing] = ()

    @property
    def size(self) -> int:
        """Bytes of the buffers, and of the message as JSON; what other entries share with it is not subtracted."""
        return sum(map(len, self.buffers)) + len(gzip.compress(_json(self.message), 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Transcript:
    """All that was said.

    Attributes:
      about: when it was recorded and by what, for readers.
      arrangement: of the panes.
      said: in the order in which a browser is told.
    """

    about: str
    arrangement: Mapping[str, Any]
    said: tuple[SentMessage, ...]

    def to_bytes(self) -> bytes:
        """Four bytes with the length of a table, the table as JSON that is packed as `lines`, and all buffers."""
        ordered = [s for s in self.said if s.request is None] + [s for s in self.said if s.request is not None]
        kept = [_entry(s) for s in ordered if s.request is None]
        replies = [{**_entry(s), "request": dict(sorted(s.request.items()))} for s in ordered if s.request is not None]
        table = {"about": self.about, "arrangement": dict(self.arrangement), "kept": kept, "replies": replies}
        packed = lines(json.dumps(table, separators=(",\n", ":")))
        assert packed is not None, "JSON has no NUL"
        return b"".join((struct.pack("<I", len(packed)), packed, *(b for s in ordered for b in s.buffers)))

    def repacked(self) -> Transcript:
        """The same with all buffers as small as they get: they were packed to be sent soon."""
        return dataclasses.replace(self, said=tuple(map(_repacked, self.said)))

    def within(self, limit_bytes: int, remedy: str) -> Transcript:
        """The same as small as it gets, and in at most so many bytes; of a text that there is no room for, readers are told.

        What is read first is kept first, and what there is no room for leaves it to what is smaller.

        Args:
          limit_bytes: of `to_bytes`, as near as it can be known before.
          remedy: what a reader can do about what is left out.
        """
        optional = {i for i, s in enumerate(self.said) if s.buffers or s.request is not None}
        kept: dict[int, SentMessage | None] = dict(enumerate(self.said))
        room = limit_bytes - sum(s.size for i, s in enumerate(self.said) if i not in optional)
        baseline = min((v for s in self.said if (v := s.message.get("variant")) is not None), default=None)
        for i in sorted(optional, key=lambda i: _rank(self.said[i], baseline)):
            said = self.said[i]
            small = _repacked(said) if said.size <= _MOST_GAINED * room else said
            if small.size <= room:
                kept[i], room = small, room - small.size
            else:
                kept[i] = _without(said, remedy)
        return dataclasses.replace(self, said=tuple(s for s in kept.values() if s is not None))


_MOST_GAINED = 4
"""Times that texts get smaller when they are packed as small as they get; to try larger ones takes seconds."""
_READ_FIRST = ("optimized", "source")


def _rank(said: SentMessage, baseline: int | None) -> tuple[int, bool, int]:
    """What is kept first has the least: what is read first, what nobody has to ask for, other texts, and replies."""
    message = said.message
    kind = 3 if said.request is not None else 2 if message["type"] == "document" else 1
    kind = 0 if kind == 2 and message["pane"] in _READ_FIRST else kind
    return kind, message.get("variant") not in (None, baseline), said.size


def _without(said: SentMessage, remedy: str) -> SentMessage | None:
    """What stands for an entry that is left out: of a text why it is not there."""
    message = said.message
    if message["type"] != "document":
        return None
    return SentMessage(
        messages.Unavailable(
            type="unavailable",
            pane=message["pane"],
            variant=message["variant"],
            reason=f"It has {message['line_count']:,} lines, {format_bytes(said.size)} packed, and is not kept here",
            remedy=remedy,
        )
    )


def _repacked(said: SentMessage) -> SentMessage:
    packed = [pack(gzip.decompress(buffer)) for buffer in said.buffers]
    return dataclasses.replace(
        said, buffers=tuple(data for _, data in packed), packings=tuple(packing for packing, _ in packed)
    )


def _entry(said: SentMessage) -> dict[str, Any]:
    return {
        "message": dict(said.message),
        "buffers": [len(b) for b in said.buffers],
        "packings": said.packings or ["gzip"] * len(said.buffers),
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
