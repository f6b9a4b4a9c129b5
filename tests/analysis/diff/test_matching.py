"""Matching, held to names that it does not read: programs grown at random, changed at some places, fused otherwise."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

import pytest

from inspector.analysis.diff.dataflow import Dataflow
from inspector.analysis.diff.instruction_labels import labels
from inspector.analysis.diff.matching import Matching, match
from inspector.analysis.diff.module_diff import diff
from inspector.analysis.diff.value_numbers import ValueNumbers
from inspector.hlo.module import Module
from tests.analysis.grown import Lines, changed_at_random, couples, grown, module_in

SEEDS = range(12)


def pairs(matching: Matching, names: Iterable[str]) -> dict[str, str | None]:
    """Maps each name of the first module to that of its partner."""
    ours, theirs = (flow.module.columns.names for flow in (matching.before, matching.after))
    rows = {name: row for row, name in enumerate(ours)}
    return {
        name: theirs[matching.to_after[rows[name]]] if matching.to_after[rows[name]] >= 0 else None for name in names
    }


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_one_operation_changed_every_instruction_is_matched(seed: int, count: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, count)
    found = pairs(match(module_in(lines, couples(lines, seed)), module_in(other, couples(other, seed + 100))), lines)
    assert found == {name: name for name in lines}


@pytest.mark.parametrize(("count", "most_lost", "most_wrong"), [(3, 13, 0), (8, 110, 7)])
@pytest.mark.parametrize("is_fused", [False, True])
def test_with_more_changed_few_are_lost(count: int, most_lost: int, most_wrong: int, is_fused: bool) -> None:
    """1,290 instructions of 30 programs, a quarter of which are interchangeable; eight are changed in each program."""
    lost = wrong = 0
    for seed in range(30):
        lines = grown(seed)
        other = changed_at_random(lines, seed, count)
        fused = (couples(lines, seed), couples(other, seed + 100)) if is_fused else ({}, {})
        found = pairs(match(module_in(lines, fused[0]), module_in(other, fused[1])), lines)
        lost += sum(partner is None for partner in found.values())
        wrong += sum(partner not in (None, name) for name, partner in found.items())
    assert lost <= most_lost
    assert wrong <= most_wrong


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [0, 8])
def test_both_ways_it_finds_the_same_pairs(seed: int, count: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, count)
    modules = module_in(lines, couples(lines, seed)), module_in(other, couples(other, seed + 100))
    there, back = match(*modules), match(*modules[::-1])
    assert there.to_after == back.to_before
    assert there.to_before == back.to_after
    assert {b: a for a, b in there.regions.items()} == back.regions
    assert (there.before.module, there.after.module) == modules
    partners = [row for row in there.to_after if row >= 0]
    assert len(set(partners)) == len(partners)
    assert all(there.to_after[x] == y for y, x in enumerate(there.to_before) if x >= 0)
    assert all(there.to_before[y] == x for x, y in enumerate(there.to_after) if y >= 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_parameters_of_fusions_are_matched_by_their_operands(seed: int) -> None:
    lines = grown(seed)
    fused = couples(lines, seed)
    before, after = module_in(lines, fused), module_in(lines, fused, is_turned=True)
    found = match(before, after)
    inner = [i for c in before.computations if not c.is_entry for i in c.instructions if i.opcode == "parameter"]
    wanted = {}
    for each in inner:
        outer, _, number = each.name.rpartition(".p")
        count = len(before.computation(f"{outer}.fused").instructions) - 2
        wanted[each.name] = f"{outer}.p{count - 1 - int(number)}"
    assert pairs(found, wanted) == wanted
    groups = [f"{outer}.fusion" for outer in fused.values()]
    assert pairs(found, groups) == {name: name for name in groups}


# --------------------------------------------------------------------------- what is told of fusions


@pytest.mark.parametrize("seed", SEEDS)
def test_only_formed_and_dissolved_fusions_are_reported(seed: int) -> None:
    lines = grown(seed)
    fused = couples(lines, seed)
    plain, one = module_in(lines), module_in(lines, fused)
    formed, dissolved = diff(plain, one), diff(one, plain)
    names = sorted(f"{outer}.fusion" for outer in fused.values())
    assert sorted(change.after[0].name for change in formed.changes) == names
    assert sorted(change.before[0].name for change in dissolved.changes) == names
    assert {(c.kind, c.what) for c in formed.changes} == {("formed", "2 instructions")}
    assert {(c.kind, c.what) for c in dissolved.changes} == {("dissolved", "2 instructions")}
    assert not diff(one, module_in(lines, fused, is_turned=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_regrouped_fusion_is_reported_once(seed: int) -> None:
    """Instructions in two fusions of the first module are in one of the second, or outside: only that is reported."""
    lines = grown(seed)
    first, second = couples(lines, seed), couples(lines, seed + 100)
    found = diff(module_in(lines, first), module_in(lines, second))
    same = {f"{outer}.fusion" for inner, outer in first.items() if second.get(inner) == outer}
    told = [{i.name for i in side} for side in (
        [i for c in found.changes for i in c.before], [i for c in found.changes for i in c.after])]  # fmt: skip
    for side, fused in zip(told, (first, second), strict=True):
        assert side <= {f"{outer}.fusion" for outer in fused.values()} - same
    apart = {f"{b}.fusion" for a, b in first.items() if not {a, b} & {*second, *second.values()}}
    assert apart == {
        i.name for c in found.changes if c.kind == "dissolved" and c.words == "2 instructions" for i in c.before
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_operation_is_the_only_reported_change(seed: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, 1)
    (name,) = (name for name in lines if lines[name] != other[name])
    fused = couples(lines, seed)
    (told,) = diff(module_in(lines, fused), module_in(other, fused)).changes
    assert (told.kind, told.before[0].name, told.after[0].name) == ("rewritten", name, name)
    assert told.what == f"opcode {lines[name][0]} → {other[name][0]}"


# --------------------------------------------------------------------------- what is matched by


def expressions(lines: Lines) -> dict[str, str]:
    """Returns the expression that each instruction computes."""
    found: dict[str, str] = {}
    for name, (opcode, operands) in lines.items():
        found[name] = name if opcode == "parameter" else f"{opcode}({', '.join(found[each] for each in operands)})"
    return found


def same_as(values: Mapping[str, object]) -> set[frozenset[str]]:
    """The names that have the same value."""
    groups: dict[object, set[str]] = collections.defaultdict(set)
    for name, value in values.items():
        groups[value].add(name)
    return {frozenset(names) for names in groups.values()}


def numbered(before: Module, after: Module) -> tuple[ValueNumbers, ValueNumbers]:
    ours, theirs = labels(before, after)
    return ValueNumbers(Dataflow(before), ours, is_second=False), ValueNumbers(Dataflow(after), theirs, is_second=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_equal_where_expressions_are(seed: int) -> None:
    lines = grown(seed, count=25, parameters=2)
    other = changed_at_random(lines, seed, 2)
    sides = numbered(module_in(lines, couples(lines, seed)), module_in(other))
    known: dict[str, object] = {}
    written: dict[str, object] = {}
    for which, (side, text) in enumerate(zip(sides, (lines, other), strict=True)):
        rows = {name: row for row, name in enumerate(side.flow.module.columns.names)}
        known |= {f"{which} {name}": side.values[rows[name]] for name in text}
        written |= {f"{which} {name}": each for name, each in expressions(text).items()}
    assert same_as(known) == same_as(written)


@pytest.mark.parametrize("seed", SEEDS)
def test_uses_are_equal_where_the_ways_to_the_result_are(seed: int) -> None:
    lines = grown(seed, count=25, parameters=2)
    side, _ = numbered(module_in(lines), module_in(lines))
    ends = [name for name in lines if all(name not in operands for _, operands in lines.values())]
    written: dict[str, str] = {}
    for name in reversed(lines):
        ways = [(opcode, place, written[user]) for user, (opcode, operands) in lines.items()
                for place, each in enumerate(operands) if each == name]  # fmt: skip
        ways += [("tuple", place, "end") for place, each in enumerate(ends) if each == name]
        written[name] = str(sorted(ways))
    rows = {name: row for row, name in enumerate(side.flow.module.columns.names)}
    assert same_as({name: side.uses[rows[name]] for name in lines}) == same_as(written)


@pytest.mark.parametrize("seed", SEEDS)
def test_dataflow_is_the_same_with_and_without_fusions(seed: int) -> None:
    lines = grown(seed)
    fused = couples(lines, seed)
    flow = Dataflow(module_in(lines, fused))
    names = flow.module.columns.names
    rows = {name: row for row, name in enumerate(names)}
    assert {name: tuple(names[o] for o in flow.operands[rows[name]]) for name in lines} == {
        name: operands for name, (_, operands) in lines.items()
    }
    used = {
        name: sorted((names[user], place) for user, place in flow.users[rows[name]] if names[user] != "result")
        for name in lines
    }
    assert used == {
        name: sorted((u, place) for u, (_, operands) in lines.items() for place, o in enumerate(operands) if o == name)
        for name in lines
    }
    entry = flow.module.entry.number
    assert sorted(names[row] for row in flow.nodes[entry]) == sorted([*lines, "result"])
    assert [*flow.nodes] == [entry]
    assert names[flow.roots[entry]] == "result"
    inside = {name: f"{outer}.fusion" for inner, outer in fused.items() for name in (inner, outer)}
    assert {name: [names[row] for row in flow.groups_of(rows[name])] for name in lines} == {
        name: [inside[name]] if name in inside else [] for name in lines
    }
    assert {names[group]: sorted(names[row] for row in members) for group, members in flow.members.items()} == {
        f"{outer}.fusion": sorted((inner, outer)) for inner, outer in fused.items()
    }
    place = {row: n for n, row in enumerate(flow.nodes[entry])}
    assert all(place[o] < place[row] for row in place for o in flow.operands[row])
    assert all(flow.sources[rows[f"{outer}.fusion"]] == rows[outer] for outer in fused.values())
