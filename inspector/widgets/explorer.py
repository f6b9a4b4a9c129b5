"""`Explorer`: panes and controls over one program and its variants.

It asks for work through `Work` and never blocks: a callback of the comm starts a job and returns.
Jobs end on engine threads; what is then computed for the panes runs on one thread of the Explorer.
Everything on screen is also a Python value here.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from inspector import settings
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.cost.stats import compare
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning, WhatIf, batch_by_path
from inspector.errors import InspectorError, ParameterError, Unavailable
from inspector.reports import bundle
from inspector.reports.recorded_exploration import RecordedVariant
from inspector.stages.lowered import Lowered
from inspector.support import files, memory_release
from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.arrangement import arrangement, focus
from inspector.widgets.compiles import Compiles
from inspector.widgets.controls import Controls
from inspector.widgets.lifetime import collect, hold, hold_weakly, keep
from inspector.widgets.lowerings import axes_of
from inspector.widgets.panes.registry import offered
from inspector.widgets.saving.explorations import record, restore
from inspector.widgets.saving.recorder import Recorder
from inspector.widgets.saving.stored_output import is_batch
from inspector.widgets.variants import OptionsLike, Variant
from inspector.widgets.work import Retraces, Work

if TYPE_CHECKING:
    import pandas as pd


_BATCH_LIMIT_S = 600.0
_LARGE_ROWS = 20_000
"""Instructions of which the memory, a dozen MB, is worth a garbage collection, some tenths of a second."""


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """A widget that shows a program at every stage, and variants of its compilation side by side.

    Made by `inspector.explore`. Display it, or use it from Python: `lowered`, `variants`, `add`,
    `wait`, `compare`, `collectives`. It lives as long as something refers to it or a cell shows it; `close`
    ends it at once, and what is asked of it then raises `ClosedError`.
    """

    _is_closed = True  # until it is made: a widget whose making failed closes itself too

    def __dir__(self) -> list[str]:
        """Lists the Explorer's own members. Those of ipywidgets, such as `observe` and `layout`, work but are not listed."""
        special = (name for name in super().__dir__() if name.startswith("_"))
        return sorted({*special, *(name for name in vars(Explorer) if not name.startswith("_"))})

    def __init__(
        self,
        lowered: Lowered,
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
        self._selection: Mapping[str, Any] | None = None
        self._is_closed = False
        self._thread, self._aside_thread = (
            concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name, initializer=settings.here())
            for name in ("inspector-explorer", "inspector-explorer-aside")
        )
        partitions = lowered.program.options.num_partitions or 1
        lines = offered(has_kernels=bool(lowered.kernels), has_partitions=partitions > 1)
        self._panes = [line.name for line in lines]
        self._app = App(
            lowered.program.name,
            height_px=height_px,
            side_by_side=side_by_side,
            notes=lowered.notes,
            on_request=self._on_request,
            panes=self._panes,
        )
        self._compiles = Compiles(
            lowered, work, tuning, self._app, lines, self._later, self._aside, self._refresh_stored
        )
        self._recorder = Recorder(self._app, self._compiles, lambda: self._drain(None))
        board = self._compiles.board
        self._controls = Controls(
            self._app.publish,
            work.targets,
            Target.parse(target),
            axes_of(lowered.program.mesh),
            self._add,
            (lambda axes: self._later(lambda: self._lower(axes))) if can_lower else None,
            work.platform,
        )
        super().__init__([self._app])
        hold_weakly(self)
        hold_weakly(self.layout)
        self.add_class("inspector-explorer")
        try:
            baseline = self.add(options, target)
        except InspectorError:
            self.close()
            raise
        board.show_lowered(lowered, baseline)
        self._controls.read_flags_after(baseline.job)

    @property
    def lowered(self) -> Lowered:
        """The program, as the baseline has it."""
        return self._compiles.lowered

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the baseline first."""
        return self._compiles.variants

    @property
    def baseline(self) -> Variant:
        """The variant that the others are compared with."""
        return self.variants[0]

    @property
    def is_busy(self) -> bool:
        """Whether a variant is still under way."""
        return self._compiles.are_busy

    def add(self, options: OptionsLike = None, target: str | Target | None = None) -> Variant:
        """Starts compiling a variant and returns at once.

        A variant with an equal request is returned as it is, unless it failed or was canceled.

        Args:
          options: its options; an `Options`, a dict of flags, the text of an XLA_FLAGS variable.
          target: for what; None for the baseline's target. For another platform, such as a TPU that is not here,
            the program is lowered first; one that cannot be becomes a variant that has failed.

        Raises:
          OptionError, TargetError: the request is wrong; nothing was started.
        """
        chosen = Target.parse(target if target is not None else self.baseline.target)
        return self._compiles.start(Options.of(options), chosen, self._compiles.tuning)

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
        tuning = self._compiles.tuning.with_params(compiler_params or {})
        tuning = dataclasses.replace(tuning, interpret=interpret)
        return self._compiles.start(Options.of(options), Target.parse(target), tuning)

    def what_if(
        self,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str | int, int] | None = None,
        rematerialize: str | Sequence[str] = (),
        options: OptionsLike = None,
        target: str | Target | None = None,
    ) -> Variant:
        """Lowers the program of another call, and starts compiling that as a variant: what would it take if ...?

        Args:
          donate: arguments whose buffers the program may reuse.
          dtype: dtypes by argument; see `Lowered.what_if`.
          batch: lengths of the leading dimension by argument, or by the present length of all arrays that share it.
          rematerialize: name scopes whose values are computed again for the backward pass.
          options: of the compile; None for the baseline's.
          target: for what; None for the baseline's target.

        Returns:
          The variant; one that has failed where the function could not be lowered so.

        Raises:
          ParameterError: not names or lengths.
          OptionError, TargetError: the options or the target are wrong; nothing was started.
        """
        lengths = batch_by_path(batch, ((a.path, a.shape) for a in self.lowered.inputs))
        supposed = WhatIf.of(donate=donate, dtype=dtype, batch=lengths, rematerialize=rematerialize)
        tuning = dataclasses.replace(self._compiles.tuning, what_if=self._compiles.tuning.what_if.merge(supposed))
        chosen = Target.parse(target if target is not None else self.baseline.target)
        said = self.baseline.options if options is None else Options.of(options)
        return self._compiles.start(said, chosen, tuning)

    def _add(self, options: Options, text: str) -> None:
        """From the controls, on the comm's thread: lowering for another platform, which runs user code, is done later."""
        target = Target.parse(text or self.baseline.target)
        if self._compiles.lowerings.knows(target):
            self.add(options, target)
        else:
            self._later(lambda: self.add(options, target))

    def remove(self, variant: Variant) -> None:
        """Takes a variant away and cancels its compile. The baseline stays.

        Raises:
          ValueError: it is the baseline, pinned, not of this Explorer, or no variant.
          ClosedError: the Explorer is closed.
        """
        self._compiles.remove(variant)

    def pin(self, variant: Variant, is_pinned: bool = True) -> None:
        """Shows a variant right after the baseline and keeps it from being removed, also when the program is lowered again.

        Raises:
          ValueError: it is the baseline, which is always first, or not of this Explorer.
          ClosedError: the Explorer is closed.
        """
        self._compiles.pin(variant, is_pinned)

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
        self._drain(deadline)
        self._recorder.finish()
        return self

    def _drain(self, deadline: float | None) -> None:
        """Waits for what the Explorer's threads were given before, such as another lowering."""
        try:
            for thread in (self._thread, self._aside_thread):
                thread.submit(lambda: None).result(_remaining(deadline))
        except (RuntimeError, concurrent.futures.CancelledError):  # closed, before or meanwhile
            return
        except concurrent.futures.TimeoutError:
            raise TimeoutError("The Explorer is still at work on what it was asked before. It goes on.") from None

    @property
    def selection(self) -> Mapping[str, Any] | None:
        """What is selected in the browser: pane, variant, file, line, origin and instruction; None for nothing.

        Set to such a mapping, of which "pane" and "line" or "instruction" suffice, it is `focus`.
        """
        return self._selection

    @selection.setter
    def selection(self, value: Any) -> None:
        if not isinstance(value, Mapping) or "pane" not in value:
            raise ParameterError(f'selection is a mapping such as {{"pane": "source", "line": 3}}, got {value!r}.')
        number = value.get("variant")
        variant = None if number is None else self._compiles.board.variant(number)
        instruction = value.get("instruction")
        line = None if instruction is not None else value.get("line")
        self.focus(value["pane"], line=line, instruction=instruction, variant=variant)

    def focus(
        self,
        pane: str,
        *,
        line: int | None = None,
        instruction: str | None = None,
        variant: Variant | None = None,
    ) -> None:
        """Has the browser show a pane, and select a line or an instruction in it; once there is one.

        Args:
          pane: "source", "jaxpr", "stablehlo", "hlo", "optimized", "memory", ...
          line: as the pane numbers it, from 1.
          instruction: its name, in "hlo" or "optimized".
          variant: which becomes the active one; None for the one that is.

        Raises:
          ParameterError: there is no such pane, or no such place in it.
        """
        message = focus(self._panes, pane, line, instruction, variant.number if variant else None)
        self._app.publish(message)

    @property
    def arrangement(self) -> Mapping[str, Any]:
        """How the panes are arranged; {} before anybody did. The notebook keeps it, and it can be set.

        "columns" is a list of columns with their "weight" in width and the "groups" that stand one below the other, each
        with its "panes", the "active" one and its "weight" in height; "dock" is the group below; "hidden" lists panes
        that are nowhere. Set it to such a mapping, in which a column of one group may be that group, or to "read",
        "compare", "communicate" or "memory". (`layout` is ipywidgets' own.)

        Raises:
          ParameterError: no such layout, or panes that there are not.
        """
        return dict(self._app.arrangement)

    @arrangement.setter
    def arrangement(self, value: str | Mapping[str, Any]) -> None:
        self._app.arrangement = arrangement(self._panes, value)

    def compare(self) -> pd.DataFrame:
        """Memory, cost and compile time of the variants that compiled, side by side; waits for all."""
        done = [v for v in self.wait().variants if v.state == "done"]
        is_named = any(v.tuning != AS_IT_IS for v in done)  # else by their options, which say more
        return compare(*(v.compiled for v in done), names=[v.label for v in done] if is_named else ())

    def collectives(self) -> Collectives:
        """The collectives of the baseline's optimized HLO; waits for it."""
        return self.baseline.compiled.collectives()

    def watch_retraces(self, is_on: bool = True) -> None:
        """Listens to why JAX traces again in this process, as the pane Retraces shows it, or stops; see `retraces`.

        Raises:
          ClosedError: the Explorer is closed.
        """
        self._compiles.check_open()
        self._compiles.board.answer({"type": "watch_retraces", "on": is_on})

    @property
    def retraces(self) -> Retraces | Unavailable:
        """What JAX traced again in this process while it was watched; as `inspector.watch_retraces` gives it."""
        watch = self._compiles.work.retraces
        if watch is None:
            return Unavailable("the exploration was loaded without its function", "use inspector.watch_retraces()")
        return watch.found

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the whole exploration as one HTML file, which opens in any browser without a network; waits for all.

        Every pane works with what was recorded; what was not says so. An older file at the path is replaced.

        Raises:
          OSError: the place cannot be written.
          ClosedError: the Explorer is closed.
        """
        self.wait()
        page = self._recorder.page()
        with files.writing(path) as file:
            file.write(page.encode())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file that `inspector.load` opens: programs, variants, products, runs, versions.

        Waits for what is under way. Machine code and the inputs of runs are left out.

        Raises:
          OSError: the place cannot be written.
        """
        bundle.save(record(self.wait().variants, self._compiles), path)

    def restore(self, recorded: Sequence[RecordedVariant]) -> None:
        """Shows recorded variants, the first of which is the baseline, once its `Work` answers from what was recorded."""
        restore(recorded, self._compiles)

    def page_element(self, *, has_code: bool) -> str:
        """What `save_html` writes as an element of a larger page, one of which has the app's code: see `widgets/saving/page.py`."""
        return self._recorder.element(has_code=has_code)

    def close(self) -> None:
        """Cancels what is under way, takes the widget off the page, and lets go of all that it showed.

        What is wanted later must be taken before, such as `explorer.baseline.compiled`. May be called twice.
        """
        if self._is_closed:
            return
        is_large = self._compiles.board.row_count >= _LARGE_ROWS
        self._end()
        if is_large:
            collect()  # a module refers to itself
            memory_release.give_back_soon()  # what the caller's variable holds
        else:
            memory_release.give_back()

    def __del__(self) -> None:
        """Of the garbage collector, which frees the modules too."""
        if not self._is_closed:
            self._end()

    def _end(self) -> None:
        self._is_closed = True
        for thread in (self._thread, self._aside_thread):
            thread.shutdown(wait=False, cancel_futures=True)
        self._controls.close()
        self._recorder.close()
        self._compiles.close()
        self._app.close()
        self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return "<Explorer, closed>" if self._is_closed else self._recorder.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, with a text and an HTML form for pages without a kernel."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        data.update({"text/plain": self._recorder.text(), "text/html": self._recorder.html()})
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
        self._recorder.display({**data, "text/plain": f"Explorer of {self.lowered.program.name}"})

    def _display_(self) -> App:
        """Called by marimo to show the Explorer: its widget, which lives as long as the cell has it."""
        hold(self._app)
        return self._app

    def _refresh_stored(self) -> None:
        """Behind what the Explorer's thread has to show; a notebook that is saved later has what is known by then."""
        self._later(self._recorder.refresh)

    # ------------------------------------------------------------------ requests of the browser

    def _on_request(self, message: Mapping[str, Any]) -> None:
        board = self._compiles.board
        match message["type"]:
            case "cancel":
                self._compiles.cancel(board.variant(message["variant"]))
            case "remove":
                self.remove(board.variant(message["variant"]))
            case "pin":
                self.pin(board.variant(message["variant"]), message["pinned"])
            case "record":
                board.record(board.variant(message["variant"]), message["product"])
            case "flags" | "add" | "lower":
                self._controls.receive(message)
            case "page":
                self._recorder.send_page(message["id"])
            case "select":
                self._selection = message["selection"]
            case _:
                board.answer(message)

    def _lower(self, axes: Sequence[tuple[str, int]]) -> None:
        try:
            baseline = self._compiles.start_over(axes)
        except Exception as error:  # user code ran: anything may come out of it
            self._controls.say(error)
            return
        if baseline is not None:
            self._controls.set_baseline(baseline.target, axes_of(self.lowered.program.mesh))

    def _later(self, task: Callable[[], object]) -> None:
        """Runs a task on the Explorer's thread; what it raises is shown."""
        self._run_on(self._thread, task)

    def _aside(self, task: Callable[[], object]) -> None:
        """The same of one that may take seconds, on another thread."""
        self._run_on(self._aside_thread, task)

    def _run_on(self, thread: concurrent.futures.Executor, task: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                task()
            except Exception as error:
                self._app.publish(messages.notice_of(error))

        with contextlib.suppress(RuntimeError):  # closed
            thread.submit(guarded)


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
