"""What is recorded of variants when the browser asks for it: a second compile each, with a product."""

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

Show = Callable[[Variant, messages.Product, CompiledProgram], None]


@dataclasses.dataclass(slots=True, eq=False)
class _Recording:
    """One product of one variant; `job` is None where the variant's own compile recorded it (`is_known`)."""

    variant: Variant
    product: messages.Product
    job: Job[CompiledProgram] | None
    is_known: bool
    is_shown: bool = False

    @property
    def goes_on(self) -> bool:
        return self.job is not None and not self.job.done()


class Products:
    """Every variant's. Thread-safe."""

    def __init__(
        self,
        submit: Callable[[CompileRequest], Job[CompiledProgram]],
        later: Callable[[Callable[[], None]], None],
        aside: Callable[[Callable[[], None]], None],
        publish: Callable[[messages.Recording], None],
        show: Show,
    ) -> None:
        """Nothing is recorded yet.

        Args:
          submit: starts a compile.
          later: does a task on the Explorer's thread.
          aside: does a task on another thread; reading the buffers of a large program takes seconds.
          publish: tells the browser how a recording fares, unless its variant is gone.
          show: takes a compile that has the product, on one of these threads.
        """
        self._submit, self._later, self._aside, self._publish, self._show = submit, later, aside, publish, show
        self._lock = threading.Lock()
        self._held: dict[tuple[int, messages.Product], _Recording] = {}

    def start(self, variant: Variant, product: messages.Product) -> None:
        """Records a product of a variant, unless that is under way or done.

        Raises:
          InspectorError: the variant is not compiled, or there is no such product.
        """
        compiled: CompiledProgram = variant.compiled_now
        request = CompileRequest(compiled.program, compiled.options, compiled.target, frozenset([product]))
        key = variant.number, product
        is_known = getattr(compiled, product) != not_asked_for(product)
        with self._lock:
            held = self._held.get(key)
            if held is not None and (held.is_shown or held.goes_on or held.is_known):
                return
            job = None if is_known else self._submit(request)
            recording = self._held[key] = _Recording(variant, product, job, is_known)
        if job is None:
            self._aside(lambda: self._fill(recording, compiled))
            return
        job.add_progress_callback(lambda _: self._tell(recording, job))
        job.add_done_callback(lambda _: self._later(lambda: self._end(recording, job)))
        self._tell(recording, job)

    def show_known(self, variant: Variant) -> None:
        """Shows the products that a variant's own compile recorded, such as the buffers of a device that is not attached."""
        compiled: CompiledProgram = variant.compiled_now
        for product in PRODUCTS:
            if getattr(compiled, product) != not_asked_for(product):
                self.start(variant, product)

    def shown(self, variant: Variant) -> tuple[messages.Product, ...]:
        """The products of a variant that are recorded."""
        with self._lock:
            return tuple(
                product for (number, product), r in self._held.items() if number == variant.number and r.is_shown
            )

    def cancel(self, variant: Variant) -> None:
        """Stops what is under way for a variant."""
        with self._lock:
            jobs = [r.job for (number, _), r in self._held.items() if number == variant.number and r.job is not None]
        for job in jobs:
            job.cancel()

    def forget(self, number: int) -> Callable[[], None]:
        """Drops what belongs to a variant; the caller then calls what is returned, which stops the work."""
        with self._lock:
            gone = [self._held.pop(key) for key in list(self._held) if key[0] == number]
        jobs = [recording.job for recording in gone if recording.job is not None]

        def cancel() -> None:
            for job in jobs:
                job.cancel()

        return cancel

    def close(self) -> None:
        """Stops everything."""
        with self._lock:
            numbers = {number for number, _ in self._held}
        for number in numbers:
            self.forget(number)()

    def _tell(self, recording: _Recording, job: Job[CompiledProgram]) -> None:
        state = state_of(job)
        error = job.exception() if state == "failed" else None
        message = messages.Recording(
            type="recording", variant=recording.variant.number, product=recording.product, state=state,
            stage=job.stage, elapsed_s=job.elapsed_s,
            error=None if error is None else messages.error_of(error),
        )  # fmt: skip
        self._publish(message)

    def _end(self, recording: _Recording, job: Job[CompiledProgram]) -> None:
        if job.exception() is None:
            self._fill(recording, job.result())
        self._tell(recording, job)

    def _fill(self, recording: _Recording, compiled: CompiledProgram) -> None:
        recording.is_shown = True
        recording.job = None  # all that is kept of its compile is what panes keep
        self._show(recording.variant, recording.product, compiled)
