"""Large arguments that the program does not use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.analysis.findings.argument_names import argument_root
from inspector.analysis.findings.edits import DropParameters
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
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
        size = sum(map(_bytes, arguments))
        if size >= _LEAST_BYTES:
            yield _finding(subject, arguments, size)


def _finding(subject: Subject, arguments: list[Argument], size: int) -> Finding:
    is_dropped = all(each.parameter is None for each in arguments)
    are_many, largest = len(arguments) > 1, max(arguments, key=_bytes)
    what = f"`{largest.path}` ({format_bytes(size)})"
    if are_many:
        what = (
            f"{counted(len(arguments), 'array')} of `{argument_root(largest.path)}` ({format_bytes(size)}), such as"
            f" `{largest.path}` ({format_bytes(_bytes(largest))}),"
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


def _bytes(argument: Argument) -> int:
    try:
        width = np.dtype(argument.dtype).itemsize
    except TypeError:
        width = 2 if argument.dtype == "bfloat16" else 1
    return int(np.prod(argument.shape, dtype=np.int64)) * width
