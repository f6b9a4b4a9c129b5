"""Messages as bytes: what is written is read, and what is no message is refused."""

from __future__ import annotations

import io
import json
import struct
from typing import Any, cast

import numpy as np
import pytest

from inspector.engines.workers import wire
from inspector.engines.workers.wire import WireError, read_message, write_message


def stream_of(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)


def headed(text: bytes, magic: bytes = b"INSP", length: int | None = None) -> io.BytesIO:
    return stream_of(struct.pack("<4sI", magic, len(text) if length is None else length) + text)


def test_messages_follow_each_other() -> None:
    stream = io.BytesIO()
    write_message(stream, {"do": "one"}, [b"", bytearray(b"ab"), memoryview(np.arange(3, dtype=np.int16))])
    write_message(stream, {"do": "two \u00e9", "n": [1.5, None]})
    stream.seek(0)
    assert read_message(stream) == ({"do": "one"}, [b"", b"ab", b"\0\0\1\0\2\0"])
    assert read_message(stream) == ({"do": "two \u00e9", "n": [1.5, None]}, [])
    with pytest.raises(EOFError):
        read_message(stream)


def test_written_bytes_follow_the_documented_format() -> None:
    stream = io.BytesIO()
    write_message(stream, {"a": 1}, [b"xyz"])
    data = stream.getvalue()
    assert data[:4] == b"INSP"
    length = int.from_bytes(data[4:8], "little")
    assert json.loads(data[8 : 8 + length]) == {"a": 1, "blobs": [3]}
    assert data[8 + length :] == b"xyz"


@pytest.mark.parametrize("cut", [1, 7, 8, 12, -1])
def test_a_message_that_is_cut_off_is_an_end(cut: int) -> None:
    stream = io.BytesIO()
    write_message(stream, {"a": 1}, [b"xyz"])
    with pytest.raises(EOFError, match="closed the stream"):
        read_message(stream_of(stream.getvalue()[:cut]))


def test_other_beginnings_are_refused() -> None:
    with pytest.raises(WireError, match=r"b'INSQ' with a header of 2 bytes does not begin a message"):
        read_message(headed(b"{}", b"INSQ"))


def test_a_header_that_is_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"blobs": []}'
    monkeypatch.setattr(wire, "_MAX_HEADER_BYTES", len(text))
    assert read_message(headed(text)) == ({}, [])
    monkeypatch.setattr(wire, "_MAX_HEADER_BYTES", len(text) - 1)
    with pytest.raises(WireError, match="a header of 13 bytes"):
        read_message(headed(text))


@pytest.mark.parametrize(
    "text",
    [b"{", b"\xff", b"[]", b"3", b"{}", b'{"blobs": 3}', b'{"blobs": [-1]}', b'{"blobs": ["a"]}', b'{"blobs": [1.5]}'],
)
def test_an_empty_header_is_refused(text: bytes) -> None:
    with pytest.raises(WireError, match="the header cannot be read"):
        read_message(headed(text))


def test_an_empty_blob_is_one() -> None:
    assert read_message(headed(b'{"blobs": [0, 0]}')) == ({}, [b"", b""])


@pytest.mark.parametrize("error", [MemoryError, OverflowError])
def test_more_than_there_is_memory_for_is_refused(error: type[Exception]) -> None:
    class Full:
        def read(self, length: int) -> bytes:
            raise error

    with pytest.raises(WireError, match="announces 8 bytes, more than the available memory"):
        read_message(cast(Any, Full()))
