"""Modules between passes read by lines, held to the readable text of the same modules and to their protos."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from jaxlib import _hlo

from inspector.analysis.passes.snapshots import Snapshots, steps
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.text import display_text
from tests.analysis.edited import randomly_edited
from tests.analysis.grown import changed_at_random, couples, grown, module_in
from tests.analysis.planted import BASE
from tests.modules import module_of

RECORDED = sorted(
    path for path in (Path(__file__).parents[2] / "hlo" / "data").glob("*.pb") if path.stat().st_size < 200_000
)


def text(module: Module) -> str:
    return _hlo.HloModule.from_serialized_hlo_module_proto(module.columns.data).to_string()


def modules() -> dict[str, Module]:
    lines = grown(1)
    found = {path.name: Module.from_proto(path.read_bytes()) for path in RECORDED}
    found |= {"base": module_of(BASE), "fused": module_in(lines, couples(lines, 1))}
    return found


MODULES = modules()
TEXTS = {name: text(module) for name, module in MODULES.items()}
SNAPSHOTS = Snapshots(Texts.of([*TEXTS.values()]))
INDEX = {name: number for number, name in enumerate(TEXTS)}


@pytest.mark.parametrize("name", MODULES)
def test_the_lines_are_those_of_the_readable_text(name: str) -> None:
    shown, state = display_text(TEXTS[name]), SNAPSHOTS.state(INDEX[name])
    lines = shown.text.split("\n")
    ours = [SNAPSHOTS.shown(number) for number in state.numbers.tolist()]
    assert "\n".join(ours).split("\n") == lines
    assert [SNAPSHOTS.computation(header) or None for header in state.headers.tolist()] == [
        *shown.computation_names[: len(ours)]
    ]
    assert SNAPSHOTS.places(INDEX[name]) == {
        each: place for place, each in enumerate(shown.instruction_names) if each is not None
    }
    assert state.is_scheduled == ("is_scheduled=true" in lines[0])


@pytest.mark.parametrize("name", MODULES)
def test_the_rows_are_the_instructions(name: str) -> None:
    module, places = MODULES[name], SNAPSHOTS.places(INDEX[name])
    rows = {row.line.name: row for row in SNAPSHOTS.rows(INDEX[name], places.values())}
    wrapped = {c.name for i in module.instructions() if i.opcode == "async-start" for c in i.called_computations}
    written = [i for i in module.instructions() if i.computation.name not in wrapped]  # `x-start` stands for one of x
    assert rows.keys() == {i.name for i in written}
    for i in written:
        row = rows[i.name]
        assert (row.computation, row.line.is_root) == (i.computation.name, i.is_root)
        if i.opcode.startswith("async-"):
            continue
        assert row.line.opcode == i.opcode
        assert row.line.operands == tuple(operand.name for operand in i.operands)
        assert row.line.op_name == i.op_name
        assert {*row.line.called} == {c.name for c in i.called_computations}
    fusions = [i for i in module.instructions() if i.opcode == "fusion"]
    assert SNAPSHOTS.fusions(INDEX[name]) == {c.name: i.name for i in fusions for c in i.called_computations}


@pytest.mark.parametrize("seed", range(5))
def test_the_difference_is_the_lines_of_only_one_module(seed: int) -> None:
    base = module_of(BASE)
    pair = [text(base), text(randomly_edited(base, seed, 4))]
    snapshots = Snapshots(Texts.of(pair))
    sides = [snapshots.state(number).numbers.tolist() for number in (0, 1)]
    for (mine, its), places in zip((sides, sides[::-1]), snapshots.differing(0, 1), strict=True):
        assert places.tolist() == [place for place, number in enumerate(mine) if number not in its]
    assert all(not len(places) for places in snapshots.differing(1, 1))


def test_many_states_are_read_again_as_they_were() -> None:
    first = {name: SNAPSHOTS.state(number).numbers.tolist() for name, number in INDEX.items()}
    again = {name: SNAPSHOTS.state(number).numbers.tolist() for name, number in reversed(INDEX.items())}
    assert first == again


def test_a_text_with_lines_that_are_not_there_is_refused() -> None:
    good = Texts.of([text(module_of(BASE))])
    snapshots = Snapshots(good)
    snapshots.lines = snapshots.lines[:-3]
    with pytest.raises(ModuleError, match=r"refers to line \d+, but only \d+ lines were recorded. Compile again"):
        snapshots.state(0)


def recorded(*stages: tuple[str, str, int, int, int], texts: Texts, parts: Sequence[int] = ()) -> Passes:
    """Passes by pipeline, name, text before and after, and how many of those before them ran within them."""
    return Passes(
        tuple(
            Pass(n, p, name, a != b, 0.1, a, b, texts, inner, n in parts)
            for n, (p, name, a, b, inner) in enumerate(stages)
        )
    )


def test_steps_lead_from_where_the_one_before_left_and_pipelines_are_none() -> None:
    lines = grown(2)
    texts = Texts.of([text(module_in(changed_at_random(lines, seed, 1))) for seed in range(4)])
    passes = recorded(
        ("p", "a", 0, 1, 0), ("p", "idle", 1, 1, 0), ("p", "b", 1, 2, 0), ("all", "p", 0, 2, 3), ("q", "c", 2, 3, 0),
        ("all", "q", 2, 3, 1), texts=texts,
    )  # fmt: skip
    found = steps(passes)
    assert [step.name for step in found] == ["a", "b", "c"]
    assert all(one.after_index == other.before_index for one, other in itertools.pairwise(found))
    assert steps(recorded(texts=texts)) == ()


@pytest.mark.parametrize(
    "stages",
    [
        # It changed the module, then ran a pipeline.
        [("cleanup", "dce", 1, 2, 0), ("cleanup", "cse", 2, 3, 0), ("all", "partitioning", 0, 3, 2)],
        # It ran a pipeline, then changed the module.
        [("cleanup", "dce", 0, 1, 0), ("cleanup", "cse", 1, 2, 0), ("all", "partitioning", 0, 3, 2)],
        # Both, and between the passes of the pipeline.
        [("cleanup", "dce", 0, 1, 0), ("cleanup", "cse", 2, 3, 0), ("all", "partitioning", 0, 3, 2)],
    ],
)
def test_a_pass_that_does_more_than_its_pipeline_is_one_step(stages: list[tuple[str, str, int, int, int]]) -> None:
    texts = Texts.of(["zero", "one", "two", "three", "four"])
    passes = recorded(*stages, ("all", "later", 3, 4, 0), texts=texts)
    assert [(step.name, step.before, step.after) for step in steps(passes)] == [
        ("partitioning", "zero", "three"),
        ("later", "three", "four"),
    ]


def test_recorded_snapshots_within_a_pass_are_not_steps() -> None:
    texts = Texts.of(["zero", "one", "two"])
    copies = (
        ("p", "before", 0, 1, 0),
        ("copy-insertion", "adding_copies", 1, 2, 0),
        ("copy-insertion", "removing", 2, 1, 0),
    )
    passes = recorded(*copies, ("p", "copy-insertion", 1, 1, 2), ("p", "after", 1, 2, 0), texts=texts, parts=[1, 2])
    assert [step.name for step in steps(passes)] == ["before", "after"]
    passes = recorded(*copies[:2], ("p", "copy-insertion", 1, 2, 1), texts=texts, parts=[1])
    assert [step.name for step in steps(passes)] == ["before", "copy-insertion"]
