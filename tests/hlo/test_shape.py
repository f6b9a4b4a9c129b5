"""Shapes against jaxlib's own text and byte sizes."""

from __future__ import annotations

import dataclasses

import pytest
from jaxlib import _hlo

from inspector.hlo.module import Module
from inspector.hlo.shape import Layout, Shape, element_bits


def shape_of(text: str) -> Shape:
    """Through jaxlib's parser and a proto."""
    module = _hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{\n  ROOT p = {text} parameter(0)\n}}\n")
    return Module.from_proto(module.as_serialized_hlo_module_proto()).entry.root.shape


@pytest.mark.parametrize(
    ("text", "byte_size"),
    [
        ("f32[]", 4),
        ("f32[2,3]{1,0}", 24),
        ("f32[2,3]{0,1}", 24),
        ("bf16[7]{0}", 14),
        ("pred[5]{0}", 5),
        ("c128[2]{0}", 32),
        ("f8e4m3fn[3]{0}", 3),
        ("s4[5]{0}", 5),
        ("s4[5]{0:E(4)}", 3),
        ("f32[0,4]{1,0}", 0),
        ("token[]", 0),
        ("(f32[2]{0}, s32[], (bf16[4]{0}, pred[]))", 8 + 4 + 8 + 1),
        ("f32[256,256]{1,0:T(8,128)S(1)}", 262144),
        ("bf16[256,256]{1,0:T(8,128)(2,1)}", 131072),
        ("f32[<=10]{0}", 40),
    ],
)
def test_text_and_bytes(text: str, byte_size: int) -> None:
    shape = shape_of(text)
    assert str(shape) == text
    assert shape.byte_size == byte_size


@pytest.mark.parametrize(
    ("text", "padded"),
    [
        ("f32[3,5]{1,0}", 60),
        ("f32[3,5]{1,0:T(8,128)}", 8 * 128 * 4),
        ("f32[3,5]{0,1:T(8,128)}", 8 * 128 * 4),
        ("f32[2,9,129]{2,1,0:T(8,128)}", 2 * 16 * 256 * 4),
        ("bf16[9,129]{1,0:T(8,128)(2,1)}", 16 * 256 * 2),
        ("f32[]{:T(128)}", 512),
        ("f32[300]{0:T(256)}", 512 * 4),
        ("(f32[]{:T(128)}, f32[7]{0})", 512 + 28),
        ("s4[9,129]{1,0:T(8,128)(8,1)E(4)}", 16 * 256 // 2),
        ("s4[9,129]{1,0:T(8,128)}", 16 * 256),
        ("s4[3]{0:T(3)E(4)}", 2),
        ("f32[300]{0:T(256)L(1024)}", 1024 * 4),
        ("f32[0,5]{1,0:T(8,128)}", 0),
    ],
)
def test_padded_bytes_are_whole_tiles(text: str, padded: int) -> None:
    assert shape_of(text).padded_byte_size == padded


def test_leaves_and_layout_free_text() -> None:
    shape = shape_of("(f32[2]{0}, (bf16[4,2]{1,0}, pred[]))")
    assert [str(leaf) for leaf in shape.leaves] == ["f32[2]{0}", "bf16[4,2]{1,0}", "pred[]"]
    assert str(shape.without_layout()) == "(f32[2], (bf16[4,2], pred[]))"
    assert repr((shape,)) == "((f32[2], (bf16[4,2], pred[])),)"
    assert shape.is_tuple
    assert not shape.leaves[0].is_tuple


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Shape("f32").element_type = "s32"  # type: ignore[misc]
    assert Shape("f32", (2,), Layout((0,))) == Shape("f32", (2,), Layout((0,)))


def test_element_bits() -> None:
    assert [element_bits(t) for t in ("pred", "s2", "f4e2m1fn", "f8e5m2", "bf16", "u64", "c128", "token")] == [
        8, 2, 4, 8, 16, 64, 128, 0,
    ]  # fmt: skip


def test_an_array_of_a_damaged_file_with_elements_of_a_tuple_has_its_own_size() -> None:
    shape = Shape("f32", (4,), tuple_shapes=(Shape("f32"),))
    assert shape.byte_size == shape.padded_byte_size == 16
    assert shape.leaves == (shape,)
    assert str(shape) == "f32[4]"
    odd = Shape("f32", (4,), Layout((1, 0), tiles=((8, 128),)), dynamic=(True, False, True))
    assert odd.padded_byte_size == 16
    assert str(odd).startswith("f32[<=4]")
