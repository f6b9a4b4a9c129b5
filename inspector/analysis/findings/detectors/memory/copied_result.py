"""Results that are an argument as it came in, or another result once more: each execution copies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.findings.argument_names import argument_root, common_path, donation_code
from inspector.analysis.findings.dataflow import Value, results
from inspector.analysis.findings.edits import Donate
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
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
    copies = _copies(subject.module.entry.root, len(values))
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
        elif instruction.opcode not in _FILLS and first.setdefault(value, number) != number and number in copies:
            repeated.append(number)
    for root, pairs in unchanged.items():
        yield _unchanged(subject, root, pairs, copies)
    if repeated:
        yield _repeated(subject, repeated, [first[values[number]] for number in repeated], copies)


def _unchanged(
    subject: Subject, root: str, pairs: Sequence[tuple[int, int]], copies: Mapping[int, Instruction]
) -> Finding:
    size = sum(copies[number].shape.byte_size for _, number in pairs)
    paths = {a.parameter: a.path for a in subject.compiled.program.arguments}
    added = [paths[parameter] for parameter, _ in pairs]
    name = root + common_path(added)
    where = common_path([subject.compiled.program.results[number].path for _, number in pairs])
    arrays = f"{counted(len(pairs), 'array')}, " if len(pairs) > 1 else ""
    donating = donation_code(subject.compiled.program.arguments, added, subject.module.entry.parameters)
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    return subject.finding(
        KIND,
        f"`{name}` ({arrays}{format_bytes(size)}{per_device}) is returned unchanged as {f'result{where}' if where else 'the result'}:"
        " each execution copies it.",
        f"Do not return `{name}`: the caller has it. Or donate it: {donating}",
        instructions=[copies[number].name for _, number in pairs], saved_part=1.0, gain_bytes=size,
        caution="After a donation the caller cannot use the old arrays, only the returned ones.",
        edits=(Donate(tuple(sorted(pairs))),),
    )  # fmt: skip


def _repeated(
    subject: Subject, numbers: Sequence[int], firsts: Sequence[int], copies: Mapping[int, Instruction]
) -> Finding:
    program = subject.compiled.program
    size = sum(copies[number].shape.byte_size for number in numbers)
    pairs = [
        f"result{program.results[number].path} is result{program.results[one].path}"
        for number, one in zip(numbers, firsts, strict=True)
    ]
    more = f", and {len(pairs) - _MOST_NAMED} more" if len(pairs) > _MOST_NAMED else ""
    return subject.finding(
        KIND,
        f"{', '.join(pairs[:_MOST_NAMED])}{more}: each execution writes the same values again ({format_bytes(size)}).",
        "Return the array once.", instructions=[copies[number].name for number in numbers], saved_part=1.0, gain_bytes=size,
        caution="The caller needs both if it donates one of them.",
    )  # fmt: skip


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
    return found


def _only_copies(fusion: Instruction) -> bool:
    opcodes = {each.opcode for each in fusion.called_computations[0].instructions}
    return "copy" in opcodes and opcodes <= {"parameter", "copy", "tuple", "bitcast"}
