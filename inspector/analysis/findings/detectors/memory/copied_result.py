"""Results that are an argument as it came in, or another result once more: each execution copies them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from inspector.analysis.findings.argument_names import argument_root, common_path, donation_code
from inspector.analysis.findings.dataflow import Value, results
from inspector.analysis.findings.edits import Donate, DropResults
from inspector.analysis.findings.fetches import fetches_for
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.platforms import Peak
from inspector.support.units import counted, format_bytes

KIND = "copied-result"
_FORWARDING = frozenset({"bitcast", "get-tuple-element", "copy-done"})
_FILLS = frozenset({"broadcast", "constant", "iota"})  # arrays that are equal because they are new
_MOST_NAMED = 3
_LEAST_BYTES = 1024  # smaller ones are counters and keys, which are returned with the rest


def copied_result(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for each argument of the function that is returned unchanged, and one for repeated results."""
    if isinstance(subject.before, Unavailable):
        return
    values = results(subject.before)
    if len(values) != len(subject.compiled.program.results):
        return
    root = subject.module.entry.root
    copies = _copies(root, len(values))
    equal = _first_equal(root, values) if copies else {}
    reused = {*reused_parameters(subject.module).values()}
    arguments = {a.parameter: a for a in subject.compiled.program.arguments if a.parameter is not None}
    unchanged: dict[str, list[tuple[int, int]]] = {}  # numbers of the parameter and of the result
    repeated, first = list[int](), dict[Value, int]()
    for number, value in enumerate(values):
        instruction = value.instruction
        parameter = None if value.calls else instruction.parameter_number
        if parameter in arguments and instruction.computation.is_entry:
            if number not in reused and number in copies and not arguments[parameter].donated:
                unchanged.setdefault(argument_root(arguments[parameter].path), []).append((parameter or 0, number))
        elif (instruction.opcode not in _FILLS and first.setdefault(value, number) != number and number in copies) or (
            equal.get(number, number) != number and number in copies
        ):
            repeated.append(number)
    for name, pairs in unchanged.items():
        yield _unchanged(subject, name, pairs, copies)
    if repeated:
        same = {number: first[values[number]] for number in repeated if first.get(values[number], number) != number}
        yield _repeated(
            subject, {number: same.get(number, equal.get(number, 0)) for number in repeated}, {*same}, copies
        )


def _unchanged(
    subject: Subject, root: str, pairs: Sequence[tuple[int, int]], copies: Mapping[int, Instruction]
) -> Finding:
    size = sum(copies[number].shape.byte_size for _, number in pairs)
    paths = {a.parameter: a.path for a in subject.compiled.program.arguments}
    added = [paths[parameter] for parameter, _ in pairs]
    name = root + common_path(added)
    where = common_path([subject.compiled.program.results[number].path for _, number in pairs])
    arrays = f"{counted(len(pairs), 'array')}, " if len(pairs) > 1 else ""
    before = subject.module if isinstance(subject.before, Unavailable) else subject.before
    donating = donation_code(subject.compiled.program.arguments, added, before.entry.parameters)
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    return subject.finding(
        KIND,
        f"`{name}` ({arrays}{format_bytes(size)}{per_device}) is returned unchanged as {f'result{where}' if where else 'the result'}:"
        " each execution copies it.",
        f"Do not return `{name}`: the caller has it. Or donate it: {donating}",
        instructions=_kernels([copies[number] for _, number in pairs]), saved_part=1.0,
        gain_bytes=subject.bytes_saved(size, without=[number for _, number in pairs]), has_estimated_bytes=subject.knows_buffers,
        caution="After a donation the caller cannot use the old arrays, only the returned ones.",
        edits=(Donate(tuple(sorted(pairs))),),
    )  # fmt: skip


def _repeated(
    subject: Subject, firsts: Mapping[int, int], same: Collection[int], copies: Mapping[int, Instruction]
) -> Finding:
    """Returns the finding for results that are in the program before.

    Args:
      subject: the program.
      firsts: the numbers of these results, with that of the first one that is equal.
      same: those that are the same value in the program. XLA merged the computations of the others.
      copies: the instructions that copy results.
    """
    program, numbers = subject.compiled.program, [*firsts]
    size = sum(copies[number].shape.byte_size for number in numbers)
    pairs = [
        f"result{program.results[number].path} {'is' if number in same else 'is computed as'} result{program.results[one].path}"
        for number, one in firsts.items()
    ]
    more = f", and {len(pairs) - _MOST_NAMED} more" if len(pairs) > _MOST_NAMED else ""
    written = [*_first_copies(subject, firsts)]
    inside = [copies[number] for number in numbers if copies[number].opcode == "get-tuple-element"]
    kernels = _kernels([*(copies[n] for n in numbers if copies[n].opcode != "get-tuple-element"), *written])
    saved = dict.fromkeys(kernels, _saved_part(subject, kernels, written))
    for each in inside:
        fusion = each.operands[0].name
        part = each.shape.byte_size / max(1.0, subject.accessed(fusion))
        saved[fusion] = min(1.0, saved.get(fusion, 0.0) + part)
    return subject.finding(
        KIND,
        f"{', '.join(pairs[:_MOST_NAMED])}{more}: each execution writes the same values again ({format_bytes(size)}).",
        "Return the array once.", saved=saved,
        gain_bytes=subject.bytes_saved(size, without=numbers), has_estimated_bytes=subject.knows_buffers, caution="The caller needs both if it donates one of them.",
        edits=(DropResults(tuple(numbers)),),
    )  # fmt: skip


def _kernels(copies: Sequence[Instruction]) -> list[str]:
    """Returns the names of copies and of what is fetched only for them."""
    return [*(each.name for each in copies), *fetches_for(copies)]


def _first_copies(subject: Subject, firsts: Mapping[int, int]) -> Iterator[Instruction]:
    """Yields the copies of first results from VMEM: a TPU writes a result that is returned once to the main memory directly."""
    root = subject.module.entry.root
    for one in {*firsts.values()}:
        done = root.operands[one]
        if done.opcode == "copy-done" and all(
            each.opcode in ("copy", "copy-start") for each in done.operands[0].operands[0].users
        ):
            yield done.operands[0]


def _saved_part(subject: Subject, kernels: Sequence[str], written: Iterable[Instruction]) -> float:
    """Returns the part of the time of kernels that is saved.

    Args:
      subject: the program.
      kernels: the copies.
      written: those of them whose arrays are then written by the kernels that compute them, which may take longer for it.
    """
    spent, peak = subject.seconds(kernels), subject.roofline.peak
    if isinstance(spent, Unavailable) or isinstance(peak, Unavailable) or not spent:
        return 1.0
    return max(0.0, 1 - sum(_longer_s(subject, peak, copy) for copy in written) / spent)


def _longer_s(subject: Subject, peak: Peak, copy: Instruction) -> float:
    """Returns the seconds that a kernel takes longer if it writes its result to the main memory, and not a copy of it."""
    maker = copy.operands[0]
    while maker.opcode in _FORWARDING:
        maker = maker.operands[0]
    write_s = subject.seconds([copy.name])
    if maker.name not in subject.points or isinstance(write_s, Unavailable):
        return 0.0
    units = subject.kernel_times(peak).of(maker).units
    return max(0.0, units.get("main memory", 0.0) + write_s - max(units.values(), default=0.0))


def _first_equal(root: Instruction, values: Sequence[Value]) -> dict[int, int]:
    """Returns the numbers of results that the compiler computes once, each with the number of the first that is equal.

    Arrays that only have equal values because they are new, such as zeros, are left out.
    """
    made = root.operands if root.opcode == "tuple" else ()
    first, found = dict[tuple[str, int], int](), dict[int, int]()
    for number, (value, result) in enumerate(zip(values, made, strict=False)):
        origin, element = _origin(result)
        if value.instruction.opcode not in _FILLS and origin.opcode != "parameter" and origin.operands:
            found[number] = first.setdefault((origin.name, element), number)
    return {number: one for number, one in found.items() if made[number].shape.dimensions == made[one].shape.dimensions}


def _origin(result: Instruction) -> tuple[Instruction, int]:
    """Follows a result through copies to the instruction that computes it, with the number of the element of its tuple or -1."""
    while True:
        opcode = result.opcode
        if (
            opcode in ("copy", "copy-start", "copy-done")
            or (opcode == "bitcast" and _keeps_order(result))
            or (opcode == "fusion" and _only_copies(result) and len(result.operands) == 1)
        ):
            result = result.operands[0]
        elif opcode == "get-tuple-element" and result.operands[0].opcode == "tuple":
            result = result.operands[0].operand(result.tuple_index)
        elif opcode == "get-tuple-element":
            copied = _copied_inside(result)
            return result.operands[0], result.tuple_index if copied is None else copied
        else:
            return result, -1


def _keeps_order(bitcast: Instruction) -> bool:
    """Reports whether a bitcast keeps the dimensions and their order, so that it is no transpose or reshape."""
    before, after = bitcast.operands[0].shape, bitcast.shape
    if before.layout is None or after.layout is None:
        return False
    return (before.without_layout(), before.layout.minor_to_major) == (
        after.without_layout(),
        after.layout.minor_to_major,
    )


def _copies(root: Instruction, count: int) -> dict[int, Instruction]:
    """Returns the results that a copy makes, by number, except for small ones."""
    made = root.operands if root.opcode == "tuple" else (root,)
    found = dict[int, Instruction]()
    for number, value in enumerate(made if len(made) == count else ()):
        maker = value
        while maker.opcode in _FORWARDING:
            maker = maker.operands[0]
        if maker.shape.byte_size < _LEAST_BYTES:
            continue
        if maker.opcode in ("copy", "copy-start") or (maker.opcode == "fusion" and _only_copies(maker)):
            found[number] = maker
        elif _copied_inside(value) is not None:
            found[number] = value
    return found


def _copied_inside(result: Instruction) -> int | None:
    """Returns the element of a fusion of which another element is a copy; None for others. XLA for GPUs writes both in one kernel."""
    fusion = result.operands[0] if result.opcode == "get-tuple-element" else result
    if fusion is result or fusion.opcode != "fusion" or fusion.called_computations[0].root.opcode != "tuple":
        return None
    made = fusion.called_computations[0].root.operands
    copy = made[result.tuple_index]
    while copy.opcode == "bitcast" and _keeps_order(copy):
        copy = copy.operands[0]
    if copy.opcode != "copy" or copy.operands[0].opcode == "parameter":
        return None
    return next((number for number, each in enumerate(made) if each is copy.operands[0]), None)


def _only_copies(fusion: Instruction) -> bool:
    opcodes = {each.opcode for each in fusion.called_computations[0].instructions}
    return "copy" in opcodes and opcodes <= {"parameter", "copy", "tuple", "bitcast"}
