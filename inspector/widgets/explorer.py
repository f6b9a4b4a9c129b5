"""`Explorer`: panes and controls over one program and its variants.

It asks for work through `Work` and never blocks: a callback of the comm starts a job and returns.
Jobs end on engine threads; what is then computed for the panes runs on one thread of the Explorer.
Everything on screen is also a Python value here.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from inspector.analysis.collectives import Collectives
from inspector.analysis.stats import compare
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options import Options
from inspector.compilation.target import Target
from inspector.errors import ClosedError, InspectorError, ParameterError
from inspector.hlo.module import Module
from inspector.hlo.pallas import AS_IT_IS, Tuning
from inspector.widgets import messages
from inspector.widgets.app import KERNEL_PANES, PANES, App
from inspector.widgets.controls import Controls
from inspector.widgets.documents import lowered_panes
from inspector.widgets.fallback import html_form, text_form
from inspector.widgets.graph import graph_reply
from inspector.widgets.lifetime import hold_weakly, keep
from inspector.widgets.lowerings import Lowerings, axes_of
from inspector.widgets.panes import Panes
from inspector.widgets.recordings import Recordings
from inspector.widgets.runs import Runs
from inspector.widgets.stored import StoredOutput, is_batch
from inspector.widgets.tuning import requested
from inspector.widgets.variants import OptionsLike, Variant
from inspector.widgets.work import LoweredView, Work

if TYPE_CHECKING:
    import pandas as pd

    from inspector.compilation.engine import Job
    from inspector.compilation.request import CompileRequest


_BATCH_LIMIT_S = 600.0


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """A widget that shows a program at every stage, and variants of its compilation side by side.

    Made by `inspector.explore`. Display it, or use it from Python: `lowered`, `variants`, `add`,
    `wait`, `compare`, `collectives`. It lives as long as something refers to it or a cell shows it; `close`
    ends it at once, and what is asked of it then raises `ClosedError`.
    """

    _is_closed = True  # until it is made: a widget whose making failed closes itself too

    def __init__(
        self,
        lowered: LoweredView,
        work: Work,
        *,
        options: OptionsLike = None,
        target: str | Target = "attached",
        tuning: Tuning = AS_IT_IS,
        can_lower: bool = True,
        height_px: int = 700,
        side_by_side: bool = False,
    ) -> None:
        """Shows `lowered` and starts compiling the baseline.

        Args:
          lowered: the program.
          work: how to lower, compile and run.
          options: of the baseline.
          target: of the baseline.
          tuning: what `lowered` has in place of what its Pallas kernels say.
          can_lower: whether another axis environment can be asked for.
          height_px: of the panes, at first.
          side_by_side: whether the optimized HLO of the variants stands side by side at first.

        Raises:
          OptionError, TargetError: the baseline's request is wrong.
          ParameterError: no such height.
        """
        height: Any = height_px  # a user's, whatever the annotation says
        if not isinstance(height, int) or height < 1:
            raise ParameterError(f"height_px is a number of CSS pixels, 1 or more, got {height_px!r}.")
        self.selection: Mapping[str, Any] | None = None
        self._is_closed = False
        self._work = work
        self._lowerings = Lowerings(work, lowered, tuning)
        self._variants: dict[int, Variant] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-explorer")
        self._stored = StoredOutput(self._form)
        self._recordings = Recordings(work.submit, self._later)
        self._app = App(
            lowered.program.name,
            height_px=height_px,
            side_by_side=side_by_side,
            notes=lowered.notes,
            on_request=self._on_request,
            panes=KERNEL_PANES if lowered.kernels else PANES,
        )
        self._panes = Panes(self._app, lambda: self._work, self._lock, self._variants)
        self._runs = Runs(lambda: self._work, self._panes, self._lock, self._later)
        self._controls = Controls(
            self._app.publish,
            work.targets,
            Target.parse(target),
            axes_of(lowered.program.mesh),
            self._add,
            self._start_lowering if can_lower else None,
            work.platform,
        )
        super().__init__([self._app])
        hold_weakly(self)
        hold_weakly(self.layout)
        self.add_class("inspector-explorer")
        self._panes.publish_lowered(lowered_panes(lowered))
        try:
            self.add(options, target)
        except InspectorError:
            self.close()
            raise

    @property
    def lowered(self) -> LoweredView:
        """The program, as the baseline has it."""
        with self._lock:
            self._check_open()
            return self._lowerings.lowered

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the baseline first."""
        with self._lock:
            self._check_open()
            return tuple(self._variants.values())

    @property
    def baseline(self) -> Variant:
        """The variant that the others are compared with."""
        return self.variants[0]

    @property
    def is_busy(self) -> bool:
        """Whether a variant is still under way."""
        with self._lock:
            return any(not variant.shown.is_set() for variant in self._variants.values())

    def add(self, options: OptionsLike = None, target: str | Target | None = None) -> Variant:
        """Starts compiling a variant and returns at once.

        Args:
          options: its options; an `Options`, a dict of flags, the text of an XLA_FLAGS variable.
          target: for what; None for the baseline's target. For another platform, such as a TPU that is not here,
            the program is lowered first; one that cannot be becomes a variant that has failed.

        Raises:
          OptionError, TargetError: the request is wrong; nothing was started.
        """
        chosen = Target.parse(target if target is not None else self.baseline.target)
        return self._start(Options.of(options), chosen, self._lowerings.tuning)

    def tune(
        self,
        compiler_params: Mapping[str | int, Mapping[str, Any]] | None = None,
        *,
        interpret: bool = False,
        options: OptionsLike = None,
        target: str | Target | None = None,
    ) -> Variant:
        """Lowers again with other compiler parameters for Pallas kernels, and starts compiling that as a variant.

        Args:
          compiler_params: fields of Pallas's `CompilerParams` by the kernel's name or number, "*" for
            all, on top of the baseline's.
          interpret: let JAX's interpreter run the kernels; with the target "cpu" they can run here.
          options: of the compile.
          target: for what; None for the baseline's target, or "cpu" for kernels that are interpreted.

        Returns:
          The variant; one that has failed where the function could not be lowered so.

        Raises:
          OptionError, TargetError: the options or the target are wrong; nothing was started.
        """
        target = target if target is not None else "cpu" if interpret else self.baseline.target
        tuning = self._lowerings.tuning.with_params(compiler_params or {})
        return self._start(Options.of(options), Target.parse(target), dataclasses.replace(tuning, interpret=interpret))

    def _start(self, options: Options, target: Target, tuning: Tuning) -> Variant:
        while True:
            with self._lock:
                self._check_open()
                lowerings, work = self._lowerings, self._work
            tuning = lowerings.adapted(target, tuning)
            try:
                lowered = lowerings.get(target, tuning)
            except Exception as error:  # user code ran: anything may come out of it
                return self._register_failed(options, target, tuning, error)
            request = lowered.request(options, target)
            job = work.submit(request)
            with self._lock:
                if not self._is_closed and self._lowerings is lowerings:
                    variant = self._register(request, job, lowered, tuning)
                    break
            job.cancel()  # closed, or lowered again: this was the old program
        self._follow(variant, job)
        return variant

    def _add(self, options: Options, text: str) -> None:
        """From the controls, on the comm's thread: lowering for another platform, which runs user code, is done later."""
        target = Target.parse(text or self.baseline.target)
        if self._lowerings.knows(target):
            self.add(options, target)
        else:
            self._later(lambda: self.add(options, target))

    def _register(
        self, request: CompileRequest, job: Job[CompiledProgram], lowered: LoweredView, tuning: Tuning
    ) -> Variant:
        """Adds a variant; the caller holds the lock."""
        number = next(self._numbers)
        variant = Variant(number, not self._variants, request.options, request.target, lowered, tuning, job)
        self._variants[number] = variant
        self._app.publish(variant.message())
        if lowered is not self.lowered:
            self._panes.publish_lowered(lowered_panes(lowered, number))
        if lowered.kernels:
            self._later(lambda: self._panes.publish_kernels(variant))
        return variant

    def _register_failed(self, options: Options, target: Target, tuning: Tuning, error: Exception) -> Variant:
        with self._lock:
            self._check_open()
            variant = Variant(next(self._numbers), not self._variants, options, target, None, tuning, error=error)
            variant.shown.set()
            self._variants[variant.number] = variant
            self._app.publish(variant.message())
        return variant

    def _follow(self, variant: Variant, job: Job[CompiledProgram]) -> None:
        """Not under the lock: a job that has ended calls back at once."""
        job.add_progress_callback(lambda _: self._panes.publish_state(variant))
        job.add_preview_callback(lambda preview: self._later(lambda: self._panes.show_program(variant, preview)))

        def end(_: object) -> None:
            self._panes.publish_state(variant)  # at once: what follows may have to wait for the Explorer's thread
            self._later(lambda: self._panes.show(variant, job))
            self._refresh_stored()

        job.add_done_callback(end)

    def remove(self, variant: Variant) -> None:
        """Takes a variant away and cancels its compile. The baseline stays.

        Raises:
          ValueError: it is the baseline, not of this Explorer, or no variant.
          ClosedError: the Explorer is closed.
        """
        with self._lock:
            self._check_open()
            if not isinstance(variant, Variant):
                raise ParameterError(f"Expected one of the Explorer's `variants`, got {variant!r}.")
            if variant.is_baseline or self._variants.get(variant.number) is not variant:
                raise ValueError(f"{variant.label} cannot be removed: it is the baseline, or gone already.")
            cancel = self._forget(variant)
        cancel()
        self._refresh_stored()

    def wait(self, timeout: float | None = None) -> Explorer:
        """Waits until every variant has ended, well or badly, and its panes are filled.

        Raises:
          TimeoutError: some are still under way after `timeout` seconds.
          ClosedError: the Explorer is closed, or was while this waited.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._drain(deadline)
        while pending := [v for v in self.variants if not v.shown.is_set()]:
            if not pending[0].shown.wait(_remaining(deadline)):
                raise TimeoutError(
                    f"After {timeout} s under way: {', '.join(f'{v.label} ({v.state})' for v in pending)}. They go on."
                )
        return self

    def _drain(self, deadline: float | None) -> None:
        """Waits for what the Explorer's thread was given before, such as another lowering."""
        try:
            self._thread.submit(lambda: None).result(_remaining(deadline))
        except (RuntimeError, concurrent.futures.CancelledError):  # closed, before or meanwhile
            return
        except concurrent.futures.TimeoutError:
            raise TimeoutError("The Explorer is still at work on what it was asked before. It goes on.") from None

    def compare(self) -> pd.DataFrame:
        """Memory, cost and compile time of the variants that compiled, side by side; waits for all."""
        return compare(*(v.compiled for v in self.wait().variants if v.state == "done"))

    def collectives(self) -> Collectives:
        """The collectives of the baseline's optimized HLO; waits for it."""
        return self.baseline.compiled.collectives()

    def close(self) -> None:
        """Cancels what is under way, takes the widget off the page, and lets go of all that it showed.

        What is wanted later must be taken before, such as `explorer.baseline.compiled`. May be called twice.
        """
        if self._is_closed:
            return
        with self._lock:
            self._is_closed = True
            variants = tuple(self._variants.values())
            self._variants.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)
        for part in (self._runs, self._recordings, self._controls, self._panes):
            part.close()
        for variant in variants:
            if variant.job is not None:
                variant.job.cancel()
            variant.shown.set()
        self._app.close()
        self.layout.close()
        super().close()
        # A result of a cell, in `Out`, would keep the user's arrays and every text.
        with self._lock:
            del self._lowerings, self._work

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("This Explorer is closed. Call explore() again, or take what you need before close().")

    def __repr__(self) -> str:
        return "<Explorer, closed>" if self._is_closed else text_form(self.lowered, self.variants)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, with a text and an HTML form for pages without a kernel."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        data.update(
            {"text/plain": text_form(self.lowered, self.variants), "text/html": html_form(self.lowered, self.variants)}
        )
        return bundle

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Called by IPython to show the Explorer in a cell."""
        if self._is_closed:
            raise NotImplementedError  # then IPython shows its repr
        keep(self)
        if is_batch():  # what is shown now is all that will be kept
            with contextlib.suppress(TimeoutError):
                self.wait(_BATCH_LIMIT_S)
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        self._stored.display({**data, "text/plain": f"Explorer of {self.lowered.program.name}"})

    def _form(self) -> dict[str, str]:
        return {
            "text/plain": text_form(self.lowered, self.variants),
            "text/html": html_form(self.lowered, self.variants, self._app.stored_class),
        }

    def _refresh_stored(self) -> None:
        """On the Explorer's thread; a notebook that is saved later has what is known by then."""
        self._later(self._stored.refresh)

    # ------------------------------------------------------------------ requests of the browser

    def _on_request(self, message: messages.FromBrowser) -> None:
        match message["type"]:
            case "run":
                self._runs.start(self._variant(message["variant"]), message["repeat"])
            case "cancel":
                self._cancel(self._variant(message["variant"]))
            case "remove":
                self.remove(self._variant(message["variant"]))
            case "graph":
                self._later(lambda: self._draw(message))
            case "record":
                self._record(self._variant(message["variant"]), message["product"])
            case "pass":
                self._later(lambda: self._recordings.answer_pass(message))
            case "code":
                self._later(lambda: self._recordings.answer_code(message))
            case "tune":
                self._later(lambda: self._tune(message))
            case "flags" | "add" | "lower":
                self._controls.receive(message)
            case "select":
                self.selection = message["selection"]

    def _variant(self, number: int) -> Variant:
        with self._lock:
            if number not in self._variants:
                raise ValueError(f"There is no variant {number} any more.")
            return self._variants[number]

    def _cancel(self, variant: Variant) -> None:
        self._runs.cancel(variant.number)
        self._recordings.cancel(variant.number)
        if variant.job is not None:
            variant.job.cancel()

    def _record(self, variant: Variant, product: messages.Product) -> None:
        def publish(message: messages.ToBrowser, buffers: Sequence[bytes]) -> None:
            with self._lock:
                if self._panes.holds(variant):
                    self._app.publish(message, buffers)

        lowered = variant.lowered or self.lowered
        self._recordings.start(variant.number, product, variant.compiled_now, lowered, publish)

    def _draw(self, request: messages.GraphRequest) -> None:
        def module() -> Module:
            variant = self._variant(request["variant"])
            return self._panes.module(variant) or variant.compiled_now.module()

        self._app.publish(graph_reply(request, module))

    # ------------------------------------------------------------------ other compiler parameters

    def _tune(self, request: messages.TuneRequest) -> None:
        try:
            made = self._tuned(self._variant(request["variant"]), request)
        except InspectorError as error:
            said = messages.error_of(error)
            self._app.publish(messages.Tuned(type="tuned", id=request["id"], variant=None, error=said))
            return
        self._app.publish(messages.Tuned(type="tuned", id=request["id"], variant=made.number, error=None))

    def _tuned(self, variant: Variant, request: messages.TuneRequest) -> Variant:
        """A variant like another one, its kernels with other parameters or interpreted.

        Raises:
          InspectorError: there is no such kernel or field, a value is wrong, or the function cannot be lowered so.
        """
        lowered = variant.lowered or self.lowered
        options, target, tuning = requested(request, variant, lowered, self._work)
        # What lowering says is raised here: it belongs beside what was typed.
        self._lowerings.get(target, self._lowerings.adapted(target, tuning))
        return self._start(options, target, tuning)

    # ------------------------------------------------------------------ another axis environment

    def _start_lowering(self, pairs: Sequence[tuple[str, int]]) -> None:
        self._later(lambda: self._lower(pairs))

    def _lower(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Lowers again and starts over with the baseline's options and the other variants'."""
        try:
            again = self._lowerings.under(pairs)
            panes = lowered_panes(again.lowered)
            asked = [(v.options, self._work.suit(again.lowered, v.target)) for v in self.variants]
            tunings = [v.tuning for v in self.variants]
            programs = [again.get(*pair) for pair in zip((t for _, t in asked), tunings, strict=True)]
            requests = [program.request(*pair) for program, pair in zip(programs, asked, strict=True)]
            jobs = [self._work.submit(request) for request in requests]
        except Exception as error:  # user code ran: anything may come out of it
            self._controls.say(error)
            return
        entries = list(zip(requests, jobs, programs, tunings, strict=True))
        with self._lock:
            cancels: list[Callable[[], object]] = []
            variants: list[Variant] = []
            if self._is_closed:
                cancels.extend(job.cancel for job in jobs)
            else:
                cancels.extend(self._forget(variant) for variant in self.variants)
                self._lowerings = again
                self._panes.publish_lowered(panes)
                variants = [self._register(*entry) for entry in entries]
                self._controls.set_baseline(variants[0].target, axes_of(again.lowered.program.mesh))
        for cancel in cancels:
            cancel()
        for variant, job in zip(variants, jobs, strict=False):  # no variants where it is closed
            self._follow(variant, job)
        self._refresh_stored()

    def _forget(self, variant: Variant) -> Callable[[], None]:
        """Takes a variant out, under the lock; the caller then cancels its work, which engines may lock for."""
        del self._variants[variant.number]
        stop_run = self._runs.forget(variant.number)
        stop_recording = self._recordings.forget(variant.number)
        self._panes.forget(variant)
        variant.shown.set()

        def cancel() -> None:
            stop_recording()
            stop_run()
            if variant.job is not None:
                variant.job.cancel()

        return cancel

    def _later(self, task: Callable[[], object]) -> None:
        """Runs a task on the Explorer's thread; what it raises is shown."""

        def guarded() -> None:
            try:
                task()
            except Exception as error:
                self._app.publish(messages.notice_of(error))

        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(guarded)


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
