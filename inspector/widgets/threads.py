"""The threads of an Explorer, on which results are prepared for the panes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from inspector import settings
from inspector.widgets import messages

Task = Callable[[], object]


class Threads:
    """Two threads, each of which runs its tasks in order. An exception of a task is shown to the user."""

    def __init__(self, publish: Callable[[Mapping[str, Any]], object]) -> None:
        """Creates the threads; they start with their first task.

        Args:
          publish: sends a message with the error of a task to the browser.
        """
        self._publish = publish
        self._main, self._aside = (
            concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name, initializer=settings.here())
            for name in ("inspector-explorer", "inspector-explorer-aside")
        )

    def later(self, task: Task) -> None:
        """Runs a task on the Explorer's thread."""
        self._submit(self._main, task)

    def aside(self, task: Task) -> None:
        """Runs a task that may take seconds on the other thread."""
        self._submit(self._aside, task)

    def drain(self, deadline: float | None = None) -> None:
        """Waits for the tasks that the threads already have, such as another lowering.

        Args:
          deadline: a time of the monotonic clock in seconds; None to wait without a limit.

        Raises:
          TimeoutError: the tasks are not done at the deadline.
        """
        try:
            for thread in (self._main, self._aside):
                thread.submit(lambda: None).result(remaining(deadline))
        except (RuntimeError, concurrent.futures.CancelledError):  # closed, before or in the meantime
            return
        except concurrent.futures.TimeoutError:
            raise TimeoutError("The Explorer is still busy with earlier requests. It continues to work.") from None

    def close(self) -> None:
        """Drops all tasks that have not started; later tasks are ignored."""
        for thread in (self._main, self._aside):
            thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, thread: concurrent.futures.Executor, task: Task) -> None:
        def guarded() -> None:
            try:
                task()
            except Exception as error:
                self._publish(messages.notice_of(error))

        with contextlib.suppress(RuntimeError):  # closed
            thread.submit(guarded)


def remaining(deadline: float | None) -> float | None:
    """Returns the seconds until a time of the monotonic clock, at least 0; None for no deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
