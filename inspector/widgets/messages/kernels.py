"""Pallas kernels: their blocks, memory and parameters, and what a compiler refused."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, SourceLine


class KernelOperand(TypedDict):
    """An input or output of a Pallas kernel.

    Attributes:
      block: its shape as text; `block_shape` as numbers, 1 where a dimension is squeezed.
      index_map: JAX's text of it.
      starts: first element of each distinct block, in the order of the first visit.
      steps: index into `starts` for each grid step that is shown.
      revisited, overlapping: indices into `starts`.
      copies, copied_bytes: of its blocks, over the whole grid; None when they are not known.
      reason: why there are no blocks, "" when there are.
    """

    name: str
    role: Literal["input", "output"]
    shape: list[int]
    dtype: str
    block: str
    block_shape: list[int]
    memory_space: str
    index_map: str
    block_bytes: int
    starts: list[list[int]]
    steps: list[int]
    revisited: list[int]
    overlapping: list[int]
    copies: int | None
    copied_bytes: int | None
    remarks: list[str]
    reason: str


class KernelAllocation(TypedDict):
    """A piece of fast memory: `buffers` times `size_bytes`."""

    name: str
    what: str
    buffers: int
    size_bytes: int


class KernelMemory(TypedDict):
    """The fast memory that a kernel takes on a chip, against its limit.

    Attributes:
      allocations: blocks and scratch, and what the compiler counts beside them.
      how_sure: what stands before the total: "", "about " or "at least ".
      fits: whether the total is within the limit, and the kernel was not refused; None where only the compiler knows.
      verdict: the same in words.
      remark: what the total covers.
    """

    chip: str
    allocations: list[KernelAllocation]
    total_bytes: int
    limit_bytes: int
    limit_source: str
    capacity_bytes: int
    how_sure: str
    fits: bool | None
    verdict: str
    remark: str


class KernelParam(TypedDict):
    """A field of Pallas's CompilerParams; values are texts as they are typed.

    Attributes:
      overridden: the value was put in place of the program's own.
      reason: why this JAX does not take it, "" when it does.
    """

    name: str
    type: str
    value: str
    default: str
    choices: list[str]
    description: str
    overridden: bool
    reason: str


class Kernel(TypedDict):
    """One Pallas kernel of a variant's program.

    Attributes:
      grid: steps along each dimension, None where only a run knows.
      semantics: of each grid dimension.
      steps_shown: of the grid, from the first; `step_count` None where only a run knows.
      facts: pairs of name and text, such as scratch, aliases and cost.
      memory: None where it is not known; then `memory_reason` says why.
    """

    number: int
    name: str
    function: str
    source: SourceLine | None
    grid: list[int | None]
    semantics: list[str]
    step_count: int | None
    steps_shown: int
    facts: list[tuple[str, str]]
    operands: list[KernelOperand]
    memory: KernelMemory | None
    memory_reason: str
    params: list[KernelParam]
    interpret: bool


class KernelTrouble(TypedDict):
    """Why the compiler refused a kernel, in numbers; the error's own text stands with the variant.

    Attributes:
      kernel: the number of the kernel, None where the compiler does not say.
      advice: what can be done, one sentence each.
      asked_bytes, limit_bytes: of a memory that is too small, else None.
      source: the place in the kernel, if it is known.
      help_url: the compiler's own page on it, or "".
    """

    summary: str
    kernel: int | None
    advice: list[str]
    asked_bytes: int | None
    limit_bytes: int | None
    allocations: list[KernelAllocation]
    source: SourceLine | None
    help_url: str


class Kernels(TypedDict):
    """The Pallas kernels of a variant's program, and what its compiler had against them."""

    type: Literal["kernels"]
    variant: int
    rows: list[Kernel]
    trouble: KernelTrouble | None


class Tuned(TypedDict):
    """The reply to `TuneRequest` number `id`: the new variant, or what is wrong."""

    type: Literal["tuned"]
    id: int
    variant: int | None
    error: Error | None


class TuneRequest(TypedDict):
    """Lower again with other compiler parameters of a kernel, and compile that as a new variant.

    Attributes:
      id: numbers the request; late replies are dropped.
      variant: whose program is tuned, with its options and target.
      values: texts by field, those that were changed only.
      interpret: instead, let JAX's interpreter run all kernels on the CPU.
    """

    type: Literal["tune"]
    id: int
    variant: int
    kernel: int
    values: dict[str, str]
    interpret: bool
