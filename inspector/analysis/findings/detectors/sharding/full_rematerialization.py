"""Full rematerializations: XLA copies the whole array to every device to change its sharding, and warns about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.detectors.collectives.operation_keys import Key, is_beside, keys_in
from inspector.analysis.findings.detectors.sharding.constraint_detours import is_by_element, is_constraint
from inspector.analysis.findings.detectors.sharding.sharding_steps import Axes, received_part, sharding_steps
from inspector.analysis.findings.edits import Edit, StepConstraints, stacks_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.spec_code import spec_code
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
    memory = subject.compiled.memory
    temporaries = 0 if isinstance(memory, Unavailable) else memory.temp_bytes  # the copy is one, maybe in a TPU's VMEM
    size = f"{format_bytes(whole)}, of which each device has {array}" if whole else f"each device has {array} of it"
    title = (
        f"To change the sharding of an array from {one.had} to {one.needed}{subject.at_line(one.frames)}, XLA copies the whole array to every"
        f" device (involuntary full rematerialization): {size}."
    )
    steps = _steps(one)
    mesh = subject.compiled.program.mesh
    saved_part, remedy = 1 - part / whole if whole > part else 0.0, one.advice
    edits: tuple[Edit, ...] | None = None
    if steps and mesh is not None and part:
        sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
        array_bytes = part * math.prod(sizes[axis] for axes in steps[0] for axis in axes)
        saved_part = max(0.0, 1 - received_part(steps, sizes) * array_bytes / (array_bytes - part))
        remedy = _remedy(steps)
        edits = _inserted(subject, steps, op_name, one.frames)
    return subject.finding(
        kind, title, remedy, frames=one.frames, gain_bytes=max(0, min(whole - part, temporaries)), has_estimated_bytes=True, edits=edits,
        saved=dict.fromkeys((each.name for each in gathers), saved_part),
    )  # fmt: skip


def _steps(one: Resharding) -> tuple[Axes, ...]:
    """Returns the shardings from the first to the last, with those in between; () without any."""
    had, needed = _axes(one.had), _axes(one.needed)
    rank = max(len(had), len(needed))
    had, needed = (each + ((),) * (rank - len(each)) for each in (had, needed))
    between = sharding_steps(had, needed)
    return (had, *between, needed) if between else ()


def _axes(text: str) -> Axes:
    """Returns the axes of a sharding as `spec_text` writes it, such as "(data+x, -)"; () for another notation."""
    if not text.startswith("("):
        return ()
    return tuple(() if each == "-" else tuple(each.split("+")) for each in text.strip("()").split(", "))


def _remedy(steps: Sequence[Axes]) -> str:
    lines = [f"x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, {spec_code(each)}))" for each in steps[1:]]
    return "\n".join([f"{lines[0]}  # in between", *(f"{line}  # in between" for line in lines[1:-1]), lines[-1]])


def _inserted(
    subject: Subject, steps: Sequence[Axes], op_name: str, frames: tuple[Frame, ...]
) -> tuple[Edit, ...] | None:
    """Returns the edit that inserts the shardings in between; None if the change is not made by a constraint."""
    if isinstance(subject.before, Unavailable):
        return None
    constraints = [
        each
        for row in subject.before.calls_to(("Sharding",))
        if is_constraint(each := subject.before.at(row)) and (each.frames == frames or each.op_name == op_name)
    ]
    if not constraints:
        return None
    return (StepConstraints(stacks_of(each.frames for each in constraints), steps[-1], tuple(steps[1:-1])),)


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
