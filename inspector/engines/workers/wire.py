"""Messages between the notebook kernel and a worker: a JSON header and raw blobs. No pickle.

    4 bytes   "INSP"; anything else means that another program wrote to the stream
    4 bytes   length of the header, little-endian
    header    JSON object in UTF-8; its "blobs" lists the lengths of what follows
    blobs     raw bytes, in sequence

Must know nothing of the meaning of messages (see `messages.py`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

Blob = bytes | bytearray | memoryview

_MAGIC = b"INSP"
_START = struct.Struct("<4sI")
# A header contains names, shapes and numbers. A longer one is not a valid header.
_MAX_HEADER_BYTES = 256 << 20


class WireError(Exception):
    """The received data is not a message."""


def write_message(stream: BinaryIO, header: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> None:
    """Writes one message and flushes. Raises OSError when the other process has ended."""
    lengths = [memoryview(blob).nbytes for blob in blobs]
    text = json.dumps({**header, "blobs": lengths}).encode()
    stream.write(_START.pack(_MAGIC, len(text)))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], list[bytes]]:
    """Reads one message.

    Raises:
      EOFError: the other process has ended, between messages or within one.
      WireError: the data is not a message.
    """
    magic, length = _START.unpack(_read(stream, _START.size))
    if magic != _MAGIC or length > _MAX_HEADER_BYTES:
        raise WireError(f"The stream is damaged: {magic!r} with a header of {length} bytes does not begin a message.")
    try:
        header = json.loads(_read(stream, length))
        lengths = header.pop("blobs")
        if not all(isinstance(n, int) and n >= 0 for n in lengths):
            raise ValueError(f"blob lengths {lengths}")
    except (ValueError, AttributeError, KeyError, TypeError) as e:
        raise WireError(f"The stream is damaged: the header cannot be read ({e}).") from e
    return header, [_read(stream, n) for n in lengths]


def _read(stream: BinaryIO, length: int) -> bytes:
    try:
        data = stream.read(length)
    except (MemoryError, OverflowError) as e:
        raise WireError(f"The message announces {length} bytes, more than the available memory.") from e
    if len(data) < length:
        raise EOFError("the other process closed the stream")
    return data
