"""Recorded buffer assignments against what XLA said of the same compile in other files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from inspector.errors import ModuleError
from inspector.hlo.buffer_assignment import BufferAssignment
from inspector.hlo.module import Module

HEAPS = Path(__file__).parent / "data" / "heaps"
NAMES = sorted(path.name.removesuffix(".json") for path in HEAPS.glob("*.json"))


def recorded(name: str) -> tuple[bytes, dict[str, Any]]:
    return gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()), json.loads((HEAPS / f"{name}.json").read_text())


def test_there_are_recordings_of_every_platform() -> None:
    assert {name.split("_")[0] for name in NAMES} == {"cpu", "h100", "v5e"}


@pytest.mark.parametrize("name", NAMES)
def test_the_schedule_is_xlas_order(name: str) -> None:
    data, facts = recorded(name)
    assert list(BufferAssignment.from_proto(data).schedule) == facts["sequence"]


@pytest.mark.parametrize("name", NAMES)
def test_allocations_hold_their_buffers(name: str) -> None:
    assignment = BufferAssignment.from_proto(recorded(name)[0])
    for allocation in assignment.allocations:
        assert max(s.offset + s.byte_size for s in allocation.slots) == allocation.byte_size
        assert min(s.offset for s in allocation.slots) >= 0


@pytest.mark.parametrize("name", NAMES)
def test_arguments_and_outputs_are_those_of_the_statistics(name: str) -> None:
    data, facts = recorded(name)
    allocations = BufferAssignment.from_proto(data).allocations
    for kind in ("argument", "output"):
        found = sum(a.byte_size for a in allocations if a.kind in (kind, "donated"))
        assert found == facts["stats"][f"{kind}_size_in_bytes"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("v5e")])
def test_tiled_arrays_take_whole_tiles(name: str) -> None:
    data, _ = recorded(name)
    module, tiled = Module.from_proto(data), 0
    for allocation in BufferAssignment.from_proto(data).allocations:
        for slot in allocation.slots:
            shape = module.instruction(slot.instruction).shape
            for index in slot.shape_index:
                shape = shape.tuple_shapes[index]
            if not shape.is_tuple:
                tiled += bool(shape.layout and shape.layout.tiles)
                assert shape.padded_byte_size == slot.byte_size, shape
    assert tiled > 3


def test_a_module_without_an_assignment() -> None:
    data = (HEAPS.parent / "plain.0.12.pb").read_bytes()
    with pytest.raises(ModuleError, match=r"have no buffer assignment\. XLA writes one to \*after_optimizations"):
        BufferAssignment.from_proto(b"\x0a" + _varint(len(data)) + data)


def _varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, *_varint(value >> 7)]) if value > 0x7F else bytes([value])
