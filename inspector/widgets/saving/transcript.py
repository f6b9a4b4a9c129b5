"""A transcript of an Explorer's messages, enough for a page to show the app without a notebook kernel.

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
      request: the request that it answers; None for messages without a request.
      packings: packings of the buffers; () if all are gzip.
    """

    message: Mapping[str, Any]
    buffers: Sequence[bytes] = ()
    request: Mapping[str, Any] | None = None
    packings: Sequence[Packing] = ()

    @property
    def size(self) -> int:
        """Bytes of the buffers and of the message as JSON; savings from content shared with other entries are not subtracted."""
        return sum(map(len, self.buffers)) + len(gzip.compress(_json(self.message), 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Transcript:
    """The messages of an Explorer.

    Attributes:
      about: time and software versions of the recording, for readers.
      arrangement: arrangement of the panes.
      messages: the messages, in the order in which a browser receives them.
    """

    about: str
    arrangement: Mapping[str, Any]
    messages: tuple[SentMessage, ...]

    def to_bytes(self) -> bytes:
        """Returns four bytes with the length of a table, the table as JSON packed as `lines`, and all buffers."""
        ordered = [s for s in self.messages if s.request is None] + [s for s in self.messages if s.request is not None]
        entries = [_entry(s) for s in ordered if s.request is None]
        replies = [{**_entry(s), "request": dict(sorted(s.request.items()))} for s in ordered if s.request is not None]
        table = {"about": self.about, "arrangement": dict(self.arrangement), "kept": entries, "replies": replies}
        packed = lines(json.dumps(table, separators=(",\n", ":")))
        assert packed is not None, "JSON has no NUL"
        return b"".join((struct.pack("<I", len(packed)), packed, *(b for s in ordered for b in s.buffers)))

    def repacked(self) -> Transcript:
        """Returns the transcript with its buffers packed as small as possible; for sending they were packed quickly."""
        return dataclasses.replace(self, messages=tuple(map(_repacked, self.messages)))

    def within(self, limit_bytes: int, remedy: str) -> Transcript:
        """Returns the transcript packed to a maximum size; texts that do not fit are replaced by a notice for readers.

        Messages that are read first have priority. A message that does not fit leaves its space to smaller ones.

        Args:
          limit_bytes: limit for `to_bytes`, as far as it can be estimated in advance.
          remedy: advice for readers about omitted texts.
        """
        optional = {i for i, s in enumerate(self.messages) if s.buffers or s.request is not None}
        entries: dict[int, SentMessage | None] = dict(enumerate(self.messages))
        room = limit_bytes - sum(s.size for i, s in enumerate(self.messages) if i not in optional)
        baseline = min((v for s in self.messages if (v := s.message.get("variant")) is not None), default=None)
        for i in sorted(optional, key=lambda i: _rank(self.messages[i], baseline)):
            sent = self.messages[i]
            small = _repacked(sent) if sent.size <= _MOST_GAINED * room else sent
            if small.size <= room:
                entries[i], room = small, room - small.size
            else:
                entries[i] = _without(sent, remedy)
        return dataclasses.replace(self, messages=tuple(s for s in entries.values() if s is not None))


_MOST_GAINED = 4
"""Largest factor by which packing is expected to shrink texts; trying larger ones takes seconds."""
_READ_FIRST = ("optimized", "source")


def _rank(sent: SentMessage, baseline: int | None) -> tuple[int, bool, int]:
    """Returns the priority of a message, lowest first: first texts, messages without a request, other texts, replies."""
    message = sent.message
    kind = 3 if sent.request is not None else 2 if message["type"] == "document" else 1
    kind = 0 if kind == 2 and message["pane"] in _READ_FIRST else kind
    return kind, message.get("variant") not in (None, baseline), sent.size


def _without(sent: SentMessage, remedy: str) -> SentMessage | None:
    """Returns the replacement of an omitted message: for a text, the reason why it is missing; else None."""
    message = sent.message
    if message["type"] != "document":
        return None
    return SentMessage(
        messages.UnavailableMessage(
            type="unavailable",
            pane=message["pane"],
            variant=message["variant"],
            reason=f"It has {message['line_count']:,} lines, {format_bytes(sent.size)} compressed, and is not recorded",
            remedy=remedy,
        )
    )


def _repacked(sent: SentMessage) -> SentMessage:
    packed = [pack(gzip.decompress(buffer)) for buffer in sent.buffers]
    return dataclasses.replace(
        sent, buffers=tuple(data for _, data in packed), packings=tuple(packing for packing, _ in packed)
    )


def _entry(sent: SentMessage) -> dict[str, Any]:
    return {
        "message": dict(sent.message),
        "buffers": [len(b) for b in sent.buffers],
        "packings": sent.packings or ["gzip"] * len(sent.buffers),
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
