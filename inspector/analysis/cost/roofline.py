"""The roofline of a program on a chip: each kernel's bound (arithmetic, memory or links) and its time at that roof.

The model is that of Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. Operations and bytes are XLA's counts (`compilation/cost.py`). The roofs are published
peaks (`analysis/cost/peaks.py`). The time of a kernel is the longest of its times on the units of the chip
(`analysis/cost/kernel_time.py`), and that of a collective is its time on the links
(`analysis/collectives/pricing/price.py`).

Nothing is measured. The times are estimates: a run may be faster if caches hold data that is counted as read from main
memory. A conditional counts its cheapest branch, and a loop of unknown length counts no iteration. An asynchronous
operation overlaps with others until an instruction waits for it (`analysis/cost/schedule_simulation.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.cost.attribution import Part, parts
from inspector.analysis.cost.dot_algorithms import Algorithm
from inspector.analysis.cost.kernel_time import Unit
from inspector.analysis.cost.matrix_unit import NO_PRODUCT
from inspector.analysis.cost.phases import Phases, phases_text
from inspector.analysis.cost.roofline_columns import GROUP_COLUMNS, KERNEL_COLUMNS, KernelRow
from inspector.analysis.cost.roofline_groups import Group, GroupedBy, filled_by, grouped
from inspector.analysis.cost.roofline_plot import roofline_plot
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.cost.schedule_simulation import Bound, Interval, Played, Spent, intervals, play
from inspector.analysis.cost.timed_kernels import TimedKernel, number_of, timed_kernels, works
from inspector.compilation.cost import InstructionCost
from inspector.compilation.cost import total as cost_of
from inspector.compilation.target import Target
from inspector.errors import About, Missing, ParameterError, Partial, Unavailable, missing
from inspector.hlo.module import Computation, Instruction, Module
from inspector.platforms import Peak
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.figures import Picture


@dataclasses.dataclass(frozen=True, slots=True)
class Roofline:
    """The roofline of a program.

    Attributes:
      peak: the chip's figures, or the reason why they are unknown.
      algorithm: arithmetic of most matrix products, with the chip's peak for it.
      points: kernels, the slowest at its roof first, kernels of unknown cost last.
      total: all kernels together. A conditional counts only its cheapest branch, because the branch is known only at run
        time. `least_s` follows the schedule, so it is less than the sum if kernels overlap. It is `About` if custom
        calls, loops of unknown length or links are `missing`.
    """

    peak: Peak | Unavailable
    algorithm: Algorithm | Unavailable
    points: tuple[Point, ...]
    total: Point

    @property
    def peak_name(self) -> str | Unavailable:
        """Name of the flat roof, such as "bf16 x 3"."""
        return self.algorithm if isinstance(self.algorithm, Unavailable) else str(self.algorithm)

    @property
    def flops_per_s(self) -> float | Unavailable:
        """The flat roof in FLOPs per second."""
        if isinstance(self.peak, Unavailable):
            return self.peak
        if isinstance(self.algorithm, Unavailable):
            return self.algorithm
        return self.peak.flops_per_s[self.algorithm.peak_name] / self.algorithm.passes

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per kernel, the slowest at its roof first, followed by the total.

        Columns:
          name, opcode: of the instruction; the total has the module's name.
          executions: number of runs in one execution of the program.
          flops, main_memory_bytes, link_bytes: of all executions; of one execution if their number is unknown.
          algorithm: arithmetic of the matrix products.
          intensity: FLOPs per byte.
          bound_by: the roof that bounds the kernel.
          limited_by: the unit of the chip behind that roof, such as the vector unit (`analysis/cost/kernel_time.py`).
          limit_source: source of that unit's rate.
          least_s: estimated time of all executions in seconds; of one execution if their number is unknown.
          exposed_s: estimated time on the links that no kernel hides.
          filled: upper bound for the used share of the matrix unit.
          share: share of the sum of all kernels' `least_s`; the total's is below 1 if kernels overlap.
          scope, source_file, source_line, phase: for a fusion, of the instructions in it that cause most of its time.
          library_line: the library line that the user's line led to.
          collectives: names of its collectives in `Compiled.collectives()`, which may be inside a fusion.
          unknown: reasons why numbers are missing or incomplete.
        """
        return KERNEL_COLUMNS.data_frame(KernelRow(point, self.spent_s) for point in (*self.points, self.total))

    @property
    def spent_s(self) -> float:
        """Sum of the estimated times of all kernels, in seconds; unknown times count 0."""
        return sum(float(point.least_s) for point in self.points if not isinstance(point.least_s, Unavailable))

    def groups(self, by: GroupedBy) -> tuple[Group, ...]:
        """Returns the kernels summed by a common property, the slowest group first.

        Args:
          by: "scope", "line", "phase", "opcode" or "roof".

        Raises:
          ParameterError: `by` is something else.
        """
        if by not in get_args(GroupedBy):
            raise ParameterError(
                f"Cannot sum kernels by {short(by)}; expected one of {', '.join(get_args(GroupedBy))}."
            )
        return grouped(self.points, by)

    def by(self, by: GroupedBy) -> pd.DataFrame:
        """Returns `groups` as a table with one row per group.

        Columns:
          name: the common property; missing if unknown.
          kernels: number of kernels.
          flops, main_memory_bytes, link_bytes, least_s, exposed_s, filled: as in `table`.
          share: share of the sum of all kernels' times. The program takes less than this sum if kernels overlap.
          unknown: reasons why numbers are missing or incomplete.

        Args:
          by: "scope", "line", "phase", "opcode" or "roof".
        """
        return GROUP_COLUMNS.data_frame(self.groups(by))

    def plot(self) -> Picture:
        """Plots kernels and total by arithmetic intensity and FLOPs per second, both on logarithmic axes."""
        return roofline_plot(self.points, self.total, self.peak, self.flops_per_s, self.peak_name)

    def __repr__(self) -> str:
        if isinstance(self.peak, Unavailable):
            return with_hint(f"<Roofline of {self.total.name}: {self.peak}>", "roofline(inspector.measured_peak())")
        least = self.total.least_s
        if isinstance(least, Unavailable):
            text = f"time at the roof unknown: {least.reason}"
        else:
            text = f"bound by {self.total.bound_by}, about {format_seconds(float(least))} at the roof"
        unknown = f"; {least.reason}" if isinstance(least, Partial) else ""
        text = f"<Roofline of {self.total.name} on {self.peak.chip} ({self.peak_name}): {text}{unknown}; {self.peak.source}>"
        return with_hint(text, ".table(), .by('line'), .plot()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=None if isinstance(self.peak, Unavailable) else self.table())


def roofline(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak | Unavailable,
    collectives: Collectives | None = None,
    target: Target | None = None,
) -> Roofline:
    """Returns the roofline of one execution of a module on one device.

    Args:
      module: the optimized HLO.
      costs: costs of each instruction (`compilation.cost.costs`).
      peak: the device's figures (`analysis.cost.peaks.peak_of`).
      collectives: collectives of the module; None if it has none.
      target: the target, whose links the collectives use; None if unknown.
    """
    timed, main = timed_kernels(module, costs, peak, collectives, target)
    phases = Phases(module)
    played = play(module.entry, works(timed))
    points = sorted((_exposed(_point(each, costs, phases, peak), each, played, peak) for each in timed), key=_rank)
    flops = cost_of(module, costs).flops
    return Roofline(peak, main, tuple(points), _total(module, flops, played, points, peak))


def schedule(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak,
    collectives: Collectives | None = None,
    computation: str | None = None,
    target: Target | None = None,
) -> Schedule:
    """Returns the estimated schedule of one execution of a computation, with each kernel as fast as its roof allows.

    Args:
      module: as for `roofline`.
      costs: as for `roofline`.
      peak: the device's figures.
      collectives: as for `roofline`.
      computation: name of the computation; None for the entry.
      target: as for `roofline`.

    Raises:
      ModuleError: there is no such computation.
    """
    timed, _ = timed_kernels(module, costs, peak, collectives, target)
    shown = module.entry if computation is None else module.computation(computation)
    work = works(timed)
    reached = _called_from(shown)
    doubts = (part for each in timed if each.kernel.instruction.computation.number in reached for part in each.unknown)
    played, items = play(shown, work), intervals(work, shown)
    seconds, _ = _whole_time(played.spent, peak)
    if seconds > played.spent.seconds:
        share = Interval(shown.root.name, "device", "memory", played.spent.seconds, seconds, is_wait=True)
        items = (*items, share)
    return Schedule(shown.name, peak, items, tuple(dict.fromkeys((*doubts, *played.missing))))


class ShorterTime:
    """The estimated time of one execution of a module if some kernels take less time, by the simulated schedule."""

    def __init__(
        self,
        module: Module,
        costs: Mapping[str, InstructionCost],
        peak: Peak,
        collectives: Collectives | None,
        target: Target | None,
    ) -> None:
        """Computes the times of all kernels. Arguments as for `roofline`."""
        self._module, self._peak = module, peak
        timed, _ = timed_kernels(module, costs, peak, collectives, target)
        self._works = works(timed)
        self._timed = {
            each.kernel.instruction.name: (name, each) for name, each in zip(self._works, timed, strict=True)
        }

    def seconds(self, kernels: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None) -> float:
        """Returns the time if kernels, named as in the roofline, take less time. Unknown times count 0.

        A loop of unknown length counts one iteration.

        Args:
          kernels: the part of the time of each kernel that is saved, from 0 to 1; a removed kernel saves 1.
          links: the same for kernels whose time on the links is shorter, but not that of their other work.
        """
        changed = dict(self._works)
        for kernel, saved in (kernels or {}).items():
            name, timed = self._timed[kernel]
            changed[name] = timed.work.shorter(1 - saved)
        for kernel, saved in (links or {}).items():
            name, timed = self._timed[kernel]
            changed[name] = timed.with_links(1 - saved).work
        return _whole_time(play(self._module.entry, changed, unknown_trips=1).spent, self._peak)[0]

    def iteration_s(self, loop: Instruction) -> float:
        """Returns the time of an iteration of a loop."""
        body = loop.called_computations[0]
        return _whole_time(play(body, self._works, unknown_trips=1).spent, self._peak)[0]


def _whole_time(spent: Spent, peak: Peak) -> tuple[float, Bound]:
    """Returns the time of an execution and its bound.

    Overlapping copies share the bandwidth of the memory. A CPU has none of them, and its caches serve a part of the bytes.
    """
    memory_s = 0.0 if peak.caches else spent.memory_bytes / peak.memory_bytes_per_s
    return (memory_s, "memory") if memory_s > spent.seconds else (spent.seconds, spent.bound_by)


def _called_from(computation: Computation) -> frozenset[int]:
    """Returns the numbers of a computation and of all computations that it calls, directly or indirectly."""
    reached, waiting = set[int](), [computation]
    while waiting:
        current = waiting.pop()
        if current.number not in reached:
            reached.add(current.number)
            waiting += [called for instruction in current.calling for called in instruction.called_computations]
    return frozenset(reached)


def _point(timed: TimedKernel, costs: Mapping[str, InstructionCost], phases: Phases, peak: Peak | Unavailable) -> Point:
    kernel, transfer = timed.kernel, timed.transfer
    runs = kernel.place.executions
    times = 1 if isinstance(runs, Unavailable) else runs
    bound, least = _bound(timed)
    found = parts(kernel.instruction, costs, bound, phases)
    if transfer is not None and not found[0].origin.frames:
        phase = phases_text(phases.of(kernel.instruction, transfer.origin.op_name))
        found = (Part(transfer.origin_name or kernel.instruction.name, transfer.origin, phase, 1.0, 1.0, 1.0),)
    return Point(
        name=kernel.instruction.name,
        opcode=kernel.instruction.opcode,
        flops=_times(timed.flops, times),
        main_memory_bytes=_times(timed.memory_bytes, times),
        link_bytes=transfer.link_bytes * times if transfer else 0.0,
        executions=runs,
        algorithm="" if isinstance(timed.time, Unavailable) else timed.time.algorithm,
        bound_by=bound,
        least_s=_times(least, times),
        filled=NO_PRODUCT if isinstance(timed.time, Unavailable) else timed.time.filled,
        parts=found,
        limited_by=_unit(timed, bound),
        limit_source=_source(timed, bound, peak),
        collectives=transfer.collectives if transfer else (),
    )


def _unit(timed: TimedKernel, bound: Bound | Unavailable) -> Unit | Unavailable:
    """Returns the unit that limits a kernel, a part of the resource that bounds it."""
    if isinstance(bound, Unavailable):
        return bound
    if isinstance(timed.time, Unavailable):
        return timed.time
    return "links" if bound == "communication" else timed.time.unit


def _source(timed: TimedKernel, bound: Bound | Unavailable, peak: Peak | Unavailable) -> str:
    """Returns the source of the rate that limits a kernel."""
    if isinstance(timed.time, Unavailable) or isinstance(peak, Unavailable):
        return ""
    return peak.source if bound == "communication" else timed.time.source


def _bound(timed: TimedKernel) -> tuple[Bound | Unavailable, float | Unavailable]:
    """Returns the roof that bounds one execution, and the time at that roof."""
    parts, doubts = dict[Bound, float](), list[Missing]()
    for roof, seconds in timed.parts.items():
        if isinstance(seconds, Unavailable):
            return seconds, seconds
        parts[roof] = float(seconds)
        doubts += missing(seconds)
    bound = max(parts, key=lambda each: parts[each])
    if not parts[bound] and not doubts:
        return "nothing", 0.0
    return bound, About(parts[bound], doubts) if doubts else parts[bound]


def _exposed(point: Point, timed: TimedKernel, played: Played, peak: Peak | Unavailable) -> Point:
    """Returns a point with the part of its communication time that no kernel hides."""
    transfer = timed.transfer
    if transfer is None:
        return point
    if isinstance(peak, Unavailable):
        return dataclasses.replace(point, exposed_s=peak)
    times = 1 if isinstance(point.executions, Unavailable) else point.executions
    overlap = played.overlaps.get(transfer.starter if transfer.done else timed.kernel.instruction.name)
    if overlap is None:
        return dataclasses.replace(point, exposed_s=timed.link_s * times if timed.is_bound_by_links else 0.0)
    doubts = missing(transfer.link_s)
    waits_s = About(overlap.waits_s, doubts) if doubts else overlap.waits_s
    return dataclasses.replace(point, exposed_s=waits_s * times, beside=overlap.beside)


def _total(
    module: Module, flops: float | Unavailable, played: Played, points: Sequence[Point], peak: Peak | Unavailable
) -> Point:
    spent, unknown = played.spent, played.missing
    algorithms = " + ".join(dict.fromkeys(p.algorithm for p in points if p.algorithm))
    left_out = (*_unknown(points, "main_memory_bytes"), *unknown)
    moved = About(spent.memory_bytes, left_out) if left_out else spent.memory_bytes
    amounts = (flops, moved, spent.link_bytes)
    if isinstance(peak, Unavailable):
        return Point(module.name, "", *amounts, 1, algorithms, peak, peak)
    left_out = (*_unknown(points, "least_s"), *unknown)
    seconds, bound = _whole_time(spent, peak)
    if not seconds and left_out:
        none = Unavailable(f"the costs of its kernels are unknown: {About(0, left_out).reason}")
        return Point(module.name, "", *amounts, 1, algorithms, none, none)
    least = About(seconds, left_out) if left_out else seconds
    unknown_links = [part for p in points if isinstance(p.exposed_s, Partial) for part in missing(p.exposed_s)]
    exposed = About(spent.communication_s, unknown_links) if unknown_links else spent.communication_s
    return Point(module.name, "", *amounts, 1, algorithms, bound, least, exposed_s=exposed, filled=filled_by(points))


def _rank(point: Point) -> tuple[float, ...]:
    numbers = (point.least_s, point.flops, point.main_memory_bytes)
    return float(isinstance(point.least_s, Unavailable)), *(-number_of(number) for number in numbers)


def _unknown(points: Iterable[Point], number: str) -> Iterator[Missing]:
    """Yields the unknown parts of a number, for all kernels."""
    for point in points:
        value = getattr(point, number)
        if isinstance(value, Unavailable):
            yield Missing(point.name, point.opcode.replace("-", " "))
        else:
            yield from missing(value)


def _times(number: float | Unavailable, count: int) -> float | Unavailable:
    return number if isinstance(number, Unavailable) else number * count
