"""Arguments that arrive in another sharding than their only use needs: each execution exchanges them first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.findings.before import MOVING
from inspector.analysis.findings.detectors.sharding.resharding import exchanges_of_detours
from inspector.analysis.findings.edits import MoveAxis
from inspector.analysis.findings.exchange_chains import moving_behind
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.spec_code import axis_size, spec_code
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.errors import Unavailable
from inspector.hlo.loops import is_joined
from inspector.hlo.module import Instruction
from inspector.support.units import format_bytes

KIND = "resharded-argument"
_EXCHANGES = frozenset({"all-to-all", "collective-permute"})
_INSIDE = MOVING | {"parameter", "constant", "tuple", "get-tuple-element"}
_CONVERTING = _INSIDE | {"convert"}  # CPUs exchange bfloat16 as float32
_COPYING = frozenset({"copy-start", "copy-done", "async-done"})
_MOST_VALUES = 200


def resharded_argument(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for each argument that is exchanged as a whole before its first use."""
    detours: frozenset[str] | None = None
    for collective in subject.collectives:
        if (
            collective.opcode not in _EXCHANGES
            or collective.inserted_by != "partitioner"
            or collective.executions != 1
            or collective.operand_bytes != collective.result_bytes
        ):
            continue
        instruction = subject.module.instruction(collective.name)
        found = _only_argument(instruction) if instruction.computation.is_entry else None
        if found is None:
            continue
        detours = exchanges_of_detours(subject) if detours is None else detours
        if collective.name not in detours:  # then neither exchange is needed
            yield from _finding(subject, collective, instruction, *found)


def _only_argument(exchange: Instruction) -> tuple[Instruction, list[str]] | None:
    """Returns the parameter that an exchange moves, if nothing else uses it, and the kernels between them that only move values."""
    between, parameters = dict[int, Instruction](), dict[int, Instruction]()
    waiting = [*exchange.operands]
    while waiting and len(between) < _MOST_VALUES:
        each = waiting.pop()
        if each.opcode == "parameter":
            parameters[each.row] = each
        elif each.opcode not in ("constant", "partition-id") and each.row not in between:
            if not _does_only(each, _CONVERTING):
                return None
            between[each.row] = each
            waiting += each.operands
    if len(parameters) != 1:
        return None
    (parameter,) = parameters.values()
    known = {*between, exchange.row}
    if any(user.row not in known for each in (parameter, *between.values()) for user in each.users):
        return None
    return parameter, [
        each.name for each in between.values() if each.opcode in _INSIDE | {"fusion"} and _does_only(each, _INSIDE)
    ]


def _does_only(instruction: Instruction, opcodes: Collection[str]) -> bool:
    """Reports whether an instruction does only certain operations; libtpu also copies arrays in slices, which it joins again."""
    if instruction.opcode in _COPYING or is_joined(instruction):
        return True
    if instruction.opcode not in ("fusion", "async-start"):
        return instruction.opcode in opcodes
    return all(each.opcode in opcodes for each in instruction.called_computations[0].instructions)


def _finding(
    subject: Subject, collective: Collective, exchange: Instruction, parameter: Instruction, between: Sequence[str]
) -> Iterator[Finding]:
    array = next(
        (a for a in subject.shardings if a.kind == "argument" and a.number == parameter.parameter_number), None
    )
    axes = collective.axes
    if (
        array is None
        or array.number is None
        or isinstance(array.sharding, Unavailable)
        or isinstance(axes, Unavailable)
    ):
        return
    where = subject.at_line(collective.origin.frames)
    title = (
        f"`{array.name}` arrives split as {spec_code(array.sharding.axes)}, but its use{where} needs another sharding: each execution"
        f" exchanges it over {axes_text(axes)} first ({format_bytes(collective.operand_bytes)} per device)."
    )
    axis = str(axes[0]) if len(axes) == 1 else ""
    dimension = _new_dimension(array.sharding, axis, exchange) if axis and collective.opcode == "all-to-all" else None
    remedy = f"Pass `{array.name}` in the sharding that the line needs."
    if dimension is not None:
        moved = [tuple(a for a in each if a != axis) for each in array.sharding.axes]
        moved[dimension] = (*moved[dimension], axis)
        remedy = f"jax.device_put({array.name}, NamedSharding(mesh, {spec_code(moved)}))  # once, where it is made"
    names = (collective.name, *between, *moving_behind(exchange))
    found = subject.finding(
        KIND, title, remedy, saved=dict.fromkeys(names, 1.0), frames=collective.origin.frames,
        caution="The program that makes it has to make it in the other sharding.",
        edits=None if dimension is None else (MoveAxis(array.number, dimension, axis),),
    )  # fmt: skip
    if isinstance(found.gain_s, Unavailable) or found.gain_s:  # 0 if it runs beside longer work
        yield found


def _new_dimension(sharding: Sharding, axis: str, exchange: Instruction) -> int | None:
    """Returns the dimension that an all-to-all splits over an axis instead; None if it is not unique."""
    places = [d for d, axes in enumerate(sharding.axes) if axis in axes]
    if len(places) != 1:
        return None
    count = axis_size(sharding, axis)
    (operand,) = {each.shape.dimensions for each in exchange.operands}
    sizes = sorted(size for size in operand if size > 1)
    found = []
    for dimension, size in enumerate(sharding.part_shape):
        if dimension == places[0] or size % count:
            continue
        piece = [*sharding.part_shape]
        piece[dimension] //= count
        forms = (piece, [*piece, count])  # one operand for each device, or one operand with a dimension of all devices
        if sizes in [sorted(each for each in form if each > 1) for form in forms]:
            found.append(dimension)
    return found[0] if len(found) == 1 else None
