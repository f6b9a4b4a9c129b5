"""Sorts of which only the first or the last values are used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from inspector.analysis.cost.kernel_time import comparisons_of
from inspector.analysis.findings.before import frames_of, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import SortToTopK
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.support.units import counted

KIND = "sort-for-top-k"
_MOST_PART = 8  # at most an eighth of the values
_LEAST_LENGTH = 64
# Types for which XLA selects the values without a sort: seen in the optimized HLO of `top_k` with jaxlib 0.10 and 0.12.
# For others it sorts pairs of a value and its position, which takes longer than a sort of the values.
_SELECTED: Mapping[str, Collection[str]] = {"cpu": {"f32"}}
_SELECTED_ELSEWHERE: Collection[str] = {"f32", "bf16"}
_MOST_SELECTED_ON_GPU = 16  # values; for more, XLA for GPUs sorts, but it does not read the positions
_COMPARISONS_PER_S = 80e6
_SOURCE = f"{_COMPARISONS_PER_S / 1e6:.0f} million comparisons per second, as measured on one core of a CPU"
_SORTS_OTHERS = Unavailable("it sorts another array by these values, which needs a gather")
_CAUTION = "top_k has the largest value first, and orders equal values and NaNs in another way than a sort does."
_ON_TPU = " libtpu does not estimate sorts: the gain is that of accesses to memory, a lower bound."


def sort_for_top_k(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each sort that `jax.lax.top_k` replaces."""
    if subject.calls is None:
        return
    selected = _SELECTED.get(subject.compiled.program.platform, _SELECTED_ELSEWHERE)
    found: dict[str, tuple[Value, tuple[int, int]]] = {}
    for value, name in subject.calls.values(("sort",)):
        if not _has_one_key(value.instruction):
            continue
        length, dimension = _length(value)
        first, end = _used(value, dimension, length) or (0, length)
        before = found[name][1] if name in found else (length, 0)
        found[name] = value, (min(first, before[0]), max(end, before[1]))
    for name, (value, part) in found.items():
        length, _ = _length(value)
        if value.instruction.shape.leaves[0].element_type not in selected:
            continue
        if _sorts_again(subject, _k(part, length)) and len(value.instruction.shape.leaves) == 1:
            continue
        if length >= _LEAST_LENGTH and _k(part, length) <= length // _MOST_PART:
            yield from _finding(subject, value, name, part)


def _sorts_again(subject: Subject, k: int) -> bool:
    """Reports whether XLA sorts for a `top_k` too."""
    return subject.compiled.program.platform == "gpu" and k > _MOST_SELECTED_ON_GPU


def _finding(subject: Subject, value: Value, name: str, part: tuple[int, int]) -> Iterator[Finding]:
    length, dimension = _length(value)
    shape = value.instruction.shape.leaves[0]
    k = _k(part, length)
    sorts = [i for i in subject.kernels.named([name]) if i.opcode in ("sort", "custom-call")]
    kernels = dict.fromkeys(kernel for i in sorts if (kernel := subject.kernels.kernel(i)) is not None)
    if not kernels:
        return
    end = "first" if part[1] <= length // 2 else "last"
    is_descending = end == "last"
    dimensions = ",".join(map(str, shape.dimensions))
    title = (
        f"A sort of {length:,} values along dimension {dimension} of {shape.element_type}[{dimensions}] of which only the"
        f" {end} {counted(k, 'value')} {'is' if k == 1 else 'are'} used."
    )
    is_negated = not is_descending and value.operand(0).instruction.opcode == "negate"
    call = f"jax.lax.top_k({'x' if is_descending or is_negated else '-x'}, {k})"
    # XLA merges slices with top_k; it then sorts unless the slice starts at the first value. In a proof, libtpu sorts then too.
    platform = subject.compiled.program.platform
    has_barrier = platform != "gpu" and part[0] > 0 and part[1] < length
    if has_barrier:
        call = f"jax.lax.optimization_barrier({call})"
    edits: tuple[SortToTopK, ...] | Unavailable = (
        SortToTopK(name, k, is_descending, has_barrier or platform == "tpu"),
    )
    if not all(_is_position(each, dimension) for each in [*value.operands][1:]):
        remedy = f"positions = {call}[1]; other = jnp.take_along_axis(other, positions, -1)"
        edits = _SORTS_OTHERS
    elif len(value.instruction.shape.leaves) > 1:
        note = "" if is_descending else "  # x without its negation" if is_negated else "  # values are those of -x"
        remedy = f"values, positions = {call}{note}"
    else:
        remedy = f"{'' if is_descending else '-'}{call}[0]" + "  # x without its negation" * is_negated
    if has_barrier:
        remedy += f"{'; ' if '#' in remedy else '  # '}the barrier keeps XLA from merging the slice with top_k and sorting again"
    if dimension != len(shape.dimensions) - 1:
        remedy += f"{'; ' if '#' in remedy else '  # '}after jnp.moveaxis(x, {dimension}, -1)"
    names = {*kernels, *(each.name for each in sorts)}
    sorted_bytes = sum((subject.at_peak or {}).get(name, 0) for name in names)  # the values and their positions
    saved, gain_bytes = 1 - 1 / math.log2(length), int(sorted_bytes * (1 - k / length))
    if _sorts_again(subject, k):
        positions = sum(each.shape.leaves[-1].byte_size for each in sorts)
        accessed = sum(map(subject.accessed, kernels))
        saved, gain_bytes = min(1.0, positions / accessed) if accessed else 0.0, min(positions, sorted_bytes)
    found = subject.finding(
        KIND, title, remedy, gain_bytes=gain_bytes, frames=frames_of(value),
        saved=dict.fromkeys(kernels, saved) | dict.fromkeys(_negations(subject, sorts), 1.0), caution=_CAUTION + _ON_TPU * (platform == "tpu"), edits=edits,
    )  # fmt: skip
    yield _with_nominal_gain(subject, found, sorts, length)


def _negations(subject: Subject, sorts: Sequence[Instruction]) -> Iterator[str]:
    """Yields the kernels that only negate what is sorted, so that the largest values come first."""
    for sort in sorts:
        whole = subject.module.instruction(subject.kernels.kernel(sort) or sort.name)
        for each in whole.operands[:1]:
            inside = each.called_computations[0].instructions if each.opcode == "fusion" else (each,)
            opcodes = {inner.opcode for inner in inside}
            if "negate" in opcodes and opcodes <= {"parameter", "negate", "bitcast"} and each.name in subject.points:
                yield each.name


def _with_nominal_gain(subject: Subject, finding: Finding, sorts: Sequence[Instruction], length: int) -> Finding:
    """Returns the finding with the time of an ordinary CPU whose roofs were not measured: a sort takes longer than its bytes."""
    if subject.compiled.program.platform != "cpu" or not isinstance(subject.total_s, Unavailable):
        return finding
    seconds = 0.0
    for each in sorts:
        runs = subject.places[each.computation.name].executions
        seconds += comparisons_of(each) / _COMPARISONS_PER_S * (1.0 if isinstance(runs, Unavailable) else float(runs))
    saved_s = (1 - 1 / math.log2(length)) * seconds
    share = saved_s / (seconds + subject.nominal_s)
    return dataclasses.replace(finding, gain_s=saved_s, share=share, gain_source=_SOURCE)


def _has_one_key(sort: Instruction) -> bool:
    """Reports whether a sort compares its first operand only. `top_k` orders equal values by their positions."""
    return not any(parameter.users for parameter in sort.called_computations[0].parameters[2:])


def _is_position(value: Value, dimension: int) -> bool:
    """Reports whether an array has the position along a dimension at each place, in ascending or descending order."""
    while value.instruction.opcode in ("convert", "broadcast", "reverse"):
        if value.instruction.opcode == "broadcast":
            if dimension not in value.instruction.dimensions:
                return False
            dimension = [*value.instruction.dimensions].index(dimension)
        value = value.operand(0)
    return value.instruction.opcode == "iota" and (*value.instruction.dimensions,) in ((dimension,), ())


def _length(sort: Value) -> tuple[int, int]:
    """Returns the number of values that are sorted, and their dimension."""
    (dimension,) = sort.instruction.dimensions or (0,)
    return sort.instruction.shape.leaves[0].dimensions[dimension], dimension


def _k(part: tuple[int, int], length: int) -> int:
    """Returns how many values from the nearer end contain the used part."""
    return min(part[1], length - part[0])


def _used(value: Value, dimension: int, length: int) -> tuple[int, int] | None:
    """Returns the first and last position, plus one, that are used along a dimension; None if more than slices are used."""
    first, end = length, 0
    waiting = [(value, False)]
    while waiting:
        now, is_reversed = waiting.pop()
        for use in uses(now):
            user = None if use.user is None else use.user.instruction
            if user is None or use.user is None:
                return None
            if user.opcode == "slice" and user.proto.slice_dimensions[dimension].stride == 1:
                bounds = user.proto.slice_dimensions[dimension]
                start, limit = int(bounds.start), int(bounds.limit)
                start, limit = (length - limit, length - start) if is_reversed else (start, limit)
                first, end = min(first, start), max(end, limit)
            elif user.opcode == "reverse":
                waiting.append((use.user, is_reversed != (dimension in user.dimensions)))
            elif user.opcode in ("negate", "convert"):
                waiting.append((use.user, is_reversed))
            else:
                return None
    return (first, end) if first < end else None
