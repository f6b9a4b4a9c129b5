"""A module with all relevant features, and changes planted in its text, each with the expected report."""

from __future__ import annotations

import dataclasses

BASE = """HloModule planted, num_partitions=4, input_output_alias={ {0}: (0, {}, may-alias) }

sum {
  sum.a = f32[] parameter(0)
  sum.b = f32[] parameter(1)
  ROOT sum.r = f32[] add(sum.a, sum.b)
}

largest {
  largest.a = f32[] parameter(0)
  largest.b = f32[] parameter(1)
  ROOT largest.r = f32[] maximum(largest.a, largest.b)
}

smaller {
  smaller.a = f32[] parameter(0)
  smaller.b = f32[] parameter(1)
  ROOT smaller.r = pred[] compare(smaller.a, smaller.b), direction=LT
}

inner_sum {
  inner_sum.a = f32[] parameter(0)
  inner_sum.b = f32[] parameter(1)
  ROOT inner_sum.r = f32[] add(inner_sum.a, inner_sum.b)
}

gelu {
  gelu.p = f32[8,16]{1,0} parameter(0)
  gelu.q = f32[8,16]{1,0} parameter(1)
  gelu.t = f32[8,16]{1,0} tanh(gelu.p)
  gelu.m = f32[8,16]{1,0} multiply(gelu.t, gelu.q)
  ROOT gelu.e = f32[8,16]{1,0} exponential(gelu.m)
}

pair {
  pair.p = f32[8,16]{1,0} parameter(0)
  pair.s = f32[8,16]{1,0} sine(pair.p)
  pair.c = f32[8,16]{1,0} cosine(pair.p)
  ROOT pair.t = (f32[8,16]{1,0}, f32[8,16]{1,0}) tuple(pair.s, pair.c)
}

body {
  body.p = (s32[], f32[8,16]{1,0}, f32[16,16]{1,0}) parameter(0)
  body.i = s32[] get-tuple-element(body.p), index=0
  body.x = f32[8,16]{1,0} get-tuple-element(body.p), index=1
  body.w = f32[16,16]{1,0} get-tuple-element(body.p), index=2
  body.one = s32[] constant(1)
  body.next = s32[] add(body.i, body.one)
  body.dot = f32[8,16]{1,0} dot(body.x, body.w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  body.all = f32[8,16]{1,0} all-reduce(body.dot), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=inner_sum
  body.log = f32[8,16]{1,0} log(body.all)
  ROOT body.t = (s32[], f32[8,16]{1,0}, f32[16,16]{1,0}) tuple(body.next, body.log, body.w)
}

cond {
  cond.p = (s32[], f32[8,16]{1,0}, f32[16,16]{1,0}) parameter(0)
  cond.i = s32[] get-tuple-element(cond.p), index=0
  cond.n = s32[] constant(5)
  ROOT cond.r = pred[] compare(cond.i, cond.n), direction=LT
}

ENTRY main {
  x = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[16,16]{1,0} parameter(1)
  k = s32[] parameter(2)
  half = f32[] constant(0.5)
  halves = f32[8,16]{1,0} broadcast(half), dimensions={}
  scaled = f32[8,16]{1,0} multiply(x, halves)
  gelu.f = f32[8,16]{1,0} fusion(scaled, x), kind=kLoop, calls=gelu
  pair.f = (f32[8,16]{1,0}, f32[8,16]{1,0}) fusion(gelu.f), kind=kLoop, calls=pair
  sines = f32[8,16]{1,0} get-tuple-element(pair.f), index=0
  cosines = f32[8,16]{1,0} get-tuple-element(pair.f), index=1
  less = f32[8,16]{1,0} subtract(sines, cosines)
  zero = s32[] constant(0)
  init = (s32[], f32[8,16]{1,0}, f32[16,16]{1,0}) tuple(zero, less, w)
  loop = (s32[], f32[8,16]{1,0}, f32[16,16]{1,0}) while(init), condition=cond, body=body
  out = f32[8,16]{1,0} get-tuple-element(loop), index=1
  gathered = f32[32,16]{1,0} all-gather(out), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  none = f32[] constant(0)
  rows = f32[32]{0} reduce(gathered, none), dimensions={1}, to_apply=sum
  top = f32[] reduce(rows, none), dimensions={0}, to_apply=largest
  sorted = f32[32]{0} sort(rows), dimensions={0}, to_apply=smaller
  part = f32[8]{0} slice(sorted), slice={[0:8]}
  turned = f32[16,8]{1,0} transpose(less), dimensions={1,0}
  call = f32[16,8]{1,0} custom-call(turned), custom_call_target="kernel", backend_config="{\\"a\\":1}"
  ROOT result = (f32[8,16]{1,0}, f32[8]{0}, f32[], f32[16,8]{1,0}, s32[]) tuple(out, part, top, call, k)
}
"""


@dataclasses.dataclass(frozen=True)
class Planted:
    """A change.

    Attributes:
      name: of the test.
      edits: what is replaced in the text by what, each found once.
      told: of each change that is to be told: its kind, the instructions of either side (one of several), and a part of its words.
    """

    name: str
    edits: tuple[tuple[str, str], ...]
    told: tuple[tuple[str, str, str, str], ...]


def _one(name: str, old: str, new: str, kind: str, before: str, after: str | None, words: str = "") -> Planted:
    return Planted(name, ((old, new),), ((kind, before, before if after is None else after, words),))


_GELU = """gelu {
  gelu.p = f32[8,16]{1,0} parameter(0)
  gelu.q = f32[8,16]{1,0} parameter(1)
  gelu.t = f32[8,16]{1,0} tanh(gelu.p)
  gelu.m = f32[8,16]{1,0} multiply(gelu.t, gelu.q)
  ROOT gelu.e = f32[8,16]{1,0} exponential(gelu.m)
}
"""
_GELU_IN_TWO = """gelu.1 {
  gelu.p = f32[8,16]{1,0} parameter(0)
  gelu.q = f32[8,16]{1,0} parameter(1)
  gelu.t = f32[8,16]{1,0} tanh(gelu.p)
  ROOT gelu.m = f32[8,16]{1,0} multiply(gelu.t, gelu.q)
}

gelu.2 {
  gelu.p.2 = f32[8,16]{1,0} parameter(0)
  ROOT gelu.e = f32[8,16]{1,0} exponential(gelu.p.2)
}
"""
_CALL_GELU = "  gelu.f = f32[8,16]{1,0} fusion(scaled, x), kind=kLoop, calls=gelu\n"
_CALL_BOTH = (
    "  gelu.f1 = f32[8,16]{1,0} fusion(scaled, x), kind=kLoop, calls=gelu.1\n"
    "  gelu.f = f32[8,16]{1,0} fusion(gelu.f1), kind=kLoop, calls=gelu.2\n"
)
_GELU_GROWN = _GELU.replace(
    "gelu.t = f32[8,16]{1,0} tanh(gelu.p)",
    "gelu.h = f32[] parameter(2)\n  gelu.b = f32[8,16]{1,0} broadcast(gelu.h), dimensions={}\n  gelu.s = f32[8,16]{1,0} multiply(gelu.p, gelu.b)\n  gelu.t = f32[8,16]{1,0} tanh(gelu.s)",
)
_SCALED = "  halves = f32[8,16]{1,0} broadcast(half), dimensions={}\n  scaled = f32[8,16]{1,0} multiply(x, halves)\n"

PLANTED = (
    _one("operation", "tanh(gelu.p)", "logistic(gelu.p)", "rewritten", "gelu.t", None, "opcode tanh → logistic"),
    _one("constant", "constant(0.5)", "constant(0.25)", "altered", "half", None, "value 0.5 → 0.25"),
    _one("trip count", "constant(5)", "constant(6)", "altered", "cond.n", None, "value 5 → 6"),
    _one(
        "comparison",
        "compare(cond.i, cond.n), direction=LT",
        "compare(cond.i, cond.n), direction=LE",
        "altered",
        "cond.r",
        None,
        "comparison direction LT → LE",
    ),
    _one(
        "operands swapped", "subtract(sines, cosines)", "subtract(cosines, sines)", "altered", "less", None, "operands"
    ),
    _one(
        "another operand",
        "multiply(gelu.t, gelu.q)",
        "multiply(gelu.t, gelu.p)",
        "altered",
        "gelu.m",
        None,
        "operand 1 x → scaled",
    ),
    _one(
        "replica groups",
        "{{0,1},{2,3}}",
        "{{0,2},{1,3}}",
        "altered",
        "body.all",
        None,
        "replica groups {{0,1},{2,3}} → {{0,2},{1,3}}",
    ),
    _one(
        "groups of a gather",
        "replica_groups={{0,1,2,3}}",
        "replica_groups={{3,2,1,0}}",
        "altered",
        "gathered",
        None,
        "replica groups",
    ),
    _one(
        "channel",
        "body.dot), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true",
        "body.dot), replica_groups={{0,1},{2,3}}",
        "altered",
        "body.all",
        None,
        "channel",
    ),
    _one(
        "sharding",
        "[4,1]<=[4]",
        "[1,4]<=[4]",
        "altered",
        "x",
        None,
        "sharding {devices=[4,1]<=[4]} → {devices=[1,4]<=[4]}",
    ),
    _one(
        "sharding gone",
        ", sharding={devices=[4,1]<=[4]}",
        "",
        "altered",
        "x",
        None,
        "sharding {devices=[4,1]<=[4]} → none",
    ),
    _one(
        "what a sum in a loop sums",
        "ROOT inner_sum.r = f32[] add",
        "ROOT inner_sum.r = f32[] multiply",
        "rewritten",
        "inner_sum.r",
        None,
        "opcode add → multiply",
    ),
    _one(
        "what a reduction applies",
        "dimensions={0}, to_apply=largest",
        "dimensions={0}, to_apply=sum",
        "altered",
        "top",
        None,
        "called computation largest → sum",
    ),
    _one(
        "reduced dimension",
        "reduce(rows, none), dimensions={0}",
        'reduce(rows, none), dimensions={0}, metadata={op_name="x"}',
        "",
        "",
        "",
        "",
    ),
    _one("slice", "slice={[0:8]}", "slice={[8:16]}", "altered", "part", None, "slice dimensions"),
    _one(
        "order of a sort",
        "pred[] compare(smaller.a, smaller.b), direction=LT",
        "pred[] compare(smaller.a, smaller.b), direction=GT",
        "altered",
        "smaller.r",
        None,
        "comparison direction LT → GT",
    ),
    _one("target of a call", '"kernel"', '"other"', "altered", "call", None, "custom call target kernel → other"),
    _one("configuration", '{\\"a\\":1}', '{\\"a\\":2}', "configured", "call", None, "backend config"),
    _one(
        "kind of a fusion",
        "fusion(gelu.f), kind=kLoop",
        "fusion(gelu.f), kind=kInput",
        "altered",
        "pair.f",
        None,
        "fusion kind kLoop → kInput",
    ),
    _one("donation", ", input_output_alias={ {0}: (0, {}, may-alias) }", "", "altered", "", None, "input output alias"),
    _one(
        "element of a loop",
        "get-tuple-element(pair.f), index=1",
        "get-tuple-element(pair.f), index=0",
        "altered",
        "less",
        None,
        "operand 1 pair.c → pair.s",
    ),
    _one(
        "contracted dimension",
        "rhs_contracting_dims={0}",
        "rhs_contracting_dims={1}",
        "altered",
        "body.dot",
        None,
        "dot dimension numbers",
    ),
    _one(
        "precision",
        "rhs_contracting_dims={0}",
        "rhs_contracting_dims={0}, operand_precision={highest,highest}",
        "altered",
        "body.dot",
        None,
        "precision config",
    ),
    _one(
        "order",
        "top = f32[] reduce(rows, none), dimensions={0}, to_apply=largest",
        "top = f32[] reduce(rows, none), dimensions={0}, to_apply=largest, control-predecessors={gathered}",
        "altered",
        "top",
        None,
        "runs after none → gathered",
    ),
    _one(
        "layout",
        "turned = f32[16,8]{1,0} transpose",
        "turned = f32[16,8]{0,1} transpose",
        "altered",
        "turned",
        None,
        "layout {1,0} → {0,1}",
    ),
    Planted(
        "result",
        (("tuple(out, part, top, call, k)", "tuple(less, part, top, call, k)"),),
        (("altered", "result", "result", "operand 0 out → less"),),
    ),
    Planted(
        "in between",
        (
            ("log(body.all)", "log(body.neg)"),
            ("  body.log", "  body.neg = f32[8,16]{1,0} negate(body.all)\n  body.log"),
        ),
        (("appeared", "", "body.neg", ""),),
    ),
    Planted(
        "taken out",
        (
            ("tuple(out, part, top, call, k)", "tuple(out, part, top, turned, k)"),
            (
                '  call = f32[16,8]{1,0} custom-call(turned), custom_call_target="kernel", backend_config="{\\"a\\":1}"\n',
                "",
            ),
        ),
        (("gone", "call", "", ""),),
    ),
    Planted(
        "collective in a loop",
        (
            ("log(body.all)", "log(body.perm)"),
            (
                "  body.log",
                "  body.perm = f32[8,16]{1,0} collective-permute(body.all), channel_id=3, source_target_pairs={{0,1},{1,2}}\n  body.log",
            ),
        ),
        (("appeared", "", "body.perm", ""),),
    ),
    Planted(
        "collective gone",
        (
            (
                "  body.all = f32[8,16]{1,0} all-reduce(body.dot), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=inner_sum\n",
                "",
            ),
            ("log(body.all)", "log(body.dot)"),
        ),
        (("gone", "body.all", "", ""),),
    ),
    Planted(
        "split",
        ((_GELU, _GELU_IN_TWO), (_CALL_GELU, _CALL_BOTH)),
        (("split", "gelu.f", "gelu.f1,gelu.f", "2 + 1 instructions"),),
    ),
    Planted(
        "grown",
        ((_GELU, _GELU_GROWN), (_SCALED, ""), ("fusion(scaled, x)", "fusion(x, x, half)")),
        (("grown", "gelu.f", "gelu.f", "1 instruction"),),
    ),
    Planted(
        "formed",
        (
            (
                "  scaled = f32[8,16]{1,0} multiply(x, halves)\n",
                "  scaled = f32[8,16]{1,0} fusion(x, halves), kind=kLoop, calls=times\n",
            ),
            (
                "ENTRY",
                "times {\n  times.p = f32[8,16]{1,0} parameter(0)\n  times.q = f32[8,16]{1,0} parameter(1)\n  ROOT times.m = f32[8,16]{1,0} multiply(times.p, times.q)\n}\n\nENTRY",
            ),
        ),
        (("formed", "", "scaled", "1 instruction"),),
    ),
    Planted(
        "before a loop",
        (
            (
                "  less = f32[8,16]{1,0} subtract(sines, cosines)\n",
                "  less = f32[8,16]{1,0} subtract(sines, cosines)\n  floor = f32[8,16]{1,0} floor(less)\n",
            ),
            ("tuple(zero, less, w)", "tuple(zero, floor, w)"),
        ),
        (("appeared", "", "floor", ""),),
    ),
    Planted(
        "moved out of a loop",
        (
            ("  body.log = f32[8,16]{1,0} log(body.all)\n", ""),
            ("tuple(body.next, body.log, body.w)", "tuple(body.next, body.all, body.w)"),
            ("all-gather(out)", "all-gather(logs)"),
            ("  gathered", "  logs = f32[8,16]{1,0} log(out)\n  gathered"),
        ),
        (("moved", "body.log", "logs", "computation body → main"),),
    ),
    Planted(
        "loop unrolled away",
        (("while(init), condition=cond, body=body", 'custom-call(init), custom_call_target="once"'),),
        (("rewritten", "loop", "loop", "opcode while → custom-call"),),
    ),
    Planted(
        "smaller",
        (
            ("f32[8]{0} slice(sorted), slice={[0:8]}", "f32[4]{0} slice(sorted), slice={[0:4]}"),
            ("ROOT result = (f32[8,16]{1,0}, f32[8]{0}", "ROOT result = (f32[8,16]{1,0}, f32[4]{0}"),
        ),
        (
            ("altered", "part", "part", "dimensions [8] → [4]"),
            ("altered", "result", "result", "dimensions of element 1 [8] → [4]"),
        ),
    ),
    Planted(
        "one more argument",
        (
            ("  k = s32[] parameter(2)\n", "  k = s32[] parameter(2)\n  u = f32[8,16]{1,0} parameter(3)\n"),
            ("multiply(x, halves)", "multiply(u, halves)"),
        ),
        (("appeared", "", "u", ""),),
    ),
    Planted(
        "unused",
        (("  half = ", "  unused = f32[16,8]{1,0} transpose(x), dimensions={1,0}\n  half = "),),
        (("appeared", "", "unused", ""),),
    ),
    Planted(
        "taken apart and put together",
        (
            ("log(body.all)", "log(body.g)"),
            (
                "  body.log",
                "  body.tt = (f32[8,16]{1,0}) tuple(body.all)\n  body.g = f32[8,16]{1,0} get-tuple-element(body.tt), index=0\n  body.log",
            ),
        ),
        (("appeared", "", "body.tt", ""), ("appeared", "", "body.g", "")),
    ),
    Planted(
        "two at once",
        (("tanh(gelu.p)", "logistic(gelu.p)"), ("constant(5)", "constant(6)")),
        (("rewritten", "gelu.t", "gelu.t", ""), ("altered", "cond.n", "cond.n", "")),
    ),
    Planted(
        "element type",
        (
            (
                "less = f32[8,16]{1,0} subtract(sines, cosines)",
                "less.f = f32[8,16]{1,0} subtract(sines, cosines)\n  less.h = bf16[8,16]{1,0} convert(less.f)\n  less = f32[8,16]{1,0} convert(less.h)",
            ),
        ),
        (("appeared", "", "less.h", ""), ("appeared", "", "less", "")),
    ),
    Planted(
        "computed again",
        (
            ("transpose(less)", "transpose(again)"),
            ("  turned", "  again = f32[8,16]{1,0} subtract(sines, cosines)\n  turned"),
        ),
        (("duplicated", "", "again|less", "computes the same as"),),
    ),
    Planted(
        "asynchronous",
        (
            (
                "  gathered = f32[32,16]{1,0} all-gather(out), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true\n",
                "  ag.s = (f32[8,16]{1,0}, f32[32,16]{1,0}) all-gather-start(out), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true\n  gathered = f32[32,16]{1,0} all-gather-done(ag.s)\n",
            ),
        ),
        (("rewritten", "gathered", "ag.s,gathered", "became asynchronous"),),
    ),
)


def edited(planted: Planted) -> str:
    """The text with the change."""
    text = BASE
    for old, new in planted.edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text
