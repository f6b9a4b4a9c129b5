"""Simulates a schedule with each kernel taking its time at the roof, to estimate the total time and the overlap.

An instruction that starts an asynchronous operation returns at once, and the instruction that ends it waits. Started
operations run in sequence on their stream: communication on the links, copies on the way to or from memory. All other
instructions run in the order of the schedule. A synchronous exchange waits until the links are free. Copies pause while a
memory-bound kernel runs, because each of them needs the whole rate of the memory.

While the device waits for the links, the time is charged to the exchange that holds them, not to the one that is waited
for: a short permute queued behind a long gather is not slow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from inspector.analysis.collectives.operations import dones
from inspector.errors import Missing, Unavailable
from inspector.hlo.execution_counts import unknown_length
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction
from inspector.hlo.reading.single_instructions import FLOW

Bound = Literal["compute", "memory", "communication", "nothing"]
Lane = Literal["device", "links", "copies"]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelWork:
    """One execution of an instruction, known parts only.

    Attributes:
      seconds: time during which it blocks later instructions.
      bound_by: the resource that bounds that time.
      flops, memory_bytes, link_bytes: amounts of work, including the operation that it starts.
      beside_s: time on the links of the operation that it starts.
      done: name of the instruction that waits for that operation; "" if there is none.
    """

    seconds: float
    bound_by: Bound
    flops: float
    memory_bytes: float
    link_bytes: float = 0.0
    beside_s: float = 0.0
    done: str = ""

    def shorter(self, part: float) -> KernelWork:
        """Returns the work with a part of its times and of its accesses to memory."""
        return dataclasses.replace(
            self, seconds=part * self.seconds, memory_bytes=part * self.memory_bytes, beside_s=part * self.beside_s
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """The cost of an execution: seconds by resource, including waits, and amounts of work.

    Attributes:
      compute_s, memory_s, communication_s: time of the device by the resource that bounds it; they sum to the total.
      flops, memory_bytes, link_bytes: amounts of work.
      links_s: time during which exchanges hold the links, exposed or hidden.
    """

    compute_s: float = 0.0
    memory_s: float = 0.0
    communication_s: float = 0.0
    flops: float = 0.0
    memory_bytes: float = 0.0
    link_bytes: float = 0.0
    links_s: float = 0.0

    @property
    def hidden_s(self) -> float:
        """Time during which exchanges hold the links and the device does not wait for them."""
        return max(0.0, self.links_s - self.communication_s)

    @property
    def seconds(self) -> float:
        return self.compute_s + self.memory_s + self.communication_s

    @property
    def bound_by(self) -> Bound:
        """The resource that accounts for most of the time."""
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
            self.memory_bytes + other.memory_bytes, self.link_bytes + other.link_bytes, self.links_s + other.links_s,
        )  # fmt: skip

    def times(self, count: int) -> Spent:
        """Returns the cost of a number of executions in sequence."""
        return Spent(*(getattr(self, name) * count for name in _FIELDS))

    def until(self, end: float, stream: Bound) -> Spent:
        """Returns the cost with a wait until a stream's operation ends.

        Args:
          end: time at which the operation ends, in seconds from the start of the computation.
          stream: the stream's resource.
        """
        waits = end - self.seconds
        return self + _spent(stream, waits) if waits > 0 else self


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """One execution of a collective.

    Attributes:
      waits_s: exposed time: the device waits while this collective holds the links, whatever collective it waits for.
      beside: names of the kernels that run between its start and its end, in order.
    """

    waits_s: float
    beside: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """The simulated execution of a module.

    Attributes:
      spent: total cost.
      missing: unknown parts of the cost.
      overlaps: collectives, by the name of the instruction that performs or starts them.
    """

    spent: Spent
    missing: tuple[Missing, ...]
    overlaps: Mapping[str, Overlap]


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """An activity in one execution of a computation.

    Attributes:
      name: name of the instruction: the one that starts an asynchronous operation, or the one that waits.
      lane: "device" for kernels and waits, "links" for communication, "copies" for copies to or from memory.
      bound_by: the resource that bounds it; for a wait, the resource that the device waits for.
      start_s, end_s: seconds since the start of the computation.
      is_wait: whether the device is idle.
      hidden_s: communication inside a loop or call that its own kernels hide, in seconds.
    """

    name: str
    lane: Lane
    bound_by: Bound
    start_s: float
    end_s: float
    is_wait: bool = False
    hidden_s: float = 0.0


_FIELDS = tuple(field.name for field in dataclasses.fields(Spent))
_NOTHING = Spent()


def play(computation: Computation, work: Mapping[str, KernelWork], unknown_trips: int = 0) -> Played:
    """Simulates one execution of a computation, such as the entry of a module.

    A conditional runs its cheapest branch.

    Args:
      computation: a computation of a scheduled module.
      work: work of each kernel, by name.
      unknown_trips: number of iterations of a loop of unknown length. By default only its condition runs.
    """
    player = _Player(work, unknown_trips=unknown_trips)
    spent = player.play(computation)
    return Played(spent, tuple(dict.fromkeys(player.missing)), player.overlaps)


def intervals(work: Mapping[str, KernelWork], computation: Computation) -> tuple[Interval, ...]:
    """Returns the activities in one execution of a computation, in order of their start."""
    player = _Player(work, computation.id)
    player.play(computation)
    return tuple(sorted(player.intervals, key=lambda each: (each.start_s, each.end_s, each.is_wait)))


@dataclasses.dataclass(slots=True)
class _Operation:
    """An operation beside the device: the instruction that starts it, and the times at which it begins and ends."""

    name: str
    begin_s: float
    end_s: float


class _Stream:
    """Operations that run in sequence beside the device, each from the time at which it is started or the last has ended."""

    def __init__(self) -> None:
        self.operations: list[_Operation] = []

    @property
    def free_s(self) -> float:
        """Time at which the last operation ends."""
        return self.operations[-1].end_s if self.operations else 0.0

    def start(self, name: str, now_s: float, seconds: float) -> _Operation:
        """Adds an operation."""
        begin_s = max(now_s, self.free_s)
        self.operations.append(_Operation(name, begin_s, begin_s + seconds))
        return self.operations[-1]

    def pause(self, now_s: float, seconds: float) -> None:
        """Delays operations that are under way or wait."""
        for each in reversed(self.operations):
            if each.end_s <= now_s:
                return
            each.end_s += seconds
            each.begin_s += seconds if each.begin_s > now_s else 0.0

    def held(self, start_s: float, end_s: float) -> Iterator[tuple[str, float]]:
        """Yields the operations that run in an interval, with the length of their part of it."""
        for each in reversed(self.operations):
            if each.end_s <= start_s:
                return
            if (part := min(each.end_s, end_s) - max(each.begin_s, start_s)) > 0:
                yield each.name, part


class _Player:
    """Simulates computations, each once, and records the intervals of the watched one."""

    def __init__(self, work: Mapping[str, KernelWork], watched: int | None = None, unknown_trips: int = 0) -> None:
        self.intervals: list[Interval] = []
        self._watched, self._unknown_trips = watched, unknown_trips
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
        streams: dict[Bound, _Stream] = {"communication": _Stream(), "memory": _Stream()}
        started: dict[str, tuple[_Operation, Bound]] = {}  # by waiting instruction
        beside: dict[str, list[str]] = {}  # by the start of an exchange: kernels until its end
        under_way: dict[str, str] = {}  # by waiting instruction: the start
        exposed: dict[str, float] = {}
        is_watched = computation.id == self._watched

        def wait(name: str, end_s: float, stream: Bound) -> Spent:
            """Waits for a stream, and charges the time to the exchanges that hold the links."""
            start_s = spent.seconds
            if end_s <= start_s:
                return spent
            if is_watched:
                self.intervals.append(Interval(name, "device", stream, start_s, end_s, is_wait=True))
            if stream == "communication":
                for holder, part in streams[stream].held(start_s, end_s):
                    exposed[holder] = exposed.get(holder, 0.0) + part
            return spent.until(end_s, stream)

        for instruction in computation.schedule:
            name = instruction.name
            now, async_s, stream, done = self._step(instruction, done_by)
            if now.communication_s and name in self._work:  # a synchronous exchange
                spent = wait(name, streams["communication"].free_s, "communication")
                streams["communication"].start(name, spent.seconds, now.communication_s)
                exposed[name] = exposed.get(name, 0.0) + now.communication_s
                beside.setdefault(name, [])
            if is_watched and now.seconds:
                self._watch_now(name, now, spent.seconds)
            if now.memory_s:
                streams["memory"].pause(spent.seconds, now.memory_s)
            spent += now
            if now.seconds:
                for start in under_way.values():
                    beside[start].append(name)
            if done:
                started[done] = streams[stream].start(name, spent.seconds, async_s), stream
                if stream == "communication":
                    under_way[done], beside[name] = name, []
            if name in started:
                operation, stream = started[name]
                spent = wait(name, operation.end_s, stream)
                under_way.pop(name, None)
        for stream, each in streams.items():
            spent = wait(computation.root.name, each.free_s, stream)
        if is_watched:
            self._watch_started(streams)
        self.overlaps |= {name: Overlap(exposed.get(name, 0.0), tuple(names)) for name, names in beside.items()}
        return spent

    def _watch_now(self, name: str, now: Spent, start_s: float) -> None:
        """Records the device's work, then the communication that it waits for. All iterations of a loop are one interval."""
        begun = start_s + now.compute_s + now.memory_s
        hidden_s = 0.0 if name in self._work else now.hidden_s
        if begun > start_s:
            bound: Bound = "compute" if now.compute_s >= now.memory_s else "memory"
            self.intervals.append(Interval(name, "device", bound, start_s, begun, hidden_s=hidden_s))
        if now.communication_s:
            end_s = start_s + now.seconds
            self.intervals.append(Interval(name, "links", "communication", begun, end_s))
            self.intervals.append(Interval(name, "device", "communication", begun, end_s, is_wait=True))

    def _watch_started(self, streams: Mapping[Bound, _Stream]) -> None:
        """Records the operations beside the device."""
        lanes: dict[Bound, Lane] = {"communication": "links", "memory": "copies"}
        recorded = {each.name for each in self.intervals if each.lane == "links"}  # synchronous exchanges
        for bound, stream in streams.items():
            for each in stream.operations:
                if each.end_s > each.begin_s and each.name not in recorded:
                    self.intervals.append(Interval(each.name, lanes[bound], bound, each.begin_s, each.end_s))

    def _step(self, instruction: Instruction, done_by: Mapping[str, Instruction]) -> tuple[Spent, float, Bound, str]:
        """Simulates one instruction.

        Returns:
          The cost that blocks later instructions; the time of the operation that it starts; that operation's stream; the
          name of the instruction that waits for it, "" if there is none.
        """
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
                self.missing.append(Missing(instruction.name, "conditional", "counted as its cheapest branch"))
            return min(called, key=lambda spent: (spent.seconds, spent.memory_bytes, spent.flops))
        if instruction.opcode != "while":
            return _sum(called)
        body, condition = called
        trips = trip_count(instruction)
        if isinstance(trips, Unavailable):
            self.missing.append(unknown_length(instruction))
            trips = self._unknown_trips  # the body may not run
        return body.times(trips) + condition.times(trips + 1)


def _now(work: KernelWork) -> Spent:
    links_s = work.beside_s + (work.seconds if work.bound_by == "communication" else 0.0)
    return _spent(work.bound_by, work.seconds, work.flops, work.memory_bytes, work.link_bytes, links_s)


def _spent(on: Bound, seconds: float, *amounts: float) -> Spent:
    """Returns a cost with seconds of one resource, and amounts of work."""
    return Spent(*(seconds if on == each else 0.0 for each in ("compute", "memory", "communication")), *amounts)


def _sum(spent: Sequence[Spent]) -> Spent:
    whole = _NOTHING
    for each in spent:
        whole += each
    return whole
