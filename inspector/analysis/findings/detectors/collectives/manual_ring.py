"""Rings of `ppermute`s that only add up or put together what arrives: one `psum` or `all_gather` does the same.

The blocks go round as they are, or each step sends a chunk of an array. Loops are found, and unrolled rings. A ring whose blocks take part in
other work, such as the products of a collective matmul or of ring attention, overlaps that work with its transfers and is left out. So are halo
exchanges, pipelines and shifts, which do not go all the way round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.analysis.findings.at_line import at_line, is_same_line, lines_of
from inspector.analysis.findings.before import Before, full_name
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.collectives.block_rings import Cycles, carried, chain, is_alone, unrolled
from inspector.analysis.findings.detectors.collectives.chunk_rings import chunk_rings
from inspector.analysis.findings.edits import Edit, ReplaceRings, stacks_of
from inspector.analysis.findings.exchanges import Exchange, pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.ring_kernels import ring_kernels
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.devices.replica_groups import ListGroups
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Instruction
from inspector.hlo.shape import Shape
from inspector.hlo.source import merged_names
from inspector.support.units import format_bytes

KIND = "manual-ring"
_FEWEST = 3  # devices of a ring
_LEAST = 1e-3  # part of the time that counts as a gain
_OPCODES = {
    "psum": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "psum_scatter": "reduce-scatter",
    "all_gather": "all-gather",
}
_CAUTIONS = {
    "all_gather": ["The order of the blocks may differ: an `all_gather` starts with device 0."],
    "psum_scatter": ["A device may get another block: `psum_scatter` gives block i to device i."],
}


_ORDERED = Unavailable("every device puts the blocks together in another order, in which no collective returns them")


class _Ring(NamedTuple):
    """A ring.

    Attributes:
      steps: its `ppermute`s; one for each loop.
      call: the function of `jax.lax` that does the same.
      cycles: the devices of each ring, in order.
      loops: the number of its loops; 0 if it is unrolled.
      is_alone: whether its loops do nothing else.
      operand: the shape of the function's operand.
      results: the shapes of its results.
      is_whole: whether each step sends all that the device has, and not a chunk.
      as_they_arrive: whether the blocks are put together in the order in which they arrive, which differs between the devices.
    """

    steps: tuple[Value, ...]
    call: str
    cycles: Cycles
    loops: int
    is_alone: bool
    operand: Shape
    results: tuple[Shape, ...]
    is_whole: bool
    as_they_arrive: bool


def manual_ring(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for the rings of each line that one collective each replaces."""
    if subject.calls is None:
        return
    lines: dict[tuple[object, ...], list[_Ring]] = {}  # a function that is called for each weight has one line
    for ring in _rings(subject.calls):
        key = (ring.steps[0].instruction.frames, ring.call, ring.cycles, len(ring.steps), ring.is_whole)
        lines.setdefault(key, []).append(ring)
    for rings in lines.values():
        yield _finding(subject, rings)


def _rings(calls: Before) -> Iterator[_Ring]:
    """Yields the rings whose blocks go round as they are, and then those over the chunks of an array."""
    chained, others = set[Instruction](), list[tuple[Value, Cycles]]()
    for value, _ in calls.values(("collective-permute",)):
        cycles = _cycles(value.instruction.source_target_pairs)
        if len(cycles[0] if cycles else ()) < _FEWEST or value.instruction in chained:
            continue
        steps = chain(value)
        chained |= {each.instruction for each in steps[1:]}
        count = len(cycles[0])
        replaced = carried(value, count) if len(steps) == 1 else unrolled(steps, count)
        if replaced is not None:
            loops = 1 if len(steps) == 1 else 0
            call, shape, as_they_arrive = replaced
            results = (shape,) * (count if call == "all_gather" else 1)
            alone = loops == 1 and is_alone(value)
            yield _Ring(tuple(steps), call, cycles, loops, alone, shape, results, True, as_they_arrive)
        else:
            others += [(step, cycles) for step in steps]
    for ring, cycles in chunk_rings(others):
        chunk = ring.steps[0].instruction.shape
        operand = chunk if ring.call == "all_gather" else ring.whole
        result = chunk if ring.call == "psum_scatter" else ring.whole
        are_alone = bool(ring.loops) and all(is_alone(step) for step in ring.steps)
        as_they_arrive = ring.call == "all_gather"
        yield _Ring(ring.steps, ring.call, cycles, ring.loops, are_alone, operand, (result,), False, as_they_arrive)


def _cycles(pairs: Sequence[tuple[int, int]]) -> Cycles:
    """Returns the cycles of a permutation if all have the same length, else ()."""
    following = dict(pairs)
    cycles: list[tuple[int, ...]] = []
    left = dict.fromkeys(following)
    while left:
        cycle = [next(iter(left))]
        while (after := following.get(cycle[-1])) != cycle[0]:
            if after is None or after not in left or len(cycle) > len(following):
                return ()
            cycle.append(after)
        for each in cycle:
            left.pop(each, None)
        cycles.append(tuple(cycle))
    return tuple(cycles) if len({len(each) for each in cycles}) == 1 else ()


def _timed(subject: Subject, kernels: Mapping[str, float], whole_s: float | Unavailable) -> dict[str, float]:
    """Returns the parts of kernels without those that take next to nothing, such as indices."""
    least = 0.0 if isinstance(whole_s, Unavailable) else _LEAST * whole_s
    return {
        name: part
        for name, part in kernels.items()
        if not isinstance(known := subject.seconds([name]), Unavailable) and part * known > least
    }


def _runs(exchange: Exchange, ring: _Ring) -> float:
    """Returns how often a ring runs: more than once if it is in a loop."""
    loops = [call for call in ring.steps[0].calls if call.opcode == "while"] if ring.loops else []
    trips = trip_count(loops[-1]) if loops else 1
    return exchange.executions / trips if isinstance(trips, int) else 1.0


def _opcode(subject: Subject, ring: _Ring) -> str:
    """Returns the collective that XLA makes of a ring's function. Libtpu does not scatter rows of one tile."""
    is_row = ring.call == "psum_scatter" and len(ring.results[0].dimensions) < 2
    if is_row and subject.compiled.target.kind == "tpu":
        return "all-reduce"
    return _OPCODES[ring.call]


def _edits(rings: Sequence[_Ring], names: Iterable[str]) -> tuple[Edit, ...] | Unavailable:
    """Returns the edit that replaces rings; Unavailable if no collective has the same order of blocks."""
    ring = rings[0]
    if any(each.as_they_arrive for each in rings):
        return _ORDERED
    stacks = stacks_of(step.instruction.frames for each in rings for step in each.steps)
    return (ReplaceRings(tuple(sorted(names)), ring.call, is_chunked=not ring.is_whole, stacks=stacks),)


def _finding(subject: Subject, rings: Sequence[_Ring]) -> Finding:
    ring = rings[0]
    first = ring.steps[0].instruction
    names = {full_name(step) for each in rings for step in each.steps}
    lines = [lines_of(step.instruction.frames) for step in ring.steps]
    exchanges = [
        each
        for each in subject.exchanges
        if names.intersection(merged_names(each.collective.origin.op_name))
        and any(is_same_line(lines_of(each.collective.origin.frames), other) for other in lines)
    ]
    count = len(ring.cycles[0])
    sizes = {each.steps[0].instruction.shape.byte_size for each in rings}
    cautions = _CAUTIONS.get(ring.call, [])
    instead_s = 0.0
    if exchanges:
        collective = exchanges[0].collective
        who = dataclasses.replace(collective.who, written=ListGroups(ring.cycles), is_pairs=False)
        pricing = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target)
        for each in rings:
            one = dataclasses.replace(
                collective, opcode=_opcode(subject, each), who=who, operand_shapes=(each.operand,), result_shapes=each.results,
            )  # fmt: skip
            instead_s += float(pricing.price(one).known_s) * _runs(exchanges[0], each)
        kernels = ring_kernels(subject, exchanges, all(each.is_alone for each in rings), ring.is_whole)
        own = _timed(subject, kernels, subject.total_s)
        saved = own | dict.fromkeys((each.holder for each in exchanges), 1.0)
    else:
        is_less = ring.is_whole and ring.call != "all_gather"
        saved = dict.fromkeys(subject.kernels.of(names), 1 - 2 / count if is_less else 0.0)  # of the bytes
    is_one = len(rings) == 1
    end = "s" if is_one else ""
    verb = {"all_gather": "put{} together", "pmax": "compare{}", "pmin": "compare{}"}.get(ring.call, "add{} up").format(
        end
    )
    loop = {0: f"{len(ring.steps)} calls", 1: "a loop"}.get(ring.loops, f"{ring.loops} loops")
    passed = "" if ring.is_whole or ring.call != "psum" else f" and pass{'es' if is_one else ''} the sums on"
    title = (
        f"{'The ring' if is_one else f'{len(rings)} rings'} of `ppermute`s{at_line(first.frames)} ({loop}, {count} devices,"
        f" {'' if len(sizes) == 1 else 'up to '}{format_bytes(max(sizes))} each) only {verb} the blocks that arrive{passed}: one `{ring.call}`"
        f" {'' if is_one else 'for each '}does the same."
    )
    found = subject.finding(
        KIND, title, f"jax.lax.{ring.call}({'block' if ring.is_whole or ring.call == 'all_gather' else 'blocks'}, axis)", saved=saved, instead_s=instead_s, frames=first.frames, caution=" ".join(cautions),
        gain_source="the speed and latency of the links, and the times of the kernels" if exchanges else "the bytes sent",
        edits=_edits(rings, names),
    )  # fmt: skip
    if exchanges and found.share < _LEAST:
        as_long = f"By the model, one `{ring.call}` takes as long."
        return dataclasses.replace(found, caution=" ".join([*cautions, as_long]))
    return found
