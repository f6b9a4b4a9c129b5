"""Panes of XLA's counts from a worker process. Counting takes seconds for large programs, so it starts on request."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from inspector.support import memory_release
from inspector.widgets.panes.framework.pane import Context, Entry, Pane
from inspector.widgets.variants import Variant

T = TypeVar("T")


class CountedPane(Pane):
    """Answers requests on a separate thread, and computes its values once per variant."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is counted yet."""
        super().__init__(name, context)
        self._values: dict[int, dict[Hashable, Any]] = {}
        self._counting = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=f"inspector-{name}")

    def reply(self, request: Any) -> Entry:
        """Returns the reply to a request, with the error if there is one."""
        raise NotImplementedError

    def answer(self, request: Any) -> None:
        """Replies as soon as the values are counted."""
        with contextlib.suppress(RuntimeError):  # closed
            self._counting.submit(lambda: self.context.publish(self.reply(request)))

    def settle(self) -> None:
        """Waits until the reply thread is idle."""
        with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # closed
            self._counting.submit(lambda: None).result()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's values."""
        self._values.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Stops counting."""
        self._counting.shutdown(wait=False, cancel_futures=True)
        self._values.clear()

    def once(self, variant: Variant, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the first result of `make`, stored as long as the variant exists. Only called on the reply thread."""
        values = self._values.get(variant.number, {})
        if key in values:
            value: T = values[key]
            return value
        value = make()
        memory_release.give_back()  # temporary memory of counting
        with self.context.lock:
            if self.context.holds(variant):
                self._values.setdefault(variant.number, {})[key] = value
        return value
