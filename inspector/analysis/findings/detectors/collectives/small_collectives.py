"""Small collectives that do not depend on each other and could be one, so that the latency of the links counts once.

XLA combines all-reduces, and on some backends other kinds. It does not combine `all_to_all`s, nor `ppermute`s on TPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from inspector.analysis.collectives.collective import over
from inspector.analysis.findings.dependence import Dependence
from inspector.analysis.findings.detectors.collectives.deferred_collectives import deferred_collectives
from inspector.analysis.findings.detectors.collectives.dependent_sums import dependent_sums
from inspector.analysis.findings.detectors.collectives.operation_keys import function_of
from inspector.analysis.findings.edits import CombineCollectives, Edit, stacks_of
from inspector.analysis.findings.exchanges import Exchange
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.hlo.source import merged_names
from inspector.support.units import format_bytes

KIND = "small-collectives"
_FEWEST = 4
_PERMUTE = "collective-permute"  # its operands are parts of arrays, which kernels must put together and take apart
_LEAST_LATENCY = 0.5  # of the time of all of them

_Key: TypeAlias = tuple[str, str, str, int]


def small_collectives(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for the collectives of one kind, reduction, type and group in a computation that could be fewer."""
    by_computation: dict[int, dict[_Key, list[Exchange]]] = {}
    for each in subject.exchanges:
        collective, holder = each.collective, each.operation.holder
        types = {shape.element_type for shape in collective.operand_shapes}
        if len(types) == 1:
            key = (collective.opcode, collective.reduction, types.pop(), id(collective.who))
            by_computation.setdefault(holder.computation.number, {}).setdefault(key, []).append(each)
    yield from deferred_collectives(subject, KIND)
    yield from dependent_sums(subject, KIND)
    for number, groups in by_computation.items():
        many = [members for members in groups.values() if len(members) >= _FEWEST and _are_small(members)]
        if many:
            rows = [each.operation.holder.row for members in many for each in members]
            dependence = Dependence(subject.module.computations[number], rows)
            for kind in dict.fromkeys(map(_kind, many)):
                yield from _finding(subject, [each for each in many if _kind(each) == kind], dependence)


def _are_small(members: Sequence[Exchange]) -> bool:
    seconds = sum(each.price.known_s for each in members)
    return sum(each.latency_s for each in members) > _LEAST_LATENCY * seconds


def _kind(members: Sequence[Exchange]) -> tuple[str, str]:
    """Returns what has one finding: `ppermute`s in several directions together, such as both halos of a field; others alone."""
    first = members[0].collective
    return first.opcode, "" if first.opcode == _PERMUTE else str(id(first.who))


def _finding(subject: Subject, groups: Sequence[Sequence[Exchange]], dependence: Dependence) -> Iterator[Finding]:
    joined: list[list[Exchange]] = []
    for members in groups:
        by_row = {each.operation.holder.row: each for each in members}
        levels = dependence.levels([each.operation.holder for each in members])
        joined += [[by_row[one.row] for one in level] for level in levels if len(level) >= _FEWEST]
    found = [each for level in joined for each in level]
    if not found:
        return
    first = found[0].collective
    count = "one" if len(joined) == 1 else str(len(joined))
    sizes = sorted(each.collective.operand_bytes for each in found)
    size = (
        format_bytes(sizes[-1]) if sizes[0] == sizes[-1] else f"{format_bytes(sizes[0])} to {format_bytes(sizes[-1])}"
    )
    title = (
        f"{len(found)} {first.opcode}s{over(first.axes)}{subject.at_line(first.origin.frames)} ({size} per device each) could be"
        f" {count}: they do not depend on each other, and most of their time is latency."
    )
    finding = subject.finding(
        KIND, title, _remedy(first.origin.op_name, first.opcode), saved={each.holder: 1.0 for each in found},
        instead_s=sum(map(_combined_s, joined)), frames=first.origin.frames, gain_source="the latency of the links",
        is_upper_bound=first.opcode == _PERMUTE, edits=_edits(found),
        caution="The combined collective starts when the last of its operands is ready.",
    )  # fmt: skip
    if finding.gain_s:  # 0 if kernels hide all of them
        yield finding


def _edits(found: Sequence[Exchange]) -> tuple[Edit, ...] | None:
    """Returns the edit that combines collectives; None for those that the partitioner made."""
    origins = [each.collective.origin for each in found]
    if not all(function_of(each.op_name) for each in origins):
        return None
    names = dict.fromkeys(name for each in origins for name in merged_names(each.op_name))
    first = found[0].collective
    groups = () if first.opcode == _PERMUTE else first.groups
    return (CombineCollectives(tuple(names), groups, stacks_of(each.frames for each in origins)),)


def _combined_s(members: Sequence[Exchange]) -> float:
    """Returns the seconds of one collective instead of several, which no kernel hides: it waits for the last of its operands."""
    latencies = [each.latency_s for each in members]
    seconds = max(latencies) + sum(each.price.known_s for each in members) - sum(latencies)
    return float(seconds) * max(each.executions for each in members)


def _remedy(op_name: str, opcode: str) -> str:
    call = function_of(op_name)
    if not call:
        return f"Stack the arrays before the {opcode}, so that one of them exchanges all."
    return (
        f"stacked = jax.lax.{call}(jnp.stack([a, b, ...], axis=-1), ...)  # arrays of different shapes: concatenate\n"
        "a, b = stacked[..., 0], stacked[..., 1]"
    )
