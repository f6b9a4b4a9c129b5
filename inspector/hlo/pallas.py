"""Pallas kernels as values: the grid, and the block of each array that each grid step works on.

`lowering/` builds them from the jaxpr, before compilation. `analysis/pallas/grid_walk.py` reads them. Independent of JAX:
JAX's objects are represented as numbers, text or arrays of numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from inspector.errors import OptionError, Unavailable
from inspector.hlo.source import Origin
from inspector.support.notebook import short
from inspector.support.units import format_array

Backend = Literal["mosaic_tpu", "triton", "mosaic_gpu"]
Plain = None | bool | int | float | str | tuple["Plain", ...]
"""A compiler parameter without JAX's classes. An enum is its value, and a dict is a tuple of pairs."""

Params = tuple[tuple[str | int, tuple[tuple[str, Any], ...]], ...]
"""Compiler parameters by kernel (its name, its number, "*" for all) and field, in a canonical order."""

MAX_STEPS = 1 << 16
"""Maximum number of grid steps that are examined; for a larger grid, the first ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDimension:
    """One dimension of a block.

    Attributes:
      kind: "blocked": the index counts blocks. "element": the index counts elements. "squeezed": one element, and the
        kernel does not see the dimension. "other": any other kind in JAX.
      size: number of elements; 1 if squeezed.
      padding: number of elements before and after the array that an "element" index may reach.
    """

    kind: Literal["blocked", "element", "squeezed", "other"]
    size: int
    padding: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return {"squeezed": "·", "element": f"Element({self.size})"}.get(self.kind, str(self.size))


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Operand:
    """An input or output of a kernel with its `BlockSpec`.

    Attributes:
      name: name of the kernel function's parameter, such as `x_ref`; that of the argument for an input in `*args`.
      origin: JAX's name of the array's origin, such as `args[0]`.
      role: "input" or "output".
      shape: shape of the whole array.
      dtype: NumPy's name of the dtype.
      element_bits: bits per element; 0 if not applicable.
      dimensions: dimensions of the block, one per dimension of the array.
      memory_space: memory space in the kernel: "default" is the fast memory (VMEM on a TPU), "any" and "hbm" leave the array
        in place, "smem" is for scalars.
      index_map: JAX's text of the index map.
      index_bytes: block indices of the grid's steps (at most `MAX_STEPS`), row-major, as little-endian int32
        `[steps, rank]`.
      buffer_count: number of buffers from `pipeline_mode=pl.Buffered(n)`; None if not set.
    """

    name: str
    origin: str
    role: Literal["input", "output"]
    shape: tuple[int, ...]
    dtype: str
    element_bits: int
    dimensions: tuple[BlockDimension, ...]
    memory_space: str
    index_map: str
    index_bytes: bytes | Unavailable
    buffer_count: int | None = None

    def __repr__(self) -> str:
        blocks = f"in blocks of {' x '.join(map(str, self.dimensions)) or 'one value'}"
        where = "" if self.memory_space == "default" else f", in {self.memory_space}"
        return f"<Operand {self.name}: {self.role} {format_array(self.dtype, self.shape)} {blocks}{where}>"

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Number of elements of a block along each dimension of the array."""
        return tuple(d.size for d in self.dimensions)

    @property
    def block_bytes(self) -> int:
        """Size of a block in bytes, without padding."""
        return math.ceil(math.prod(self.block_shape) * self.element_bits / 8)

    @property
    def is_windowed(self) -> bool:
        """Reports whether the pipeline copies its blocks. The kernel itself copies arrays in "any" and "hbm"."""
        return self.memory_space not in ("any", "hbm", "gmem", "host", "semaphore_mem")

    @property
    def indices(self) -> npt.NDArray[np.int64] | Unavailable:
        """Block indices of the grid's steps, `[steps, rank]`."""
        if isinstance(self.index_bytes, Unavailable):
            return self.index_bytes
        return (
            np.frombuffer(self.index_bytes, "<i4")
            .astype(np.int64)
            .reshape(-1, max(1, len(self.shape)))[:, : len(self.shape)]
        )

    @property
    def starts(self) -> npt.NDArray[np.int64] | Unavailable:
        """Index of the first element of each step's block, `[steps, rank]`; negative in padding."""
        indices = self.indices
        if isinstance(indices, Unavailable):
            return indices
        scale = [d.size if d.kind == "blocked" else 1 for d in self.dimensions]
        before = [d.padding[0] for d in self.dimensions]
        return indices * np.array(scale, np.int64) - np.array(before, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ScratchOperand:
    """Scratch memory of a kernel, or a scalar operand that is available before the kernel starts.

    Attributes:
      name: name of the kernel function's parameter.
      shape, dtype, element_bits, memory_space: as in `Operand`; a semaphore has 0 bits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    element_bits: int
    memory_space: str

    def __repr__(self) -> str:
        return f"<Scratch {self.name}: {format_array(self.dtype, self.shape)} in {self.memory_space}>"

    @property
    def size_bytes(self) -> int:
        """Size in bytes, without padding."""
        return math.ceil(math.prod(self.shape) * self.element_bits / 8)


@dataclasses.dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of a kernel as declared in `pallas_call`. The compiler cannot determine it."""

    flops: int
    transcendentals: int
    bytes_accessed: int


@dataclasses.dataclass(frozen=True, slots=True)
class ParamField:
    """A field of Pallas's `CompilerParams` in the installed JAX.

    Attributes:
      name: name of the field.
      type: type as text, such as `int | None`.
      default: value if `pallas_call` does not set it.
      choices: the allowed values, if they are few.
      description: JAX's description; "" if there is none.
      available: True, or why the installed JAX does not support the field.
    """

    name: str
    type: str
    default: Plain
    choices: tuple[Plain, ...]
    description: str
    available: Literal[True] | Unavailable = True


def by_kernel(params: Any) -> Mapping[str | int, Mapping[str, Any]]:
    """Checks that compiler parameters are fields by kernel, and returns them; an empty mapping for None.

    Raises:
      OptionError: they are not fields by kernel.
    """
    if params is None:
        return {}
    if isinstance(params, Mapping) and all(isinstance(fields, Mapping) for fields in params.values()):
        return params
    raise OptionError(
        f"compiler_params is {short(params)}. Expected fields by kernel, its name, its number or '*' for all, such as"
        " {'*': {'vmem_limit_bytes': 32 << 20}}."
    )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class PallasKernel:
    """A `pallas_call`.

    Attributes:
      number: position among the kernels of the function, from 0.
      name: name of the kernel; not always unique.
      function: name and location of the kernel function, such as `matmul_kernel at /tmp/mm.py:12`.
      origins: origins of the calls; several if a function with the kernel is called several times.
      grid: number of steps along each dimension, outermost first; None for a dimension known only at run time.
      operands: inputs, then outputs.
      prefetch: scalar operands that index maps may read.
      scratch: memory requested with `scratch_shapes`.
      scoped: memory that the body allocates, as with `pl.run_scoped` and `pltpu.emit_pipeline`; the maximum at one time.
      aliases: pairs of input number and output number that share a buffer.
      cost: the declared `CostEstimate`.
      backend: the backend of its compiler parameters, or else that of the platform; None for a kernel without parameters on
        the CPU.
      params: compiler parameters by field, including defaults.
      overridden: names of the parameters that replaced the program's own.
      interpret: whether it runs in JAX's interpreter instead of as a compiled kernel.
      vmapped: grid dimensions that `jax.vmap` added.
      cores: for a `pl.kernel`, the mesh of cores that forms its grid: name, size and semantics of each axis.
      core_type: type of those cores: "tc" is a TPU's TensorCore, "sc_..." a SparseCore; "" if not specified.
    """

    number: int
    name: str
    function: str
    origins: tuple[Origin, ...]
    grid: tuple[int | None, ...]
    operands: tuple[Operand, ...]
    prefetch: tuple[ScratchOperand, ...]
    scratch: tuple[ScratchOperand, ...]
    aliases: tuple[tuple[int, int], ...]
    cost: CostEstimate | Unavailable
    backend: Backend | None
    params: tuple[tuple[str, Plain], ...]
    overridden: tuple[str, ...] = ()
    interpret: bool = False
    vmapped: tuple[int, ...] = ()
    scoped: tuple[ScratchOperand, ...] = ()
    cores: tuple[tuple[str, int, str], ...] = ()
    core_type: str = ""

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that the kernel reads."""
        return tuple(o for o in self.operands if o.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that the kernel writes."""
        return tuple(o for o in self.operands if o.role == "output")

    @property
    def step_count(self) -> int | Unavailable:
        """Number of steps of the whole grid; 1 without a grid."""
        sizes = [size for size in self.grid if size is not None]
        if len(sizes) < len(self.grid):
            return Unavailable("the grid has a dynamic dimension, whose size is known only at run time")
        return math.prod(sizes)

    @property
    def program_ids(self) -> npt.NDArray[np.int64] | Unavailable:
        """`pl.program_id` of each examined step, `[steps, grid rank]`, in execution order."""
        count = self.step_count
        if isinstance(count, Unavailable):
            return count
        sizes = tuple(size for size in self.grid if size is not None)
        steps = np.arange(min(count, MAX_STEPS))
        columns = np.unravel_index(steps, sizes) if sizes else ()
        return np.stack(columns, axis=1).astype(np.int64) if columns else np.zeros((len(steps), 0), np.int64)

    @property
    def dimension_semantics(self) -> tuple[str, ...]:
        """The semantics of each grid dimension; "arbitrary" (sequential) if not specified."""
        if self.cores:
            return tuple(how for _, _, how in self.cores)
        semantics = dict(self.params).get("dimension_semantics")
        if not isinstance(semantics, tuple):
            return ("arbitrary",) * len(self.grid)
        return tuple(str(s) for s in semantics)

    def __repr__(self) -> str:
        grid = " x ".join("?" if size is None else str(size) for size in self.grid) or "none"
        return (
            f"<Kernel {self.number} {self.name}: grid {grid}, {len(self.inputs)} inputs, {len(self.outputs)} outputs>"
        )
