from __future__ import annotations

import pytest

from inspector.analysis.collectives.inserted_by import primitive


@pytest.mark.parametrize(
    ("op_name", "name"),
    [
        ("jit(f)/shard_map/psum", "psum"),
        ("jit(f)/jit(shmap_body)/all_gather_start", "all_gather"),
        ("jit(f)/all_gather_done", "all_gather"),
        ("jit(f)/psum_start[axes=('i',) axis_index_groups=None]", "psum"),
        ("transpose(jvp(jit(f)))/ppermute)", "ppermute"),
        ("psum", "psum"),
        ("", ""),
    ],
)
def test_the_primitive_is_the_last_word(op_name: str, name: str) -> None:
    assert primitive(op_name) == name
