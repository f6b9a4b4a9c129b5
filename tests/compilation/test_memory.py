"""The sums of a memory space, by hand."""

from __future__ import annotations

import dataclasses

from inspector.compilation.memory import Memory, MemorySpace
from inspector.errors import AtLeast, Unavailable

SPACE = MemorySpace(
    argument_bytes=100, output_bytes=60, alias_bytes=40, constant_bytes=5, temp_bytes=1000, thread_local_bytes=7
)


def test_donated_buffers_are_allocated_once() -> None:
    assert SPACE.allocated_bytes == 100 + (60 - 40) + 5 + 1000
    assert dataclasses.replace(SPACE, alias_bytes=0).allocated_bytes == SPACE.allocated_bytes + 40


def test_unknown_constants_leave_a_lower_bound() -> None:
    bound = dataclasses.replace(SPACE, constant_bytes=Unavailable("not told")).allocated_bytes
    assert isinstance(bound, AtLeast)
    assert bound == 100 + (60 - 40) + 1000


def test_code_of_no_size_is_not_known() -> None:
    """The CPU's compiler reports 0 for device and host, though every program has code."""
    name = "generated_code_size_in_bytes"
    nothing = Memory.told("cpu", {"argument_size_in_bytes": 8, name: 0, f"host_{name}": 0})
    assert isinstance(nothing.generated_code_bytes, Unavailable)
    assert isinstance(nothing.host_generated_code_bytes, Unavailable)
    assert nothing.generated_code_bytes.remedy
    device = Memory.told("tpu", {name: 4096, f"host_{name}": 0})
    assert (device.generated_code_bytes, device.host_generated_code_bytes) == (4096, 0)
    host = Memory.told("gpu", {name: 0, f"host_{name}": 512})
    assert (host.generated_code_bytes, host.host_generated_code_bytes) == (0, 512)
