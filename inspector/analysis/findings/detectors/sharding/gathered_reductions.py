"""Arrays that are gathered along a dimension which everything then reduces, such as the logits of a loss: the parts can be reduced first.

The gather is an `all_gather` in a `shard_map`, or comes from a sharding constraint.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.participation import Groups
from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.sharding.constraint_detours import (
    behind,
    is_constraint,
    number_of_parts,
    split_dimensions,
)
from inspector.analysis.findings.detectors.sharding.device_values import is_same_along
from inspector.analysis.findings.detectors.sharding.own_part import (
    combined_collective,
    compiled_collectives,
    kernels_between,
    peers_of,
)
from inspector.analysis.findings.detectors.sharding.row_dimensions import dimension_after
from inspector.analysis.findings.edits import DropConstraints, Edit, ReduceParts, stacks_of
from inspector.analysis.findings.exchanges import pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.support.units import counted, format_array, format_bytes

_MOST_VALUES = 200
_CALLS = {"add": "psum", "maximum": "pmax", "minimum": "pmin", "or": "pmax", "and": "pmin"}
_LOGSUMEXP = (
    "m = jax.lax.pmax(x.max(dim), axis)\n"
    "jnp.log(jax.lax.psum(jnp.exp(x - jnp.expand_dims(m, dim)).sum(dim), axis)) + m  # instead of logsumexp"
)
_PICKED = (
    "# for values that are picked by an index i, which only one device has:\n"
    "own = i - jax.lax.axis_index(axis) * x.shape[dim]\n"
    "is_own = (own >= 0) & (own < x.shape[dim])  # pick with jnp.where(is_own, own, 0)\n"
    "jax.lax.psum(jnp.where(is_own, picked, 0), axis)"
)


class _Reduced(NamedTuple):
    """A gathered array of which only reductions along the gathered dimension are used.

    Attributes:
      value: the gather or the constraint.
      dimension: the gathered dimension.
      devices: the number of devices whose parts are gathered.
      between: the operations on the whole array, and the product that makes it if XLA gathers an operand of that.
      reductions: the reductions along the dimension.
      picks: operations that take one value along it, at an index, and products that add up along it.
    """

    value: Value
    dimension: int
    devices: int
    between: tuple[Value, ...]
    reductions: tuple[Value, ...]
    picks: tuple[Value, ...]


def gathered_reductions(subject: Subject, kind: str, inserted: Sequence[Collective]) -> Iterator[Finding]:
    """Yields a finding for the gathers of each line whose results are only reduced along the gathered dimension.

    Args:
      subject: the program.
      kind: the kind of the findings.
      inserted: the exchanges that the partitioner inserted.
    """
    if subject.calls is None:
        return
    lines: dict[tuple[str, Lines], list[tuple[_Reduced, list[Collective]]]] = {}
    left: dict[tuple[str, Lines, Groups], list[_Reduced]] = {}
    for value, name in subject.calls.values(("all-gather",)):
        found = _of_gather(value, subject.collectives.num_partitions)
        if found is None:
            continue
        compiled, key = compiled_collectives(subject, value), (name, lines_of(value.instruction.frames))
        if not compiled:
            left.setdefault((*key, peers_of(subject, value)), []).append(found)
        elif _are_same(found, compiled[0]):
            lines.setdefault(key, []).append((found, compiled))
    for (name, own_lines, peers), several in left.items():
        combined = combined_collective(subject, [each.value for each in several], peers)
        if combined is not None and all(_are_same(each, combined) for each in several):
            lines.setdefault((name, own_lines), []).extend((each, [combined]) for each in several)
    gathers = [each for each in inserted if each.opcode == "all-gather" and len(each.dimensions) == 1]
    for value, name in subject.calls.values(("custom-call",)) if gathers else ():
        if is_constraint(value.instruction):
            for maker, compiled in _gathers_for(value.instruction, gathers):
                found = _of_constraint(value, compiled, maker)
                if found is not None:
                    lines.setdefault((name, lines_of(value.instruction.frames)), []).append((found, compiled))
                    break
    for group in lines.values():
        yield from _finding(subject, kind, [each for each, _ in group], [c for _, compiled in group for c in compiled])


def _of_gather(value: Value, num_partitions: int) -> _Reduced | None:
    gather = value.instruction
    if len(gather.operands) != 1 or gather.shape.is_tuple:
        return None
    (dimension,) = gather.dimensions
    count = len(gather.replica_groups.expand(num_partitions)[0])
    return _followed(value, dimension, count)


def _are_same(reduced: _Reduced, gather: Collective) -> bool:
    """Reports whether the other operands are the same on all devices of a group, so that they can reduce the parts of each other."""
    if isinstance(gather.axes, Unavailable):
        return False
    axes, own = [*map(str, gather.axes)], {reduced.value, *reduced.between}
    users = (*reduced.between, *reduced.reductions, *reduced.picks)
    others = {operand for user in users for operand in user.operands} - own
    return all(is_same_along(each, axes, reduced.value.instruction) for each in others)


def _gathers_for(
    constraint: Instruction, gathers: Sequence[Collective]
) -> Iterator[tuple[Instruction | None, list[Collective]]]:
    """Yields the gathers of a constrained array, and those of an operand of the product that makes it, with the product."""
    for maker in (None, *(each for each in behind(constraint.operands[0]) if each.opcode == "dot")):
        at = constraint if maker is None else maker
        lines, arrays = lines_of(at.frames[:2]), (constraint,) if maker is None else (*maker.operands,)
        sizes = [math.prod(each.shape.dimensions) for each in arrays]
        found = [
            each
            for each in gathers
            if lines
            and is_same_line(lines_of(each.origin.frames[:2]), lines)
            and any(size % max(1, _elements(each)) == 0 for size in sizes)
        ]
        if found:
            yield maker, found


def _dimensions_made(constraint: Instruction, gather: Collective, maker: Instruction | None) -> Iterator[int]:
    """Yields the dimensions of a constrained array that a gather of it, or of an operand of the product that makes it, makes whole."""
    (dimension,) = gather.dimensions
    rank = len(gather.result_shapes[0].dimensions)
    if maker is None:
        yield from [dimension] if rank == len(constraint.shape.dimensions) else range(len(constraint.shape.dimensions))
        return
    for number, operand in enumerate(maker.operands[:2]):
        if (
            rank == len(operand.shape.dimensions)
            and math.prod(operand.shape.dimensions) % max(1, _elements(gather)) == 0
        ):
            after = dimension_after(maker, number, dimension)
            yield from [] if after is None else [after]


def _elements(gather: Collective) -> int:
    return sum(math.prod(shape.dimensions) for shape in gather.result_shapes)


def _of_constraint(value: Value, gathers: Sequence[Collective], maker: Instruction | None) -> _Reduced | None:
    """Returns a constraint that makes an array whole along a dimension, for which compiled gathers are needed."""
    shape, whole = value.instruction.shape, split_dimensions(value.instruction.sharding)
    counts = {n for each in gathers if not isinstance(n := each.who.most_devices, Unavailable)}
    if len(counts) != 1:
        return None
    (count,) = counts
    gathered = {each for gather in gathers for each in _dimensions_made(value.instruction, gather, maker)}
    made = () if maker is None else (Value(maker, value.calls),)
    found = (
        _followed(value, dimension, count, made)
        for dimension, size in enumerate(shape.dimensions)
        if dimension in gathered and dimension not in whole and size % count == 0 and size > count
    )
    return next((each for each in found if each is not None), None)


def _followed(whole: Value, dimension: int, count: int, made: Sequence[Value] = ()) -> _Reduced | None:
    """Follows an array to the reductions along a dimension; None if something else needs it.

    After a constraint, a product may follow: XLA splits it too, and adds up the parts of its result.
    """
    is_free = is_constraint(whole.instruction)
    behind_products = set[Value]()
    tracked, waiting = {whole: dimension}, [whole]
    reductions, picks, products = dict[Value, None](), dict[Value, None](), dict[Value, None]()
    while waiting:
        value = waiting.pop()
        at = tracked[value]
        for user, number in uses(value, at_constraints=True):
            if user is None and value in behind_products:
                continue  # such as the gradient of a weight, which stays split
            if user is None or len(tracked) > _MOST_VALUES:
                return None
            if _is_reduction(user.instruction, number, at):
                reductions[user] = None
            elif _is_pick(user.instruction, number, at):
                picks[user] = None
            elif is_free and _adds_up(user.instruction, number, at):
                products[user] = None
            elif is_constraint(user.instruction) and at in split_dimensions(user.instruction.sharding):
                continue  # the gradient is split again
            else:
                is_same = is_constraint(user.instruction)
                after = at if is_same else dimension_after(user.instruction, number, at)
                if after is None or tracked.get(user, after) != after:
                    return None
                if user not in tracked:
                    tracked[user] = after
                    waiting.append(user)
                    if value in behind_products or (is_free and user.instruction.opcode == "dot"):
                        behind_products.add(user)
    if not reductions:
        return None
    between = (*made, *(each for each in tracked if each != whole))
    return _Reduced(whole, dimension, count, between, (*reductions,), (*picks, *products))


def _is_reduction(user: Instruction, number: int, dimension: int) -> bool:
    if user.opcode != "reduce" or number or dimension not in user.dimensions or user.to_apply is None:
        return False
    return not user.shape.is_tuple and user.to_apply.root.opcode in _CALLS


def _adds_up(user: Instruction, number: int, dimension: int) -> bool:
    """Reports whether an operation is a product that adds up along a dimension of an operand."""
    if user.opcode != "dot":
        return False
    numbers = user.proto.dot_dimension_numbers
    return dimension in (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)[number]


def _is_pick(user: Instruction, number: int, dimension: int) -> bool:
    """Reports whether an operation takes one value along a dimension, as `take_along_axis` does."""
    if user.opcode != "gather" or number:
        return False
    is_one = user.proto.gather_slice_sizes[dimension] == 1
    return bool(is_one and [*user.proto.gather_dimension_numbers.start_index_map] == [dimension])


def _finding(
    subject: Subject, kind: str, found: Sequence[_Reduced], collectives: Sequence[Collective]
) -> Iterator[Finding]:
    first, gathers = (
        max(found, key=lambda each: each.value.instruction.shape.byte_size),
        {each.name: each for each in collectives},
    )
    before = first.value.instruction
    is_manual = before.opcode == "all-gather"
    leaves = [each for one in found for each in (*one.reductions, *one.picks)]
    pricing = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target)
    gather, instead_s, sent = next(iter(gathers.values())), 0.0, 0
    parts = 1 if is_manual else number_of_parts(before.sharding)
    for each in leaves:
        shape = each.instruction.shape
        elements = max(1, math.prod(shape.dimensions) // parts)
        sent += shape.byte_size // parts
        reduced = Shape(shape.element_type, (elements,))
        sum_ = dataclasses.replace(
            gather, opcode="all-reduce", operand_shapes=(reduced,), result_shapes=(reduced,), dimensions=()
        )
        runs = 1 if isinstance(gather.executions, Unavailable) else gather.executions
        instead_s += float(pricing.price(sum_).known_s) * runs
    whole = before.shape.byte_size // parts
    if 2 * sent >= whole * len(found):
        return
    saved = dict.fromkeys(gathers, 1.0)
    for name in kernels_between(subject, [each for one in found for each in (*one.between, *one.reductions)], parts):
        saved.setdefault(name, 1 - 1 / first.devices)
    calls = [
        *dict.fromkeys(
            _CALLS[each.instruction.to_apply.root.opcode]
            for one in found
            for each in one.reductions
            if each.instruction.to_apply
        )
    ]
    array = format_array(before.shape.element_type, before.shape.dimensions)
    at, size = subject.at_line(before.frames), format_bytes(whole)
    times = f" ({len(found)} times)" if len(found) > 1 else ""
    where = f"dimension {first.dimension}"
    title = (
        (
            f"The `all_gather`{at}{times} gathers {array} ({size})"
            if is_manual
            else f"The sharding constraint{at} makes {array} whole along {where} ({size} per device)"
        )
        + f", and everything that uses it reduces it along {'the gathered' if is_manual else 'that'} dimension: "
        + (f"{counted(len(leaves), 'all-reduce')} of the reduced parts {'is' if len(leaves) == 1 else 'are'} enough.")
    )
    result = subject.finding(
        kind, title, _remedy(found, calls, at), saved=saved, instead_s=instead_s, frames=before.frames, edits=_edits(found),
        gain_bytes=int(sum((subject.at_peak or {}).get(name, 0) for name in gathers) * (1 - 1 / first.devices)),
    )  # fmt: skip
    if result.gain_s or isinstance(result.gain_s, Unavailable):
        yield result


def _remedy(found: Sequence[_Reduced], calls: Sequence[str], at: str) -> str:
    if found[0].value.instruction.opcode != "all-gather":
        return f"Remove the sharding constraint{at}."
    is_whole = all(
        not one.between and one.value.instruction.shape.dimensions[one.dimension] == one.devices for one in found
    )
    if is_whole and len(calls) == 1:
        return (
            f"jax.lax.{calls[0]}(x, axis)  # pmean for a mean" if calls[0] == "psum" else f"jax.lax.{calls[0]}(x, axis)"
        )
    lines = (
        [_LOGSUMEXP]
        if {*calls} == {"psum", "pmax"}
        else [f"jax.lax.{call}({_OF[call]}, axis)  # x is the device's part" for call in calls]
    )
    lines += [_PICKED] * any(one.picks for one in found)
    return "\n".join(lines)


_OF = {"psum": "x.sum(dim)", "pmax": "x.max(dim)", "pmin": "x.min(dim)"}


def _edits(found: Sequence[_Reduced]) -> tuple[Edit, ...]:
    constraints = [one.value.instruction for one in found]
    stacks = stacks_of(each.frames for each in constraints)
    if constraints[0].opcode != "all-gather":
        shapes = dict.fromkeys((c.shape.element_type, *map(str, c.shape.dimensions)) for c in constraints)
        return (DropConstraints(stacks, tuple(shapes)),)
    sizes = dict.fromkeys(tuple(each.shape.dimensions) for each in constraints)
    return (ReduceParts((full_name(found[0].value),), tuple(sizes), stacks),)
