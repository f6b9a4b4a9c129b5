"""State of which only a slice changes, but which is written as a whole: caches that are concatenated or masked.

Four forms are recognized: `where(arange(n) == i, new, cache)`, `cache * (1 - one_hot) + new * one_hot`, a concatenation of slices of the
cache with new values, and a slice that is updated in a wider type than that of the cache. The cache may be a slice itself, which a loop
takes and writes back: that of each layer in a scan over layers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.cost.kernel_time import COMPUTING, CYCLES
from inspector.analysis.findings.before import MOVING, full_name, moved_from, uses
from inspector.analysis.findings.dataflow import Value, results, source
from inspector.analysis.findings.detectors.memory.loop_slices import (
    COPYING,
    VIEWS,
    LoopSlice,
    initial,
    is_new,
    is_read_elsewhere,
    kernels_of_new_array,
    loop_slice,
    written_back,
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
_LEAST_LENGTH = 8
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_CAUTION = "The slice is written in place only if the array is donated or carried by a loop. Otherwise it is copied."
_READ = (
    "The program also reads the array as it was before, and XLA may copy it for that: the proof shows whether it does."
)
_IN_CYCLES = "The kernel also computes with the array, and the compiler's cycles limit it: the proof shows how many of them the write takes."


class _Rewrite(NamedTuple):
    """An array that is written as a whole.

    Attributes:
      value: the operation that writes it.
      state: the array before.
      length: the number of parts of which one changes.
      how: how it is written, in words.
      remedy: code to write instead.
      is_provable: whether a proof can update the slice: it has one position, and the others stay.
      part: the slice of an array that the array is; None if it is a whole one.
      update: the update that writes the slice back.
    """

    value: Value
    state: Value
    length: int
    how: str
    remedy: str
    is_provable: bool
    part: LoopSlice | None = None
    update: Value | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of the operations that write the array."""
        return (full_name(self.value), *([] if self.update is None else [full_name(self.update)]))


def full_rewrite(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for all operations with the same name that write such arrays."""
    if subject.calls is None:
        return
    found: dict[str, list[_Rewrite]] = {}
    for value, name in subject.calls.values(("select", "add", "concatenate", "convert")):
        if math.prod(value.instruction.shape.dimensions) < _LEAST_LENGTH:
            continue
        rewrite = _rewritten(value)
        if rewrite is not None and (kept := _kept(rewrite)) is not None:
            found.setdefault(name, []).append(kept)
    for name, rewrites in found.items():
        if _is_slower(subject, name, rewrites[0]):
            yield _finding(subject, name, rewrites)


def _kept(rewrite: _Rewrite) -> _Rewrite | None:
    """Returns a rewrite whose array is a result, or is written back to where a loop took it; None for others."""
    part = loop_slice(rewrite.state)
    if part is None:
        return rewrite if _is_result(rewrite.value) else None
    update = written_back(rewrite.value, part)
    if update is None or _is_read(rewrite) or is_read_elsewhere(part, update):  # XLA may copy the whole array for that
        return None
    remedy = _IN_LOOP.get(rewrite.remedy, rewrite.remedy)
    return rewrite._replace(remedy=remedy, part=part, update=update)


def _is_slower(subject: Subject, name: str, rewrite: _Rewrite) -> bool:
    """Reports whether an array is written more slowly than with the remedy on the program's platform.

    With a position for each example, it is a scatter, of which a TPU writes one after the other, in about 8 us each. An update in a wider type must
    convert the whole array: TPUs update the slice in place, and CPUs compute with wider floats anyway.
    """
    platform = subject.compiled.program.platform
    if rewrite.remedy in (_UPDATE_EACH, _IN_LOOP[_UPDATE_EACH]):
        return platform != "tpu"
    if rewrite.remedy != _NARROW_UPDATE:
        return True
    size = rewrite.value.instruction.shape.byte_size
    return platform != "cpu" and any(subject.accessed(kernel) >= size for kernel in subject.kernels.of([name]))


def _finding(subject: Subject, name: str, rewrites: Sequence[_Rewrite]) -> Finding:
    first = max(rewrites, key=lambda each: each.value.instruction.shape.byte_size)
    value, length = first.value, first.length
    is_ring = first.remedy in (_RING_UPDATE, _IN_LOOP[_RING_UPDATE])
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
        for is_said, text in ((True, _CAUTION), (is_ring, _RING), (is_in_cycles, _IN_CYCLES), (is_read, _READ))
        if is_said
    ]
    copied_bytes = sum(_copied_bytes(subject.module.instruction(each)) for each in copies)
    return subject.finding(
        KIND, _title(subject, name, rewrites, first, is_ring=is_ring), first.remedy, instructions=[*kernels, *copies], frames=frames,
        saved_part=saved, is_upper_bound=is_upper_bound,
        gain_bytes=copied_bytes + (temporary if any(each.part for each in rewrites) else 0),
        caution=" ".join(cautions), edits=_edits(subject, name, rewrites) if all(each.is_provable for each in rewrites) else None,
    )  # fmt: skip


def _title(subject: Subject, name: str, rewrites: Sequence[_Rewrite], first: _Rewrite, *, is_ring: bool) -> str:
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


def _slices(subject: Subject, rewrites: Iterable[_Rewrite], kernels: Sequence[str]) -> list[str]:
    """Returns kernels that do nothing but cut slices for a concatenation by other kernels."""
    concatenated = (each.value for each in rewrites if each.value.instruction.opcode == "concatenate")
    names = [full_name(part) for each in concatenated for part in each.operands if part.instruction.opcode == "slice"]
    cut = [each for each in subject.kernels.of(names) if subject.module.instruction(each).opcode == "slice"]
    return [each for each in cut if _readers(subject.module.instruction(each)) <= {*kernels}]


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


def _device_bytes(subject: Subject, rewrite: _Rewrite, name: str) -> int:
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


def _is_read(rewrite: _Rewrite) -> bool:
    """Reports whether something other than the rewrite reads the array as it was before."""
    value = rewrite.value
    own = {value, *value.operands}
    if value.instruction.opcode == "convert":  # of an update of the array in the wider type
        own.update(value.operand(0).operands)
    return any(use.user not in own for use in uses(source(rewrite.state)))


def _edits(subject: Subject, name: str, rewrites: Sequence[_Rewrite]) -> tuple[Edit, ...]:
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


def _is_version(result: Value, rewrite: _Rewrite) -> bool:
    """Reports whether a result is the new version of an array, also if a loop updates slices of it."""
    if rewrite.update is None:
        return result == rewrite.value
    carried, instruction = rewrite.update.operand(0), result.instruction
    return (
        instruction.opcode == "get-tuple-element"
        and instruction.operands[0] == carried.calls[-1]
        and int(instruction.proto.tuple_index) == carried_index(carried.instruction)
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
        used=read(_needed(others)),
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


def _needed(results: Sequence[Instruction]) -> set[Instruction]:
    """Returns the instructions of a computation that some of its results depend on."""
    waiting, seen = [*results], set(results)
    while waiting:
        new = set(waiting.pop().operands) - seen
        seen |= new
        waiting += new
    return seen


def _rewritten(value: Value) -> _Rewrite | None:
    """Returns how an operation writes such an array; None for other operations."""
    opcode = value.instruction.opcode
    if opcode == "select":
        return _selected(value)
    if opcode == "convert":
        return _converted(value)
    return _added(value) if opcode == "add" else _concatenated(value)


_RING_UPDATE = (
    "jax.lax.dynamic_update_slice_in_dim(cache, new, i % length, axis)  # a ring buffer, with the cache donated"
)
_RING = "A ring buffer has the entries in another order."
_NARROW_UPDATE = (
    "jax.lax.dynamic_update_slice_in_dim(cache, new.astype(cache.dtype), i, axis)  # with the cache donated"
)
_UPDATE_EACH = (
    "jax.vmap(lambda cache, new, i: jax.lax.dynamic_update_index_in_dim(cache, new, i, axis))(cache, new, positions)"
    "  # with the cache donated"
)
_UPDATE = "jax.lax.dynamic_update_slice_in_dim(cache, new, i, axis)  # with the cache donated"
_IN_CARRY = "  # the caches of all layers, in the carry of the loop; then read caches[layer]"
_IN_LOOP = {
    _UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None], (layer, 0, i, 0)){_IN_CARRY}",
    _RING_UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None], (layer, 0, i % length, 0)){_IN_CARRY}",
    _UPDATE_EACH: f"caches.at[layer, jnp.arange(len(positions)), positions].set(new){_IN_CARRY}",
    _NARROW_UPDATE: f"jax.lax.dynamic_update_slice(caches, new[None].astype(caches.dtype), (layer, 0, i, 0)){_IN_CARRY}",
}


def _selected(value: Value) -> _Rewrite | None:
    mask, state = _one_hot(moved_from(value.operand(0))), value.operand(2)
    if mask is None or not _is_state(state, value):
        return None
    return _Rewrite(value, state, mask.length, "by a selection with a mask", mask.remedy, mask.is_single)


def _added(value: Value) -> _Rewrite | None:
    products = [operand for operand in value.operands if operand.instruction.opcode == "multiply"]
    if len(products) < 2:  # one for the old and one for the new values
        return None
    for old, new in (products, reversed(products)):
        states = [factor for factor in old.operands if _is_state(factor, value)]
        kept = [moved_from(factor) for factor in old.operands]
        masks = [factor for factor in kept if factor.instruction.opcode == "subtract"]
        hot = next(filter(None, (_one_hot(moved_from(factor)) for factor in new.operands)), None)
        if states and hot is not None and any(_one_hot(moved_from(mask.operand(1))) == hot for mask in masks):
            return _Rewrite(value, states[0], hot.length, "by products with a one-hot mask", hot.remedy, hot.is_single)
    return None


def _converted(value: Value) -> _Rewrite | None:
    """Returns the rewrite of an array that is converted to another type, updated, and converted back."""
    if value.instruction.operands[0].opcode not in _UPDATES | {"call"}:  # most conversions
        return None
    update = value.operand(0)
    if update.instruction.opcode not in _UPDATES:
        return None
    wide, new = update.operand(0), update.operand(1 if update.instruction.opcode == "dynamic-update-slice" else 2)
    if wide.instruction.opcode != "convert":
        return None
    state, shape = wide.operand(0), value.instruction.shape
    length = math.prod(shape.dimensions) // max(1, math.prod(new.instruction.shape.dimensions))
    if (
        length < _LEAST_LENGTH
        or not _is_state(state, value)
        or state.instruction.shape.element_type != shape.element_type
    ):
        return None
    how = f"by a conversion to {wide.instruction.shape.element_type} and back"
    return _Rewrite(value, state, length, how, _NARROW_UPDATE, is_provable=False)


def _concatenated(value: Value) -> _Rewrite | None:
    (axis,) = value.instruction.dimensions
    whole = value.instruction.shape.dimensions
    parts = [*value.operands]
    slices = [part for part in parts if part.instruction.opcode == "slice"]
    states = {part.operand(0) for part in slices if _is_state(part.operand(0), value)}
    if len(states) != 1:
        return None
    (state,) = states
    new = [part for part in parts if part not in slices or part.operand(0) != state]
    changed = sum(part.instruction.shape.dimensions[axis] for part in new)
    if not changed or whole[axis] < _LEAST_LENGTH or changed > whole[axis] // _LEAST_LENGTH:
        return None
    starts = [int(part.instruction.proto.slice_dimensions[axis].start) for part in slices if part not in new]
    is_shifted = len(starts) == 1 and bool(starts[0]) == (parts[-1] in new)
    how = "by a concatenation that shifts it" if is_shifted else "by a concatenation"
    remedy = _RING_UPDATE if is_shifted else _UPDATE
    return _Rewrite(value, state, whole[axis] // changed, how, remedy, not is_shifted)


class _Mask(NamedTuple):
    """A mask that is true at one of `length` positions; everywhere at the same one if `is_single`."""

    length: int
    is_single: bool

    @property
    def remedy(self) -> str:
        """The update of the slice: at one position, or at one of each example."""
        return _UPDATE if self.is_single else _UPDATE_EACH


def _one_hot(mask: Value) -> _Mask | None:
    """Returns a mask that is true at one position, which is positions compared with an index; None for others."""
    while mask.instruction.opcode == "convert":
        mask = moved_from(mask.operand(0))
    if mask.instruction.opcode != "compare" or mask.instruction.proto.comparison_direction != "EQ":
        return None
    sides = [*mask.operands]
    counters = [side for side in sides if _count(side)]
    if len(counters) != 1:
        return None
    (index,) = (side for side in sides if side is not counters[0])
    length = _count(counters[0])
    is_index = _fewest(index) * length <= math.prod(mask.instruction.shape.dimensions)
    return _Mask(length, _fewest(index) == 1) if is_index and length >= _LEAST_LENGTH else None


def _count(side: Value) -> int:
    """Returns the number of positions that a side of a comparison counts; 0 if it does not, or if it is one of them."""
    counter = moved_from(side).instruction
    if counter.opcode != "iota":
        return 0
    (axis,) = counter.dimensions or (0,)
    length = counter.shape.dimensions[axis]
    return length if _fewest(side) >= length else 0


def _fewest(value: Value) -> int:
    """Returns the smallest number of elements of a value and of those that it is moved from."""
    fewest = math.prod(value.instruction.shape.dimensions)
    while value.instruction.opcode in MOVING:
        value = value.operand(0)
        fewest = min(fewest, math.prod(value.instruction.shape.dimensions))
    return fewest


def _is_state(state: Value, result: Value) -> bool:
    """Reports whether a value is an argument of the program or carried by a loop, or a slice of one, with the shape of the result."""
    part = loop_slice(state)
    instruction = source(state if part is None else part.array).instruction
    is_kept = (instruction.opcode == "parameter" and instruction.computation.is_entry) or (
        instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "parameter"
    )
    return is_kept and source(state).instruction.shape.dimensions == result.instruction.shape.dimensions


def _is_result(value: Value) -> bool:
    return any(use.user is None for use in uses(value))
