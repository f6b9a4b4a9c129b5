"""Runs that show what collectives take and give: a job for each variant, which the user can stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from inspector import settings
from inspector.analysis.collectives.collectives import collectives
from inspector.errors import CancelledError, ParameterError
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.collective_parts.observed import ObserveRequest, observations, observed_message
from inspector.widgets.panes.framework.pane import Context
from inspector.widgets.variants import Variant
from inspector.widgets.work import ObserveJob


class Observing:
    """Those of one Explorer."""

    def __init__(self, context: Context) -> None:
        """Observes nothing yet."""
        self.context = context
        self._held: dict[int, ObserveJob] = {}
        self._enter = settings.here()

    def answer(self, request: ObserveRequest) -> None:
        """Lowering runs user code, and so does what follows in another process: as long as it takes."""
        variant = self.context.variant(request["variant"])
        self.context.publish(observed_message(variant.number, "queued"))
        self.context.later(lambda: self._begin(variant, request["apart"]))

    def cancel(self, variant: Variant) -> None:
        """Stops what runs of it."""
        job = self._held.get(variant.number)
        if job is not None:
            job.cancel()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what runs of it; the caller then calls what is returned, which stops it."""
        job = self._held.pop(variant.number, None)
        return (lambda: None) if job is None else job.cancel

    def close(self) -> None:
        """Stops all that runs."""
        with self.context.lock:
            jobs = tuple(self._held.values())
            self._held.clear()
        for job in jobs:
            job.cancel()

    def _begin(self, variant: Variant, apart: bool) -> None:
        lowered, observe = variant.lowered, self.context.work().observe
        start = time.perf_counter()
        try:
            if lowered is None or observe is None:
                raise ParameterError(_NO_FUNCTION)
            job = observe(lowered, apart)
        except Exception as error:  # user code ran: whatever it is, it belongs in the pane
            self.context.publish(observed_message(variant.number, "failed", error=error))
            return
        with self.context.lock:
            is_held = self.context.holds(variant)
            before = self._held.pop(variant.number, None)
            if is_held:
                self._held[variant.number] = job
        if before is not None:
            before.cancel()
        if not is_held:
            job.cancel()
            return
        self.context.publish(observed_message(variant.number, "running", elapsed_s=time.perf_counter() - start))
        # It waits, so it is no thread of the Explorer's; and none that the interpreter waits for when it ends.
        threading.Thread(target=self._observe, args=(variant, lowered, job, start), daemon=True).start()

    def _observe(self, variant: Variant, lowered: Lowered, job: ObserveJob, start: float) -> None:
        self._enter()
        try:
            found = job.result()
            before, module = lowered.collectives(), self.context.module(variant)
            counts = (before.num_replicas, before.num_partitions)
            after = None if module is None else collectives(module, before.mesh, *counts)
            items = observations(found, before, after)
            took = time.perf_counter() - start
            message = observed_message(
                variant.number, "done", elapsed_s=took, device_kind=found.device_kind, items=items
            )
        except CancelledError:
            message = observed_message(variant.number, "cancelled", elapsed_s=time.perf_counter() - start)
        except Exception as error:  # whatever it is, it belongs in the pane
            took = time.perf_counter() - start
            message = observed_message(variant.number, "failed", elapsed_s=took, error=error)
        with self.context.lock:
            is_held = self._held.get(variant.number) is job
            if is_held:
                del self._held[variant.number]
        if is_held:
            self.context.publish(message)
            self.context.recorded()


_NO_FUNCTION = "This was loaded from a file, without its function, so it cannot run again."
