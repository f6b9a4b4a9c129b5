"""Changes of small programs, each with all expected reports, in both directions."""

from __future__ import annotations

import dataclasses

import pytest

from inspector.analysis.diff.module_diff import diff
from tests.analysis.diff.test_module_diff import MIRRORED
from tests.modules import module_of


def reducer(name: str, opcode: str) -> str:
    return (
        f"{name} {{\n  {name}.a = f32[] parameter(0)\n  {name}.b = f32[] parameter(1)\n"
        f"  ROOT {name}.r = f32[] {opcode}({name}.a, {name}.b)\n}}\n"
    )


def loop(name: str, count: int = 5, step: str = "negate") -> str:
    """A body of five instructions and a condition of three."""
    return f"""{name}.body {{
  {name}.p = (s32[], f32[8]{{0}}) parameter(0)
  {name}.i = s32[] get-tuple-element({name}.p), index=0
  {name}.x = f32[8]{{0}} get-tuple-element({name}.p), index=1
  {name}.s = f32[8]{{0}} {step}({name}.x)
  ROOT {name}.t = (s32[], f32[8]{{0}}) tuple({name}.i, {name}.s)
}}
{name}.cond {{
  {name}.q = (s32[], f32[8]{{0}}) parameter(0)
  {name}.j = s32[] get-tuple-element({name}.q), index=0
  {name}.n = s32[] constant({count})
  ROOT {name}.c = pred[] compare({name}.j, {name}.n), direction=LT
}}
"""


def run(name: str, of: str) -> str:
    return (
        f"  {name}.zero = s32[] constant(0)\n  {name}.init = (s32[], f32[8]{{0}}) tuple({name}.zero, {of})\n"
        f"  {name} = (s32[], f32[8]{{0}}) while({name}.init), condition={name}.cond, body={name}.body\n"
        f"  {name}.out = f32[8]{{0}} get-tuple-element({name}), index=1\n"
    )


def program(*computations: str, entry: str, ends: str) -> str:
    shapes = ", ".join("f32[]" if end.startswith("r") else "f32[8]{0}" for end in ends.split(", "))
    return (
        "HloModule m\n" + "".join(computations) + f"ENTRY main {{\n{entry}  ROOT end = ({shapes}) tuple({ends})\n}}\n"
    )


P, Q = "  p = f32[8]{0} parameter(0)\n", "  q = f32[8]{0} parameter(1)\n"
Z = "  z = f32[] constant(0)\n"
TWO_SUMS = "  r1 = f32[] reduce(p, z), dimensions={{0}}, to_apply={}\n  r2 = f32[] reduce(q, z), dimensions={{0}}, to_apply={}\n"
FUSED = """held {
  held.p = f32[8]{0} parameter(0)
  held.a = f32[8]{0} abs(held.p)
  held.c = f32[8]{0} cosine(held.a)
  ROOT held.s = f32[8]{0} sine(held.c)
}
"""
BRANCHES = """{0}.a {{
  {0}.ap = f32[8]{{0}} parameter(0)
  ROOT {0}.an = f32[8]{{0}} negate({0}.ap)
}}
{0}.b {{
  {0}.bp = f32[8]{{0}} parameter(0)
  ROOT {0}.bn = f32[8]{{0}} {1}({0}.bp)
}}
"""
GATHER = "channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true"


def _carrying_more(text: str) -> str:
    """With a second element, which takes what the third does."""
    text = text.replace("(s32[], f32[8]{0})", "(s32[], f32[8]{0}, f32[8]{0})").replace("index=1", "index=2")
    return text.replace("tuple(l.i, l.s)", "tuple(l.i, l.s, l.s)")


@dataclasses.dataclass(frozen=True)
class Case:
    before: str
    after: str
    told: tuple[tuple[str, str, str, str], ...]


def _looped(name: str) -> tuple[tuple[str, str, str, str], ...]:
    """The report of a loop that appeared: its operands and results, and the number of its instructions."""
    return tuple(
        ("appeared", "", f"{name}{part}", "" if part else "with 9 more") for part in (".zero", ".init", "", ".out")
    )


CASES = {
    "the first row altered": Case(
        program(entry="  c = f32[8]{0} constant({1,2,3,4,5,6,7,8})\n" + P, ends="c, p"),
        program(entry="  c = f32[8]{0} constant({1,2,3,4,5,6,7,9})\n" + P, ends="c, p"),
        (("altered", "c", "c", "value 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0 → 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0"),),
    ),
    "a loop appeared": Case(
        program(reducer("sum", "add"), entry=P + Z + "  r = f32[] reduce(p, z), dimensions={0}, to_apply=sum\n", ends="r, p"),
        program(
            loop("l"), reducer("sum", "add"),
            entry=P + Z + run("l", "p") + "  r = f32[] reduce(l.out, z), dimensions={0}, to_apply=sum\n", ends="r, p",
        ),
        _looped("l"),
    ),
    "a loop in a loop appeared": Case(
        program(loop("l"), entry=P + run("l", "p"), ends="l.out"),
        program(
            loop("k", 7, "abs"), loop("l").replace("  ROOT l.t = (s32[], f32[8]{0}) tuple(l.i, l.s)", run("k", "l.s")
            + "  ROOT l.t = (s32[], f32[8]{0}) tuple(l.i, k.out)"), entry=P + run("l", "p"), ends="l.out",
        ),
        _looped("k"),
    ),
    "a loop appeared that is there too": Case(
        program(loop("l"), entry=P + run("l", "p"), ends="l.out"),
        program(loop("k"), loop("l"), entry=P + run("l", "p") + run("k", "l.out"), ends="k.out"),
        (
            ("appeared", "", "k.init", ""), ("appeared", "", "k", ""), ("appeared", "", "k.out", ""),
            ("duplicated", "", "l.zero|k.zero", "the same"),
        ),
    ),
    "another sum": Case(
        program(reducer("sum", "add"), entry=P + Q + Z + TWO_SUMS.format("sum", "sum"), ends="r1, r2"),
        program(
            reducer("sum", "add"), reducer("most", "maximum"), entry=P + Q + Z + TWO_SUMS.format("sum", "most"), ends="r1, r2"
        ),
        (("altered", "r2", "r2", "called computation sum → most"),),
    ),
    "two sums instead of one": Case(
        program(reducer("sum", "add"), entry=P + Q + Z + TWO_SUMS.format("sum", "sum"), ends="r1, r2"),
        program(
            reducer("sum", "add"), reducer("again", "add"), entry=P + Q + Z + TWO_SUMS.format("sum", "again"), ends="r1, r2"
        ),
        (),
    ),
    "a loop carries one more": Case(
        program(loop("l"), entry=P + Q + run("l", "p"), ends="l.out"),
        program(_carrying_more(loop("l")), entry=P + Q + _carrying_more(run("l", "q, p")), ends="l.out"),
        (("altered", "l", "l", "elements 2 → 3 (extra: f32[8])"),),
    ),
    "a fusion appeared": Case(
        program(entry=P, ends="p"),
        program(FUSED, entry=P + "  f = f32[8]{0} fusion(p), kind=kLoop, calls=held\n", ends="f"),
        (("appeared", "", "f", "with 4 more"),),
    ),
    "a branch more": Case(
        program(
            BRANCHES.format("x", "abs"),
            entry="  b = s32[] parameter(0)\n  p = f32[8]{0} parameter(1)\n"
            "  c = f32[8]{0} conditional(b, p, p), branch_computations={x.a, x.b}\n", ends="c",
        ),
        program(
            BRANCHES.format("x", "abs"), reducer("y", "add").replace("f32[]", "f32[8]{0}").replace(
                "  y.b = f32[8]{0} parameter(1)\n", "").replace("add(y.a, y.b)", "sine(y.a)"),
            entry="  b = s32[] parameter(0)\n  p = f32[8]{0} parameter(1)\n"
            "  c = f32[8]{0} conditional(b, p, p, p), branch_computations={x.a, x.b, y}\n", ends="c",
        ),
        (
            ("appeared", "", "y.a", ""), ("appeared", "", "y.r", ""),
            ("altered", "c", "c", "operands 3 → 4; called computations 2 → 3"),
        ),
    ),
    "started and awaited": Case(
        program(entry=P + Q + f"  g = f32[16]{{0}} all-gather(p), {GATHER}\n  n = f32[16]{{0}} negate(g)\n", ends="p"),
        program(
            entry=P + Q + f"  s = (f32[8]{{0}}, f32[16]{{0}}) all-gather-start(p), {GATHER}\n"
            "  g = f32[16]{0} all-gather-done(s)\n  n = f32[16]{0} negate(g)\n", ends="p",
        ),
        (("rewritten", "g", "s,g", "became asynchronous"),),
    ),
    "started elsewhere": Case(
        program(entry=P + Q + f"  g = f32[16]{{0}} all-gather(p), {GATHER}\n", ends="p, q"),
        program(
            entry=P + Q + f"  s = (f32[8]{{0}}, f32[16]{{0}}) all-gather-start(q), {GATHER}\n"
            "  d = f32[16]{0} all-gather-done(s)\n", ends="p, q",
        ),
        (("appeared", "", "s", ""), ("appeared", "", "d", ""), ("gone", "g", "", "")),
    ),
    "computed once more": Case(
        program(entry=P + "  n = f32[8]{0} negate(p)\n", ends="n, n"),
        program(entry=P + "  n = f32[8]{0} negate(p)\n  m = f32[8]{0} negate(p)\n", ends="n, m"),
        (("duplicated", "", "m|n", "the same"),),
    ),
    "the result taken from elsewhere": Case(
        "HloModule m\nENTRY main {\n" + P + "  a = f32[8]{0} sine(p)\n  ROOT b = f32[8]{0} cosine(a)\n}\n",
        "HloModule m\nENTRY main {\n" + P + "  ROOT a = f32[8]{0} sine(p)\n  b = f32[8]{0} cosine(a)\n}\n",
        (("altered", "b", "a", "result b → a"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_change_is_reported_once(case: str) -> None:
    before, after = module_of(CASES[case].before), module_of(CASES[case].after)
    there, back = diff(before, after), diff(after, before)
    told = [
        (c.kind, ",".join(i.name for i in c.before), ",".join(i.name for i in c.after), c.what) for c in there.changes
    ]
    assert len(told) == len(CASES[case].told)
    for (kind, ours, theirs, what), wanted in zip(told, CASES[case].told, strict=True):
        assert (kind, ours) == wanted[:2]
        assert theirs in wanted[2].split("|")
        assert what == wanted[3] or (wanted[3] == "the same" and what.startswith("computes the same as "))
    mirrored = [(MIRRORED.get(c.kind, c.kind), len(c.after), len(c.before), c.held[::-1]) for c in back.changes]
    assert sorted(mirrored) == sorted((c.kind, len(c.before), len(c.after), c.held) for c in there.changes)
