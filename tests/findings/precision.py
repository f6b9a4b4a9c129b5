"""Precision and recall of the detectors on the recorded programs.

`python -m tests.findings.precision` prints the table. A program has the mistake of its list, which `EXPECTED` names; further
mistakes that are there too are in `ALSO`. All other findings with a gain of at least 1 % are false alarms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from inspector.analysis.findings.registry import KINDS
from tests.findings import blocks, meshes, overlap, rings, sharded, small, uneven
from tests.findings.recorded import MODULES, recorded
from tests.findings.sharded import Program

EXPECTED: Mapping[str, tuple[Callable[[], Program], ...]] = {
    "axis-order": meshes.FOUND,
    "block-traffic": (*blocks.AGAIN, blocks.thin_product),
    "exposed-communication": (*overlap.FOUND, meshes.sums_behind_products),
    "invariant-collective": (
        sharded.gather_in_scan, sharded.gather_in_while_of_unknown_length, sharded.weight_gathered_by_partitioner,
        sharded.accumulated_gradients, sharded.sum_of_bfloat16_in_fori_loop, sharded.weight_gathered_over_one_axis,
    ),
    "manual-ring": rings.FOUND,
    "small-collectives": (*small.FOUND, small.shift_of_each_field),
    "unaligned-blocks": blocks.NARROW,
    "uneven-shards": uneven.FOUND,
}  # fmt: skip
"""The programs with a mistake, by kind."""
ALSO: Mapping[str, tuple[str, ...]] = {
    "exchanges_in_a_loop": ("undonated",),  # the loop carries the arguments
    "few_features_in_a_loop": ("undonated",),
    "products_in_a_loop": ("undonated",),
    "sum_of_bfloat16_in_fori_loop": ("undonated",),
    "shift_of_each_field": ("undonated",),
    "large_exchanges": ("exposed-communication",),
    "unrolled_buffer": ("transposed-argument",),
    "unrolled_concatenation": ("transposed-argument",),
}
"""Other mistakes of the programs, by name. They do not count as planted."""
NOT_ON_GPUS = frozenset({"axis-order"})  # which a switch connects


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """Numbers of programs of one detector.

    Attributes:
      planted: with the mistake.
      found: of these, with the finding, also with a small gain.
      early: of those with a gain of at least 1 %, as first or second in the list.
      shown: of these, with a gain of at least 1 %.
      false: findings in programs without the mistake.
    """

    planted: int
    found: int
    shown: int
    early: int
    false: int


def scores() -> dict[str, Score]:
    """Examines all recorded programs."""
    counts = {kind: [0] * 5 for kind in KINDS}
    for each in MODULES:
        for target, programs in each.RECORDED.items():
            for program in programs:
                findings = recorded(program, target).findings()
                shown, all_ = [f.kind for f in findings], [f.kind for f in (*findings, *findings.folded)]
                left_out = NOT_ON_GPUS if target.startswith("gpu") else ()
                planted = {kind for kind, having in EXPECTED.items() if program in having and kind not in left_out}
                for kind in planted:
                    row = counts[kind]
                    row[:4] = (
                        row[0] + 1,
                        row[1] + (kind in all_),
                        row[2] + (kind in shown),
                        row[3] + (kind in shown[:2]),
                    )
                for kind in {*shown} - planted - {*ALSO.get(program.__name__, ())}:
                    counts[kind][4] += 1
    return {kind: Score(*row) for kind, row in counts.items() if any(row)}


def table(found: Mapping[str, Score]) -> str:
    """Returns the scores as a table in Markdown."""
    lines = ["| kind | planted | found | gain of 1 % | first or second | false alarms |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{k}` | {s.planted} | {s.found} | {s.shown} | {s.early} | {s.false} |" for k, s in sorted(found.items())
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(scores()))
