"""The compiles of an Explorer: its variants, each with its program and its job."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inspector.errors import ClosedError, ParameterError
from inspector.widgets import messages
from inspector.widgets.lowerings import Lowerings
from inspector.widgets.panes.framework.board import Board
from inspector.widgets.variants import Variant, labels

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.compilation.options.options import Options
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.stages.lowered import Lowered
    from inspector.widgets.app import App
    from inspector.widgets.panes.registry import PaneEntry
    from inspector.widgets.work import Work


@dataclasses.dataclass(frozen=True, slots=True)
class _Start:
    """What a variant begins with: the compile of a program, or why there is none."""

    options: Options
    target: Target
    tuning: Tuning
    lowered: Lowered | None = None
    job: Job[CompiledProgram] | None = None
    error: Exception | None = None


class Compiles:
    """Starts, follows and ends them. Thread-safe."""

    def __init__(
        self,
        lowered: Lowered,
        work: Work,
        tuning: Tuning,
        app: App,
        lines: Sequence[PaneEntry],
        later: Callable[[Callable[[], object]], None],
        aside: Callable[[Callable[[], object]], None],
        refresh: Callable[[], object],
    ) -> None:
        """There is no variant yet.

        Args:
          lowered: the program.
          work: how to lower, compile and run.
          tuning: what `lowered` has in place of what its Pallas kernels say.
          app: where it is shown.
          lines: the panes, of the registry.
          later: does a task on the Explorer's thread.
          aside: does a task that may take seconds on another.
          refresh: called when a compile has ended, more was recorded of a variant, or one is gone.
        """
        self.lowerings, self.work = Lowerings(work, lowered, tuning), work
        self._later, self._refresh = later, refresh
        self._lock = threading.RLock()
        self._variants: dict[int, Variant] = {}
        self._numbers = itertools.count()
        self._is_closed = False
        self.board = Board(lines, app, lambda: self.work, self._lock, self._variants, later, aside, self.tune, refresh)

    @property
    def lowered(self) -> Lowered:
        """The program, as the baseline has it."""
        with self._lock:
            self.check_open()
            return self.lowerings.lowered

    @property
    def tuning(self) -> Tuning:
        """What the baseline's program has in place of what its Pallas kernels say."""
        with self._lock:
            self.check_open()
            return self.lowerings.tuning

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the baseline first."""
        with self._lock:
            self.check_open()
            return tuple(self._variants.values())

    @property
    def are_busy(self) -> bool:
        """Whether one is still under way."""
        with self._lock:
            return any(not variant.shown.is_set() for variant in self._variants.values())

    def check_open(self) -> None:
        """Raises ClosedError once they are closed."""
        if self._is_closed:
            raise ClosedError("This Explorer is closed. Call explore() again, or take what you need before close().")

    def start(self, options: Options, target: Target, tuning: Tuning) -> Variant:
        """Starts a variant, or returns the one with an equal request, unless that failed or was canceled.

        A variant that cannot be lowered is one that has failed.
        """
        while True:
            with self._lock:
                self.check_open()
                lowerings, work = self.lowerings, self.work
            tuning = lowerings.adapted(target, tuning)
            try:
                lowered = lowerings.get(target, tuning)
            except Exception as error:  # user code ran: anything may come out of it
                with self._lock:
                    self.check_open()
                    return self._register(_Start(options, target, tuning, error=error))
            request = work.request(lowered, options, target)
            if (existing := self._equal(request.options, request.target, tuning)) is not None:
                self.board.publish(messages.Existing(type="existing", variant=existing.number))
                return existing
            job = work.submit(request)
            with self._lock:
                if not self._is_closed and self.lowerings is lowerings:
                    variant = self._register(_Start(request.options, request.target, tuning, lowered, job))
                    break
            job.cancel()  # closed, or lowered again: this was the old program
        self.board.follow(variant, job, self._refresh)
        return variant

    def _equal(self, options: Options, target: Target, tuning: Tuning) -> Variant | None:
        """The variant with that request, None where there is none worth going back to."""
        wanted = options, target, tuning
        for variant in self.variants:
            is_equal = (variant.options, variant.target, variant.tuning) == wanted
            if is_equal and variant.state not in ("failed", "cancelled"):
                return variant
        return None

    def tune(self, options: Options, target: Target, tuning: Tuning) -> Variant:
        """As `start`, but what lowering says is raised: it belongs beside what was typed."""
        with self._lock:
            self.check_open()
            lowerings = self.lowerings
        lowerings.get(target, lowerings.adapted(target, tuning))
        return self.start(options, target, tuning)

    def cancel(self, variant: Variant) -> None:
        """Stops what is under way for a variant: its compile, and what panes do."""
        self.board.cancel(variant)
        if variant.job is not None:
            variant.job.cancel()

    def remove(self, variant: Variant) -> None:
        """Takes a variant away and cancels its compile.

        Raises:
          ValueError: it is the baseline, pinned, not one of these, or no variant.
        """
        with self._lock:
            self._check_mine(variant, "removed")
            if variant.is_pinned:
                raise ValueError(
                    f"{variant.label} cannot be removed: it is pinned. Unpin it first: pin(variant, False)."
                )
            cancel = self._forget(variant)
            self._name_all()
        cancel()
        self._refresh()

    def pin(self, variant: Variant, is_pinned: bool) -> None:
        """Keeps a variant from being removed, and shows it right after the baseline; or no more.

        Raises:
          ValueError: it is the baseline, not one of these, or no variant.
        """
        with self._lock:
            self._check_mine(variant, "pinned")
            variant.is_pinned = is_pinned
            self.board.publish(variant.message())

    def _check_mine(self, variant: Variant, done: str) -> None:
        """Under the lock."""
        self.check_open()
        if not isinstance(variant, Variant):
            raise ParameterError(f"Expected one of the Explorer's `variants`, got {variant!r}.")
        if variant.is_baseline or self._variants.get(variant.number) is not variant:
            raise ValueError(f"{variant.label} cannot be {done}: it is the baseline, or gone already.")

    def _name_all(self) -> None:
        """Names each by what sets it apart now; under the lock. Those that were called otherwise are told."""
        variants = tuple(self._variants.values())
        for variant, name in zip(variants, labels(variants), strict=True):
            if variant.name != name:
                is_new, variant.name = not variant.name, name
                if not is_new:
                    self.board.publish(variant.message())

    def start_over(self, axes: Sequence[tuple[str, int]]) -> Variant | None:
        """Lowers under another axis environment and starts over with the options of all variants.

        Returns:
          The new baseline, None where the Explorer was closed meanwhile. Of the others those that cannot be lowered so are
          variants that have failed.

        Raises:
          Exception: whatever user code, lowering or the baseline's request raises; nothing has changed then.
        """
        again = self.lowerings.under(axes)
        texts = self.board.lowered(again.lowered)
        before = self.variants
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
        """A variant under another axis environment; raises only what is wrong with the baseline."""
        target = variant.target
        try:
            target = self.work.suit(lowerings.lowered, target)
            lowered = lowerings.get(target, variant.tuning)
            request = self.work.request(lowered, variant.options, target)
            return _Start(request.options, request.target, variant.tuning, lowered, self.work.submit(request))
        except Exception as error:  # user code ran: anything may come out of it
            if variant.is_baseline:
                raise
            return _Start(variant.options, target, variant.tuning, error=error)

    def close(self) -> None:
        """Cancels what is under way, and lets go of all programs."""
        with self._lock:
            self._is_closed = True
            variants = tuple(self._variants.values())
            self._variants.clear()
        self.board.close()
        for variant in variants:
            if variant.job is not None:
                variant.job.cancel()
            variant.shown.set()
        # A result of a cell, in `Out`, would keep the user's arrays and every text.
        with self._lock:
            del self.lowerings, self.work

    def _register(self, start: _Start) -> Variant:
        """Adds a variant; the caller holds the lock."""
        number, lowered = next(self._numbers), start.lowered
        variant = Variant(
            number, not self._variants, start.options, start.target, lowered, start.tuning, start.job, start.error
        )
        if variant.job is None:
            variant.shown.set()
        self._variants[number] = variant
        self._name_all()
        self.board.begin(variant)
        if lowered is not None and lowered is not self.lowered:
            self.board.publish_all(self.board.lowered(lowered, number))
        return variant

    def _forget(self, variant: Variant) -> Callable[[], None]:
        """Takes a variant out, under the lock; the caller then cancels its work, which engines may lock for."""
        del self._variants[variant.number]
        stop = self.board.forget(variant)
        variant.shown.set()

        def cancel() -> None:
            stop()
            if variant.job is not None:
                variant.job.cancel()

        return cancel
