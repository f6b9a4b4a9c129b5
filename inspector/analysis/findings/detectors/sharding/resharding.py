"""Changes of shardings that cost more than they should.

Two kinds are reported:
  - Full rematerializations: XLA copies the whole array to every device to change its sharding, and warns about it.
  - An array whose sharding the user changes from A to B and back to A, although the operations in between combine arrays
    element by element and do not need B.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.argument_behind import argument_behind
from inspector.analysis.findings.before import Before, full_name
from inspector.analysis.findings.dataflow import BY_ELEMENT, Value, source
from inspector.analysis.findings.edits import DropConstraints, stacks_of
from inspector.analysis.findings.exchange_chains import at_ends_of_loops, chains, saved_with
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.manual_detours import ManualDetour, manual_detours
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.program_shardings import shardings
from inspector.analysis.sharding.reshardings import Resharding, full_rematerializations
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame, Origin, merged_names, own_frame
from inspector.support.units import format_array, format_bytes

KIND = "resharding"
_RESHARDING = frozenset({"all-gather", "all-to-all", "collective-permute"})
_BY_ELEMENT = BY_ELEMENT | {"copy", "optimization-barrier"}
_LEAVES = frozenset({"parameter", "constant", "broadcast"})
_MOST_VALUES = 100
_TILES = re.compile(r"devices=\[([\d,]+)\]")
_NAMED = re.compile(r", \[(\{.*?\})\]")
_AXES = re.compile(r"\{[^}]*\}")


_Key: TypeAlias = tuple[str, tuple[tuple[str, int], ...]]
"""The last part of an operation's name and its innermost lines. Names before optimization begin at their function."""


class _Detour(NamedTuple):
    """A constraint to B of an array that had A and that is constrained to A again.

    Attributes:
      there, back: the constraints.
      had: whether the array is known to have had A. That of a product is only known from the collectives at both changes.
      beside_there, beside_back: the operations beside the changes.
    """

    there: Instruction
    back: Instruction
    had: bool
    beside_there: frozenset[_Key]
    beside_back: frozenset[_Key]


def resharding(subject: Subject) -> Iterator[Finding]:
    """Yields findings of full rematerializations, and of arrays that are resharded and back without need."""
    collectives = [c for c in subject.collectives if c.opcode in _RESHARDING and c.inserted_by == "partitioner"]
    full = full_rematerializations(subject.compiled)
    seen = set[tuple[Frame, ...]]()
    for each in () if isinstance(full, Unavailable) else full:
        if each.frames not in seen:
            seen.add(each.frames)
            yield _full(subject, each, collectives)
    yield from _detour_findings(subject, collectives, {own_frame(frames) for frames in seen})
    if subject.calls is not None:
        for detour in manual_detours(subject.calls):
            yield from _manual(subject, detour)


def exchanges_of_detours(subject: Subject) -> frozenset[str]:
    """Returns the names of the collectives that change a sharding there and back without need."""
    collectives = [c for c in subject.collectives if c.opcode in _RESHARDING and c.inserted_by == "partitioner"]
    return frozenset(name for each in _detour_findings(subject, collectives, ()) for name in each.instructions)


def _detour_findings(
    subject: Subject, collectives: Sequence[Collective], copied: Collection[Frame | None]
) -> Iterator[Finding]:
    """Yields the findings of arrays that are resharded and back, except at lines where XLA copies a whole array."""
    if not collectives or subject.calls is None:
        return
    for detours in _grouped([*_detours(subject.calls, _argument_shardings(subject))]):
        lines = {own_frame(frames) for each in detours for frames in (each.there.frames, each.back.frames)}
        if lines.isdisjoint(copied):
            yield from _detour(subject, detours, collectives)


def _grouped(detours: Sequence[_Detour]) -> list[list[_Detour]]:
    """Returns detours in groups whose constraints have a line or a way back in common.

    A backward pass goes there and back by the same constraints. Of two detours of which one begins where the other ends, as in A to B to A
    to B, one is left: its remedy makes the other unnecessary.
    """
    groups: list[list[_Detour]] = []
    starts, ends = set[int](), set[int]()
    for detour in sorted(detours, key=lambda each: not each.had):
        if detour.there.row in ends or detour.back.row in starts:
            continue
        starts.add(detour.there.row)
        ends.add(detour.back.row)
        joined = [g for g in groups if any(_is_together(detour, each) for each in g)]
        groups = [g for g in groups if g not in joined] + [[each for g in joined for each in g] + [detour]]
    return groups


def _is_together(one: _Detour, other: _Detour) -> bool:
    return one.there.frames == other.there.frames or one.back.row == other.back.row


def _full(subject: Subject, one: Resharding, collectives: Sequence[Collective]) -> Finding:
    op_name, _, array = one.name.rpartition(" ")
    part = 0 if isinstance(one.operand_bytes, Unavailable) else int(one.operand_bytes)
    # The gathers have the name of the operation, or of those between it and the next constraint.
    most = part * subject.compiled.program.device_count
    wanted = _beside(subject.before, op_name, one.frames, most)
    gathers = [
        c
        for c in collectives
        if c.opcode == "all-gather"
        and (op_name in merged_names(c.origin.op_name) or (c.result_bytes <= most and _is_beside(c.origin, wanted)))
    ]
    whole = max((c.result_bytes * (c.executions if c.executions == 1 else 1) for c in gathers), default=0)
    size = f"{format_bytes(whole)}, " if whole else ""
    title = (
        f"To change the sharding of an array from {one.had} to {one.needed}{_at(subject, one.frames)}, XLA copies the whole array to every"
        f" device (involuntary full rematerialization): {size}of which each device has {array}."
    )
    return subject.finding(
        KIND, title, one.advice, instructions=[each.name for each in gathers], frames=one.frames,
        saved_part=1 - part / whole if whole > part else 0.0, gain_bytes=max(0, whole - part),
    )  # fmt: skip


def _beside(before: Module | Unavailable, op_name: str, frames: tuple[Frame, ...], most: int) -> set[_Key]:
    """Returns the keys of the constraints with a name or at a line, of their operands, and of what is computed from them element by element."""
    if isinstance(before, Unavailable):
        return set()
    # By the name too, because libtpu numbers the lines again, and its warning may have another one.
    waiting = [
        each
        for row in before.calls_to(("Sharding",))
        if (each := before.at(row)).shape.byte_size <= most and (each.frames == frames or each.op_name == op_name)
    ]
    found, seen = {key for each in waiting for one in each.operands for key in _keys_in(one)}, set[int]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row not in seen:
            seen.add(each.row)
            found.update(_keys_in(each))
            waiting += [user for user in each.users if _is_constraint(user) or _is_by_element(user)]
    return found


def _detour(subject: Subject, detours: Sequence[_Detour], collectives: Sequence[Collective]) -> Iterator[Finding]:
    """Yields the finding of a line, if the compiled program communicates for it."""
    there, back = detours[0].there, detours[0].back
    moved = _moved(subject, detours, collectives)
    if moved is None or not (any(each.had for each in detours) or moved.is_changed):
        return
    array = format_array(there.shape.element_type, there.shape.dimensions)
    title = (
        f"{array} is resharded{_at(subject, there.frames, back.frames)} and back{_at(subject, back.frames, there.frames)}, and the operations in"
        " between do not need the other sharding."
    )
    own = [subject.module.instruction(each.name) for each in moved.collectives]
    exchanges = dict.fromkeys((*own, *at_ends_of_loops(own, {each.name for each in collectives})))
    saved = saved_with(subject, [*exchanges], moved.saved_part)
    yield subject.finding(
        KIND, title, f"Remove the sharding constraint{_at(subject, there.frames, back.frames)}.", instructions=saved.parts, frames=there.frames,
        saved_part=saved.part, saved_s=saved.seconds, edits=(_dropped(detours),),
        caution="The parts in between may be smaller with the other sharding, if the array is split less without it.",
    )  # fmt: skip


def _manual(subject: Subject, detour: ManualDetour) -> Iterator[Finding]:
    """Yields the finding of exchanges in a `shard_map` and their inverse, if they are in the compiled program."""
    wanted = {(full_name(each), _lines(each.instruction.frames)) for each in (*detour.there, *detour.back)}
    exchanges = [
        subject.module.instruction(each.name)
        for each in subject.collectives
        if any(
            name == other and _is_same_line(_lines(each.origin.frames), lines)
            for name in merged_names(each.origin.op_name)
            for other, lines in wanted
        )
    ]
    if not exchanges:
        return
    there, back = detour.there[0].instruction, detour.back[0].instruction
    call = full_name(detour.there[0]).rpartition("/")[2]
    array = format_array(there.operands[0].shape.element_type, there.operands[0].shape.dimensions)
    title = (
        f"The `{call}`{_at(subject, there.frames, back.frames)} exchanges {array} of each device, and the one{_at(subject, back.frames, there.frames)} brings"
        " it back, although the operations in between combine arrays element by element."
    )
    saved = saved_with(subject, exchanges)
    yield subject.finding(
        KIND, title, f"Remove both calls of jax.lax.{call}, and compute in between with the values as they are.", instructions=saved.parts,
        frames=there.frames, saved_part=saved.part, saved_s=saved.seconds,
    )  # fmt: skip


class _Moved(NamedTuple):
    """The collectives of a detour.

    Attributes:
      collectives: those that change the sharding of the array, or that gather the operand of its product to split it otherwise.
      is_changed: whether there are some at both changes.
      saved_part: the part of their bytes that is not sent without the detour, from 0 to 1.
    """

    collectives: tuple[Collective, ...]
    is_changed: bool
    saved_part: float


def _moved(subject: Subject, detours: Sequence[_Detour], collectives: Sequence[Collective]) -> _Moved | None:
    """Returns the collectives of a detour; None if there are none, or if as many bytes are sent without it."""
    wanted_first, wanted_second = (
        frozenset[_Key]().union(*(each.beside_there for each in detours)),
        frozenset[_Key]().union(*(each.beside_back for each in detours)),
    )
    there = detours[0].there
    near = [c for c in collectives if _is_beside(c.origin, wanted_first) or _is_beside(c.origin, wanted_second)]
    product = _product_behind(detours[0])
    gathers = [] if product is None else [
        c for c in near
        if c.opcode == "all-gather" and c.result_bytes == product.gathered.shape.byte_size and _is_beside(c.origin, wanted_first)
    ]  # fmt: skip
    own = [c for c in near if c not in gathers and _is_of(subject, c, there)]
    own += _connected(subject, own, [c for c in collectives if c not in near], wanted_first | wanted_second, there)
    first, second = ([c for c in own if _is_beside(c.origin, wanted)] for wanted in (wanted_first, wanted_second))
    is_changed = bool([c for c in first if c not in second] or gathers) and bool(second)
    sent, more = sum(map(_sent, own)), sum(map(_sent, gathers))
    instead = 0.0
    if product is not None and gathers:
        other = product.other
        if _is_split(subject, other):  # it must be gathered instead
            instead = more * other.shape.byte_size / product.gathered.shape.byte_size
    saved = sent + more - instead
    return _Moved((*own, *gathers), is_changed, saved / (sent + more)) if saved > 0 else None


def _connected(
    subject: Subject,
    own: Sequence[Collective],
    others: Sequence[Collective],
    wanted: Collection[_Key],
    array: Instruction,
) -> list[Collective]:
    """Returns further collectives at the lines of a detour that kernels connect with its collectives.

    XLA names a collective after one of the operations in the kernel before it, which is not always one beside the constraint.
    """
    lines = {each for _, each in wanted}
    candidates = {
        c.name: c
        for c in others
        if _is_of(subject, c, array) and any(_is_same_line(key[1], each) for key in _keys(c.origin) for each in lines)
    }
    if not candidates or not own:
        return []
    names = {each.name for each in own}
    exchanges = [subject.module.instruction(name) for name in (*names, *candidates)]
    joined = [chain.exchanges for chain in chains(exchanges) if any(each.name in names for each in chain.exchanges)]
    return [candidates[each.name] for chain in joined for each in chain if each.name in candidates]


def _sent(collective: Collective) -> float:
    """Returns the bytes that each device receives, as far as they are known."""
    bytes_ = float(max(collective.operand_bytes, collective.result_bytes))
    return bytes_ * (1.0 if isinstance(collective.executions, Unavailable) else float(collective.executions))


def _is_of(subject: Subject, collective: Collective, array: Instruction) -> bool:
    """Reports whether a collective can move an array: it has no more bytes, and does not move another argument."""
    if max(collective.operand_bytes, collective.result_bytes) > array.shape.byte_size:
        return False
    behind = argument_behind(subject.module.instruction(collective.name))
    if behind is None:
        return True
    if behind.opcode != "parameter" or not behind.computation.is_entry:  # a loop's element, such as a layer's weights
        return collective.opcode != "all-gather" or collective.result_bytes == array.shape.byte_size
    return behind.parameter_number in _arguments_behind(array.operands[0])


def _arguments_behind(value: Instruction) -> set[int | None]:
    """Returns the numbers of the parameters from which a value is computed element by element, also if they are constrained first."""
    found, waiting, seen = set[int | None](), [value], set[int]()
    while waiting:
        for each in _behind(waiting.pop()):
            if _is_constraint(each) and each.row not in seen:
                seen.add(each.row)
                waiting.append(each.operands[0])
            elif each.opcode == "parameter":
                found.add(each.parameter_number)
    return found


class _ProductBehind(NamedTuple):
    """The product that makes the array of a detour.

    Attributes:
      gathered: the operand that has the split dimensions of the array, so that it is gathered for another split.
      other: the other operand.
    """

    gathered: Instruction
    other: Instruction


def _product_behind(detour: _Detour) -> _ProductBehind | None:
    """Returns the product of a detour's array; None without one, or if both operands have split dimensions."""
    products = [each for each in _behind(detour.there.operands[0]) if each.opcode == "dot"]
    split = _split_dimensions(detour.back.sharding)
    if len(products) != 1 or not split:
        return None
    (product,) = products
    contracted = product.proto.dot_dimension_numbers.lhs_contracting_dimensions
    left = len(product.operands[0].shape.dimensions) - len(contracted)  # the result has these dimensions first
    sides = {dimension >= left for dimension in split}
    if len(sides) != 1:
        return None
    number = int(sides.pop())
    return _ProductBehind(product.operands[number], product.operands[1 - number])


def _split_dimensions(sharding: str) -> list[int]:
    """Returns the dimensions that a sharding in HLO's notation splits."""
    if found := _TILES.search(sharding):
        sizes = [int(each) for each in found[1].split(",")]
        return [number for number, size in enumerate(sizes[: len(sizes) - ("last_tile_dim" in sharding)]) if size > 1]
    named = _NAMED.search(sharding)
    return [] if named is None else [n for n, axes in enumerate(_AXES.findall(named[1])) if "'" in axes]


def _is_split(subject: Subject, value: Instruction) -> bool:
    """Reports whether an operand is split, as far as its argument or its constraint shows."""
    known = _had(source(Value(value)), _argument_shardings(subject))
    return any(map(_split_dimensions, known))


def _dropped(detours: Sequence[_Detour]) -> DropConstraints:
    """Returns the edit that removes the constraints to the other sharding."""
    constraints = [each.there for each in detours]
    shapes = dict.fromkeys((c.shape.element_type, *map(str, c.shape.dimensions)) for c in constraints)
    return DropConstraints(stacks_of(each.frames for each in constraints), tuple(shapes))


def _at(subject: Subject, frames: Sequence[Frame], other: Sequence[Frame] = ()) -> str:
    """Returns the innermost line of the user that is not also the line of another operation, in words."""
    own = tuple(each for each in frames if each not in other) or tuple(frames)
    return subject.at_line(own)


def _lines(frames: Sequence[Frame]) -> tuple[tuple[str, int], ...]:
    return tuple((frame.file, frame.line) for frame in frames)


def _keys(origin: Origin) -> list[_Key]:
    lines = _lines(origin.frames[:2])
    return [(name.rpartition("/")[2], lines) for name in merged_names(origin.op_name)] if lines else []


def _keys_in(instruction: Instruction) -> list[_Key]:
    """Returns the keys of an operation, and of those in a function that it calls, which get the lines of the call."""
    keys = _keys(instruction.origin)
    called = instruction.called_computations[0].instructions if instruction.opcode == "call" and keys else ()
    return [*keys, *((each.op_name.rpartition("/")[2], keys[0][1]) for each in called)]


def _is_beside(origin: Origin, wanted: Collection[_Key]) -> bool:
    """Reports whether a collective has the name and lines of an operation, or those lines and the name of an argument (JAX 0.12)."""
    is_argument = "/" not in origin.op_name
    return any(
        (is_argument or name == other) and _is_same_line(lines, others)
        for name, lines in _keys(origin)
        for other, others in wanted
    )


def _is_same_line(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> bool:
    """Reports whether lines are the same as far as both are known: those before optimization begin at their function."""
    known = min(len(one), len(other))
    return one[:known] == other[:known]


def _argument_shardings(subject: Subject) -> dict[int, str]:
    return {
        each.number: each.text
        for each in shardings(subject.compiled)
        if each.kind == "argument" and each.number is not None
    }


def _detours(before: Before, arguments: dict[int, str]) -> Iterator[_Detour]:
    """Yields constraints that change the sharding of an array which is changed back."""
    called = dict(before.rows(("custom-call",)))
    constraints = [
        each for row in before.module.calls_to(("Sharding",)) if _is_constraint(each := before.module.at(row))
    ]
    for back in constraints:
        sharding = back.sharding
        for there in _constraints_behind(back.operands[0]):
            ways = [call.calls for call in called.get(there.row, ())] or [()]
            known = set[str]().union(*(_had(Value(there.operands[0], calls), arguments) for calls in ways))
            if there.sharding == sharding or (known and sharding not in known) or not _only_reaches(there, sharding):
                continue
            if any(there.sharding in _of_argument(each, arguments) for each in _behind(back.operands[0])):
                continue  # another array has the other sharding
            beside = (
                frozenset(key for each in (one, *one.operands, *one.users) for key in _keys_in(each))
                for one in (there, back)
            )
            yield _Detour(there, back, bool(known), *beside)


def _is_constraint(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "custom-call"
        and instruction.custom_call_target == "Sharding"
        and bool(instruction.sharding)
    )


def _is_by_element(instruction: Instruction) -> bool:
    """Reports whether an operation, or a function such as `silu`, combines arrays element by element."""
    if instruction.opcode != "call":
        return instruction.opcode in _BY_ELEMENT
    inside = instruction.called_computations[0].instructions
    return all(each.opcode in _LEAVES or _is_by_element(each) for each in inside)


def _constraints_behind(value: Instruction) -> list[Instruction]:
    """Returns the constraints of arrays from which a value is computed element by element."""
    return [each for each in _behind(value) if _is_constraint(each)]


def _behind(value: Instruction) -> list[Instruction]:
    """Returns the constraints, parameters and other operations from which a value is computed element by element."""
    found, waiting, seen = list[Instruction](), [value], set[int]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each.row in seen:
            continue
        seen.add(each.row)
        if _is_by_element(each):
            waiting.extend(operand for operand in each.operands if operand.shape.dimensions == value.shape.dimensions)
        else:
            found.append(each)
    return found


def _had(value: Value, arguments: dict[int, str]) -> set[str]:
    """Returns the shardings of the constraints and arguments from which a value is computed element by element.

    Functions are followed to their calls, and arrays that a loop carries to the end of an iteration.
    """
    known, waiting, seen = set[str](), [value], set[Value]()
    while waiting and len(seen) < _MOST_VALUES:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for each in _behind(value.instruction):
            if _is_constraint(each):
                known.add(each.sharding)
            elif each.opcode == "parameter" and each.parameter_number is not None:
                if each.computation.is_entry:
                    known |= _of_argument(each, arguments)
                elif value.calls and value.calls[-1].opcode == "call":
                    waiting.append(Value(value.calls[-1].operands[each.parameter_number], value.calls[:-1]))
            elif each.opcode == "get-tuple-element":
                waiting += _ends(Value(each, value.calls))
    return known - {""}


def _of_argument(value: Instruction, arguments: dict[int, str]) -> set[str]:
    """Returns the shardings of a parameter of the program; none for other values."""
    number = value.parameter_number
    if number is None or not value.computation.is_entry:
        return set()
    return {value.sharding, arguments.get(number, "")} - {""}


def _ends(element: Value) -> Iterator[Value]:
    """Yields the array that an iteration of a loop ends with, for one that the loop carries, or the result of a function."""
    whole, number = element.instruction.operands[0], int(element.instruction.proto.tuple_index)
    if whole.opcode == "call":
        root, calls = whole.called_computations[0].root, (*element.calls, whole)
    elif whole.opcode == "parameter" and element.calls and element.calls[-1].opcode == "while":
        root, calls = element.calls[-1].called_computations[0].root, element.calls
    else:
        return
    if root.opcode == "tuple":
        yield Value(root.operand(number), calls)


def _only_reaches(there: Instruction, sharding: str) -> bool:
    """Reports whether all operations that use a constraint's value, element by element, end in constraints to a sharding."""
    waiting, seen = [there], set[int]()
    while waiting:
        each = waiting.pop()
        if each.is_root or len(seen) > _MOST_VALUES:
            return False
        for user in each.users:
            if user.row in seen or (_is_constraint(user) and user.sharding == sharding):
                continue
            is_same = _is_constraint(user) and user.sharding == there.sharding
            if not (is_same or _is_by_element(user)) or user.shape.dimensions != there.shape.dimensions:
                return False
            seen.add(user.row)
            waiting.append(user)
    return True
