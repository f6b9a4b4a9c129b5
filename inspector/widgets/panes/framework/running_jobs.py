"""`RunningJobs`: the job of each variant that a pane started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from inspector.widgets.panes.framework.pane import Context
from inspector.widgets.variants import Variant


class Cancelable(Protocol):
    """A job that can be stopped."""

    def cancel(self) -> object:
        """Stops it."""


J = TypeVar("J", bound=Cancelable)


class RunningJobs(Generic[J]):
    """The latest job of each variant, at most one. May be called from any thread."""

    def __init__(self, context: Context) -> None:
        """Creates the object; there is no job yet."""
        self._context = context
        self._jobs: dict[int, J] = {}

    def get(self, variant: Variant) -> J | None:
        """Returns the variant's job."""
        return self._jobs.get(variant.number)

    def keep(self, variant: Variant, job: J) -> bool:
        """Keeps a new job and stops the variant's earlier one. Stops the new one and returns False if the variant was removed."""
        with self._context.lock:
            is_current = self._context.holds(variant)
            stopped = self._jobs.pop(variant.number, None) if is_current else job
            if is_current:
                self._jobs[variant.number] = job
        if stopped is not None:
            stopped.cancel()
        return is_current

    def end(self, variant: Variant, job: J) -> bool:
        """Drops a job that ended. Returns False if it was not the variant's any more."""
        with self._context.lock:
            is_current = self._jobs.get(variant.number) is job
            if is_current:
                del self._jobs[variant.number]
        return is_current

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's job."""
        job = self.get(variant)
        if job is not None:
            job.cancel()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's job; the caller then calls the returned function, which stops it."""
        job = self._jobs.pop(variant.number, None)
        return (lambda: None) if job is None else job.cancel

    def close(self) -> None:
        """Stops all jobs."""
        with self._context.lock:
            jobs = tuple(self._jobs.values())
            self._jobs.clear()
        for job in jobs:
            job.cancel()
