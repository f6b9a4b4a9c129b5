"""Pallas kernels for TPUs that copy the same blocks again and again, while VMEM has room for larger ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.kernel_time import KernelTimes
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.kernel_calls import calls_of, kernel_text, origin
from inspector.analysis.findings.subject import Subject
from inspector.analysis.pallas.vmem import VMEM
from inspector.compilation.kernels.costs import KernelBody
from inspector.compilation.kernels.walk import Window
from inspector.errors import Unavailable
from inspector.hlo.backend_config import vmem_limit_bytes, vmem_scratch_bytes
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.support.units import counted, format_bytes

KIND = "block-traffic"
_LEAST_TIMES = 1.5  # that an array is copied
_LEAST_SAVED = 0.05  # of a kernel's time
_NAMED = 3  # arrays in a title
_NEARLY = 0.02  # of a kernel's time
_CAUTION = "Scratch memory grows with the blocks, and fewer steps are left to overlap copies with arithmetic or to divide among cores."


class _Again(NamedTuple):
    """An array whose blocks are copied again.

    Attributes:
      name: its name.
      shape: its shape.
      window: its blocks.
      times: number of times that the whole array is copied.
      along: grid dimensions of several steps along which its block stays the same.
    """

    name: str
    shape: Shape
    window: Window
    times: float
    along: tuple[int, ...]


class _Remedy(NamedTuple):
    """Larger blocks.

    Attributes:
      factor: how many times as long they are.
      dimensions: the grid dimensions that get as many times fewer steps.
      saved: the part of the kernel's time that they save.
    """

    factor: int
    dimensions: tuple[int, ...]
    saved: float


def block_traffic(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each kernel that main memory bounds and larger blocks would make faster."""
    peak = subject.roofline.peak
    vmem = None if isinstance(peak, Unavailable) else VMEM.get(peak.chip)
    if vmem is None or isinstance(peak, Unavailable):
        return
    times = KernelTimes(subject.module, products(subject.module), subject.costs, peak)
    alike: dict[tuple[str, str, float], list[Instruction]] = {}
    for call in calls_of(subject):
        body, point = subject.costs[call.name].body, subject.points.get(call.name)
        if body is None or point is None or point.limited_by != "main memory":
            continue
        again = [*_copied_again(subject, call, body)]
        used, limit = vmem_scratch_bytes(call), vmem_limit_bytes(call) or vmem.default_limit_bytes
        time = times.of(call)
        if not again or isinstance(used, Unavailable) or isinstance(time.compute_s, Unavailable):
            continue
        remedy = _remedy(body, again, used, limit, float(time.compute_s) / time.units["main memory"])
        if remedy.saved >= _LEAST_SAVED:
            texts = _title(subject, call, again), _text(body, remedy, used, limit)
            alike.setdefault((*texts, remedy.saved), []).append(call)
    for (title, remedy_text, saved), calls in alike.items():
        more = f" {len(calls)} calls of it do this." if len(calls) > 1 else ""
        yield subject.finding(
            KIND, title + more, remedy_text, instructions=[each.name for each in calls], frames=calls[0].frames,
            saved_part=saved, caution=_CAUTION,
        )  # fmt: skip


def _copied_again(subject: Subject, call: Instruction, body: KernelBody) -> Iterator[_Again]:
    """Yields the arrays that a kernel copies more than once, because their blocks stay the same along a dimension of the grid."""
    sides = ([each.shape for each in call.operands], body.operands), (call.shape.leaves, body.results)
    for (shapes, windows), side in zip(sides, ("operand", "result"), strict=True):
        for number, window in windows.items():
            times = window.copied_bytes / shapes[number].byte_size if shapes[number].byte_size else 0.0
            along = tuple(axis for axis in window.repeated if body.grid[axis] > 1)
            if times >= _LEAST_TIMES and along:
                name = origin(subject, call, number) if side == "operand" else f"result {number}"
                yield _Again(name, shapes[number], window, times, along)


def _remedy(body: KernelBody, again: list[_Again], used: int, limit: int, compute: float) -> _Remedy:
    """Returns the smallest blocks that save nearly as much as the largest ones for which VMEM has room.

    Args:
      body: the kernel.
      again: the arrays that it copies again.
      used: bytes of VMEM that it uses.
      limit: bytes of VMEM that it may use.
      compute: the longest time on a computing unit as a part of the time in main memory.
    """
    dimensions = tuple(sorted({axis for each in again for axis in each.along}))
    windows = [*body.operands.values(), *body.results.values()]
    whole = sum(each.copied_bytes for each in windows)
    found = [_Remedy(1, dimensions, 0.0)]
    while (factor := 2 * found[-1].factor) <= max(body.grid[axis] for axis in dimensions):
        if _vmem(windows, dimensions, used, factor) > limit:
            break
        rest = whole - sum(each.window.copied_bytes * (1 - 1 / _fewer(each, body.grid, factor)) for each in again)
        found.append(_Remedy(factor, dimensions, 1 - max(rest / whole, compute)))
    return next(each for each in found if each.saved >= found[-1].saved - _NEARLY)


def _vmem(windows: list[Window], dimensions: tuple[int, ...], used: int, factor: int) -> float:
    """Returns the VMEM that a kernel needs with larger blocks: what has no block, such as scratch, grows along all dimensions."""
    larger, rest = 0.0, float(used)
    for window in windows:
        block = window.block_bytes * (2 if window.copies > 1 else 1)
        larger += block * math.prod(factor for axis in dimensions if axis not in window.repeated)
        rest -= block
    return larger + max(0.0, rest) * math.prod(factor for _ in dimensions)


def _fewer(again: _Again, grid: tuple[int, ...], factor: int) -> float:
    """Returns how many times less often larger blocks copy an array."""
    return min(again.times, math.prod(min(factor, grid[axis]) for axis in again.along))


def _title(subject: Subject, call: Instruction, again: list[_Again]) -> str:
    most = sorted(again, key=lambda each: -each.window.copied_bytes)
    texts = [f"{each.name} ({format_bytes(each.shape.byte_size)}) {each.times:.3g} times" for each in most[:_NAMED]]
    rest = [counted(len(most) - _NAMED, "other array")] if len(most) > _NAMED else []
    *first, last = [*texts, *rest]
    arrays = f"{', '.join(first)} and {last}" if first else last
    return f"The {kernel_text(subject, call)} copies {arrays} between main memory and VMEM, and the copies take longer than its arithmetic."


def _text(body: KernelBody, remedy: _Remedy, used: int, limit: int) -> str:
    grid = tuple(
        math.ceil(size / remedy.factor) if axis in remedy.dimensions else size for axis, size in enumerate(body.grid)
    )
    along = f"grid dimension{'s' if len(remedy.dimensions) > 1 else ''} {' and '.join(map(str, remedy.dimensions))}"
    return (
        f"grid = {grid}  # instead of {body.grid}: blocks {remedy.factor} times as long along {along}\n"
        f"# the kernel uses {format_bytes(used)} of {format_bytes(limit)} VMEM now"
    )
