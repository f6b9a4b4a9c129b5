"""Descriptions of passes, for modules with one change each."""

from __future__ import annotations

import itertools

import pytest

from inspector.analysis.passes.correspondence import Certainty
from inspector.analysis.passes.follow import History
from inspector.analysis.passes.step_descriptions import StepEvent, Words
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts

HEAD = "HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\n"
ENTRY = "ENTRY %main (x: f32[8]) -> f32[8] {\n  %x = f32[8]{0} parameter(0)\n"


def entry(*lines: str, before: str = "", head: str = HEAD) -> str:
    return head + before + ENTRY + "".join(f"  {line}\n" for line in lines) + "}\n"


def recorded(*modules: str) -> Passes:
    texts = Texts.of(modules)
    numbers = [list(dict.fromkeys(modules)).index(m) for m in modules]
    pairs = itertools.pairwise(numbers)
    return Passes(tuple(Pass(i, "p", f"pass-{i}", a != b, 0.1, a, b, texts) for i, (a, b) in enumerate(pairs)))


def words(before: str, after: str) -> Words:
    passes = recorded(before, after)
    return History(passes).compared(passes[0].before_index, passes[0].after_index)[1]


def said(before: str, after: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...], Certainty]]:
    return [(e.word, tuple(sorted(e.before)), tuple(sorted(e.after)), e.certainty) for e in words(before, after).events]


CHAIN = entry(
    "%mul = f32[8]{0} multiply(%x, %x)", "%add = f32[8]{0} add(%mul, %x)", "ROOT %neg = f32[8]{0} negate(%add)"
)
BODY = (
    "%fused (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  %mul.9 = f32[8]{0} multiply(%p, %p)\n"
    "  ROOT %add.9 = f32[8]{0} add(%mul.9, %p)\n}\n\n"
)


def test_fused() -> None:
    after = entry(
        "%fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused", "ROOT %neg = f32[8]{0} negate(%fusion)", before=BODY
    )
    assert said(CHAIN, after) == [("fused", ("add", "mul"), ("fusion",), Certainty.EQUAL)]
    assert str(words(CHAIN, after)) == "Fused 2 into 1"


def test_instructions_that_keep_their_name_in_a_fusion_are_fused() -> None:
    body = BODY.replace("mul.9", "mul").replace("add.9", "add")
    after = entry(
        "%fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused", "ROOT %neg = f32[8]{0} negate(%fusion)", before=body
    )
    assert said(CHAIN, after) == [("fused", ("add", "mul"), ("fusion",), Certainty.KEPT)]


def test_a_constant_that_is_copied_into_the_fusion_does_not_hide_it() -> None:
    before = entry("%one = f32[] constant(1)", "%ones = f32[8]{0} broadcast(%one), dimensions={}",
                   "%add = f32[8]{0} add(%x, %ones)", "%sub = f32[8]{0} subtract(%add, %x)",
                   "ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%sub, %ones)")  # fmt: skip
    body = (
        "%fused (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  %one.1 = f32[] constant(1)\n"
        "  %ones.1 = f32[8]{0} broadcast(%one.1), dimensions={}\n  %add.1 = f32[8]{0} add(%p, %ones.1)\n"
        "  ROOT %sub.1 = f32[8]{0} subtract(%add.1, %p)\n}\n\n"
    )
    after = entry("%one = f32[] constant(1)", "%ones = f32[8]{0} broadcast(%one), dimensions={}",
                  "%fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused",
                  "ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%fusion, %ones)", before=body)  # fmt: skip
    assert said(before, after) == [("fused", ("add", "sub"), ("fusion",), Certainty.EQUAL)]


def test_fusions_are_merged_into_one_and_split_again() -> None:
    two = (
        "%f1 (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %sin.1 = f32[8]{0} sine(%p)\n}\n\n"
        "%f2 (q: f32[8]) -> f32[8] {\n  %q = f32[8]{0} parameter(0)\n  ROOT %cos.1 = f32[8]{0} cosine(%q)\n}\n\n"
    )
    one = (
        "%f3 (r: f32[8]) -> f32[8] {\n  %r = f32[8]{0} parameter(0)\n  %sin.2 = f32[8]{0} sine(%r)\n"
        "  ROOT %cos.2 = f32[8]{0} cosine(%sin.2)\n}\n\n"
    )
    apart = entry("%a = f32[8]{0} fusion(%x), kind=kLoop, calls=%f1", "%b = f32[8]{0} fusion(%a), kind=kLoop, calls=%f2",
                  "ROOT %neg = f32[8]{0} negate(%b)", before=two)  # fmt: skip
    together = entry("%c = f32[8]{0} fusion(%x), kind=kLoop, calls=%f3", "ROOT %neg = f32[8]{0} negate(%c)", before=one)
    assert said(apart, together) == [("fused", ("a", "b"), ("c",), Certainty.EQUAL)]
    assert said(together, apart) == [("split", ("c",), ("a", "b"), Certainty.EQUAL)]


@pytest.mark.parametrize("opcode", ["multiply", "add"])
def test_renamed(opcode: str) -> None:
    before = entry(f"%one = f32[8]{{0}} {opcode}(%x, %x)", "ROOT %neg = f32[8]{0} negate(%one)")
    assert said(before, before.replace("%one", "%two")) == [("renamed", ("one",), ("two",), Certainty.EQUAL)]


def test_a_duplicate_is_merged_into_its_twin() -> None:
    before = entry("%a = f32[8]{0} sine(%x)", "%b = f32[8]{0} sine(%x)", "ROOT %add = f32[8]{0} add(%a, %b)")
    after = entry("%a = f32[8]{0} sine(%x)", "ROOT %add = f32[8]{0} add(%a, %a)")
    assert said(before, after) == [("merged", ("b",), ("a",), Certainty.PLACE)]


def test_dead_code_is_removed_with_its_reason() -> None:
    before = entry("%a = f32[8]{0} sine(%x)", "%b = f32[8]{0} cosine(%a)", "ROOT %neg = f32[8]{0} negate(%x)")
    after = entry("ROOT %neg = f32[8]{0} negate(%x)")
    assert {e.note: e.before for e in words(before, after).events} == {
        "together with all its users": ("a",), "it was unused": ("b",),
    }  # fmt: skip
    assert {e.word for e in words(before, after).events} == {"removed"}


def test_bypassed_instructions_are_removed() -> None:
    before = entry(
        "%there = f64[8]{0} convert(%x)", "%back = f32[8]{0} convert(%there)", "ROOT %neg = f32[8]{0} negate(%back)"
    )
    after = entry("ROOT %neg = f32[8]{0} negate(%x)")
    notes = {e.before: e.note for e in words(before, after).events}
    assert notes == {("back",): "replaced by x", ("there",): "its users do not need it"}
    assert {e.word for e in words(before, after).events} == {"removed"}


def test_inserted_and_rewired() -> None:
    before = entry("%a = f32[8]{0} sine(%x)", "ROOT %neg = f32[8]{0} negate(%a)")
    after = entry("%a = f32[8]{0} sine(%x)", "%copy = f32[8]{0} copy(%a)", "ROOT %neg = f32[8]{0} negate(%copy)")
    assert said(before, after) == [("inserted", (), ("copy",), Certainty.KEPT)]
    assert words(before, after).rewired == 1


def test_rewritten_with_all_that_was_made_for_it() -> None:
    before = entry("%div = f32[8]{0} divide(%x, %x)", "ROOT %neg = f32[8]{0} negate(%div)")
    after = entry("%half = f32[] constant(0.5)", "%halves = f32[8]{0} broadcast(%half), dimensions={}",
                  "%mul = f32[8]{0} multiply(%x, %halves)", "ROOT %neg = f32[8]{0} negate(%mul)")  # fmt: skip
    assert said(before, after) == [("rewrote", ("div",), ("half", "halves", "mul"), Certainty.PLACE)]
    assert words(before, after).events[0].note == "divide → multiply + broadcast + constant"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (("f32[8]{0} sine", "f32[8]{0:T(256)} sine"), "layout"),
        (("f32[8]{0} sine", "bf16[8]{0} sine"), "f32[8] → bf16[8]"),
        (("sine(%x)", "cosine(%x)"), "sine → cosine"),
        (("sine(%x)", 'sine(%x), backend_config={"a":"1"}'), "backend_config"),
    ],
)
def test_an_altered_instruction_with_the_same_name_is_rewritten(change: tuple[str, str], note: str) -> None:
    before = entry('%a = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}', "ROOT %neg = f32[8]{0} negate(%a)")
    (event,) = words(before, before.replace(*change)).events
    assert event == StepEvent("rewrote", ("a",), ("a",), Certainty.ALTERED, note)


def test_a_call_that_is_inlined_moves_its_body() -> None:
    body = "%callee (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %sin = f32[8]{0} sine(%p)\n}\n\n"
    before = entry("%call = f32[8]{0} call(%x), to_apply=%callee", "ROOT %neg = f32[8]{0} negate(%call)", before=body)
    after = entry("%sin.1 = f32[8]{0} sine(%x)", "ROOT %neg = f32[8]{0} negate(%sin.1)")
    assert [(e.word, e.before, e.after) for e in words(before, after).events] == [
        ("moved", ("sin",), ("sin.1",)), ("removed", ("call",), ()),
    ]  # fmt: skip


def test_all_reduces_are_combined_and_made_asynchronous() -> None:
    add = "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n"
    apart = entry("%r1 = f32[8]{0} all-reduce(%x), to_apply=%sum", "%c = f32[8]{0} cosine(%x)",
                  "%r2 = f32[8]{0} all-reduce(%c), to_apply=%sum", "ROOT %neg = f32[8]{0} add(%r1, %r2)", before=add)  # fmt: skip
    combined = entry("%c = f32[8]{0} cosine(%x)", "%r = (f32[8]{0}, f32[8]{0}) all-reduce(%x, %c), to_apply=%sum",
                     "%e0 = f32[8]{0} get-tuple-element(%r), index=0", "%e1 = f32[8]{0} get-tuple-element(%r), index=1",
                     "ROOT %neg = f32[8]{0} add(%e0, %e1)", before=add)  # fmt: skip
    event, *_ = words(apart, combined).events
    assert (event.word, sorted(event.before), event.after[0]) == ("merged", ["r1", "r2"], "r")
    single = entry("%r = f32[8]{0} all-reduce(%x), to_apply=%sum", "ROOT %neg = f32[8]{0} negate(%r)", before=add)
    started = entry("%start = f32[8]{0} all-reduce-start(%x), to_apply=%sum", "%done = f32[8]{0} all-reduce-done(%start)",
                    "ROOT %neg = f32[8]{0} negate(%done)", before=add)  # fmt: skip
    (event,) = words(single, started).events
    assert (event.before, event.after) == (("r",), ("done", "start"))


def test_reordered_instructions_are_moved() -> None:
    head = HEAD.replace("jit_f,", "jit_f, is_scheduled=true,")
    lines = ["%a = f32[8]{0} sine(%x)", "%b = f32[8]{0} cosine(%x)", "%c = f32[8]{0} tan(%x)"]
    root = "ROOT %t = (f32[8]{0}, f32[8]{0}, f32[8]{0}) tuple(%a, %b, %c)"
    before, after = entry(*lines, root, head=head), entry(*lines[1:], lines[0], root, head=head)
    assert said(before, after) == [("moved", ("a",), ("a",), Certainty.KEPT)]
    assert str(words(entry(*lines, root), before)) == "Scheduled the instructions"


def test_metadata_changes_are_not_described() -> None:
    other = CHAIN.replace("multiply(%x, %x)", 'multiply(%x, %x), metadata={op_name="b"}')
    assert words(CHAIN, CHAIN) == Words((), 0, ())
    assert not words(CHAIN, other).events


def test_the_same_fusion_with_another_body_is_rewritten() -> None:
    fusion = ("%fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused", "ROOT %neg = f32[8]{0} negate(%fusion)")
    before = entry(*fusion, before=BODY)
    after = entry(*fusion, before=BODY.replace("multiply(%p, %p)", "cosine(%p)").replace("mul.9", "cos.9"))
    assert [(e.word, e.before, e.note) for e in words(before, after).events] == [
        ("rewrote", ("fusion",), "fused instructions")
    ]


def test_elements_that_stand_in_operands_are_known() -> None:
    """Newer texts write `%r#0` for what was a get-tuple-element."""
    apart = entry("%r1 = f32[8]{0} all-reduce(%x)", "%c = f32[8]{0} cosine(%x)", "%r2 = f32[8]{0} all-reduce(%c)",
                  "ROOT %sub = f32[8]{0} subtract(%r1, %r2)")  # fmt: skip
    combined = entry("%c = f32[8]{0} cosine(%x)", "%r = (f32[8]{0}, f32[8]{0}) all-reduce(%x, %c)",
                     "ROOT %sub = f32[8]{0} subtract(%r#0, %r#1)")  # fmt: skip
    assert [(e.word, set(e.before), e.after) for e in words(apart, combined).events] == [
        ("merged", {"r1", "r2"}, ("r",))
    ]
    swapped = combined.replace("%r#0, %r#1", "%r#1, %r#0")
    assert words(combined, swapped).rewired == 1


def test_unused_new_instructions_have_no_source() -> None:
    before = entry('%d = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}', "ROOT %neg = f32[8]{0} negate(%d)")
    after = entry('%vain = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}',
                  '%used = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}', "ROOT %neg = f32[8]{0} negate(%used)")  # fmt: skip
    assert said(before, after) == [
        ("renamed", ("d",), ("used",), Certainty.EQUAL),
        ("inserted", (), ("vain",), Certainty.KEPT),
    ]


def test_another_operation_with_the_same_name_and_users_is_a_replacement() -> None:
    before = entry("%a = f32[8]{0} sine(%x)", "ROOT %neg = f32[8]{0} negate(%a)")
    (event,) = words(before, before.replace("sine(%x)", "cosine(%x)")).events
    assert event == StepEvent("rewrote", ("a",), ("a",), Certainty.PLACE, "sine → cosine")
    assert str(event) == "rewrote a: sine → cosine"


def test_an_equal_name_in_another_computation_is_not_a_match() -> None:
    before = entry("%a = f32[8]{0} sine(%x)", "ROOT %neg = f32[8]{0} negate(%x)")
    body = "%body (p: f32[8]) -> bf16[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %a = bf16[8]{0} convert(%p)\n}\n\n"
    after = entry(
        "%call = bf16[8]{0} fusion(%x), kind=kLoop, calls=%body", "ROOT %neg = f32[8]{0} negate(%x)", before=body
    )
    assert ("removed", ("a",), "it was unused") in {(e.word, e.before, e.note) for e in words(before, after).events}
