"""Loops as HLO text."""

from __future__ import annotations


def counted_loop(called: str, rounds: int) -> str:
    """The computations `body` and `condition` of a loop over `(s32[], f32[4])` that counts from 0 and calls another.

    Args:
      called: a computation from f32[4] to f32[4].
      rounds: how often the loop runs.
    """
    return f"""
body {{
  b = (s32[], f32[4]{{0}}) parameter(0)
  counter = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  grown = s32[] add(counter, one)
  value = f32[4]{{0}} get-tuple-element(b), index=1
  called = f32[4]{{0}} call(value), to_apply={called}
  ROOT next = (s32[], f32[4]{{0}}) tuple(grown, called)
}}

condition {{
  of = (s32[], f32[4]{{0}}) parameter(0)
  at = s32[] get-tuple-element(of), index=0
  limit = s32[] constant({rounds})
  ROOT less = pred[] compare(at, limit), direction=LT
}}
"""
