"""Arrays that are stored in a wider float type than the values need: arguments, and elements that a loop carries or stacks.

XLA fuses conversions into the kernels next to them, but it does not change the types of arguments and of loops. A narrower type holds the
same values if every use converts the array to it first, or if everything that is stored was converted from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.at_line import at_line
from inspector.analysis.findings.before import Use, full_name, moved_from
from inspector.analysis.findings.dataflow import Value, results, source
from inspector.analysis.findings.edits import StoreNarrow
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.storage import loop_places, stored_uses
from inspector.analysis.findings.subject import Subject
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.shape import NUMPY_TYPES, Shape, element_bits
from inspector.hlo.source import Frame, merged_names, own_frame, phases
from inspector.support.units import counted, format_bytes, format_list

KIND = "wide-storage"
_FLOATS = frozenset({"bf16", "f16", "f32", "f64"})
_CONVERTING = frozenset({"parameter", "convert", "bitcast"})
_MOST_NAMED = 3
_KEPT = "Other programs that take the array may need its precision, such as an optimizer's master weights. Pass a narrow copy of those."


def wide_storage(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for the arguments of a type, and one for each loop, type and way to store."""
    if subject.calls is None or isinstance(subject.before, Unavailable):
        return
    yield from _argument_findings(subject, subject.before)
    names = [name for _, name in subject.calls.values(("while",))]
    for loop, name in subject.calls.values(("while",)):
        groups: dict[tuple[str, str, bool], list[_Carried]] = {}
        for each in _carried(loop, name):
            if _computes_in(each.narrow, subject):
                groups.setdefault((each.shape.element_type, each.narrow, each.is_stacked), []).append(each)
        for members in groups.values():
            yield from _loop_findings(subject, loop, members, is_unique=names.count(name) == 1)


def _computes_in(narrow: str, subject: Subject) -> bool:
    """Reports whether the device computes in a type. Others, such as CPUs, first convert the whole array to a wider one again."""
    peak = subject.roofline.peak
    return narrow == "f32" or (not isinstance(peak, Unavailable) and narrow in peak.flops_per_s)


def _argument_findings(subject: Subject, module: Module) -> Iterator[Finding]:
    arguments = {a.parameter: a for a in subject.compiled.program.arguments}
    returned = {each.instruction.shape.without_layout() for each in results(module)}
    groups: dict[tuple[str, str], list[tuple[Argument, list[Value]]]] = {}
    for parameter in module.entry.parameters:
        argument, wide = arguments.get(parameter.parameter_number), parameter.shape.element_type
        if argument is None or wide not in _FLOATS or parameter.shape.without_layout() in returned:
            continue  # a result of its shape may be its gradient or its next version
        uses = list(stored_uses(Value(parameter)))
        narrow = _narrow_type(uses, wide)
        if narrow:
            groups.setdefault((wide, narrow), []).append((argument, [each.user for each in uses if each.user]))
    for (wide, narrow), members in groups.items():
        if _computes_in(narrow, subject):
            yield _argument_finding(subject, wide, narrow, members)


def _argument_finding(
    subject: Subject, wide: str, narrow: str, members: Sequence[tuple[Argument, list[Value]]]
) -> Finding:
    reads = [read for _, each in members for read in each]
    kernels, saved = _saved(subject, reads, wide, narrow)
    numbers = {argument.parameter for argument, _ in members}
    sizes = [each.shape.byte_size for each in subject.module.entry.parameters if each.parameter_number in numbers]
    paths = [argument.path for argument, _ in members]
    is_one = len(paths) == 1
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    title = (
        f"{format_list([f'`{path}`' for path in paths], most=_MOST_NAMED)} ({format_bytes(sum(sizes))}{per_device})"
        f" {'is' if is_one else 'are'} stored in {NUMPY_TYPES[wide]}, although every use converts {'it' if is_one else 'them'} to"
        f" {NUMPY_TYPES[narrow]} first."
    )
    remedy = "\n".join(
        [
            f"{path} = {path}.astype(jnp.{NUMPY_TYPES[narrow]})  # once, where it is made, or stored in this type"
            for path in paths[:_MOST_NAMED]
        ]
        + [f"# and {counted(len(paths) - _MOST_NAMED, 'other argument')}"] * (len(paths) > _MOST_NAMED)
    )
    parameters = tuple(argument.parameter for argument, _ in members if argument.parameter is not None)
    return subject.finding(
        KIND, title, remedy, instructions=kernels, frames=reads[0].instruction.frames, saved_part=saved,
        gain_bytes=int(sum(sizes) * (1 - element_bits(narrow) / element_bits(wide))), caution=_KEPT,
        edits=(StoreNarrow(parameters, narrow),),
    )  # fmt: skip


class _Carried(NamedTuple):
    """An element of a loop that a narrower type can hold.

    `conversions` are the operations that convert it to or from that type. `is_read_narrow` is False if it is exact only because
    all values that are stored were converted from that type. `edit` is None if the loop changes another element of the same shape that needs
    its type.
    """

    shape: Shape
    narrow: str
    is_stacked: bool
    is_read_narrow: bool
    conversions: tuple[Value, ...]
    edit: StoreNarrow | None


def _carried(loop: Value, name: str) -> list[_Carried]:
    """Returns the elements that a loop changes and that a narrower type can hold.

    Loops of a backward pass follow the types of the forward pass, and what differentiated loops stack is chosen by JAX.
    """
    parts = {*phases(name)} - {"rest"}
    body = loop.instruction.called_computations[0]
    if "backward" in parts or "recomputed" in parts or body.root.opcode != "tuple":
        return []
    found: list[_Carried] = []
    wide: list[Shape] = []  # of all elements that the loop changes
    for number, shape in enumerate(loop.instruction.shape.tuple_shapes):
        ended = source(Value(body.root.operands[number]))
        if shape.is_tuple or shape.element_type not in _FLOATS or _is_element(ended, number):
            continue
        wide.append(shape)
        each = _narrowable(loop, number, shape, ended)
        if each is not None and not (each.is_stacked and parts):
            found.append(each)
    alike = [each.shape.without_layout() for each in found]
    return [
        each._replace(
            edit=StoreNarrow((), each.narrow, name, (each.shape.element_type, *map(str, each.shape.dimensions)))
        )
        if alike.count(shape := each.shape.without_layout()) == [w.without_layout() for w in wide].count(shape)
        else each
        for each in found
    ]


def _narrowable(loop: Value, number: int, shape: Shape, ended: Value) -> _Carried | None:
    """Returns an element of a loop if a narrower type can hold it.

    Args:
      loop: the loop.
      number: the number of the element.
      shape: its shape.
      ended: its value at the end of an iteration, with calls from the body on.
    """
    wide, places = shape.element_type, loop_places(loop, number)
    written, is_stacked = [ended], False
    while written[-1].instruction.opcode == "dynamic-update-slice":
        slices = written.pop()
        written[:0], is_stacked = [slices.operand(1)], True
        written.append(slices.operand(0))
    if is_stacked and not _is_element(written.pop(), number):
        return None
    widened = [moved_from(each) for each in written]
    stored = _widened_type(widened, wide)
    initial = source(Value(loop.instruction.operands[0], loop.calls))
    first = moved_from(initial.operand(number)) if initial.instruction.opcode == "tuple" else initial
    inside = [use for place in places[0] for use in stored_uses(*place, within=loop.instruction)]
    after = list(stored_uses(*places[1]))
    read = {_narrow_type(uses, wide) for uses in (inside, after) if uses}
    if not inside and not after:
        return None
    for narrow in sorted({stored, *read} - {""}):
        is_read_so = all(_narrow_type(uses, wide) == narrow for uses in (inside, after) if uses)
        starts_so = (
            not inside or _narrow_type(inside, wide) == narrow or _widened_type([first], wide) == narrow == stored
        )
        if is_read_so or (starts_so and stored == narrow):
            reads = [use.user for use in (*inside, *after) if use.user and use.user.instruction.opcode == "convert"]
            stores = (
                [Value(v.instruction, (*loop.calls, loop.instruction, *v.calls)) for v in widened] if stored else []
            )
            return _Carried(shape, narrow, is_stacked, is_read_so, (*reads, *stores), None)
    return None


def _is_element(value: Value, number: int) -> bool:
    """Reports whether a value in a loop's body is an element with which the iteration began."""
    instruction = value.instruction
    return (
        instruction.opcode == "get-tuple-element"
        and instruction.operands[0].opcode == "parameter"
        and int(instruction.proto.tuple_index) == number
    )


def _narrow_type(uses: Sequence[Use], wide: str) -> str:
    """Returns the narrower float type to which all uses convert; "" if there is none."""
    kinds = {
        use.user.instruction.shape.element_type if use.user and use.user.instruction.opcode == "convert" else ""
        for use in uses
    }
    (kind,) = kinds if len(kinds) == 1 else ("",)
    return kind if kind in _FLOATS and element_bits(kind) < element_bits(wide) else ""


def _widened_type(values: Sequence[Value], wide: str) -> str:
    """Returns the narrower float type from which all values were converted; "" if there is none."""
    kinds = {v.instruction.operands[0].shape.element_type if v.instruction.opcode == "convert" else "" for v in values}
    (kind,) = kinds if len(kinds) == 1 else ("",)
    return kind if kind in _FLOATS and element_bits(kind) < element_bits(wide) else ""


def _loop_findings(subject: Subject, loop: Value, members: Sequence[_Carried], *, is_unique: bool) -> Iterator[Finding]:
    """Yields the finding of a loop, if it saves time: an element of a TPU's loop may stay in VMEM."""
    first, frames = members[0], loop.instruction.frames
    wide, narrow = first.shape.element_type, first.narrow
    kernels, saved = _saved(subject, [value for each in members for value in each.conversions], wide, narrow)
    if not saved:
        return
    size, is_whole = sum(each.shape.byte_size for each in members), subject.compiled.program.device_count == 1
    shapes = format_list([str(each.shape.without_layout()) for each in members], most=_MOST_NAMED)
    does = "stacks the results of its iterations" if first.is_stacked else "carries its state"
    it = "them" if first.is_stacked else "it"
    why = (
        f"every use converts {it} to {NUMPY_TYPES[narrow]} first"
        if all(each.is_read_narrow for each in members)
        else f"each iteration converts {it} from {NUMPY_TYPES[narrow]}"
    )
    title = f"The loop{at_line(frames)} {does} in {NUMPY_TYPES[wide]} ({shapes}, {format_bytes(size)}), although {why}."
    remedy = (
        f"return carry, y.astype(jnp.{NUMPY_TYPES[narrow]})  # in the body; convert after the loop where {NUMPY_TYPES[wide]} is needed"
        if first.is_stacked
        else f"return carry.astype(jnp.{NUMPY_TYPES[narrow]}), y  # in the body, and begin with carry.astype(jnp.{NUMPY_TYPES[narrow]})"
    )
    edits = dict.fromkeys(each.edit for each in members if each.edit)
    yield subject.finding(
        KIND, title, remedy, instructions=kernels, frames=frames, saved_part=saved,
        gain_bytes=int(size * (1 - element_bits(narrow) / element_bits(wide))) if is_whole else 0,
        edits=tuple(edits) if is_unique and all(each.edit for each in members) else None,
    )  # fmt: skip


def _saved(subject: Subject, conversions: Iterable[Value], wide: str, narrow: str) -> tuple[list[str], float]:
    """Returns the kernels that contain conversions, and the part of their time that the narrower type saves.

    A kernel that only converts is not needed. Others that memory bounds access fewer bytes.
    """
    wanted: dict[tuple[str, Frame | None], set[int]] = {}  # and the numbers of elements on all devices
    for each in conversions:
        key = full_name(each), own_frame(each.instruction.frames)
        wanted.setdefault(key, set()).add(math.prod(each.instruction.shape.dimensions))
    bytes_by_kernel: dict[str, float] = {}
    for instruction in subject.kernels.named(name for name, _ in wanted):
        types = {instruction.shape.element_type, *(each.shape.element_type for each in instruction.operands)}
        kernel = subject.kernels.kernel(instruction)
        if instruction.opcode != "convert" or types != {wide, narrow} or kernel is None:
            continue
        keys = [(name, own_frame(instruction.frames)) for name in merged_names(instruction.op_name)]
        elements = math.prod(instruction.shape.dimensions)
        if any(_is_part(elements, whole, subject) for key in keys for whole in wanted.get(key, ())):
            removed = elements * (element_bits(wide) - element_bits(narrow)) / 8
            bytes_by_kernel[kernel] = bytes_by_kernel.get(kernel, 0.0) + removed
    spent = saved = 0.0
    for kernel, removed in bytes_by_kernel.items():
        time = subject.seconds([kernel])
        weight = subject.accessed(kernel) if isinstance(time, Unavailable) else time
        spent += weight
        saved += weight * _part(subject, kernel, removed)
    return list(bytes_by_kernel), saved / spent if spent else 0.0


def _is_part(elements: int, whole: int, subject: Subject) -> bool:
    """Reports whether an array can be a device's part of another one, by their numbers of elements."""
    return elements * subject.compiled.program.device_count >= whole and elements <= whole


def _part(subject: Subject, kernel: str, removed: float) -> float:
    """Returns the part of a kernel's time that it saves if each execution accesses fewer bytes."""
    instruction, point = subject.module.instruction(kernel), subject.points[kernel]
    inside = instruction.called_computations[0].instructions if instruction.opcode == "fusion" else (instruction,)
    if all(each.opcode in _CONVERTING for each in inside):
        return 1.0
    if point.bound_by != "memory" and not isinstance(point.least_s, Unavailable):
        return 0.0
    runs = 1 if isinstance(point.executions, Unavailable) else point.executions
    accessed = subject.accessed(kernel)
    return min(1.0, removed * runs / accessed) if accessed else 0.0
