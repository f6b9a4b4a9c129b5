"""What sets two modules apart in a few words, of modules whose differences are known."""

from __future__ import annotations

import pytest

from inspector.analysis.headline import headline
from inspector.hlo.module import Module
from tests.modules import module_of

BASE = """HloModule m, num_partitions=4

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

fused {{
  p = f32[8]{{0}} parameter(0)
  ROOT e = f32[8]{{0}} exponential(p)
}}

ENTRY main {{
  x = f32[8]{{0}} parameter(0)
  {body}
  ROOT r = (f32[8]{{0}}) tuple(last)
}}
"""
FUSION = "{name} = f32[8]{{0}} fusion({of}), kind=kLoop, calls=fused"
REDUCE = "{name} = f32[8]{{0}} all-reduce({of}), channel_id={n}, replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true, to_apply=sum"
COPY = "{name} = f32[8]{{0}} copy({of})"
SINE = "{name} = f32[8]{{0}} sine({of})"


def program(*parts: str) -> Module:
    lines, of = [], "x"
    for n, part in enumerate(parts, 1):
        lines.append(part.format(name=f"v{n}", of=of, n=n))
        of = f"v{n}"
    return module_of(BASE.format(body="\n  ".join([*lines, f"last = f32[8]{{0}} bitcast({of})"])))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([FUSION], [FUSION], ""),
        ([FUSION, REDUCE], [REDUCE, FUSION], ""),
        ([FUSION], [FUSION, REDUCE], "1 all-reduce appeared"),
        ([FUSION, REDUCE, REDUCE], [FUSION], "2 all-reduces gone"),
        ([FUSION] * 4, [FUSION], "3 fusions fewer (1, before 4)"),
        ([FUSION], [FUSION] * 2, "1 fusion more (2, before 1)"),
        ([COPY], [COPY, COPY, COPY], "2 copies more (3, before 1)"),
        ([FUSION, SINE], [REDUCE, FUSION, FUSION], "1 all-reduce appeared, 1 fusion more (2, before 1), 1 sine gone"),
    ],
)
def test_planted_differences_are_named(before: list[str], after: list[str], words: str) -> None:
    assert headline(program(*before), program(*after)) == words


def test_the_kinds_that_say_most_come_first_and_the_rest_is_counted() -> None:
    others = [f"{{name}} = f32[8]{{{{0}}}} {opcode}({{of}})" for opcode in ("sine", "cosine", "negate", "abs", "tanh")]
    assert headline(program(), program(*others, REDUCE)) == (
        "1 all-reduce appeared, 1 abs appeared, 1 cosine appeared, 1 negate appeared, 2 other kinds of kernels changed in number"
    )


def test_an_asynchronous_collective_is_the_same_as_one_that_waits() -> None:
    start = "{name} = f32[8]{{0}} all-reduce-start({of}), channel_id={n}, replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true, to_apply=sum"
    done = "{name} = f32[8]{{0}} all-reduce-done({of})"
    assert headline(program(REDUCE), program(start, done)) == ""
