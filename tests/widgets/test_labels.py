"""Labels of variants, their timing hints, and pinned variants."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.compilation.target import Target
from tests.widgets.fakes import FakeWork, Mailbox

MATH, MINMAX, FTZ = "xla_cpu_enable_fast_math", "xla_cpu_enable_fast_min_max", "xla_cpu_ftz"


def labels(explorer: Any) -> list[str]:
    return [variant.label for variant in explorer.variants]


def test_a_label_has_the_differences_from_the_baseline() -> None:
    fakes = FakeWork()
    explorer = fakes.explorer(target="cpu", options={MINMAX: True})
    assert labels(explorer) == [f"{MINMAX}=true"]
    explorer.add({MINMAX: True, MATH: True})
    explorer.add({MATH: True})
    explorer.add({MINMAX: True}, "cpu:8")
    explorer.add({MINMAX: True, "xla_dump_to": "x" * 80})
    assert labels(explorer)[1:] == [
        f"{MATH}=true", f"{MATH}=true without {MINMAX}", "cpu:8", f"xla_dump_to={'x' * 31}…",
    ]  # fmt: skip
    explorer.close()


def test_labels_omit_shared_options_and_are_unique() -> None:
    fakes = FakeWork()
    explorer = fakes.explorer(target="cpu")
    box = Mailbox(explorer)
    shared = {MATH: True, MINMAX: True, "xla_cpu_fast_math_honor_nans": True}
    for value in (True, False):
        explorer.add({**shared, FTZ: value})
    first, second = labels(explorer)[1:]
    assert first.startswith(f"{FTZ}=true ")
    assert second.startswith(f"{FTZ}=false ")
    assert second.endswith(" and 2 more")
    assert box.last("variant", variant=1)["label"] == first, "the browser hears of a name that changed"
    explorer.variants[2].job.cancel()
    again = explorer.add({**shared, FTZ: False})  # of one that ended well it would be that one
    assert labels(explorer)[3] == f"{second} (2)"
    assert len(set(labels(explorer))) == 4
    explorer.remove(explorer.variants[2])
    assert again.label == second
    explorer.close()


def test_the_hint_lists_times_by_stage() -> None:
    fakes = FakeWork()
    explorer = fakes.explorer(target="cpu")
    box = Mailbox(explorer)
    assert box.last("variant", variant=0)["timing"] == ""
    fakes.finish(0, timings={"compile_s": 0.5, "queue_s": 2.0, "total_s": 3.0})
    explorer.wait(20)
    said = "compiled in 500 ms, waited 2 s for other compiles, 3 s in total; the rest is starting a worker and reading the result."
    assert box.last("variant", variant=0)["timing"] == said
    explorer.close()


def test_a_pinned_variant_stays() -> None:
    fakes = FakeWork()
    explorer = fakes.explorer((("i", 2),), target="cpu:2")
    explorer.add({MATH: True})
    pinned = explorer.add({MINMAX: True})
    box = Mailbox(explorer)
    box.send({"type": "pin", "variant": pinned.number, "pinned": True})
    assert box.last("variant", variant=pinned.number)["pinned"] is True
    with pytest.raises(ValueError, match=r"is pinned\. Unpin it first: pin\(variant, False\)"):
        explorer.remove(pinned)
    with pytest.raises(ValueError, match="cannot be pinned: it is the baseline"):
        explorer.pin(explorer.baseline)
    box.send({"type": "lower", "axes": "i=4"})
    explorer._threads.drain()
    assert [v.is_pinned for v in explorer.variants] == [False, False, True]
    assert explorer.variants[0].target == Target("cpu:4")
    kept = explorer.variants[2]
    explorer.pin(kept, False)
    explorer.remove(kept)
    explorer.close()
