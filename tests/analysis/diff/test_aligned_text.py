"""Texts beside each other, of programs grown at random, renamed, reordered and changed at one place."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from benchmarks.scrambled import scrambled
from inspector.analysis.diff.aligned_text import aligned
from inspector.analysis.diff.module_diff import diff
from inspector.hlo.module import Module
from inspector.hlo.text import DisplayText, display_text
from tests.analysis.diff.test_module_diff import rebuilt
from tests.analysis.grown import Lines, changed_at_random, couples, grown, module_in

SEEDS = range(8)


def shown(module: Module) -> DisplayText:
    return display_text(_hlo.HloModule.from_serialized_hlo_module_proto(module.columns.data).to_string())


@pytest.mark.parametrize("seed", SEEDS)
def test_one_operation_changed_is_one_line(seed: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, 1)
    (name,) = (name for name in lines if lines[name] != other[name])
    fused = couples(lines, seed)
    before, after = module_in(lines, fused), scrambled(module_in(other, fused), seed)
    found, texts = diff(before, after), (shown(before), shown(after))
    there = aligned(found, *texts)
    ((a0, a1, b0, b1),) = there.hunks
    (old,), new = there.removed, texts[1].text.split("\n")[b0]
    assert (a1 - a0, b1 - b0) == (1, 1)
    assert there.lines == (b0,)
    assert there.following == ()
    assert f" {lines[name][0]}(" in old
    assert f" {other[name][0]}(" in new
    assert old.replace(f" {lines[name][0]}(", f" {other[name][0]}(") == new


@pytest.mark.parametrize("seed", SEEDS)
def test_with_other_names_the_first_text_is_rebuilt_of_the_second(seed: int) -> None:
    lines = grown(seed)
    other = changed_at_random(lines, seed, 4)
    before, after = module_in(lines), module_in(renamed(other))
    texts = shown(before), shown(after)
    found = [line for line in rebuilt(aligned(diff(before, after), *texts), texts[1]) if line.startswith("  ")]
    mine = [line for line in texts[0].text.split("\n") if line.startswith("  ")]
    assert len(found) == len(mine)
    opcodes = lambda shown: sorted(line.partition(" = ")[2].partition("(")[0] for line in shown)  # noqa: E731
    assert opcodes(found) == opcodes(mine)


def renamed(lines: Lines) -> Lines:
    names = {name: f"other_{name}" for name in lines}
    return {
        names[name]: (opcode, tuple(names[each] for each in operands)) for name, (opcode, operands) in lines.items()
    }


def inserted(lines: Lines, at: str) -> Lines:
    """With something done to an instruction, which all that took that take now."""
    found: Lines = {}
    for name, (opcode, operands) in lines.items():
        found[name] = opcode, tuple("new" if each == at else each for each in operands)
        if name == at:
            found["new"] = "floor", (at,)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_users_of_an_inserted_instruction_are_marked_as_following(seed: int) -> None:
    lines = grown(seed)
    users = {name: [u for u, (_, operands) in lines.items() if name in operands] for name in lines}
    at = next(name for name, of in users.items() if len(of) >= 3 and name not in of)
    before, after = module_in(lines), module_in(inserted(lines, at))
    found, texts = diff(before, after), (shown(before), shown(after))
    assert [(change.kind, [i.name for i in change.after]) for change in found.changes] == [("appeared", ["new"])]
    there = aligned(found, *texts)
    numbers = {name: line for line, name in enumerate(texts[1].instruction_names) if name is not None}
    touched = {line for _, _, b0, b1 in there.hunks for line in range(b0, b1)}
    assert touched == {numbers["new"], *(numbers[user] for user in users[at])}
    of_new = {n for n, (_, _, b0, b1) in enumerate(there.hunks) if b0 <= numbers["new"] < b1}
    assert {*there.following} == {*range(len(there.hunks))} - of_new
    assert there.lines == (numbers["new"],)
    lines_before = texts[0].text.split("\n")
    assert {*there.removed} <= {*lines_before}
    assert rebuilt(there, texts[1]) == lines_before
