"""`Followed`: publishes the progress of a job, one message at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from inspector.errors import CancelledError
from inspector.widgets.messages import State

_EVERY_S = 0.4  # interval between messages while a job runs


class FollowedJob(Protocol):
    """A job with progress."""

    def done(self) -> bool: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def add_progress_callback(self, callback: Callable[[Any], None]) -> None: ...
    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...


class Followed:
    """Publishes the progress of a job, one message at a time, so that messages stay in order."""

    def __init__(
        self, job: FollowedJob, message: Callable[[], Mapping[str, Any]], publish: Callable[[Any], None]
    ) -> None:
        """Prepares it; publishes nothing yet.

        Args:
          job: the job.
          message: returns the message about its present state.
          publish: sends a message.
        """
        self._job, self._message, self._publish = job, message, publish
        self._published_s = 0.0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Publishes the progress immediately and whenever it changes."""
        self._publish_now()
        self._job.add_progress_callback(lambda _: self._publish_if_due())
        self._job.add_done_callback(lambda _: self._publish_now())

    def _publish_now(self) -> None:
        with self._lock:
            self._published_s = time.monotonic()
            self._publish(self._message())

    def _publish_if_due(self) -> None:
        if time.monotonic() - self._published_s >= _EVERY_S:
            self._publish_now()


def state_of_job(job: FollowedJob) -> State:
    """Returns the state of a job that has begun."""
    if not job.done():
        return "running"
    error = job.exception()
    return "done" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"
