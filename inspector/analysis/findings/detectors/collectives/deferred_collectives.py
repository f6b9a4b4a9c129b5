"""All-reduces in a loop that only accumulates their results with the same operation, or stacks them: one after the loop is enough.

They are the user's own, in a `shard_map`, such as the sums of an evaluation over batches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.collectives.collective import Collective, over
from inspector.analysis.findings.before import is_scale, moved_from, uses
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.detectors.memory.loop_slices import initial
from inspector.analysis.findings.detectors.sharding.device_values import is_same_along
from inspector.analysis.findings.edits import DeferCollectives
from inspector.analysis.findings.exchanges import Exchange
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.storage import FLOATS
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.hlo.shape import element_bits
from inspector.hlo.source import merged_names
from inspector.support.units import format_bytes

_UNIT_DIMENSIONS = frozenset({"reshape", "broadcast"})
_MOST_COMBINED = 12
"""Arrays of which any may be combined."""
_CALLS = {"add": "psum", "maximum": "pmax", "minimum": "pmin"}


class _Deferred(NamedTuple):
    """An all-reduce that a loop need not repeat.

    Attributes:
      loop: the loop.
      call: the function of `jax.lax`.
      is_stacked: whether the loop stacks its results; otherwise it combines them.
    """

    loop: Instruction
    call: str
    is_stacked: bool


def deferred_collectives(subject: Subject, kind: str) -> Iterator[Finding]:
    """Yields a finding for each loop with such all-reduces.

    Args:
      subject: the program.
      kind: the kind of the findings.
    """
    known: dict[str, _Deferred | None] = {}
    widening: dict[str, float] = {}
    elements: dict[str, list[int]] = {}
    for value, name in subject.calls.values(("all-reduce",)) if subject.calls is not None else ():
        deferred, wider = _deferred(value) or (None, 1.0)
        known[name] = deferred if known.get(name, deferred) == deferred else None
        widening[name] = max(wider, widening.get(name, 1.0))
        elements.setdefault(name, []).append(math.prod(value.instruction.shape.dimensions))
    groups: dict[_Deferred, list[_Member]] = {}
    left = list[Collective]()
    for each in subject.collectives if any(known.values()) else ():
        names = tuple(merged_names(each.origin.op_name))
        found = {known.get(name) for name in names}
        if each.opcode != "all-reduce" or _runs(each) == 1:
            continue
        if len(found) == 1 and None not in found:
            groups.setdefault(next(deferred for deferred in found if deferred is not None), []).append(
                _Member(each, names, max(widening[name] for name in names))
            )
        elif not known.keys() & {*names}:
            left.append(each)
    matched = Counter[str]()
    for member in (member for members in groups.values() for member in members):
        matched.update(dict.fromkeys(member.names, _elements(member.collective)))
    for name, one in known.items():
        if one is not None and matched[name] < sum(elements[name]) / 2:
            for each in _of_sizes(left, elements[name]):
                groups.setdefault(one, []).append(_Member(each, (name,), widening[name]))
    for deferred, members in groups.items():
        yield _finding(subject, kind, deferred, members)


class _Member(NamedTuple):
    """A compiled all-reduce.

    Attributes:
      collective: the all-reduce.
      names: JAX's names of those that became it.
      widening: the size of an element that the loop keeps, relative to that of the all-reduce.
    """

    collective: Collective
    names: tuple[str, ...]
    widening: float


def _of_sizes(collectives: Sequence[Collective], elements: Sequence[int]) -> list[Collective]:
    """Returns the all-reduces of some arrays, each of one or more of them, if they have most of the elements; otherwise [].

    XLA may name a combined one after an operation on the way to it.
    """
    sums = {0}
    for each in sorted(elements, reverse=True)[:_MOST_COMBINED]:
        sums |= {one + each for one in sums}
    found = [each for each in collectives if _elements(each) in sums]
    return found if sum(elements) / 2 <= sum(map(_elements, found)) <= sum(elements) else []


def _elements(collective: Collective) -> int:
    return sum(math.prod(shape.dimensions) for shape in collective.result_shapes)


def _runs(collective: Collective) -> int:
    """Returns the number of executions; 1 if it is unknown."""
    return 1 if isinstance(collective.executions, Unavailable) else int(collective.executions)


def _finding(subject: Subject, kind: str, deferred: _Deferred, found: Sequence[_Member]) -> Finding:
    members = [each.collective for each in found]
    first = max(members, key=lambda each: each.operand_bytes)
    size = sum(each.operand_bytes for each in members)
    where = subject.at_line(first.origin.frames)
    is_one, use = len(members) == 1, "stacks" if deferred.is_stacked else "accumulates"
    title = (
        f"{'The all-reduce' if is_one else f'{len(members)} all-reduces'}{over(first.axes)}{where} ({format_bytes(size)} per device)"
        f" run{'s' * is_one} {_runs(first)} times, in a loop that only {use} the results:"
        f" {'an all-reduce' if is_one else 'all-reduces'} after the loop {'is' if is_one else 'are'} enough."
    )
    call = f"jax.lax.{deferred.call}"
    remedy = (
        f"ys = {call}(ys, axes)  # once, on the stacked results; remove {call} from the body"
        if deferred.is_stacked
        else f"total = {call}(total, axes)  # once, after the loop; remove {call} from the body"
        + "; total must start at zero" * (deferred.call == "psum")
    )
    names = dict.fromkeys(name for each in found for name in each.names)
    exchanges = {each.collective.name: each for each in subject.exchanges}
    instead_s = sum(
        _once_s(exchanges[each.collective.name], deferred, each.widening)
        for each in found
        if each.collective.name in exchanges
    )
    return subject.finding(
        kind, title, remedy, saved={each.name: 1.0 for each in members},
        instead_s=instead_s, frames=first.origin.frames,
        edits=(DeferCollectives(tuple(names)),),
    )  # fmt: skip


def _once_s(exchange: Exchange, deferred: _Deferred, widening: float) -> float:
    """Returns the seconds of the collective after the loop, in each run of the loop: if results are stacked, it has the data of all iterations."""
    known = trip_count(deferred.loop)
    trips = exchange.executions if isinstance(known, Unavailable) or not known else known
    sent_s = float(exchange.price.known_s) - exchange.latency_s
    times = widening * (trips if deferred.is_stacked else 1)
    return (exchange.latency_s + sent_s * times) * exchange.executions / trips


def _deferred(value: Value) -> tuple[_Deferred, float] | None:
    """Returns how a loop keeps the result of an all-reduce, and in how much wider a type; None if it uses it for anything else."""
    reduction = value.instruction.to_apply
    loops = [number for number, call in enumerate(value.calls) if call.opcode == "while"]
    if reduction is None or reduction.root.opcode not in _CALLS or not loops:
        return None
    calls = value.calls[: loops[-1] + 1]
    is_sum, found = reduction.root.opcode == "add", [*uses(value)]
    while len(found) == 1 and found[0].user is not None and _is_passed(found[0].user, found[0].operand, is_sum):
        found = [*uses(found[0].user)]
    if len(found) != 1 or found[0].user is None:
        return None
    kept = found[0].user
    is_stacked = kept.instruction.opcode == "dynamic-update-slice" and found[0].operand == 1
    if not is_stacked and kept.instruction.opcode != reduction.root.opcode:
        return None
    carried = [kept.operand(0)] if is_stacked else [*kept.operands]
    ended = _chosen(kept, carried, value.instruction)
    if any(use.user is not None for use in uses(ended)):
        return None
    elements = [each for each in carried if _is_carried(each, kept, ended, calls)]
    if not elements:
        return None
    begun = None if is_sum else initial(elements[0])
    if begun is not None and not is_same_along(moved_from(begun), None, value.instruction):
        return None  # the maximum would be over the initial values of all devices
    widening = element_bits(kept.instruction.shape.element_type) / element_bits(value.instruction.shape.element_type)
    return _Deferred(calls[-1], _CALLS[reduction.root.opcode], is_stacked), widening


def _chosen(kept: Value, carried: Sequence[Value], reduce: Instruction) -> Value:
    """Returns the selection of a new version of an element, or of the element as it was, in iterations that are the same on all devices.

    Returns the new version itself if there is no such selection.
    """
    found = [use.user for use in uses(kept)]
    if len(found) != 1 or found[0] is None or found[0].instruction.opcode != "select":
        return kept
    selection = found[0]
    others = [each for each in (selection.operand(1), selection.operand(2)) if each != kept]
    is_same = (
        len(others) == 1 and others[0] in carried and is_same_along(moved_from(selection.operand(0)), None, reduce)
    )
    return selection if is_same else kept


def _is_passed(user: Value, number: int, is_sum: bool) -> bool:
    """Reports whether an operation may also come before the all-reduce: a reshape, a wider type, or the scale of a `pmean` by a constant."""
    if user.instruction.opcode in _UNIT_DIMENSIONS or _widens(user.instruction):
        return True
    return is_sum and is_scale(user, number)


def _widens(user: Instruction) -> bool:
    """Reports whether an instruction converts floats to a wider type."""
    if user.opcode != "convert":
        return False
    before, after = (each.shape.element_type for each in (user.operands[0], user))
    return before in FLOATS and after in FLOATS and element_bits(after) > element_bits(before)


def _is_carried(element: Value, kept: Value, ended: Value, calls: tuple[Instruction, ...]) -> bool:
    """Reports whether an element of a loop ends as `ended`, and is used for nothing else but that and its next version, `kept`."""
    taken, body = element.instruction, calls[-1].called_computations[0]
    if taken.opcode != "get-tuple-element" or taken.operands[0] not in body.parameters or body.root.opcode != "tuple":
        return False
    number, loop = taken.tuple_index, calls[-1]
    ends_loop = any(
        each.opcode != "get-tuple-element" or (each.tuple_index == number and each.users)
        for condition in loop.called_computations[1:]
        for each in condition.parameters[0].users
    )
    users = [
        use.user
        for each in taken.operands[0].users
        if each.opcode != "get-tuple-element" or each.tuple_index == number
        for use in uses(Value(each, calls))
    ]
    return not ends_loop and source(Value(body.root.operand(number), calls)) == ended and {*users} == {kept, ended}
