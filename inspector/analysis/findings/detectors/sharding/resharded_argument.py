"""Arguments that arrive in another sharding than their only use needs: each execution exchanges them first."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection, Iterator, Sequence

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.findings.before import MOVING
from inspector.analysis.findings.detectors.sharding.resharding import exchanges_of_detours
from inspector.analysis.findings.edits import MoveAxis
from inspector.analysis.findings.exchange_chains import has_product, is_by_element, makers_of, moving_behind, readers_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.spec_code import axis_size, spec_code
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.errors import Unavailable
from inspector.hlo.loops import is_joined
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape, element_bits
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
    is_widened = exchange.operands[0].shape.element_type != parameter.shape.element_type
    only = _CONVERTING if is_widened else _INSIDE  # a kernel that only converts for the exchange is not needed either
    return parameter, [
        each.name for each in between.values() if each.opcode in only | {"fusion"} and _does_only(each, only)
    ]


def _saved_behind(
    exchange: Instruction, parameter: Instruction, part_shape: Sequence[int], platform: str
) -> Iterator[tuple[str, float]]:
    """Yields the kernels behind an exchange that take less time without it, with the part of their time that is saved.

    A transposition that the use needs in the other sharding too stays, except for TPUs, whose products take operands in any order.

    Args:
      exchange: the exchange.
      parameter: the argument that it moves.
      part_shape: the dimensions of a device's part of the argument in the other sharding; () if unknown.
      platform: the platform of the program.
    """
    bits, stored_bits = (element_bits(each.shape.element_type) for each in (exchange.operands[0], parameter))
    moving = [exchange.module.instruction(name) for name in moving_behind(exchange)]
    is_ordered = platform != "tpu"
    needed = [each for each in moving if is_ordered and _is_transposed(each.shape, parameter.shape, part_shape)][:1]
    yield from ((each.name, 0.0 if each in needed else 1.0) for each in moving)
    for kernel in readers_of(exchange):
        if kernel in moving or not is_by_element(kernel):
            continue
        if bits > stored_bits:
            read = sum(each.shape.byte_size for each in kernel.operands)
            yield kernel.name, (1 - stored_bits / bits) * read / (read + kernel.shape.byte_size)
        elif platform == "gpu" and _is_part_of_product(kernel, exchange):
            yield kernel.name, 0.0 if _is_transposed(kernel.shape, parameter.shape, part_shape) else 1.0


def _is_part_of_product(kernel: Instruction, exchange: Instruction) -> bool:
    """Reports whether a kernel only computes an operand of products from what an exchange received.

    XLA for GPUs computes it in the kernel of the product if the values are in the order of the argument.
    """
    arrays = [each for each in makers_of(kernel) if each.shape.dimensions or each is exchange]
    return all(each is exchange for each in arrays) and all(map(has_product, readers_of(kernel)))


def _is_transposed(shape: Shape, stored: Shape, part_shape: Sequence[int]) -> bool:
    """Reports whether an array has the elements of a part of an argument, but in another order in memory."""
    if not part_shape or shape.is_tuple or math.prod(shape.dimensions) != math.prod(part_shape):
        return False
    order = range(len(part_shape)) if stored.layout is None else [*reversed(stored.layout.minor_to_major)]
    ours = range(len(shape.dimensions)) if shape.layout is None else [*reversed(shape.layout.minor_to_major)]
    boundaries = {*itertools.accumulate((shape.dimensions[d] for d in ours), operator.mul)}
    return not {*itertools.accumulate((part_shape[d] for d in order), operator.mul)} - {1} <= boundaries


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
    part_shape = [*array.sharding.part_shape]
    if dimension is not None:
        count = axis_size(array.sharding, axis)
        part_shape[next(d for d, axes in enumerate(array.sharding.axes) if axis in axes)] *= count
        part_shape[dimension] //= count
    behind = _saved_behind(
        exchange, parameter, () if dimension is None else part_shape, subject.compiled.program.platform
    )
    found = subject.finding(
        KIND, title, remedy, saved={**dict.fromkeys((collective.name, *between), 1.0), **dict(behind)}, frames=collective.origin.frames,
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
