"""Differences of two instructions: a table of instructions with all expected aspects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from inspector.analysis.diff.altered_instructions import Aspect, altered, configured, module_aspects, shape_aspects
from inspector.hlo.module import Module
from tests.modules import changed, module_of, proto_of

PROGRAM = """HloModule m{heading}
largest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
ENTRY main {{
  p = f32[8,8]{{1,0}} parameter(0)
  q = f32[8,8]{{1,0}} parameter(1)
  z = f32[] constant(0)
  t = (f32[8,8]{{1,0}}, f32[8,8]{{1,0}}, f32[]) tuple(p, q, z)
  {line}
}}
"""


def module_with(line: str, heading: str = "") -> Module:
    return module_of(PROGRAM.format(line=line, heading=heading))


def told(before: str, after: str) -> list[tuple[str, str, str]]:
    found = altered(
        module_with(f"ROOT i = {before}").instruction("i"), module_with(f"ROOT i = {after}").instruction("i")
    )
    return plain(found)


def plain(aspects: Sequence[Aspect]) -> list[tuple[str, str, str]]:
    return [(each.name, each.before, each.after) for each in aspects]


BIG, BIGGER = ([str(float(n)) for n in range(start, start + 30)] for start in (0, 1))
TABLE: dict[str, tuple[str, str, list[tuple[str, str, str]]]] = {
    "nothing": ("f32[8,8]{1,0} add(p, q)", "f32[8,8]{1,0} add(q, p)", []),
    "opcode": ("f32[8,8]{1,0} add(p, q)", "f32[8,8]{1,0} multiply(p, q)", [("opcode", "add", "multiply")]),
    "element type": ("f32[8,8]{1,0} convert(p)", "bf16[8,8]{1,0} convert(p)", [("element type", "f32", "bf16")]),
    "layout": ("f32[8,8]{1,0} copy(p)", "f32[8,8]{0,1} copy(p)", [("layout", "{1,0}", "{0,1}")]),
    "memory space": ("f32[8,8]{1,0} copy(p)", "f32[8,8]{1,0:S(5)} copy(p)", [("layout", "{1,0}", "{1,0:S(5)}")]),
    "dimensions": ('f32[64]{0} custom-call(p), custom_call_target="f"', 'f32[32]{0} custom-call(p), custom_call_target="f"', [("dimensions", "[64]", "[32]")]),
    "rank": ('f32[64]{0} custom-call(p), custom_call_target="f"', 'f32[2,32]{1,0} custom-call(p), custom_call_target="f"', [("dimensions", "[64]", "[2,32]")]),
    "bounded": ('f32[64]{0} custom-call(p), custom_call_target="f"', 'f32[<=64]{0} custom-call(p), custom_call_target="f"', [("dimensions", "[64]", "[<=64]")]),
    "element type and layout": (
        "f32[8,8]{1,0} convert(p)", "bf16[8,8]{0,1} convert(p)", [("element type", "f32", "bf16"), ("layout", "{1,0}", "{0,1}")]
    ),
    "array and tuple": (
        'f32[8,8]{1,0} custom-call(p), custom_call_target="f"',
        '(f32[8,8]{1,0}, f32[]) custom-call(p), custom_call_target="f"',
        [("shape", "f32[8,8]{1,0}", "(f32[8,8]{1,0}, f32[])")],
    ),
    "length of a tuple": (
        "(f32[8,8]{1,0}, f32[]) tuple(p, z)", "(f32[8,8]{1,0}, f32[], f32[]) tuple(p, z, z)", [("elements", "2", "3 (extra: f32[])")]
    ),
    "an element": (
        '(f32[], f32[8,8]{1,0}) custom-call(p), custom_call_target="f"',
        '(f32[], f32[8,8]{0,1}) custom-call(p), custom_call_target="f"',
        [("layout of element 1", "{1,0}", "{0,1}")],
    ),
    "two elements": (
        '(f32[4]{0}, f32[], f32[8]{0}) custom-call(p), custom_call_target="f"',
        '(f32[5]{0}, f32[], f32[9]{0}) custom-call(p), custom_call_target="f"',
        [("2 elements", "f32[4]{0}, f32[8]{0}", "f32[5]{0}, f32[9]{0}")],
    ),
    "value": ("f32[2]{0} constant({1, 2})", "f32[2]{0} constant({1, 3})", [("value", "1.0, 2.0", "1.0, 3.0")]),
    "value of a truth": ("pred[] constant(true)", "pred[] constant(false)", [("value", "True", "False")]),
    "value in bytes": ("bf16[2]{0} constant({1, 2})", "bf16[2]{0} constant({1, 3})", [("value", "803f0040", "803f4040")]),
    "long value": (
        f"f32[30]{{0}} constant({{{', '.join(BIG)}}})",
        f"f32[30]{{0}} constant({{{', '.join([*BIG[:-1], '7'])}}})",
        [("value", "…" + ", ".join(BIG)[164 - 20 :], "…" + ", ".join([*BIG[:-1], "7.0"])[164 - 20 :])],
    ),
    "compared": (
        "pred[8,8]{1,0} compare(p, q), direction=LT", "pred[8,8]{1,0} compare(p, q), direction=GE",
        [("comparison direction", "LT", "GE")],
    ),
    "sharding": (
        "f32[8,8]{1,0} copy(p), sharding={replicated}", "f32[8,8]{1,0} copy(p)", [("sharding", "{replicated}", "")]
    ),
    "channel": (
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,1}}, to_apply=largest",
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,1}}, to_apply=largest, channel_id=7",
        [("channel", "", "present")],
    ),
    "another channel": (
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,1}}, to_apply=largest, channel_id=3",
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,1}}, to_apply=largest, channel_id=7",
        [],
    ),
    "groups": (
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=largest",
        "f32[8,8]{1,0} all-reduce(p), replica_groups={{0,2},{1,3}}, to_apply=largest",
        [("replica groups", "{{0,1},{2,3}}", "{{0,2},{1,3}}")],
    ),
    "list of numbers": (
        "f32[8,8]{1,0} reverse(p), dimensions={0}", "f32[8,8]{1,0} reverse(p), dimensions={0,1}",
        [("dimensions", "{0}", "{0, 1}")],
    ),
    "list of fields": (
        "f32[4,8]{1,0} slice(p), slice={[0:4], [0:8]}", "f32[4,8]{1,0} slice(p), slice={[4:8], [0:8]}",
        [("slice dimensions", "{limit: 4 stride: 1, limit: 8 stride: 1}", "{start: 4 limit: 8 stride: 1, limit: 8 stride: 1}")],
    ),
    "bytes": (
        'f32[8,8]{1,0} custom-call(p), custom_call_target="f"', 'f32[8,8]{1,0} custom-call(p), custom_call_target="g"',
        [("custom call target", "f", "g")],
    ),
    "several": (
        'f32[8,8]{1,0} custom-call(p), custom_call_target="f"',
        'f32[8,8]{0,1} custom-call(p), custom_call_target="g", custom_call_has_side_effect=true',
        [("layout", "{1,0}", "{0,1}"), ("custom call target", "f", "g"), ("custom call has side effect", "False", "True")],
    ),
    "notes": (
        'f32[8,8]{1,0} add(p, q), backend_config="a", frontend_attributes={x="1"}, metadata={op_name="f"}',
        'f32[8,8]{1,0} add(p, q), backend_config="b"',
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_exactly_the_changed_aspects_are_reported(case: str) -> None:
    before, after, wanted = TABLE[case]
    assert told(before, after) == wanted
    assert told(after, before) == [(name, b, a) for name, a, b in wanted]
    assert told(before, before) == told(after, after) == []


@pytest.mark.parametrize(
    ("first", "second", "is_told"),
    [("", "", False), ("", "FLOAT", False), ("FLOAT", "", False), ("", "TOTALORDER", True), ("TOTALORDER", "", True),
     ("FLOAT", "TOTALORDER", True), ("SIGNED", "UNSIGNED", True)],
)  # fmt: skip
def test_a_type_of_comparison_that_is_the_operands_own_need_not_be_written_out(
    first: str, second: str, is_told: bool
) -> None:
    module = module_with("ROOT i = pred[8,8]{1,0} compare(p, q), direction=LT")
    sides = []
    for each in (first, second):
        proto = proto_of(module)
        (found,) = [i for c in proto.computations for i in c.instructions if i.name == "i"]
        found.comparison_type = each
        sides.append(changed(proto).instruction("i"))
    wanted = [("comparison type", first, second)] if is_told else []
    assert plain(altered(*sides)) == wanted


def test_aspects_of_the_shape_are_recognized_by_name() -> None:
    names = {"elements": True, "element type": True, "dimensions": True, "layout of element 3": True, "shape": True,
             "2 elements": True, "opcode": False, "dot dimension numbers": False, "value": False}  # fmt: skip
    assert {name: Aspect(name, "", "").is_of_shape for name in names} == names


def test_empty_values_read_as_none() -> None:
    assert str(Aspect("channel", "", "present")) == "channel none → present"
    assert str(Aspect("sharding", "{replicated}", "")) == "sharding {replicated} → none"


NOTES = {
    "backend": (', backend_config="a"', ', backend_config="b"', [("backend config", "a", "b")]),
    "backend of one": ("", ', backend_config="b"', [("backend config", "", "b")]),
    "front end": (
        ', frontend_attributes={x="1",y="2",z="3"}', ', frontend_attributes={w="0",x="1",y="4"}',
        [("attribute w", "", "0"), ("attribute y", "2", "4"), ("attribute z", "3", "")],
    ),
    "both": (
        ', backend_config="a", frontend_attributes={x="1"}', "",
        [("backend config", "a", ""), ("attribute x", "1", "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTES)
def test_frontend_attributes_and_backend_configs(case: str) -> None:
    ours, theirs, wanted = NOTES[case]
    sides = [module_with(f"ROOT i = f32[8,8]{{1,0}} add(p, q){notes}").instruction("i") for notes in (ours, theirs)]
    assert plain(configured(*sides)) == wanted
    assert configured(sides[0], sides[0]) == ()


@pytest.mark.parametrize("place", [0, 5, 19, 20, 21, 40, 58])
@pytest.mark.parametrize("lengths", [(60, 60), (61, 61), (61, 40), (100, 100), (100, 140)])
def test_long_notes_are_shown_from_shortly_before_their_difference(place: int, lengths: tuple[int, int]) -> None:
    common = "".join(chr(97 + n % 26) for n in range(200))
    texts = [
        common[: min(place, length)] + letter * (length - place) for letter, length in zip("XY", lengths, strict=True)
    ]
    sides = [
        module_with(f'ROOT i = f32[8,8]{{1,0}} add(p, q), backend_config="{text}"').instruction("i") for text in texts
    ]
    ((_, *found),) = plain(configured(*sides))
    if max(map(len, texts)) <= 60:
        assert found == texts
        return
    start = max(0, next(n for n in range(201) if texts[0][: n + 1] != texts[1][: n + 1]) - 20)
    for text, said in zip(texts, found, strict=True):
        rest = text[start:]
        cut = rest if len(rest) <= 60 else rest[:59] + "…"
        assert said == ("…" if start else "") + cut


def test_equal_shapes_have_no_differences() -> None:
    shapes = [module_with(f'ROOT i = {text} custom-call(), custom_call_target="f"').instruction("i").shape
              for text in ("f32[8]{0}", "(f32[8]{0}, (s32[]))", "token[]", "(f32[8]{0}, s32[])")]  # fmt: skip
    for n, m in np.ndindex(len(shapes), len(shapes)):
        assert bool(shape_aspects(shapes[n], shapes[m])) == (n != m)
    assert plain(shape_aspects(shapes[1], shapes[3])) == [("shape of element 1", "(s32[])", "s32[]")]


MODULES = {
    "nothing": ("", "", []),
    "alias": (
        "", ", input_output_alias={ {}: (1, {}, must-alias) }",
        [("input output alias", "", "entries { parameter_number: 1 kind: MUST_ALIAS }")],
    ),
    "donor": ("", ", buffer_donor={ (1, {}) }", [("buffer donor", "", "entries { parameter_number: 1 }")]),
    "name alone": ("2", "", []),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
def test_aspects_of_whole_modules(case: str) -> None:
    ours, theirs, wanted = MODULES[case]
    sides = [module_with("ROOT i = f32[8,8]{1,0} add(p, q)", heading) for heading in (ours, theirs)]
    assert plain(module_aspects(*sides)) == wanted
