"""The sums of a memory space, by hand."""

from __future__ import annotations

import dataclasses

from inspector.compilation.memory import MemorySpace
from inspector.errors import AtLeast, Unavailable

SPACE = MemorySpace(
    argument_bytes=100, output_bytes=60, alias_bytes=40, constant_bytes=5, temp_bytes=1000, thread_local_bytes=7
)


def test_what_is_donated_is_allocated_once() -> None:
    assert SPACE.allocated_bytes == 100 + (60 - 40) + 5 + 1000
    assert dataclasses.replace(SPACE, alias_bytes=0).allocated_bytes == SPACE.allocated_bytes + 40


def test_unknown_constants_leave_a_lower_bound() -> None:
    bound = dataclasses.replace(SPACE, constant_bytes=Unavailable("not told")).allocated_bytes
    assert isinstance(bound, AtLeast)
    assert bound == 100 + (60 - 40) + 1000
