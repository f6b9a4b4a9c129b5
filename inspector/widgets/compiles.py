"""The compiles of an Explorer: its variants, each with its program and its job."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inspector.errors import ClosedError, ParameterError
from inspector.support.notebook import short
from inspector.widgets import messages
from inspector.widgets.panes.framework.board import Board
from inspector.widgets.variants import Variant, Variants, labels

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.compilation.options.options import Options
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.stages.lowered import Lowered
    from inspector.widgets.app import App
    from inspector.widgets.lowerings import Lowerings
    from inspector.widgets.panes.registry import PaneEntry
    from inspector.widgets.threads import Threads
    from inspector.widgets.work import Work


@dataclasses.dataclass(frozen=True, slots=True)
class _Start:
    """The initial state of a variant: the compile of a program, or the error that prevented it."""

    options: Options
    target: Target
    tuning: Tuning
    lowered: Lowered | None = None
    job: Job[CompiledProgram] | None = None
    error: Exception | None = None


class Compiles:
    """Starts, tracks and ends the compiles of an Explorer. Thread-safe."""

    def __init__(
        self,
        lowerings: Lowerings,
        app: App,
        lines: Sequence[PaneEntry],
        threads: Threads,
        refresh: Callable[[], object],
    ) -> None:
        """Creates the compiles without any variant.

        Args:
          lowerings: the program's lowerings.
          app: the app that shows the variants.
          lines: registry entries of the panes.
          threads: the Explorer's threads.
          refresh: called when a compile has ended, when more data of a variant was recorded, or when a variant was removed.
        """
        self.lowerings, self._refresh = lowerings, refresh
        self._variants = Variants()
        self._lock = self._variants.lock
        self._numbers = itertools.count()
        self._is_closed = False
        self.board = Board(lines, app, threads, self._variants, self)

    @property
    def work(self) -> Work:
        """Lowers, compiles and runs; not available once the Explorer is closed."""
        return self.lowerings.work

    @property
    def lowered(self) -> Lowered:
        """The lowered program of the baseline."""
        with self._lock:
            self.check_open()
            return self.lowerings.lowered

    @property
    def tuning(self) -> Tuning:
        """The changes that the baseline's program has to its Pallas kernels and its call."""
        with self._lock:
            self.check_open()
            return self.lowerings.tuning

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the baseline first."""
        with self._lock:
            self.check_open()
            return tuple(self._variants)

    @property
    def are_busy(self) -> bool:
        """True while a compile is running."""
        with self._lock:
            return any(not variant.shown.is_set() for variant in self._variants)

    def variant(self, number: int) -> Variant:
        """Returns a variant by its number; raises ValueError if it was removed."""
        return self._variants.by_number(number)

    def refresh(self) -> None:
        """Updates the notebook's stored output."""
        self._refresh()

    def check_open(self) -> None:
        """Raises ClosedError if the Explorer is closed."""
        if self._is_closed:
            raise ClosedError("This Explorer is closed. Call explore() again, or get its results before close().")

    def start(
        self, options: Options, target: Target, tuning: Tuning, opened: Lowered | None = None, origin: str = ""
    ) -> Variant:
        """Starts a variant. If a variant with an equal request exists and did not fail or get canceled, returns that one.

        A program that cannot be lowered becomes a failed variant.

        Args:
          options: the options.
          target: the target.
          tuning: the tuning.
          opened: the program of this variant, if it is another one than the baseline's, such as another module of a file or
            the previous version of the function.
          origin: as in `Variant`.
        """
        while True:
            with self._lock:
                self.check_open()
                lowerings, work = self.lowerings, self.work
            tuning = lowerings.adapted(target, tuning)
            try:
                lowered = opened or lowerings.get(target, tuning)
            except Exception as error:  # user code can raise anything
                with self._lock:
                    self.check_open()
                    return self._register(_Start(options, target, tuning, error=error), origin)
            request = work.request(lowered, options, target)
            if (existing := self._equal(request.options, request.target, tuning, lowered)) is not None:
                self.board.publish(messages.Existing(type="existing", variant=existing.number))
                return existing
            job = work.submit(request)
            with self._lock:
                if not self._is_closed and self.lowerings is lowerings:
                    variant = self._register(_Start(request.options, request.target, tuning, lowered, job), origin)
                    break
            job.cancel()  # closed or lowered again, so the program is outdated
        self.board.follow(variant, job, self._refresh)
        return variant

    def _equal(self, options: Options, target: Target, tuning: Tuning, lowered: Lowered) -> Variant | None:
        """Returns the variant with an equal request, or None if there is none or it failed or was canceled."""
        for variant in self.variants:
            is_equal = (variant.options, variant.target, variant.tuning) == (options, target, tuning)
            if is_equal and variant.lowered is lowered and variant.state not in ("failed", "cancelled"):
                return variant
        return None

    def tune(self, options: Options, target: Target, tuning: Tuning) -> Variant:
        """Starts a variant like `start`, but raises the errors of lowering, so that they are shown next to the input."""
        with self._lock:
            self.check_open()
            lowerings = self.lowerings
        lowerings.get(target, lowerings.adapted(target, tuning))
        return self.start(options, target, tuning)

    def cancel(self, variant: Variant) -> None:
        """Stops the running work for a variant: its compile, and the work of panes."""
        self.board.cancel(variant)
        if variant.job is not None:
            variant.job.cancel()

    def remove(self, variant: Variant) -> None:
        """Removes a variant and cancels its compile.

        Raises:
          ParameterError: `variant` is not a variant.
          ValueError: the variant is the baseline, pinned, or not in this Explorer.
        """
        with self._lock:
            self._check_own(variant, "removed")
            if variant.is_pinned:
                raise ValueError(
                    f"{variant.label} cannot be removed because it is pinned. Unpin it first: pin(variant, False)."
                )
            cancel = self._forget(variant)
            self._name_all()
        cancel()
        self._refresh()

    def pin(self, variant: Variant, is_pinned: bool) -> None:
        """Pins a variant, so that it is shown directly after the baseline and cannot be removed; or unpins it.

        Raises:
          ParameterError: `variant` is not a variant.
          ValueError: the variant is the baseline, or not in this Explorer.
        """
        with self._lock:
            self._check_own(variant, "pinned")
            variant.is_pinned = is_pinned
            self.board.publish(variant.message())

    def set_origin(self, variant: Variant, origin: str) -> None:
        """Marks a variant as another program than the baseline's; `origin` is as in `Variant`."""
        with self._lock:
            variant.origin = origin
            self._name_all()
            self.board.publish(variant.message())

    def _check_own(self, variant: Variant, done: str) -> None:
        """Checks that a variant can be changed. Called under the lock."""
        self.check_open()
        if not isinstance(variant, Variant):
            raise ParameterError(f"Expected one of the Explorer's `variants`, got {short(variant)}.")
        if variant.is_baseline or variant not in self._variants:
            raise ValueError(f"{variant.label} cannot be {done}: it is the baseline or already removed.")

    def _name_all(self) -> None:
        """Names each variant by its differences from the others, and publishes changed names. Called under the lock."""
        variants = tuple(self._variants)
        for variant, name in zip(variants, labels(variants), strict=True):
            if variant.name != name:
                is_new, variant.name = not variant.name, name
                if not is_new:
                    self.board.publish(variant.message())

    def start_over(self, axes: Sequence[tuple[str, int]]) -> Variant | None:
        """Lowers with a different axis environment and starts again with the options of all variants.

        Returns:
          The new baseline, or None if the Explorer was closed in the meantime. Other variants that cannot be lowered this way
          become failed variants. Variants of other programs, such as the previous version of the function, are removed, as they
          cannot be lowered again.

        Raises:
          Exception: any error of user code, lowering or the baseline's request; the Explorer is unchanged then.
        """
        again = self.lowerings.under(axes)
        texts = self.board.lowered(again.lowered)
        before = [variant for variant in self.variants if variant.is_baseline or not variant.origin]
        starts = [self._again(again, variant) for variant in before]
        with self._lock:
            cancels: list[Callable[[], object]] = []
            variants: list[Variant] = []
            if self._is_closed:
                cancels.extend(start.job.cancel for start in starts if start.job is not None)
            else:
                cancels.extend(self._forget(variant) for variant in self.variants)
                self.lowerings = again
                self.board.publish_all(texts)
                variants = [self._register(start) for start in starts]
                for variant, old in zip(variants, before, strict=True):
                    if old.is_pinned:
                        self.pin(variant, True)
        for cancel in cancels:
            cancel()
        for variant in variants:
            if variant.job is not None:
                self.board.follow(variant, variant.job, self._refresh)
        self._refresh()
        return variants[0] if variants else None

    def _again(self, lowerings: Lowerings, variant: Variant) -> _Start:
        """Starts a variant with a different axis environment; raises only the errors of the baseline."""
        target = variant.target
        try:
            target = self.work.suit(lowerings.lowered, target)
            lowered = lowerings.get(target, variant.tuning)
            request = self.work.request(lowered, variant.options, target)
            return _Start(request.options, request.target, variant.tuning, lowered, self.work.submit(request))
        except Exception as error:  # user code can raise anything
            if variant.is_baseline:
                raise
            return _Start(variant.options, target, variant.tuning, error=error)

    def close(self) -> None:
        """Cancels all running work, and releases all programs."""
        with self._lock:
            self._is_closed = True
            variants = tuple(self._variants)
            self._variants.clear()
        self.board.close()
        for variant in variants:
            if variant.job is not None:
                variant.job.cancel()
            variant.shown.set()
        # Without this, a result of a cell in `Out` would keep the user's arrays and every text alive.
        with self._lock:
            del self.lowerings

    def _register(self, start: _Start, origin: str = "") -> Variant:
        """Adds a variant. The caller must hold the lock."""
        number, lowered = next(self._numbers), start.lowered
        variant = Variant(
            number,
            not self._variants,
            start.options,
            start.target,
            lowered,
            start.tuning,
            start.job,
            start.error,
            origin=origin,
        )
        if variant.job is None:
            variant.shown.set()
        self._variants.add(variant)
        self._name_all()
        self.board.begin(variant)
        if lowered is not None and lowered is not self.lowered:
            self.board.publish_all(self.board.lowered(lowered, number))
        return variant

    def _forget(self, variant: Variant) -> Callable[[], None]:
        """Removes a variant, under the lock.

        The caller then calls the returned function, which cancels its work and may need the locks of engines.
        """
        self._variants.remove(variant)
        stop = self.board.forget(variant)
        variant.shown.set()

        def cancel() -> None:
            stop()
            if variant.job is not None:
                variant.job.cancel()

        return cancel
