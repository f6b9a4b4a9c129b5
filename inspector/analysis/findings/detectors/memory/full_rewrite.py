"""State of which only a slice changes, but which is written as a whole: caches that are concatenated or masked.

`whole_writes.py` has the forms that are recognized. The cache may be a slice itself, which a loop takes and writes back
(`loop_slices.py`): that of each layer in a scan over layers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.cost.kernel_time import COMPUTING, CYCLES
from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value, results, source
from inspector.analysis.findings.dependence import needed
from inspector.analysis.findings.detectors.memory.loop_slices import (
    COPYING,
    VIEWS,
    initial,
    is_new,
    is_read_elsewhere,
    kernels_of_new_array,
    loop_slice,
    written_back,
)
from inspector.analysis.findings.detectors.memory.whole_writes import (
    IN_LOOP,
    LEAST_LENGTH,
    NARROW_UPDATE,
    RING,
    RING_UPDATE,
    UPDATE_EACH,
    UPDATES,
    Rewrite,
    is_result,
    rewritten,
)
from inspector.analysis.findings.edits import Edit, UpdateSlices
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.loops import carried_index
from inspector.hlo.module import Instruction
from inspector.hlo.source import merged_names
from inspector.support.units import counted, format_bytes

KIND = "full-rewrite"
_CUTTING = frozenset({"slice", "dynamic-slice", "bitcast", "parameter", "constant"})
_WRITING = ("select", "add", "concatenate", "convert", *UPDATES)
_CAUTION = "The slice is written in place only if the array is donated or carried by a loop. Otherwise it is copied."
_READ = (
    "The program also reads the array as it was before, and XLA may copy it for that: the proof shows whether it does."
)
_IN_CYCLES = "The kernel also computes with the array, and the compiler's cycles limit it: the proof shows how many of them the write takes."


def full_rewrite(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for all operations with the same name that write such arrays."""
    if subject.calls is None:
        return
    found: dict[str, list[Rewrite]] = {}
    for value, name in subject.calls.values(_WRITING):
        if math.prod(value.instruction.shape.dimensions) < LEAST_LENGTH:
            continue
        rewrite = rewritten(value)
        if rewrite is not None and (kept := _kept(rewrite)) is not None:
            found.setdefault(name, []).append(kept)
    for name, rewrites in found.items():
        if _is_slower(subject, name, rewrites[0]):
            yield _finding(subject, name, rewrites)


def _kept(rewrite: Rewrite) -> Rewrite | None:
    """Returns a rewrite whose array is a result, or is written back to where a loop took it; None for others."""
    part = loop_slice(rewrite.state)
    if part is None:
        return rewrite if is_result(rewrite.value) else None
    update = written_back(rewrite.value, part)
    if update is None or _is_read(rewrite) or is_read_elsewhere(part, update):  # XLA may copy the whole array for that
        return None
    remedy = IN_LOOP.get(rewrite.remedy, rewrite.remedy)
    return rewrite._replace(remedy=remedy, part=part, update=update)


def _is_slower(subject: Subject, name: str, rewrite: Rewrite) -> bool:
    """Reports whether an array is written more slowly than with the remedy on the program's platform.

    With a position for each example, it is a scatter, of which a TPU writes one after the other, in about 8 us each. An update in a wider type must
    convert the whole array: TPUs update the slice in place, and CPUs compute with wider floats anyway.
    """
    platform = subject.compiled.program.platform
    if rewrite.remedy in (UPDATE_EACH, IN_LOOP[UPDATE_EACH]):
        return platform != "tpu"
    if rewrite.remedy != NARROW_UPDATE:
        return True
    size = rewrite.value.instruction.shape.byte_size
    return platform != "cpu" and any(subject.accessed(kernel) >= size for kernel in subject.kernels.of([name]))


def _finding(subject: Subject, name: str, rewrites: Sequence[Rewrite]) -> Finding:
    first = max(rewrites, key=lambda each: each.value.instruction.shape.byte_size)
    value, length = first.value, first.length
    is_ring = first.remedy in (RING_UPDATE, IN_LOOP[RING_UPDATE])
    frames = value.instruction.frames or next((call.frames for call in reversed(value.calls) if call.frames), ())
    names = [*dict.fromkeys(each for rewrite in rewrites for each in rewrite.names)]
    kernels = list(subject.kernels.of(names))
    sizes = frozenset(_device_bytes(subject, each, name) for each in rewrites)
    rewriting, temporary, is_in_cycles = _rewriting_part(subject, kernels, names, sizes)
    copies = _copies(subject, kernels)
    updates = [each.update for each in rewrites if each.part and each.update and is_new(each.update, each.part)]
    made = [*kernels_of_new_array(subject, subject.kernels.of(map(full_name, updates)))]
    cut = _slices(subject, rewrites, kernels)
    copies = [*dict.fromkeys(each for each in (*copies, *made, *cut) if each not in kernels)]
    rewriting *= 1 - 1 / length
    spent, copied = _weight(subject, kernels), _weight(subject, copies)
    saved = (rewriting * spent + copied) / (spent + copied) if copied else rewriting
    is_read = any(map(_is_read, rewrites))
    is_upper_bound = is_in_cycles or is_read
    cautions = [
        text
        for is_said, text in ((True, _CAUTION), (is_ring, RING), (is_in_cycles, _IN_CYCLES), (is_read, _READ))
        if is_said
    ]
    copied_bytes = sum(_copied_bytes(subject.module.instruction(each)) for each in copies)
    return subject.finding(
        KIND, _title(subject, name, rewrites, first, is_ring=is_ring), first.remedy, instructions=[*kernels, *copies], frames=frames,
        saved_part=saved, is_upper_bound=is_upper_bound,
        gain_bytes=copied_bytes + (temporary if any(each.part for each in rewrites) else 0),
        caution=" ".join(cautions), edits=_edits(subject, name, rewrites) if all(each.is_provable for each in rewrites) else None,
    )  # fmt: skip


def _title(subject: Subject, name: str, rewrites: Sequence[Rewrite], first: Rewrite, *, is_ring: bool) -> str:
    shape, part = first.value.instruction.shape, first.part
    array = first.state if part is None else part.array
    argument = subject.argument(array) or ("" if part is None else subject.argument(initial(array) or array))
    which = f"`{argument}`" if argument else "An array that a loop carries"
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    size = f"{format_bytes(_device_bytes(subject, first, name))}{per_device}"
    what = f"{shape.element_type}[{','.join(map(str, shape.dimensions))}], {size}"
    count = len(rewrites) - 1
    others = f" and {'those of ' * (part is not None)}{counted(count, 'other array')}" * bool(count)
    is_one = part is None and not count
    if part is not None:
        which = f"The slices of {which if argument else 'an array that a loop carries'}"
        what = f"{what} each"
    return (
        f"{which} ({what}){others} {'is' if is_one else 'are'} written as a whole {first.how}, "
        f"though 1 of {first.length} parts {'is new' if is_ring else 'changes'}."
    )


def _copied_bytes(copy: Instruction) -> int:
    """Returns the bytes of main memory that a copy needs beside its result; 0 for other kernels.

    A copy from faster memory, such as a TPU's vector memory, only writes the result to main memory.
    """
    if copy.opcode not in COPYING:
        return 0
    copied = copy.operands[0].shape
    return 0 if copied.layout is not None and copied.layout.memory_space else copied.byte_size


def _slices(subject: Subject, rewrites: Iterable[Rewrite], kernels: Sequence[str]) -> list[str]:
    """Returns kernels that only cut slices for concatenations or updates in other kernels."""
    concatenated = (each.value for each in rewrites if each.value.instruction.opcode == "concatenate")
    names = [full_name(part) for each in concatenated for part in each.operands if part.instruction.opcode == "slice"]
    names += [full_name(each.part.taken) for each in rewrites if each.part and each.value.instruction.opcode in UPDATES]
    cut = [each for each in subject.kernels.of(names) if _only_cuts(subject.module.instruction(each))]
    return [each for each in cut if _readers(subject.module.instruction(each)) <= {*kernels}]


def _only_cuts(kernel: Instruction) -> bool:
    inside = kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)
    return all(each.opcode in _CUTTING for each in inside)


def _readers(kernel: Instruction) -> set[str]:
    """Returns the names of the instructions that use a kernel's result."""
    users, waiting = set[str](), [kernel]
    while waiting:
        for user in waiting.pop().users:
            if user.opcode in VIEWS:
                waiting.append(user)
            else:
                users.add(user.name)
    return users


def _device_bytes(subject: Subject, rewrite: Rewrite, name: str) -> int:
    """Returns the bytes of a device's part of an array that is written as a whole.

    It is that of the argument, or of the largest result with the name of the operation.
    """
    state = source(rewrite.state).instruction
    whole = rewrite.value.instruction.shape.byte_size
    if state.opcode == "parameter":
        parts = [p for p in subject.module.entry.parameters if p.parameter_number == state.parameter_number]
    else:
        parts = subject.kernels.named([name])
    return min(whole, max((each.shape.byte_size for each in parts), default=whole))


def _copies(subject: Subject, kernels: Sequence[str]) -> list[str]:
    """Returns the kernels that copy new versions into the memory of donated arguments or of what a loop carries.

    A concatenation that shifts an array cannot write into the memory that it reads, so that the new version is another array first.
    """
    found = dict[str, None]()
    for each in kernels:
        waiting = [subject.module.instruction(each)]
        while waiting:
            users = waiting.pop().users
            waiting += [user for user in users if user.opcode in VIEWS]
            found.update((user.name, None) for user in users if user.opcode in COPYING and _is_carried(user))
    return [each for each in found if each in subject.points]


def _is_carried(copy: Instruction) -> bool:
    """Reports whether a copy is a result of its computation."""
    return any(user.is_root or (user.opcode in VIEWS and _is_carried(user)) for user in copy.users) or copy.is_root


def _weight(subject: Subject, kernels: Sequence[str]) -> float:
    """Returns the time of kernels, or the bytes that they access without roofs."""
    seconds = subject.seconds(kernels)
    return sum(map(subject.accessed, kernels)) if isinstance(seconds, Unavailable) else seconds


def _is_read(rewrite: Rewrite) -> bool:
    """Reports whether something other than the rewrite reads the array as it was before."""
    value = rewrite.value
    own = {value, *value.operands}
    if value.instruction.opcode == "convert":  # of an update of the array in the wider type
        own.update(value.operand(0).operands)
    return any(use.user not in own for use in uses(source(rewrite.state)))


def _edits(subject: Subject, name: str, rewrites: Sequence[Rewrite]) -> tuple[Edit, ...]:
    """Returns the updates of the slices, which donate arguments that are returned."""
    arguments = {a.parameter: a for a in subject.compiled.program.arguments if a.parameter is not None}
    ended = [] if isinstance(subject.before, Unavailable) else [*results(subject.before)]
    pairs = list[tuple[int, int]]()
    for rewrite in rewrites:
        array = rewrite.state if rewrite.part is None else initial(rewrite.part.array) or rewrite.part.array
        instruction = source(array).instruction
        number = instruction.parameter_number
        argument = arguments.get(number) if number is not None and instruction.computation.is_entry else None
        result = next((n for n, each in enumerate(ended) if _is_version(each, rewrite)), None)
        if argument is not None and number is not None and not argument.donated and result is not None:
            pairs.append((number, result))
    return (UpdateSlices((name,), tuple(pairs)),)


def _is_version(result: Value, rewrite: Rewrite) -> bool:
    """Reports whether a result is the new version of an array, also if a loop updates slices of it."""
    if rewrite.update is None:
        return result == rewrite.value
    carried, instruction = rewrite.update.operand(0), result.instruction
    return (
        instruction.opcode == "get-tuple-element"
        and instruction.operands[0] == carried.calls[-1]
        and instruction.tuple_index == carried_index(carried.instruction)
    )


def _rewriting_part(
    subject: Subject, kernels: Sequence[str], names: Sequence[str], sizes: frozenset[int]
) -> tuple[float, int, bool]:
    """Returns the part of the kernels' time that the rewrite takes, the bytes of the new versions, and whether it is an upper bound.

    Without roofs it is the part of their bytes.

    A kernel that computes more still reads the arrays for that, and may be limited by what it computes. If the compiler's cycles limit it,
    no part of them is known to be the rewrite's: it is at most the time in which the arrays are read and written.

    Args:
      subject: the program.
      kernels: the kernels that write the arrays.
      names: the full names of the operations that write them.
      sizes: bytes of the arrays.
    """
    peak = subject.roofline.peak
    has_roofs = not isinstance(subject.seconds(kernels), Unavailable)
    saved, spent, temporary = 0.0, 0.0, 0
    is_upper_bound = False
    for each in kernels:
        kernel, point = subject.module.instruction(each), subject.points[each]
        runs = 1.0 if isinstance(point.executions, Unavailable) else float(point.executions)
        arrays = _accessed_arrays(kernel, names, sizes)
        temporary += arrays.temporary
        accessed = subject.accessed(each)
        moved = accessed if arrays.only else min(accessed, runs * (arrays.written + arrays.read - arrays.used))
        if not has_roofs or isinstance(peak, Unavailable) or isinstance(point.least_s, Unavailable):
            saved, spent = saved + moved, spent + accessed
            continue
        seconds = float(point.least_s)
        known = subject.kernel_times(peak).of(kernel)
        left_s = 0.0
        if not arrays.only:
            memory_s = known.units.get("main memory", 0.0) * (1 - moved / accessed if accessed else 1.0)
            left_s = runs * max(memory_s, *(known.units.get(unit, 0.0) for unit in COMPUTING))
            if known.unit == CYCLES:
                is_upper_bound = is_upper_bound or moved > 0.0
                left_s = max(left_s, seconds - moved / peak.memory_bytes_per_s)
        saved, spent = saved + max(0.0, seconds - left_s), spent + seconds
    return (min(1.0, saved / spent) if spent else 1.0), temporary, is_upper_bound


class _Arrays(NamedTuple):
    """The arrays of certain sizes that a kernel accesses.

    Attributes:
      only: whether it computes nothing but their new versions.
      written: bytes of the new versions.
      read: bytes of the arrays that it reads.
      used: bytes of those that its other results need.
      temporary: bytes of the new versions that it does not write into a larger array.
    """

    only: bool
    written: int
    read: int
    used: int
    temporary: int


def _accessed_arrays(kernel: Instruction, names: Collection[str], sizes: frozenset[int]) -> _Arrays:
    """Returns the arrays of certain sizes that a kernel reads and rewrites. They may be slices of larger arrays."""
    if kernel.opcode != "fusion":
        size = _written_bytes(kernel)
        is_only = size in sizes
        return _Arrays(is_only, size, size, 0 if is_only else 2 * size, 0)
    computation = kernel.called_computations[0]
    root = computation.root
    results = root.operands if root.opcode == "tuple" else (root,)
    alike = {r for r in results if _written_bytes(r) in sizes}
    written = {r for r in alike if _is_of(r, names)} or alike  # the compiler may give the results other names
    others = [r for r in results if r not in written]

    def read(values: Iterable[Instruction]) -> int:
        return sum(each.shape.byte_size for each in values if _is_input(each) and each.shape.byte_size in sizes)

    return _Arrays(
        only=not others,
        written=sum(map(_written_bytes, written)),
        read=read(computation.instructions),
        used=read(needed(others)),
        temporary=sum(each.shape.byte_size for each in written if each.shape.byte_size in sizes),
    )


def _is_input(value: Instruction) -> bool:
    """Reports whether an instruction of a kernel is an array that it reads, or a slice of one."""
    return value.opcode == "parameter" or (
        value.opcode == "dynamic-slice" and _unnamed(value.operands[0]).opcode == "parameter"
    )


def _written_bytes(result: Instruction) -> int:
    """Returns the bytes of a result that are written: those of the slice if it is updated in place."""
    result = _unnamed(result)
    return result.operands[1].shape.byte_size if result.opcode == "dynamic-update-slice" else result.shape.byte_size


def _unnamed(value: Instruction) -> Instruction:
    while value.opcode == "bitcast":
        (value,) = value.operands
    return value


def _is_of(result: Instruction, names: Collection[str]) -> bool:
    """Reports whether an instruction, past bitcasts, comes from one of the operations with the full names."""
    return any(name in names for name in merged_names(_unnamed(result).op_name))
