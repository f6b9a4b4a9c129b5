"""The roofline of a program on a chip: is a kernel bound by arithmetic, memory or links, and how fast could it be?

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. Operations and bytes are XLA's counts (`compilation/cost.py`), the roofs
are published peaks (`analysis/cost/peaks.py`), and memory is the main memory: what lies in a TPU's vector
memory does not count. A matrix product is held to the peak of the arithmetic that it runs by
(`analysis/cost/dot_algorithms.py`), all other operations to the chip's fastest, a collective to the links
(`analysis/collectives/lower_bound.py`). Nothing is measured, and the times are estimates: a run may be faster where caches hold
what is counted as read from the main memory. Of branches the cheapest is taken, loops of unknown length count no round,
and what is started runs beside the rest until something waits for it (`analysis/cost/schedule_simulation.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.lower_bound import Communication, communication
from inspector.analysis.collectives.operations import operations
from inspector.analysis.cost.attribution import Part, parts
from inspector.analysis.cost.dot_algorithms import Algorithm, algorithm_of, main_algorithm, products
from inspector.analysis.cost.kernels import DeviceKernel, kernels
from inspector.analysis.cost.matrix_unit import NO_PRODUCT, filled, mean_filled
from inspector.analysis.cost.phases import Phases, phases_text
from inspector.analysis.cost.roofline_groups import GROUP_COLUMNS, Group, GroupedBy, filled_by, group_row, grouped
from inspector.analysis.cost.roofline_plot import roofline_plot
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.cost.schedule_simulation import Bound, KernelWork, Played, intervals, play, uncounted
from inspector.compilation.cost import InstructionCost
from inspector.compilation.cost import total as cost_of
from inspector.errors import About, Missing, ParameterError, Partial, Unavailable, missing
from inspector.hlo.fused_instructions import Fused
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.source import Origin, library_text
from inspector.platforms import Peak
from inspector.support.notebook import described, with_hint
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.figures import Picture


@dataclasses.dataclass(frozen=True, slots=True)
class Roofline:
    """A program under its roofs.

    Attributes:
      peak: the chip's figures, or why there are none.
      algorithm: by which most matrix products run, with the chip's peak for it.
      points: kernels, the slowest at its roof first, those of which nothing is known last.
      total: all of them together, and of a conditional's branches only the cheapest, for which one a run
        takes is not known. Its `least_s` is that of the schedule: less than the sum where a kernel runs beside
        others. It is `About` where custom calls, loops of unknown length or links are `missing`.
    """

    peak: Peak | Unavailable
    algorithm: Algorithm | Unavailable
    points: tuple[Point, ...]
    total: Point

    @property
    def peak_name(self) -> str | Unavailable:
        """The flat roof's name, such as "bf16 x 3"."""
        return self.algorithm if isinstance(self.algorithm, Unavailable) else str(self.algorithm)

    @property
    def flops_per_s(self) -> float | Unavailable:
        """The flat roof."""
        if isinstance(self.peak, Unavailable):
            return self.peak
        if isinstance(self.algorithm, Unavailable):
            return self.algorithm
        return self.peak.flops_per_s[self.algorithm.peak_name] / self.algorithm.passes

    def table(self) -> pd.DataFrame:
        """One row a kernel, the slowest at its roof first, and the total.

        Columns: `name, opcode, executions, flops, main_memory_bytes, link_bytes, algorithm, intensity, bound_by,
        least_s, exposed_s, filled, share, scope, source_file, source_line, phase, library_line,
        unknown`: `flops`, bytes and `least_s` of all
        executions (of one where nobody knows how many), `intensity` in flops a byte, `share` of the total's `least_s`;
        scope, line and phase of a fusion are those of the instructions in it that cause most of its time. `library_line` is
        the line of a library that the user's line led to. `unknown` says what is missing of a number.
        """
        return make_table(_COLUMNS, (_row(point, self.total) for point in (*self.points, self.total)))

    def groups(self, by: GroupedBy) -> tuple[Group, ...]:
        """The kernels summed by what they share, the slowest first: each kernel is in one group.

        Raises:
          ParameterError: `by` is none of "scope", "line", "phase", "opcode" and "roof".
        """
        if by not in get_args(GroupedBy):
            raise ParameterError(f"Kernels are summed by one of {', '.join(get_args(GroupedBy))}; got {by!r}.")
        return grouped(self.points, by)

    def by(self, by: GroupedBy) -> pd.DataFrame:
        """`groups` as a table, one row each.

        Columns: `name` (missing where nothing tells), `kernels`, `flops`, `main_memory_bytes`, `link_bytes`, `least_s`,
        `exposed_s`, `filled`, `share` (of the sum of all kernels' times, which the program's is less than where kernels run beside each
        other), `unknown`.
        """
        return make_table(GROUP_COLUMNS, map(group_row, self.groups(by)))

    def plot(self) -> Picture:
        """Kernels and total in the plane of intensity and operations a second, both logarithmic."""
        return roofline_plot(self.points, self.total, self.peak, self.flops_per_s, self.peak_name)

    def __repr__(self) -> str:
        if isinstance(self.peak, Unavailable):
            return with_hint(f"<Roofline of {self.total.name}: {self.peak}>", "roofline(inspector.measured_peak())")
        least = self.total.least_s
        if isinstance(least, Unavailable):
            said = f"time at the roofs unknown: {least.reason}"
        else:
            said = f"bound by {self.total.bound_by}, about {format_seconds(float(least))} at the roofs"
        unknown = f"; {least.reason}" if isinstance(least, Partial) else ""
        text = f"<Roofline of {self.total.name} on {self.peak.chip} ({self.peak_name}): {said}{unknown}; {self.peak.source}>"
        return with_hint(text, ".table(), .by('line'), .plot()")

    def _repr_html_(self) -> str:
        return described(repr(self), table=None if isinstance(self.peak, Unavailable) else self.table())


_COLUMNS: Mapping[str, Kind] = {
    "name": "text", "opcode": "text", "executions": "int", "flops": "float", "main_memory_bytes": "float",
    "link_bytes": "float", "algorithm": "text", "intensity": "float", "bound_by": "text", "least_s": "float",
    "exposed_s": "float", "filled": "float", "share": "float", "scope": "text", "source_file": "text", "source_line": "int", "phase": "text",
    "library_line": "text", UNKNOWN: "reasons",
}  # fmt: skip


def roofline(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak | Unavailable,
    collectives: Collectives | None = None,
) -> Roofline:
    """The roofline of one execution of a module on one device.

    Args:
      module: the optimized HLO.
      costs: of each instruction (`compilation.cost.costs`).
      peak: the device's figures (`analysis.peaks.peak_of`).
      collectives: those of the module; None for none.
    """
    timed, main = _all_timed(module, costs, peak, collectives)
    phases = Phases(module)
    played = play(module, _works(timed))
    points = sorted((_exposed(_point(each, costs, phases), each, played, peak) for each in timed), key=_rank)
    flops = cost_of(module, costs).flops
    return Roofline(peak, main, tuple(points), _total(module, flops, played, points, peak))


def schedule(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak,
    collectives: Collectives | None = None,
    computation: str | None = None,
) -> Schedule:
    """What is under way when in one execution of a computation, when each kernel takes its least time.

    Args:
      module: as of `roofline`.
      costs: likewise.
      peak: the device's figures.
      collectives: as of `roofline`.
      computation: its name; None for the entry.

    Raises:
      ModuleError: there is no such computation.
    """
    timed, _ = _all_timed(module, costs, peak, collectives)
    shown = module.entry if computation is None else module.computation(computation)
    works = _works(timed)
    here = _called_from(shown)
    doubts = (part for each in timed if each.kernel.instruction.computation.number in here for part in each.unknown)
    return Schedule(
        shown.name, peak, intervals(works, shown), tuple(dict.fromkeys((*doubts, *uncounted(works, shown))))
    )


def _called_from(computation: Computation) -> frozenset[int]:
    """The numbers of a computation and of those that it leads to."""
    found, waiting = set[int](), [computation]
    while waiting:
        here = waiting.pop()
        if here.number not in found:
            found.add(here.number)
            waiting += [called for instruction in here.calling for called in instruction.called_computations]
    return frozenset(found)


def _works(timed: Iterable[_Timed]) -> dict[str, KernelWork]:
    """By the instruction that does it, or starts it."""
    return {t.exchange.starter if t.exchange and t.exchange.done else t.kernel.instruction.name: t.work for t in timed}


def _all_timed(
    module: Module,
    costs: Mapping[str, InstructionCost],
    peak: Peak | Unavailable,
    collectives: Collectives | None,
) -> tuple[list[_Timed], Algorithm | Unavailable]:
    """Every kernel, and the arithmetic by which most products run."""
    multiplied = products(module)
    main = peak if isinstance(peak, Unavailable) else main_algorithm(multiplied.instructions, costs, peak)
    exchanges = _exchanges(module, collectives, peak) if collectives is not None else {}
    timed = [_timed(each, multiplied, costs, peak, exchanges.get(each.instruction.name)) for each in kernels(module)]
    return timed, main


@dataclasses.dataclass(frozen=True, slots=True)
class _Exchange:
    """What a kernel has to do with other devices: how long, and what starts and what ends it."""

    communication: Communication
    starter: str
    done: str
    origin: Origin
    origin_name: str


def _exchanges(module: Module, collectives: Iterable[Collective], peak: Peak | Unavailable) -> dict[str, _Exchange]:
    """By the kernel that performs it; of several collectives in one kernel, their sum."""
    found: dict[str, _Exchange] = {}
    for operation, collective in zip(operations(module), collectives, strict=True):
        kernel, now = _kernel(module, operation.operation), communication(collective, peak)
        if (before := found.get(kernel)) is not None:
            said = before.communication
            now = Communication(said.link_bytes + now.link_bytes, said.least_s + now.least_s)
        done = operation.done.name if operation.done else ""
        found[kernel] = _Exchange(now, operation.holder.name, done, collective.origin, collective.source_name)
    return found


def _kernel(module: Module, instruction: Instruction) -> str:
    callers = module.callers.get(instruction.computation.name, ())
    is_fused = len(callers) == 1 and callers[0].opcode == "fusion"
    return _kernel(module, callers[0]) if is_fused else instruction.name


@dataclasses.dataclass(frozen=True, slots=True)
class _Timed:
    """One execution of a kernel under the roofs.

    Attributes:
      kernel: which.
      cost: what it costs.
      exchange: with other devices; None for none.
      memory_bytes: through the main memory; of a collective outside of fusions nothing: the links are slower.
      compute_s, memory_s: at the roofs; `About` where a part is not known, unavailable where nothing is.
      algorithm: as in `Point`.
      filled: as in `Point`.
    """

    kernel: DeviceKernel
    cost: InstructionCost
    exchange: _Exchange | None
    memory_bytes: float | Unavailable
    compute_s: float | Unavailable
    memory_s: float | Unavailable
    algorithm: str = ""
    filled: float | Unavailable = NO_PRODUCT

    @property
    def flops(self) -> float | Unavailable:
        return self.cost.flops

    @property
    def link_s(self) -> float:
        return _estimate(self.exchange.communication.least_s) if self.exchange else 0.0

    @property
    def parts(self) -> dict[Bound, float | Unavailable]:
        return {"compute": self.compute_s, "memory": self.memory_s, "communication": self.link_s}

    @property
    def unknown(self) -> Iterator[Missing]:
        """The parts of its time that are not known."""
        for seconds in self.parts.values():
            if isinstance(seconds, Unavailable):
                yield Missing(self.kernel.instruction.name, self.kernel.instruction.opcode.replace("-", " "))
            else:
                yield from missing(seconds)

    @property
    def work(self) -> KernelWork:
        """For the schedule: known parts only."""
        parts = {bound: _number(seconds) for bound, seconds in self.parts.items()}
        amounts = (_number(self.flops), _number(self.memory_bytes))
        links = self.exchange.communication.link_bytes if self.exchange else 0.0
        beside, done = 0.0, self.exchange.done if self.exchange else ""
        if done:
            beside = parts.pop("communication")
        bound = max(parts, key=lambda each: parts[each])
        return KernelWork(parts[bound], bound if parts[bound] else "nothing", *amounts, float(links), beside, done)


def _timed(
    kernel: DeviceKernel,
    multiplied: Fused,
    costs: Mapping[str, InstructionCost],
    peak: Peak | Unavailable,
    exchange: _Exchange | None,
) -> _Timed:
    cost = costs[kernel.instruction.name]
    is_alone = exchange is not None and kernel.instruction.opcode != "fusion"
    moved = 0.0 if is_alone else cost.main_memory_bytes
    if isinstance(peak, Unavailable):
        return _Timed(kernel, cost, exchange, moved, peak, peak)
    memory_s = moved if isinstance(moved, Unavailable) else _estimate(moved / peak.memory_bytes_per_s)
    if is_alone:
        return _Timed(kernel, cost, exchange, moved, 0.0, memory_s)
    inside = [*multiplied.of(kernel.instruction)]
    compute_s, algorithm = _computing(kernel.instruction, inside, costs, peak)
    return _Timed(
        kernel, cost, exchange, moved, compute_s, memory_s, algorithm, _filled(inside, costs, peak.matrix_unit)
    )


def _filled(inside: Sequence[Instruction], costs: Mapping[str, InstructionCost], side: int) -> float | Unavailable:
    """The share of the matrix unit that a kernel's products fill at most, each by its flops."""
    found = [(filled(product, side), costs[product.name].flops) for product in inside]
    known = [(share, _number(flops)) for share, flops in found if not isinstance(share, Unavailable) and flops]
    if len(known) < len(found) or not known:
        return next((share for share, _ in found if isinstance(share, Unavailable)), NO_PRODUCT)
    return mean_filled(known)


def _computing(
    instruction: Instruction, inside: Sequence[Instruction], costs: Mapping[str, InstructionCost], peak: Peak
) -> tuple[float | Unavailable, str]:
    """The least time of all operations of a kernel, matrix products beside the others, and by which arithmetic."""
    whole = costs[instruction.name].flops
    if isinstance(whole, Unavailable):
        return whole, ""
    counted = [(algorithm_of(product, peak), costs[product.name].flops) for product in inside]
    known = [(a, f) for a, f in counted if isinstance(a, Algorithm) and not isinstance(f, Unavailable)]
    seconds = sum(float(flops) * a.passes / peak.flops_per_s[a.peak_name] for a, flops in known)
    rest = float(whole) - sum(float(f) for _, f in counted if not isinstance(f, Unavailable))
    seconds = max(seconds, rest / max(peak.flops_per_s.values()))
    doubts = [*missing(whole)]
    if len(known) < len(counted) or any(a.doubt for a, _ in known):
        doubts.append(Missing(instruction.name, "kernel of uncertain arithmetic", "held to what is known of it"))
    names = " + ".join(dict.fromkeys(str(a) for a, _ in known))
    return (About(seconds, doubts) if doubts else seconds), names


def _point(timed: _Timed, costs: Mapping[str, InstructionCost], phases: Phases) -> Point:
    kernel, exchange = timed.kernel, timed.exchange
    runs = kernel.place.executions
    times = 1 if isinstance(runs, Unavailable) else runs
    bound, least = _bound(timed)
    found = parts(kernel.instruction, costs, bound, phases)
    if exchange is not None and not found[0].origin.frames:
        phase = phases_text(phases.of(kernel.instruction, exchange.origin.op_name))
        found = (Part(exchange.origin_name or kernel.instruction.name, exchange.origin, phase, 1.0, 1.0, 1.0),)
    return Point(
        name=kernel.instruction.name,
        opcode=kernel.instruction.opcode,
        flops=_times(timed.flops, times),
        main_memory_bytes=_times(timed.memory_bytes, times),
        link_bytes=exchange.communication.link_bytes * times if exchange else 0.0,
        executions=runs,
        algorithm=timed.algorithm,
        bound_by=bound,
        least_s=_times(least, times),
        filled=timed.filled,
        parts=found,
    )


def _bound(timed: _Timed) -> tuple[Bound | Unavailable, float | Unavailable]:
    """The roof that one execution meets first, and the time there."""
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


def _exposed(point: Point, timed: _Timed, played: Played, peak: Peak | Unavailable) -> Point:
    """With what of its exchange no kernel hides."""
    exchange = timed.exchange
    if exchange is None:
        return point
    if isinstance(peak, Unavailable):
        return dataclasses.replace(point, exposed_s=peak)
    times = 1 if isinstance(point.executions, Unavailable) else point.executions
    overlap = played.overlaps.get(exchange.starter) if exchange.done else None
    if overlap is None:
        return dataclasses.replace(point, exposed_s=timed.link_s * times)
    doubts = missing(exchange.communication.least_s)
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
    memory_s = spent.memory_bytes / peak.memory_bytes_per_s  # copies beside the rest share the memory with it
    seconds, bound = max((spent.seconds, spent.bound_by), (memory_s, "memory"), key=lambda each: each[0])
    if not seconds and left_out:
        none = Unavailable(f"the costs of its kernels are unknown: {About(0, left_out).reason}")
        return Point(module.name, "", *amounts, 1, algorithms, none, none)
    least = About(seconds, left_out) if left_out else seconds
    unknown_links = [part for p in points if isinstance(p.exposed_s, Partial) for part in missing(p.exposed_s)]
    exposed = About(spent.communication_s, unknown_links) if unknown_links else spent.communication_s
    return Point(module.name, "", *amounts, 1, algorithms, bound, least, exposed_s=exposed, filled=filled_by(points))


def _row(point: Point, total: Point) -> tuple[object, ...]:
    share: float | None = None
    if not isinstance(point.least_s, Unavailable) and not isinstance(total.least_s, Unavailable) and total.least_s:
        share = float(point.least_s) / float(total.least_s)
    intensity = point.intensity
    return (
        point.name, point.opcode, point.executions, point.flops, point.main_memory_bytes, point.link_bytes,
        point.algorithm, None if isinstance(intensity, Unavailable) else intensity, point.bound_by, point.least_s, point.exposed_s,
        None if isinstance(point.filled, Unavailable) else point.filled, share,
        point.scope, point.line.file if point.line else None, point.line.line if point.line else None, point.phase,
        library_text(point.origin.frames),
    )  # fmt: skip


def _rank(point: Point) -> tuple[float, ...]:
    numbers = (point.least_s, point.flops, point.main_memory_bytes)
    return float(isinstance(point.least_s, Unavailable)), *(-_number(number) for number in numbers)


def _unknown(points: Iterable[Point], number: str) -> Iterator[Missing]:
    """The parts of a number of all kernels that are not known."""
    for point in points:
        value = getattr(point, number)
        if isinstance(value, Unavailable):
            yield Missing(point.name, point.opcode.replace("-", " "))
        else:
            yield from missing(value)


def _estimate(seconds: float) -> float:
    """A time at a roof: an estimate, whatever it was counted from."""
    return About(float(seconds), missing(seconds)) if missing(seconds) else seconds


def _times(number: float | Unavailable, count: int) -> float | Unavailable:
    return number if isinstance(number, Unavailable) else number * count


def _number(value: float | Unavailable) -> float:
    return 0.0 if isinstance(value, Unavailable) else float(value)
