"""A loop that carries one value more or less: told once, of the loop, wherever the value stands among the carried."""

from __future__ import annotations

import pytest

from inspector.analysis.diff.module_diff import diff
from tests.modules import module_of

CARRIED = {"i": "s32[]", "x": "f32[8,8]{1,0}", "w": "f32[8,8]{1,0}"}


def looped(carried: dict[str, str]) -> str:
    """A loop that carries values, of which it steps `i`, multiplies `x` with `w`, and hands on the others."""
    made = f"({', '.join(carried.values())})"
    taken = {name: f"get-tuple-element({{}}), index={index}" for index, name in enumerate(carried)}
    inner = "\n".join(f"  body.{n} = {shape} {taken[n].format('body.p')}" for n, shape in carried.items())
    return f"""HloModule looped

body {{
  body.p = {made} parameter(0)
{inner}
  body.one = s32[] constant(1)
  next.i = s32[] add(body.i, body.one)
  next.x = f32[8,8]{{1,0}} dot(body.x, body.w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT body.t = {made} tuple({", ".join(f"next.{n}" if n in "ix" else f"body.{n}" for n in carried)})
}}

cond {{
  cond.p = {made} parameter(0)
  cond.i = s32[] {taken["i"].format("cond.p")}
  cond.n = s32[] constant(5)
  ROOT cond.r = pred[] compare(cond.i, cond.n), direction=LT
}}

ENTRY main {{
  start.x = f32[8,8]{{1,0}} parameter(0)
  start.w = f32[8,8]{{1,0}} parameter(1)
  start.e = {carried.get("e", "f32[8]{0}")} parameter(2)
  start.i = s32[] constant(0)
  init = {made} tuple({", ".join(f"start.{n}" for n in carried)})
  loop = {made} while(init), condition=cond, body=body
  out = f32[8,8]{{1,0}} {taken["x"].format("loop")}
  ROOT end = f32[8,8]{{1,0}} exponential(out)
}}
"""


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("shape", ["f32[8]{0}", "f32[8,8]{1,0}"], ids=["alone", "like the others"])
def test_an_additional_value_is_reported_of_the_loop(place: int, shape: str) -> None:
    names = [*CARRIED]
    names.insert(place, "e")
    more = module_of(looped({name: {**CARRIED, "e": shape}[name] for name in names}))
    fewer = module_of(looped(CARRIED).replace("start.e = f32[8]{0}", f"start.e = {shape}"))
    plain = shape.partition("{")[0]
    for before, after, what in (
        (fewer, more, f"elements 3 → 4 (extra: {plain})"),
        (more, fewer, f"elements 4 (extra: {plain}) → 3"),
    ):
        found = diff(before, after)
        assert [(change.kind, change.before[0].name, change.what) for change in found.changes] == [
            ("altered", "loop", what)
        ]
        pairs = {
            a.name: b.name for a, b in ((before.at(x), after.at(y)) for x, y in enumerate(found.partners) if y >= 0)
        }
        assert {name: pairs[name] for name in ("body.i", "body.x", "body.w", "out")} == {
            name: name for name in ("body.i", "body.x", "body.w", "out")
        }


def test_uses_of_the_additional_value_are_reported_too() -> None:
    shapes = {**CARRIED, "e": "f32[8]{0}"}
    other = (
        looped(shapes)
        .replace("w, body.e)", "w, next.e)")
        .replace("  next.x =", "  next.e = f32[8]{0} negate(body.e)\n  next.x =")
    )
    found = diff(module_of(looped(CARRIED)), module_of(other))
    assert [(change.kind, change.opcode) for change in found.changes] == [("appeared", "negate"), ("altered", "while")]
