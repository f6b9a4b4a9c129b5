"""Descriptions of passes over random programs: only fused, renamed and rewritten couples, and all of them."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.passes.correspondence import Certainty
from inspector.analysis.passes.follow import History
from inspector.analysis.passes.step_descriptions import StepEvent
from inspector.hlo.module import Module
from inspector.stages.passes import CompilerPasses
from tests.analysis.grown import Lines, changed_at_random, couples, grown, module_in
from tests.analysis.passes.test_step_descriptions import recorded

SEEDS = range(10)


def text(module: Module) -> str:
    return _hlo.HloModule.from_serialized_hlo_module_proto(module.columns.data).to_string()


def called(lines: Lines, names: dict[str, str]) -> Lines:
    """The same program under other names."""
    return {
        names.get(name, name): (opcode, tuple(names.get(each, each) for each in operands))
        for name, (opcode, operands) in lines.items()
    }


def told(before: Module, after: Module) -> list[StepEvent]:
    passes = recorded(text(before), text(after))
    return list(History(passes).compared(passes[0].before_index, passes[0].after_index)[1].events)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_renamed", [False, True])
def test_every_couple_is_fused(seed: int, is_renamed: bool) -> None:
    lines = grown(seed)
    fused = couples(lines, seed)
    names = {name: f"new_{name}" for couple in fused.items() for name in couple} if is_renamed else {}
    other = {names.get(a, a): names.get(b, b) for a, b in fused.items()}
    found = told(module_in(lines), module_in(called(lines, names), other))
    values = [*expressions(lines).values()]
    alone = {name for name, value in expressions(lines).items() if values.count(value) == 1}
    into = {name: event.after for event in found if event.word == "fused" for name in event.before}
    for inner, outer in fused.items():
        for name in {inner, outer} & alone:
            assert into[name] == (f"{names.get(outer, outer)}.fusion",)
    assert into.keys() <= {name for couple in fused.items() for name in couple}
    assert {event.word for event in found} <= {"fused", "merged"}
    if not is_renamed:
        assert {*into} == {name for couple in fused.items() for name in couple}
    assert {event.certainty for event in found} <= ({Certainty.EQUAL} if is_renamed else {Certainty.KEPT})


@pytest.mark.parametrize("seed", SEEDS)
def test_every_instruction_is_renamed(seed: int) -> None:
    lines = grown(seed)
    names = {name: f"new_{name}" for name, (opcode, _) in lines.items() if opcode != "parameter"}
    found = told(module_in(lines), module_in(called(lines, names)))
    assert {event.word for event in found} <= {"renamed", "merged"}
    pairs = {name: event.after for event in found for name in event.before}
    expected = expressions(lines)
    for name, after in pairs.items():
        assert expected[after[0].removeprefix("new_")] == expected[name]
    assert pairs.keys() == names.keys()
    assert {event.certainty for event in found} <= {Certainty.EQUAL, Certainty.PLACE}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rewritten_operation_is_reported_with_both_opcodes(seed: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, 1)
    (name,) = (name for name in lines if lines[name] != other[name])
    (event,) = told(module_in(lines), module_in(other))
    assert (event.word, event.before, event.after) == ("rewrote", (name,), (name,))
    assert event.note == f"{lines[name][0]} → {other[name][0]}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_renamed", [False, True])
def test_each_of_a_couple_is_followed_through_two_passes(seed: int, is_renamed: bool) -> None:
    """It gets another name, then goes into a fusion with the other of its couple, there under one more name or the same."""
    lines = grown(seed)
    fused, values = couples(lines, seed), expressions(lines)
    names = {name: f"new_{name}" for couple in fused.items() for name in couple}
    late = {new: f"late_{new}" for new in names.values()} if is_renamed else {}
    last = called(called(lines, names), late)
    inside = {name: late.get(new, new) for name, new in names.items()}
    stages = [lines, called(lines, names)], module_in(last, {inside[a]: inside[b] for a, b in fused.items()})
    passes = CompilerPasses.of(recorded(*map(text, [*map(module_in, stages[0]), stages[1]])))
    for inner, outer in fused.items():
        for name in (inner, outer):
            if [*values.values()].count(values[name]) > 1:
                continue  # it is as good as another
            found, later = passes.follow(name), passes.follow(inside[name])
            assert [(touch.index, touch.word) for touch in found.touches] == [
                (None, "given"),
                (0, "renamed"),
                (1, "fused"),
            ]
            assert (found.first, later.first) == ((name,), (name,))
            assert f"{names[name]} into {inside[outer]}.fusion" in found.touches[-1].text
            assert inside[name] in found.fate or f"{inside[outer]}.fusion" in found.fate
            assert found.touches[-1].certainty is (Certainty.EQUAL if is_renamed else Certainty.ALTERED)


def expressions(lines: Lines) -> dict[str, str]:
    """Returns the expression that each instruction computes; commutative operands are sorted."""
    found: dict[str, str] = {}
    for name, (opcode, operands) in lines.items():
        taken = [found[each] for each in operands]
        found[name] = name if opcode == "parameter" else f"{opcode}({', '.join(sorted(taken))})"
    return found
