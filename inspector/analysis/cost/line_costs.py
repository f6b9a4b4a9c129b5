"""The cost of each line of a program's texts: measured and estimated time, operations and bytes of its kernels.

A fusion's times, bytes and operations (`analysis/cost/roofline.py`, `analysis/profile/`) belong to the lines of the
instructions fused into it (`analysis/cost/attribution.py`). In the optimized HLO, all of them belong to the kernel's line. A line of
another text has the costs of its operation. If several lines belong to one operation, they share its costs equally, so
the lines of every text have the same sum.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from inspector.analysis.cost.attribution import fused
from inspector.analysis.cost.phases import Phases, phases_text
from inspector.errors import Missing, ParameterError, Unavailable, missing
from inspector.hlo.listing import Listing
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Origin, own_first
from inspector.support.notebook import short
from inspector.support.tables import Kind, make_table
from inspector.support.units import format_count

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.cost.roofline import Roofline
    from inspector.analysis.memory.timeline import Timeline
    from inspector.analysis.profile.profile import Profile

OPTIMIZED = "optimized"
NO_PROFILE = Unavailable("the costs were computed without a profile", "Compiled.profile(*inputs) measures one")


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """Sums over all executions. Unknown amounts count as 0.

    Attributes:
      least_s: sum of the kernels' estimated times in seconds, without overlap.
      flops: operations.
      main_memory_bytes: bytes read from and written to main memory.
      peak_bytes: temporaries that are alive at peak memory, in bytes.
      measured_s: mean measured time in one execution on one device, in seconds.
    """

    least_s: float = 0.0
    flops: float = 0.0
    main_memory_bytes: float = 0.0
    peak_bytes: float = 0.0
    measured_s: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    def part(self, share: float) -> Amounts:
        """Returns a share of each amount."""
        return Amounts(*(value * share for value in self.values))

    @property
    def values(self) -> tuple[float, float, float, float, float]:
        """The numbers, in the order of the attributes."""
        return self.least_s, self.flops, self.main_memory_bytes, self.peak_bytes, self.measured_s


@dataclasses.dataclass(frozen=True, slots=True)
class LineCost:
    """The cost of a line in one phase of a differentiated program.

    Attributes:
      line: index of the line, from 0; None for costs that belong to no line of the text.
      phase: as in `Compiled.instructions`; None if unknown.
      amounts: the costs.
    """

    line: int | None
    phase: str | None
    amounts: Amounts


class _Pieces(NamedTuple):
    """Costs by (kernel, phase), and by (origins, phase)."""

    of_kernels: Mapping[tuple[Any, str | None], Amounts]
    of_origins: Mapping[tuple[Any, str | None], Amounts]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LineCosts:
    """The costs of a program's lines.

    Attributes:
      listings: available texts by name: "source", "jaxpr", "stablehlo", "hlo" and "optimized".
      total: sum over all lines, and over costs that belong to no line.
      program_s: estimated seconds of one execution, as `Roofline.total`. It is below `total.least_s` if kernels overlap or only
        one branch of a conditional runs.
      least_s: True if estimated times are known; otherwise the reason.
      peak: True if `peak_bytes` are known; otherwise the reason.
      measured: True if measured times are known; otherwise the reason.
      unknown: kernels with unknown estimates.
      parts: the costs by kernel and instruction in it; the kernel itself for memory, "" for times without an instruction.
    """

    listings: Mapping[str, Listing]
    total: Amounts
    program_s: float | Unavailable
    least_s: bool | Unavailable
    peak: bool | Unavailable
    measured: bool | Unavailable
    unknown: tuple[Missing, ...]
    parts: Mapping[tuple[str, str], Amounts] = dataclasses.field(repr=False)
    _pieces: _Pieces = dataclasses.field(repr=False)

    def on(self, text: str) -> tuple[LineCost, ...]:
        """Returns the lines of a text that have costs, in order, followed by costs that belong to no line.

        Args:
          text: name of the text, one of `listings`.

        Raises:
          ParameterError: there is no such text.
        """
        if text not in self.listings:
            raise ParameterError(f"Unknown text {short(text)}; expected one of {', '.join(self.listings)}.")
        listing = self.listings[text]
        is_optimized = text == OPTIMIZED
        parts = self._pieces.of_kernels if is_optimized else self._pieces.of_origins
        lines = _by_instruction(listing) if is_optimized else _by_origin(listing, is_source=text == "source")
        spent: dict[tuple[int | None, str | None], Amounts] = collections.defaultdict(Amounts)
        for (what, phase), amounts in parts.items():
            for line, share in lines(what).items():
                spent[line, phase] += amounts if share == 1 else amounts.part(share)
        order = sorted(spent, key=lambda key: (key[0] is None, key[0] or 0, key[1] or ""))
        return tuple(LineCost(line, phase, spent[line, phase]) for line, phase in order)

    def table(self, text: str | None = None) -> pd.DataFrame:
        """Returns `on` as a table with one row per line and phase of a differentiated program.

        Columns:
          line: the line number that the text shows; missing for costs that belong to no line.
          text: the line.
          phase: as in `Compiled.instructions`.
          least_s, flops, main_memory_bytes, peak_bytes, measured_s: see `Amounts`. Times and peak are missing if unknown.

        Args:
          text: name of the text, one of `listings`; None for the first one, which is the source if it is known.

        Raises:
          ParameterError: there is no such text.
        """
        text = next(iter(self.listings)) if text is None else text
        costs = self.on(text)
        listing = self.listings[text]
        lines = listing.text.split("\n")
        return make_table(_COLUMNS, (self._row(cost, listing, lines) for cost in costs))

    def known(self, amounts: Amounts) -> tuple[float | Unavailable, ...]:
        """Returns amounts in the order of `Amounts.values`, with the reasons of those that are unknown."""
        least_s, flops, moved, peak, measured_s = amounts.values
        return (
            self.least_s if isinstance(self.least_s, Unavailable) else least_s,
            flops,
            moved,
            self.peak if isinstance(self.peak, Unavailable) else peak,
            self.measured if isinstance(self.measured, Unavailable) else measured_s,
        )

    def _row(self, cost: LineCost, listing: Listing, lines: Sequence[str]) -> tuple[object, ...]:
        least_s, flops, moved, peak, measured_s = (
            None if isinstance(n, Unavailable) else n for n in self.known(cost.amounts)
        )
        known = least_s, flops, moved, peak, measured_s
        if cost.line is None:
            return None, None, cost.phase, *known
        return listing.labels[cost.line] if listing.labels else cost.line + 1, lines[cost.line], cost.phase, *known

    def __repr__(self) -> str:
        return f"<LineCosts of {', '.join(self.listings)}: {format_count(self.total.flops)} flops in {len(self._pieces.of_kernels)} kernels>"


_COLUMNS: Mapping[str, Kind] = {
    "line": "int", "text": "text", "phase": "text", "least_s": "float", "flops": "float", "main_memory_bytes": "float",
    "peak_bytes": "float", "measured_s": "float",
}  # fmt: skip


_ESTIMATED = Unavailable(
    "the file contains no buffer assignment, so its memory is only estimated", "timeline() has the estimate"
)


def line_costs(
    module: Module,
    listings: Mapping[str, Listing],
    roofline: Roofline,
    timeline: Timeline | Unavailable,
    profile: Profile | Unavailable = NO_PROFILE,
) -> LineCosts:
    """Returns the costs of the lines of a program's texts.

    Args:
      module: the optimized HLO.
      listings: texts by name, including "optimized" for the optimized HLO.
      roofline: roofline of the module.
      timeline: memory timeline of the module, or the reason why it is unknown.
      profile: measured times of the module, or the reason why they are unknown.
    """
    spent: dict[tuple[str, str], Amounts] = collections.defaultdict(Amounts)
    doubts: list[Missing] = []
    for point in roofline.points:
        numbers = (point.least_s, point.flops, point.main_memory_bytes)
        if any(isinstance(number, Unavailable) for number in numbers[1:]):
            doubts.append(Missing(point.name, point.opcode.replace("-", " ")))
        doubts += [part for n in numbers if not isinstance(n, Unavailable) for part in missing(n)]
        least_s, flops, moved = (0.0 if isinstance(n, Unavailable) else float(n) for n in numbers)
        if isinstance(point.executions, Unavailable) and (least_s or flops or moved):
            doubts.append(Missing(point.name, "kernel that runs an unknown number of times", "counted once"))
        for part in point.parts:
            spent[point.name, part.instruction] += Amounts(
                least_s * part.least_s, flops * part.flops, moved * part.main_memory_bytes
            )
    if not isinstance(timeline, Unavailable) and timeline.is_estimated:
        timeline = _ESTIMATED  # an estimated peak is not added to measured or counted figures
    for life in () if isinstance(timeline, Unavailable) else _at_peak(timeline):
        spent[life[0], life[0]] += Amounts(peak_bytes=life[1])
    measured = profile if isinstance(profile, Unavailable) else profile.executions
    for place, seconds in () if isinstance(profile, Unavailable) else profile.execution_parts.items():
        spent[place] += Amounts(measured_s=seconds)
    total = functools.reduce(Amounts.__add__, spent.values(), Amounts())
    return LineCosts(
        listings,
        total,
        roofline.total.least_s,
        roofline.peak if isinstance(roofline.peak, Unavailable) else True,
        timeline if isinstance(timeline, Unavailable) else True,
        measured if isinstance(measured, Unavailable) else True,
        tuple(dict.fromkeys(doubts)),
        spent,
        _pieces(module, listings[OPTIMIZED], {place: each for place, each in spent.items() if any(each.values)}),
    )


def shown(name: str, module: Module, lines: Container[str]) -> Instruction | None:
    """Returns an instruction, or its innermost caller that has a line: `slice-start` stands for a computation.

    Args:
      name: name of the instruction; it may be of another compile, and then the result is None.
      module: the optimized HLO.
      lines: names of the instructions that have a line.
    """
    if name not in module.rows_by_name:
        return None
    instruction = module.instruction(name)
    while instruction.name not in lines and (callers := module.callers.get(instruction.computation.name)):
        instruction = callers[0]
    return instruction


def _at_peak(timeline: Timeline) -> Iterable[tuple[str, float]]:
    """Yields (instruction, bytes) of the temporaries at peak memory, in the memory space with the most temporaries."""
    if not timeline.spaces:
        return
    largest = max(timeline.spaces, key=lambda name: timeline.spaces[name].live_bytes)
    for life in timeline.alive(largest):
        if life.kind == "temporary":
            yield life.instruction, float(life.byte_size)


def _pieces(module: Module, optimized: Listing, spent: Mapping[tuple[str, str], Amounts]) -> _Pieces:
    """Sums costs by kernel and by origin.

    Args:
      module: the optimized HLO.
      optimized: its text.
      spent: costs by kernel and instruction; the instruction is one in the kernel, or the kernel itself.
    """
    line_of = {name: line for line, name in enumerate(optimized.instructions) if name is not None}
    entries = memoryview(optimized.line_origins).cast("i")
    phases = Phases(module)

    def entry(instruction: Instruction) -> int:
        return entries[line_of[instruction.name]] if instruction.name in line_of else -1

    def place(instruction: Instruction) -> tuple[int, str | None]:
        """Returns entry and phase of the instruction; of a fusion without an entry, those of its root or another in it."""
        is_fusion = instruction.opcode == "fusion"
        roots = [computation.root for computation in instruction.called_computations] if is_fusion else []
        candidates = itertools.chain((instruction,), roots, fused(instruction) if is_fusion else ())
        known = next((each for each in candidates if entry(each) >= 0), None)
        return (-1, None) if known is None else (entry(known), phases_text(phases.of(known)))

    of_kernels: dict[tuple[str, str | None], Amounts] = collections.defaultdict(Amounts)
    of_entries: dict[tuple[int, str | None], Amounts] = collections.defaultdict(Amounts)
    for (kernel, name), amounts in spent.items():
        holder, instruction = shown(kernel, module, line_of), shown(name, module, line_of)
        index, phase = (-1, None) if instruction is None else place(instruction)
        of_kernels[kernel if holder is None else holder.name, phase] += amounts
        of_entries[index, phase] += amounts
    origins = {index: optimized.origins[index] if index >= 0 else () for index, _ in of_entries}
    of_origins: dict[tuple[tuple[Origin, ...], str | None], Amounts] = collections.defaultdict(Amounts)
    for (index, phase), amounts in of_entries.items():
        of_origins[origins[index], phase] += amounts
    return _Pieces(of_kernels, of_origins)


_Lines = Callable[[Any], Mapping[int | None, float]]
_NO_LINE: Mapping[int | None, float] = {None: 1.0}


def _by_instruction(listing: Listing) -> _Lines:
    lines = {name: line for line, name in enumerate(listing.instructions) if name is not None}
    return lambda kernel: {lines[kernel]: 1.0} if kernel in lines else _NO_LINE


def _by_origin(listing: Listing, *, is_source: bool) -> _Lines:
    """Returns the lines of a text by operation; those of Python source by line."""
    lines: dict[_Key, list[int]] = collections.defaultdict(list)
    texts = listing.text.split("\n")
    for line, index in enumerate(memoryview(listing.line_origins).cast("i").tolist()):
        origins = listing.origins[index] if index >= 0 else ()
        for key in dict.fromkeys(key for origin in origins for key in _keys(origin)):
            lines[key].append(line)
    for key, numbers in lines.items():
        lines[key] = [line for line in numbers if not _is_constant(texts[line])] or numbers

    @functools.cache
    def of(origin: Origin) -> Sequence[int]:
        # Costs in a library belong to the user's innermost line, or to the innermost line that the text shows.
        keys = ((_LINE, "", (f.file, f.line)) for f in own_first(origin.frames)) if is_source else _keys(origin)
        return next((lines[key] for key in keys if key in lines), ())

    def share(origins: tuple[Origin, ...]) -> Mapping[int | None, float]:
        known = [numbers for origin in origins if (numbers := of(origin))]
        shares: dict[int | None, float] = collections.defaultdict(float)
        for numbers in known:
            for line in numbers:
                shares[line] += 1 / (len(numbers) * len(known))
        return shares or _NO_LINE

    return share


_Key = tuple[int, str, tuple[str, int] | None]
_NAME, _PRIMITIVE, _LINE = range(3)


def _keys(origin: Origin) -> Iterator[_Key]:
    """Yields the keys that identify an operation across texts, the most specific first.

    These are the operation's own name with its innermost line; its primitive on that line, because the texts name
    enclosing loops differently; and the line alone.
    """
    innermost = origin.innermost
    place = (innermost.file, innermost.line) if innermost else None
    if place is None:
        yield _NAME, origin.op_name, None
        return
    yield _NAME, _own_name(origin.op_name), place
    yield _PRIMITIVE, origin.op_name.rpartition("/")[2], place
    yield _LINE, "", place


def _is_constant(text: str) -> bool:
    """Reports whether a line of StableHLO or HLO is a constant, whose costs count at its users."""
    return " = stablehlo.constant " in text or " constant(" in text


def _own_name(name: str) -> str:
    """Returns a name without enclosing calls: `jit(f)/shard_map/psum` in HLO is `psum` in the same program's StableHLO."""
    own = [part for part in name.split("/") if not _is_call(part)]
    return "/".join(own) or name


def _is_call(part: str) -> bool:
    is_jit = part.startswith("jit(") and part.endswith(")") and not set(part[4:-1]) & set("()")
    return is_jit or part in ("shard_map", "pjit")
