"""Describes the differences between two matched instructions in words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from inspector.analysis.diff.instruction_labels import CONFIGURING, NAMING
from inspector.hlo.devices.canonical_forms import SPELLED, CanonicalForms, DeviceCounts, is_grouped, sharding_form
from inspector.hlo.devices.sharding import sharding_text
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.field_numbers import OPCODE, SHAPE
from inspector.hlo.shape import Shape

_LONGEST = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Aspect:
    """One property that differs.

    Attributes:
      name: name of the property, such as "element type", "layout", "replica groups", "operand 0".
      before, after: its values; "" for none.
    """

    name: str
    before: str
    after: str

    @property
    def is_of_shape(self) -> bool:
        """Reports whether it is a property of the result's shape, not of the operation."""
        return self.name.startswith(("element", "dimensions", "layout", "shape")) or self.name.endswith(" elements")

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'none'} → {self.after or 'none'}"


def altered(before: Instruction, after: Instruction) -> tuple[Aspect, ...]:
    """Compares the opcodes, shapes and attributes of two instructions, not their operands and called computations.

    Replica groups, source-target pairs and shardings count as different only if their meanings differ; see `respelled`.
    """
    a, b = before.proto, after.proto
    aspects = []
    if a.opcode != b.opcode:
        aspects.append(Aspect("opcode", a.opcode, b.opcode))
    aspects += shape_aspects(before.shape, after.shape)
    if (before.channel_id is None) != (after.channel_id is None):
        aspects.append(Aspect("channel", _channel(before), _channel(after)))
    aspects += [aspect for aspect, is_same in _spelled(before, after) if not is_same]
    for field in a.DESCRIPTOR.fields:
        is_compared = field.number not in (*NAMING, *CONFIGURING, *SPELLED, OPCODE, SHAPE)
        if is_compared and _differs(field.name, a, b) and not _is_same_sharding(field.name, a, b):
            aspects.append(_aspect(field.name, a, b))
    return tuple(each for each in aspects if not _is_default(each))


def respelled(before: Instruction, after: Instruction) -> tuple[Aspect, ...]:
    """Returns the replica groups, source-target pairs and shardings that are written differently and mean the same."""
    return tuple(aspect for aspect, is_same in _spelled(before, after) if is_same)


def _spelled(before: Instruction, after: Instruction) -> Iterator[tuple[Aspect, bool]]:
    """Yields textual differences of properties with several spellings, each with whether the meaning is the same."""
    sides = (before, after)
    counts = [DeviceCounts.of(each.module) for each in sides]
    forms = [CanonicalForms(counts[0].completed(counts[1])), CanonicalForms(counts[1].completed(counts[0]))]
    meanings = [form.of(each) for form, each in zip(forms, sides, strict=True)]
    texts = [(_groups(each), _pairs(each), each.sharding) for each in sides]
    rows = zip(_SPELLED_NAMES, meanings[0], meanings[1], texts[0], texts[1], strict=True)
    for name, ours, theirs, *spelled in rows:
        if spelled[0] != spelled[1] or ours != theirs:
            if spelled[0] == spelled[1]:  # `{}` for different numbers of devices
                spelled = [f"{text} of {_count(n)}" for text, n in zip(spelled, counts, strict=True)]
            yield Aspect(name, *_parted(*spelled)), ours == theirs


_SPELLED_NAMES = ("replica groups", "source target pairs", "sharding")


def _count(counts: DeviceCounts) -> str:
    numbers = {"replica": counts.replicas or 1, "partition": counts.partitions or 1}
    return ", ".join(f"{number:,} {noun}{'s' * (number > 1)}" for noun, number in numbers.items())


def _is_default(aspect: Aspect) -> bool:
    """Reports whether the difference is only a comparison type that one compiler writes and another infers from the operands."""
    return (
        aspect.name == "comparison type"
        and {aspect.before, aspect.after} & {""} != set()
        and "TOTALORDER" not in (aspect.before, aspect.after)
    )


def configured(before: Instruction, after: Instruction) -> tuple[Aspect, ...]:
    """Compares the backend configs and frontend attributes of two instructions."""
    aspects = []
    if before.backend_config != after.backend_config:
        texts = [each.backend_config.decode(errors="replace") for each in (before, after)]
        aspects.append(Aspect("backend config", *_parted(*texts)))
    ours, theirs = before.frontend_attributes, after.frontend_attributes
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            aspects.append(Aspect(f"attribute {name}", *_parted(ours.get(name, ""), theirs.get(name, ""))))
    return tuple(aspects)


def shape_aspects(before: Shape, after: Shape) -> list[Aspect]:
    """Compares two shapes: element type, dimensions, layout, or the elements of tuples."""
    if before == after:
        return []
    if before.is_tuple != after.is_tuple:
        return [Aspect("shape", *_parted(str(before), str(after)))]
    if before.is_tuple:
        return _tuple_aspects(before, after)
    aspects = []
    if before.element_type != after.element_type:
        aspects.append(Aspect("element type", before.element_type, after.element_type))
    if (before.dimensions, before.dynamic) != (after.dimensions, after.dynamic):
        aspects.append(Aspect("dimensions", _dimensions(before), _dimensions(after)))
    if before.layout != after.layout and (len(before.dimensions) == len(after.dimensions) or not aspects):
        aspects.append(Aspect("layout", str(before.layout or ""), str(after.layout or "")))
    return aspects or [Aspect("shape", *_parted(str(before), str(after)))]


def _tuple_aspects(before: Shape, after: Shape) -> list[Aspect]:
    ours, theirs = before.tuple_shapes, after.tuple_shapes
    if len(ours) != len(theirs):
        only = [_only(ours, theirs), _only(theirs, ours)]
        return [Aspect("elements", *(f"{len(s)}{each}" for s, each in zip((ours, theirs), only, strict=True)))]
    unlike = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    if len(unlike) == 1:
        inner = shape_aspects(ours[unlike[0]], theirs[unlike[0]])
        return [dataclasses.replace(each, name=f"{each.name} of element {unlike[0]}") for each in inner]
    texts = [", ".join(str(side[n]) for n in unlike) for side in (ours, theirs)]
    return [Aspect(f"{len(unlike)} elements", *_parted(*texts))]


def _only(ours: Sequence[Shape], theirs: Sequence[Shape]) -> str:
    """Lists the additional elements of one side, in brackets."""
    mine, its = (Counter(str(shape.without_layout()) for shape in side) for side in (ours, theirs))
    extra = ", ".join(shape if n == 1 else f"{n} {shape}" for shape, n in (mine - its).items())
    return f" (extra: {_short(extra)})" if extra else ""


def _dimensions(shape: Shape) -> str:
    return str(dataclasses.replace(shape.without_layout(), element_type=""))


def _channel(instruction: Instruction) -> str:
    return "" if instruction.channel_id is None else "present"


def _groups(instruction: Instruction) -> str:
    return str(instruction.replica_groups) if is_grouped(instruction.opcode) else ""


def _pairs(instruction: Instruction) -> str:
    pairs = instruction.proto.source_target_pairs
    return "{" + ",".join(f"{{{pair.source},{pair.target}}}" for pair in pairs) + "}" if pairs else ""


def _differs(name: str, a: Any, b: Any) -> bool:
    if name.endswith("sharding") and a.HasField(name) != b.HasField(name):
        return True  # a "replicated" sharding has no fields set
    return bool(getattr(a, name) != getattr(b, name))


def _is_same_sharding(name: str, a: Any, b: Any) -> bool:
    """Reports whether a field holds shardings that mean the same."""
    if not name.endswith(("sharding", "shardings")):
        return False
    return _sharding_forms(name, a) == _sharding_forms(name, b)


def _sharding_forms(name: str, proto: Any) -> Hashable:
    value = getattr(proto, name)
    if proto.DESCRIPTOR.fields_by_name[name].is_repeated:
        return tuple(map(sharding_form, value))
    return sharding_form(value) if proto.HasField(name) else None


def _aspect(name: str, a: Any, b: Any) -> Aspect:
    words = name.replace("_", " ")
    if name == "literal":
        return Aspect("value", *_parted(_literal(a.literal), _literal(b.literal)))
    if name.endswith("sharding"):
        texts = [sharding_text(getattr(each, name)) if each.HasField(name) else "" for each in (a, b)]
        return Aspect(words, *_parted(*texts))
    return Aspect(words, *_parted(_text(a, name), _text(b, name)))


def _text(message: Any, name: str) -> str:
    """Formats a field as text; "" if it is unset."""
    value = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.is_repeated:
        parts = [sharding_text(each) if name.endswith("shardings") else _plain(each) for each in value]
        return "{" + ", ".join(parts) + "}" if parts else ""
    if field.message_type is not None and not message.HasField(name):
        return ""
    return _plain(value)


def _plain(value: Any) -> str:
    if hasattr(value, "DESCRIPTOR"):
        return text_format.MessageToString(value, as_one_line=True)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _literal(literal: Any) -> str:
    """Lists the elements of a constant, in hexadecimal if protobuf stores them as bytes."""
    for field, value in literal.ListFields():
        if field.name == "shape":
            continue
        if isinstance(value, bytes):
            return value.hex()
        if field.is_repeated:
            return ", ".join(map(_plain, value))
        return _plain(value)
    return ""


def _parted(before: str, after: str) -> tuple[str, str]:
    """Shortens two long texts to begin shortly before their first difference."""
    if max(len(before), len(after)) <= _LONGEST:
        return before, after
    same = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    start = max(0, same - _LONGEST // 3)
    return tuple(("…" if start else "") + _short(each[start:]) for each in (before, after))  # type: ignore[return-value]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_OF_MODULES = (
    "input_output_alias", "buffer_donor", "cross_program_prefetches", "spmd_output_sharding", "spmd_parameters_shardings",
    "is_dynamic", "device_assignment",
)  # fmt: skip


def module_aspects(before: Module, after: Module) -> tuple[Aspect, ...]:
    """Compares the attributes of two modules, such as donated arguments and the shardings of parameters."""
    return tuple(aspect for aspect, is_same in _of_modules(before, after) if not is_same)


def respelled_modules(before: Module, after: Module) -> tuple[Aspect, ...]:
    """Returns the shardings of two modules that are written differently and mean the same."""
    return tuple(aspect for aspect, is_same in _of_modules(before, after) if is_same)


def _of_modules(before: Module, after: Module) -> Iterator[tuple[Aspect, bool]]:
    a, b = before.proto, after.proto
    for name in _OF_MODULES:
        if name in a.DESCRIPTOR.fields_by_name and _differs(name, a, b):
            yield _aspect(name, a, b), _is_same_sharding(name, a, b)
