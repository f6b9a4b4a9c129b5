"""A peak that is larger than the memory of the device. The GPU compiler does not refuse such programs, they fail when they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.analysis.memory.timeline import timeline
from inspector.errors import Unavailable
from inspector.hlo.shape import Shape
from inspector.hlo.source import Frame, line_text
from inspector.support.units import format_bytes, format_list

KIND = "over-memory"
_NAMED = 3
_RECOMPUTED = re.compile(r"\.remat\d*$")  # XLA's names of values that it computes again to save memory
_REMEDY = (
    "split the largest arrays over more devices{}, or recompute: jax.checkpoint(f); compiled.timeline() has all arrays at"
    " the peak"
)


class _Array(NamedTuple):
    """An array at the peak: its name for the user, bytes on one device, instruction and call stack."""

    name: str
    byte_size: int
    instruction: str
    frames: tuple[Frame, ...]


def over_memory(subject: Subject) -> Iterator[Finding]:
    """Yields a finding with the largest arrays at the peak if the peak does not fit."""
    roofs = subject.roofline.peak
    if isinstance(roofs, Unavailable) or isinstance(roofs.memory_bytes, Unavailable):
        return
    excess = subject.peak_bytes - roofs.memory_bytes
    if excess <= 0:
        return
    largest = sorted(_arrays(subject), key=lambda array: -array.byte_size)[:_NAMED]
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    listed = format_list([f"{array.name} ({format_bytes(array.byte_size)})" for array in largest], _NAMED)
    is_known = not isinstance(subject.compiled.buffers, Unavailable)
    at_peak = (
        "The largest arrays are" if is_known else "The largest arrays of the program, maybe not all at the peak, are"
    )
    donate = ", donate state" if any(each.candidate is not None for each in subject.donations) else ""
    title = (
        f"The peak of {format_bytes(subject.peak_bytes)}{per_device} does not fit into the {format_bytes(roofs.memory_bytes)}"
        f" of {roofs.chip}." + (f" {at_peak} {listed}." if listed else "")
    )
    yield subject.finding(
        KIND, title, _REMEDY.format(donate), instructions=[array.instruction for array in largest],
        frames=next((array.frames for array in largest if array.frames), ()), gain_bytes=excess,
    )  # fmt: skip


def _arrays(subject: Subject) -> Iterator[_Array]:
    """Yields the arrays at the peak; if the buffer assignment is unknown, arguments, results and what kernels write."""
    compiled = subject.compiled
    arguments = {a.parameter: a for a in compiled.program.arguments if a.parameter is not None}
    if isinstance(compiled.buffers, Unavailable):
        names = {p.parameter_number: p.name for p in subject.module.entry.parameters}
        for each in subject.donations:
            if each.byte_size:
                yield _Array(f"`{each.argument.path}`", each.byte_size, names.get(each.argument.parameter, ""), ())
        yield from _results(subject, is_new=True)
        yield from _written(subject)
        return
    lives = timeline(compiled.buffers.hlo_proto, compiled.program.platform)
    main = next(iter(lives.spaces))
    for life in lives.alive(main):
        argument = None if life.parameter is None else arguments.get(life.parameter)
        frames = () if argument is not None else lives.origin(life).frames
        line = f" of {line_text(frames, is_short=True)}" if frames else ""
        name = f"`{argument.path}`" if argument is not None else f"{life.instruction}{line}"
        yield _Array(name, life.byte_size, life.instruction, frames)


def _written(subject: Subject) -> Iterator[_Array]:
    """Yields the arrays that kernels of the entry computation write, apart from the results; those that XLA recomputes (`.remat`) once."""
    module = subject.module
    sizes = np.array([_largest(shape).byte_size for shape in module.known_shapes])
    rows = np.array(module.entry.rows)
    results = {each.instruction for each in _results(subject)}  # a donated argument has its updated version's buffer
    largest = rows[np.argsort(-sizes[module.columns.shapes.codes[rows]], kind="stable")]
    found = set[str]()
    for row in largest.tolist():
        each = module.at(row)
        origin = _RECOMPUTED.sub("", each.name)
        is_written = each.name in subject.points or each.opcode == "while"
        if not is_written or each.name in results or origin in found:
            continue
        line = f" of {line_text(each.frames, is_short=True)}" if each.frames else ""
        yield _Array(f"{each.name}{line}", _largest(each.shape).byte_size, each.name, each.frames)
        found.add(origin)
        if len(found) == _NAMED:
            return


def _largest(shape: Shape) -> Shape:
    """Returns the largest array of a tuple, such as of all that a loop carries."""
    return max(shape.leaves, key=lambda leaf: leaf.byte_size) if shape.is_tuple and [*shape.leaves] else shape


def _results(subject: Subject, *, is_new: bool = False) -> Iterator[_Array]:
    """Yields the results, or only those that reuse no argument's buffer."""
    root = subject.module.entry.root
    shapes = root.shape.tuple_shapes if root.shape.is_tuple else (root.shape,)
    results = subject.compiled.program.results
    reused = set(reused_parameters(subject.module).values())
    for number, shape in enumerate(shapes):
        if not (is_new and number in reused) and len(results) == len(shapes):
            maker = root.operands[number] if root.opcode == "tuple" else root
            yield _Array(f"result{results[number].path}", shape.byte_size, maker.name, maker.frames)
