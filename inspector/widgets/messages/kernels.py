"""Pallas kernels: blocks, memory, compiler parameters and the reasons why a compiler rejected a kernel."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, SourceLine


class KernelOperand(TypedDict):
    """An input or output of a Pallas kernel.

    Attributes:
      block: block shape as text; `block_shape` has it as numbers, with 1 for squeezed dimensions.
      index_map: text of the index map, as JAX prints it.
      starts: first element of each distinct block, in the order of the first visit.
      steps: index into `starts` for each grid step that is shown.
      revisited, overlapping: indices into `starts`.
      copies, copied_bytes: number and size of block copies over the whole grid; None if unknown.
      reason: the reason why the blocks are unknown; "" if they are known.
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
    """An allocation in fast memory: `buffers` times `size_bytes`."""

    name: str
    what: str
    buffers: int
    size_bytes: int


class KernelMemory(TypedDict):
    """The fast memory that a kernel needs on a chip, compared with its limit.

    Attributes:
      allocations: blocks, scratch and the compiler's own allocations.
      how_sure: the qualifier before the total: "", "about " or "at least ".
      fits: whether the total is within the limit and the kernel was not rejected; None if only the compiler can determine it.
      verdict: the same in words.
      remark: a description of what the total includes.
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
    """A field of Pallas's CompilerParams; values are text, in the form that the user types.

    Attributes:
      overridden: whether the value replaces the program's own.
      reason: the reason why the installed JAX does not accept the field; "" if it does.
    """

    name: str
    type: str
    value: str
    default: str
    choices: list[str]
    description: str
    overridden: bool
    reason: str


class KernelMessage(TypedDict):
    """A Pallas kernel of a variant's program.

    Attributes:
      grid: steps along each dimension; None for dimensions that are known only at run time.
      semantics: the semantics of each grid dimension.
      steps_shown: number of grid steps that are shown, from the first; `step_count` is None if it is known only at run time.
      facts: pairs of name and text, such as scratch, aliases and cost.
      memory: None if unknown; then `memory_reason` has the reason.
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
    """The reason why the compiler rejected a kernel, in numbers; the variant shows the original error message.

    Attributes:
      kernel: number of the kernel; None if the compiler does not report it.
      advice: possible remedies, one sentence each.
      asked_bytes, limit_bytes: requested and available bytes of a memory that is too small, else None.
      source: position in the kernel's source; None if unknown.
      help_url: the compiler's documentation page about the error, or "".
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
    """The Pallas kernels of a variant's program, and the compiler's reason for rejecting one."""

    type: Literal["kernels"]
    variant: int
    rows: list[KernelMessage]
    trouble: KernelTrouble | None


class Tuned(TypedDict):
    """The reply to `TuneRequest` number `id`: the new variant, or an error."""

    type: Literal["tuned"]
    id: int
    variant: int | None
    error: Error | None


class TuneRequest(TypedDict):
    """Lowers the program again with different compiler parameters of a kernel, and compiles it as a new variant.

    Attributes:
      id: number of the request; late replies are dropped.
      variant: the variant whose program is tuned, with its options and target.
      values: texts of the changed fields, by field name.
      interpret: runs all kernels in JAX's interpreter on the CPU instead.
    """

    type: Literal["tune"]
    id: int
    variant: int
    kernel: int
    values: dict[str, str]
    interpret: bool
