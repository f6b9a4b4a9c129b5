"""`Shape`: element type, dimensions and layout of an HLO value, or a tuple of shapes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from inspector.toolchain.schema import set_fields

_UNSIZED = frozenset({"token", "opaque"})


HLO_TYPES = {
    "bool": "pred", **{f"int{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)}, **{f"uint{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""HLO's names of element types, by NumPy's names."""

NUMPY_TYPES = {hlo: name for name, hlo in HLO_TYPES.items()}
"""NumPy's names of element types, by HLO's names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The memory layout of an array.

    Attributes:
      minor_to_major: dimension numbers, fastest varying first.
      tiles: tile sizes, outermost tile first.
      memory_space: number of the memory space; 0 is the device's main memory.
      element_bits: bits per element if elements are packed below their natural size, else 0.
      tail_alignment: the allocation is rounded up to a multiple of this number of elements.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()
    memory_space: int = 0
    element_bits: int = 0
    tail_alignment: int = 1

    @classmethod
    def from_proto(cls, proto: Any) -> Layout:
        """Reads a `Layout` from an `xla.LayoutProto`."""
        fields = set_fields(proto)
        return cls(
            tuple(fields.get("minor_to_major", ())),
            tuple(tuple(tile.dimensions) for tile in fields.get("tiles", ())),
            fields.get("memory_space", 0),
            fields.get("element_size_in_bits", 0),
            fields.get("tail_padding_alignment_in_elements", 0) or 1,
        )

    def __str__(self) -> str:
        """Returns HLO text, such as `{1,0:T(8,128)S(1)}`."""
        details = ("T" if self.tiles else "") + "".join(f"({_tile(tile)})" for tile in self.tiles)
        if self.tail_alignment != 1:
            details += f"L({self.tail_alignment})"
        if self.element_bits:
            details += f"E({self.element_bits})"
        if self.memory_space:
            details += f"S({self.memory_space})"
        return "{" + ",".join(map(str, self.minor_to_major)) + (f":{details}" if details else "") + "}"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Shape:
    """The shape of an HLO value.

    Attributes:
      element_type: HLO's name (`f32`, `bf16`, `pred`, `token`, ...), `tuple`, or `buffer`.
      dimensions: sizes; upper bounds for `dynamic` dimensions.
      layout: the layout; None for tuples and if the compiler has not chosen one.
      tuple_shapes: the elements of a tuple, or the content of a buffer.
      dynamic: one boolean per dimension, or () if all are static.
    """

    element_type: str
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    tuple_shapes: tuple[Shape, ...] = ()
    dynamic: tuple[bool, ...] = ()

    @classmethod
    def from_proto(cls, proto: Any) -> Shape:
        """Reads a `Shape` from an `xla.ShapeProto`."""
        fields = set_fields(proto)
        number, dynamic = fields.get("element_type", 0), tuple(fields.get("is_dynamic_dimension", ()))
        return cls(
            _type_names(proto.DESCRIPTOR).get(number) or f"type{number}",
            tuple(fields.get("dimensions", ())),
            Layout.from_proto(fields["layout"]) if "layout" in fields else None,
            tuple(map(cls.from_proto, fields.get("tuple_shapes", ()))),
            dynamic if any(dynamic) else (),
        )

    @property
    def is_tuple(self) -> bool:
        return self.element_type == "tuple"

    @property
    def is_nested(self) -> bool:
        """Reports whether it consists of `tuple_shapes`: a tuple or a buffer.

        In a damaged file, an array may also have `tuple_shapes`, which are ignored.
        """
        return self.is_tuple or self.element_type == "buffer"

    @property
    def leaves(self) -> tuple[Shape, ...]:
        """The arrays in it, in order. An array contains only itself."""
        if self.is_nested:
            return tuple(leaf for element in self.tuple_shapes for leaf in element.leaves)
        return (self,)

    def at(self, index: Sequence[int]) -> Shape | None:
        """Returns the shape at an index into nested tuples, () for itself; None if there is none."""
        shape = self
        for position in index:
            if not 0 <= position < len(shape.tuple_shapes):
                return None
            shape = shape.tuple_shapes[position]
        return shape

    @property
    def byte_size(self) -> int:
        """Size of all arrays in it in bytes, without padding or tuple pointers; 0 for tokens.

        Types smaller than a byte take one byte per element, unless the layout packs them.
        """
        if self.is_nested:
            return sum(leaf.byte_size for leaf in self.leaves)
        packed_bits = self.layout.element_bits if self.layout else 0
        bits = packed_bits or max(8, element_bits(self.element_type))
        if self.element_type in _UNSIZED:
            return 0
        return -(-math.prod(self.dimensions) * bits // 8)

    @property
    def padded_byte_size(self) -> int:
        """Memory of all arrays in it in bytes: `byte_size` rounded up to whole tiles, as TPUs allocate it."""
        if self.is_nested:
            return sum(leaf.padded_byte_size for leaf in self.leaves)
        if self.layout is None or not self.layout.tiles:
            return self.byte_size
        tile = self.layout.tiles[0]
        if sorted(self.layout.minor_to_major) != list(range(len(self.dimensions))):  # a damaged file
            return self.byte_size
        sizes = [self.dimensions[number] for number in reversed(self.layout.minor_to_major)]
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        outer, inner = sizes[: len(sizes) - len(tile)], sizes[len(sizes) - len(tile) :]
        elements = math.prod(outer) * math.prod(_rounded_up(n, to) for n, to in zip(inner, tile, strict=True))
        bits = self.layout.element_bits or max(8, element_bits(self.element_type))
        return -(-_rounded_up(elements, self.layout.tail_alignment) * bits // 8)

    def without_layout(self) -> Shape:
        """Returns the shape without layouts, for short text."""
        elements = tuple(element.without_layout() for element in self.tuple_shapes)
        return dataclasses.replace(self, layout=None, tuple_shapes=elements)

    def __repr__(self) -> str:
        """Returns the text without layouts, such as `f32[2,3]`, as tuples of shapes print it."""
        return str(self.without_layout())

    def __str__(self) -> str:
        """Returns HLO text, such as `f32[2,3]{1,0}` or `(f32[2], s32[])`."""
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        if self.element_type == "buffer":
            return "b(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        dynamic = self.dynamic or (False,) * len(self.dimensions)
        sizes = (
            "<=" * d + str(n)
            for n, d in itertools.zip_longest(self.dimensions, dynamic[: len(self.dimensions)], fillvalue=False)
        )
        has_layout = self.layout and (self.layout.minor_to_major or self.layout != Layout(()))
        return f"{self.element_type}[{','.join(sizes)}]" + (str(self.layout) if has_layout else "")


@functools.cache
def _type_names(shape_type: Any) -> dict[int, str]:
    """Returns HLO's names of element types, by their numbers in a message type."""
    values = shape_type.fields_by_name["element_type"].enum_type.values_by_number
    # The enum has OPAQUE_TYPE because OPAQUE conflicts with a macro; HLO text has `opaque`.
    return {number: value.name.lower().removesuffix("_type") for number, value in values.items()}


def element_bits(element_type: str) -> int:
    """Returns the bits of an element type by its HLO name: `bf16` 16, `f8e4m3fn` 8, `pred` 8; 0 for tokens."""
    if element_type == "pred":
        return 8
    digits = ""
    for character in element_type.lstrip("abcdefghijklmnopqrstuvwxyz"):
        if not character.isdigit():
            break
        digits += character
    return int(digits or 0)


def _rounded_up(value: int, to: int) -> int:
    return -(-value // to) * to if to > 0 else value


def _tile(dimensions: tuple[int, ...]) -> str:
    combined = -(2**63)  # xla::Tile::kCombineDimension, printed as *
    return ",".join("*" if size == combined else str(size) for size in dimensions)
