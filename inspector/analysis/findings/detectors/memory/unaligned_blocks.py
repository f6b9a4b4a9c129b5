"""Pallas kernels for TPUs whose arrays fill a part of their tiles only: a kernel takes each array with its last dimension innermost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.findings.dataflow import BY_ELEMENT
from inspector.analysis.findings.fetches import is_passed
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.kernel_calls import calls_of, changes_layout, kernel_text, origin
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.support.units import counted, format_bytes, format_list

KIND = "unaligned-blocks"
_LEAST_BYTES = 1 << 18  # of an array, with its padding
_LEAST_PADDED = 1.5  # its size with padding as a multiple of its size
_INSIDE = BY_ELEMENT | {"parameter", "constant", "broadcast", "bitcast"}
_MOST_VALUES = 200
_CAUTION = (
    "The kernel must be rewritten for the other order, which does not help if the last two dimensions are both short."
)


class _Array(NamedTuple):
    """An array of a kernel that is mostly padding."""

    name: str
    shape: Shape


class _Around(NamedTuple):
    """The kernels around calls that have their layout because of them.

    Attributes:
      copies: the copies from another layout, or to another one.
      neighbors: operations that combine such arrays element by element.
    """

    copies: list[str]
    neighbors: list[str]


def unaligned_blocks(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each kernel with arrays that take much more memory than their values."""
    alike: dict[tuple[str, str], list[tuple[Instruction, list[_Array]]]] = {}
    for call in calls_of(subject):
        arrays = [*_padded(subject, call)]
        if arrays:
            alike.setdefault((_title(subject, call, arrays), _remedy(arrays)), []).append((call, arrays))
    for (title, remedy), found in alike.items():
        call, arrays = found[0]
        around = _around([each for each, _ in found])
        copies = around.copies
        more = f" {len(found)} calls of it do this." if len(found) > 1 else ""
        verb = "changes" if len(copies) == 1 else "change"
        moved = f" {counted(len(copies), 'copy', 'copies')} {verb} the layout." if copies else ""
        padding = sum(_padding(array.shape) for array in arrays)
        if padding or copies or around.neighbors:
            calls = [each.name for each, _ in found]
            yield subject.finding(
                KIND, title + more + moved, remedy, instructions=[*copies, *around.neighbors, *calls],
                frames=call.frames, saved_part=_saved_part(subject, around, calls),
                gain_bytes=padding, caution=_CAUTION,
            )  # fmt: skip


def _saved_part(subject: Subject, around: _Around, calls: list[str]) -> float:
    """Returns the part of the time of all kernels that is saved.

    Copies to or from VMEM still move the values, and operations by element still compute them, without the padding.
    """
    copies, peak = around.copies, subject.roofline.peak
    whole, spent = subject.seconds([*copies, *around.neighbors, *calls]), subject.seconds(copies)
    if isinstance(whole, Unavailable) or isinstance(spent, Unavailable) or isinstance(peak, Unavailable):
        return 0.0
    moved = sum(subject.accessed(name) for name in copies if _crosses(subject.module.instruction(name)))
    padded_s = 0.0
    for name in around.neighbors:
        seconds, shape = subject.seconds([name]), subject.module.instruction(name).shape
        padded_s += (
            0.0 if isinstance(seconds, Unavailable) else seconds * (1 - shape.byte_size / shape.padded_byte_size)
        )
    return (max(0.0, spent - moved / peak.memory_bytes_per_s) + padded_s) / whole if whole else 0.0


def _around(calls: list[Instruction]) -> _Around:
    """Returns the copies and the operations by element that are connected with the padded arrays of calls."""
    copies, neighbors, seen = dict[int, str](), dict[int, str](), {call.row for call in calls}
    waiting = [each for call in calls for each in (*_padded_operands(call), *call.users)]
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row in seen:
            continue
        seen.add(each.row)
        if changes_layout(each):
            copies[each.row] = each.name
        elif is_passed(each):
            waiting += [*each.operands[:1], *each.users]
        elif _is_by_element(each) and _is_padded(each.shape):
            neighbors[each.row] = each.name
            waiting += [*_padded_operands(each), *each.users]
    return _Around([copies[row] for row in sorted(copies)], [neighbors[row] for row in sorted(neighbors)])


def _padded_operands(instruction: Instruction) -> list[Instruction]:
    return [each for each in instruction.operands if not each.shape.is_tuple and _is_padded(each.shape)]


def _is_by_element(instruction: Instruction) -> bool:
    """Reports whether a kernel combines arrays element by element, and does nothing else."""
    if instruction.shape.is_tuple or instruction.opcode != "fusion":
        return instruction.opcode in BY_ELEMENT
    return all(each.opcode in _INSIDE for each in instruction.called_computations[0].instructions)


def _crosses(copy: Instruction) -> bool:
    """Reports whether a copy moves an array from one memory to another."""
    return len({shape.layout.memory_space for shape in (copy.shape, copy.operands[0].shape) if shape.layout}) > 1


def _padded(subject: Subject, call: Instruction) -> Iterator[_Array]:
    """Yields the large arrays of a kernel that are mostly padding."""
    for number, operand in enumerate(call.operands):
        if _is_padded(operand.shape):
            yield _Array(origin(subject, call, number), operand.shape)
    results = call.shape.leaves
    for number, shape in enumerate(results):
        if _is_padded(shape):
            yield _Array("the result" if len(results) == 1 else f"result {number}", shape)


def _is_padded(shape: Shape) -> bool:
    return shape.padded_byte_size >= max(_LEAST_BYTES, _LEAST_PADDED * shape.byte_size)


def _padding(shape: Shape) -> int:
    """Returns the bytes of main memory that padding takes."""
    in_main_memory = shape.layout is not None and not shape.layout.memory_space
    return shape.padded_byte_size - shape.byte_size if in_main_memory else 0


def _title(subject: Subject, call: Instruction, arrays: list[_Array]) -> str:
    shape = arrays[0].shape
    tile = " by ".join(map(str, shape.layout.tiles[0])) if shape.layout is not None else ""
    names = format_list([*dict.fromkeys(each.name for each in arrays)])
    sizes = sum(each.shape.byte_size for each in arrays), sum(each.shape.padded_byte_size for each in arrays)
    return (
        f"Arrays of the {kernel_text(subject, call)} fill {sizes[0] / sizes[1]:.0%} of their tiles of {tile} values: {names} take"
        f" {format_bytes(sizes[1])} instead of {format_bytes(sizes[0])} (for example {dataclasses.replace(shape, layout=None)})."
    )


def _remedy(arrays: list[_Array]) -> str:
    rows, width = arrays[0].shape.dimensions[-2:]
    lanes = arrays[0].shape.layout.tiles[0][-1] if arrays[0].shape.layout is not None else 0
    if width % lanes == 0:
        return f"x = x.swapaxes(-2, -3)  # a longer dimension than {rows} in the place before the last one"
    beside = f"\n# or {lanes // width} rows of {width} side by side" if lanes % width == 0 else ""
    return f"x = x.swapaxes(-1, -2)  # the longer dimension last, and blocks of ({width}, n) in the kernel{beside}"
