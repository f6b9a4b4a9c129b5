"""64-bit floats in a program whose arguments are all narrower: a NumPy array or scalar, or a dtype, widened them by accident."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape
from inspector.hlo.source import Frame, line_text, merged_names, own_frame
from inspector.support.units import format_list

KIND = "float64"
_WIDE = frozenset({"f64", "c128"})
_WIDE_TYPES = frozenset({"float64", "complex128"})
_MOVED = frozenset({"parameter", "constant", "broadcast", "tuple", "get-tuple-element", "call", "while", "conditional"})
_CAUTION = "Keep it if sums or differences need the digits."
_NAMED = 3
_FEWEST = 64  # elements; scalars in 64 bits cost little


def float64(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for a program that computes in 64-bit floats though no argument has them."""
    if isinstance(subject.before, Unavailable):
        return
    if any(argument.dtype in _WIDE_TYPES for argument in subject.compiled.program.arguments):
        return
    written = [i for i in _wide(subject.before) if i.opcode not in _MOVED]
    computing = _emulating(subject, written) if subject.compiled.program.platform == "tpu" else _wide(subject.module)
    kernels = dict.fromkeys(name for each in computing if (name := subject.kernels.kernel(each)) is not None)
    known = [name for name in kernels if not isinstance(subject.seconds([name]), Unavailable)]
    if not written or not kernels:
        return
    first = next((i for i in written if i.frames), written[0])
    others = dict.fromkeys(
        place
        for i in written
        if not any(_has_wide(operand.shape) for operand in i.operands)
        and (place := line_text(i.frames, is_short=True))
        and place != line_text(first.frames, is_short=True)
    )
    what = first.op_name.rpartition("/")[2] or first.opcode
    title = (
        f"The program computes in 64-bit floats, though no argument has them. `{what}` makes the first array of them,"
        f" {first.shape.element_type}[{','.join(map(str, first.shape.dimensions))}]."
        + (f" Others are made at {format_list([*others], _NAMED)}." if others else "")
    )
    yield subject.finding(
        KIND, title,
        f".astype(jnp.float32), or dtype=jnp.float32, for the 64-bit array of {'each of these lines' if others else 'this line'}",
        instructions=known or kernels, frames=first.frames, saved_part=0.5, caution=_CAUTION,
    )  # fmt: skip


def _emulating(subject: Subject, written: Iterable[Instruction]) -> list[Instruction]:
    """Returns the instructions that compute the operations of `written` on a TPU: with pairs of float32."""
    rows = {each.row: each for each in written}
    wanted = {
        (name, _own_frame(value))
        for value, name in (subject.calls.values({each.opcode for each in rows.values()}) if subject.calls else ())
        if value.instruction.row in rows
    }
    return [
        each
        for each in subject.kernels.named(name for name, _ in wanted)
        if any((name, own_frame(each.frames)) in wanted for name in merged_names(each.op_name))
    ]


def _own_frame(value: Value) -> Frame | None:
    """Returns the user's line of an operation, or of the call of JAX's function that contains it."""
    lines = (own_frame(each.frames) for each in (value.instruction, *reversed(value.calls)))
    return next((line for line in lines if line is not None), None)


def _wide(module: Module) -> list[Instruction]:
    """Returns the instructions whose results are arrays of 64-bit floats."""
    wide = [code for code, shape in enumerate(module.known_shapes) if _has_wide(shape)]
    return [module.at(int(row)) for row in np.flatnonzero(np.isin(module.columns.shapes.codes, wide))]


def _has_wide(shape: Shape) -> bool:
    """Reports whether a shape has an array of 64-bit floats."""
    return any(s.element_type in _WIDE and math.prod(s.dimensions) >= _FEWEST for s in shape.leaves)
