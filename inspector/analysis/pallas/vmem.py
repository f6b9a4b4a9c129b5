"""The fast memory of a TPU core (VMEM) that a Pallas kernel needs, compared with its limit.

- Before a compile, it is estimated from the kernel alone: the blocks, times the pipeline's buffers for each, and the
  scratch. The estimate omits the memory that the compiler itself needs (spilled registers, relayouts), and counts blocks of
  arrays that XLA places in VMEM as a whole, which need no blocks.
- After a compile, both are read from the optimized HLO.
- When the compiler rejects a kernel, it stops counting at the first part that exceeds the limit, scratch before blocks
  (`tpu_errors.py`). Its figure is then a lower bound.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from inspector.errors import TargetError, Unavailable
from inspector.hlo.backend_config import vmem_scratch_bytes
from inspector.hlo.module import Instruction, Module
from inspector.hlo.pallas import Operand, PallasKernel, ScratchOperand
from inspector.platforms.chip import Vmem
from inspector.platforms.tpu import TPU
from inspector.support.notebook import short
from inspector.support.units import format_bytes

Certainty = Literal["compiler", "estimate", "at least"]

_NOT_COMPILED = Unavailable("the optimized HLO has no call of this kernel with its memory")
_ESTIMATED = Unavailable(
    "the total VMEM of the kernel is known only after compiling", "pass the module of the compiled program to vmem()"
)


VMEM: Mapping[str, Vmem] = {chip.name: chip.vmem for chip in TPU.chips if chip.vmem is not None}
"""VMEM of each TPU generation."""

# A register holds 8 x 128 words; narrower types pack several rows into a word.
_LANES, _SUBLANES, _WORD_BITS = 128, 8, 32


@dataclasses.dataclass(frozen=True, slots=True)
class VmemAllocation:
    """An allocation in VMEM that a kernel requests.

    Attributes:
      name: name of the operand or scratch.
      role: "input", "output", "scratch", "scoped" (allocated in the body) or "internal scratch".
      shape, dtype: of one buffer.
      size_bytes: size of one buffer, without padding.
      padded_bytes: size of one buffer, in whole tiles.
      buffer_count: number of buffers; 2 if the next block is fetched during the work on the current one; 0 if XLA placed the
        whole array in VMEM, so that no block is fetched.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int
    padded_bytes: int
    buffer_count: int

    @property
    def total_bytes(self) -> int:
        """Returns the size of all buffers, with padding."""
        return self.padded_bytes * self.buffer_count


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class VmemBudget:
    """The VMEM that a kernel needs, and its limit.

    Attributes:
      allocations: the kernel's allocations, in the order of its parameters.
      limit_bytes: limit of this kernel.
      limit_source: origin of the limit, in words.
      capacity_bytes: capacity of the core.
      chip: the TPU generation.
      used_bytes: bytes that the compiler allocated, including its own needs; unknown before a compile.
      refused_bytes: bytes that the compiler had counted when it rejected the kernel; 0 if it did not.
    """

    allocations: tuple[VmemAllocation, ...]
    limit_bytes: int
    limit_source: str
    capacity_bytes: int
    chip: str
    used_bytes: int | Unavailable = _NOT_COMPILED
    refused_bytes: int = 0

    @property
    def counted_bytes(self) -> int:
        """Returns the bytes of blocks and scratch."""
        return sum(a.total_bytes for a in self.allocations)

    @property
    def total_bytes(self) -> int:
        """Returns the compiler's figure if known, else the estimate, but at least the bytes counted in a rejection."""
        return (
            max(self.counted_bytes, self.refused_bytes) if isinstance(self.used_bytes, Unavailable) else self.used_bytes
        )

    @property
    def own_bytes(self) -> int:
        """Returns the known part of the compiler's own needs: its count without blocks and scratch."""
        return max(0, self.total_bytes - self.counted_bytes)

    @property
    def certainty(self) -> Certainty:
        """Returns the origin of `total_bytes`: the compiler, a lower bound from its rejection, or an estimate."""
        if not isinstance(self.used_bytes, Unavailable):
            return "compiler"
        return "at least" if self.refused_bytes > self.counted_bytes else "estimate"

    @property
    def fits(self) -> bool | Unavailable:
        """Reports whether the kernel stays within the limit.

        This is known only after compiling, unless the kernel's scratch alone exceeds the limit: the compiler adds its own
        needs, such as slots for spilled registers (a quarter of the blocks of a softmax on tpu7x), and an array that is in
        VMEM as a whole needs no blocks.
        """
        scratch = sum(a.total_bytes for a in self.allocations if a.role not in _BLOCKS)
        if self.refused_bytes or scratch > self.limit_bytes:
            return False
        return _ESTIMATED if isinstance(self.used_bytes, Unavailable) else self.used_bytes <= self.limit_bytes

    @property
    def verdict(self) -> str:
        """Describes `fits` in words."""
        if isinstance(self.fits, Unavailable):
            left = self.limit_bytes - self.total_bytes
            if left >= 0:
                return f"leaves {format_bytes(left)} for the compiler's own needs"
            return f"{format_bytes(-left)} too much, unless XLA places a whole array in VMEM"
        excess = max(0, self.total_bytes - self.limit_bytes)
        too_much = f", {HOW_SURE[self.certainty]}{format_bytes(excess)} too much" if excess else ""
        return "fits" if self.fits else f"does not fit{too_much}"

    @property
    def remark(self) -> str:
        """Describes the contents of `total_bytes` in one or two sentences."""
        scratch = sum(a.total_bytes for a in self.allocations if a.role not in _BLOCKS)
        blocks = self.counted_bytes - scratch
        if self.certainty == "compiler":
            return _explained(self)
        if self.refused_bytes:
            return (
                f"The compiler rejected it at {format_bytes(self.refused_bytes)}: it stops counting at the first part that"
                f" exceeds the limit, scratch before blocks. Scratch takes {format_bytes(scratch)}, blocks take about"
                f" {format_bytes(blocks)}."
            )
        return (
            f"An estimate: {format_bytes(scratch)} of scratch and {format_bytes(blocks)} of blocks. The compiler needs"
            " additional VMEM itself, and an array that XLA places in VMEM as a whole needs no blocks."
        )

    def __repr__(self) -> str:
        return f"<VmemBudget {self}>"

    def __str__(self) -> str:
        return (
            f"{HOW_SURE[self.certainty]}{format_bytes(self.total_bytes)} of {format_bytes(self.limit_bytes)} VMEM"
            f" ({self.limit_source}; {self.chip} has {format_bytes(self.capacity_bytes)}): {self.verdict}"
        )


_BLOCKS = ("input", "output")
HOW_SURE: Mapping[Certainty, str] = {"compiler": "", "estimate": "about ", "at least": "at least "}
"""Prefix of a figure."""


def _explained(budget: VmemBudget) -> str:
    """Describes the parts of the compiler's figure."""
    placed = [a.name for a in budget.allocations if not a.buffer_count]
    text = "The compiler's figure"
    if budget.own_bytes:
        text += f", including {format_bytes(budget.own_bytes)} for its own needs"
    if not budget.total_bytes:
        text += ": the kernel needs no VMEM beyond its arrays"
    if placed:
        text += f". XLA placed all of {', '.join(placed)} in VMEM, so no blocks of it are fetched"
    return f"{text}."


def vmem_budget(
    kernel: PallasKernel, chip: str, module: Module | None = None, refused_bytes: int = 0
) -> VmemBudget | Unavailable:
    """Computes the budget of a kernel on a TPU generation.

    Args:
      kernel: a kernel for TPUs.
      chip: the TPU generation, as in a target's text.
      module: the optimized HLO of its program for that chip, which contains the compiler's allocation.
      refused_bytes: bytes that the compiler had counted when it rejected the kernel.

    Raises:
      TargetError: the generation is unknown.
    """
    if chip not in VMEM:
        raise TargetError(f"The VMEM size of {short(chip)} is unknown. Expected one of {', '.join(VMEM)}.")
    if kernel.backend not in (None, "mosaic_tpu"):
        return Unavailable("the kernel is for GPUs, which have no VMEM")
    if kernel.core_type.startswith("sc"):
        return Unavailable("the kernel runs on SparseCores, which have separate memories")
    call = None if module is None else _call_of(kernel, module)
    used = _NOT_COMPILED if call is None else vmem_scratch_bytes(call)
    placed = frozenset[int]() if call is None or isinstance(used, Unavailable) else _placed(kernel, call)
    limit, source = _limit(dict(kernel.params).get("vmem_limit_bytes"), chip)
    allocations = tuple(_allocations(kernel, placed))
    return VmemBudget(allocations, limit, source, VMEM[chip].capacity_bytes, chip, used, refused_bytes)


def _allocations(kernel: PallasKernel, placed: Collection[int]) -> Iterator[VmemAllocation]:
    for number, operand in enumerate(kernel.operands):
        if _is_in_vmem(operand):
            window = _window(operand, has_grid=bool(kernel.grid))
            yield dataclasses.replace(window, buffer_count=0) if number in placed else window
    yield from (_scratch(s, "scratch") for s in kernel.scratch if s.memory_space == "vmem")
    yield from (_scratch(s, "scoped") for s in kernel.scoped if s.memory_space == "vmem")
    internal = dict(kernel.params).get("internal_scratch_in_bytes")
    if isinstance(internal, int):
        yield VmemAllocation("internal scratch", "internal scratch", (internal,), "uint8", internal, internal, 1)


def _placed(kernel: PallasKernel, call: Instruction) -> frozenset[int]:
    """Returns the indices of the operands that XLA placed in VMEM as a whole.

    If the grid has a dynamic dimension, blocks are fetched anyway (measured on libtpu 0.0.42.1).
    """
    inputs, outputs = [o.shape for o in call.operands][len(call.operands) - len(kernel.inputs) :], call.shape.leaves
    if None in kernel.grid or len(inputs) + len(outputs) != len(kernel.operands):
        return frozenset()
    return frozenset(
        number
        for number, shape in enumerate((*inputs, *outputs))
        if shape.layout is not None and shape.layout.memory_space == _VMEM_SPACE
    )


_VMEM_SPACE = 1  # XLA's number of the memory space


def _limit(limit: object, chip: str) -> tuple[int, str]:
    """Returns the limit of a kernel in bytes and its origin."""
    memory = VMEM[chip]
    if not isinstance(limit, int):
        return memory.default_limit_bytes, f"the default for {chip}"
    if limit > memory.capacity_bytes:
        return memory.capacity_bytes, "the capacity, which is below the kernel's vmem_limit_bytes"
    return limit, "the kernel's vmem_limit_bytes"


def used_vmem(kernel: PallasKernel, module: Module) -> int | Unavailable:
    """Returns the bytes that the compiler allocated for a kernel, including its own needs, without operands already in VMEM.

    Args:
      kernel: a kernel of the program.
      module: the optimized HLO of the program for a TPU.
    """
    call = _call_of(kernel, module)
    return _NOT_COMPILED if call is None else vmem_scratch_bytes(call)


def _call_of(kernel: PallasKernel, module: Module) -> Instruction | None:
    """Returns the instruction that calls a kernel; of several, the one with the most VMEM. None if there is none."""
    names = {_without_wrappers(origin.op_name) for origin in kernel.origins}
    calls = [
        instruction
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.custom_call_target == _KERNEL_CALL
    ]
    named = [i for i in calls if _without_wrappers(i.op_name) in names]
    named = named or [i for i in calls if i.name.rpartition(".")[0] == kernel.name]
    return max(named, key=_scratch_bytes, default=None)


def _scratch_bytes(call: Instruction) -> int:
    noted = vmem_scratch_bytes(call)
    return 0 if isinstance(noted, Unavailable) else noted


_KERNEL_CALL = "tpu_custom_call"


def _without_wrappers(op_name: str) -> str:
    """Removes the scopes that lowering adds around a called jaxpr."""
    return "/".join(part for part in op_name.split("/") if part not in ("closed_call", "eval_jaxpr"))


def _is_in_vmem(operand: Operand) -> bool:
    return operand.memory_space in ("default", "vmem")


def _window(operand: Operand, *, has_grid: bool) -> VmemAllocation:
    shape = tuple(d.size for d in operand.dimensions if d.kind != "squeezed")
    return VmemAllocation(
        operand.name, operand.role, shape, operand.dtype, operand.block_bytes,
        padded_bytes(shape, operand.element_bits), _buffer_count(operand, has_grid=has_grid),
    )  # fmt: skip


def _buffer_count(operand: Operand, *, has_grid: bool) -> int:
    """Returns the requested number of buffers; else 1 for a block that never changes, which the compiler detects, and 2 otherwise."""
    if operand.buffer_count is not None:
        return operand.buffer_count
    indices = operand.indices
    stays = not isinstance(indices, Unavailable) and bool((indices == indices[:1]).all())
    return 1 if stays or not has_grid else 2


def _scratch(scratch: ScratchOperand, role: str) -> VmemAllocation:
    padded = padded_bytes(scratch.shape, scratch.element_bits)
    return VmemAllocation(scratch.name, role, scratch.shape, scratch.dtype, scratch.size_bytes, padded, 1)


def padded_bytes(shape: Sequence[int], element_bits: int) -> int:
    """Returns the bytes of an array in VMEM, with rows padded to whole lanes and to whole tiles of rows.

    A tile has as many rows as the array, rounded up to a power of two, but at most 8 (measured on
    libtpu 0.0.42.1: `f32[n,2,128]` has no padding, `f32[n,5,128]` takes as much as 8 rows).
    """
    if not element_bits:
        return 0
    packing = max(1, _WORD_BITS // element_bits)
    *leading, rows, lanes = (1, 1, *shape)[-max(2, len(shape)) :]
    tile = max(packing, min(_SUBLANES, 1 << max(0, rows - 1).bit_length()))
    padded = math.ceil(rows / tile) * tile * math.ceil(lanes / _LANES) * _LANES
    return math.ceil(math.prod(leading) * padded * element_bits / 8)
