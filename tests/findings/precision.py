"""Precision and recall of the detectors on the recorded programs.

`python -m tests.findings.precision` prints the table, and below it the programs that lost their finding, and the false alarms.
A program has the mistakes that `EXPECTED` or its decorator in `tests/findings/corpus` names; further mistakes that are there
too are in `ALSO` or in the decorator's `also`. All other findings with a gain of at least 1 % are false alarms.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import inspector
from inspector.analysis.findings.registry import KINDS
from tests.findings import blocks, meshes, overlap, rings, sharded, small, uneven, wide_exchanges
from tests.findings.corpus import record
from tests.findings.recorded import MODULES, recorded
from tests.findings.sharded import Program

EXPECTED: Mapping[str, tuple[Callable[[], Program], ...]] = {
    "axis-order": meshes.FOUND,
    "block-traffic": (*blocks.AGAIN, blocks.thin_product),
    "exposed-communication": (*overlap.FOUND, *overlap.PARTLY, meshes.sums_behind_products),
    "invariant-collective": (
        sharded.gather_in_scan, sharded.gather_in_while_of_unknown_length, sharded.weight_gathered_by_partitioner,
        sharded.accumulated_gradients, sharded.sum_of_bfloat16_in_fori_loop, sharded.invariant_sum_beside_another, sharded.weight_gathered_over_one_axis,
    ),
    "manual-ring": rings.FOUND,
    "small-collectives": (*small.FOUND, small.shift_of_each_field),
    "unaligned-blocks": blocks.NARROW,
    "uneven-shards": uneven.FOUND,
    "wide-collective": (*wide_exchanges.FOUND, *wide_exchanges.ON_TPUS),
}  # fmt: skip
"""The programs with a mistake, by kind."""
ALSO: Mapping[str, tuple[str, ...]] = {
    "exchanges_in_a_loop": ("undonated",),  # the loop carries the arguments
    "few_features_in_a_loop": ("undonated",),
    "products_in_a_loop": ("undonated",),
    "sum_of_bfloat16_in_fori_loop": ("undonated", "wide-storage"),
    "product_with_a_float32_scale": ("upcast-product",),
    "shift_of_each_field": ("undonated",),
    "chain_of_exchanges": ("resharding",),  # two exchanges of the chain bring the values back
    "invariant_sum_beside_another": ("undonated",),
    "large_sum_beside_products": ("unrolled-blocks",),
    "gather_of_widened": ("resharding",),  # the gathered rows are only added up
    "large_exchanges": ("exposed-communication",),
    "sixteen_heads": ("replicated-argument",),  # each device computes two heads, with the whole weight
    "unrolled_buffer": ("transposed-argument",),
    "unrolled_concatenation": ("transposed-argument",),
}
"""Other mistakes of the programs, by name. They do not count as planted."""
RESEMBLING: Mapping[str, tuple[Callable[[], Program], ...]] = {
    "axis-order": meshes.SILENT,
    "block-traffic": blocks.ENOUGH,
    "exposed-communication": overlap.SILENT,
    "invariant-collective": (
        sharded.layers_by_partitioner, sharded.layers_gathered_by_hand, sharded.gather_of_updated_weight, sharded.gather_before_scan,
    ),
    "manual-ring": rings.SILENT,
    "small-collectives": small.SILENT,
    "unaligned-blocks": blocks.WIDE,
    "uneven-shards": uneven.SILENT,
    "wide-collective": wide_exchanges.SILENT,
}  # fmt: skip
"""The programs that are similar to those with a mistake of a kind, and have none, by kind."""
MISSED: frozenset[tuple[str, str, str]] = frozenset()
"""Mistakes that are not found, as kind, program and target."""
FALSE_ALARMS: frozenset[tuple[str, str, str]] = frozenset()
"""Findings with a gain of at least 1 % in programs without the mistake, as kind, program and target."""
NOT_ON_GPUS = frozenset({"axis-order"})  # which a switch connects


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """A recorded program.

    Attributes:
      name: of the program.
      target: for which it was compiled.
      compile: returns the recording.
      planted: the kinds of its mistakes.
      also: kinds of further mistakes.
      resembles: the kinds of which it has no mistake, although it is similar to programs with one.
    """

    name: str
    target: str
    compile: Callable[[], inspector.Compiled]
    planted: frozenset[str]
    also: frozenset[str]
    resembles: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Examined:
    """The kinds of findings in a program: all, and those with a gain of at least 1 %, in order."""

    example: Example
    all: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def missed(self) -> frozenset[str]:
        return self.example.planted - {*self.all}

    @property
    def false(self) -> frozenset[str]:
        return frozenset(self.shown) - self.example.planted - self.example.also


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """Numbers of programs of one detector.

    Attributes:
      planted: with the mistake.
      found: of these, with the finding, also with a small gain.
      shown: of these, with a gain of at least 1 %.
      early: of those with a gain of at least 1 %, as first or second in the list.
      silent: without the mistake, but similar to programs with one.
      false: findings in programs without the mistake.
    """

    planted: int = 0
    found: int = 0
    shown: int = 0
    early: int = 0
    silent: int = 0
    false: int = 0

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.false) if self.found + self.false else 1.0

    @property
    def recall(self) -> float:
        return self.found / self.planted if self.planted else 1.0


def examples() -> Iterator[Example]:
    """Returns all recorded programs."""
    for each in MODULES:
        for target, programs in each.RECORDED.items():
            for program in programs:
                left_out = NOT_ON_GPUS if target.startswith("gpu") else ()
                planted = frozenset(kind for kind, having in EXPECTED.items() if program in having)
                also = frozenset(ALSO.get(program.__name__, ()))
                compile_ = functools.partial(recorded, program, target)
                resembles = frozenset(kind for kind, similar in RESEMBLING.items() if program in similar)
                yield Example(program.__name__, target, compile_, planted - {*left_out}, also, resembles - {*left_out})
    for case in record.cases():
        for target in case.targets:
            planted = frozenset({case.planted} if case.planted and target in case.on else ())
            also = frozenset(kind for kind, targets in case.also.items() if target in targets)
            compile_ = functools.partial(record.recorded, case.name, target)
            resembles = case.resembles or (case.planted if target not in case.on else "")
            yield Example(case.name, target, compile_, planted, also, frozenset({resembles} if resembles else ()))


def examine(example: Example) -> Examined:
    """Looks for all kinds in a recorded program."""
    findings = example.compile().findings()
    return Examined(example, tuple(f.kind for f in (*findings, *findings.folded)), tuple(f.kind for f in findings))


def scores(examined: list[Examined]) -> dict[str, Score]:
    """Returns the scores of the detectors, by kind."""
    counts = {kind: dict.fromkeys((f.name for f in dataclasses.fields(Score)), 0) for kind in KINDS}
    for each in examined:
        for kind in each.example.planted:
            row = counts[kind]
            row["planted"] += 1
            row["found"] += kind in each.all
            row["shown"] += kind in each.shown
            row["early"] += kind in each.shown[:2]
        for kind in each.false:
            counts[kind]["false"] += 1
        for kind in each.example.resembles:
            counts[kind]["silent"] += 1
    return {kind: Score(**row) for kind, row in counts.items() if any(row.values())}


def total(found: Mapping[str, Score]) -> Score:
    """Returns the sums of all detectors."""
    return Score(*(sum(getattr(s, f.name) for s in found.values()) for f in dataclasses.fields(Score)))


def table(found: Mapping[str, Score]) -> str:
    """Returns the scores as a table in Markdown."""
    lines = [
        "| kind | planted | found | gain of 1 % | first or second | silent | false alarms |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [(f"`{kind}`", score) for kind, score in sorted(found.items())]
    for name, s in (*rows, ("all", total(found))):
        lines.append(f"| {name} | {s.planted} | {s.found} | {s.shown} | {s.early} | {s.silent} | {s.false} |")
    return "\n".join(lines)


def departures(examined: list[Examined]) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """Returns the mistakes that are not found, and the false alarms, as (kind, program, target)."""
    missed = {(kind, each.example.name, each.example.target) for each in examined for kind in each.missed}
    false = {(kind, each.example.name, each.example.target) for each in examined for kind in each.false}
    return missed, false


if __name__ == "__main__":
    all_examined = [examine(example) for example in examples()]
    found = scores(all_examined)
    print(table(found))
    print(f"precision {total(found).precision:.3f}, recall {total(found).recall:.3f}")
    for name, departed in zip(("missed", "false alarm"), departures(all_examined), strict=True):
        for kind, program, target in sorted(departed):
            print(f"{name}: {kind} {program} {target}")
