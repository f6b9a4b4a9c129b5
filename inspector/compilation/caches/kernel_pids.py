"""Replaces the notebook kernel's pid in file names of notebook cells, `<temp>/ipykernel_<pid>/<hash of the cell>.py`."""

from __future__ import annotations

import re

MARK = b"ipykernel_"
_DIGITS = re.compile(rb"[0-9]+(?=[/\\])")


def without_pid(data: bytes) -> tuple[bytes, bytes]:
    """Returns the notebook kernel's pid in names of cells' files, and the data with zeros instead of its digits.

    If there is no pid, or several, returns b"" and the data unchanged.
    """
    pids = set[bytes]()
    at = data.find(MARK)
    while at >= 0:
        if digits := _DIGITS.match(data, at + len(MARK)):  # excludes ipykernel_launcher.py
            pids.add(digits[0])
        at = data.find(MARK, at + len(MARK))
    if len(pids) != 1:
        return b"", data
    pid = pids.pop()
    return pid, data.replace(MARK + pid, MARK + b"0" * len(pid))


def with_pid(data: bytes, before: bytes, after: bytes) -> bytes:
    """Replaces a pid with another one of the same length."""
    return data.replace(MARK + before, MARK + after) if before else data
