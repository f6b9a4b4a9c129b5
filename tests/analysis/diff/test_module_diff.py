"""Differences of modules: none of a module renamed and reordered, and every planted change told, and nothing else."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jaxlib import _hlo

import inspector
from benchmarks.difference import least
from benchmarks.scrambled import scrambled
from benchmarks.workloads import make
from inspector.analysis.diff.aligned_text import Aligned, aligned
from inspector.analysis.diff.changes import Change
from inspector.analysis.diff.module_diff import Diff, Total, diff
from inspector.engines.inline import InlineEngine
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.module import Module
from inspector.hlo.text import DisplayText, display_text
from inspector.stages.compiled import Compiled
from tests.analysis.edited import randomly_edited
from tests.analysis.planted import BASE, PLANTED, Planted, edited
from tests.modules import changed, module_of, proto_of

MIRRORED = {
    "split": "merged", "merged": "split", "grown": "shrunk", "shrunk": "grown", "formed": "dissolved",
    "dissolved": "formed", "appeared": "gone", "gone": "appeared", "duplicated": "deduplicated",
    "deduplicated": "duplicated",
}  # fmt: skip


def names(change: Change) -> tuple[str, str]:
    return tuple(",".join(i.name for i in side) for side in (change.before, change.after))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def base() -> Module:
    return module_of(BASE)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_only_a_planted_change_is_reported(base: Module, planted: Planted) -> None:
    found = diff(base, module_of(edited(planted)))
    wanted = [each for each in planted.told if each[0]]
    for change, (kind, before, after, words) in zip(found.changes, wanted, strict=True):
        ours, theirs = names(change)
        assert change.kind == kind
        assert ours == before
        assert theirs in after.split("|")
        assert words in change.what
    assert bool(found) == bool(wanted)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_the_other_way_round_it_is_the_mirror_image(base: Module, planted: Planted) -> None:
    other = module_of(edited(planted))
    there, back = diff(base, other), diff(other, base)
    mirrored = sorted((MIRRORED.get(change.kind, change.kind), *names(change)[::-1]) for change in back.changes)
    assert mirrored == sorted((change.kind, *names(change)) for change in there.changes)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
@pytest.mark.parametrize("seed", range(3))
def test_renaming_and_reordering_change_nothing_of_it(base: Module, planted: Planted, seed: int) -> None:
    other = module_of(edited(planted))
    plain, hidden = diff(base, other), diff(scrambled(base, seed), scrambled(other, seed + 100))
    kinds = lambda found: sorted((c.kind, c.opcode, len(c.before), len(c.after), c.held) for c in found.changes)  # noqa: E731
    assert kinds(hidden) == kinds(plain)


def test_the_only_replacement_of_an_operation_is_matched() -> None:
    program = """HloModule m
ENTRY main {{
  p = f32[8,8]{{1,0}} parameter(0)
  a = f32[8,8]{{1,0}} {first}(p)
  b = f32[8,8]{{1,0}} {product}, metadata={{op_name="jit(f)/dot_general"}}
  ROOT c = f32[8,8]{{1,0}} {last}(b)
}}
"""
    dot = "dot(a, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    call = 'custom-call(a, p), custom_call_target="matmul"'
    before = module_of(program.format(first="negate", product=dot, last="exponential"))
    after = module_of(program.format(first="abs", product=call, last="log"))
    found = diff(before, after)
    assert [(change.kind, *names(change)) for change in found.changes] == [("rewritten", n, n) for n in "abc"]


def test_instructions_distinguished_by_neighbors_are_matched_first() -> None:
    """Each sum is known by both of its operands together, and only by it which of four maxima is which."""
    lines = ["y = f32[8]{0} parameter(4)", "k = f32[8]{0} parameter(5)", "n = f32[8]{0} FIRST(k)"]
    lines += [f"x{i} = f32[8]{{0}} parameter({i})" for i in range(4)]
    lines += [f"scaled{i} = f32[8]{{0}} multiply(x{i}, n)" for i in range(4)]
    lines += [f"sum{i} = f32[8]{{0}} add(scaled{i // 2}, scaled{2 + i % 2})" for i in range(4)]
    lines += [f"most{i} = f32[8]{{0}} maximum(sum{i}, y)" for i in range(4)]
    lines += [f"end{i} = f32[8]{{0}} LAST(most{i})" for i in range(4)]
    lines.append("ROOT r = (f32[8]{0}, f32[8]{0}, f32[8]{0}, f32[8]{0}) tuple(end0, end1, end2, end3)")
    text = "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"
    before = module_of(text.replace("FIRST", "negate").replace("LAST", "exponential"))
    proto = proto_of(module_of(text.replace("FIRST", "abs").replace("LAST", "log")))
    kinds = ["k", "n", "y", "x", "scaled", "sum", "most", "end", "r"]
    ordered = sorted(proto.computations[0].instructions, key=lambda i: kinds.index(i.name.rstrip("0123")))
    by_name = {i.name: type(i).FromString(i.SerializeToString()) for i in ordered}
    del proto.computations[0].instructions[:]
    swapped = {f"most{i}": f"most{3 - i}" for i in range(4)}
    proto.computations[0].instructions.extend(by_name[swapped.get(name, name)] for name in by_name)
    told = [(change.kind, *names(change)) for change in diff(before, changed(proto)).changes]
    assert sorted(told) == [("rewritten", name, name) for name in ("end0", "end1", "end2", "end3", "n")]


def test_an_attribute_with_fields_is_shown_on_one_line() -> None:
    program = """HloModule m
ENTRY main {{
  p = f32[8,8]{{1,0}} parameter(0)
  ROOT d = f32[8,8]{{1,0}} dot(p, p), lhs_contracting_dims={{{place}}}, rhs_contracting_dims={{{place}}}
}}
"""
    found = diff(module_of(program.format(place=0)), module_of(program.format(place=1)))
    said = [f"lhs_contracting_dimensions: {place} rhs_contracting_dimensions: {place}" for place in (0, 1)]
    assert [change.what for change in found.changes] == [f"dot dimension numbers {' → '.join(said)}"]


# --------------------------------------------------------------------------- compiled programs

WORKLOADS = ("mlp", "tf1")
HLO_ALONE = {"xla_backend_optimization_level": 0}  # LLVM's passes take most of a compile, and do not change the HLO
WITHOUT = {"fusion": "fusion,cpu-instruction-fusion", "algsimp": "algsimp"}


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, str], Compiled]:
    made = {}
    for name in WORKLOADS:
        workload = make(name)
        lowered = inspector.lower(workload.fun, *workload.args)
        for without in ("", *WITHOUT):
            options = {"xla_disable_hlo_passes": WITHOUT[without]} if without else {}
            made[name, without] = lowered.compile({**HLO_ALONE, **options}, engine=InlineEngine())
    return made


RECORDED = sorted((Path(__file__).parents[2] / "hlo" / "data").glob("*.pb"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_recorded_module_renamed_and_reordered_is_the_same(path: Path, seed: int) -> None:
    module = Module.from_proto(path.read_bytes())
    assert diff(module, scrambled(module, seed)).headline == "the same program"


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("seed", range(2))
def test_a_program_renamed_and_reordered_is_the_same(compiled: Any, name: str, seed: int) -> None:
    module = compiled[name, ""].module()
    found = diff(module, scrambled(module, seed))
    assert not found
    assert found.headline == "the same program"
    assert found.common == len(module.columns)
    assert found.table().empty


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("without", WITHOUT)
def test_reported_changes_are_near_the_lower_bound_of_the_multisets(compiled: Any, name: str, without: str) -> None:
    before, after = compiled[name, ""].module(), compiled[name, without].module()
    found = diff(before, after)
    assert 0 < found.changed <= 1.2 * least(before, after)
    assert found.common <= min(len(before.columns), len(after.columns))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pass_more_is_the_mirror_image_of_a_pass_less(compiled: Any, name: str) -> None:
    pair = compiled[name, ""].module(), compiled[name, "fusion"].module()
    there, back = diff(*pair), diff(*pair[::-1])
    kinds = Counter(change.kind for change in there.changes)
    assert kinds["split"]
    assert Counter(MIRRORED.get(change.kind, change.kind) for change in back.changes) == kinds
    assert all(back.partners[y] == x for x, y in enumerate(there.partners.tolist()) if y >= 0)


def test_a_diff_of_programs_includes_costs(compiled: Any) -> None:
    before, after = compiled["mlp", ""], compiled["mlp", "fusion"]
    found = before.diff(after)
    assert isinstance(found, Diff)
    assert " fusions split, " in found.headline
    assert repr(found) == f"<Diff: {found.headline}>"
    table = found.table()
    assert len(table) == len(found.changes)
    split = table[table["kind"] == "split"]
    assert (split["flops_before"] >= 0).all()
    assert (split["bytes_after"] > 0).all()
    inside = table[table["unknown"].str.contains("accesses memory as a whole")]
    assert inside["bytes_before"].isna().all()
    assert split["source_line"].notna().any()
    with pytest.raises(ParameterError, match="diff\\(\\) takes a Compiled, got 1"):
        before.diff(1)


def test_the_peak_is_in_the_headline() -> None:
    peak = Total("peak", 1024.0, 1024.0 + 1.25 * 2**20, is_bytes=True)
    base = module_of(BASE)
    assert diff(base, module_of(edited(PLANTED[1])), [peak]).headline == (
        "1 constant altered (value 0.5 → 0.25), peak +1.25 MiB"
    )
    assert diff(base, base, [Total("flops", Unavailable("no"), 1.0, is_bytes=False)]).headline == "the same program"


def test_random_edits_are_reported_with_few_additional_changes() -> None:
    """Some of many edits cancel each other by label. The bound does not count these, so the test compares the median."""
    module = module_of(BASE)
    ratios = []
    for seed in range(60):
        other = randomly_edited(module, seed, 1 + seed % 30)
        ratios.append(diff(module, other).changed / max(1, least(module, other)))
    assert statistics.median(ratios) <= 1.2
    assert max(ratios) <= 3


# --------------------------------------------------------------------------- texts


def shown(module: Module) -> DisplayText:
    return display_text(_hlo.HloModule.from_serialized_hlo_module_proto(module.columns.data).to_string())


def rebuilt(texts: Aligned, after: DisplayText) -> list[str]:
    """The first text, as a browser makes it of the second."""
    lines, removed, kept, taken = after.text.split("\n"), texts.removed, 0, 0
    found: list[str] = []
    for a0, a1, b0, b1 in texts.hunks:
        found += lines[kept:b0]
        assert len(found) == a0
        found += removed[taken : taken + a1 - a0]
        taken, kept = taken + a1 - a0, b1
    assert taken == len(removed)
    return found + lines[kept:]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_texts_are_aligned_by_matched_instructions(base: Module, planted: Planted) -> None:
    other = scrambled(module_of(edited(planted)), 1)
    before, after = shown(base), shown(other)
    found = diff(base, other)
    texts = aligned(found, before, after)
    first = [line for line in rebuilt(texts, after) if line]
    assert len(first) == len([line for line in before.text.split("\n") if line])
    opcodes = lambda lines: Counter(word for line in lines for word in re.findall(r" ([a-z-]+)\(", line))  # noqa: E731
    assert opcodes(first) == opcodes(before.text.split("\n"))
    assert len(texts.lines) == len(found.changes)
    assert all(line >= 0 for line in texts.lines)


def test_the_texts_of_a_module_and_itself_renamed_are_the_same(base: Module) -> None:
    other = scrambled(base, 5)
    texts = aligned(diff(base, other), shown(base), shown(other))
    assert texts.hunks == ()
    assert texts.removed == ()


def test_instructions_with_only_other_operands_are_marked_as_following(base: Module) -> None:
    planted = next(each for each in PLANTED if each.name == "in between")
    other = module_of(edited(planted))
    texts = aligned(diff(base, other), shown(base), shown(other))
    assert [(a1 - a0, b1 - b0) for a0, a1, b0, b1 in texts.hunks] == [(1, 2)]
    assert [line.split(" = ")[0].strip() for line in texts.removed] == ["%body.log"]
    assert texts.following == ()
