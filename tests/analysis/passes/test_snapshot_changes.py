"""Changes between two snapshots: words, hunks, excerpts, and origins of lines."""

from __future__ import annotations

import types
from typing import cast

import pytest

from inspector.analysis.passes.follow import History
from inspector.analysis.passes.snapshot_changes import PassChange, excerpt, listing_after, pass_change
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.hlo.module import Module
from inspector.hlo.source import Frame, Origin, Root

BEFORE = """HloModule jit_f, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0), metadata={op_name="x"}
  %mul.1 = f32[2]{0} multiply(%x, %x), metadata={op_name="a"}
  %add.1 = f32[2]{0} add(%mul.1, %x)
  ROOT %neg.1 = f32[2]{0} negate(%add.1)
}
"""
AFTER = BEFORE.replace("  %mul.1 = f32[2]{0} multiply(%x, %x), metadata={op_name=\"a\"}\n", "").replace(
    "  %add.1 = f32[2]{0} add(%mul.1, %x)", "  %fusion = (f32[2]{0}, /*index=1*/s32[]) fusion(%x), kind=kLoop"
).replace("negate(%add.1)", "negate(%fusion)")  # fmt: skip


def changed(before: str, after: str) -> PassChange:
    texts = Texts.of([before, after])
    last = 1 if before != after else 0
    return pass_change(History(Passes((Pass(0, "p", "n", before != after, 0.1, 0, last, texts),))), 0, last)


def test_changes_are_described_in_words() -> None:
    assert str(changed(BEFORE, AFTER)) == "Fused 1 into 1; removed 1"


def test_smaller_changes_are_described_in_words() -> None:
    assert str(changed(BEFORE, BEFORE)) == "Nothing changed"
    assert str(changed(BEFORE, BEFORE.replace('op_name="a"', 'op_name="b"'))) == "Only metadata changed"
    layout = BEFORE.replace("{(f32[2]{0})", "{(f32[2]{0:T(128)})")
    assert str(changed(BEFORE, layout)) == "Only module attributes changed"


def test_hunks_are_of_the_texts_without_metadata() -> None:
    found = changed(BEFORE, AFTER)
    assert "metadata" not in found.before + found.after
    old, new = found.before.split("\n"), found.after.split("\n")
    rebuilt = []
    position = 0
    for a0, a1, b0, b1 in found.hunks:
        rebuilt += old[position:a0] + new[b0:b1]
        position = a1
    assert rebuilt + old[position:] == new
    assert found.removed(found.hunks).split("\n") == [line for a0, a1, _, _ in found.hunks for line in old[a0:a1]]


LONG = BEFORE.replace(
    "  ROOT", "".join(f"  %a.{i} = f32[2]{{0}} sine(%add.1)\n" for i in range(400)) + "  ROOT"
)  # fmt: skip


@pytest.mark.parametrize("places", [(3,), (0, 399), (100, 101, 250), tuple(range(0, 400, 40))])
@pytest.mark.parametrize("kind", ["altered", "gone", "made"])
def test_an_excerpt_has_the_changes_with_lines_around(places: tuple[int, ...], kind: str) -> None:
    after = LONG
    for place in places:
        line = f"  %a.{place} = f32[2]{{0}} sine(%add.1)\n"
        other = {"altered": line.replace("sine", "cosine"), "gone": "", "made": line + line.replace("a.", "b.")}[kind]
        after = after.replace(line, other)
    found = changed(LONG, after)
    part = excerpt(found, 3, 1000)
    lines = found.after.split("\n")
    shown = [lines[place] if place >= 0 else None for place in part.places]
    gaps = [-place for place in part.places if place < 0]
    assert sum(gaps) + sum(line is not None for line in shown) == len(lines)
    assert len(part.places) <= 8 * len(found.hunks) + len(gaps) + 8
    assert part.left_out == 0
    for (a0, a1, b0, b1), (wa0, wa1, wb0, wb1) in zip(part.hunks, part.whole, strict=True):
        assert shown[b0:b1] == lines[wb0:wb1]
        assert (a1 - a0, b1 - b0) == (wa1 - wa0, wb1 - wb0)
    listing = listing_after(found, cast(Module, types.SimpleNamespace(origins=dict)), Root(), part.places)
    assert listing.line_count == len(part.places)
    assert [label is None for label in listing.labels] == [place < 0 for place in part.places]


def test_only_the_first_of_many_changes_are_shown() -> None:
    after = LONG.replace("sine", "cosine")
    part = excerpt(changed(LONG, after), 3, 50)
    assert sum(a1 - a0 for a0, a1, _, _ in part.hunks) == 50
    sparse = LONG
    for place in range(0, 400, 10):
        sparse = sparse.replace(f"%a.{place} = f32[2]{{0}} sine", f"%a.{place} = f32[2]{{0}} cosine")
    part = excerpt(changed(LONG, sparse), 3, 20)
    assert (len(part.hunks), part.left_out) == (10, 30)


def test_lines_after_a_pass_come_from_where_their_operations_do() -> None:
    here, there = (Frame("f.py", line, "f") for line in (3, 5))
    origins = {
        "x": Origin("jit(f)/a", (here,)), "y": Origin("jit(f)/b", (there,)), "z": Origin("jit(f)/b", (here,)),
    }  # fmt: skip
    module = types.SimpleNamespace(origins=lambda: origins)
    text = """HloModule jit_f

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %one = f32[2]{0} sine(%x), metadata={op_name="jit(f)/a"}
  %both = f32[2]{0} cosine(%one), metadata={op_name="jit(f)/a;jit(f)/b"}
  %again = f32[2]{0} cosine(%both), metadata={op_name="jit(f)/a"}
  ROOT %new = f32[2]{0} negate(%again), metadata={op_name="jit(f)/new"}
}
"""
    listing = listing_after(changed(BEFORE, text), cast(Module, module), Root("jit(f)"))
    found = {name: listing.origins_of(i) for i, name in enumerate(listing.instructions) if name}
    assert found == {
        "x": (), "one": (origins["x"],), "both": tuple(origins.values()), "again": (origins["x"],),
        "new": (Origin("jit(f)/new"),),
    }  # fmt: skip
    assert 'op_name="' not in listing.text
    assert listing.line_count == len(listing.text.split("\n")) == len(listing.instructions)


def test_an_operation_that_is_called_from_many_places_has_the_first_four() -> None:
    many = {str(line): Origin("jit(f)/a", (Frame("f.py", line, "f"),)) for line in range(6)}
    module = types.SimpleNamespace(origins=lambda: many)
    found = changed(BEFORE, BEFORE.replace('"a"', '"jit(f)/a"'))
    listing = listing_after(found, cast(Module, module), Root("jit(f)"))
    (origins,) = [listing.origins_of(i) for i, name in enumerate(listing.instructions) if name == "mul.1"]
    assert origins == tuple(many.values())[:4]
