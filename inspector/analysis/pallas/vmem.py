"""The fast memory of a TPU core (VMEM) that a Pallas kernel takes, against its limit.

Before a compile it is an estimate from the kernel alone: blocks, each as often as the pipeline buffers it, and
scratch. Two things only the compiler knows: what it needs for itself (spilled registers, relayouts) comes on top, and
an array that XLA puts into VMEM whole needs no blocks. Once there is an optimized HLO both are read from it. When the
compiler refuses a kernel it stops counting at the first part that is too much, scratch before blocks
(`tpu_errors.py`): its figure is then one that the kernel needs at least.
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
from inspector.support.units import format_bytes

Certainty = Literal["compiler", "estimate", "at least"]

_NOT_COMPILED = Unavailable("the optimized HLO has no such kernel call with its memory")
_ESTIMATED = Unavailable(
    "only the compiler knows all that the kernel needs", "give vmem() the module of the compiled program"
)


VMEM: Mapping[str, Vmem] = {chip.name: chip.vmem for chip in TPU.chips if chip.vmem is not None}
"""By TPU generation."""

# A register holds 8 x 128 words; narrower types pack several rows into a word.
_LANES, _SUBLANES, _WORD_BITS = 128, 8, 32


@dataclasses.dataclass(frozen=True, slots=True)
class VmemAllocation:
    """A piece of VMEM that a kernel asks for.

    Attributes:
      name: of the operand or scratch.
      role: "input", "output", "scratch", "scoped" (allocated in the body) or "internal scratch".
      shape, dtype: of one buffer.
      size_bytes: of one buffer, without padding.
      padded_bytes: of one buffer, in whole tiles.
      buffer_count: 2 where the next block is fetched while one is worked on; 0 where XLA put the whole array into
        VMEM, so that no block is fetched.
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
        """All buffers, with padding."""
        return self.padded_bytes * self.buffer_count


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class VmemBudget:
    """What a kernel takes, and what it may have.

    Attributes:
      allocations: in the order of the kernel's parameters.
      limit_bytes: of this kernel.
      limit_source: who says so, in words.
      capacity_bytes: of the core.
      chip: the TPU generation.
      used_bytes: what the compiler gave it, its own needs included; not known before a compile.
      refused_bytes: what the compiler had counted when it refused the kernel, 0 where it did not.
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
        """Blocks and scratch."""
        return sum(a.total_bytes for a in self.allocations)

    @property
    def total_bytes(self) -> int:
        """The compiler's figure where there is one, else the estimate, and no less than what a refusal counted."""
        return (
            max(self.counted_bytes, self.refused_bytes) if isinstance(self.used_bytes, Unavailable) else self.used_bytes
        )

    @property
    def own_bytes(self) -> int:
        """What is known of the compiler's own needs: what it counts beside blocks and scratch."""
        return max(0, self.total_bytes - self.counted_bytes)

    @property
    def certainty(self) -> Certainty:
        """Whose `total_bytes` is: the compiler's, its lower bound when it refused, or an estimate from the kernel."""
        if not isinstance(self.used_bytes, Unavailable):
            return "compiler"
        return "at least" if self.refused_bytes > self.counted_bytes else "estimate"

    @property
    def fits(self) -> bool | Unavailable:
        """Reports whether the kernel stays within the limit.

        Only the compiler knows, unless the kernel's scratch alone is too much: it adds what it needs for itself, such as slots
        for spilled registers (a quarter of the blocks of a softmax on tpu7x), and an array that lies in VMEM whole
        needs no blocks.
        """
        scratch = sum(a.total_bytes for a in self.allocations if a.role not in _BLOCKS)
        if self.refused_bytes or scratch > self.limit_bytes:
            return False
        return _ESTIMATED if isinstance(self.used_bytes, Unavailable) else self.used_bytes <= self.limit_bytes

    @property
    def verdict(self) -> str:
        """`fits` in words."""
        if isinstance(self.fits, Unavailable):
            left = self.limit_bytes - self.total_bytes
            if left >= 0:
                return f"leaves {format_bytes(left)} for the compiler's own needs"
            return f"{format_bytes(-left)} too much, unless XLA puts an array into VMEM whole"
        excess = max(0, self.total_bytes - self.limit_bytes)
        too_much = f", {HOW_SURE[self.certainty]}{format_bytes(excess)} too much" if excess else ""
        return "fits" if self.fits else f"does not fit{too_much}"

    @property
    def remark(self) -> str:
        """What `total_bytes` covers, in a sentence or two."""
        scratch = sum(a.total_bytes for a in self.allocations if a.role not in _BLOCKS)
        blocks = self.counted_bytes - scratch
        if self.certainty == "compiler":
            return _explained(self)
        if self.refused_bytes:
            return (
                f"The compiler refused it at {format_bytes(self.refused_bytes)}: it stops counting at the first part that"
                f" is too much, scratch before blocks. Scratch is {format_bytes(scratch)}, blocks are about"
                f" {format_bytes(blocks)}."
            )
        return (
            f"An estimate: {format_bytes(scratch)} of scratch and {format_bytes(blocks)} of blocks. The compiler's own needs"
            " come on top, and an array that XLA puts into VMEM whole needs no blocks."
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
"""What stands before a figure."""


def _explained(budget: VmemBudget) -> str:
    """The compiler's figure in parts."""
    placed = [a.name for a in budget.allocations if not a.buffer_count]
    said = "The compiler's own figure"
    if budget.own_bytes:
        said += f", {format_bytes(budget.own_bytes)} of it for itself"
    if not budget.total_bytes:
        said += ": the kernel needs no VMEM beside its arrays"
    if placed:
        said += f". XLA put {', '.join(placed)} into VMEM whole, so that no block of it is fetched"
    return f"{said}."


def vmem_budget(
    kernel: PallasKernel, chip: str, module: Module | None = None, refused_bytes: int = 0
) -> VmemBudget | Unavailable:
    """The budget of a kernel on a TPU generation.

    Args:
      kernel: a kernel for TPUs.
      chip: as in a target's text.
      module: the optimized HLO of its program for that chip, which has what the compiler gave it.
      refused_bytes: what the compiler had counted when it refused the kernel.

    Raises:
      TargetError: no such generation.
    """
    if chip not in VMEM:
        raise TargetError(f"The VMEM of {chip!r} is not known. Expected one of {', '.join(VMEM)}.")
    if kernel.backend not in (None, "mosaic_tpu"):
        return Unavailable("the kernel is for GPUs, which have no VMEM")
    if kernel.core_type.startswith("sc"):
        return Unavailable("the kernel runs on SparseCores, which have memories of their own")
    call = None if module is None else _call_of(kernel, module)
    used = _NOT_COMPILED if call is None else vmem_scratch_bytes(call)
    placed = frozenset[int]() if call is None or isinstance(used, Unavailable) else _placed(kernel, call)
    limit, source = _limit(dict(kernel.params).get("vmem_limit_bytes"), chip)
    found = tuple(_allocations(kernel, placed))
    return VmemBudget(found, limit, source, VMEM[chip].capacity_bytes, chip, used, refused_bytes)


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
    """Numbers of the operands that lie in VMEM whole.

    With a dynamic dimension in the grid blocks are fetched all the same (measured on libtpu 0.0.42.1).
    """
    inputs, outputs = [o.shape for o in call.operands][len(call.operands) - len(kernel.inputs) :], call.shape.leaves
    if None in kernel.grid or len(inputs) + len(outputs) != len(kernel.operands):
        return frozenset()
    return frozenset(
        number
        for number, shape in enumerate((*inputs, *outputs))
        if shape.layout is not None and shape.layout.memory_space == _VMEM_SPACE
    )


_VMEM_SPACE = 1  # XLA's number of it


def _limit(asked: object, chip: str) -> tuple[int, str]:
    """The limit of a kernel, and who says so."""
    memory = VMEM[chip]
    if not isinstance(asked, int):
        return memory.default_limit_bytes, f"the default of {chip}"
    if asked > memory.capacity_bytes:
        return memory.capacity_bytes, "all there is, less than its vmem_limit_bytes"
    return asked, "its vmem_limit_bytes"


def used_vmem(kernel: PallasKernel, module: Module) -> int | Unavailable:
    """What the compiler gave a kernel, in bytes: its own needs included, operands that lie in VMEM anyway not.

    Args:
      kernel: of the program.
      module: its optimized HLO for a TPU.
    """
    call = _call_of(kernel, module)
    return _NOT_COMPILED if call is None else vmem_scratch_bytes(call)


def _call_of(kernel: PallasKernel, module: Module) -> Instruction | None:
    """The instruction that calls a kernel; of several, the one that takes most. None where there is none."""
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
    """Without the scopes that lowering adds around a jaxpr that it calls."""
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
    """As asked; else one for a block that stays, which the compiler sees, and two for one that moves."""
    if operand.buffer_count is not None:
        return operand.buffer_count
    indices = operand.indices
    stays = not isinstance(indices, Unavailable) and bool((indices == indices[:1]).all())
    return 1 if stays or not has_grid else 2


def _scratch(scratch: ScratchOperand, role: str) -> VmemAllocation:
    padded = padded_bytes(scratch.shape, scratch.element_bits)
    return VmemAllocation(scratch.name, role, scratch.shape, scratch.dtype, scratch.size_bytes, padded, 1)


def padded_bytes(shape: Sequence[int], element_bits: int) -> int:
    """Bytes of an array in VMEM: rows of whole lanes, and whole tiles of rows.

    A tile has as many rows as the array, rounded up to a power of two, but at most 8 (measured on
    libtpu 0.0.42.1: `f32[n,2,128]` takes no more than its elements, `f32[n,5,128]` as much as 8 rows).
    """
    if not element_bits:
        return 0
    packing = max(1, _WORD_BITS // element_bits)
    *leading, rows, lanes = (1, 1, *shape)[-max(2, len(shape)) :]
    tile = max(packing, min(_SUBLANES, 1 << max(0, rows - 1).bit_length()))
    padded = math.ceil(rows / tile) * tile * math.ceil(lanes / _LANES) * _LANES
    return math.ceil(math.prod(leading) * padded * element_bits / 8)
