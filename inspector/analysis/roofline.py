"""The roofline of a program on a chip: is a kernel bound by arithmetic or by memory, and how fast could it be?

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. Operations and bytes are XLA's counts (`analysis/cost.py`), the roofs
are published peaks (`analysis/peaks.py`), and memory is the main memory: what lies in a TPU's vector
memory does not count. Nothing is measured: the times are lower bounds, every operation is held to the
peak of matrix products, and of branches the cheapest is taken.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from inspector.analysis.cost import InstructionCost
from inspector.analysis.kernels import kernel_costs
from inspector.analysis.peaks import Peak
from inspector.errors import Unavailable
from inspector.hlo.module import Computation, Module
from inspector.hlo.single import FLOW
from inspector.units import format_count, format_seconds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from inspector.analysis.picture import Picture

Bound = Literal["compute", "memory", "nothing"]
Least = tuple[float, float, float]  # seconds, bytes, operations: what costs less comes first

# In whose place a peak stands, in order: GPUs round f32 operands to tf32, TPUs multiply them as bf16.
_PEAK_NAMES: Mapping[str, tuple[str, ...]] = {
    "f32": ("tf32", "f32", "bf16"),
    "f16": ("f16", "bf16"),
    "bf16": ("bf16", "f32"),
    "f64": ("f64",),
    "s8": ("s8",),
    "u8": ("s8",),
    "s4": ("s8",),
    "c64": ("tf32", "f32", "bf16"),
}
_PRODUCTS = frozenset({"dot", "convolution", "ragged-dot"})


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A kernel, or the whole program.

    Attributes:
      name: the instruction, or the module.
      opcode: the instruction's, "" for the module.
      flops, main_memory_bytes: of all its executions.
      executions: in one execution of the module.
      bound_by: which roof it meets first; "nothing" when it neither computes nor moves anything.
      least_s: the time that it takes at that roof.
    """

    name: str
    opcode: str
    flops: float
    main_memory_bytes: float
    executions: int
    bound_by: Bound | Unavailable
    least_s: float | Unavailable

    @property
    def intensity(self) -> float | Unavailable:
        """Flops a byte."""
        return self.flops / self.main_memory_bytes if self.main_memory_bytes else Unavailable("it moves no bytes")


@dataclasses.dataclass(frozen=True, slots=True)
class Roofline:
    """A program under its roofs.

    Attributes:
      peak: the chip's figures, or why there are none.
      element_type: that of the operands of most matrix products.
      peak_name: which of the chip's peaks was taken for it.
      points: kernels, the slowest at its roof first.
      total: all of them together, and of a conditional's branches only the cheapest, for which one a run
        takes is not known; its `least_s` is the sum of theirs.
      uncounted: kernels whose operations nobody knows, such as custom calls; left out.
      unknown_loops: kernels in loops of unknown length and in branches, taken to run once.
    """

    peak: Peak | Unavailable
    element_type: str
    peak_name: str | Unavailable
    points: tuple[Point, ...]
    total: Point
    uncounted: tuple[str, ...]
    unknown_loops: tuple[str, ...]

    @property
    def flops_per_s(self) -> float | Unavailable:
        """The flat roof."""
        if isinstance(self.peak, Unavailable) or isinstance(self.peak_name, Unavailable):
            return self.peak if isinstance(self.peak, Unavailable) else Unavailable(str(self.peak_name))
        return self.peak.flops_per_s[self.peak_name]

    def table(self) -> pd.DataFrame:
        """One row a kernel, the slowest at its roof first, and the total.

        Columns: `name, opcode, executions, flops, main_memory_bytes, intensity, bound_by, least_s, share`:
        `flops` and `main_memory_bytes` of all executions, `intensity` in flops a byte, `share` of the total's
        `least_s`.
        """
        import pandas as pd

        return pd.DataFrame([_row(p, self.total) for p in (*self.points, self.total)], columns=list(_COLUMNS))

    def plot(self) -> Picture:
        """Kernels and total in the plane of intensity and operations a second, both logarithmic."""
        return roofline_plot(self)

    def __repr__(self) -> str:
        if isinstance(self.peak, Unavailable):
            return f"<Roofline of {self.total.name}: {self.peak}>"
        return (
            f"<Roofline of {self.total.name} on {self.peak.chip} ({self.peak_name}): bound by {self.total.bound_by}, at least"
            f" {format_seconds(self.total.least_s)}; {self.peak.source}>"
        )


_COLUMNS = (
    "name", "opcode", "executions", "flops", "main_memory_bytes", "intensity", "bound_by", "least_s", "share",
)  # fmt: skip


def roofline(module: Module, costs: Mapping[str, InstructionCost], peak: Peak | Unavailable) -> Roofline:
    """The roofline of one execution of a module on one device.

    Args:
      module: the optimized HLO.
      costs: of each instruction (`analysis.cost.costs`).
      peak: the device's figures (`analysis.peaks.peak_of`).
    """
    element_type = matrix_type(module, costs)
    name = _peak_name(element_type, peak)
    points, uncounted, unknown = [], [], []
    for kernel, cost in kernel_costs(module, costs):
        instruction = kernel.instruction
        if isinstance(cost.flops, Unavailable) or isinstance(cost.main_memory_bytes, Unavailable):
            uncounted.append(instruction.name)
            continue
        if isinstance(kernel.executions, Unavailable):
            unknown.append(instruction.name)
        runs = 1 if isinstance(kernel.executions, Unavailable) else kernel.executions
        flops, moved = cost.flops * runs, cost.main_memory_bytes * runs
        bound, least = _bound(flops, moved, peak, name)
        points.append(Point(instruction.name, instruction.opcode, flops, moved, runs, bound, least))
    points.sort(key=lambda p: (-_number(p.least_s), -p.flops, -p.main_memory_bytes))
    passed_over = _Cheapest({p.name: p for p in points}).passed_over(module)
    taken = [p for p in points if p.name not in passed_over]
    return Roofline(
        peak, element_type, name, tuple(points), _total(module.name, taken, peak, name), tuple(uncounted), tuple(unknown)
    )  # fmt: skip


class _Cheapest:
    """Chooses one branch of every conditional: what any run at least takes."""

    def __init__(self, points: Mapping[str, Point]) -> None:
        self._points = points

    def passed_over(self, module: Module) -> frozenset[str]:
        """The kernels of all other branches."""
        return self._of(module.entry)[1]

    def _of(self, computation: Computation) -> tuple[Least, frozenset[str]]:
        """What a computation takes with the cheapest branches in it, and the kernels of the others."""
        cost: Least = (0.0, 0.0, 0.0)
        passed: frozenset[str] = frozenset()
        for instruction in computation.instructions:
            if instruction.opcode in FLOW:
                called = [self._of(c) for c in instruction.called_computations]
                if instruction.opcode == "conditional":
                    chosen = min(range(len(called)), key=lambda n: called[n][0])
                    others = [c for n, c in enumerate(instruction.called_computations) if n != chosen]
                    passed |= frozenset(name for c in others for name in self._kernels(c))
                    called = [called[chosen]]
                for inside, beside in called:
                    cost, passed = _plus(cost, inside), passed | beside
            elif instruction.name in self._points:
                point = self._points[instruction.name]
                cost = _plus(cost, (_number(point.least_s), point.main_memory_bytes, point.flops))
        return cost, passed

    def _kernels(self, computation: Computation) -> Iterator[str]:
        for instruction in computation.instructions:
            if instruction.opcode in FLOW:
                for called in instruction.called_computations:
                    yield from self._kernels(called)
            elif instruction.name in self._points:
                yield instruction.name


def _plus(one: Least, other: Least) -> Least:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def matrix_type(module: Module, costs: Mapping[str, InstructionCost]) -> str:
    """The element type of the operands of most of a module's matrix products; `f32` without any."""
    flops: collections.Counter[str] = collections.Counter()
    for instruction in module.instructions():
        if instruction.opcode in _PRODUCTS or instruction.custom_call_target.startswith("__cudnn$conv"):
            flops[instruction.operands[0].shape.element_type] += int(_number(costs[instruction.name].flops))
    return flops.most_common(1)[0][0] if flops else "f32"


def roofline_plot(roof: Roofline) -> Picture:
    """The figure of `Roofline.plot`."""
    from inspector.analysis.picture import Picture

    figure = Picture(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    shown = [p for p in roof.points if p.flops and p.main_memory_bytes]
    intensities = [p.flops / p.main_memory_bytes for p in (*shown, roof.total) if p.flops and p.main_memory_bytes] or [
        1.0
    ]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("arithmetic intensity (flop a byte)")
    top = roof.flops_per_s
    if isinstance(roof.peak, Unavailable) or isinstance(top, Unavailable):
        axes.scatter([p.flops / p.main_memory_bytes for p in shown], [p.flops for p in shown], s=14, alpha=0.6)
        axes.set_ylabel("flop")
        axes.set_title(f"{roof.total.name}: no roof: {top}", fontsize=8, loc="left", wrap=True)
        return figure
    _draw_roofs(axes, roof, roof.peak, top, intensities)
    for points, size, label in ((shown, 14, "kernels"), ([roof.total], 60, "the whole program")):
        at = [p.flops / p.main_memory_bytes for p in points if p.flops and p.main_memory_bytes]
        axes.scatter(
            at, [min(top, x * roof.peak.memory_bytes_per_s) for x in at], s=size, alpha=0.7, label=label, zorder=3
        )
    axes.legend(fontsize=8, loc="lower right")
    return figure


def _draw_roofs(axes: Axes, roof: Roofline, peak: Peak, top: float, intensities: list[float]) -> None:
    ridge = top / peak.memory_bytes_per_s
    left, right = min(*intensities, ridge) / 3, max(*intensities, ridge) * 3
    axes.plot([left, ridge, right], [left * peak.memory_bytes_per_s, top, top], color="0.3", linewidth=1.5)
    axes.axvline(ridge, color="0.8", linewidth=0.8, linestyle="--")
    axes.set_ylabel("attainable flop/s")
    axes.set_title(
        f"{roof.total.name} on {peak.chip}: {format_count(top, 'flop/s')} in {roof.peak_name}, memory"
        f" {format_count(peak.memory_bytes_per_s, 'B/s')}\nat least {format_seconds(roof.total.least_s)}, bound by"
        f" {roof.total.bound_by}; peaks: {peak.source}",
        fontsize=8,
        loc="left",
    )


def _peak_name(element_type: str, peak: Peak | Unavailable) -> str | Unavailable:
    if isinstance(peak, Unavailable):
        return peak
    wanted = _PEAK_NAMES.get(element_type, ("f8",) if element_type.startswith("f8") else (element_type,))
    for name in wanted:
        if name in peak.flops_per_s:
            return name
    return Unavailable(
        f"no peak of the {peak.chip} for {element_type} is known; there are {', '.join(peak.flops_per_s)}"
    )


def _bound(
    flops: float, moved: float, peak: Peak | Unavailable, name: str | Unavailable
) -> tuple[Bound | Unavailable, float | Unavailable]:
    if isinstance(peak, Unavailable) or isinstance(name, Unavailable):
        reason = peak if isinstance(peak, Unavailable) else name
        assert isinstance(reason, Unavailable)
        return reason, reason
    compute_s, memory_s = flops / peak.flops_per_s[name], moved / peak.memory_bytes_per_s
    if not compute_s and not memory_s:
        return "nothing", 0.0
    return ("compute", compute_s) if compute_s > memory_s else ("memory", memory_s)


def _total(name: str, points: list[Point], peak: Peak | Unavailable, peak_name: str | Unavailable) -> Point:
    flops, moved = sum(p.flops for p in points), sum(p.main_memory_bytes for p in points)
    bound, least = _bound(flops, moved, peak, peak_name)
    if not points and not isinstance(least, Unavailable):
        unknown = Unavailable("nobody knows what its kernels cost")
        return Point(name, "", flops, moved, 1, unknown, unknown)
    if not isinstance(least, Unavailable):
        least = sum(_number(p.least_s) for p in points)
    return Point(name, "", flops, moved, 1, bound, least)


def _row(point: Point, total: Point) -> tuple[object, ...]:
    share: float | Unavailable = point.least_s if isinstance(point.least_s, Unavailable) else 0.0
    if not isinstance(point.least_s, Unavailable) and not isinstance(total.least_s, Unavailable) and total.least_s:
        share = point.least_s / total.least_s
    return (
        point.name, point.opcode, point.executions, point.flops, point.main_memory_bytes, point.intensity, point.bound_by,
        point.least_s, share,
    )  # fmt: skip


def _number(value: float | Unavailable) -> float:
    return 0.0 if isinstance(value, Unavailable) else value
