"""Arrays that are converted to a wider type as a whole before loops that only read slices of them.

The slices can be converted in the loop's body instead, so that the wide array is never stored. XLA for TPUs does that itself, and XLA for CPUs
moves the conversion out of the loop again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from inspector.analysis.findings.at_line import at_line
from inspector.analysis.findings.before import full_name, moved_from, uses
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.edits import StoreNarrow
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.storage import FLOATS, only_converts
from inspector.analysis.findings.subject import Subject
from inspector.hlo.shape import NUMPY_TYPES, element_bits
from inspector.support.units import format_array, format_bytes


def wide_slices(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for each conversion whose result only loops read, slice by slice."""
    if subject.calls is None or subject.compiled.program.platform != "gpu":
        return
    names = [name for _, name in subject.calls.values(("while",))]
    for value, name in subject.calls.values(("convert",)):
        wide, narrow = value.instruction.shape, value.instruction.operands[0].shape.element_type
        if wide.element_type not in FLOATS or narrow not in FLOATS or any(c.opcode == "while" for c in value.calls):
            continue
        if element_bits(narrow) >= element_bits(wide.element_type) or not _is_large(subject, wide.byte_size):
            continue
        loops = _loops(value)
        kernels = _kernels(subject, value, name) if loops else []
        if kernels:
            yield _finding(subject, kind, value, loops, kernels, names)


def _is_large(subject: Subject, byte_size: int) -> bool:
    return byte_size >= LEAST_SHARE * subject.peak_bytes * subject.compiled.program.device_count


def _loops(value: Value) -> list[Value]:
    """Returns the loops that carry an array unchanged; none if something else reads it."""
    found = dict[Value, None]()
    for user, _ in uses(value):
        if user is None or user.instruction.opcode != "while" or not _reads(user, value):
            return []
        found[user] = None
    return [*found]


def _reads(loop: Value, value: Value) -> bool:
    """Reports whether a loop begins with an array and does not change it."""
    initial, root = (
        source(Value(loop.instruction.operands[0], loop.calls)),
        loop.instruction.called_computations[0].root,
    )
    if initial.instruction.opcode != "tuple" or root.opcode != "tuple":
        return False
    numbers = [n for n in range(len(initial.instruction.operands)) if initial.operand(n) == value]
    ended = [source(Value(root.operands[n])).instruction for n in numbers]
    return bool(numbers) and all(
        each.opcode == "get-tuple-element" and each.operands[0].opcode == "parameter" and each.tuple_index == number
        for each, number in zip(ended, numbers, strict=True)
    )


def _kernels(subject: Subject, value: Value, name: str) -> list[str]:
    """Returns the kernels that write the wide array and do nothing else."""
    wide = value.instruction.shape
    elements, devices = math.prod(wide.dimensions), subject.compiled.program.device_count
    found = dict[str, None]()
    for each in subject.kernels.named([name]):
        kernel = subject.kernels.kernel(each)
        own = math.prod(each.shape.dimensions)
        is_it = (
            each.opcode == "convert"
            and each.shape.element_type == wide.element_type
            and own <= elements <= own * devices
        )
        if is_it and kernel is not None and only_converts(subject.module.instruction(kernel)):
            found[kernel] = None
    return [*found]


def _finding(
    subject: Subject, kind: str, value: Value, loops: Sequence[Value], kernels: Sequence[str], names: Sequence[str]
) -> Finding:
    instruction, first = value.instruction, loops[0].instruction
    wide, narrow = instruction.shape.element_type, instruction.operands[0].shape.element_type
    behind = moved_from(value.operand(0)).instruction
    is_kept = behind.opcode == "parameter" and behind.computation.is_entry
    part = 1.0 if is_kept else 1 - element_bits(narrow) / element_bits(wide)
    at_peak = sum((subject.at_peak or {}).get(name, 0) for name in kernels)
    array = format_array(wide, instruction.shape.dimensions)
    title = (
        f"{array} ({format_bytes(instruction.shape.byte_size)}) is converted from {NUMPY_TYPES[narrow]} as a whole{at_line(instruction.frames)},"
        f" although the loop{at_line(first.frames)} only reads slices of it."
    )
    shape = (wide, *map(str, instruction.shape.dimensions))
    edits = tuple(StoreNarrow((), narrow, name, shape, is_read=True) for name in dict.fromkeys(map(full_name, loops)))
    return subject.finding(
        kind, title, f"x = x.astype(jnp.{NUMPY_TYPES[wide]})  # of each slice in the body, where it is needed, and not before the loop",
        saved=dict.fromkeys(kernels, 1.0), frames=instruction.frames, gain_bytes=int(part * at_peak),
        edits=edits if all(names.count(full_name(each)) == 1 for each in loops) else None,
    )  # fmt: skip
