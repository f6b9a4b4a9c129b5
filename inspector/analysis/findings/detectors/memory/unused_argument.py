"""Large arguments that the program does not use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from inspector.analysis.findings.argument_names import argument_root
from inspector.analysis.findings.edits import DropParameters
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.program_shardings import axes_in_spec
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.support.units import counted, format_bytes

KIND = "unused-argument"
_LEAST_BYTES = 1 << 20
_NOT_IN_PROGRAM = Unavailable("the compiled program does not have the argument; only the caller's memory changes")


def unused_argument(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each argument of the function with unused arrays."""
    if isinstance(subject.before, Unavailable):
        return
    used = {p.parameter_number for p in subject.before.entry.parameters if p.users or p.is_root}
    by_root: dict[str, list[Argument]] = {}
    for argument in subject.compiled.program.arguments:
        if argument.parameter not in used and not argument.donated:
            by_root.setdefault(argument_root(argument.path), []).append(argument)
    for arguments in by_root.values():
        size = sum(_bytes(each, subject.compiled.program.mesh) for each in arguments)
        if size >= _LEAST_BYTES:
            yield _finding(subject, arguments, size)


def _finding(subject: Subject, arguments: list[Argument], size: int) -> Finding:
    is_dropped = all(each.parameter is None for each in arguments)
    program = subject.compiled.program
    sizes = [_bytes(each, program.mesh) for each in arguments]
    per_device = " per device" if program.device_count > 1 else ""
    are_many, largest = len(arguments) > 1, arguments[int(np.argmax(sizes))]
    what = f"`{largest.path}` ({format_bytes(size)}{per_device})"
    if are_many:
        what = (
            f"{counted(len(arguments), 'array')} of `{argument_root(largest.path)}` ({format_bytes(size)}{per_device}), such as"
            f" `{largest.path}` ({format_bytes(max(sizes))}),"
        )
    it = "them" if are_many else "it"
    effect = (
        f"JAX drops {it} from the program, but the caller keeps {it} in memory for the call"
        if is_dropped
        else f"{'they are' if are_many else 'it is'} in the device's memory during the whole execution"
    )
    edits = (
        _NOT_IN_PROGRAM
        if is_dropped
        else (DropParameters(tuple(a.parameter for a in arguments if a.parameter is not None)),)
    )
    return subject.finding(
        KIND, f"{what} {'are' if are_many else 'is'} not used: {effect}.",
        f"Do not pass {it}.", gain_bytes=size, edits=edits,
        caution=f"The memory is free only if the caller needs the array{'s' * are_many} for nothing else." if is_dropped else "",
    )  # fmt: skip


def _bytes(argument: Argument, mesh: Mesh | None) -> int:
    """Returns the bytes of a device's part of an argument; of the whole array if its sharding is unknown."""
    try:
        width = np.dtype(argument.dtype).itemsize
    except TypeError:
        width = 2 if argument.dtype == "bfloat16" else 1
    axes = None if mesh is None else axes_in_spec(argument.sharding)
    sizes = {} if mesh is None else dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    parts = [math.prod(sizes.get(axis, 1) for axis in each or ()) for each in axes or ()]
    shape = [-(-size // part) for size, part in itertools.zip_longest(argument.shape, parts, fillvalue=1)]
    return math.prod(shape) * width
