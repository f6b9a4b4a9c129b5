"""Large arrays that the function closes over: they are constants of the executable, where arguments would be shared and cached."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.findings.edits import LiftConstants
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame
from inspector.support.units import counted, format_bytes

KIND = "large-constant"
LEAST_BYTES = 1 << 20
_CAUTION = "The compiler can no longer fold it with other constants."
_STEPS = 50  # users of users to look at for a source line


def large_constant(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for all large constants that the optimized program still contains."""
    if isinstance(subject.before, Unavailable):
        return
    written, kept = _large(subject.before), _large(subject.module)
    if not written or not kept:
        return
    size, kept_size = (sum(c.shape.byte_size for c in each) for each in (written, kept))
    # libtpu stores the program as it was written, the optimized one, and the data of its constants.
    stored = size + 2 * kept_size if subject.compiled.program.platform == "tpu" else min(size, kept_size)
    largest = max(written, key=lambda constant: constant.shape.byte_size)
    user, frames = _use(largest)
    many = f"{counted(len(written), 'array')} ({format_bytes(size)}, the largest {_text(largest)})"
    what = f"The array {_text(largest)} ({format_bytes(size)})" if len(written) == 1 else many
    used = f", used by `{user}`," if user else ""
    title = (
        f"{what} that the function closes over{used} {'is a constant' if len(written) == 1 else 'are constants'} of the"
        " executable: compiled, hashed and stored with it, and again in every other program that uses it."
    )
    yield subject.finding(
        KIND, title, "jax.jit(fun)(array, ...)  # pass the array as an argument", instructions=[c.name for c in kept],
        frames=frames, gain_bytes=stored, gain_source="the size of the constants in the executable",
        caution=_CAUTION, edits=(LiftConstants(LEAST_BYTES),),
    )  # fmt: skip


def _large(module: Module) -> list[Instruction]:
    constants = map(module.at, module.columns.rows_of("constant".__eq__))
    return [each for each in constants if not each.shape.is_tuple and each.shape.byte_size >= LEAST_BYTES]


def _text(constant: Instruction) -> str:
    return f"{constant.shape.element_type}[{','.join(map(str, constant.shape.dimensions))}]"


def _use(constant: Instruction) -> tuple[str, tuple[Frame, ...]]:
    """Returns the name of the first operation with a source line that uses a constant, and the line; ("", ()) if there is none."""
    waiting, seen = list(constant.users), set[int]()
    while waiting and len(seen) < _STEPS:
        user = waiting.pop(0)
        if user.row in seen:
            continue
        seen.add(user.row)
        if user.frames:
            return user.op_name.rpartition("/")[2], user.frames
        if user.opcode in ("call", "while"):
            waiting.extend(p for called in user.called_computations for p in called.parameters)
        waiting.extend(user.users)
    return "", ()
