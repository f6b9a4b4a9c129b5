"""Least times of schedules: what waits for what, loops and branches."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from inspector.analysis.cost.schedule_simulation import Interval, KernelWork, Overlap, Spent, intervals, play
from inspector.errors import Missing
from inspector.hlo.module import Module
from tests.modules import module_of

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


def played(module: Module, work: Mapping[str, KernelWork]) -> tuple[Spent, tuple[Missing, ...], Mapping[str, Overlap]]:
    found = play(module.entry, work)
    return found.spent, found.missing, found.overlaps


@pytest.mark.parametrize(("work_s", "link_s", "seconds"), [(3.0, 2.0, 4.0), (2.0, 5.0, 6.0), (0.0, 5.0, 6.0)])
def test_an_exchange_overlaps_the_instructions_in_between(work_s: float, link_s: float, seconds: float) -> None:
    head, entry = ASYNC.split("ENTRY")
    module = module_of(f"{head}{ADD}\nENTRY{entry}")
    spent, missing, _ = played(
        module,
        {
            "start": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, link_s, "done"),
            "work": KernelWork(work_s, "compute", 8.0, 64.0),
            "after": KernelWork(1.0, "memory", 8.0, 96.0),
        },
    )
    assert (spent.seconds, missing) == (seconds, ())
    assert spent.communication_s == max(0.0, link_s - work_s)
    assert (spent.flops, spent.memory_bytes, spent.link_bytes) == (16, 160, 32)
    assert spent.bound_by == ("compute" if work_s > link_s else "communication")


@pytest.mark.parametrize("same", [False, True])
def test_the_cheapest_branch_is_simulated_and_the_others_are_named(same: bool) -> None:
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
    least = KernelWork(1.0, "memory", 8.0, 64.0)
    spent, missing, _ = played(
        module, {"cheap": least, "dear": least if same else KernelWork(5.0, "compute", 80.0, 64.0)}
    )
    assert (spent.seconds, spent.flops, spent.memory_bytes) == (1.0, 8.0, 64.0)
    held = Missing("r", "conditional", "counted as its cheapest branch")
    assert missing == (() if same else (held,))


LOOP = """HloModule m, is_scheduled=true

body {
  p = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8]{0} get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  work = f32[8]{0} sine(v)
  ROOT t = (s32[], f32[8]{0}) tuple(next, work)
}

condition {
  q = (s32[], f32[8]{0}) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(j, n), direction=LT
}

ENTRY main {
  start = (s32[], f32[8]{0}) parameter(0)
  ROOT w = (s32[], f32[8]{0}) while(start), condition=condition, body=body KNOWN
}
"""
IN_LOOP = {"work": KernelWork(2.0, "compute", 8.0, 64.0), "less": KernelWork(0.5, "memory", 1.0, 4.0)}


def test_a_loop_runs_its_body_as_often_as_is_known_and_its_condition_once_more() -> None:
    known = ', backend_config={"known_trip_count":{"n":"5"}}'
    spent, missing, _ = played(module_of(LOOP.replace(" KNOWN", known)), IN_LOOP)
    assert (spent.compute_s, spent.memory_s, spent.seconds) == (5 * 2.0, 6 * 0.5, 13.0)
    assert (spent.flops, spent.memory_bytes, spent.bound_by) == (5 * 8 + 6, 5 * 64 + 6 * 4, "compute")
    assert missing == ()


def test_a_loop_of_unknown_length_may_run_no_round_and_is_named() -> None:
    unknown = LOOP.replace(" KNOWN", "").replace("n = s32[] constant(5)", "n = s32[] get-tuple-element(q), index=0")
    spent, missing, _ = played(module_of(unknown), IN_LOOP)
    assert (spent.compute_s, spent.memory_s, spent.flops) == (0.0, 0.5, 1.0)  # of the condition
    assert [each.name for each in missing] == ["w"]


def test_called_computations_count_on_every_call() -> None:
    module = module_of("""HloModule m, is_scheduled=true

twice {
  p = f32[8]{0} parameter(0)
  ROOT work = f32[8]{0} sine(p)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  a = f32[8]{0} call(x), to_apply=twice
  ROOT b = f32[8]{0} call(a), to_apply=twice
}
""")
    spent, missing, _ = played(module, {"work": KernelWork(2.0, "compute", 8.0, 64.0)})
    assert (spent.seconds, spent.flops, spent.memory_bytes, missing) == (4.0, 16.0, 128.0, ())


def test_nothing_takes_no_time() -> None:
    spent, _, _ = played(
        module_of("HloModule m, is_scheduled=true\n\nENTRY main { ROOT x = f32[8]{0} parameter(0) }"), {}
    )
    assert (spent.seconds, spent.bound_by) == (0.0, "nothing")


TWO = """HloModule m, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  start.1 = f32[8]{0} all-reduce-start(x), replica_groups={}, to_apply=add
  work.1 = f32[8]{0} sine(x)
  start.2 = f32[8]{0} all-reduce-start(work.1), replica_groups={}, to_apply=add
  work.2 = f32[8]{0} cosine(x)
  done.1 = f32[8]{0} all-reduce-done(start.1)
  done.2 = f32[8]{0} all-reduce-done(start.2)
  ROOT after = f32[8]{0} add(done.1, done.2)
}
"""


def test_exposed_and_hidden_parts_of_an_exchange() -> None:
    work = {
        "start.1": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 5.0, "done.1"),
        "start.2": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 2.0, "done.2"),
        "work.1": KernelWork(3.0, "compute", 8.0, 64.0),
        "work.2": KernelWork(1.0, "compute", 8.0, 64.0),
        "after": KernelWork(1.0, "memory", 8.0, 96.0),
    }
    spent, _, overlaps = played(module_of(TWO), work)
    # The first has 4 of its 5 seconds hidden; the second waits for the links until 5, and for its own 2.
    assert overlaps == {
        "start.1": Overlap(1.0, ("work.1", "work.2")),
        "start.2": Overlap(2.0, ("work.2",)),
    }
    assert spent.communication_s == sum(each.waits_s for each in overlaps.values())
    assert spent.seconds == 3 + 1 + 1 + 2 + 1


def test_the_intervals_of_a_computation_sum_to_its_time() -> None:
    work = {
        "start.1": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 5.0, "done.1"),
        "start.2": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 2.0, "done.2"),
        "work.1": KernelWork(3.0, "compute", 8.0, 64.0),
        "work.2": KernelWork(1.0, "compute", 8.0, 64.0),
        "after": KernelWork(1.0, "memory", 8.0, 96.0),
    }
    module = module_of(TWO)
    found = intervals(work, module.entry)
    assert found == (
        Interval("work.1", "device", "compute", 0, 3),
        Interval("start.1", "links", "communication", 0, 5),
        Interval("work.2", "device", "compute", 3, 4),
        Interval("done.1", "device", "communication", 4, 5, is_wait=True),
        Interval("start.2", "links", "communication", 5, 7),
        Interval("done.2", "device", "communication", 5, 7, is_wait=True),
        Interval("after", "device", "memory", 7, 8),
    )
    spent, _, _ = played(module, work)
    device = [each for each in found if each.lane == "device"]
    assert sum(each.end_s - each.start_s for each in device) == spent.seconds == device[-1].end_s


def test_a_synchronous_exchange_blocks_the_device() -> None:
    text = TWO.replace("all-reduce-start(x)", "all-reduce(x)").replace("all-reduce-done(start.1)", "negate(start.1)")
    work = {
        "start.1": KernelWork(5.0, "communication", 0.0, 0.0, 32.0),
        "work.1": KernelWork(3.0, "compute", 8.0, 64.0),
    }
    assert intervals(work, module_of(text).entry) == (
        Interval("start.1", "links", "communication", 0, 5),
        Interval("start.1", "device", "communication", 0, 5, is_wait=True),
        Interval("work.1", "device", "compute", 5, 8),
    )


def test_a_wait_is_charged_to_the_exchange_that_holds_the_links() -> None:
    """A short permute queued behind a long gather, and waited for first: the gather is what the device waits for."""
    text = TWO.replace("  done.1 = f32[8]{0} all-reduce-done(start.1)\n  done.2", "  done.2").replace(
        "  ROOT after", "  done.1 = f32[8]{0} all-reduce-done(start.1)\n  ROOT after"
    )
    work = {
        "start.1": KernelWork(0.0, "nothing", 0.0, 0.0, 8e6, 42.0, "done.1"),
        "start.2": KernelWork(0.0, "nothing", 0.0, 0.0, 16e3, 0.5, "done.2"),
        "work.1": KernelWork(1.0, "compute", 8.0, 64.0),
        "work.2": KernelWork(1.0, "compute", 8.0, 64.0),
    }
    spent, _, overlaps = played(module_of(text), work)
    assert overlaps["start.1"].waits_s == 40
    assert overlaps["start.2"].waits_s == 0.5
    assert spent.communication_s == 40.5
    assert (spent.links_s, spent.hidden_s) == (42.5, 2.0)


def test_a_synchronous_exchange_waits_until_the_links_are_free() -> None:
    text = TWO.replace("all-reduce-start(work.1)", "all-reduce(work.1)").replace(
        "all-reduce-done(start.2)", "negate(start.2)"
    )
    work = {
        "start.1": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 5.0, "done.1"),
        "work.1": KernelWork(3.0, "compute", 8.0, 64.0),
        "start.2": KernelWork(2.0, "communication", 0.0, 0.0, 32.0),
        "work.2": KernelWork(1.0, "compute", 8.0, 64.0),
    }
    spent, _, overlaps = played(module_of(text), work)
    assert spent.seconds == 5 + 2 + 1
    assert {name: each.waits_s for name, each in overlaps.items()} == {"start.1": 2.0, "start.2": 2.0}
    found = intervals(work, module_of(text).entry)
    assert Interval("start.2", "device", "communication", 3, 5, is_wait=True) in found
    assert sum(each.end_s - each.start_s for each in found if each.lane == "device") == spent.seconds


def test_exchanges_that_are_never_awaited_hold_the_links_until_the_end() -> None:
    text = TWO.replace("all-reduce-done(start.2)", "negate(work.2)").replace("(done.1, done.2)", "(done.1, done.2)")
    work = {"start.1": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 5.0, "done.1")}
    spent, _, overlaps = played(module_of(text), work)
    assert (spent.communication_s, overlaps["start.1"].waits_s) == (5.0, 5.0)


LOOP_WITH_EXCHANGE = """HloModule m, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

body {
  v = f32[8]{0} parameter(0)
  start = f32[8]{0} all-reduce-start(v), replica_groups={}, to_apply=add
  work = f32[8]{0} sine(v)
  done = f32[8]{0} all-reduce-done(start)
  ROOT sum = f32[8]{0} add(work, done)
}

condition {
  v = f32[8]{0} parameter(0)
  ROOT more = pred[] constant(true)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT loop = f32[8]{0} while(x), condition=condition, body=body, backend_config={"known_trip_count":{"n":"6"}}
}
"""


@pytest.mark.parametrize(("work_s", "waits_s"), [(3.0, 1.0), (9.0, 0.0)])
def test_exchanges_in_a_loop_are_exposed_and_hidden_in_every_round(work_s: float, waits_s: float) -> None:
    module = module_of(LOOP_WITH_EXCHANGE)
    work = {
        "start": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 4.0, "done"),
        "work": KernelWork(work_s, "compute", 8.0, 64.0),
    }
    spent, _, overlaps = played(module, work)
    assert (spent.communication_s, spent.links_s) == (6 * waits_s, 6 * 4.0)
    assert overlaps == {"start": Overlap(waits_s, ("work",))}  # of one round
    found = intervals(work, module.entry)
    assert sum(each.hidden_s for each in found) == 6 * (4.0 - waits_s)
    assert sum(each.end_s - each.start_s for each in found if each.is_wait) == 6 * waits_s


def test_a_loop_of_unknown_length_runs_as_often_as_asked() -> None:
    unknown = LOOP_WITH_EXCHANGE.replace(', backend_config={"known_trip_count":{"n":"6"}}', "")
    work = {
        "start": KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 4.0, "done"),
        "work": KernelWork(3.0, "compute", 8.0, 64.0),
    }
    assert play(module_of(unknown).entry, work).spent.seconds == 0
    found = play(module_of(unknown).entry, work, unknown_trips=1)
    assert found.spent.seconds == 4
    assert [each.name for each in found.missing] == ["loop"]


def test_an_exchange_that_takes_less_time_saves_only_what_is_exposed() -> None:
    start, work = KernelWork(0.0, "nothing", 0.0, 0.0, 32.0, 4.0, "done"), KernelWork(3.0, "compute", 8.0, 64.0)
    module = module_of(LOOP_WITH_EXCHANGE)
    for part, seconds in ((1.0, 4), (0.5, 3), (0.0, 3)):
        assert play(module.entry, {"start": start.shorter(part), "work": work}).spent.seconds == 6 * seconds
    assert play(module.entry, {"start": start, "work": work.shorter(0.0)}).spent.seconds == 6 * 4


def test_a_copy_pauses_while_a_kernel_needs_the_whole_rate_of_the_memory() -> None:
    module = module_of("""HloModule m, is_scheduled=true
ENTRY main {
  x = f32[8]{0} parameter(0)
  start = (f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(x)
  product = f32[8]{0} sine(x)
  sum = f32[8]{0} cosine(product)
  done = f32[8]{0:S(1)} copy-done(start)
  ROOT after = f32[8]{0} add(done, sum)
}
""")
    work = {
        "start": KernelWork(4.0, "memory", 0.0, 64.0),
        "product": KernelWork(1.0, "compute", 8.0, 0.0),
        "sum": KernelWork(2.0, "memory", 8.0, 32.0),
        "after": KernelWork(1.0, "compute", 8.0, 0.0),
    }
    assert intervals(work, module.entry) == (
        Interval("product", "device", "compute", 0, 1),
        Interval("start", "copies", "memory", 0, 6),
        Interval("sum", "device", "memory", 1, 3),
        Interval("done", "device", "memory", 3, 6, is_wait=True),
        Interval("after", "device", "compute", 6, 7),
    )
