"""What a program costs, and each of its instructions: XLA counts small modules, this puts them together.

`hlo/reading/single_instructions.py` makes a module of each instruction, `engines/workers/counting.py` has XLA count them, and here the
numbers come back to the instructions. An instruction's numbers hold what it calls as often as it calls it: a
fusion's all that is fused, a `while`'s its body and condition by its trip count. So the entry computation's
instructions sum to what one execution of the module costs. Float rounding apart (XLA adds in single precision) a
module without loops, conditionals and custom calls has exactly XLA's own totals, but for bytes on TPUs: there the
sizes of tiled arrays are those of whole tiles, as the TPU's own analysis counts them; it also counts a whole tile
for each row of a gather or slice, which this does not.

XLA counts -1 for what it does not know. Here a sum over such parts is `AtLeast` the rest. A Pallas kernel for a TPU costs
what its author says (`cost_estimate`), as XLA's own scheduler takes it to.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

from inspector.compilation.real_operations import counted_otherwise, real_operations
from inspector.errors import AtLeast, Missing, Partial, Unavailable, missing, partial
from inspector.errors import total as sum_of
from inspector.hlo.backend_config import declared_costs
from inspector.hlo.execution_counts import unknown_length
from inspector.hlo.fused_instructions import Fused
from inspector.hlo.fusion_traffic import PARTIAL, touched
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.reading.field_numbers import (
    OPCODE,
)
from inspector.hlo.reading.fusion_summaries import Brief
from inspector.hlo.reading.single_instructions import FLOW, FREE, Single, singles
from inspector.hlo.shape import Shape
from inspector.support.notebook import described, with_hint
from inspector.support.units import format_bytes, format_count

Counts = Mapping[str, float]
Number = float | Unavailable

_BYTES, _OPERATIONS = "bytes accessed", ("flops", "transcendentals")
_POINTER_BYTES = 8
_UNTILED = 8 * 128
_NAMES_SHOWN = 3

# Custom calls that mark something for the compiler and have the device do nothing.
_MARKS = frozenset({
    "AllocateBuffer", "AssumeGatherIndicesInBound", "AsyncCollectiveDone", "AsyncCollectiveStart", "ConcatBitcast",
    "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding",
})  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """Operation counts of one execution on one device: XLA's, of every instruction as often as it runs.

    A number of which parts are not known, such as custom calls, is `AtLeast` the rest: a `float` that says what is
    `missing`. So is one with a loop whose length only a run tells, of which only the first run of the condition counts,
    and one with a conditional, of which the cheapest branch counts. A number that is modeled, as the operations of an FFT
    are, is `About`.

    Attributes:
      flops: floating-point operations, those on complex numbers in operations on real ones.
      transcendentals: exp, log, sin and the like, not in `flops`.
      bytes_accessed: operand and result bytes of every instruction that touches memory; on TPUs those in the main memory,
        without what stays in vector memory.
    """

    flops: float | Unavailable
    transcendentals: float | Unavailable
    bytes_accessed: float | Unavailable

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The parts that some of the numbers leave out."""
        numbers = (getattr(self, name) for name in self.__match_args__)  # the fields, of which a subclass has more
        return tuple(dict.fromkeys(p for n in numbers if isinstance(n, Partial) for p in missing(n)))

    def __repr__(self) -> str:
        return with_hint(self._line(), ".instructions() or .roofline() of the compiled program")

    def _repr_html_(self) -> str:
        numbers = {"FLOPs": self.flops, "transcendentals": self.transcendentals, "bytes accessed": self.bytes_accessed}
        return described(repr(self), {name: _text(number, format_count) for name, number in numbers.items()})

    def _line(self) -> str:
        flops, transcendentals = (_text(n, format_count) for n in (self.flops, self.transcendentals))
        said = f"{flops} flop, {transcendentals} transcendentals, {_text(self.bytes_accessed, format_bytes)} accessed"
        parts = self.missing
        if not parts:
            numbers = (self.flops, self.transcendentals, self.bytes_accessed)
            reasons = dict.fromkeys(n.reason for n in numbers if isinstance(n, Unavailable))
            return f"<{type(self).__name__}: {'; '.join((said, *reasons))}>"
        names = ", ".join(part.name for part in parts[:_NAMES_SHOWN])
        more = f" and {len(parts) - _NAMES_SHOWN} more" if len(parts) > _NAMES_SHOWN else ""
        return f"<{type(self).__name__}: {said}; {AtLeast(0, parts).reason}: {names}{more}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class InstructionCost(Cost):
    """What one execution of an instruction costs, with all that it calls.

    Attributes:
      main_memory_bytes: that part of `bytes_accessed` that lies in the main memory: on TPUs without what
        lies in vector memory.
    """

    main_memory_bytes: float | Unavailable


_NUMBERS = tuple(field.name for field in dataclasses.fields(InstructionCost))
_NOTHING = InstructionCost(0.0, 0.0, 0.0, 0.0)


def program_cost(
    hlo_proto: bytes,
    reported: Counts | Unavailable,
    count: Callable[[Sequence[bytes]], Sequence[Counts | Unavailable] | Unavailable],
) -> Cost | Unavailable:
    """What one execution of a module costs.

    Args:
      hlo_proto: a serialized `xla.HloModuleProto`.
      reported: XLA's cost analysis of the whole module, which holds where each of its instructions runs once and is
        known to XLA; or why there is none.
      count: XLA's cost analysis of other modules, or why there is none.
    """
    read = functools.cache(lambda: Module.from_proto(hlo_proto))  # once, and only where it has to be
    if not isinstance(reported, Unavailable) and is_reported(hlo_proto, read):
        return Cost(*(reported.get(name, 0.0) for name in (*_OPERATIONS, _BYTES)))
    module = read()
    parts = singles(module)
    counts = count([part.module for part in parts])
    if isinstance(counts, Unavailable):
        return counts
    whole = total(module, costs(module, parts, counts))
    moved = whole.main_memory_bytes if has_vector_memory(module) else whole.bytes_accessed
    return Cost(*map(_known_at_all, (whole.flops, whole.transcendentals, moved)))


def has_vector_memory(module: Module) -> bool:
    """Reports whether values lie in another memory than the main one, as on TPUs."""
    leaves = (leaf for shape in module.known_shapes for leaf in shape.leaves)
    return not all(map(_in_main_memory, leaves))


def is_reported(hlo_proto: bytes, read: Callable[[], Module]) -> bool:
    """Reports whether XLA's own analysis counts all that a module does, and as here.

    So nothing is unknown or runs more than once, no fusion reads a part of an operand, all numbers are real and all
    memory is the main memory.

    Args:
      hlo_proto: a serialized `xla.HloModuleProto`.
      read: gives the module, which is read where its bytes alone do not tell.
    """
    if not any(field in hlo_proto for field in (*_NOT_REPORTED.values(), *_COMPLEX_TYPES, *_TILES)):
        return True  # without reading the module, which takes longer than to count in it
    module = read()
    if not _NOT_REPORTED.keys().isdisjoint(module.columns.opcodes.values) or has_vector_memory(module):
        return False
    return not counted_otherwise(module)


# As protobuf writes these fields.
_NOT_REPORTED = {
    opcode: bytes([OPCODE << 3 | 2, len(opcode)]) + opcode.encode()
    for opcode in ("while", "conditional", "custom-call", "fft", *PARTIAL)
}
_COMPLEX_TYPES = tuple(  # element_type of xla.ShapeProto, with the field after it: dimensions or layout
    bytes([2 << 3, number, after << 3 | 2]) for number in (15, 18) for after in (3, 5)
)
_TILES = (b"\n\3\x08\x80\1", b"\n\2\x80\1", b"\n\2\x80\2", b"\n\2\x80\x08")  # of xla.TileProto, as TPUs have them


def _known_at_all(number: Number) -> Number:
    """A number of which nothing is known is none."""
    if isinstance(number, Partial) and not number:
        return Unavailable(f"what it is made of is not known: {number.reason}")
    return number


def costs(
    module: Module, singles: Sequence[Single], counts: Sequence[Counts | Unavailable] | Unavailable
) -> dict[str, InstructionCost]:
    """The cost of one execution of every instruction, by name.

    Args:
      module: the module.
      singles: `singles(module)`.
      counts: XLA's cost analysis of each, or why there is none.
    """
    given = [counts] * len(singles) if isinstance(counts, Unavailable) else counts
    by_kind = {kind: count for single, count in zip(singles, given, strict=True) for kind in single.kinds}
    for single in singles:
        by_kind |= {kind: _in_full(brief, by_kind[kind], by_kind) for kind, brief in single.briefs.items()}
    return dict(zip(module.columns.names, _Sum(module, by_kind).all(), strict=True))


def _in_full(
    brief: Brief, counts: Counts | Unavailable, by_kind: Mapping[int, Counts | Unavailable]
) -> Counts | Unavailable:
    """What a whole fusion costs, of what XLA counts of it as it is told briefly, and of each kind."""
    if isinstance(counts, Unavailable):
        return counts
    full = dict(counts)
    for kind, times in brief.left_out.items():
        inner = by_kind.get(kind, {})
        if isinstance(inner, Unavailable):
            return inner
        for name in _OPERATIONS:
            full[name] = full.get(name, 0.0) + times * inner.get(name, 0.0)
    for number, place in enumerate(brief.read_as):
        full[_read(number)] = counts.get(_read(place), 0.0)
    read = [counts.get(_read(place), 0.0) for place in range(len(brief.inputs))]
    full[_BYTES] = counts.get(_BYTES, 0.0) + sum(read[place] for place in brief.read_as) - sum(read)
    return full


@functools.cache
def _read(operand: int) -> str:
    """XLA's name of the bytes that are read of an operand."""
    return f"{_BYTES}{operand}{{}}"


def total(module: Module, costs: Mapping[str, InstructionCost]) -> InstructionCost:
    """What one execution of the module costs."""
    names = module.columns.names
    return _added([_part(module, row, costs[names[row]]) for row in module.entry.rows])


class _Sum:
    """Costs of a module's instructions, each kind's and each computation's total made once."""

    def __init__(self, module: Module, counts: Mapping[int, Counts | Unavailable]) -> None:
        self._module = module
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._counts = counts
        self._calls = Fused(module, module.columns.rows_of("custom-call".__eq__))
        self._otherwise = Fused(module, counted_otherwise(module))
        self._partly = Fused(module, module.columns.rows_of(PARTIAL.__contains__))
        self._known: dict[int, InstructionCost] = {}
        self._totals: dict[int, InstructionCost] = {}

    def all(self) -> list[InstructionCost]:
        """Of each row."""
        known = self._known
        return [known.get(kind) or self.of(row) for row, kind in enumerate(self._kinds)]

    def of(self, row: int) -> InstructionCost:
        kind = self._kinds[row]
        known = self._known.get(kind)
        if known is None:
            instruction = self._module.at(row)
            known = self._cost(instruction, kind)
            if instruction.opcode not in FLOW and not _names_parts(known):  # a loop's length is not of its kind alone
                self._known[kind] = known
        return known

    def _cost(self, instruction: Instruction, kind: int) -> InstructionCost:
        if instruction.opcode in FREE:
            return _NOTHING
        if instruction.opcode not in FLOW:
            is_fusion = instruction.opcode == "fusion"
            calls = [*self._calls.of(instruction)] if is_fusion else []
            counts = self._counts[kind]
            if isinstance(counts, Unavailable):
                return _single_cost(instruction, counts, calls)
            moved = touched(instruction).total if is_fusion and any(self._partly.of(instruction)) else None
            return _single_cost(instruction, counts, calls, self._operations(instruction, counts), moved)
        called = [self._total(computation) for computation in instruction.called_computations]
        if instruction.opcode == "while":
            return _looped(instruction, *called)
        return _cheapest(instruction, called) if instruction.opcode == "conditional" else _added(called)

    def _operations(self, instruction: Instruction, counts: Counts) -> float:
        """The floating-point operations, those that XLA counts otherwise corrected."""
        known, corrected = counts.get("flops", 0.0), list[float]()
        for inner in self._otherwise.of(instruction):
            counted = self._counts.get(self._kinds[inner.row], {})
            if not isinstance(counted, Unavailable) and (flops := counted.get("flops", 0.0)) > 0:
                known -= flops
                corrected.append(real_operations(inner, flops))
        return sum_of([known, *corrected])

    def _total(self, computation: Computation) -> InstructionCost:
        if computation.id not in self._totals:
            self._totals[computation.id] = _added([_part(self._module, row, self.of(row)) for row in computation.rows])
        return self._totals[computation.id]


def _looped(loop: Instruction, body: InstructionCost, condition: InstructionCost) -> InstructionCost:
    trips = trip_count(loop)
    if not isinstance(trips, Unavailable):
        return _each(lambda b, c: sum_of([b * trips, c * (trips + 1)]) if trips else c, body, condition)
    unknown = unknown_length(loop)

    def without_a_round(b: float, c: float) -> float:
        """The condition runs once; the body may not run."""
        return partial(c, (*missing(c), unknown), (c,)) if b or missing(b) or c or missing(c) else 0.0

    return _each(without_a_round, body, condition)


def _cheapest(conditional: Instruction, branches: Sequence[InstructionCost]) -> InstructionCost:
    """What it costs whichever branch it takes: each number of the branch where it is smallest."""
    chosen = Missing(conditional.name, "conditional", "counted by the cheapest branch")

    def cheapest(*numbers: float) -> float:
        unknown = [part for number in numbers for part in missing(number)]
        if len(set(numbers)) > 1:
            unknown.append(chosen)
        return partial(min(numbers), unknown, numbers) if unknown else numbers[0]

    return _each(cheapest, *branches)


def _names_parts(cost: InstructionCost) -> bool:
    """Whether it says of which instructions something is missing: another of the same kind says it of others."""
    return bool(cost.missing)


def _added(costs: Sequence[InstructionCost]) -> InstructionCost:
    times = collections.Counter(map(id, costs))  # most are the same few objects
    each = {id(cost): cost for cost in costs}
    numbers = ([part for of, count in times.items() for part in [getattr(each[of], name)] * count] for name in _NUMBERS)
    return InstructionCost(*map(sum_of, numbers))


def _each(make: Callable[..., float], *costs: InstructionCost) -> InstructionCost:
    """A cost each of whose numbers is made of the same one of all costs."""
    return InstructionCost(*(make(*(getattr(cost, name) for cost in costs)) for name in _NUMBERS))


def _part(module: Module, row: int, cost: InstructionCost) -> InstructionCost:
    """The cost of a row as a part of a sum: what is not known counts as nothing, and is missing."""
    if not any(isinstance(getattr(cost, name), Unavailable) for name in _NUMBERS):
        return cost
    instruction = module.at(row)
    kind = "custom call" if instruction.opcode == "custom-call" else instruction.opcode
    nothing = AtLeast(0.0, [Missing(instruction.name, kind)])
    return _each(lambda number: nothing if isinstance(number, Unavailable) else number, cost)


def _single_cost(
    instruction: Instruction,
    counts: Counts | Unavailable,
    calls: Sequence[Instruction],
    operations: float = 0.0,
    touched_bytes: float | None = None,
) -> InstructionCost:
    """The cost of an instruction that calls nothing, or of a fusion.

    Args:
      instruction: of the module.
      counts: XLA's, or why there are none.
      calls: the custom calls fused into it.
      operations: floating-point operations.
      touched_bytes: of a fusion that reads or writes parts of its operands; None for XLA's count.
    """
    if instruction.custom_call_target in _MARKS:
        return _NOTHING
    if isinstance(counts, Unavailable):
        return InstructionCost(counts, counts, counts, counts)
    if counts.get("flops", 0.0) < 0 and instruction.opcode == "custom-call":
        said = declared_costs(instruction)
        if said is not None:
            moved = said["bytes_accessed"]
            return InstructionCost(said["flops"], said["transcendentals"], moved, moved)
        unknown = Unavailable(f"XLA does not know what a call to {instruction.custom_call_target!r} costs")
        return InstructionCost(unknown, unknown, unknown, unknown)
    moved, main = _bytes(instruction, counts, touched_bytes)
    flops, transcendentals = _fused(calls, operations, counts.get("transcendentals", 0.0))
    return InstructionCost(flops, transcendentals, moved, main)


def _fused(calls: Sequence[Instruction], flops: float, transcendentals: float) -> tuple[float, float]:
    """Operations without the -1 that XLA adds for each custom call in a fusion."""
    unknown = [Missing(c.name, "custom call") for c in calls if c.custom_call_target not in _MARKS]
    flops += len(calls)
    if not unknown:
        return flops, transcendentals
    return partial(flops, (*missing(flops), *unknown), (flops,)), AtLeast(transcendentals, unknown)


def _bytes(instruction: Instruction, counts: Counts, touched_bytes: float | None) -> tuple[float, float]:
    """Bytes accessed, those of tiled arrays in whole tiles, and the part of them in the main memory."""
    operands = instruction.operands
    shapes = {_read(n): operand.shape for n, operand in enumerate(operands)}
    shapes[f"{_BYTES}out{{}}"] = instruction.shape
    leaves = [leaf for shape in shapes.values() for leaf in shape.leaves]
    if not any(leaf.layout and leaf.layout.tiles for leaf in leaves):  # not a TPU's
        moved_by_all = counts.get(_BYTES, 0.0) if touched_bytes is None else touched_bytes
        return moved_by_all, moved_by_all
    moved = {name: _padded(counts[name], shape) for name, shape in shapes.items() if name in counts}
    if instruction.opcode == "copy-start":  # its result has the operand in it once more
        shapes[f"{_BYTES}out{{}}"] = instruction.shape.tuple_shapes[0]
        copied = [leaf for shape in shapes.values() for leaf in shape.leaves if _in_main_memory(leaf)]
        main = float(sum(map(_tpu_bytes, copied)))
    else:
        main = sum(value * _main_part(shapes[name]) for name, value in moved.items())
    return sum(moved.values()), 0.0 if instruction.opcode == "copy-done" else main


def _main_part(shape: Shape) -> float:
    """Which part of a value lies in the main memory."""
    here = sum(_tpu_bytes(leaf) for leaf in shape.leaves if _in_main_memory(leaf))
    return here / max(1, sum(map(_tpu_bytes, shape.leaves)))


def _in_main_memory(leaf: Shape) -> bool:
    return leaf.layout is None or leaf.layout.memory_space == 0


def _padded(counted: float, shape: Shape) -> float:
    if shape.is_tuple and counted <= _POINTER_BYTES * len(shape.tuple_shapes):
        return counted  # of the table alone
    return counted * sum(map(_tpu_bytes, shape.leaves)) / max(1, shape.byte_size)


def _tpu_bytes(leaf: Shape) -> int:
    """As libtpu's cost analysis sizes an array, which gives one without tiles whole tiles of 8 x 128 all the same."""
    if leaf.layout is None or leaf.layout.tiles:
        return leaf.padded_byte_size
    return leaf.byte_size * _UNTILED // max(1, min(_UNTILED, math.prod(leaf.dimensions)))


def _text(number: Number, form: Callable[[float], str]) -> str:
    if isinstance(number, Unavailable):
        return "unknown"
    return f"{number.word} {form(float(number))}" if isinstance(number, Partial) else form(number)
