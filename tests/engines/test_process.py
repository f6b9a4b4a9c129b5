"""What a process wrote, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inspector.engines import process
from inspector.engines.process import Log, StartError


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.close()


def write(log: Log, text: bytes) -> None:
    log.file.write(text)
    log.file.flush()


def test_what_is_new_is_read_once(log: Log) -> None:
    assert log.read() == ""
    write(log, b"one\n")
    assert log.read() == "one\n"
    assert log.read() == ""
    write(log, b"two")
    write(log, b" three\xff")
    assert log.read() == "two three\ufffd"


def test_what_was_not_read_before_it_is_closed_can_still_be(log: Log) -> None:
    write(log, b"one ")
    assert log.read() == "one "
    write(log, b"two")
    log.close()
    log.close()
    assert log.file.closed
    assert log.read() == "two"
    assert log.read() == ""


def test_of_very_much_the_end_is_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LOG_BYTES", 4)
    write(log, b"12345")
    assert log.read() == "2345"
    write(log, b"6789")
    assert log.read() == "6789"
    write(log, b"0")
    assert log.read() == "0"


def test_no_room_for_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(process.tempfile, "TemporaryFile", fail)
    with pytest.raises(StartError, match=r"disk full.* Set TMPDIR"):
        Log()
