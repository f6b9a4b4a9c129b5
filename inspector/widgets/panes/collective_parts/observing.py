"""Runs that record the inputs and outputs of collectives: a job for each variant, which the user can stop."""

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
from inspector.widgets.panes.framework.running_jobs import RunningJobs
from inspector.widgets.variants import Variant
from inspector.widgets.work import NO_FUNCTION, ObserveJob


class Observing:
    """The observations of one Explorer."""

    def __init__(self, context: Context) -> None:
        """Creates the object; nothing is observed yet."""
        self.context = context
        self._jobs: RunningJobs[ObserveJob] = RunningJobs(context)
        self._enter = settings.here()

    def answer(self, request: ObserveRequest) -> None:
        """Starts an observation on the Explorer's thread. Lowering and the run in another process execute user code of any duration."""
        variant = self.context.variant(request["variant"])
        self.context.publish(observed_message(variant.number, "queued"))
        self.context.later(lambda: self._begin(variant, request["apart"]))

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's observation."""
        self._jobs.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's observation; the caller then calls the returned function, which stops it."""
        return self._jobs.forget(variant)

    def close(self) -> None:
        """Stops all observations."""
        self._jobs.close()

    def _begin(self, variant: Variant, apart: bool) -> None:
        lowered = variant.lowered
        start = time.perf_counter()
        try:
            if lowered is None:
                raise ParameterError(NO_FUNCTION)
            job = self.context.work().observe(lowered, apart)
        except Exception as error:  # user code can raise anything; the pane shows it
            self.context.publish(observed_message(variant.number, "failed", error=error))
            return
        if not self._jobs.keep(variant, job):
            return
        self.context.publish(observed_message(variant.number, "running", elapsed_s=time.perf_counter() - start))
        # A separate thread, because it waits; a daemon thread, so that the interpreter does not wait for it at exit.
        threading.Thread(target=self._observe, args=(variant, lowered, job, start), daemon=True).start()

    def _observe(self, variant: Variant, lowered: Lowered, job: ObserveJob, start: float) -> None:
        self._enter()
        try:
            observed = job.result()
            before, module = lowered.collectives(), self.context.module(variant)
            counts = (before.num_replicas, before.num_partitions)
            after = None if module is None else collectives(module, before.mesh, *counts)
            items = observations(observed, before, after)
            took = time.perf_counter() - start
            message = observed_message(
                variant.number, "done", elapsed_s=took, device_kind=observed.device_kind, items=items
            )
        except CancelledError:
            message = observed_message(variant.number, "cancelled", elapsed_s=time.perf_counter() - start)
        except Exception as error:  # the pane shows any error
            took = time.perf_counter() - start
            message = observed_message(variant.number, "failed", elapsed_s=took, error=error)
        if self._jobs.end(variant, job):
            self.context.publish(message)
            self.context.recorded()
