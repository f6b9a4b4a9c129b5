"""What a pass did, told by the names of instructions."""

from __future__ import annotations

import types
from typing import cast

import pytest

from inspector.analysis.passes import listing_after, opcode, pass_change
from inspector.compilation.records.passes import Pass
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


def change(before: str, after: str) -> str:
    texts = Texts.of([before, after])
    return str(pass_change(Pass(0, "p", "n", before != after, 0.1, 0, 1, texts)))


def test_instructions_that_went_came_and_changed_are_counted() -> None:
    assert change(BEFORE, AFTER) == "Instructions: 2 gone (1 multiply, 1 add); 1 new (1 fusion); 1 altered"


def test_less_is_said_in_words() -> None:
    assert change(BEFORE, BEFORE) == "Nothing changed"
    assert change(BEFORE, BEFORE.replace('op_name="a"', 'op_name="b"')) == "Only metadata changed"
    scheduled = BEFORE.replace("jit_f,", "jit_f, is_scheduled=true,")
    assert change(BEFORE, scheduled) == "No instruction changed, but the module's attributes did"


def test_hunks_are_of_the_texts_without_metadata() -> None:
    texts = Texts.of([BEFORE, AFTER])
    found = pass_change(Pass(0, "p", "n", True, 0.1, 0, 1, texts))
    assert "metadata" not in found.before.text + found.after.text
    old, new = found.before.text.split("\n"), found.after.text.split("\n")
    rebuilt = []
    position = 0
    for a0, a1, b0, b1 in found.hunks:
        rebuilt += old[position:a0] + new[b0:b1]
        position = a1
    assert rebuilt + old[position:] == new
    assert found.after.instruction_names[new.index("  ROOT %neg.1 = f32[2]{0} negate(%fusion)")] == "neg.1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  %a = f32[2]{0} add(%b, %c)", "add"),
        ("  ROOT %t = (f32[2]{0:T(8,128)S(1)}, /*index=1*/(s32[], pred[])) tuple(%a)", "tuple"),
        ("  %p = f32[] parameter(0)", "parameter"),
        ("  %c = token[] after-all()", "after-all"),
        ("}", ""),
    ],
)
def test_the_opcode_stands_behind_the_shape(line: str, expected: str) -> None:
    assert opcode(line) == expected


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
    texts = Texts.of([BEFORE, text])
    after = Pass(0, "p", "n", True, 0.1, 0, 1, texts)
    listing = listing_after(after, pass_change(after), cast(Module, module), Root("jit(f)"))
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
    after = Pass(0, "p", "n", True, 0.1, 0, 1, Texts.of([BEFORE, BEFORE.replace('"a"', '"jit(f)/a"')]))
    listing = listing_after(after, pass_change(after), cast(Module, module), Root("jit(f)"))
    (found,) = [listing.origins_of(i) for i, name in enumerate(listing.instructions) if name == "mul.1"]
    assert found == tuple(many.values())[:4]
