"""State that a program returns updated, but whose argument is not donated: both versions are in memory.

A result is the updated state if it is computed from the argument element by element, by replacing slices, or in a loop that
carries it, and if the names below the argument are those below a part of the result: gradients have the names of the
parameters too, but are not computed from them element by element. A single array counts only if slices of it are
replaced, if a gradient is added to it, or if the result has its name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.findings.argument_names import argument_root, common_path, donation_code, path_keys
from inspector.analysis.findings.dataflow import Value, is_tuple, results, source, updated_parameters
from inspector.analysis.findings.detectors.memory.loop_slices import COPYING
from inspector.analysis.findings.edits import Donate
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.products import PRODUCTS
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import Donation, reused_parameters
from inspector.analysis.memory.scheduled_values import is_scheduled
from inspector.compilation.program import Argument, Result
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import phases
from inspector.support.units import counted, format_bytes

KIND = "undonated"
_CAUTION = "The caller cannot use the old arrays after the call. Keep them undonated if it needs them."
_SHARED = " The rest of this memory is needed for temporaries in any case."
_ORDER = (
    " JAX assigns donated buffers to results of the same shape and type in order. Return the new versions in the order of the arguments to"
    " donate more of them."
)
_COPIED = " The program reads {} of it after it computes the new version. XLA copies this part if it is donated."


class _Update(NamedTuple):
    """An argument with the number of the result that is its new version, and of the result that can reuse its buffer."""

    donation: Donation
    result: int
    reused: int


def undonated(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each argument of the function that is returned updated and not donated. Their remedy donates all of these."""
    if isinstance(subject.before, Unavailable):
        return
    program = subject.compiled.program
    sizes = {d.argument.parameter: d for d in subject.donations if d.candidate is not None}
    values = results(subject.before)
    if not sizes or len(values) != len(program.results):
        return
    versions = [
        (donation, number)
        for argument, number in _new_versions(program.arguments, program.results, values)
        if (donation := sizes.get(argument.parameter)) is not None
    ]
    shown, copied, has_other_order = _donated(subject, versions)
    paths = {each.donation.argument.path for donated in shown.values() for each in donated}
    remedy = donation_code(
        program.arguments, [a.path for a in program.arguments if a.path in paths], subject.before.entry.parameters
    )
    for root, donated in shown.items():
        saved = subject.bytes_saved(sum(each.donation.byte_size for each in donated), dict(_pairs(donated)))
        if saved:  # otherwise the peak has as many temporaries in the memory of the results
            yield _finding(subject, root, donated, copied[root], remedy, saved, has_other_order=has_other_order)


def _donated(
    subject: Subject, versions: Sequence[tuple[Donation, int]]
) -> tuple[Mapping[str, list[_Update]], Mapping[str, set[int | None]], bool]:
    """Returns the arrays to donate for each argument, those that XLA would copy, and whether the order of the results excludes any.

    An argument is left out if XLA would copy all of its arrays. JAX then reuses the other buffers for other results.
    """
    taken = {*reused_parameters(subject.module).values()}
    position = _positions(subject.module) if versions else {}
    has_other_order = False
    while True:
        reused = _reused(versions, subject.compiled.program.results, taken)
        updates: dict[str, list[_Update]] = {}
        for donation, number in versions:
            if (result := reused.get(donation.argument.parameter)) is not None:
                updates.setdefault(argument_root(donation.argument.path), []).append(_Update(donation, number, result))
        copied = {root: _read_later(subject.module, donated, position) for root, donated in updates.items()}
        shown = {
            root: donated
            for root, donated in updates.items()
            if any(each.donation.argument.parameter not in copied[root] for each in donated)
        }
        left_out = [each for root, donated in updates.items() if root not in shown for each in donated]
        if not left_out:
            return shown, copied, has_other_order
        has_other_order = has_other_order or any(each.reused != each.result for each in left_out)
        versions = [each for each in versions if argument_root(each[0].argument.path) in shown]


def _pairs(updated: Sequence[_Update]) -> tuple[tuple[int, int], ...]:
    """Returns the numbers of the parameters, each with that of the result that can reuse its memory."""
    numbers = ((each.donation.argument.parameter, each.reused) for each in updated)
    return tuple(sorted((parameter, reused) for parameter, reused in numbers if parameter is not None))


def _finding(
    subject: Subject,
    root: str,
    updated: Sequence[_Update],
    copied: Collection[int | None],
    remedy: str,
    saved: int,
    *,
    has_other_order: bool,
) -> Finding:
    program = subject.compiled.program
    size = sum(each.donation.byte_size for each in updated)
    kept = sum(each.donation.byte_size for each in updated if each.donation.argument.parameter in copied)
    where = common_path([program.results[each.result].path for each in updated])
    result = f"result{where}" if where else "the result"
    per_device = " per device" if program.device_count > 1 else ""
    arrays = f"{counted(len(updated), 'array')}, " if len(updated) > 1 else ""
    name = root + common_path([each.donation.argument.path for each in updated])
    copies = [*_copies(subject, updated, copied)]
    title = (
        f"`{name}` ({arrays}{format_bytes(size)}{per_device}) is returned updated as {result} but is not donated, so"
        f" the old and the new version are in memory at the same time{', and XLA copies the argument in each execution' if copies else ''}."
    )
    pairs = _pairs(updated)
    numbers = {number for number, _ in pairs}
    return subject.finding(
        KIND, title, remedy, gain_bytes=saved, has_estimated_bytes=subject.knows_buffers,
        caution=_CAUTION + _SHARED * (saved < (1 - LEAST_SHARE) * size) + (_COPIED.format(format_bytes(kept)) if kept >= LEAST_SHARE * size else "") + _ORDER * has_other_order, edits=(Donate(pairs),),
        instructions=[p.name for p in subject.module.entry.parameters if p.parameter_number in numbers], saved=dict.fromkeys(copies, 1.0) or None,
    )  # fmt: skip


def _copies(subject: Subject, updated: Sequence[_Update], copied: Collection[int | None]) -> Iterator[str]:
    """Yields the kernels that copy an argument, to replace slices of the copy. With donation, XLA updates the argument in place."""
    numbers = {each.donation.argument.parameter for each in updated} - {*copied}
    for parameter in subject.module.entry.parameters:
        for user in parameter.users if parameter.parameter_number in numbers else ():
            if user.opcode in COPYING and user.name in subject.points and _is_same(user, parameter):
                yield user.name


def _is_same(copy: Instruction, parameter: Instruction) -> bool:
    """Reports whether a copy is in the main memory too, in the same layout."""
    shape = copy.shape.leaves[0]
    return shape.layout == parameter.shape.layout and shape.dimensions == parameter.shape.dimensions


def _positions(module: Module) -> Mapping[str, int]:
    """Returns the places of the instructions of ENTRY in the schedule; none without a schedule."""
    return {each.name: number for number, each in enumerate(module.entry.schedule)} if is_scheduled(module) else {}


def _read_later(module: Module, updated: Sequence[_Update], position: Mapping[str, int]) -> set[int | None]:
    """Returns the arguments that the program reads after their new version was computed, by number: XLA copies them if they are donated.

    The result is the one whose buffer is reused.
    """
    root = module.entry.root
    if not position or root.opcode != "tuple":
        return set()
    parameters = {each.parameter_number: each for each in module.entry.parameters}
    found = set[int | None]()
    for each in updated:
        number = each.donation.argument.parameter
        parameter, new = parameters.get(number), root.operand(each.reused)
        while new.opcode in _VIEWS:
            new = new.operands[0]
        if (
            parameter is not None
            and max(map(position.__getitem__, _readers(parameter)), default=0) > position[new.name]
        ):
            found.add(number)
    return found


_VIEWS = frozenset({"bitcast", "get-tuple-element"})


def _readers(value: Instruction) -> Iterator[str]:
    """Yields the names of the instructions that read a value, also through views of it."""
    for user in value.users:
        if user.opcode in _VIEWS:
            yield from _readers(user)
        elif not user.is_root:
            yield user.name


def _new_versions(
    arguments: Sequence[Argument], results: Sequence[Result], values: Sequence[Value]
) -> Iterator[tuple[Argument, int]]:
    """Yields arguments with the number of the result that is their new version.

    An optimizer computes the new parameters from the parameters and from its state. Results that are computed from one
    argument take it first, and the others take the nearest argument of those that are left.
    """
    by_number = {a.parameter: a for a in arguments if a.parameter is not None}
    by_root = _by_root(arguments)
    possible = list[tuple[int, list[Argument]]]()
    for number, (value, result) in enumerate(zip(values, results, strict=True)):
        found = [
            argument
            for parameter, path in updated_parameters(value)
            if (argument := by_number.get(parameter)) is not None
            and path
            and (argument.shape, argument.dtype) == (result.shape, result.dtype)
            and "backward" not in phases(path[0].instruction.op_name)  # a gradient, such as that of a prior
            and _is_state(argument, result, path, by_root[argument_root(argument.path)])
        ]
        if found:
            possible.append((number, found))
    left: set[int | None] = {*by_number}
    for number, found in sorted(possible, key=lambda each: len(each[1])):
        argument = next((each for each in found if each.parameter in left), None)
        if argument is not None:
            left.remove(argument.parameter)
            yield argument, number


def _reused(
    versions: Sequence[tuple[Donation, int]], results: Sequence[Result], taken: Collection[int]
) -> Mapping[int | None, int]:
    """Returns the result for which the memory of each argument is reused if all are donated, by the argument's parameter number.

    JAX gives the first result of a shape and type the first donated argument that has them, whether it is its old version or not.

    Args:
      versions: the arguments with the numbers of their new versions.
      results: the results.
      taken: numbers of the results for which memory is reused already.
    """
    waiting: dict[tuple[tuple[int, ...], str, str], deque[int | None]] = {}
    for donation, number in sorted(versions, key=lambda each: each[0].argument.parameter or 0):
        version = results[number]
        key = version.shape, version.dtype, version.sharding
        waiting.setdefault(key, deque()).append(donation.argument.parameter)
    found: dict[int | None, int] = {}
    for number, each in enumerate(results):
        donated = waiting.get((each.shape, each.dtype, each.sharding))
        if donated and number not in taken:
            found[donated.popleft()] = number
    return found


def _is_state(argument: Argument, result: Result, path: Sequence[Value], below: Sequence[Argument]) -> bool:
    """Reports whether a result that is computed from an argument element by element is the new version of it."""
    keys = path_keys(argument.path)
    names = [*path_keys(result.path)]
    if keys and len(below) > 1:
        below_first = len(keys) - 1  # `state['params']['w']` may be returned as `['new_params']['w']`
        return names[-len(keys) :] == [*keys] or (below_first > 0 and names[-below_first:] == [*keys[1:]])
    if argument_root(argument.path) in names[-1:]:
        return True
    opcodes = {value.instruction.opcode for value in path}
    if opcodes & {"dynamic-update-slice", "scatter"}:
        return True
    carried = [value for value in path if value.instruction.opcode == "get-tuple-element"]
    if carried:
        return not any(
            _applies_layers(each.instruction.operands[0]) or _begins_twice(each, argument) for each in carried
        )
    return any(
        "backward" in phases(operand.instruction.op_name)
        for value in path
        if value.instruction.opcode in ("add", "subtract")
        for step in value.operands
        for operand in (step, *step.operands)
    )


def _begins_twice(carried: Value, argument: Argument) -> bool:
    """Reports whether a loop begins with an argument in several of its arrays, such as a sum in a ring of devices: it is no state."""
    initial = source(Value(carried.instruction.operands[0].operand(0), carried.calls))
    numbers = [each.instruction.parameter_number for each in initial.operands if not each.calls]
    return is_tuple(initial.instruction) and numbers.count(argument.parameter) > 1


def _applies_layers(loop: Instruction) -> bool:
    """Reports whether a loop has products, but none of a backward pass: it computes a result from an input, and trains nothing."""
    waiting, seen, has_products = [*loop.called_computations], set[int](), False
    while waiting:
        computation = waiting.pop()
        if computation.number in seen:
            continue
        seen.add(computation.number)
        products = [each for each in computation.instructions if each.opcode in PRODUCTS]
        if any("backward" in phases(each.op_name) for each in products):
            return False
        has_products = has_products or bool(products)
        waiting.extend(called for each in computation.calling for called in each.called_computations)
    return has_products


def _by_root(arguments: Sequence[Argument]) -> Mapping[str, list[Argument]]:
    found: dict[str, list[Argument]] = {}
    for argument in arguments:
        found.setdefault(argument_root(argument.path), []).append(argument)
    return found
