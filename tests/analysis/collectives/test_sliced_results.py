"""The part of an array that each partition keeps, by the offset of the slice."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.sliced_results import kept_blocks, sliced_dimension
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module

OFFSETS = {
    "the partition times the block": "two = u32[] constant(2)\n  at = u32[] multiply(id, two)",
    "looked up by the partition": "t = u32[4]{0} constant({6, 4, 0, 2})\n  e = u32[1]{0} dynamic-slice(t, id), dynamic_slice_sizes={1}\n  at = u32[] reshape(e)",
    "one for all": "at = u32[] constant(4)",
    "not a multiple of the block": "three = u32[] constant(3)\n  at = u32[] multiply(id, three)",
    "an argument of the program": "at = u32[] parameter(1)",
}  # fmt: skip
BLOCKS = {"the partition times the block": (0, 1, 2, 3), "looked up by the partition": (3, 2, 0, 1), "one for all": (2, 2, 2, 2)}  # fmt: skip


def part(offset: str, sizes: str = "2,3") -> Instruction:
    """A slice in a fusion, whose offset is an argument of it."""
    text = f"""HloModule m, num_partitions=4

fused {{
  a = f32[8,3]{{1,0}} parameter(0)
  o = u32[] parameter(1)
  zero = u32[] constant(0)
  ROOT kept = f32[{sizes}]{{1,0}} dynamic-slice(a, o, zero), dynamic_slice_sizes={{{sizes}}}
}}

ENTRY main {{
  x = f32[8,3]{{1,0}} parameter(0)
  id = u32[] partition-id()
  {offset}
  ROOT r = f32[{sizes}]{{1,0}} fusion(x, at), kind=kLoop, calls=fused
}}
"""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return Module.from_proto(proto).instruction("kept")


@pytest.mark.parametrize("offset", list(OFFSETS))
def test_each_partition_keeps_the_block_at_its_offset(offset: str) -> None:
    found = kept_blocks([part(OFFSETS[offset])], 4)
    assert found == BLOCKS.get(offset, found)
    assert isinstance(found, Unavailable) is (offset not in BLOCKS)


def test_parts_with_different_blocks_are_undetermined() -> None:
    first, other, same = (part(OFFSETS[name]) for name in (*list(BLOCKS)[:2], next(iter(BLOCKS))))
    assert kept_blocks([first, same], 4) == (0, 1, 2, 3)
    assert isinstance(kept_blocks([first, other], 4), Unavailable)


def test_the_sliced_dimension_is_the_only_smaller_one() -> None:
    offset = OFFSETS["one for all"]
    assert sliced_dimension(part(offset)) == 0
    assert sliced_dimension(part(offset, "8,1")) == 1
    assert sliced_dimension(part(offset, "8,3")) is None
    assert sliced_dimension(part(offset, "2,1")) is None
