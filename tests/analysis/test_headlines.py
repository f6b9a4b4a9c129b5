"""Headlines and tables of differences: a table of changes with the expected words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from inspector.analysis.diff.altered_instructions import Aspect
from inspector.analysis.diff.changes import KINDS, Change
from inspector.analysis.diff.module_diff import NOT_COUNTED, Diff, Total, counted, diff, is_other, totals
from inspector.compilation.cost import InstructionCost
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.hlo.module import Module
from tests.analysis.planted import BASE, PLANTED, edited
from tests.modules import changed, module_of, proto_of


@pytest.fixture(scope="module")
def base() -> Module:
    return module_of(BASE)


def change(module: Module, kind: Any, before: str = "", after: str = "", *aspects: Aspect, **said: Any) -> Change:
    ours, theirs = (tuple(map(module.instruction, names.split())) for names in (before, after))
    return Change(kind, ours, theirs, aspects, **said)


def headline(module: Module, told: Sequence[Change], numbers: Sequence[Total] = (), reordered: int = 0) -> str:
    partners = np.arange(len(module.columns), dtype=np.int32)
    return Diff(tuple(told), module, module, partners, {}, tuple(numbers), reordered).headline


LAYOUT, OTHER, WIDTH = (
    Aspect("layout", "{0}", "{1}"),
    Aspect("layout", "{1}", "{2}"),
    Aspect("element type", "f32", "s8"),
)
LONG = Aspect("value", "1" * 30, "2" * 30)


def test_equal_programs_are_described_in_words(base: Module) -> None:
    assert headline(base, []) == "the same program"
    assert headline(base, [], reordered=1234) == "the same program, 1,234 instructions run in a different order"
    assert headline(base, [change(base, "gone", "call")], reordered=3) == "1 custom-call gone"


@pytest.mark.parametrize(
    ("other_code", "wanted", "differs"),
    [
        (None, "the same program", False),
        (False, "the same program", False),
        (True, "the same optimized HLO, different machine code", True),
        (Unavailable("it was lost"), "the same optimized HLO, machine code not compared (it was lost)", False),
    ],
)
def test_the_same_hlo_is_not_called_the_same_program(
    base: Module, other_code: bool | Unavailable | None, wanted: str, differs: bool
) -> None:
    partners = np.arange(len(base.columns), dtype=np.int32)
    found = Diff((), base, base, partners, {}, other_code=other_code)
    assert found.headline == wanted
    assert bool(found) is differs
    assert is_other(found.headline) is differs
    assert is_other("1 fusion split")


TABLE: Mapping[str, tuple[Sequence[tuple[Any, ...]], str]] = {
    "one": ([("altered", "part", "part", LAYOUT)], "1 slice altered (layout {0} → {1})"),
    "two of an opcode": ([("gone", "none"), ("gone", "zero")], "2 constants gone"),
    "two opcodes": ([("gone", "none"), ("gone", "part")], "2 instructions gone"),
    "in the same respect": (
        [("altered", "none", "none", LAYOUT), ("altered", "zero", "zero", OTHER)], "2 constants altered (layout)"
    ),
    "in other respects": (
        [("altered", "none", "none", LAYOUT), ("altered", "zero", "zero", WIDTH)], "2 constants altered"
    ),
    "at length": ([("altered", "none", "none", LONG)], "1 constant altered (value)"),
    "not told of groups": ([("split", "gelu.f", "gelu.f pair.f")], "1 fusion split"),
    "words without aspects": ([("split", "gelu.f", "gelu.f pair.f")], "1 fusion split"),
    "the module": ([("altered", "", "", Aspect("buffer donor", "", "x"))], "module attributes altered"),
    "the module and an instruction": (
        [("altered", "part", "part", LAYOUT), ("altered", "", "", Aspect("buffer donor", "", "x"))],
        "module attributes altered, 1 slice altered (layout {0} → {1})",
    ),
    "said otherwise": (
        [("regrouped", "gelu.f", "pair.f"), ("duplicated", "", "less"), ("deduplicated", "less", "")],
        "1 fusion regrouped, 1 subtract duplicated, 1 subtract deduplicated",
    ),
    "collectives first": (
        [("split", "gelu.f", "pair.f"), ("configured", "gathered", "gathered"), ("gone", "loop"), ("gone", "gathered")],
        "1 all-gather gone, 1 fusion split, 1 while gone, 1 all-gather reconfigured",
    ),
    "the heavy before the rest": (
        [("gone", "part"), ("altered", "pair.f", "pair.f"), ("gone", "body.dot"), ("gone", "call")],
        "1 custom-call gone, 1 dot gone, 1 fusion altered, 1 slice gone",
    ),
    "by kind, then by number": (
        [("gone", "part"), ("moved", "less"), ("moved", "zero"), ("appeared", "", "none")],
        "1 constant appeared, 1 slice gone, 2 instructions moved",
    ),
    "what does not fit": (
        [("gone", "part"), ("appeared", "", "less"), ("moved", "zero"), ("gone", "loop"), ("split", "gelu.f"), ("configured", "call")],
        "1 fusion split, 1 while gone, 1 subtract appeared, 1 slice gone, 2 other changes",
    ),
    "what just does not fit": (
        [("gone", "part"), ("appeared", "", "less"), ("moved", "zero"), ("gone", "loop"), ("split", "gelu.f")],
        "1 fusion split, 1 while gone, 1 subtract appeared, 1 slice gone, 1 other change",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_most_informative_change_comes_first(base: Module, case: str) -> None:
    told, wanted = TABLE[case]
    assert headline(base, [change(base, *each) for each in told]) == wanted


def test_a_start_instruction_counts_as_a_collective() -> None:
    module = module_of(edited(next(each for each in PLANTED if each.name == "asynchronous")))
    told = [change(module, "split", "gelu.f", "pair.f"), change(module, "gone", "ag.s")]
    assert headline(module, told) == "1 all-gather-start gone, 1 fusion split"


@pytest.mark.parametrize(
    ("total", "wanted"),
    [
        (Total("peak", 0.0, 2048.0, is_bytes=True), "peak +2 KiB"),
        (Total("peak", 2048.0, 0.0, is_bytes=True), "peak −2 KiB"),
        (Total("flops", 1000.0, 3000.0, is_bytes=False), "flops +2k"),
        (Total("flops", 5.0, 5.0, is_bytes=False), ""),
        (Total("flops", Unavailable("no"), 5.0, is_bytes=False), ""),
        (Total("flops", 5.0, Unavailable("no"), is_bytes=False), ""),
        (Total("flops", AtLeast(4.0, [Missing("k", "call", "not counted")]), 5.0, is_bytes=False), ""),
    ],
)
def test_numbers_known_of_both_programs_are_shown(base: Module, total: Total, wanted: str) -> None:
    assert total.words == wanted
    assert headline(base, [], [total]) == ", ".join(filter(None, ("the same program", wanted)))


@pytest.mark.parametrize(
    ("count", "noun", "wanted"),
    [(1, "copy", "1 copy"), (2, "copy", "2 copies"), (1200, "fusion", "1,200 fusions"), (2, "cosine", "2 cosines"),
     (3, "bitcast", "3 bitcasts"), (2, "abs", "2 abses"), (2, "max", "2 maxes"), (2, "push", "2 pushes"),
     (2, "batch", "2 batches"), (1, "abs", "1 abs")],
)  # fmt: skip
def test_nouns_are_in_the_plural(count: int, noun: str, wanted: str) -> None:
    assert counted(count, noun) == wanted


def test_the_description_of_a_change(base: Module) -> None:
    told = change(base, "altered", "none zero", "part", LAYOUT, WIDTH, LAYOUT, held=(1200, 3), words="so")
    assert told.what == f"{LAYOUT}; {WIDTH}; {LAYOUT}; so; with 1,200 more; with 3 more"
    assert told.respects == "layout, element type"
    assert told.count == 2 + 1 + 1203
    assert told.opcode == "constant"
    assert change(base, "appeared", "", "part").opcode == "slice"
    assert change(base, "altered").opcode == ""
    assert change(base, "altered").what == ""


def test_changes_of_only_the_configuration_do_not_count(base: Module) -> None:
    told = [change(base, "configured", "call", "call"), change(base, "gone", "part", held=(2, 0))]
    found = Diff(tuple(told), base, base, np.array([0, -1, 2], np.int32), {})
    assert found.changed == 3
    assert found.common == 2
    assert found


def test_every_kind_is_explained_and_sorted_by(base: Module) -> None:
    other = module_of(edited(next(each for each in PLANTED if each.name == "two at once")))
    assert [each.kind for each in diff(base, other).changes] == ["rewritten", "altered"]
    assert [*KINDS][:2] == ["split", "merged"]
    assert [*KINDS][-1] == "configured"


def costs(**known: tuple[Any, Any]) -> dict[str, InstructionCost]:
    names = InstructionCost.__dataclass_fields__
    return {
        name.replace("_", "."): InstructionCost(
            **{each: {"flops": flops, "bytes_accessed": accessed}.get(each, 0.0) for each in names}
        )
        for name, (flops, accessed) in known.items()
    }


def test_the_cost_of_a_change_is_the_sum_of_its_instructions(base: Module) -> None:
    known = costs(part=(1.0, 10.0), less=(2.0, 20.0), gelu_m=(4.0, 40.0), rows=(Unavailable("why"), 80.0))
    found = diff(base, base).counted(lambda: (known, {}))
    assert found.cost(change(base, "gone", "part less")) == {
        "flops_before": 3.0, "bytes_before": 30.0, "flops_after": 0.0, "bytes_after": 0.0,
    }  # fmt: skip
    inside = found.cost(change(base, "gone", "gelu.m"))
    assert inside["flops_before"] == 4.0
    assert inside["bytes_before"] == Unavailable("gelu.m is part of gelu.f, which accesses memory as a whole")
    assert found.cost(change(base, "gone", "rows part"))["flops_before"] == Unavailable("why")
    assert found.cost(change(base, "gone", "rows part"))["bytes_before"] == 90.0
    assert found.cost(change(base, "gone", "top"))["flops_before"] is NOT_COUNTED
    assert found.cost(change(base, "appeared", "", "part"))["flops_after"] is NOT_COUNTED


def test_uncounted_costs_are_reported(base: Module) -> None:
    found = diff(base, base)
    assert found.costs is NOT_COUNTED
    assert set(found.cost(change(base, "gone", "part")).values()) == {NOT_COUNTED}
    assert found.counted(lambda: Unavailable("none")).cost(change(base, "gone", "part"))["flops_before"] == Unavailable(
        "none"
    )


def test_costs_are_counted_once(base: Module) -> None:
    asked = []
    found = diff(base, base).counted(lambda: (asked.append(1), ({}, {}))[1])
    assert found.costs == ({}, {})
    assert found.costs == ({}, {})
    assert asked == [1]


def test_a_row_has_the_change_and_its_place() -> None:
    text = BASE.replace('custom_call_target="kernel"', 'custom_call_target="kernel", metadata={op_name="jit(f)/k"}')
    ours, theirs = module_of(text), module_of(text.replace('"kernel"', '"other"').replace(
        "comparison", "comparison"))  # fmt: skip
    row = diff(ours, theirs).table().iloc[0]
    assert row["kind"] == "altered"
    assert row["opcode"] == "custom-call"
    assert (row["before"], row["after"]) == ("call", "call")
    assert row["what"] == "custom call target kernel → other"
    assert (row["computation"], row["scope"]) == ("main", "jit(f)/k")
    module = diff(ours, module_of(text.replace(", input_output_alias={ {0}: (0, {}, may-alias) }", ""))).table().iloc[0]
    assert (module["opcode"], module["before"], module["computation"]) == ("module", "", "")
    two = diff(ours, module_of(edited(next(p for p in PLANTED if p.name == "split")))).table()
    assert two[two["kind"] == "split"].iloc[0]["after"] == "gelu.f1, gelu.f"


def scheduled(order: Sequence[int], rest: str = "") -> Module:
    names = "abcdef"
    lines = "".join(f"  {name} = f32[] parameter({n})\n" for n, name in enumerate(names))
    shape = f"({', '.join(['f32[]'] * 6)})"
    module = module_of(f"HloModule m{rest}\nENTRY main {{\n{lines}  ROOT t = {shape} tuple({', '.join(names)})\n}}\n")
    proto = proto_of(module)
    (computation,) = proto.computations
    ids = [instruction.id for instruction in computation.instructions]
    sequence = proto.schedule.sequences[computation.id]
    sequence.instruction_ids.extend([*(ids[n] for n in order), ids[-1]])
    return changed(proto)


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        ([0, 1, 2, 3, 4, 5], 0),
        ([1, 0, 2, 3, 4, 5], 1),
        ([5, 0, 1, 2, 3, 4], 1),
        ([5, 4, 3, 2, 1, 0], 5),
        ([2, 3, 0, 1, 4, 5], 2),
    ],
)
def test_reordered_instructions_are_those_outside_the_longest_run(order: list[int], moved: int) -> None:
    found = diff(scheduled(range(6)), scheduled(order))
    assert found.reordered == moved
    assert diff(scheduled(order), scheduled(range(6))).reordered == moved
    assert not found


def test_where_one_has_no_schedule_nothing_is_reordered() -> None:
    module = scheduled([5, 4, 3, 2, 1, 0])
    proto = proto_of(module)
    proto.ClearField("schedule")
    assert diff(changed(proto), scheduled(range(6))).reordered == 0
    assert diff(scheduled(range(6)), changed(proto)).reordered == 0


def test_totals_are_the_peak_and_the_flops() -> None:
    class Program:
        def __init__(self, memory: Any, cost: Any) -> None:
            self.memory, self.cost = memory, cost

    class Known:
        peak_bytes, flops = 3.0, 4.0

    first, second = Program(Known, Known), Program(Unavailable("m"), Unavailable("c"))
    found: Any = totals(first, second)  # type: ignore[arg-type]
    assert found == (
        Total("peak", 3.0, Unavailable("m"), is_bytes=True),
        Total("flops", 4.0, Unavailable("c"), is_bytes=False),
    )


def test_computations_are_paired_with_their_callers(base: Module) -> None:
    other = module_of(BASE.replace("gelu {", "gelu.9 {").replace("calls=gelu", "calls=gelu.9"))
    found = diff(base, other)
    names, theirs = base.columns.computation_names, other.columns.computation_names
    pairs = {names[a]: theirs[b] for a, b in found.computations.items()}
    assert pairs == {name: "gelu.9" if name == "gelu" else name for name in names}
