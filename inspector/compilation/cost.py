"""Operation counts of a program and of each of its instructions, combined from XLA's counts of small modules.

`hlo/reading/single_instructions.py` makes a module of each instruction, `engines/workers/counting.py` lets XLA count
them, and this module assigns the counts to the instructions. The cost of an instruction includes the computations that it
calls, as often as it calls them: a fusion includes all fused instructions, and a `while` its body and condition times its
trip count. So the costs of the entry computation's instructions sum to the cost of one execution of the module. For a
module without loops, conditionals and custom calls, the totals are XLA's own, except for float rounding (XLA adds in
single precision) and for bytes on TPUs: there, the sizes of tiled arrays are those of whole tiles, as in the TPU's own
analysis, which also counts a whole tile for each row of a gather or slice, unlike this module.

XLA counts -1 for unknown costs. A sum that leaves out unknown parts is `AtLeast` the rest. A Pallas kernel for a TPU has
the cost of its body and of its block copies (`compilation/kernels/walk.py`), or else the cost that its author declares
(`cost_estimate`). Calls of linear algebra libraries count by formulas (`compilation/library_costs.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from inspector.compilation.accessed_bytes import BYTES, accessed_bytes, bytes_read, has_vector_memory
from inspector.compilation.kernels.costs import KernelBody, body_of, declared_numbers, doubts_of, with_doubts
from inspector.compilation.library_costs import library_flops
from inspector.compilation.real_operations import counted_otherwise, real_operations
from inspector.errors import AtLeast, Missing, Partial, Unavailable, missing, partial
from inspector.errors import total as sum_of
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
from inspector.support.notebook import described, with_hint
from inspector.support.units import format_bytes, format_count

Counts = Mapping[str, float]
Number = float | Unavailable

_OPERATIONS = ("flops", "transcendentals")
_NAMES_SHOWN = 3

# Custom calls that only mark something for the compiler: the device does nothing for them.
_MARKS = frozenset({
    "AllocateBuffer", "AssumeGatherIndicesInBound", "AsyncCollectiveDone", "AsyncCollectiveStart", "ConcatBitcast",
    "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding",
})  # fmt: skip

_GPU_KERNELS = frozenset({"__gpu$xla.gpu.triton", "mosaic_gpu", "mosaic_gpu_v2"})


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """Operation counts of one execution on one device: XLA's counts, for every instruction as often as it runs.

    A number with unknown parts, such as custom calls, is `AtLeast` the known parts: a `float` that lists what is
    `missing`. The same holds for a loop of unknown length, of which only the first run of the condition counts,
    and for a conditional, of which the cheapest branch counts. A modeled number, such as the operations of an FFT,
    is `About`.

    Attributes:
      flops: floating-point operations; operations on complex numbers count as several operations on real numbers.
      transcendentals: exp, log, sin and similar functions, not in `flops`.
      bytes_accessed: operand and result bytes of every instruction that accesses memory; on TPUs, those in the main memory,
        without values in vector memory.
    """

    flops: float | Unavailable
    transcendentals: float | Unavailable
    bytes_accessed: float | Unavailable

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The unknown parts of all numbers."""
        numbers = (getattr(self, name) for name in self.__match_args__)  # the fields, including those of a subclass
        return tuple(dict.fromkeys(p for n in numbers if isinstance(n, Partial) for p in missing(n)))

    def __repr__(self) -> str:
        return with_hint(self._line(), ".instructions() or .roofline() of the compiled program")

    def _repr_html_(self) -> str:
        numbers = {"FLOPs": self.flops, "transcendentals": self.transcendentals, "bytes accessed": self.bytes_accessed}
        return described(repr(self), {name: _text(number, format_count) for name, number in numbers.items()})

    def _line(self) -> str:
        flops, transcendentals = (_text(n, format_count) for n in (self.flops, self.transcendentals))
        text = f"{flops} flop, {transcendentals} transcendentals, {_text(self.bytes_accessed, format_bytes)} accessed"
        parts = self.missing
        if not parts:
            numbers = (self.flops, self.transcendentals, self.bytes_accessed)
            reasons = dict.fromkeys(n.reason for n in numbers if isinstance(n, Unavailable))
            return f"<{type(self).__name__}: {'; '.join((text, *reasons))}>"
        names = ", ".join(part.name for part in parts[:_NAMES_SHOWN])
        more = f" and {len(parts) - _NAMES_SHOWN} more" if len(parts) > _NAMES_SHOWN else ""
        return f"<{type(self).__name__}: {text}; {AtLeast(0, parts).reason}: {names}{more}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class InstructionCost(Cost):
    """Operation counts of one execution of an instruction, including the computations that it calls.

    Attributes:
      main_memory_bytes: the part of `bytes_accessed` in the main memory: on TPUs, without values
        in vector memory.
      host_bytes: the part of `bytes_accessed` in the memory of the host, which a device reaches over PCIe.
      body: details of a Pallas kernel for TPUs whose body was counted; None for anything else.
    """

    main_memory_bytes: float | Unavailable
    host_bytes: float | Unavailable = 0.0
    body: KernelBody | None = dataclasses.field(default=None, kw_only=True)


_NUMBERS = tuple(field.name for field in dataclasses.fields(InstructionCost) if field.name != "body")
_NOTHING = InstructionCost(0.0, 0.0, 0.0, 0.0)


def program_cost(
    hlo_proto: bytes,
    reported: Counts | Unavailable,
    count: Callable[[Sequence[bytes]], Sequence[Counts | Unavailable] | Unavailable],
) -> Cost | Unavailable:
    """Computes the cost of one execution of a module.

    Args:
      hlo_proto: a serialized `xla.HloModuleProto`.
      reported: XLA's cost analysis of the whole module, which is correct if each of its instructions runs once and is
        known to XLA; or why there is none.
      count: returns XLA's cost analysis of other modules, or why there is none.
    """
    read = functools.cache(lambda: Module.from_proto(hlo_proto))  # at most once, and only if needed
    if not isinstance(reported, Unavailable) and is_reported(hlo_proto, read):
        return Cost(*(reported.get(name, 0.0) for name in (*_OPERATIONS, BYTES)))
    module = read()
    parts = singles(module)
    counts = count([part.module for part in parts])
    if isinstance(counts, Unavailable):
        return counts
    whole = total(module, costs(module, parts, counts))
    moved = whole.main_memory_bytes if has_vector_memory(module) else whole.bytes_accessed
    return Cost(*map(_known_at_all, (whole.flops, whole.transcendentals, moved)))


def is_reported(hlo_proto: bytes, read: Callable[[], Module]) -> bool:
    """Reports whether XLA's own analysis counts the whole module in the same way as this module.

    That is, nothing is unknown or runs more than once, no fusion reads a part of an operand, all numbers are real and all
    memory is the main memory.

    Args:
      hlo_proto: a serialized `xla.HloModuleProto`.
      read: returns the module; called only if its bytes do not show the answer.
    """
    has_parts = all(field in hlo_proto for field in _SLICED)
    if not has_parts and not any(field in hlo_proto for field in (*_NOT_REPORTED.values(), *_COMPLEX_TYPES, *_TILES)):
        return True  # without reading the module, which takes longer than counting in it
    module = read()
    if has_parts and any(not module.at(row).computation.is_entry for row in _slices_of_concatenations(module)):
        return False
    if not _NOT_REPORTED.keys().isdisjoint(module.columns.opcodes.values) or has_vector_memory(module):
        return False
    return not counted_otherwise(module)


def _encoded(opcode: str) -> bytes:
    """Returns an opcode as in protobuf."""
    return bytes([OPCODE << 3 | 2, len(opcode)]) + opcode.encode()


_NOT_REPORTED = {opcode: _encoded(opcode) for opcode in ("while", "conditional", "custom-call", "fft", *PARTIAL)}
_SLICED = (_encoded("concatenate"), _encoded("slice"))
_COMPLEX_TYPES = tuple(  # element_type of xla.ShapeProto and the tag of the next field: dimensions or layout
    bytes([2 << 3, number, after << 3 | 2]) for number in (15, 18) for after in (3, 5)
)
_TILES = (b"\n\3\x08\x80\1", b"\n\2\x80\1", b"\n\2\x80\2", b"\n\2\x80\x08")  # xla.TileProto as on TPUs


def _known_at_all(number: Number) -> Number:
    """Returns a number, or the reason if all of its parts are unknown."""
    if isinstance(number, Partial) and not number:
        return Unavailable(f"all of its parts are unknown: {number.reason}")
    return number


def costs(
    module: Module, singles: Sequence[Single], counts: Sequence[Counts | Unavailable] | Unavailable
) -> dict[str, InstructionCost]:
    """Returns the cost of one execution of every instruction, by name.

    Args:
      module: the module.
      singles: the result of `singles(module)`.
      counts: XLA's cost analysis of each, or why there is none.
    """
    all_counts = [counts] * len(singles) if isinstance(counts, Unavailable) else counts
    by_kind = {kind: count for single, count in zip(singles, all_counts, strict=True) for kind in single.kinds}
    for single in singles:
        by_kind |= {kind: _in_full(brief, by_kind[kind], by_kind) for kind, brief in single.briefs.items()}
    return dict(zip(module.columns.names, _Sum(module, by_kind).all(), strict=True))


def _in_full(
    brief: Brief, counts: Counts | Unavailable, by_kind: Mapping[int, Counts | Unavailable]
) -> Counts | Unavailable:
    """Returns the counts of a whole fusion from XLA's counts of its brief form and of each kind of instruction left out."""
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
        full[bytes_read(number)] = counts.get(bytes_read(place), 0.0)
    read = [counts.get(bytes_read(place), 0.0) for place in range(len(brief.inputs))]
    full[BYTES] = counts.get(BYTES, 0.0) + sum(read[place] for place in brief.read_as) - sum(read)
    return full


def total(module: Module, costs: Mapping[str, InstructionCost]) -> InstructionCost:
    """Returns the cost of one execution of the module."""
    names = module.columns.names
    return _added([_part(module, row, costs[names[row]]) for row in module.entry.rows])


class _Sum:
    """The costs of a module's instructions. Computes the cost of each kind and each computation once."""

    def __init__(self, module: Module, counts: Mapping[int, Counts | Unavailable]) -> None:
        self._module = module
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._counts = counts
        self._calls = Fused(module, module.columns.rows_of("custom-call".__eq__))
        self._otherwise = Fused(module, counted_otherwise(module))
        self._partly = Fused(
            module, (*module.columns.rows_of(PARTIAL.__contains__), *_slices_of_concatenations(module))
        )
        self._known: dict[int, InstructionCost] = {}
        self._totals: dict[int, InstructionCost] = {}

    def all(self) -> list[InstructionCost]:
        """Returns the cost of each row."""
        known = self._known
        return [known.get(kind) or self.of(row) for row, kind in enumerate(self._kinds)]

    def of(self, row: int) -> InstructionCost:
        kind = self._kinds[row]
        known = self._known.get(kind)
        if known is None:
            instruction = self._module.at(row)
            known = self._cost(instruction, kind)
            if instruction.opcode not in FLOW and not _names_parts(known):  # equal loops may differ in length
                self._known[kind] = known
        return known

    def _cost(self, instruction: Instruction, kind: int) -> InstructionCost:
        if instruction.opcode in FREE:
            return _NOTHING
        if instruction.opcode not in FLOW:
            is_fusion = instruction.opcode == "fusion"
            calls = [(c, self.of(c.row)) for c in self._calls.of(instruction)] if is_fusion else []
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
        """Returns the floating-point operations, corrected where XLA counts them differently."""
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


def _slices_of_concatenations(module: Module) -> Iterator[int]:
    """Yields slices of concatenations. In a fusion they read a part of the operands, but XLA counts all of them."""
    for row in module.columns.rows_of("slice".__eq__):
        if module.at(row).operands[0].opcode == "concatenate":
            yield row


def _looped(loop: Instruction, body: InstructionCost, condition: InstructionCost) -> InstructionCost:
    trips = trip_count(loop)
    if not isinstance(trips, Unavailable):
        return _each(lambda b, c: sum_of([b * trips, c * (trips + 1)]) if trips else c, body, condition)
    unknown = unknown_length(loop)

    def without_a_round(b: float, c: float) -> float:
        """Counts one run of the condition and none of the body."""
        return partial(c, (*missing(c), unknown), (c,)) if b or missing(b) or c or missing(c) else 0.0

    return _each(without_a_round, body, condition)


def _cheapest(conditional: Instruction, branches: Sequence[InstructionCost]) -> InstructionCost:
    """Returns a lower bound for any branch: each number of the branch where it is smallest."""
    chosen = Missing(conditional.name, "conditional", "counted as its cheapest branch")

    def cheapest(*numbers: float) -> float:
        unknown = [part for number in numbers for part in missing(number)]
        if len(set(numbers)) > 1:
            unknown.append(chosen)
        return partial(min(numbers), unknown, numbers) if unknown else numbers[0]

    return _each(cheapest, *branches)


def _names_parts(cost: InstructionCost) -> bool:
    """Reports whether a cost names missing instructions. Equal instructions then have different costs."""
    return bool(cost.missing)


def _added(costs: Sequence[InstructionCost]) -> InstructionCost:
    times = collections.Counter(map(id, costs))  # most costs are the same few objects
    each = {id(cost): cost for cost in costs}
    numbers = ([part for of, count in times.items() for part in [getattr(each[of], name)] * count] for name in _NUMBERS)
    return InstructionCost(*map(sum_of, numbers))


def _each(make: Callable[..., float], *costs: InstructionCost) -> InstructionCost:
    """Combines the costs number by number."""
    return InstructionCost(*(make(*(getattr(cost, name) for cost in costs)) for name in _NUMBERS))


def _part(module: Module, row: int, cost: InstructionCost) -> InstructionCost:
    """Returns the cost of a row as a part of a sum: unknown numbers count as 0 and are listed as missing."""
    if not any(isinstance(getattr(cost, name), Unavailable) for name in _NUMBERS):
        return cost
    instruction = module.at(row)
    kind = "custom call" if instruction.opcode == "custom-call" else instruction.opcode
    nothing = AtLeast(0.0, [Missing(instruction.name, kind)])
    return _each(lambda number: nothing if isinstance(number, Unavailable) else number, cost)


def _single_cost(
    instruction: Instruction,
    counts: Counts | Unavailable,
    calls: Sequence[_Call],
    operations: float = 0.0,
    touched_bytes: float | None = None,
) -> InstructionCost:
    """Returns the cost of a fusion or of an instruction that calls no computation.

    Args:
      instruction: an instruction of the module.
      counts: XLA's counts, or why there are none.
      calls: the custom calls fused into it, with their costs.
      operations: floating-point operations.
      touched_bytes: bytes accessed by a fusion that reads or writes parts of its operands; None for XLA's count.
    """
    if instruction.custom_call_target in _MARKS:
        return _NOTHING
    if instruction.opcode == "custom-call":
        declared = declared_numbers(instruction)
        if not isinstance(counts, Unavailable) and (body := body_of(counts)) is not None:
            return _kernel_cost(instruction, counts, body, declared or (0.0, 0.0, 0.0))
        if declared is not None:
            return InstructionCost(*declared, declared[-1])
        if (flops := library_flops(instruction)) is not None:
            shapes = (*(operand.shape for operand in instruction.operands), instruction.shape)
            accessed = float(sum(leaf.byte_size for shape in shapes for leaf in shape.leaves))
            return InstructionCost(flops, 0.0, accessed, accessed)
    if isinstance(counts, Unavailable):
        return InstructionCost(counts, counts, counts, counts)
    if counts.get("flops", 0.0) < 0 and instruction.opcode == "custom-call":
        target = instruction.custom_call_target
        why = (
            "; JAX does not pass the cost_estimate of a Pallas kernel for GPUs to XLA" if target in _GPU_KERNELS else ""
        )
        unknown = Unavailable(f"XLA reports no cost for a call to {target!r}{why}")
        return InstructionCost(unknown, unknown, unknown, unknown)
    moved, main, host = accessed_bytes(instruction, counts, touched_bytes)
    flops, transcendentals = _fused(calls, operations, counts.get("transcendentals", 0.0))
    return InstructionCost(flops, transcendentals, moved, main, host)


def _kernel_cost(
    call: Instruction, counts: Counts, body: KernelBody, declared: tuple[float, float, float]
) -> InstructionCost:
    """Returns the cost of a Pallas kernel from the counts of its body and the declared numbers, which are 0 if unknown."""
    doubts = doubts_of(call.name, counts)
    flops, transcendentals = (
        with_doubts(counts.get(name, 0.0), doubts.operations, is_estimate=doubts.is_estimate, declared=number)
        for name, number in zip(_OPERATIONS, declared[:2], strict=True)
    )
    moved, main, host = accessed_bytes(call, counts, None)
    moved, main = (
        with_doubts(size, doubts.copies, is_estimate=doubts.is_estimate, declared=declared[2]) for size in (moved, main)
    )
    return InstructionCost(flops, transcendentals, moved, main, host, body=body)


_Call: TypeAlias = tuple[Instruction, InstructionCost]


def _fused(calls: Sequence[_Call], flops: float, transcendentals: float) -> tuple[float, float]:
    """Returns the operations with known custom calls, and without the -1 that XLA adds for each of them in a fusion."""
    unknown = list[Missing]()
    flops += len(calls)
    for call, cost in calls:
        if isinstance(cost.flops, Unavailable) or isinstance(cost.transcendentals, Unavailable) or cost.body is None:
            if call.custom_call_target not in _MARKS:
                unknown.append(Missing(call.name, "custom call"))
        else:
            flops, transcendentals = sum_of([flops, cost.flops]), sum_of([transcendentals, cost.transcendentals])
    if not unknown:
        return flops, transcendentals
    return partial(flops, (*missing(flops), *unknown), (flops,)), partial(
        transcendentals, (*missing(transcendentals), *unknown), (transcendentals,)
    )


def _text(number: Number, form: Callable[[float], str]) -> str:
    if isinstance(number, Unavailable):
        return "unknown"
    return f"{number.word} {form(float(number))}" if isinstance(number, Partial) else form(number)
