"""Work that `jax.checkpoint` repeats in the backward pass, on a device with room for the values that it would keep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.findings.before import MOVING
from inspector.analysis.findings.detectors.memory.needed_products import NeededProducts, result_elements
from inspector.analysis.findings.edits import TraceAgain
from inspector.analysis.findings.exchange_chains import is_by_element, readers_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.what_if import WhatIf
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame, line_text, own_frame, phases
from inspector.platforms import Peak
from inspector.support.machine_memory import machine_memory
from inspector.support.units import counted, format_bytes

KIND = "recomputed"
# Of the time of the recomputed products: other kernels are fused in another way if their values are kept, and a program that the
# partitioner splits may exchange more.
_LEAST_SAVED, _LEAST_SAVED_SPLIT = 0.25, 0.6
_MOST_KEPT_ON_CPUS = 0.1  # of the peak memory
_ROOM = 0.8  # of the device's memory, after the values are kept
_RECOMPUTED = ("recomputed",)
_MOVES_IN_LOOP = 3  # of each value that is kept: it is written, read, and the stacked array is filled with zeros first
_HIDDEN_MOVES = 2  # of these, if XLA writes stacked arrays beside the products: the slice is read and written
_MOVES_IN_LOOP_OF_TPU = (
    5  # by libtpu's cycles on v5e, slices of stacked arrays are read at a fifth of the memory's rate
)
_MOVES_OF_FUNCTION = (
    2  # a GPU writes and reads a product that it keeps before it computes the function in another kernel
)
# For each element of a kept value. A TPU hides that it writes and reads the value behind the products, unless it takes as long: on v5e,
# products of 1,024 features gain, and those of 512 in bfloat16 and of 768 in float32 do not.
_BYTES_OF_TPUS = {"f32": 6, "bf16": 4}
_REMEDY = "jax.checkpoint(f, policy=jax.checkpoint_policies.{})  # keeps the products{}"
_ALL, _OF_WEIGHTS, _NO_CHECKPOINT = "dots_saveable", "dots_with_no_batch_dims_saveable", "none"
"""Policies that keep the results of all products, or not those of batched ones, such as the scores of an attention; or no checkpoint."""

_REMEDY_WITHOUT = "f(...)  # without jax.checkpoint, which also repeats the operations between the products"
_LEAST_RATIO = 1.2  # of the gain without a checkpoint to that of a policy, which keeps less in memory
_FREE = frozenset({"parameter", "constant", "broadcast", "bitcast", "get-tuple-element", "tuple", "iota"})


class _Kept(NamedTuple):
    """The results that a policy keeps, and the work that it saves.

    Attributes:
      policy: its name in `jax.checkpoint_policies`.
      kernels: the part of each kernel that is then not repeated, from 0 to 1, by name.
      kept: bytes of the results that it keeps.
      moved: bytes that kernels then access to keep them.
      maybe_moved: bytes that they access besides, unless the compiler hides it.
      is_upper_bound: whether less may be saved.
    """

    policy: str
    kernels: Mapping[str, float]
    kept: float
    moved: float
    maybe_moved: float
    is_upper_bound: bool

    def spent_s(self, subject: Subject) -> float:
        """Returns the seconds of the work that is not repeated."""
        parts = ((part, subject.seconds([name])) for name, part in self.kernels.items())
        return sum(part * seconds for part, seconds in parts if not isinstance(seconds, Unavailable))

    def saved_s(self, subject: Subject, peak: Peak) -> float:
        """Returns the seconds that are saved, less those in which kernels access what is kept."""
        return self.spent_s(subject) - self.moved / peak.memory_bytes_per_s


def recomputed(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for the products that the program recomputes, if their results fit into the device's memory."""
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable) or not subject.peak_bytes:
        return
    room = _memory(subject, peak)
    if isinstance(room, Unavailable):
        return
    found = products(subject.module).instructions
    again = [each for each in found if phases(each.op_name) == _RECOMPUTED]
    batched = _batched(subject) if again else frozenset[str]()
    of_weights = [each for each in again if each.op_name not in batched]
    policies = [(_ALL, again)]
    if of_weights and len(of_weights) < len(again):
        policies.append((_OF_WEIGHTS, of_weights))
    if subject.compiled.program.platform == "tpu":
        policies.reverse()  # TPUs take longer to keep the scores of an attention than to compute them again
    possible = (_kept(subject, peak, found, kept_products, policy) for policy, kept_products in policies)
    best = next((kept for kept in possible if kept is not None and _is_worth(subject, peak, room, kept)), None)
    whole = _without_checkpoint(subject) if subject.compiled.program.platform == "gpu" else None
    if whole is not None and _is_worth(subject, peak, room, whole):
        least_s = 0.0 if best is None else _LEAST_RATIO * best.saved_s(subject, peak)
        best = whole if whole.saved_s(subject, peak) > least_s else best
    if best is not None:
        yield _finding(subject, peak, room, best)


def _without_checkpoint(subject: Subject) -> _Kept | None:
    """Returns all kernels and collectives that only repeat the forward pass; None if some are in a loop, which would stack their results.

    Without a checkpoint, their results are kept. XLA for GPUs then needs about the time of these kernels less, by compiles of seven kinds of layers.
    """
    kernels, kept = dict[str, float](), 0.0
    for name, point in subject.points.items():
        instruction = subject.module.instruction(name)
        inside = instruction.called_computations[0].instructions if instruction.opcode == "fusion" else (instruction,)
        if {phases(each.op_name) for each in inside if each.op_name and each.opcode not in _FREE} != {_RECOMPUTED}:
            continue
        if point.executions != 1:
            return None
        kernels[name] = 1.0
        kept += instruction.shape.byte_size
    return _Kept(_NO_CHECKPOINT, kernels, kept, 0.0, 0.0, is_upper_bound=False) if kernels else None


def _batched(subject: Subject) -> frozenset[str]:
    """Returns the names of products with a batch dimension."""
    values = subject.calls.values(("dot",)) if subject.calls is not None else ()
    return frozenset(name for each, name in values if each.instruction.proto.dot_dimension_numbers.lhs_batch_dimensions)


def _is_worth(subject: Subject, peak: Peak, room: int, kept: _Kept) -> bool:
    """Reports whether there is room for what a policy keeps, and whether that takes less time than the work which it saves."""
    if not kept.kernels or not kept.kept or subject.peak_bytes + kept.kept > _ROOM * room:
        return False
    spent = kept.spent_s(subject)
    least = spent - (kept.moved + kept.maybe_moved) / peak.memory_bytes_per_s
    is_partitioned = any(each.inserted_by == "partitioner" for each in subject.collectives)
    return bool(spent) and least >= spent * (_LEAST_SAVED_SPLIT if is_partitioned else _LEAST_SAVED)


def _kept(
    subject: Subject, peak: Peak, found: Iterable[Instruction], again: Sequence[Instruction], policy: str
) -> _Kept | None:
    """Returns what a policy keeps that does not repeat some products; None if it is unknown, or too large for a CPU.

    Args:
      subject: the program.
      peak: the figures of its chip.
      found: all products of the optimized HLO.
      again: those that are repeated, and whose results the policy keeps.
      policy: its name.
    """
    kernels, kept, moved, maybe_moved = dict[str, float](), 0.0, 0.0, 0.0
    is_upper_bound = False
    platform = subject.compiled.program.platform
    is_gpu, is_tpu = platform == "gpu", platform == "tpu"
    forward = _Forward(subject, found if again and (is_gpu or is_tpu) else ())
    is_cpu = platform == "cpu" and isinstance(peak.memory_bytes, Unavailable)  # and not another chip's figures
    repeated = _repeated_lines(subject, found) if again and is_cpu else frozenset[Frame | None]()
    merged = _Merged(subject) if again else None
    needed = NeededProducts(subject) if again else None
    writes_beside = _writes_beside(subject.module)
    for product in again:
        kernel = subject.kernels.kernel(product)
        if kernel is None:
            continue
        runs = subject.points[kernel].executions
        if isinstance(runs, Unavailable):
            return None
        if is_cpu and own_frame(product.frames) not in repeated:
            continue
        if is_tpu and runs > 1 and forward.part_with_function(product):
            continue  # a kernel of its own stacks the product, and another one copies it: that takes longer than the product
        part = merged.recomputed_part(product) if merged else 1.0
        if needed is not None and not needed.has(product):
            kernels[kernel] = max(part, kernels.get(kernel, 0.0))
            is_upper_bound = True  # XLA may have fused it with a product that is kept
            continue  # nothing of it is kept
        size = float(runs) * product.shape.byte_size * part
        kept += size
        if is_gpu and subject.kernel_times(peak).of(subject.module.instruction(kernel)).unit == "main memory":
            is_upper_bound = True  # such as an attention: XLA may fuse less if its values are kept
        kernels[kernel] = max(part, kernels.get(kernel, 0.0))
        moves = float(
            (_MOVES_IN_LOOP_OF_TPU if is_tpu else _MOVES_IN_LOOP - _HIDDEN_MOVES * writes_beside) if runs > 1 else 0
        )
        if not is_gpu and (runs > 1 or product.shape.element_type == "f32"):
            is_upper_bound = True
        if not is_gpu and runs == 1:
            maybe_moved += _BYTES_OF_TPUS.get(product.shape.element_type, 6) * math.prod(product.shape.dimensions)
        if is_gpu:
            moves += _MOVES_OF_FUNCTION * forward.part_with_function(product)
        if is_gpu and runs == 1:
            moves -= _saved_moves(subject.module.instruction(kernel), part)
        moved += size * moves
    if is_cpu and kept > _MOST_KEPT_ON_CPUS * subject.peak_bytes:
        return None  # CPUs take long to write and read large arrays, and the checkpoint may be there to save them
    return _Kept(policy, kernels, kept, moved, maybe_moved, is_upper_bound)


def _finding(subject: Subject, peak: Peak, room: int, kept: _Kept) -> Finding:
    saved_s = kept.saved_s(subject, peak)
    whole = subject.seconds(kept.kernels)
    frames = next((f for name in kept.kernels if (f := subject.module.instruction(name).frames)), ())
    place = f", the first at {line_text(frames, is_short=True)}," if frames else ""
    is_whole = kept.policy == _NO_CHECKPOINT
    title = (
        f"{counted(len(kept.kernels), 'kernel')}{'' if is_whole else ' with products'}{place} repeat{'s' if len(kept.kernels) == 1 else ''}"
        f" the forward pass for the backward pass, though the results fit into memory:"
        f" {format_bytes(subject.peak_bytes + kept.kept)} of {format_bytes(room)}."
    )
    batched = " without batch dimensions" * (kept.policy == _OF_WEIGHTS)
    remedy = _REMEDY_WITHOUT if is_whole else _REMEDY.format(kept.policy, batched)
    return subject.finding(
        KIND, title, remedy, instructions=kept.kernels, frames=frames,
        saved_part=0.0 if isinstance(whole, Unavailable) else saved_s / whole,
        is_upper_bound=kept.is_upper_bound or kept.policy == _OF_WEIGHTS, gain_bytes=-int(kept.kept),
        caution=f"It costs {'about' if is_whole else 'up to'} {format_bytes(kept.kept)}. Keep it if the batch is going to grow.",
        edits=(TraceAgain(WhatIf(checkpoint=kept.policy)),),
    )  # fmt: skip


def _memory(subject: Subject, peak: Peak) -> int | Unavailable:
    """Returns the memory of a device in bytes; for a CPU, its part of this machine's."""
    program = subject.compiled.program
    if not isinstance(peak.memory_bytes, Unavailable) or program.platform != "cpu":
        return peak.memory_bytes
    memory, _ = machine_memory()
    return memory // program.device_count if memory else Unavailable("the memory of this machine is unknown")


def _repeated_lines(subject: Subject, found: Iterable[Instruction]) -> frozenset[Frame | None]:
    """Returns the lines with more products in the compiled program than in the forward pass; XLA for CPUs merged the others."""
    first = Counter(
        own_frame(value.instruction.frames)
        for value, name in (subject.calls.values(PRODUCTS) if subject.calls is not None else ())
        if phases(name) == ("forward",)
    )
    left = Counter(own_frame(each.frames) for each in found if {*phases(each.op_name)} & {"forward", "recomputed"})
    return frozenset(line for line, count in left.items() if count > first[line])


class _Forward:
    """The products of the forward pass, by line and shape: those that a backward pass recomputes have no name of their own."""

    def __init__(self, subject: Subject, found: Iterable[Instruction]) -> None:
        self._have_functions: dict[tuple[Frame | None, tuple[int, ...]], list[bool]] = {}
        for product in found:
            kernel = subject.kernels.kernel(product)
            if kernel is not None and phases(product.op_name) == ("forward",):
                has_function = _has_function(subject.module.instruction(kernel), product)
                self._have_functions.setdefault(_key(product), []).append(has_function)

    def part_with_function(self, product: Instruction) -> float:
        """Returns the part of the products like a recomputed one that are followed by a function in their kernel, from 0 to 1."""
        alike = self._have_functions.get(_key(product), ())
        return sum(alike) / len(alike) if alike else 0.0


def _key(product: Instruction) -> tuple[Frame | None, tuple[int, ...]]:
    return own_frame(product.frames), tuple(sorted(product.shape.dimensions))  # GPUs transpose some of them


def _has_function(kernel: Instruction, product: Instruction) -> bool:
    """Reports whether a kernel passes a function of a product, and not the product itself, to another product and to what keeps it.

    XLA computes a function that only another product needs in the kernel of that product.
    """
    if kernel.opcode != "fusion":
        return False
    root = kernel.called_computations[0].root
    values = {_moved_from(each) for each in (root.operands if root.opcode == "tuple" else (root,))}
    readers = {*readers_of(kernel)}
    needs_both = len(readers) > 1 and any(map(_has_product, readers))
    return product not in values and (needs_both or any(each.is_root or each.opcode == "copy" for each in readers))


def _moved_from(value: Instruction) -> Instruction:
    while value.opcode in MOVING:
        value = value.operands[0]
    return value


def _has_product(kernel: Instruction) -> bool:
    inside = kernel.called_computations[0].instructions if kernel.opcode == "fusion" else (kernel,)
    return any(each.opcode == "dot" or each.opcode == "custom-call" for each in inside)


class _Merged:
    """The sizes of products before optimization: XLA merges products that share an operand into one."""

    def __init__(self, subject: Subject) -> None:
        self._sizes: dict[str, set[int]] = {}
        if subject.compiled.program.device_count > 1:
            return  # they have parts of the arrays before optimization
        for value, name in subject.calls.values(("dot",)) if subject.calls is not None else ():
            self._sizes.setdefault(name, set()).add(result_elements(value.instruction))

    def recomputed_part(self, product: Instruction) -> float:
        """Returns the part of a product that is recomputed, from 0 to 1."""
        size, sizes = result_elements(product), self._sizes.get(product.op_name, ())
        return max((each for each in sizes if each <= size), default=size) / size


def _saved_moves(value: Instruction, part: float) -> int:
    """Returns the number of reads and writes of a recomputed part of a value that XLA saves if the part is kept.

    It merges the kernels that read the whole part. A part of a merged product is copied by a kernel that also does other work.
    """
    size = round(part * result_elements(value))
    readers = {each.name: each for each in readers_of(value)}.values()
    merged = sum(is_by_element(each) and result_elements(each) == size for each in readers)
    return max(0, merged - 1) + (any(map(_has_copy, readers)) if part < 1 else 0)


def _has_copy(kernel: Instruction) -> bool:
    """Reports whether one of the several results of a kernel is a plain copy."""
    root = kernel.called_computations[0].root if kernel.opcode == "fusion" else kernel
    return root.opcode == "tuple" and any(_moved_from(each).opcode == "parameter" for each in root.operands)


def _writes_beside(module: Module) -> bool:
    """Reports whether stacked arrays are written beside other kernels, as by XLA for GPUs since JAX 0.12."""
    starts = module.columns.rows_of("async-start".__eq__)
    return any(module.at(row).called_computations[0].root.opcode == "fusion" for row in starts)
