"""Full rematerializations: XLA copies the whole array to every device to change its sharding, and warns about it."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.detectors.sharding.constraint_detours import is_by_element, is_constraint
from inspector.analysis.findings.detectors.sharding.operation_keys import Key, is_beside, keys_in
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.reshardings import Resharding
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.source import Frame, merged_names
from inspector.support.units import format_bytes

_MOST_VALUES = 100


def full_rematerialization(subject: Subject, kind: str, one: Resharding, collectives: Sequence[Collective]) -> Finding:
    """Returns the finding of a full rematerialization, with the gathers that copy the array.

    Args:
      subject: the program.
      kind: the kind of the finding.
      one: the full rematerialization.
      collectives: the collectives that the partitioner inserted.
    """
    op_name, _, array = one.name.rpartition(" ")
    part = 0 if isinstance(one.operand_bytes, Unavailable) else int(one.operand_bytes)
    # The gathers have the name of the operation, or of those between it and the next constraint.
    most = part * subject.compiled.program.device_count
    wanted = _beside(subject.before, op_name, one.frames, most)
    gathers = [
        c
        for c in collectives
        if c.opcode == "all-gather"
        and (op_name in merged_names(c.origin.op_name) or (c.result_bytes <= most and is_beside(c.origin, wanted)))
    ]
    whole = max((c.result_bytes * (c.executions if c.executions == 1 else 1) for c in gathers), default=0)
    size = f"{format_bytes(whole)}, " if whole else ""
    title = (
        f"To change the sharding of an array from {one.had} to {one.needed}{subject.at_line(one.frames)}, XLA copies the whole array to every"
        f" device (involuntary full rematerialization): {size}of which each device has {array}."
    )
    return subject.finding(
        kind, title, one.advice, frames=one.frames, gain_bytes=max(0, whole - part),
        saved={each.name: 1 - part / whole if whole > part else 0.0 for each in gathers},
    )  # fmt: skip


def _beside(before: Module | Unavailable, op_name: str, frames: tuple[Frame, ...], most: int) -> set[Key]:
    """Returns the keys of the constraints with a name or at a line, of their operands, and of what is computed from them element by element."""
    if isinstance(before, Unavailable):
        return set()
    # By the name too, because libtpu numbers the lines again, and its warning may have another one.
    waiting = [
        each
        for row in before.calls_to(("Sharding",))
        if (each := before.at(row)).shape.byte_size <= most and (each.frames == frames or each.op_name == op_name)
    ]
    found, seen = {key for each in waiting for one in each.operands for key in keys_in(one)}, set[int]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row not in seen:
            seen.add(each.row)
            found.update(keys_in(each))
            waiting += [user for user in each.users if is_constraint(user) or is_by_element(user)]
    return found
