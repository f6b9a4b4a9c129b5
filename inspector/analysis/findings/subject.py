"""`Subject`: a compiled program with the analyses that the detectors share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.kernel_time import KernelTimes
from inspector.analysis.cost.roofline import Roofline, ShorterTime
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.findings.at_line import at_line, from_caller, shared_lines
from inspector.analysis.findings.before import Before, Kernels
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.edits import Edit, PlaceDevices, SetFlags, TraceAgain
from inspector.analysis.findings.exchanges import Exchange, exchanges
from inspector.analysis.findings.finding import BY_HAND, Finding
from inspector.analysis.memory.donations import Donations, donations
from inspector.analysis.memory.placement import Placement
from inspector.analysis.memory.scheduled_values import is_scheduled, scheduled_timeline
from inspector.analysis.sharding.program_shardings import Shardings, shardings
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.execution_counts import Place, places
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame
from inspector.platforms import Peak

ESTIMATED = "the estimated times of its kernels"
COMPUTED = "the sizes of the arrays"
_CPU_BYTES_PER_S = 10e9  # of two cores, rounded down
NO_FUNCTION = Unavailable("the function is not available, and this needs another trace of it")
_MOST_OFF = 0.25  # of the memory of results and temporaries by their live ranges from that of the compiled program
_UNKNOWN_SPEED = Unavailable("the speed of the links is unknown")


class Subject:
    """A compiled program that is examined. Analyses are made on first use and shared by all detectors.

    Attributes:
      compiled: the program.
      module: its optimized HLO.
    """

    def __init__(
        self,
        compiled: CompiledProgram,
        before: Callable[[], Module | Unavailable],
        costs: Callable[[], Mapping[str, InstructionCost]],
        roofline: Callable[[], Roofline],
        collectives: Callable[[], Collectives],
    ) -> None:
        """Stores the program and the functions that analyze it.

        Args:
          compiled: the program.
          before: returns its HLO before optimization.
          costs: returns the cost of each instruction by name.
          roofline: returns its roofline.
          collectives: returns its collectives.
        """
        self.compiled, self.module = compiled, compiled.module()
        self._before, self._costs, self._roofline, self._collectives = before, costs, roofline, collectives
        self._times: KernelTimes | None = None

    @functools.cached_property
    def before(self) -> Module | Unavailable:
        """The HLO before optimization, on whole arrays; Unavailable for a program without it."""
        return self._before()

    @functools.cached_property
    def calls(self) -> Before | None:
        """The HLO before optimization with the calls of its functions; None for a program without it."""
        return None if isinstance(self.before, Unavailable) else Before(self.before)

    @functools.cached_property
    def _shared_lines(self) -> frozenset[Frame]:
        """Lines of functions that constrain shardings for several callers."""
        if isinstance(self.before, Unavailable):
            return frozenset()
        return shared_lines(self.before.at(row).frames for row in self.before.calls_to(("Sharding",)))

    def at_line(self, frames: Sequence[Frame], preposition: str = "at") -> str:
        """Returns the user's line in words, with its caller if several lines call it. Arguments as for `at_line`."""
        return at_line(frames, preposition, self._shared_lines)

    @functools.cached_property
    def kernels(self) -> Kernels:
        """The kernels of the optimized HLO by the full names of JAX's operations."""
        return Kernels(self.module, self.places, self.points)

    @functools.cached_property
    def _arguments(self) -> Mapping[int, str]:
        return {a.parameter: a.path for a in self.compiled.program.arguments if a.parameter is not None}

    @functools.cached_property
    def donated(self) -> frozenset[int]:
        """Numbers of the parameters that the caller donates."""
        arguments = self.compiled.program.arguments
        return frozenset(a.parameter for a in arguments if a.parameter is not None and a.donated)

    def argument(self, value: Value) -> str:
        """Returns the name of the argument that a value of the HLO before optimization is; "" if it is none."""
        return self.argument_of(value.instruction)

    def argument_of(self, instruction: Instruction) -> str:
        """Returns the name of the argument that an instruction of either HLO is; "" if it is none."""
        number = instruction.parameter_number
        is_argument = number is not None and instruction.computation.is_entry
        return self._arguments.get(number, "") if is_argument and number is not None else ""

    @functools.cached_property
    def costs(self) -> Mapping[str, InstructionCost]:
        """The cost of one execution of each instruction, by name."""
        return self._costs()

    @functools.cached_property
    def roofline(self) -> Roofline:
        """The roofline of the program."""
        return self._roofline()

    @functools.cached_property
    def collectives(self) -> Collectives:
        """The collectives of the program."""
        return self._collectives()

    @functools.cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The collectives whose time on the links is known."""
        return tuple(exchanges(self.module, self.collectives, self.points, self.roofline.peak, self.compiled.target))

    @functools.cached_property
    def donations(self) -> Donations:
        """The arguments of the program and the outputs that reuse them."""
        return donations(self.compiled)

    @functools.cached_property
    def shardings(self) -> Shardings:
        """The shardings of arguments and results."""
        return shardings(self.compiled)

    @functools.cached_property
    def places(self) -> Mapping[str, Place]:
        """The place of each computation of the optimized HLO, by name."""
        return places(self.module)

    @functools.cached_property
    def points(self) -> Mapping[str, Point]:
        """The kernels of the roofline by name."""
        return {point.name: point for point in self.roofline.points}

    @functools.cached_property
    def _kernels_of_collectives(self) -> Mapping[str, str]:
        """The kernels that are a collective, by its name: an all-to-all on a GPU has the name of its start. Without fusions, which do more."""
        return {
            name: each.name for each in self.roofline.points if each.opcode != "fusion" for name in each.collectives
        }

    @functools.cached_property
    def _started(self) -> Mapping[str, str]:
        """The kernels of collectives that are alone in them, by the name of what starts them: a fusion in JAX 0.12 for GPUs."""
        return {each.holder: each.kernel.name for each in self.exchanges}

    def _kernels_of(self, names: Iterable[str]) -> list[str]:
        """Returns the kernels among instructions, each once, with those of collectives."""
        found = (
            name if name in self.points else self._kernels_of_collectives.get(name) or self._started.get(name)
            for name in names
        )
        return list(dict.fromkeys(name for name in found if name is not None))

    def kernel_times(self, peak: Peak) -> KernelTimes:
        """Returns the times of the kernels by unit, such as the vector unit and the main memory."""
        if self._times is None:
            self._times = KernelTimes(self.module, products(self.module), self.costs, peak)
        return self._times

    @functools.cached_property
    def total_s(self) -> float | Unavailable:
        """Estimated seconds of one execution."""
        seconds = self.roofline.total.least_s
        return seconds if isinstance(seconds, Unavailable) else float(seconds)

    @functools.cached_property
    def nominal_s(self) -> float:
        """Estimated seconds of one execution; for a CPU whose roofs were not measured, the time of its accesses to memory."""
        return self.accessed_bytes / _CPU_BYTES_PER_S if isinstance(self.total_s, Unavailable) else self.total_s

    @functools.cached_property
    def accessed_bytes(self) -> float:
        """Bytes that all kernels access or send in one execution, as far as they are known."""
        return sum(map(_bytes_of, self.roofline.points))

    @functools.cached_property
    def peak_bytes(self) -> int:
        """Peak memory of one device in bytes; 0 if unknown."""
        memory = self.compiled.memory
        return 0 if isinstance(memory, Unavailable) else int(memory.peak_bytes)

    @functools.cached_property
    def fullness(self) -> float | None:
        """The peak memory relative to the device's memory; None if either is unknown."""
        roofs = self.roofline.peak
        if isinstance(roofs, Unavailable) or isinstance(roofs.memory_bytes, Unavailable) or not self.peak_bytes:
            return None
        return self.peak_bytes / roofs.memory_bytes

    @functools.cached_property
    def at_peak(self) -> Mapping[str, int] | None:
        """The bytes of each instruction's buffers in the main memory at its peak, by name; None if the order of the kernels is unknown."""
        if not is_scheduled(self.module):
            return None
        lives = scheduled_timeline(self.module, self.compiled.program.platform, self.roofline.peak)
        found = dict[str, int]()
        for life in lives.alive(next(iter(lives.spaces))):
            found[life.instruction] = found.get(life.instruction, 0) + life.byte_size
        return found

    @functools.cached_property
    def _placement(self) -> Placement | None:
        """The buffers of results and temporaries; None if their sum is not near that of the compiled program."""
        memory = self.compiled.memory
        if isinstance(memory, Unavailable) or not is_scheduled(self.module):
            return None
        placement, known = Placement(self.module), self._compiled_bytes
        return placement if abs(placement.byte_size() - known) <= _MOST_OFF * known else None

    @functools.cached_property
    def _compiled_bytes(self) -> int:
        """The bytes of results and temporaries of the compiled program; 0 if they are unknown."""
        memory = self.compiled.memory
        return (
            0 if isinstance(memory, Unavailable) else int(memory.output_bytes - memory.alias_bytes + memory.temp_bytes)
        )

    @property
    def knows_buffers(self) -> bool:
        """Reports whether `bytes_saved` is an estimate, and no upper bound."""
        return self._placement is not None

    def bytes_saved(self, most: int, donated: Mapping[int, int] | None = None, without: Collection[int] = ()) -> int:
        """Returns the bytes of one device's memory that a donation saves, or results that are left out.

        Temporaries that were in the memory of the results need other memory.

        Args:
          most: the size of the results, which is returned if the buffers are unknown.
          donated: the numbers of the results that reuse the memory of arguments, by the number of the argument's parameter.
          without: numbers of the results that are left out.
        """
        if self._placement is None:
            return most
        before = self._placement.byte_size()
        if (
            not donated
        ):  # the compiled program may have a temporary in the buffer of a result where the simulation has no room
            before = min(before, self._compiled_bytes)
        return max(0, min(most, before - self._placement.byte_size(donated, without)))

    def accessed(self, name: str) -> float:
        """Returns the bytes of main memory that all executions of a kernel access; 0 if they are unknown."""
        return _bytes_of(self.points[name])

    def seconds(self, names: Iterable[str]) -> float | Unavailable:
        """Returns the estimated seconds of kernels in one execution of the program; Unavailable without roofs for them."""
        if isinstance(self.total_s, Unavailable):
            return self.total_s
        found = [_time_of(self.points[name]) for name in self._kernels_of(names)]
        unknown = [each for each in found if isinstance(each, Unavailable)]
        return unknown[0] if unknown else sum(each for each in found if not isinstance(each, Unavailable))

    @functools.cached_property
    def _holders(self) -> Mapping[str, Point]:
        """The kernels that perform collectives, by the names of the collectives, also those that do other work too."""
        return {name: point for point in self.roofline.points for name in point.collectives}

    def accessed_by(self, names: Iterable[str]) -> float:
        """Returns the bytes that kernels access or send, as far as they are known."""
        return sum(_bytes_of(self.points[name]) for name in self._kernels_of(names))

    @functools.cached_property
    def _shorter_time(self) -> ShorterTime | Unavailable:
        peak = self.roofline.peak
        if isinstance(peak, Unavailable):
            return peak
        return ShorterTime(self.module, self.costs, peak, self.collectives, self.compiled.target)

    def seconds_saved(self, parts: Mapping[str, float], instead_s: float = 0.0) -> float | Unavailable:
        """Returns the seconds by which the program is faster if instructions take less time, by the simulated schedule.

        A collective or a copy beside them may take as long, so that less is saved than they take. Of a collective in a kernel with
        other work, only the time on the links counts.

        Args:
          parts: the part of the time of each instruction that is saved, from 0 to 1, by name.
          instead_s: seconds that are spent instead.
        """
        kernels, links = dict[str, float](), dict[str, float]()
        for name, part in parts.items():
            if own := self._kernels_of([name]):
                kernels[own[0]] = part
            elif name in self._holders:
                links[self._holders[name].name] = part
        seconds, shorter = self.seconds((*kernels, *links)), self._shorter_time
        if isinstance(seconds, Unavailable):
            return seconds
        if isinstance(shorter, Unavailable):
            return shorter
        return max(0.0, shorter.seconds() - shorter.seconds(kernels, links) - instead_s)

    def iteration_s(self, loop: Instruction) -> float | Unavailable:
        """Returns the estimated seconds of an iteration of a loop."""
        shorter = self._shorter_time
        if isinstance(shorter, Unavailable):
            return shorter
        return shorter.iteration_s(loop)

    def are_beside_collectives(self, kernels: Collection[str]) -> bool:
        """Reports whether a collective runs beside one of some kernels. XLA may order them otherwise if they are shorter."""
        return any(name in kernels for point in self.roofline.points for name in point.beside)

    def share(self, names: Iterable[str]) -> float:
        """Returns the share of the time that kernels take, or of the accessed bytes if there are no roofs. From 0 to 1."""
        listed = self._kernels_of(names)
        seconds = self.seconds(listed)
        if isinstance(seconds, Unavailable) or isinstance(self.total_s, Unavailable):
            return min(1.0, self.accessed_by(listed) / self.accessed_bytes) if self.accessed_bytes else 0.0
        return min(1.0, seconds / self.total_s) if self.total_s else 0.0

    def finding(
        self,
        kind: str,
        title: str,
        remedy: str,
        *,
        instructions: Iterable[str] = (),
        frames: tuple[Frame, ...] = (),
        saved_part: float = 0.0,
        saved: Mapping[str, float] | None = None,
        instead_s: float = 0.0,
        gain_bytes: int = 0,
        gain_source: str = "",
        caution: str = "",
        edits: tuple[Edit, ...] | Unavailable | None = None,
        compile_s: float = 0.0,
        is_upper_bound: bool = False,
        of_iteration_s: float = 0.0,
        has_estimated_bytes: bool = False,
    ) -> Finding:
        """Returns a finding with its gain.

        Args:
          kind: name of the detector.
          title: the finding in a sentence.
          remedy: code to write, or a flag.
          instructions: names of the instructions that show it; those that are kernels take the time that is saved.
          frames: the call stack of its line.
          saved_part: the part of their time that the remedy saves, from 0 to 1.
          saved: the part of the time of each instruction that the remedy saves, by name, instead of `saved_part`. The saved time is that of
            the simulated schedule; see `seconds_saved`. Without roofs, their accessed bytes count.
          instead_s: the seconds of a collective that the remedy needs instead.
          gain_bytes: bytes of one device's memory that it saves.
          gain_source: what the gain is computed from; by default the estimated times, or the sizes if no time is saved.
          caution: why it may be on purpose, or what it costs.
          edits: what a proof changes; None if the change cannot be made automatically.
          compile_s: seconds of the compile that the remedy saves.
          is_upper_bound: whether `saved_part` is an upper bound.
          of_iteration_s: the seconds of one iteration of the loop if the time is saved in a loop of unknown length; otherwise 0.
          has_estimated_bytes: whether `gain_bytes` is an estimate of what the peak loses, and no upper bound.
        """
        names = tuple(dict.fromkeys((*instructions, *(saved or ()))))
        seconds: float | Unavailable = 0.0
        if saved is not None:
            saved_part, seconds = self._mean_part(saved), self.seconds_saved(saved, instead_s)
        elif saved_part:
            whole_s = self.seconds(names)
            seconds = whole_s if isinstance(whole_s, Unavailable) else saved_part * whole_s
        return Finding(
            kind,
            title,
            names,
            from_caller(frames, self._shared_lines) if frames else (),
            remedy,
            seconds,
            gain_bytes,
            self._saved_share(names, saved_part, seconds, of_iteration_s or self.total_s),
            max(0.0, min(1.0, gain_bytes / self.peak_bytes)) if self.peak_bytes else 0.0,
            gain_source or (ESTIMATED if saved_part else COMPUTED),
            caution,
            self._possible(BY_HAND if edits is None else edits),
            compile_s,
            min(1.0, compile_s / whole_s) if (whole_s := self.compiled.timings.get("compile_s", 0.0)) else 0.0,
            is_upper_bound=is_upper_bound,
            is_of_iteration=bool(of_iteration_s),
            has_estimated_bytes=has_estimated_bytes,
        )

    def _mean_part(self, parts: Mapping[str, float]) -> float:
        """Returns the mean of parts of instructions, weighted by the bytes that they access or send."""
        accessed = {name: self.accessed_by([name]) for name in parts}
        whole = sum(accessed.values())
        return (
            sum(accessed[name] * part for name, part in parts.items()) / whole
            if whole
            else max(parts.values(), default=0.0)
        )

    def _saved_share(
        self, names: tuple[str, ...], saved_part: float, seconds: float | Unavailable, total_s: float | Unavailable
    ) -> float:
        """Returns the share of a time that is saved. Kernels that run at the same time can take longer than the program."""
        if isinstance(seconds, Unavailable) or isinstance(total_s, Unavailable) or not total_s:
            return saved_part * self.share(names) if saved_part else 0.0
        return min(1.0, seconds / total_s)

    def _possible(self, edits: tuple[Edit, ...] | Unavailable) -> tuple[Edit, ...] | Unavailable:
        """Returns edits, or why this program cannot have them."""
        if isinstance(edits, Unavailable):
            return edits
        program = self.compiled.program
        if any(isinstance(edit, TraceAgain) for edit in edits) and program.changed is None:
            return NO_FUNCTION
        is_of_stablehlo = not all(isinstance(edit, SetFlags | PlaceDevices | TraceAgain) for edit in edits)
        return program.no_stablehlo if is_of_stablehlo and program.no_stablehlo is not None else edits


def _bytes_of(point: Point) -> float:
    """Returns the bytes that a kernel accesses or sends, as far as they are known."""
    accessed = 0.0 if isinstance(point.main_memory_bytes, Unavailable) else float(point.main_memory_bytes)
    return accessed + point.link_bytes


def _time_of(point: Point) -> float | Unavailable:
    """Returns the estimated seconds of a kernel; Unavailable for a collective over links of unknown speed."""
    if isinstance(point.least_s, Unavailable):
        return point.least_s
    return float(point.least_s) or (_UNKNOWN_SPEED if point.link_bytes else 0.0)
