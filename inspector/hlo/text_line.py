"""Parses single lines of HLO text that define instructions.

Used for modules that XLA provides as text only, such as snapshots between compiler passes. See `hlo/module.py` for protos.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from inspector.errors import ModuleError
from inspector.hlo.shape import element_bits
from inspector.hlo.text import metadata_field, split_metadata


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionLine:
    """A line that defines an instruction.

    Attributes:
      name: name without `%`.
      is_root: whether it is the root of its computation.
      shape: shape as text, with layouts.
      opcode: HLO opcode.
      operands: names of the operands; () for a parameter or a constant.
      literal: text in the parentheses of a parameter or a constant; "" for other instructions.
      attributes: the text after the operands, without metadata.
      called: names of the computations that it calls.
      op_name: JAX's name stack; "" if there is none.
      frame: number of the innermost stack frame in the module's table; 0 if there is none.
    """

    name: str
    is_root: bool
    shape: str
    opcode: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    called: tuple[str, ...]
    op_name: str
    frame: int

    @property
    def array_shape(self) -> str:
        """The shape without layouts."""
        return without_layouts(self.shape)


def read_line(line: str) -> InstructionLine | None:
    """Parses a line; None if it does not define an instruction, such as a computation's header."""
    bare, metadata = parts_of(line)
    head, equals, rest = bare.partition(" = ")
    if not equals or not head.startswith(" "):
        return None
    end = shape_end(rest)
    opening = rest.find("(", end)
    if opening < 0:
        return None
    closing = _closing(rest, opening)
    inside, attributes = rest[opening + 1 : closing], rest[closing + 1 :].removeprefix(", ")
    opcode = rest[end + 1 : opening]
    operands = () if opcode in _WITHOUT_OPERANDS else tuple(_names(inside))
    frame = metadata_field(metadata, "stack_frame_id")
    return InstructionLine(
        name=head.strip().removeprefix("ROOT ").removeprefix("%"),
        is_root=head.lstrip().startswith("ROOT "),
        shape=rest[:end],
        opcode=opcode,
        operands=operands,
        literal="" if operands else inside,
        attributes=attributes,
        called=tuple(_called(attributes)),
        op_name=metadata_field(metadata, "op_name"),
        frame=int(frame) if frame.isdecimal() else 0,
    )


def parts_of(line: str) -> tuple[str, str]:
    """Splits a line into the line without metadata and the metadata; the whole line and "" if metadata span lines."""
    try:
        return split_metadata(line)
    except ModuleError:
        return line, ""


def shape_end(rest: str) -> int:
    """Returns the end of the shape in the text after ` = `: the space before the opcode."""
    if not rest.startswith("("):
        end = rest.find(" ")
        return len(rest) if end < 0 else end
    return _closing(rest, 0) + 1


def opcode(line: str) -> str:
    """Returns the opcode of a line: `%a.1 = (f32[2]{0}, s32[]) fusion(%b), kind=kLoop` -> `fusion`; "" if it has none."""
    rest = line.partition(" = ")[2]
    return rest[shape_end(rest) :].lstrip().partition("(")[0]


@functools.lru_cache(maxsize=1 << 14)
def shape_bytes(shape: str) -> int:
    """Returns the size of all arrays in a shape's text in bytes, without padding.

    Types smaller than a byte take one byte per element, unless the layout packs them, as in `Shape.byte_size`.
    """
    total, position = 0, shape.find("[")
    while position >= 0:
        start = position
        while start > 0 and shape[start - 1].isalnum():
            start -= 1
        end = shape.find("]", position)
        elements = 1
        for size in shape[position + 1 : end].split(","):
            elements *= int(size.lstrip("<=") or 1) if size else 1
        total += -(-elements * _bits(shape[start:position], shape[end + 1 : end + 2], shape, end + 1) // 8)
        position = shape.find("[", end)
    return total


@functools.lru_cache(maxsize=1 << 14)
def without_layouts(shape: str) -> str:
    """Removes layouts from a shape's text: `(f32[2]{0:T(128)}, s32[])` -> `(f32[2], s32[])`."""
    parts = shape.split("{")
    return parts[0] + "".join(part.partition("}")[2] for part in parts[1:])


_WITHOUT_OPERANDS = frozenset({"parameter", "constant", "iota", "partition-id", "replica-id"})
_UNSIZED = frozenset({"token", "opaque"})
# An attribute that names instructions, not computations.
_OF_INSTRUCTIONS = "control-predecessors="


def _bits(element: str, opened: str, shape: str, start: int) -> int:
    if element in _UNSIZED:
        return 0
    packed = 0
    if opened == "{":
        layout = shape[start : shape.find("}", start)]
        digits = layout.partition("E(")[2].partition(")")[0]
        packed = int(digits) if digits.isdecimal() else 0
    return packed or max(8, element_bits(element))


def _closing(text: str, opening: int) -> int:
    """Returns the position of the bracket that closes the one at `opening`; the end of the text if there is none."""
    depth, position = 1, opening + 1
    while True:
        end = text.find(")", position)
        if end < 0:
            return len(text)
        quote = text.find('"', position, end)
        if quote >= 0:
            position = _string_end(text, quote)
            continue
        depth += text.count("(", position, end) - 1
        if depth == 0:
            return end
        position = end + 1


def _string_end(text: str, quote: int) -> int:
    position = quote + 1
    while (end := text.find('"', position)) >= 0:
        if (end - len(text[:end].rstrip("\\"))) % 2 == 0:
            return end + 1
        position = end + 1
    return len(text)


def _names(text: str) -> Iterator[str]:
    """Yields the name after each `%`."""
    for part in text.split("%")[1:]:
        end = min((i for i in map(part.find, ",) }") if i >= 0), default=len(part))
        yield part[:end]


def _called(attributes: str) -> Iterator[str]:
    if "%" not in attributes:
        return
    start = attributes.find(_OF_INSTRUCTIONS)
    if start >= 0:
        end = attributes.find("}", start)
        attributes = attributes[:start] + (attributes[end:] if end >= 0 else "")
    position = attributes.find("%")
    while position >= 0:
        end = min((i for i in (attributes.find(c, position) for c in ",} ") if i >= 0), default=len(attributes))
        if attributes[position - 1] in "={ ":
            yield attributes[position + 1 : end]
        position = attributes.find("%", end)
