"""What each line of a program's texts costs: times, operations and bytes of the kernels that came of it.

A fusion's time at the roof (`analysis/cost/roofline.py`), bytes and operations belong to the lines of the instructions fused
into it (`analysis/cost/attribution.py`). In the optimized HLO all of it stands at the kernel. A line of another text gets what comes from its operation, and where
several lines stand for one operation they share it, so that the lines of every text sum up to the same.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from inspector.analysis.cost.attribution import fused
from inspector.analysis.cost.phases import Phases, phases_text
from inspector.errors import Missing, ParameterError, Unavailable, missing
from inspector.hlo.listing import Listing
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Origin, own_first
from inspector.support.tables import Kind, make_table
from inspector.support.units import format_count

if TYPE_CHECKING:
    import pandas as pd

    from inspector.analysis.cost.roofline import Roofline
    from inspector.analysis.memory.timeline import Timeline

OPTIMIZED = "optimized"


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """Sums over all executions; what is not known counts as nothing.

    Attributes:
      least_s: the kernels' times at their roofs, one behind the other.
      flops: operations.
      main_memory_bytes: read from and written to the main memory.
      peak_bytes: temporaries that live when most do.
    """

    least_s: float = 0.0
    flops: float = 0.0
    main_memory_bytes: float = 0.0
    peak_bytes: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    def part(self, share: float) -> Amounts:
        """A share of each."""
        return Amounts(*(value * share for value in self.values))

    @property
    def values(self) -> tuple[float, float, float, float]:
        """The numbers, in the order of the attributes."""
        return self.least_s, self.flops, self.main_memory_bytes, self.peak_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class LineCost:
    """What a line costs in one part of a differentiated program.

    Attributes:
      line: from 0; None for what no line of the text stands for.
      phase: as in `Compiled.instructions`; None where nothing tells.
      amounts: how much.
    """

    line: int | None
    phase: str | None
    amounts: Amounts


class _Pieces(NamedTuple):
    """What is spent, by the kernels and by the origins that it belongs to, each with the part of the program."""

    of_kernels: Mapping[tuple[Any, str | None], Amounts]
    of_origins: Mapping[tuple[Any, str | None], Amounts]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LineCosts:
    """The costs of a program's lines.

    Attributes:
      listings: the texts by name: "source", "jaxpr", "stablehlo", "hlo" and "optimized"; those that there are.
      total: of all lines and of what has none.
      least_s: whether times are known, else why not.
      peak: whether `peak_bytes` are known, else why not.
      unknown: kernels of which something is not known.
    """

    listings: Mapping[str, Listing]
    total: Amounts
    least_s: bool | Unavailable
    peak: bool | Unavailable
    unknown: tuple[Missing, ...]
    _pieces: _Pieces = dataclasses.field(repr=False)

    def on(self, text: str) -> tuple[LineCost, ...]:
        """The lines of a text that cost something, in order, and what no line stands for last.

        Raises:
          ParameterError: there is no such text.
        """
        if text not in self.listings:
            raise ParameterError(f"The texts are {', '.join(self.listings)}; got {text!r}.")
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

    def table(self, text: str = "source") -> pd.DataFrame:
        """`on` as a table, one row a line and part of a differentiated program.

        Columns: `line` (the number that the text shows, missing where no line stands for it), `text`, `phase`, `least_s`,
        `flops`, `main_memory_bytes`, `peak_bytes` (see `Amounts`; times and peak are missing where they are not known).

        Raises:
          ParameterError: there is no such text.
        """
        found = self.on(text)
        listing = self.listings[text]
        lines = listing.text.split("\n")
        return make_table(_COLUMNS, (self._row(cost, listing, lines) for cost in found))

    def _row(self, cost: LineCost, listing: Listing, lines: Sequence[str]) -> tuple[object, ...]:
        least_s, flops, moved, peak = cost.amounts.values
        known = least_s if self.least_s is True else None, flops, moved, peak if self.peak is True else None
        if cost.line is None:
            return None, None, cost.phase, *known
        return listing.labels[cost.line] if listing.labels else cost.line + 1, lines[cost.line], cost.phase, *known

    def __repr__(self) -> str:
        return f"<LineCosts of {', '.join(self.listings)}: {format_count(self.total.flops)} flops in {len(self._pieces.of_kernels)} kernels>"


_COLUMNS: Mapping[str, Kind] = {
    "line": "int", "text": "text", "phase": "text", "least_s": "float", "flops": "float", "main_memory_bytes": "float",
    "peak_bytes": "float",
}  # fmt: skip


def line_costs(
    module: Module,
    listings: Mapping[str, Listing],
    roofline: Roofline,
    timeline: Timeline | Unavailable,
) -> LineCosts:
    """What the lines of a program's texts cost.

    Args:
      module: the optimized HLO.
      listings: the texts; that of the optimized HLO, "optimized", among them.
      roofline: its kernels under the roofs.
      timeline: its memory, or why that is not known.
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
    for life in () if isinstance(timeline, Unavailable) else _at_peak(timeline):
        spent[life[0], life[0]] += Amounts(peak_bytes=life[1])
    total = functools.reduce(Amounts.__add__, spent.values(), Amounts())
    return LineCosts(
        listings,
        total,
        roofline.peak if isinstance(roofline.peak, Unavailable) else True,
        timeline if isinstance(timeline, Unavailable) else True,
        tuple(dict.fromkeys(doubts)),
        _pieces(module, listings[OPTIMIZED], {place: each for place, each in spent.items() if any(each.values)}),
    )


def _at_peak(timeline: Timeline) -> Iterable[tuple[str, float]]:
    """Temporaries of the memory that holds most of them, at its fullest moment."""
    if not timeline.spaces:
        return
    fullest = max(timeline.spaces, key=lambda name: timeline.spaces[name].live_bytes)
    for life in timeline.alive(fullest):
        if life.kind == "temporary":
            yield life.instruction, float(life.byte_size)


def _pieces(module: Module, optimized: Listing, spent: Mapping[tuple[str, str], Amounts]) -> _Pieces:
    """Sums up what is spent at pairs of a kernel and an instruction in it, or itself."""
    line_of = {name: line for line, name in enumerate(optimized.instructions) if name is not None}
    entries = memoryview(optimized.line_origins).cast("i")
    names, phases = set(module.columns.names), Phases(module)

    def entry(instruction: Instruction) -> int:
        return entries[line_of[instruction.name]] if instruction.name in line_of else -1

    def shown(name: str) -> Instruction | None:
        """The instruction, or what holds it where it has no line: `slice-start` stands for a computation of one slice."""
        if name not in names:  # buffers are those of another compile
            return None
        instruction = module.instruction(name)
        while instruction.name not in line_of and (callers := module.callers.get(instruction.computation.name)):
            instruction = callers[0]
        return instruction

    def place(instruction: Instruction) -> tuple[int, str | None]:
        """Of the instruction, or of a fusion that nothing tells of its root, or what else in it is known."""
        is_fusion = instruction.opcode == "fusion"
        roots = [computation.root for computation in instruction.called_computations] if is_fusion else []
        known = itertools.chain((instruction,), roots, fused(instruction) if is_fusion else ())
        found = next((each for each in known if entry(each) >= 0), None)
        return (-1, None) if found is None else (entry(found), phases_text(phases.of(found)))

    of_kernels: dict[tuple[str, str | None], Amounts] = collections.defaultdict(Amounts)
    of_entries: dict[tuple[int, str | None], Amounts] = collections.defaultdict(Amounts)
    for (kernel, name), amounts in spent.items():
        holder, instruction = shown(kernel), shown(name)
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
    """Lines by the operation that they stand for, of Python by themselves."""
    lines: dict[_Key, list[int]] = collections.defaultdict(list)
    texts = listing.text.split("\n")
    for line, index in enumerate(memoryview(listing.line_origins).cast("i").tolist()):
        here = listing.origins[index] if index >= 0 else ()
        for key in dict.fromkeys(key for origin in here for key in _keys(origin)):
            lines[key].append(line)
    for key, found in lines.items():
        lines[key] = [line for line in found if not _is_constant(texts[line])] or found

    @functools.cache
    def of(origin: Origin) -> Sequence[int]:
        # What a library does belongs to the user's innermost line, or to the innermost one that is shown.
        keys = ((_LINE, "", (f.file, f.line)) for f in own_first(origin.frames)) if is_source else _keys(origin)
        return next((lines[key] for key in keys if key in lines), ())

    def share(origins: tuple[Origin, ...]) -> Mapping[int | None, float]:
        known = [found for origin in origins if (found := of(origin))]
        shares: dict[int | None, float] = collections.defaultdict(float)
        for found in known:
            for line in found:
                shares[line] += 1 / (len(found) * len(known))
        return shares or _NO_LINE

    return share


_Key = tuple[int, str, tuple[str, int] | None]
_NAME, _PRIMITIVE, _LINE = range(3)


def _keys(origin: Origin) -> Iterator[_Key]:
    """By what lines of different texts are known to be of one operation, the surest first.

    The operation's own name with its innermost line; within loops texts name what is around it differently, so then its
    primitive on that line; and at last the line alone.
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
    """Whether a line of StableHLO or HLO makes a constant, which costs nothing beside what it is made for."""
    return " = stablehlo.constant " in text or " constant(" in text


def _own_name(name: str) -> str:
    """Without the calls around it: `jit(f)/shard_map/psum` in HLO is `psum` in the StableHLO of the same program."""
    own = [part for part in name.split("/") if not _is_call(part)]
    return "/".join(own) or name


def _is_call(part: str) -> bool:
    is_jit = part.startswith("jit(") and part.endswith(")") and not set(part[4:-1]) & set("()")
    return is_jit or part in ("shard_map", "pjit")
