"""Dimensions that are split over a number of devices that does not divide them, so that devices compute padding.

A dimension of size n that is split k ways has parts of size ceil(n / k). Sharding constraints may do that; JAX refuses arguments
and results that are split so. A result that is computed in such parts is therefore gathered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value, is_passing
from inspector.analysis.findings.edits import resized
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.spec_code import spec_code
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame, merged_names, own_frame
from inspector.support.units import counted, format_array, format_list

KIND = "uneven-shards"
_MOST_VALUES = 200
_REALIGNING = "collective-permute"
_MOST_NAMED = 3
_MOVES = frozenset({"parameter", "bitcast", "reshape", "transpose", "copy", "copy-start", "slice", "get-tuple-element"})
_ONE, _MORE = "device computes", "devices compute"

_Key: TypeAlias = tuple[Frame | None, int, int]


class _Split(NamedTuple):
    """A constraint that splits a dimension unevenly.

    Attributes:
      constraint: the constraint.
      dimension: the dimension.
      parts: the number of parts.
    """

    constraint: Value
    dimension: int
    parts: int

    @property
    def size(self) -> int:
        return int(self.constraint.instruction.shape.dimensions[self.dimension])

    @property
    def part(self) -> int:
        """The size of a part."""
        return -(-self.size // self.parts)

    @property
    def padding(self) -> int:
        """The number of rows that are padding, on all devices together."""
        return self.part * self.parts - self.size

    @property
    def padding_part(self) -> float:
        """The part of the rows that are padding."""
        return self.padding / (self.part * self.parts)


def uneven_shards(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for each line, size and number of parts of constraints that split a dimension unevenly."""
    if subject.calls is None:
        return
    lines: dict[_Key, list[_Split]] = {}
    for value, _ in subject.calls.values(("custom-call",)):
        for split in _splits(value):
            key = own_frame(value.instruction.frames), split.size, split.parts
            lines.setdefault(key, []).append(split)
    for splits in lines.values():
        kernels: dict[str, float] = {}
        for split in splits:
            for kernel, part in (*_padded_kernels(subject, split), *_padded_exchanges(subject, split)):
                kernels[kernel] = max(part, kernels.get(kernel, 0.0))
        if kernels:
            yield _finding(subject, splits[0], kernels)
    gathered: dict[tuple[int, int, int], list[_Gathered]] = {}
    for each in _gathered_results(subject):
        gathered.setdefault((each.dimension, each.size, each.parts), []).append(each)
    for results in gathered.values():
        yield _gathered_finding(subject, results)


class _Gathered(NamedTuple):
    """A result that is computed in uneven parts and gathered.

    Attributes:
      number: its position.
      dimension: the dimension that has the parts.
      size: the size of the dimension.
      parts: the number of parts.
      kernels: the kernels that gather it, and that remove the padding.
    """

    number: int
    dimension: int
    size: int
    parts: int
    kernels: tuple[str, ...]


def _gathered_results(subject: Subject) -> Iterator[_Gathered]:
    """Yields the results that are computed in uneven parts."""
    exchanges = {each.holder: each for each in subject.exchanges if each.collective.opcode == "all-gather"}
    root = subject.module.entry.root
    for number, value in enumerate(root.operands if root.opcode == "tuple" and exchanges else ()):
        kernels, shape = list[str](), value.shape
        while value.name not in exchanges and value.operands and _only_moves(value):
            kernels += [value.name] if value.name in subject.points else []
            value = value.operands[0]
        if value.name not in exchanges:
            continue
        (before,) = exchanges[value.name].collective.operand_shapes[:1]
        parts = exchanges[value.name].collective.who.group_sizes[1]
        if len(before.dimensions) < len(shape.dimensions):
            continue
        local = before.dimensions[len(before.dimensions) - len(shape.dimensions) :]
        uneven = [d for d, (size, part) in enumerate(zip(shape.dimensions, local, strict=True)) if size != part]
        if len(uneven) == 1:
            (dimension,) = uneven
            size = shape.dimensions[dimension]
            if size % parts and local[dimension] == -(-size // parts):
                yield _Gathered(number, dimension, size, parts, (value.name, *kernels))


def _only_moves(value: Instruction) -> bool:
    """Reports whether an instruction only moves the values of its first operand."""
    if value.opcode != "fusion":
        return value.opcode in _MOVES or value.opcode.endswith("-done")
    inside = value.called_computations[0].instructions
    return len(value.operands) == 1 and all(each.opcode in _MOVES for each in inside)


def _gathered_finding(subject: Subject, results: Sequence[_Gathered]) -> Finding:
    first, is_one = results[0], len(results) == 1
    parts, size = first.parts, first.size
    axis = _axis(subject, parts) or f"{parts} devices"
    known = subject.compiled.program.results
    paths = [f"`result{known[each.number].path}`" for each in results if each.number < len(known)]
    title = (
        f"{format_list(paths, most=_MOST_NAMED)} {'is' if is_one else 'are'} computed in parts over {axis}, but gathered, because {parts} does not divide"
        f" dimension {first.dimension} of size {size}, and JAX does not return uneven parts."
    )
    smaller = size // parts * parts
    sizes = " or ".join(str(each) for each in (smaller, smaller + parts) if each)
    return subject.finding(
        KIND, title, f"Make the dimension a multiple of {parts} ({sizes}): the results stay split.",
        saved=dict.fromkeys((kernel for each in results for kernel in each.kernels), 1.0),
        caution="The next call then takes split arrays. Arguments that stay whole are gathered in any case.",
        edits=resized(subject.compiled.program.arguments, size, smaller) if smaller else None,
    )  # fmt: skip


def _splits(value: Value) -> Iterator[_Split]:
    instruction = value.instruction
    if instruction.custom_call_target != "Sharding" or not instruction.sharding:
        return
    for dimension, (size, parts) in enumerate(zip(instruction.shape.dimensions, _parts(instruction), strict=False)):
        split = _Split(value, dimension, parts)
        if parts > 1 and size % parts and split.padding >= LEAST_SHARE * size:
            yield split


def _parts(constraint: Instruction) -> Sequence[int]:
    """Returns the number of parts of each dimension of a constrained array; () for a sharding without tiles."""
    sharding = constraint.proto.sharding
    if "named_sharding" not in sharding.DESCRIPTOR.fields_by_name or not sharding.HasField("named_sharding"):
        return [int(count) for count in sharding.tile_assignment_dimensions]
    named = sharding.named_sharding
    return [math.prod(_axis_size(axis, named.mesh.axes) for axis in each.axes) for each in named.dim_shardings]


def _axis_size(axis: Any, axes: Sequence[Any]) -> int:
    return int(axis.sub_axis_info.size if axis.HasField("sub_axis_info") else axes[axis.mesh_axis_index].size)


def _finding(subject: Subject, split: _Split, kernels: Mapping[str, float]) -> Finding:
    instruction, size, parts = split.constraint.instruction, split.size, split.parts
    array = format_array(instruction.shape.element_type, instruction.shape.dimensions)
    axis = _axis(subject, parts)
    rows = split.part * parts
    idle = parts - -(-size // split.part)
    title = (
        f"Dimension {split.dimension} of {array}{subject.at_line(instruction.frames)} is split over {axis or f'{parts} devices'}, which does"
        f" not divide {size}: {split.padding} of the {rows} rows that the devices compute are padding"
        f"{f', and {counted(idle, _ONE, _MORE)} only padding' if idle else ''}."
    )
    opcodes = {subject.points[name].opcode for name in kernels if subject.points[name].link_bytes}
    realigning = {opcode for opcode in opcodes if opcode.startswith(_REALIGNING)}
    title += " Collectives send the padding too." if opcodes - realigning else ""
    title += (
        " An exchange moves the rows between devices, because the parts before have other sizes." if realigning else ""
    )
    smaller = size // parts * parts
    sizes = " or ".join(str(each) for each in (smaller, smaller + parts) if each)
    return subject.finding(
        KIND, title, f"Make the dimension a multiple of {parts} ({sizes}), or split another one{_other_split(subject, split)}", saved=kernels,
        frames=instruction.frames, edits=resized(subject.compiled.program.arguments, size, smaller) if smaller else None,
    )  # fmt: skip


def _other_split(subject: Subject, split: _Split) -> str:
    """Returns the code of a constraint that splits the largest other dimension evenly; "." if there is none or the axis is not unique."""
    instruction, axes = split.constraint.instruction, _axes(subject, split.parts)
    shape = instruction.shape.dimensions
    others = [d for d, size in enumerate(shape) if d != split.dimension and size % split.parts == 0]
    is_alone = math.prod(_parts(instruction)[: len(shape)]) == split.parts
    if not others or len(axes) != 1 or not is_alone:
        return "."
    dimension = max(others, key=lambda d: shape[d])
    spec = spec_code([axes if d == dimension else () for d in range(len(shape))])
    return f":\njax.lax.with_sharding_constraint(x, NamedSharding(mesh, {spec}))"


def _axes(subject: Subject, size: int) -> list[str]:
    """Returns the names of the mesh axes of a size."""
    mesh = subject.compiled.program.mesh
    sizes = {} if mesh is None else dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    return [name for name, each in sizes.items() if each == size]


def _axis(subject: Subject, parts: int) -> str:
    """Returns the mesh axis of a size in words; "" if none or several have it."""
    names = _axes(subject, parts)
    return f"the mesh axis {names[0]} of {parts} devices" if len(names) == 1 else ""


def _padded_kernels(subject: Subject, split: _Split) -> Iterator[tuple[str, float]]:
    """Yields the kernels that compute parts of arrays with the dimension, and the part of their time that is for padding.

    A kernel that memory bounds also reads arrays without the dimension, such as weights.
    """
    for instruction, kernel, written in _partitioned(subject, split):
        if _has_part(instruction, written, split) and not subject.points[kernel].link_bytes:
            is_bound_by_memory = subject.points[kernel].bound_by != "compute"
            scaled = _byte_part(subject.module.instruction(kernel), split.part) if is_bound_by_memory else 1.0
            yield kernel, split.padding_part * scaled


def _padded_exchanges(subject: Subject, split: _Split) -> Iterator[tuple[str, float]]:
    """Yields the kernels that exchange parts of arrays with the dimension, and the part of their time that is for padding.

    The latency stays. A reshape into the dimension needs no exchange at all if the parts are even.
    """
    exchanges = {exchange.kernel.name: exchange for exchange in subject.exchanges}
    for instruction, kernel, written in _partitioned(subject, split):
        exchange = exchanges.get(kernel)
        if exchange is None or isinstance(exchange.kernel.least_s, Unavailable) or not exchange.kernel.least_s:
            continue
        if instruction.opcode.startswith(_REALIGNING):
            if written.opcode == "reshape":
                yield kernel, 1.0
        elif _has_part(instruction, written, split):
            yield kernel, split.padding_part * max(0.0, 1 - exchange.latency_s / exchange.price.known_s)


def _partitioned(subject: Subject, split: _Split) -> Iterator[tuple[Instruction, str, Instruction]]:
    """Yields the optimized instructions near a constraint, with their kernels and the operations that the user wrote."""
    for value in (*_constraints(split.constraint), *_around(split)):
        written, name = value.instruction, full_name(value)
        for instruction in subject.kernels.named([name]) if name else ():
            kernel = subject.kernels.kernel(instruction)
            is_same = own_frame(instruction.frames) == own_frame(written.frames)
            if is_same and name in merged_names(instruction.op_name) and kernel is not None:
                yield instruction, kernel, written


def _has_part(instruction: Instruction, written: Instruction, split: _Split) -> bool:
    """Reports whether an instruction has parts of the dimension where the operation that the user wrote has the dimension."""
    local, sizes = _sizes(instruction), _sizes(written)
    return local.count(split.part) > sizes.count(split.part) and local.count(split.size) < sizes.count(split.size)


def _byte_part(kernel: Instruction, size: int) -> float:
    """Returns the part of the bytes of a kernel's operands and result that arrays with a dimension of a size have."""
    shapes = (kernel.shape, *(operand.shape for operand in kernel.operands))
    total = sum(shape.byte_size for shape in shapes)
    return sum(shape.byte_size for shape in shapes if size in shape.dimensions) / total if total else 0.0


def _sizes(instruction: Instruction) -> list[int]:
    """Returns the sizes of the dimensions of an instruction's operands and result."""
    shapes = (instruction.shape, *(operand.shape for operand in instruction.operands))
    return [size for shape in shapes for size in shape.dimensions]


def _constraints(constraint: Value) -> Iterator[Value]:
    """Yields a constraint and those of its result, which may gather the array."""
    yield constraint
    for user in constraint.instruction.users:
        if is_passing(user):
            yield Value(user, constraint.calls)


def _around(split: _Split) -> Iterator[Value]:
    """Yields the operations before and after a constraint whose arrays have a dimension of its size."""
    waiting, seen = [split.constraint], {split.constraint}
    while waiting and len(seen) < _MOST_VALUES:
        value = waiting.pop()
        before = [value.operand(number) for number in range(len(value.instruction.operands))]
        after = [use.user for use in uses(value) if use.user is not None]
        for each in (*before, *after):
            instruction = each.instruction
            if each in seen or instruction.opcode in (
                "parameter",
                "constant",
                "while",
                "conditional",
                "get-tuple-element",
            ):
                continue
            seen.add(each)
            yield each
            if split.size in instruction.shape.dimensions:
                waiting.append(each)
