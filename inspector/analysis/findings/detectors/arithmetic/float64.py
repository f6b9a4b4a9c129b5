"""64-bit floats in a program whose large arguments are all narrower: a NumPy array or scalar, or a dtype, widened them by accident."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from inspector.analysis.cost.dot_algorithms import Algorithm, by_type
from inspector.analysis.findings.before import frames_of, moved_from, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import SingleFloats
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape
from inspector.hlo.source import Frame, line_text, merged_names, own_frame
from inspector.support.units import format_list

KIND = "float64"
_WIDE = frozenset({"f64", "c128"})
_WIDE_TYPES = frozenset({"float64", "complex128"})
_FLOAT_TYPES = _WIDE_TYPES | {"bfloat16", "float16", "float32", "complex64"}
_MOVED = frozenset({"parameter", "constant", "broadcast", "tuple", "get-tuple-element", "call", "while", "conditional"})
_PASSED = frozenset({"parameter", "bitcast", "tuple", "constant"})
_CAUTION = "Keep it if sums or differences need the digits."
_IN_PARTS = " XLA adds up a product in parts, and may choose more of them in 32 bits, which then gain less."
_IN_PAIRS = " TPUs compute a 64-bit float as a pair of 32-bit ones. The gain is a rough estimate: prove it."
_NOT_COMPUTED = frozenset({"constant", "iota", "convert", "parameter"})
_BITS = ("u32", "u64")
_NAMED = 3
_OF_PAIRS = 0.05  # time of an operation on one float32, relative to that on a pair
_FEWEST = 64  # elements; scalars in 64 bits cost little
_FAR_SMALLER = 64  # times fewer elements


def float64(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for a program that computes in 64-bit floats although its large arguments are narrower."""
    if isinstance(subject.before, Unavailable):
        return
    if _takes_wide(subject.compiled.program.arguments):
        return
    written = [i for i in _wide(subject.before) if i.opcode not in _MOVED and not _is_sum(i)]
    computing = _emulating(subject, written) if subject.compiled.program.platform == "tpu" else _wide(subject.module)
    kernels = dict.fromkeys(name for each in computing if (name := subject.kernels.kernel(each)) is not None)
    if not written or not kernels:
        return
    bits = {name: _random_bits(subject, name) for name in kernels} if subject.compiled.program.platform == "gpu" else {}
    kernels |= dict.fromkeys(maker for makers in bits.values() for maker in makers)
    known = [name for name in kernels if not isinstance(subject.seconds([name]), Unavailable)]
    origins = [i for i in written if not any(_has_wide(operand.shape) for operand in i.operands)]
    origins = [i for i in origins if not _is_inherited(i)] or origins
    first = next((i for i in (*origins, *written) if _lines(i)), written[0])
    lines = [*_lines(first), *(frames for i in origins if i is not first for frames in _lines(i))]
    frames = lines[0] if lines else ()
    own_place = line_text(frames, is_short=True)
    others = [
        place
        for place in dict.fromkeys(line_text(each, is_short=True) for each in lines)
        if place not in ("", own_place)
    ]
    taken = [f"`{a.path}`" for a in subject.compiled.program.arguments if a.dtype in _WIDE_TYPES and a.shape]
    what = first.op_name.rpartition("/")[2] or first.opcode
    title = (
        f"The program computes in 64-bit floats, although its large arguments are narrower. `{what}` makes the first array of them,"
        f" {first.shape.element_type}[{','.join(map(str, first.shape.dimensions))}]."
        + (f" Others are made at {format_list([*others], _NAMED)}." if others else "")
        + (f" {format_list(taken, _NAMED)} {'is' if len(taken) == 1 else 'are'} passed in 64 bits." if taken else "")
    )
    saved_part = (
        _emulated_part(subject, computing, known or [*kernels])
        if subject.compiled.program.platform == "tpu"
        else _saved_part(subject, known or [*kernels], bits)
    )
    in_pairs = _IN_PAIRS * (subject.compiled.program.platform == "tpu")
    in_parts = any(_is_of_parts(subject.module.instruction(name)) for name in kernels)
    yield subject.finding(
        KIND, title,
        f".astype(jnp.float32), or dtype=jnp.float32, for the 64-bit array of {'each of these lines' if others else 'this line'}"
        + f", and for {format_list(taken, _NAMED)}" * bool(taken),
        instructions=known or kernels, frames=frames, saved_part=saved_part,
        gain_bytes=_saved_bytes(subject), is_upper_bound=in_parts, edits=(SingleFloats(),), caution=_CAUTION + in_pairs + _IN_PARTS * in_parts,
    )  # fmt: skip


def _takes_wide(arguments: Iterable[Argument]) -> bool:
    """Reports whether arguments in 64 bits show that they are wanted: arrays that are not far smaller than those in fewer bits."""
    sizes = {True: 0, False: 0}
    for each in arguments:
        if each.dtype in _FLOAT_TYPES:
            is_wide = each.dtype in _WIDE_TYPES
            sizes[is_wide] = max(sizes[is_wide], math.prod(each.shape))
    return sizes[True] >= max(_FEWEST, sizes[False] / _FAR_SMALLER)


def _saved_bytes(subject: Subject) -> int:
    """Returns half of the bytes of the 64-bit arrays that are in memory at the peak."""
    saved = 0
    for name, size in (subject.at_peak or {}).items():
        made = subject.module.instruction(name)
        leaves = [*made.shape.leaves]
        wide = sum(each.byte_size for each in leaves if each.element_type in _WIDE)
        if wide and made.opcode != "parameter":
            saved += size * wide // (2 * sum(each.byte_size for each in leaves))
    return saved


def _lines(instruction: Instruction) -> list[tuple[Frame, ...]]:
    """Returns the call stacks of an instruction: its own, or those of the calls of its function if it has none."""
    found, waiting, seen = list[tuple[Frame, ...]](), [instruction], set[int]()
    while waiting:
        each = waiting.pop()
        if each.row in seen:
            continue
        seen.add(each.row)
        if each.frames:
            found.append(each.frames)
        else:
            waiting += each.module.callers.get(each.computation.name, ())
    return sorted(found, key=lambda frames: (frames[0].file, frames[0].line))


def _is_inherited(origin: Instruction) -> bool:
    """Reports whether an array is only converted because it is combined with computed arrays that are wide already."""
    users = [use.user for use in uses(Value(origin))] if origin.opcode == "convert" else []
    return bool(users) and all(
        user is not None
        and any(
            _has_wide(each.instruction.shape)
            and each.instruction is not origin
            and moved_from(each).instruction.opcode not in _NOT_COMPUTED
            for each in user.operands
        )
        for user in users
    )


def _is_sum(instruction: Instruction) -> bool:
    """Reports whether an array is only converted to be summed in 64 bits, or is such a sum or mean: its digits are wanted."""
    if instruction.opcode == "reduce":
        return _adds(instruction) and _is_sum(instruction.operands[0])
    if instruction.opcode == "divide":
        return (
            _is_sum(instruction.operands[0])
            and moved_from(Value(instruction.operands[1])).instruction.opcode == "constant"
        )
    if instruction.opcode != "convert" or _has_wide(instruction.operands[0].shape):
        return False
    users = [use.user for use in uses(Value(instruction))]
    return bool(users) and all(user is not None and _adds(user.instruction) for user in users)


def _adds(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "reduce"
        and instruction.to_apply is not None
        and instruction.to_apply.root.opcode == "add"
    )


def _random_bits(subject: Subject, name: str) -> list[str]:
    """Returns the kernels that make random bits, and numbers of them, for a kernel on a GPU.

    The two halves of 64 random bits are arrays that XLA for GPUs writes to memory. 32 bits are made in the kernel that needs them.
    """
    kernel, found = subject.module.instruction(name), dict[str, None]()
    if kernel.opcode != "fusion" or kernel.shape.is_tuple:
        return []
    elements = math.prod(kernel.shape.dimensions)
    for operand in kernel.operands:
        maker = operand.operands[0] if operand.opcode == "get-tuple-element" else operand
        readers = [u for user in maker.users for u in (user.users if user.opcode == "get-tuple-element" else (user,))]
        if (
            maker.name in subject.points
            and maker.opcode == "fusion"
            and all(each is kernel for each in readers)
            and {*_BITS} & (types := {each.element_type for each in maker.shape.leaves})
            and types <= {*_BITS, "f64"}
            and all(math.prod(each.dimensions) == elements for each in maker.shape.leaves)
        ):
            found[maker.name] = None
    return [*found]


def _saved_with_bits(subject: Subject, name: str, makers: Sequence[str]) -> float:
    """Returns the seconds that a kernel and those of its random bits save with 32 of them: one kernel is left."""
    peak = subject.roofline.peak
    spent = subject.seconds([name, *makers])
    if isinstance(peak, Unavailable) or isinstance(spent, Unavailable) or not subject.accessed(name):
        return 0.0
    times, runs = subject.kernel_times(peak), subject.points[name].executions
    kernel, of_bits = (subject.module.instruction(name), [subject.module.instruction(each) for each in makers])
    after = {unit: seconds / 2 for unit, seconds in times.of(kernel).units.items()}
    for each in of_bits:
        for unit, seconds in times.of(each).units.items():
            after[unit] = after.get(unit, 0.0) + seconds
    count = 1.0 if isinstance(runs, Unavailable) else float(runs) or 1.0
    moved = subject.accessed(name) / count - sum(each.shape.byte_size for each in of_bits)
    after["main memory"] = (moved - _wide_bytes(kernel) / 2) / peak.memory_bytes_per_s
    return max(0.0, spent - count * max(after.values()))


def _saved_part(subject: Subject, kernels: Sequence[str], bits: Mapping[str, Sequence[str]]) -> float:
    """Returns the part of the kernels' time, or of their bytes without roofs, that 32-bit floats would save.

    A kernel that only converts is not needed. Others access half of their 64-bit arrays, compute twice as fast on the vector unit, and at the
    rate of 32-bit products on the matrix unit.

    Args:
      subject: the program.
      kernels: the kernels that compute in 64 bits, and those of their random bits.
      bits: for kernels, those that make their random bits.
    """
    spent = saved = 0.0
    for each in kernels:
        time_s = subject.seconds([each])
        weight = subject.accessed(each) if isinstance(time_s, Unavailable) else float(time_s)
        spent += weight
        if any(each in makers for makers in bits.values()):
            continue
        if bits.get(each):
            saved += _saved_with_bits(subject, each, bits[each])
            continue
        saved += weight * _part_of_time(subject, each, _part(subject, each))
    return saved / spent if spent else 0.5


def _emulated_part(subject: Subject, computing: Iterable[Instruction], kernels: Sequence[str]) -> float:
    """Returns the part of the kernels' time that a TPU needs for pairs of float32, which are more than ten operations for each one."""
    counts = collections.Counter(subject.kernels.kernel(each) for each in computing if each.opcode not in _PASSED)
    spent = saved = 0.0
    for each in kernels:
        time_s = subject.seconds([each])
        weight = subject.accessed(each) if isinstance(time_s, Unavailable) else float(time_s)
        kernel = subject.module.instruction(each)
        inside = kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)
        every = sum(instruction.opcode not in _PASSED for instruction in inside)
        spent += weight
        # half of the bytes, but almost none of the operations are left
        part = 0.5 if subject.points[each].bound_by == "memory" else 1 - _OF_PAIRS
        saved += weight * part * min(1.0, counts[each] / max(1, every))
    return saved / spent if spent else 0.5


def _part_of_time(subject: Subject, name: str, of_bytes: float) -> float:
    """Returns the part of a kernel's time that it saves, with that of its bytes."""
    peak, point = subject.roofline.peak, subject.points[name]
    if isinstance(peak, Unavailable) or isinstance(point.least_s, Unavailable):
        return 0.5
    if point.bound_by == "memory":
        return of_bytes
    kernel = subject.module.instruction(name)
    units = subject.kernel_times(peak).of(kernel).units
    longest_s = max(units.values(), default=0.0)
    rates = [by_type(each, 0, peak) for each in ("f64", "f32")]
    parts = {"main memory": 1 - of_bytes}
    if all(isinstance(each, Algorithm) for each in rates):
        wide_s, narrow_s = (a.passes / peak.flops_per_s[a.peak_name] for a in rates if isinstance(a, Algorithm))
        parts["matrix unit"] = _part_of_products(subject, kernel, narrow_s / wide_s)
    computed = 1 - 0.5 * _wide_part(kernel)
    after_s = max((parts.get(unit, computed) * seconds for unit, seconds in units.items()), default=0.0)
    return 1 - after_s / longest_s if longest_s else 0.5


def _inside(kernel: Instruction) -> Sequence[Instruction]:
    return kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)


def _wide_part(kernel: Instruction) -> float:
    """Returns the fraction of a kernel's operations, except products, that are in 64 bits, weighted by result elements."""
    chosen = [each for each in _inside(kernel) if each.opcode not in (*PRODUCTS, *_PASSED)]
    every = sum(_elements(each) for each in chosen)
    return sum(_elements(each) for each in chosen if _has_wide(each.shape)) / every if every else 1.0


def _part_of_products(subject: Subject, kernel: Instruction, narrow: float) -> float:
    """Returns the time of a kernel's products in 32 bits, relative to their present types.

    Args:
      subject: the program.
      kernel: the kernel.
      narrow: the time of a product in 32 bits, relative to that of one in 64 bits.
    """
    wide_flops = other_flops = 0.0
    for each in _inside(kernel):
        if each.opcode in PRODUCTS:
            flops = subject.costs[each.name].flops
            if isinstance(flops, Unavailable):
                return narrow
            wide_flops += float(flops) * _has_wide(each.shape)
            other_flops += float(flops) * (not _has_wide(each.shape))
    spent = wide_flops + other_flops * narrow
    return (wide_flops + other_flops) * narrow / spent if spent else narrow


def _elements(instruction: Instruction) -> int:
    return sum(math.prod(each.dimensions) for each in instruction.shape.leaves)


def _part(subject: Subject, name: str) -> float:
    """Returns the part of the bytes of a kernel that 32-bit floats would save."""
    kernel, runs = subject.module.instruction(name), subject.points[name].executions
    inside = kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)
    opcodes = {each.opcode for each in inside} - _PASSED
    if opcodes == {"convert"}:
        return 1.0
    accessed = subject.accessed(name) / (1.0 if isinstance(runs, Unavailable) else float(runs) or 1.0)
    if not accessed:
        return 0.5
    wide = sum(map(_wide_bytes, (*dict.fromkeys(kernel.operands), kernel)))
    return min(0.5, wide / 2 / accessed)


def _wide_bytes(instruction: Instruction) -> int:
    return sum(each.byte_size for each in instruction.shape.leaves if each.element_type in _WIDE)


def _is_of_parts(kernel: Instruction) -> bool:
    """Reports whether a kernel computes a product in parts that another kernel adds up.

    XLA may choose another number of parts for narrower operands.
    """
    if kernel.opcode != "fusion":
        return False
    root = kernel.called_computations[0].root
    while root.opcode == "bitcast":
        root = root.operands[0]
    if root.opcode != "dot":
        return False
    inside = (
        each for user in kernel.users if user.opcode == "fusion" for each in user.called_computations[0].instructions
    )
    return any(each.opcode == "reduce" and each.op_name == root.op_name for each in inside)


def _emulating(subject: Subject, written: Iterable[Instruction]) -> list[Instruction]:
    """Returns the instructions that compute the operations of `written` on a TPU: with pairs of float32."""
    rows = {each.row: each for each in written}
    wanted = {
        (name, own_frame(frames_of(value)))
        for value, name in (subject.calls.values({each.opcode for each in rows.values()}) if subject.calls else ())
        if value.instruction.row in rows
    }
    return [
        each
        for each in subject.kernels.named(name for name, _ in wanted)
        if any((name, own_frame(each.frames)) in wanted for name in merged_names(each.op_name))
    ]


def _wide(module: Module) -> list[Instruction]:
    """Returns the instructions whose results are arrays of 64-bit floats."""
    wide = [code for code, shape in enumerate(module.known_shapes) if _has_wide(shape)]
    return [module.at(int(row)) for row in np.flatnonzero(np.isin(module.columns.shapes.codes, wide))]


def _has_wide(shape: Shape) -> bool:
    """Reports whether a shape has an array of 64-bit floats."""
    return any(s.element_type in _WIDE and math.prod(s.dimensions) >= _FEWEST for s in shape.leaves)
