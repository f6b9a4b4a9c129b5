"""The products that are recorded for variants on request, each with a second compile."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from inspector.compilation.compiled import CompiledProgram, not_asked_for
from inspector.compilation.request import PRODUCTS, CompileRequest
from inspector.widgets import messages
from inspector.widgets.variants import Variant, state_of

if TYPE_CHECKING:
    from inspector.compilation.engine import Job
    from inspector.widgets.panes.framework.pane import Context

Show = Callable[[Variant, messages.Product, CompiledProgram], None]


@dataclasses.dataclass(slots=True, eq=False)
class _Recording:
    """One product of one variant; `job` is None if the variant's own compile recorded it (`is_known`)."""

    variant: Variant
    product: messages.Product
    job: Job[CompiledProgram] | None
    is_known: bool
    is_shown: bool = False

    @property
    def is_running(self) -> bool:
        return self.job is not None and not self.job.done()


class Products:
    """The products of all variants. Thread-safe."""

    def __init__(self, context: Context, show: Show) -> None:
        """Creates the products; nothing is recorded yet.

        Args:
          context: services of the Explorer.
          show: receives a compile with the product, on one of the Explorer's threads.
        """
        self._context, self._show = context, show
        self._lock = threading.Lock()
        self._recordings: dict[tuple[int, messages.Product], _Recording] = {}

    def start(self, variant: Variant, product: messages.Product) -> None:
        """Records a product of a variant, unless it is being recorded or already recorded.

        Raises:
          InspectorError: the variant is not compiled, or there is no such product.
        """
        compiled: CompiledProgram = variant.compiled_now
        request = CompileRequest(compiled.program, compiled.options, compiled.target, frozenset([product]))
        key = variant.number, product
        is_known = getattr(compiled, product) != not_asked_for(product)
        with self._lock:
            existing = self._recordings.get(key)
            if existing is not None and (existing.is_shown or existing.is_running or existing.is_known):
                return
            job = None if is_known else self._context.work().submit(request)
            recording = self._recordings[key] = _Recording(variant, product, job, is_known)
        if job is None:
            # Reading the buffers of a large program takes seconds.
            self._context.aside(lambda: self._fill(recording, compiled))
            return
        job.add_progress_callback(lambda _: self._publish_state(recording, job))
        job.add_done_callback(lambda _: self._context.later(lambda: self._end(recording, job)))
        self._publish_state(recording, job)

    def show_known(self, variant: Variant) -> None:
        """Shows the products that a variant's own compile recorded, such as the buffers for a device that is not attached."""
        compiled: CompiledProgram = variant.compiled_now
        for product in PRODUCTS:
            if getattr(compiled, product) != not_asked_for(product):
                self.start(variant, product)

    def shown(self, variant: Variant) -> tuple[messages.Product, ...]:
        """Returns the products that are recorded for a variant."""
        with self._lock:
            return tuple(
                product for (number, product), r in self._recordings.items() if number == variant.number and r.is_shown
            )

    def cancel(self, variant: Variant) -> None:
        """Stops the running work for a variant."""
        with self._lock:
            jobs = [
                r.job for (number, _), r in self._recordings.items() if number == variant.number and r.job is not None
            ]
        for job in jobs:
            job.cancel()

    def forget(self, number: int) -> Callable[[], None]:
        """Drops the recordings of a variant; the caller then calls the returned function, which stops the work."""
        with self._lock:
            removed = [self._recordings.pop(key) for key in list(self._recordings) if key[0] == number]
        jobs = [recording.job for recording in removed if recording.job is not None]

        def cancel() -> None:
            for job in jobs:
                job.cancel()

        return cancel

    def close(self) -> None:
        """Stops all recordings."""
        with self._lock:
            numbers = {number for number, _ in self._recordings}
        for number in numbers:
            self.forget(number)()

    def _publish_state(self, recording: _Recording, job: Job[CompiledProgram]) -> None:
        state = state_of(job)
        error = job.exception() if state == "failed" else None
        message = messages.Recording(
            type="recording", variant=recording.variant.number, product=recording.product, state=state,
            stage=job.stage, elapsed_s=job.elapsed_s,
            error=None if error is None else messages.error_of(error),
        )  # fmt: skip
        self._context.publish(message)

    def _end(self, recording: _Recording, job: Job[CompiledProgram]) -> None:
        if job.exception() is None:
            self._fill(recording, job.result())
        self._publish_state(recording, job)

    def _fill(self, recording: _Recording, compiled: CompiledProgram) -> None:
        recording.is_shown = True
        recording.job = None  # panes store what they need of the compile
        self._show(recording.variant, recording.product, compiled)
