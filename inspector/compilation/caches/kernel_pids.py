"""Bytes that name notebook cells' files, `<temp>/ipykernel_<pid>/<hash of the cell>.py`, whatever the notebook kernel's pid."""

from __future__ import annotations

import re

MARK = b"ipykernel_"
_DIGITS = re.compile(rb"[0-9]+(?=[/\\])")


def without_pid(data: bytes) -> tuple[bytes, bytes]:
    """A notebook kernel's pid in bytes that name its cells' files, and the bytes with as many zeros in its place.

    The pid is b"", and the bytes are as they were, where there is none, or where there are several.
    """
    pids = set[bytes]()
    at = data.find(MARK)
    while at >= 0:
        if digits := _DIGITS.match(data, at + len(MARK)):  # not of ipykernel_launcher.py
            pids.add(digits[0])
        at = data.find(MARK, at + len(MARK))
    if len(pids) != 1:
        return b"", data
    pid = pids.pop()
    return pid, data.replace(MARK + pid, MARK + b"0" * len(pid))


def with_pid(data: bytes, before: bytes, after: bytes) -> bytes:
    """The same with another pid of the same length."""
    return data.replace(MARK + before, MARK + after) if before else data
