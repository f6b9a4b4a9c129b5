"""Measurements of an Explorer's variants, for the Run pane."""

from __future__ import annotations

import threading
from collections.abc import Callable

from inspector.errors import CancelledError
from inspector.widgets.panes import Panes
from inspector.widgets.run import run_message, run_result
from inspector.widgets.variants import Variant
from inspector.widgets.work import RunJob, Work


class Runs:
    """Every variant's latest. Thread-safe, under its Explorer's lock."""

    def __init__(
        self,
        work: Callable[[], Work],
        panes: Panes,
        lock: threading.RLock,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        """Nothing runs yet.

        Args:
          work: how to run.
          panes: where the results are shown.
          lock: guards which variants there are.
          later: does a task on the Explorer's thread.
        """
        self._work, self._panes, self._lock, self._later = work, panes, lock, later
        self._held: dict[int, RunJob] = {}

    def start(self, variant: Variant, repeat: int) -> None:
        """Checking and making inputs can take seconds, so not even that is done on the comm's thread."""
        self._panes.publish_of(variant, run_message(variant.number, "queued"))
        self._later(lambda: self._run(variant, repeat))

    def cancel(self, number: int) -> None:
        """Stops what is under way for a variant."""
        run = self._held.get(number)
        if run is not None:
            run.cancel()

    def forget(self, number: int) -> Callable[[], None]:
        """Drops what belongs to a variant, under the lock; the caller then calls what is returned, which stops it."""
        run = self._held.pop(number, None)

        def cancel() -> None:
            if run is not None:
                run.cancel()

        return cancel

    def close(self) -> None:
        """Stops everything."""
        with self._lock:
            runs = tuple(self._held.values())
            self._held.clear()
        for run in runs:
            run.cancel()

    def _run(self, variant: Variant, repeat: int) -> None:
        try:
            run = self._work().run(variant.compiled_now, repeat)
        except Exception as error:  # whatever it is, it belongs in the pane
            self._panes.publish_of(variant, run_message(variant.number, "failed", error=error))
            return
        with self._lock:
            held = self._panes.holds(variant)
            if held:
                self._held[variant.number] = run
        if not held:
            run.cancel()
            return
        self._panes.publish_of(variant, run_message(variant.number, "running", run))
        run.add_done_callback(lambda _: self._later(lambda: self._show(variant, run)))

    def _show(self, variant: Variant, run: RunJob) -> None:
        try:
            message = run_message(variant.number, "done", run, result=run_result(run.result()))
        except CancelledError:
            message = run_message(variant.number, "cancelled", run)
        except Exception as error:  # whatever it is, it belongs in the pane
            message = run_message(variant.number, "failed", run, error=error)
        if self._held.get(variant.number) is run:
            self._panes.publish_of(variant, message)
