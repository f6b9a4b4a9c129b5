"""Values that a differentiated loop stacks for its backward pass, although its carry alone would be enough to recompute them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.at_line import at_line
from inspector.analysis.findings.edits import TraceAgain
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.what_if import WhatIf
from inspector.errors import Unavailable
from inspector.hlo.loops import carried_index, trip_count, value_source
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.hlo.source import Frame, phases
from inspector.support.segments import segment_length
from inspector.support.units import counted, format_bytes

KIND = "scan-residuals"
_ROOM = 0.8  # of the device's memory
_REMEDY = "body = jax.checkpoint(body)  # the function of the loop{}, a scan or fori_loop; or with a policy that keeps the products only"


_CAUTION = (
    "With the checkpoint, the backward pass recomputes the loop's body, but the stacked values are not written and read. The proof shows whether"
    " this is faster."
)


_OF_SEGMENTS = """segment = jax.checkpoint(lambda carry, xs: jax.lax.scan(body, carry, xs))  # the function of the loop{}
parts = jax.tree.map(lambda x: x.reshape(-1, {}, *x.shape[1:]), xs)
carry, ys = jax.lax.scan(segment, carry, parts)
ys = jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:]), ys)"""
_REPEATED = "The forward pass is computed twice. The proof shows the cost."
_LEAST_OF_SEGMENTS = 0.5  # of the stacked values


class _Stacked(NamedTuple):
    """Arrays that a loop stacks for a backward loop, and the size of what it carries.

    `carried` are the bytes of the arrays that each of the `trips` iterations changes.
    """

    loop: Instruction
    trips: int
    arrays: tuple[Shape, ...]
    carried: int


def scan_residuals(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for the loops of each line whose stacked values are larger than the stack of their carries."""
    loops = [subject.module.at(row) for row in subject.module.columns.rows_of("while".__eq__)]
    backward = [loop for loop in loops if "backward" in phases(loop.op_name)]
    if not backward:
        return
    chosen = [loop for loop in backward if _is_checkpointed(subject, loop)]  # by a policy that keeps what is stacked
    taken = {source for loop in backward if loop not in chosen for source in _initial(loop)}
    lines: dict[tuple[tuple[Frame, ...], int], list[_Stacked]] = {}  # layers in a Python loop have one line
    for loop in loops:
        if "backward" not in phases(loop.op_name) and (stacked := _stacked(loop, taken)) is not None:
            lines.setdefault((loop.frames, stacked.trips), []).append(stacked)
    for group in lines.values():
        yield from _finding(subject, group)


def _room(subject: Subject) -> str:
    """Returns that the values may be kept on purpose, if the device has room for them."""
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable) or isinstance(peak.memory_bytes, Unavailable) or not subject.peak_bytes:
        return " The values may be kept on purpose if the memory is free."
    if subject.peak_bytes > _ROOM * peak.memory_bytes:
        return ""
    return (
        f" The values may be kept on purpose: the program needs {format_bytes(subject.peak_bytes)} of"
        f" {format_bytes(peak.memory_bytes)}."
    )


def _is_checkpointed(subject: Subject, backward: Instruction) -> bool:
    """Reports whether all products in the body of a backward loop belong to a `jax.checkpoint`."""
    if subject.calls is None:
        return False
    inside = f"{backward.op_name}/body/"
    names = [name for _, name in subject.calls.values(PRODUCTS) if name.startswith(inside)]
    return bool(names) and all("checkpoint" in name.split("/") for name in names)


def _finding(subject: Subject, loops: Sequence[_Stacked]) -> Iterator[Finding]:
    arrays = [shape for each in loops for shape in each.arrays]
    size, needed = sum(shape.byte_size for shape in arrays), sum(each.trips * each.carried for each in loops)
    gain = size - needed
    segments = segment_length(loops[0].trips) if gain <= 0 and not _repeats(subject) else 1
    if segments > 1:
        needed = sum(each.trips // segments * each.carried + segments * _of_iteration(each) for each in loops)
        gain = size - needed
    if gain <= 0 or (segments > 1 and gain < _LEAST_OF_SEGMENTS * size):
        return
    first, largest = loops[0], max(arrays, key=lambda shape: shape.byte_size)
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    who, its = ("The loop keeps", "its") if len(loops) == 1 else (f"{len(loops)} loops keep", "their")
    title = (
        f"{who} {counted(len(arrays), 'array')} ({format_bytes(size)}{per_device}) of {its}"
        f" {first.trips} iterations for the backward pass, the largest {largest.without_layout()}; "
        + (
            f"{its} carries take {format_bytes(needed)}."
            if segments == 1
            else f"in segments of {segments} iterations, about {format_bytes(needed)} are enough."
        )
    )
    remedy = _REMEDY.format(at_line(first.loop.frames))
    if segments > 1:
        remedy = _OF_SEGMENTS.format(at_line(first.loop.frames), segments)
    yield subject.finding(
        KIND, title, remedy, instructions=[each.loop.name for each in loops],
        frames=first.loop.frames, gain_bytes=gain, caution=(_CAUTION if segments == 1 else _REPEATED) + _room(subject),
        edits=(TraceAgain(WhatIf(checkpoint="loops" if segments == 1 else "segments")),),
    )  # fmt: skip


def _of_iteration(stacked: _Stacked) -> int:
    """Returns the bytes that an iteration stacks."""
    return sum(shape.byte_size for shape in stacked.arrays) // stacked.trips


def _repeats(subject: Subject) -> bool:
    """Reports whether a loop has a checkpoint in its body: what it stacks is then what the program keeps on purpose."""
    names = subject.calls.values(("add", "multiply", *PRODUCTS)) if subject.calls is not None else ()
    return any("/body/" in name and "checkpoint" in name.rpartition("/body/")[2].split("/") for _, name in names)


def _stacked(loop: Instruction, taken: set[tuple[str, int]]) -> _Stacked | None:
    """Returns what a loop stacks for the backward loops, which take the elements `taken`; None if it stacks nothing."""
    trips, body = trip_count(loop), loop.called_computations[0]
    if isinstance(trips, Unavailable) or trips < 2 or body.root.opcode != "tuple":
        return None
    arrays, carried = list[Shape](), 0
    for index, (shape, result) in enumerate(zip(loop.shape.tuple_shapes, body.root.operands, strict=True)):
        if carried_index(value_source(result)) == index:
            continue
        if not shape.is_tuple and shape.dimensions[:1] == (trips,) and _replaces_slice(result):
            is_in_main_memory = shape.layout is None or not shape.layout.memory_space
            arrays += [shape] if is_in_main_memory and (loop.name, index) in taken else []
        else:
            carried += math.prod(shape.dimensions) and shape.byte_size
    return _Stacked(loop, trips, tuple(arrays), carried) if arrays else None


def _initial(loop: Instruction) -> Iterator[tuple[str, int]]:
    """Yields the elements of other loops' results that a loop begins with, as the loop's name and the index."""
    initial = _outside(value_source(loop.operands[0]))
    for operand in initial.operands if initial.opcode == "tuple" else ():
        taken = value_source(_outside(value_source(operand)))
        if taken.opcode == "get-tuple-element":
            whole = taken.operands[0]
            if whole.opcode == "call":
                whole = whole.called_computations[0].root
            if whole.opcode == "while":
                yield whole.name, taken.tuple_index


def _outside(value: Instruction) -> Instruction:
    """Returns the operand of a call for a parameter of the called computation: XLA for CPUs moves some loops there."""
    callers = value.module.callers.get(value.computation.name, ()) if value.opcode == "parameter" else ()
    if len(callers) != 1 or callers[0].opcode != "call" or value.parameter_number is None:
        return value
    return value_source(callers[0].operands[value.parameter_number])


def _replaces_slice(result: Instruction) -> bool:
    """Reports whether an instruction replaces a slice of an array, alone, in a fusion or as an element of one with several results."""
    instruction = value_source(result)
    index = None
    if instruction.opcode == "get-tuple-element":
        index, instruction = instruction.tuple_index, value_source(instruction.operands[0])
    if instruction.opcode == "fusion":
        instruction = value_source(instruction.called_computations[0].root)
        if instruction.opcode == "tuple" and index is not None:
            instruction = value_source(instruction.operands[index])
    return instruction.opcode == "dynamic-update-slice"
