"""The jobs of variants that panes started."""

from __future__ import annotations

import threading
import types
from typing import Any

from inspector.widgets.panes.framework.running_jobs import RunningJobs


class Stoppable:
    def __init__(self) -> None:
        self.stopped = 0

    def cancel(self) -> None:
        self.stopped += 1


def jobs_of(*held: Any) -> RunningJobs[Stoppable]:
    context: Any = types.SimpleNamespace(lock=threading.RLock(), holds=lambda variant: variant in held)
    return RunningJobs(context)


VARIANT: Any = types.SimpleNamespace(number=1)
REMOVED: Any = types.SimpleNamespace(number=2)


def test_a_new_job_stops_the_earlier_one() -> None:
    jobs, first, second = jobs_of(VARIANT), Stoppable(), Stoppable()
    assert jobs.keep(VARIANT, first)
    assert jobs.keep(VARIANT, second)
    assert (first.stopped, second.stopped, jobs.get(VARIANT)) == (1, 0, second)
    assert not jobs.end(VARIANT, first)
    assert jobs.end(VARIANT, second)
    assert jobs.get(VARIANT) is None


def test_the_job_of_a_removed_variant_is_stopped() -> None:
    jobs, job = jobs_of(VARIANT), Stoppable()
    assert not jobs.keep(REMOVED, job)
    assert (job.stopped, jobs.get(REMOVED)) == (1, None)


def test_stopping() -> None:
    jobs, job = jobs_of(VARIANT), Stoppable()
    jobs.keep(VARIANT, job)
    jobs.cancel(VARIANT)
    assert (job.stopped, jobs.get(VARIANT)) == (1, job)
    stop = jobs.forget(VARIANT)
    assert (job.stopped, jobs.get(VARIANT)) == (1, None)
    stop()
    jobs.keep(VARIANT, job)
    jobs.close()
    assert (job.stopped, jobs.get(VARIANT)) == (3, None)
