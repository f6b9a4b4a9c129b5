"""State of which only a slice changes, but which is written as a whole: caches that are concatenated or masked.

Three forms are recognized: `where(arange(n) == i, new, cache)`, `cache * (1 - one_hot) + new * one_hot`, and a concatenation of
slices of the cache with new values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from inspector.analysis.cost.kernel_time import CYCLES
from inspector.analysis.cost.timed_kernels import number_of
from inspector.analysis.findings.before import MOVING, moved_from, uses
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.support.units import format_bytes

KIND = "full-rewrite"
_LEAST_LENGTH = 8
_CAUTION = "The slice is written in place only if the array is donated or carried by a loop. Otherwise it is copied."


def full_rewrite(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each operation that writes such an array."""
    if subject.calls is None:
        return
    seen = set[str]()
    for value, name in subject.calls.values(("select", "add", "concatenate")):
        if name in seen or math.prod(value.instruction.shape.dimensions) < _LEAST_LENGTH:
            continue
        found = _rewritten(value)
        if found is None or not _is_result(value):
            continue
        seen.add(name)
        yield _finding(subject, value, name, *found)


def _finding(subject: Subject, value: Value, name: str, state: Value, length: int, how: str, remedy: str) -> Finding:
    shape = value.instruction.shape
    argument = subject.argument(state)
    which = f"`{argument}`" if argument else "An array that a loop carries"
    title = (
        f"{which} ({shape.element_type}[{','.join(map(str, shape.dimensions))}], {format_bytes(shape.byte_size)}) is written as a"
        f" whole {how}, though 1 of {length} parts {'is new' if remedy == _RING_UPDATE else 'changes'}."
    )
    frames = value.instruction.frames or next((call.frames for call in reversed(value.calls) if call.frames), ())
    kernels = list(subject.kernels.of([name]))
    return subject.finding(
        KIND, title, remedy, instructions=kernels, frames=frames,
        saved_part=(1 - 1 / length) * _rewriting_part(subject, kernels, shape.byte_size),
        caution=f"{_CAUTION} {_RING}" if remedy == _RING_UPDATE else _CAUTION,
    )  # fmt: skip


def _rewriting_part(subject: Subject, kernels: Sequence[str], size: int) -> float:
    """Returns the part of the kernels' time, or of their bytes without roofs, that the rewrite takes.

    A kernel that computes more still reads the array, and may be limited by what it computes.

    Args:
      subject: the program.
      kernels: the kernels that write the array.
      size: bytes of the array.
    """
    whole, peak = subject.seconds(kernels), subject.roofline.peak
    times = None if isinstance(peak, Unavailable) or isinstance(whole, Unavailable) else subject.kernel_times(peak)
    saved = spent = 0.0
    for name in kernels:
        kernel, point = subject.module.instruction(name), subject.points[name]
        runs = 1.0 if isinstance(point.executions, Unavailable) else float(point.executions)
        only = all(leaf.byte_size == size for leaf in kernel.shape.leaves)  # several arrays at the same position
        accessed = subject.accessed(name)
        moved = accessed if only else min(accessed, runs * size)
        if times is None or isinstance(point.least_s, Unavailable):
            saved, spent = saved + moved, spent + accessed
            continue
        seconds = float(point.least_s)
        known = times.of(kernel)
        left_s = 0.0
        if not only:
            in_memory = float(number_of(known.memory_s)) * (1 - moved / accessed if accessed else 1.0)
            is_by_cycles = known.unit == CYCLES  # of all that it does: no part of them is known to be the rewrite's
            computed = float(number_of(known.seconds if is_by_cycles else known.compute_s))
            left_s = min(seconds, runs * max(computed, in_memory))
        saved, spent = saved + seconds - left_s, spent + seconds
    return min(1.0, saved / spent) if spent else 1.0


def _rewritten(value: Value) -> tuple[Value, int, str, str] | None:
    """Returns the array that is rewritten, how many parts it has, how it is written, and the remedy; None for other operations."""
    opcode = value.instruction.opcode
    if opcode == "select":
        return _selected(value)
    return _added(value) if opcode == "add" else _concatenated(value)


_RING_UPDATE = (
    "jax.lax.dynamic_update_slice_in_dim(cache, new, i % length, axis)  # a ring buffer, with the cache donated"
)
_RING = "A ring buffer has the entries in another order."
_UPDATE = "jax.lax.dynamic_update_slice_in_dim(cache, new, i, axis)  # with the cache donated"


def _selected(value: Value) -> tuple[Value, int, str, str] | None:
    length = _one_hot(moved_from(value.operand(0)))
    state = value.operand(2)
    return (state, length, "by a selection with a mask", _UPDATE) if length and _is_state(state, value) else None


def _added(value: Value) -> tuple[Value, int, str, str] | None:
    products = [operand for operand in value.operands if operand.instruction.opcode == "multiply"]
    if len(products) < 2:  # one for the old and one for the new values
        return None
    for old, new in (products, reversed(products)):
        states = [factor for factor in old.operands if _is_state(factor, value)]
        kept = [moved_from(factor) for factor in old.operands]
        masks = [factor for factor in kept if factor.instruction.opcode == "subtract"]
        length = next(filter(None, (_one_hot(moved_from(factor)) for factor in new.operands)), 0)
        if states and length and any(_one_hot(moved_from(mask.operand(1))) == length for mask in masks):
            return states[0], length, "by products with a one-hot mask", _UPDATE
    return None


def _concatenated(value: Value) -> tuple[Value, int, str, str] | None:
    (axis,) = value.instruction.dimensions
    whole = value.instruction.shape.dimensions
    parts = [*value.operands]
    slices = [part for part in parts if part.instruction.opcode == "slice"]
    states = {part.operand(0) for part in slices if _is_state(part.operand(0), value)}
    if len(states) != 1:
        return None
    (state,) = states
    new = [part for part in parts if part not in slices or part.operand(0) != state]
    changed = sum(part.instruction.shape.dimensions[axis] for part in new)
    if not changed or whole[axis] < _LEAST_LENGTH or changed > whole[axis] // _LEAST_LENGTH:
        return None
    starts = [int(part.instruction.proto.slice_dimensions[axis].start) for part in slices if part not in new]
    is_shifted = len(starts) == 1 and bool(starts[0]) == (parts[-1] in new)
    how = "by a concatenation that shifts it" if is_shifted else "by a concatenation"
    return state, whole[axis] // changed, how, _RING_UPDATE if is_shifted else _UPDATE


def _one_hot(mask: Value) -> int:
    """Returns the length of a mask that is true at one position: positions compared with an index; 0 for others."""
    while mask.instruction.opcode == "convert":
        mask = moved_from(mask.operand(0))
    if mask.instruction.opcode != "compare" or mask.instruction.proto.comparison_direction != "EQ":
        return 0
    sides = [*mask.operands]
    counters = [side for side in sides if _count(side)]
    if len(counters) != 1:
        return 0
    (index,) = (side for side in sides if side is not counters[0])
    length = _count(counters[0])
    is_index = _fewest(index) * length <= math.prod(mask.instruction.shape.dimensions)
    return length if is_index and length >= _LEAST_LENGTH else 0


def _count(side: Value) -> int:
    """Returns the number of positions that a side of a comparison counts; 0 if it does not, or if it is one of them."""
    counter = moved_from(side).instruction
    if counter.opcode != "iota":
        return 0
    (axis,) = counter.dimensions or (0,)
    length = counter.shape.dimensions[axis]
    return length if _fewest(side) >= length else 0


def _fewest(value: Value) -> int:
    """Returns the smallest number of elements of a value and of those that it is moved from."""
    fewest = math.prod(value.instruction.shape.dimensions)
    while value.instruction.opcode in MOVING:
        value = value.operand(0)
        fewest = min(fewest, math.prod(value.instruction.shape.dimensions))
    return fewest


def _is_state(state: Value, result: Value) -> bool:
    """Reports whether a value is an argument of the program or carried by a loop, and has the shape of the result."""
    instruction = source(state).instruction
    is_kept = (instruction.opcode == "parameter" and instruction.computation.is_entry) or (
        instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "parameter"
    )
    return is_kept and instruction.shape.dimensions == result.instruction.shape.dimensions


def _is_result(value: Value) -> bool:
    return any(use.user is None for use in uses(value))
