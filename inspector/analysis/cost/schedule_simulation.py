"""How long a schedule takes when each kernel takes its time at the roofs: what runs beside what.

An instruction that starts something goes on at once; the one that ends it waits. What is started runs one after
the other on its stream: exchanges on the links, copies on the way to memory. All else runs in the schedule's order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from inspector.analysis.collectives.operations import dones
from inspector.errors import Missing, Unavailable
from inspector.hlo.execution_counts import unknown_length
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.reading.single_instructions import FLOW

Bound = Literal["compute", "memory", "communication", "nothing"]
Lane = Literal["device", "links", "copies"]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelWork:
    """One execution of an instruction, known parts only.

    Attributes:
      seconds: for which it holds up what comes after it.
      bound_by: what that time is spent on.
      flops, memory_bytes, link_bytes: all that it does.
      beside_s: what it starts takes so long, on the links.
      done: the instruction that waits for it; "" for none.
    """

    seconds: float
    bound_by: Bound
    flops: float
    memory_bytes: float
    link_bytes: float = 0.0
    beside_s: float = 0.0
    done: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """What an execution takes: seconds by what they are spent on, waiting included, and amounts."""

    compute_s: float = 0.0
    memory_s: float = 0.0
    communication_s: float = 0.0
    flops: float = 0.0
    memory_bytes: float = 0.0
    link_bytes: float = 0.0

    @property
    def seconds(self) -> float:
        return self.compute_s + self.memory_s + self.communication_s

    @property
    def bound_by(self) -> Bound:
        """What most of the seconds are spent on."""
        parts: dict[Bound, float] = {
            "compute": self.compute_s, "memory": self.memory_s, "communication": self.communication_s,
        }  # fmt: skip
        return max(parts, key=lambda bound: parts[bound]) if self.seconds else "nothing"

    def __add__(self, other: Spent) -> Spent:
        if self is _NOTHING or other is _NOTHING:
            return self if other is _NOTHING else other
        return Spent(
            self.compute_s + other.compute_s, self.memory_s + other.memory_s,
            self.communication_s + other.communication_s, self.flops + other.flops,
            self.memory_bytes + other.memory_bytes, self.link_bytes + other.link_bytes,
        )  # fmt: skip

    def times(self, count: int) -> Spent:
        """So often, one after the other."""
        return Spent(*(getattr(self, name) * count for name in _FIELDS))

    def until(self, end: float, stream: Bound) -> Spent:
        """With the wait for the end of what runs on a stream."""
        waits = end - self.seconds
        return self + _spent(stream, waits) if waits > 0 else self


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """An exchange that is started and waited for later, of one execution.

    Attributes:
      waits_s: of its time on the links that for which what waits for its end has nothing else to do: exposed; with
        exchanges before it on the links, more than it takes itself.
      beside: the kernels that run meanwhile, in their order.
    """

    waits_s: float
    beside: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """The course of a module.

    Attributes:
      spent: in all.
      missing: what is not known of it.
      overlaps: by the instruction that starts the exchange.
    """

    spent: Spent
    missing: tuple[Missing, ...]
    overlaps: Mapping[str, Overlap]


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """Something that is under way in one execution of a computation.

    Attributes:
      name: the instruction; of what runs beside others the one that starts it, of a wait the one that waits.
      lane: the "device" runs kernels, or waits; the "links" carry exchanges; "copies" are on their way to or from memory.
      bound_by: what its time is spent on; of a wait what is waited for.
      start_s, end_s: since the computation's beginning.
      is_wait: whether the device has nothing to do.
    """

    name: str
    lane: Lane
    bound_by: Bound
    start_s: float
    end_s: float
    is_wait: bool = False


_FIELDS = tuple(field.name for field in dataclasses.fields(Spent))
_NOTHING = Spent()


def play(module: Module, work: Mapping[str, KernelWork]) -> Played:
    """The time of one execution of a module, and what runs beside what.

    Args:
      module: in the order in which it runs.
      work: of each instruction that does something, by name. Of a loop of unknown length only the condition
        runs, and of a conditional the branch that takes the least.
    """
    player = _Player(work)
    spent = player.play(module.entry)
    return Played(spent, tuple(dict.fromkeys(player.missing)), player.overlaps)


def intervals(work: Mapping[str, KernelWork], computation: Computation) -> tuple[Interval, ...]:
    """What is under way when in one execution of one computation of a module, in order of the beginning."""
    player = _Player(work, computation.id)
    player.play(computation)
    return tuple(sorted(player.intervals, key=lambda each: (each.start_s, each.end_s)))


def uncounted(work: Mapping[str, KernelWork], computation: Computation) -> tuple[Missing, ...]:
    """The loops of unknown length and the conditionals in one execution of a computation, which are counted in part."""
    player = _Player(work)
    player.play(computation)
    return tuple(dict.fromkeys(player.missing))


class _Player:
    """Plays computations, each once; of the watched one it keeps the intervals."""

    def __init__(self, work: Mapping[str, KernelWork], watched: int | None = None) -> None:
        self.intervals: list[Interval] = []
        self._watched = watched
        self.missing: list[Missing] = []
        self.overlaps: dict[str, Overlap] = {}
        self._work = work
        self._played: dict[int, Spent] = {}

    def play(self, computation: Computation) -> Spent:
        if computation.id not in self._played:
            self._played[computation.id] = self._play(computation)
        return self._played[computation.id]

    def _play(self, computation: Computation) -> Spent:
        spent, done_by = _NOTHING, dones(computation)
        free: dict[Bound, float] = {}  # when a stream has done all that was started
        ends: dict[str, tuple[float, Bound]] = {}
        under_way: dict[str, tuple[str, list[str]]] = {}  # by what waits for it: what started it, what runs meanwhile
        is_watched = computation.id == self._watched
        for instruction in computation.schedule:
            now, beside, stream, done = self._step(instruction, done_by)
            if is_watched and now.seconds:
                self._watch_now(instruction.name, now, spent.seconds)
            spent += now
            if now.seconds:
                for _, meanwhile in under_way.values():
                    meanwhile.append(instruction.name)
            if done:
                begun = max(spent.seconds, free.get(stream, 0.0))
                free[stream] = begun + beside
                ends[done] = free[stream], stream
                if is_watched and beside:
                    lane: Lane = "links" if stream == "communication" else "copies"
                    self.intervals.append(Interval(instruction.name, lane, stream, begun, begun + beside))
                if stream == "communication":
                    under_way[done] = instruction.name, []
            if instruction.name in ends:
                waited = spent.until(*ends[instruction.name])
                if is_watched and waited.seconds > spent.seconds:
                    awaited = ends[instruction.name][1]
                    wait = Interval(instruction.name, "device", awaited, spent.seconds, waited.seconds, is_wait=True)
                    self.intervals.append(wait)
                if instruction.name in under_way:
                    start, meanwhile = under_way.pop(instruction.name)
                    self.overlaps[start] = Overlap(waited.seconds - spent.seconds, tuple(meanwhile))
                spent = waited
        for stream, end in free.items():
            spent = spent.until(end, stream)
        return spent

    def _watch_now(self, name: str, now: Spent, start_s: float) -> None:
        """What the device does, then the exchanges that it waits for; of a loop all rounds together."""
        begun = start_s + now.compute_s + now.memory_s
        if begun > start_s:
            bound: Bound = "compute" if now.compute_s >= now.memory_s else "memory"
            self.intervals.append(Interval(name, "device", bound, start_s, begun))
        if now.communication_s:
            end_s = start_s + now.seconds
            self.intervals.append(Interval(name, "links", "communication", begun, end_s))
            self.intervals.append(Interval(name, "device", "communication", begun, end_s, is_wait=True))

    def _step(self, instruction: Instruction, done_by: Mapping[str, Instruction]) -> tuple[Spent, float, Bound, str]:
        """What an instruction holds up, how long what it starts takes, on which stream, and what waits for it."""
        work, done = self._work.get(instruction.name), done_by.get(instruction.name)
        if work is not None and work.done:
            return _now(work), work.beside_s, "communication", work.done
        if done is not None and (work is not None or instruction.opcode == "async-start"):
            alone = _now(work) if work is not None else self._called(instruction)
            amounts = dataclasses.replace(alone, compute_s=0.0, memory_s=0.0, communication_s=0.0)
            return amounts, alone.seconds, "memory", done.name
        if work is not None:
            return _now(work), 0.0, "nothing", ""
        return self._called(instruction) if instruction.opcode in FLOW else _NOTHING, 0.0, "nothing", ""

    def _called(self, instruction: Instruction) -> Spent:
        called = [self.play(computation) for computation in instruction.called_computations]
        if instruction.opcode == "conditional":
            if len(set(called)) > 1:
                self.missing.append(Missing(instruction.name, "conditional", "held to the cheapest branch"))
            return min(called, key=lambda spent: (spent.seconds, spent.memory_bytes, spent.flops))
        if instruction.opcode != "while":
            return _sum(called)
        body, condition = called
        trips = trip_count(instruction)
        if isinstance(trips, Unavailable):
            self.missing.append(unknown_length(instruction))
            return condition  # the body may not run
        return body.times(trips) + condition.times(trips + 1)


def _now(work: KernelWork) -> Spent:
    return _spent(work.bound_by, work.seconds, work.flops, work.memory_bytes, work.link_bytes)


def _spent(on: Bound, seconds: float, *amounts: float) -> Spent:
    """Seconds on one thing, and amounts."""
    return Spent(*(seconds if on == each else 0.0 for each in ("compute", "memory", "communication")), *amounts)


def _sum(spent: Sequence[Spent]) -> Spent:
    whole = _NOTHING
    for each in spent:
        whole += each
    return whole
