"""Variances in a `shard_map` that are added up after the mean: a second all-reduce that waits for the first.

The sums of the values and of their squares do not depend on each other, so that one all-reduce exchanges both, and the values are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.analysis.collectives.collective import over
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import full_name, is_scale, moved_from
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import SumSquares, stacks_of
from inspector.analysis.findings.exchanges import Exchange
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.source import Frame, merged_names, own_frame
from inspector.support.units import format_bytes

_CANCELLATION = "Large means cancel, so that small variances lose digits."


def dependent_sums(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for the second sums of each line.

    Args:
      subject: the program.
      kind: the kind of the findings.
    """
    lines: dict[Frame | None, list[Value]] = {}
    for value, _ in subject.calls.values(("all-reduce",)) if subject.calls is not None else ():
        if _sum_of_squares(value) is not None:
            lines.setdefault(own_frame(value.instruction.frames), []).append(value)
    for sums in lines.values():
        exchanges = [each for each in subject.exchanges if any(_is_of(each, value) for value in sums)]
        if len(exchanges) == 2 * len(sums):
            exchanges = exchanges[1::2]  # the means have the same line and size
        if exchanges:
            yield _finding(subject, kind, sums, exchanges)


def _finding(subject: Subject, kind: str, sums: Sequence[Value], exchanges: list[Exchange]) -> Finding:
    first, frames = _sum_of_squares(sums[0]), sums[0].instruction.frames
    is_one, size = len(exchanges) == 1, max(each.collective.operand_bytes for each in exchanges)
    before = "" if first is None else subject.at_line(first.instruction.frames)
    title = (
        f"{'The all-reduce' if is_one else f'{len(exchanges)} all-reduces'}{over(exchanges[0].collective.axes)}{subject.at_line(frames)} (up to {format_bytes(size)} per device)"
        f" wait{'s' * is_one} for the mean of the same values{before}: one all-reduce of their sums and of the sums of their squares is"
        " enough."
    )
    remedy = (
        "mean, square = jax.lax.pmean((x.mean(axes), jnp.square(x).mean(axes)), axis)\n"
        "variance = square - jnp.square(mean)"
    )
    return subject.finding(
        kind, title, remedy, saved={each.holder: 1.0 for each in exchanges}, frames=frames, gain_source="the speed and latency of the links",
        caution=_CANCELLATION,
        edits=(SumSquares(tuple(dict.fromkeys(map(full_name, sums))), stacks_of(each.instruction.frames for each in sums)),),
    )  # fmt: skip


def _is_of(exchange: Exchange, value: Value) -> bool:
    """Reports whether a compiled collective is that of an operation alone."""
    names, origin = [*merged_names(exchange.collective.origin.op_name)], exchange.collective.origin
    return (
        exchange.collective.opcode == "all-reduce"
        and names == [full_name(value)]
        and is_same_line(lines_of(origin.frames), lines_of(value.instruction.frames))
        and exchange.collective.operand_bytes == value.instruction.operands[0].shape.byte_size
    )


def _sum_of_squares(value: Value) -> Value | None:
    """Returns the sum over devices with which an all-reduce makes the variance of the same values; None for other sums."""
    local = _reduced(value)
    square = None if local is None else _unscaled(local.operand(0))
    if local is None or square is None or square.instruction.opcode != "multiply":
        return None
    difference, other = square.operands
    if difference != other or difference.instruction.opcode != "subtract":
        return None
    left, right = (_unscaled(operand) for operand in difference.operands)
    for values, mean in ((left, right), (right, left)):
        whole = _reduced(mean) if mean.instruction.opcode == "all-reduce" else None
        if (
            whole is not None
            and _unscaled(whole.operand(0)) == values
            and whole.instruction.dimensions == local.instruction.dimensions
            and _groups(mean) == _groups(value)
        ):
            return mean
    return None


def _groups(value: Value) -> object:
    return value.instruction.replica_groups


def _reduced(value: Value) -> Value | None:
    """Returns the sum on the device that an all-reduce adds up; None for other operations."""
    reduction = value.instruction.to_apply
    if reduction is None or reduction.root.opcode != "add" or value.instruction.shape.is_tuple:
        return None
    local = _unscaled(value.operand(0))
    is_sum = local.instruction.opcode == "reduce" and local.instruction.to_apply is not None
    return local if is_sum and not local.instruction.shape.is_tuple else None


def _unscaled(value: Value) -> Value:
    """Follows a value through moves, conversions and the scale of a mean by a constant."""
    while True:
        value = moved_from(value)
        if value.instruction.opcode != "convert" and not is_scale(value, 0):
            return value
        value = value.operand(0)
