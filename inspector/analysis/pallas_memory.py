"""The fast memory of a TPU core (VMEM) that a Pallas kernel asks for, against its limit.

An estimate from the kernel alone: blocks, each as often as the pipeline buffers it, and scratch. The
compiler adds spilled registers and stack of its own, and may place a whole operand in VMEM, which
then has no buffers. Its own number is in the optimized HLO (`used_vmem`); when it refuses a kernel, in the
error (`pallas_errors.py`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.errors import TargetError, Unavailable
from inspector.hlo.backend_config import vmem_scratch_bytes
from inspector.hlo.module import Module
from inspector.hlo.pallas import Kernel, Operand, Scratch
from inspector.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

MIB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Vmem:
    """What a generation has of it, in bytes a core.

    Attributes:
      default_limit_bytes: for one kernel that says nothing.
      capacity_bytes: of the core; no limit can be set beyond it.
    """

    default_limit_bytes: int
    capacity_bytes: int


# As libtpu 0.0.42.1 and 0.0.50.1 say when a kernel asks for too much; `tests/analysis/test_pallas_memory.py` asks them.
VMEM = {
    "v4": Vmem(16 * MIB, 16 * MIB),
    "v5e": Vmem(16 * MIB, 128 * MIB),
    "v5p": Vmem(16 * MIB, 64 * MIB),
    "v6e": Vmem(32 * MIB, 128 * MIB),
    "tpu7x": Vmem(32 * MIB, 64 * MIB),
}
"""By TPU generation."""

# A register holds 8 x 128 words; narrower types pack several rows into a word.
_LANES, _SUBLANES, _WORD_BITS = 128, 8, 32


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of VMEM that a kernel asks for.

    Attributes:
      name: of the operand or scratch.
      role: "input", "output", "scratch", "scoped" (allocated in the body) or "internal scratch".
      shape, dtype: of one buffer.
      size_bytes: of one buffer, without padding.
      padded_bytes: of one buffer, in whole tiles.
      buffer_count: 2 where the next block is fetched while one is worked on.
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
    """What a kernel asks for, and what it may have.

    Attributes:
      allocations: in the order of the kernel's parameters.
      limit_bytes: of this kernel.
      limit_source: who says so, in words.
      capacity_bytes: of the core.
      chip: the TPU generation.
    """

    allocations: tuple[Allocation, ...]
    limit_bytes: int
    limit_source: str
    capacity_bytes: int
    chip: str

    @property
    def total_bytes(self) -> int:
        """All that is asked for."""
        return sum(a.total_bytes for a in self.allocations)

    @property
    def fits(self) -> bool:
        """Whether the limit is not reached; the compiler's own needs come on top."""
        return self.total_bytes <= self.limit_bytes

    def __repr__(self) -> str:
        return f"<VmemBudget {self}>"

    def __str__(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        return (
            f"{format_bytes(self.total_bytes)} of {format_bytes(self.limit_bytes)} VMEM ({self.limit_source};"
            f" {self.chip} has {format_bytes(self.capacity_bytes)}): {verdict}"
        )


def vmem_budget(kernel: Kernel, chip: str) -> VmemBudget | Unavailable:
    """The budget of a kernel on a TPU generation.

    Args:
      kernel: a kernel for TPUs.
      chip: "v4", "v5e", "v5p", "v6e" or "tpu7x", as in a target's text.

    Raises:
      TargetError: no such generation.
    """
    if chip not in VMEM:
        raise TargetError(f"The VMEM of {chip!r} is not known. Expected one of {', '.join(VMEM)}.")
    if kernel.backend not in (None, "mosaic_tpu"):
        return Unavailable("the kernel is for GPUs, which have no VMEM")
    if kernel.core_type.startswith("sc"):
        return Unavailable("the kernel runs on SparseCores, which have memories of their own")
    params, memory = dict(kernel.params), VMEM[chip]
    internal = params.get("internal_scratch_in_bytes")
    found = [_window(o, has_grid=bool(kernel.grid)) for o in kernel.operands if _is_in_vmem(o)]
    found += [_scratch(s, "scratch") for s in kernel.scratch if s.memory_space == "vmem"]
    found += [_scratch(s, "scoped") for s in kernel.scoped if s.memory_space == "vmem"]
    if isinstance(internal, int):
        found.append(Allocation("internal scratch", "internal scratch", (internal,), "uint8", internal, internal, 1))
    limit, source = _limit(params.get("vmem_limit_bytes"), chip)
    return VmemBudget(tuple(found), limit, source, memory.capacity_bytes, chip)


def _limit(asked: object, chip: str) -> tuple[int, str]:
    """The limit of a kernel, and who says so."""
    memory = VMEM[chip]
    if not isinstance(asked, int):
        return memory.default_limit_bytes, f"the default of {chip}"
    if asked > memory.capacity_bytes:
        return memory.capacity_bytes, "all there is, less than its vmem_limit_bytes"
    return asked, "its vmem_limit_bytes"


def used_vmem(kernel: Kernel, module: Module) -> int | Unavailable:
    """What the compiler gave a kernel, in bytes: its own needs included, operands that lie in VMEM anyway not.

    Args:
      kernel: of the program.
      module: its optimized HLO for a TPU.
    """
    names = {_without_wrappers(origin.op_name) for origin in kernel.origins}
    calls = [
        instruction
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.custom_call_target == _KERNEL_CALL
    ]
    named = [i for i in calls if _without_wrappers(i.op_name) in names]
    named = named or [i for i in calls if i.name.rpartition(".")[0] == kernel.name]
    known = [used for used in map(vmem_scratch_bytes, named) if not isinstance(used, Unavailable)]
    return max(known) if known else Unavailable("the optimized HLO has no such kernel call with its memory")


_KERNEL_CALL = "tpu_custom_call"


def _without_wrappers(op_name: str) -> str:
    """Without the scopes that lowering adds around a jaxpr that it calls."""
    return "/".join(part for part in op_name.split("/") if part not in ("closed_call", "eval_jaxpr"))


def _is_in_vmem(operand: Operand) -> bool:
    return operand.memory_space in ("default", "vmem")


def _window(operand: Operand, *, has_grid: bool) -> Allocation:
    shape = tuple(d.size for d in operand.dimensions if d.kind != "squeezed")
    return Allocation(
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


def _scratch(scratch: Scratch, role: str) -> Allocation:
    padded = padded_bytes(scratch.shape, scratch.element_bits)
    return Allocation(scratch.name, role, scratch.shape, scratch.dtype, scratch.size_bytes, padded, 1)


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


def vmem_table(kernel: Kernel, chip: str) -> pd.DataFrame:
    """One row an allocation: `name, role, shape, dtype, size_bytes, padded_bytes, buffers, total_bytes`."""
    import pandas as pd

    budget = vmem_budget(kernel, chip)
    rows = () if isinstance(budget, Unavailable) else budget.allocations
    return pd.DataFrame(
        [
            {
                "name": a.name, "role": a.role, "shape": a.shape, "dtype": a.dtype, "size_bytes": a.size_bytes,
                "padded_bytes": a.padded_bytes, "buffers": a.buffer_count, "total_bytes": a.total_bytes,
            }
            for a in rows
        ],
        columns=["name", "role", "shape", "dtype", "size_bytes", "padded_bytes", "buffers", "total_bytes"],
    )  # fmt: skip
