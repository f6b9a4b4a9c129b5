"""Panes of what XLA counts in a worker process, which takes seconds for large programs: asked for when somebody looks."""

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
    """Answers on a thread of its own, and makes what it shows once for each variant."""

    def __init__(self, name: str, context: Context) -> None:
        """Counts nothing yet."""
        super().__init__(name, context)
        self._made: dict[int, dict[Hashable, Any]] = {}
        self._counting = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=f"inspector-{name}")

    def reply(self, request: Any) -> Entry:
        """The reply to a request, with the error where there is one."""
        raise NotImplementedError

    def answer(self, request: Any) -> None:
        """Replies once it is counted."""
        with contextlib.suppress(RuntimeError):  # closed
            self._counting.submit(lambda: self.context.publish(self.reply(request)))

    def settle(self) -> None:
        """Waits for the thread of the replies."""
        with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # closed
            self._counting.submit(lambda: None).result()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what was made for it."""
        self._made.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Counts no more."""
        self._counting.shutdown(wait=False, cancel_futures=True)
        self._made.clear()

    def once(self, variant: Variant, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave the first time, as long as the variant is there. On the thread of the replies only."""
        made = self._made.get(variant.number, {})
        if key in made:
            found: T = made[key]
            return found
        value = make()
        memory_release.give_back()  # what counting took besides
        with self.context.lock:
            if self.context.holds(variant):
                self._made.setdefault(variant.number, {})[key] = value
        return value
