"""Pallas kernels as values: the grid, and which block of which array each step of it works on.

Made by `lowering/` from the jaxpr, before any compiler. Read by `analysis/pallas/grid_walk.py`. Knows nothing
of JAX: what was an object there is a number, a text or an array of numbers here.
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
from inspector.support.units import format_array

Backend = Literal["mosaic_tpu", "triton", "mosaic_gpu"]
Plain = None | bool | int | float | str | tuple["Plain", ...]
"""A compiler parameter without JAX's classes: an enum as its value, a dict as a tuple of pairs."""

Params = tuple[tuple[str | int, tuple[tuple[str, Any], ...]], ...]
"""Compiler parameters by kernel (its name, its number, "*" for all) and field, in an order of their own."""

MAX_STEPS = 1 << 16
"""Grid steps that are looked at; of a larger grid, the first ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDimension:
    """One dimension of a block.

    Attributes:
      kind: "blocked": the index counts blocks. "element": the index counts elements. "squeezed": one
        element, and the kernel does not see the dimension. "other": another form of JAX's.
      size: elements, 1 when squeezed.
      padding: elements before and after the array that an "element" index may reach.
    """

    kind: Literal["blocked", "element", "squeezed", "other"]
    size: int
    padding: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return {"squeezed": "·", "element": f"Element({self.size})"}.get(self.kind, str(self.size))


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Operand:
    """An input or output of a kernel, and its `BlockSpec`.

    Attributes:
      name: of the kernel function's parameter, such as `x_ref`.
      origin: where JAX says it comes from, such as `args[0]`.
      role: "input" or "output".
      shape: of the whole array.
      dtype: NumPy's name.
      element_bits: bits an element, 0 where that means nothing.
      dimensions: of the block, one a dimension of the array.
      memory_space: where the kernel sees it: "default" is the fast memory (VMEM on a TPU), "any" and
        "hbm" leave the array where it is, "smem" is for scalars.
      index_map: JAX's text of the index map.
      index_bytes: block indices of the grid's steps (at most `MAX_STEPS`), row-major, as little-endian
        int32 `[steps, rank]`.
      buffer_count: as `pipeline_mode=pl.Buffered(n)` asks, None where it does not.
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
        """Elements of a block along each dimension of the array."""
        return tuple(d.size for d in self.dimensions)

    @property
    def block_bytes(self) -> int:
        """Bytes of a block, without padding."""
        return math.ceil(math.prod(self.block_shape) * self.element_bits / 8)

    @property
    def is_windowed(self) -> bool:
        """Whether the pipeline copies blocks of it; arrays in "any" and "hbm" the kernel copies itself."""
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
        """The first element of the block of each step, `[steps, rank]`; negative in padding."""
        indices = self.indices
        if isinstance(indices, Unavailable):
            return indices
        scale = [d.size if d.kind == "blocked" else 1 for d in self.dimensions]
        before = [d.padding[0] for d in self.dimensions]
        return indices * np.array(scale, np.int64) - np.array(before, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ScratchOperand:
    """Memory that a kernel has for itself, or a scalar operand that it gets before it starts.

    Attributes:
      name: of the kernel function's parameter.
      shape, dtype, element_bits, memory_space: as of an `Operand`; a semaphore has 0 bits.
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
        """Bytes without padding."""
        return math.ceil(math.prod(self.shape) * self.element_bits / 8)


@dataclasses.dataclass(frozen=True, slots=True)
class CostEstimate:
    """What the caller of `pallas_call` says the kernel costs; the compiler cannot know."""

    flops: int
    transcendentals: int
    bytes_accessed: int


@dataclasses.dataclass(frozen=True, slots=True)
class ParamField:
    """A field of Pallas's `CompilerParams`, as the installed JAX has it.

    Attributes:
      name: of the field.
      type: as people write it, such as `int | None`.
      default: where the caller of `pallas_call` says nothing.
      choices: the values that it may have, where it is one of a few.
      description: JAX's own, "" without one.
      available: True, or why this JAX does not take it.
    """

    name: str
    type: str
    default: Plain
    choices: tuple[Plain, ...]
    description: str
    available: Literal[True] | Unavailable = True


def by_kernel(params: Any) -> Mapping[str | int, Mapping[str, Any]]:
    """Compiler parameters as they are given, checked to be fields by kernel; nothing for None.

    Raises:
      OptionError: they are not.
    """
    if params is None:
        return {}
    if isinstance(params, Mapping) and all(isinstance(fields, Mapping) for fields in params.values()):
        return params
    raise OptionError(
        f"compiler_params is {params!r}. Expected fields by kernel, its name, its number or '*' for all, such as"
        " {'*': {'vmem_limit_bytes': 32 << 20}}."
    )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class PallasKernel:
    """One `pallas_call`.

    Attributes:
      number: its place among the kernels of the function, from 0.
      name: of the kernel; not always unique.
      function: the kernel function's place, such as `matmul_kernel at /tmp/mm.py:12`.
      origins: of the calls; several where a function with the kernel is called several times.
      grid: steps along each dimension, outermost first, None where only a run knows.
      operands: inputs, then outputs.
      prefetch: scalar operands that index maps may read.
      scratch: what `scratch_shapes` asked for.
      scoped: what the body allocates itself, as `pl.run_scoped` and `pltpu.emit_pipeline` do; at most at one time.
      aliases: pairs of input and output number that share a buffer.
      cost: the caller's `CostEstimate`.
      backend: whose compiler parameters it has, or else the platform's; None when it has none and is for a CPU.
      params: compiler parameters by field, with their defaults.
      overridden: names of those that were put in place of the program's own.
      interpret: runs by JAX's interpreter, not by a compiled kernel.
      vmapped: grid dimensions that `jax.vmap` added.
      cores: of a `pl.kernel`, the mesh of cores that is its grid: name, size and semantics of each axis.
      core_type: of those cores: "tc" is a TPU's TensorCore, "sc_..." one of its SparseCores; "" where it is not said.
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
        """The operands that it reads."""
        return tuple(o for o in self.operands if o.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that it writes."""
        return tuple(o for o in self.operands if o.role == "output")

    @property
    def step_count(self) -> int | Unavailable:
        """Steps of the whole grid; 1 without a grid."""
        sizes = [size for size in self.grid if size is not None]
        if len(sizes) < len(self.grid):
            return Unavailable("the grid has a dynamic dimension, whose size only a run knows")
        return math.prod(sizes)

    @property
    def program_ids(self) -> npt.NDArray[np.int64] | Unavailable:
        """`pl.program_id` of each step that is looked at, `[steps, grid rank]`, in the order of execution."""
        count = self.step_count
        if isinstance(count, Unavailable):
            return count
        sizes = tuple(size for size in self.grid if size is not None)
        steps = np.arange(min(count, MAX_STEPS))
        columns = np.unravel_index(steps, sizes) if sizes else ()
        return np.stack(columns, axis=1).astype(np.int64) if columns else np.zeros((len(steps), 0), np.int64)

    @property
    def dimension_semantics(self) -> tuple[str, ...]:
        """How each grid dimension may run; "arbitrary", in order, where nothing is said."""
        if self.cores:
            return tuple(how for _, _, how in self.cores)
        said = dict(self.params).get("dimension_semantics")
        if not isinstance(said, tuple):
            return ("arbitrary",) * len(self.grid)
        return tuple(str(s) for s in said)

    def __repr__(self) -> str:
        grid = " x ".join("?" if size is None else str(size) for size in self.grid) or "none"
        return (
            f"<Kernel {self.number} {self.name}: grid {grid}, {len(self.inputs)} inputs, {len(self.outputs)} outputs>"
        )
