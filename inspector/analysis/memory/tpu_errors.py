"""Parses the TPU compiler's errors about programs and kernels, such as the sizes of exceeded memory.

These errors are plain text. Their forms, all from libtpu 0.0.42.1 and 0.0.50.1, are in `tests/analysis/data/pallas`.
Sizes in them are rounded to two decimal places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.memory.live_ranges import Life
from inspector.analysis.memory.timeline import Timeline
from inspector.analysis.pallas.vmem import VMEM, VmemBudget, vmem_budget
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.pallas import PallasKernel
from inspector.hlo.source import Frame, line_text
from inspector.support.units import format_bytes

NOT_ASSIGNED = Unavailable("the compiler rejected the program before it had assigned all buffers")
"""The reason for a missing timeline."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """One of the allocations that the compiler lists in an error.

    Attributes:
      size_bytes: the listed size.
      shape: shape with layout, such as `f32[512,512]{1,0:T(8,128)}`; "" for the compiler's internal allocations.
      tag: the compiler's description of its purpose.
    """

    size_bytes: int
    shape: str
    tag: str


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class MemoryOverflow:
    """An error about a memory that is too small.

    Attributes:
      space: "vmem", "hbm", "smem", ...
      asked_bytes: the total request, or the single allocation that is too large; for the limit of a kernel only the bytes
        that the compiler had counted when it stopped, scratch before blocks.
      limit_bytes: the exceeded limit.
      limit: kind of the limit: "scoped" for that of one kernel, "capacity" for that of the memory.
      kernel: the instruction's name, such as `matmul.1`; "" if the error does not name it.
      allocations: the listed allocations, largest first as the compiler lists them.
      advice: possible remedies, one sentence each, if the program is known.
      timeline: the planned memory use over the schedule, if the compiler had assigned the buffers of the whole program.
    """

    space: str
    asked_bytes: int
    limit_bytes: int
    limit: str
    kernel: str
    allocations: tuple[Refused, ...]
    advice: tuple[str, ...] = ()
    timeline: Timeline | Unavailable = NOT_ASSIGNED

    @property
    def is_of_program(self) -> bool:
        """Reports whether the error concerns the memory of the whole program, not that of one kernel."""
        return self.space == "hbm"

    @property
    def excess_bytes(self) -> int:
        """Returns the number of bytes above the limit."""
        return self.asked_bytes - self.limit_bytes

    def __repr__(self) -> str:
        return f"<MemoryOverflow {self}>"

    def __str__(self) -> str:
        subject = self.kernel or ("the program" if self.is_of_program else "a kernel")
        limit = "the kernel limit" if self.limit == "scoped" else "its capacity"
        least = "at least " if self.limit == "scoped" else ""
        return (
            f"{subject} needs {least}{format_bytes(self.asked_bytes)} of {self.space},"
            f" {least}{format_bytes(self.excess_bytes)} more than {limit} of {format_bytes(self.limit_bytes)}"
        )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class KernelRefused:
    """An error of Mosaic, the compiler of Pallas kernels.

    Attributes:
      reason: Mosaic's message.
      kernel: the instruction's name, such as `matmul.1`; "" if the error does not name it, as in libtpu 0.0.42.
      frames: location in the kernel, innermost frame first; empty if the error has none.
      operation: the MLIR operation that caused the error, or "".
      help_url: URL of the compiler's documentation of the error, or "".
    """

    reason: str
    kernel: str
    frames: tuple[Frame, ...]
    operation: str
    help_url: str

    def __repr__(self) -> str:
        return f"<KernelRefused {self}>"

    def __str__(self) -> str:
        where = f" at {line}" if (line := line_text(self.frames)) else ""
        return f"Mosaic failed{f' on {self.kernel}' if self.kernel else ''}{where}: {self.reason}"


def explain(text: str) -> MemoryOverflow | KernelRefused | None:
    """Parses the text of an error; None for other kinds of errors."""
    text = text.partition(_OURS)[0]
    for read in (_read_scoped, _read_allocation, _read_total, _read_program, _read_mosaic):
        error = read(text)
        if error is not None:
            return error
    return None


def explain_kernel(text: str) -> MemoryOverflow | KernelRefused | None:
    """Parses the text of an error about one kernel; None for errors about the whole program and other kinds."""
    error = explain(text)
    return None if isinstance(error, MemoryOverflow) and error.is_of_program else error


def advice(
    overflow: MemoryOverflow, kernels: Sequence[PallasKernel], chip: str, arguments: Sequence[Argument] = ()
) -> tuple[str, ...]:
    """Suggests remedies with the numbers of the program or kernel, one sentence each.

    Args:
      overflow: the parsed error.
      kernels: kernels of the program.
      chip: the TPU generation.
      arguments: arguments of the program.
    """
    if overflow.is_of_program:
        return tuple(_about_the_peak(overflow, {a.parameter: a.path for a in arguments}))
    if overflow.space != "vmem":
        return ()
    memory, kernel = VMEM.get(chip), kernel_of(overflow.kernel, kernels)
    refused = overflow.asked_bytes if overflow.limit == "scoped" else 0
    budget = vmem_budget(kernel, chip, refused_bytes=refused) if kernel is not None and memory is not None else None
    if isinstance(budget, Unavailable):
        budget = None
    sentences = [] if memory is None else list(_about_the_limit(overflow, memory.capacity_bytes, chip, budget))
    if budget is not None and budget.allocations:
        sentences += _about_the_parts(overflow, budget)
    return tuple(sentences)


def _about_the_peak(overflow: MemoryOverflow, paths: Mapping[int | None, str]) -> Iterator[str]:
    timeline, space = overflow.timeline, overflow.space.upper()
    if isinstance(timeline, Unavailable) or space not in timeline.spaces:
        return
    sums = timeline.spaces[space]
    always = sums.allocated_bytes - sums.temp_bytes
    yield (
        f"Arguments, outputs and constants take {format_bytes(always)} during the whole execution;"
        f" temporaries take {format_bytes(sums.temp_bytes)}."
    )
    alive = timeline.alive(space)[:_LARGEST]
    yield f"Largest buffers at the peak: {', '.join(_named(life, timeline, paths) for life in alive)}."
    if always > overflow.limit_bytes:
        yield "Rematerialization cannot help: shard the arguments, donate those that outputs can reuse, or pass smaller ones."


_LARGEST = 3


def _named(life: Life, timeline: Timeline, paths: Mapping[int | None, str]) -> str:
    origin = timeline.origin(life)
    name = f"argument {paths.get(life.parameter, life.parameter)}" if life.parameter is not None else life.value
    line = f", {line_text(origin.frames, is_short=True)}" if origin.frames else ""
    return f"{name} ({format_bytes(life.byte_size)}{line})"


def _about_the_limit(
    overflow: MemoryOverflow, capacity_bytes: int, chip: str, budget: VmemBudget | None
) -> Iterator[str]:
    needed = max(overflow.asked_bytes, budget.total_bytes if budget is not None else 0)
    if overflow.limit == "capacity" or needed > capacity_bytes:
        yield f"A higher limit cannot help: {chip} has {format_bytes(capacity_bytes)}."
    else:
        yield (
            f"Raise the limit of the kernel ({chip} has {format_bytes(capacity_bytes)}):"
            f" vmem_limit_bytes={-(-needed // (1 << 20)) + 1} << 20."
        )


def _about_the_parts(overflow: MemoryOverflow, budget: VmemBudget) -> Iterator[str]:
    largest = max(budget.allocations, key=lambda a: a.total_bytes)
    buffers = f" in {largest.buffer_count} buffers" if largest.buffer_count > 1 else ""
    yield (
        f"Its largest part is {largest.name}, {'x'.join(map(str, largest.shape))} {largest.dtype}:"
        f" {format_bytes(largest.total_bytes)}{buffers}. Use a smaller block"
        + (", or a single buffer: pipeline_mode=pl.Buffered(1)." if largest.buffer_count > 1 else ".")
    )
    own = overflow.asked_bytes - budget.counted_bytes
    if own > 0:
        yield (
            f"Blocks and scratch take {format_bytes(budget.counted_bytes)} of it; the compiler needs the other"
            f" {format_bytes(own)}, for example for spilled registers."
        )
    elif overflow.limit == "scoped":
        yield budget.remark


def kernel_of(instruction: str, kernels: Sequence[PallasKernel]) -> PallasKernel | None:
    """Returns the kernel that an instruction such as `matmul.1` calls; if no name matches, the program's only kernel."""
    name = instruction.rstrip("0123456789").rstrip(".")
    named = [k for k in kernels if k.name in (instruction, name)]
    return named[0] if named else kernels[0] if len(kernels) == 1 else None


_OURS = " All flags have their default values"  # begins the hint that inspector adds when the compiler rejects a module


def _read_scoped(text: str) -> MemoryOverflow | None:
    """Parses `... while allocating on stack for %NAME = ... Scoped allocation with size S and limit L exceeded ...`."""
    size = _size(_between(text, "Scoped allocation with size ", " and limit "))
    limit = _size(_between(text, " and limit ", " exceeded"))
    if size is None or limit is None:
        return None
    name = _between(text, "while allocating on stack for %", " = ")
    space = _between(text, "Ran out of memory in memory space ", " ")
    return MemoryOverflow(space or "vmem", size, limit, "scoped", name, ())


def _read_allocation(text: str) -> MemoryOverflow | None:
    """Parses `Allocation (size=S) would exceed memory (size=L) :: #a [shape = '...', space=..., tag = '...'] :: NAME`."""
    size = _between(text, "Allocation (size=", ")")
    limit = _between(text, ") would exceed memory (size=", ")")
    if not (size.isdigit() and limit.isdigit()):
        return None
    label = text.partition("] :: ")[2].split(maxsplit=1)
    one = Refused(int(size), _between(text, "[shape = '", "'"), _between(text, "tag = '", "'"))
    space = _between(text, "space=", ",") or "vmem"
    return MemoryOverflow(space, int(size), int(limit), "capacity", label[0].rstrip(".") if label else "", (one,))


def _read_total(text: str) -> MemoryOverflow | None:
    """Parses `Ran out of memory in memory space SPACE. Used S of L SPACE. ...` and the allocations, one paragraph each."""
    space = _between(text, "Ran out of memory in memory space ", ".")
    size, limit = _size(_between(text, " Used ", " of ")), _size(_between(text.partition(" Used ")[2], " of ", " "))
    if not space or size is None or limit is None:
        return None
    listed = text.partition(f"Largest program allocations in {space}:")[2].split("==========================")
    allocations = tuple(a for a in map(_listed, listed) if a is not None)
    labels = (_between(part, "XLA label: ", " = ") for part in listed)
    kernel = next((label for label in labels if label and " " not in label), "")
    return MemoryOverflow(space, size, limit, "capacity", kernel, allocations)


def _read_program(text: str) -> MemoryOverflow | None:
    """Parses `Ran out of memory on SPACE, the total memory required for HLO temporaries (S) exceeds available SPACE (L)`.

    Despite this wording, S includes arguments and outputs.
    """
    space = _between(text, "Ran out of memory on ", ",")
    size = _size(_between(text, "the total memory required for HLO temporaries (", ")"))
    limit = _size(_between(text, f" exceeds available {space} (", ")"))
    if not space or size is None or limit is None:
        return None
    return MemoryOverflow(space.lower(), size, limit, "capacity", "", ())


def _listed(paragraph: str) -> Refused | None:
    fields: dict[str, str] = {}
    for line in paragraph.split("\n"):
        name, colon, value = line.strip().partition(": ")
        if colon:
            fields.setdefault(name.split(". ")[-1], value)
    size = _size(fields.get("Size", ""))
    if size is None:
        return None
    tag = fields.get("Tag") or fields.get("XLA label", "")
    return Refused(size, fields.get("Shape", ""), tag)


def _read_mosaic(text: str) -> KernelRefused | None:
    """Parses `Mosaic failed to compile TPU kernel[ with ... HLO name `NAME`]: REASON` and the details, one paragraph each."""
    message = text.partition("Mosaic failed to compile TPU kernel")[2]
    head, colon, rest = message.partition(": ")
    if not colon:
        return None
    first, _, below = rest.partition("\n")
    operation = below.partition("The MLIR operation involved:\n")[2].partition("\n")[0].strip()
    return KernelRefused(
        reason=first.strip(),
        kernel=_between(head, "HLO name `", "`"),
        frames=_frames(_between(below, "at location: ", "\n")),
        operation=operation,
        help_url=_between(below, "See ", " for more details"),
    )


def _frames(location: str) -> tuple[Frame, ...]:
    """Parses the calls in an MLIR location, each `"function"("file":line:column ...)`, innermost first."""
    parts = location.split('"')  # quoted parts have odd indices
    frames = []
    for i in range(1, len(parts) - 3, 2):
        line = parts[i + 3].lstrip(":").partition(":")[0]
        if parts[i + 1] == "(" and parts[i + 3].startswith(":") and line.isdigit():
            frames.append(Frame(parts[i + 2], int(line), parts[i]))
    return tuple(dict.fromkeys(frames))


def _between(text: str, before: str, after: str) -> str:
    """Returns the text between the first `before` and the next `after`; "" if either is missing."""
    between, has_end, _ = text.partition(before)[2].partition(after)
    return between if has_end else ""


_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _size(text: str) -> int | None:
    """Parses a size such as `18.36M` into bytes; None if the text is not a size."""
    digits = text.rstrip("BKMGT")
    try:
        return round(float(digits) * _UNITS[text[len(digits) :]])
    except (KeyError, ValueError):
        return None
