"""Least times of schedules: what waits for what, loops and branches."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.schedule import Work, play
from inspector.errors import Missing
from inspector.hlo.module import Module

ASYNC = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[8]{0} parameter(0)
  start = f32[8]{0} all-reduce-start(x), replica_groups={}, to_apply=add
  work = f32[8]{0} sine(x)
  done = f32[8]{0} all-reduce-done(start)
  ROOT after = f32[8]{0} add(work, done)
}
"""
ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def module_of(text: str) -> Module:
    return Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


@pytest.mark.parametrize(("work_s", "link_s", "seconds"), [(3.0, 2.0, 4.0), (2.0, 5.0, 6.0), (0.0, 5.0, 6.0)])
def test_an_exchange_runs_beside_what_stands_between(work_s: float, link_s: float, seconds: float) -> None:
    head, entry = ASYNC.split("ENTRY")
    module = module_of(f"{head}{ADD}\nENTRY{entry}")
    spent, missing = play(
        module,
        {
            "start": Work(0.0, "nothing", 0.0, 0.0, 32.0, link_s, "done"),
            "work": Work(work_s, "compute", 8.0, 64.0),
            "after": Work(1.0, "memory", 8.0, 96.0),
        },
    )
    assert (spent.seconds, missing) == (seconds, ())
    assert spent.communication_s == max(0.0, link_s - work_s)
    assert (spent.flops, spent.memory_bytes, spent.link_bytes) == (16, 160, 32)
    assert spent.bound_by == ("compute" if work_s > link_s else "communication")


@pytest.mark.parametrize("same", [False, True])
def test_of_branches_the_cheapest_is_taken_and_the_others_named(same: bool) -> None:
    module = module_of("""HloModule m, is_scheduled=true

work {
  p = f32[8]{0} parameter(0)
  ROOT dear = f32[8]{0} sine(p)
}

other {
  q = f32[8]{0} parameter(0)
  ROOT cheap = f32[8]{0} negate(q)
}

ENTRY main {
  flag = pred[] parameter(0)
  x = f32[8]{0} parameter(1)
  ROOT r = f32[8]{0} conditional(flag, x, x), true_computation=work, false_computation=other
}
""")
    least = Work(1.0, "memory", 8.0, 64.0)
    spent, missing = play(module, {"cheap": least, "dear": least if same else Work(5.0, "compute", 80.0, 64.0)})
    assert (spent.seconds, spent.flops, spent.memory_bytes) == (1.0, 8.0, 64.0)
    held = Missing("r", "conditional", "held to the cheapest branch")
    assert missing == (() if same else (held,))
