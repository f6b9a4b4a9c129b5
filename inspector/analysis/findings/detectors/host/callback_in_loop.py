"""Callbacks to the host in a loop: each iteration leaves the device, and waits for Python.

A callback below a condition in the loop is left out: it is called as often as the user wants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from inspector.analysis.findings.before import loops_around
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import DropCallbacks, stacks_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.source import Frame, own_frame

KIND = "callback-in-loop"
CALL_S = 500e-6
"""Seconds of one `jax.debug.callback` of a scalar: 0.58 ms when measured on a CPU of two busy cores, rounded down."""
_NAMES = {
    "debug_print": "jax.debug.print", "debug_callback": "jax.debug.callback", "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
}  # fmt: skip
_MISSING = ("Its effect on the host is missing without it.", "The loop prints nothing without it.")
_SOURCE = f"{CALL_S * 1e6:.0f} µs for each callback, as measured on a CPU"


def callback_in_loop(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each callback that runs in every iteration of a loop."""
    if subject.calls is None:
        return
    known: dict[tuple[str, Frame | None], tuple[Value, int | Unavailable]] = {}
    all_of: dict[tuple[str, Frame | None], list[tuple[Value, str]]] = {}  # several where a checkpoint repeats it
    for value, name in subject.calls.values(("custom-call", "send", "recv")):
        primitive = name.rpartition("/")[2]
        loops, trips = loops_around(value)
        if primitive not in _NAMES or not loops or _is_conditional(value) or trips in (0, 1):
            continue
        key = primitive, own_frame(value.instruction.frames)
        known.setdefault(key, (value, trips))
        all_of.setdefault(key, []).append((value, name))
    for key, (value, trips) in known.items():
        yield _finding(subject, value, all_of[key], trips)


def _finding(
    subject: Subject, value: Value, callbacks: Sequence[tuple[Value, str]], trips: int | Unavailable
) -> Finding:
    instruction = value.instruction
    names = tuple(dict.fromkeys(name for _, name in callbacks))
    drop = DropCallbacks(names, stacks_of(each.instruction.frames for each, _ in callbacks))
    primitive = names[0].rpartition("/")[2]
    times = "each iteration" if isinstance(trips, Unavailable) else f"each of {trips:,} iterations"
    has_result = instruction.opcode == "recv" or any(s.element_type != "token" for s in instruction.shape.leaves)
    prints = primitive == "debug_print"
    title = f"`{_NAMES[primitive]}` in a loop calls Python on the host in {times}, and the device waits for it."
    remedy = (
        "compute it with jax.numpy in the loop, or call back once for all iterations after it"
        if has_result
        else f"remove it, or return the values from the loop (lax.scan) and {'print' if prints else 'pass'} them once after it"
    )
    caution = "The program needs its results." if has_result else _MISSING[prints]
    if isinstance(trips, Unavailable):
        caution += " The gain is that of one iteration, because their number is unknown."
    found = subject.finding(
        KIND, title, remedy, instructions=[i.name for i in subject.kernels.named(names)], frames=instruction.frames,
        gain_source=_SOURCE, caution=caution, edits=None if has_result else (drop,),
    )  # fmt: skip
    seconds = CALL_S * (1 if isinstance(trips, Unavailable) else trips)
    return dataclasses.replace(found, gain_s=seconds, share=seconds / (seconds + subject.nominal_s))


def _is_conditional(value: Value) -> bool:
    """Reports whether there is a condition between a value and the innermost loop around it."""
    opcodes = [call.opcode for call in value.calls]
    return "conditional" in opcodes[len(opcodes) - opcodes[::-1].index("while") :]
