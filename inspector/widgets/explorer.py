"""`Explorer`: panes and controls for a program and its variants.

It starts work through `Work` and never blocks: a comm callback starts a job and returns.
Jobs end on engine threads. The results are then prepared for the panes on the Explorer's own thread.
Everything on screen is also available as a Python value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.pallas.kernel_share import is_mostly_kernels
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.compilation.what_if import WhatIf
from inspector.errors import InspectorError, ParameterError, Unavailable
from inspector.reports import bundle
from inspector.reports.recorded_exploration import RecordedVariant
from inspector.stages.compiled import findings_under
from inspector.stages.estimates import compare
from inspector.stages.findings import Findings
from inspector.stages.lowered import Lowered
from inspector.stages.retraces import Retraces
from inspector.stages.variant_forms import OptionsLike
from inspector.support import files, memory_release
from inspector.support.ipython import is_batch
from inspector.support.notebook import short
from inspector.widgets import messages, rerun
from inspector.widgets.app import App
from inspector.widgets.arrangement import arrangement, focus
from inspector.widgets.compiles import Compiles
from inspector.widgets.controls import Controls
from inspector.widgets.frame import Frame
from inspector.widgets.lifetime import collect, hold, hold_weakly, keep
from inspector.widgets.lowerings import Lowerings
from inspector.widgets.panes.registry import offered
from inspector.widgets.saving.explorations import record, restore
from inspector.widgets.saving.recorder import Recorder
from inspector.widgets.threads import Threads, remaining
from inspector.widgets.variants import Variant
from inspector.widgets.work import Work

if TYPE_CHECKING:
    import pandas as pd


_BATCH_LIMIT_S = 600.0
_LARGE_ROWS = 20_000
"""Number of instructions whose memory, a dozen MB, justifies a garbage collection of a few tenths of a second."""


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """A widget that shows a program at every stage, and compares variants of its compilation.

    Created by `inspector.explore`. Display it, or use it from Python: `lowered`, `variants`, `add`,
    `wait`, `compare`, `collectives`. It exists as long as something refers to it or a cell shows it. `close`
    ends it immediately; later calls raise `ClosedError`.
    """

    _frame: Frame | None = None
    """The output of the running cell that the Explorer replaces, once."""
    _is_closed = True  # until `__init__` runs: a widget also closes itself if its creation failed

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
        height_px: int | None = None,
        side_by_side: bool = False,
    ) -> None:
        """Shows `lowered` and starts compiling the baseline.

        Args:
          lowered: the program.
          work: lowers, compiles and runs.
          options: options of the baseline.
          target: target of the baseline.
          tuning: the changes that `lowered` has to its Pallas kernels and its call.
          can_lower: whether the program can be lowered with a different axis environment.
          height_px: initial height in CSS pixels; None for 85 % of the window, at most 900.
          side_by_side: whether the optimized HLO of the variants is initially shown side by side.

        Raises:
          OptionError, TargetError: the baseline's request is invalid.
          ParameterError: `height_px` is not a positive integer.
        """
        height: Any = height_px  # from the user, so the annotation may be wrong
        if height is not None and (not isinstance(height, int) or height < 1):
            raise ParameterError(
                f"height_px must be a number of CSS pixels, 1 or more, or None, got {short(height_px)}."
            )
        self._selection: Mapping[str, Any] | None = None
        self._previous: rerun.Version | None = None
        self._given = frozenset[int]()
        self._is_closed = False
        partitions = lowered.program.options.num_partitions or 1
        lines = offered(has_kernels=bool(lowered.kernels), has_partitions=partitions > 1)
        self._panes = [line.name for line in lines]
        self._app = App(
            lowered.program.name,
            height_px=height_px or 0,
            side_by_side=side_by_side,
            is_kernel=bool(lowered.kernels) and is_mostly_kernels(lowered.module(), lowered.kernels),
            notes=lowered.notes,
            on_request=self._on_request,
            panes=self._panes,
        )
        self._threads = Threads(self._app.publish)
        self._compiles = Compiles(
            Lowerings(work, lowered, tuning), self._app, lines, self._threads, self._refresh_stored
        )
        self._recorder = Recorder(self._app, self._compiles, self._threads)
        board = self._compiles.board
        self._controls = Controls(
            self._app.publish, self._compiles, self._threads, Target.parse(target), can_lower=can_lower
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
        """The lowered program of the baseline."""
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
        """True while a variant is compiling."""
        return self._compiles.are_busy

    def add(self, options: OptionsLike = None, target: str | Target | None = None) -> Variant:
        """Starts compiling a variant and returns immediately.

        If a variant with an equal request exists, it is returned instead, unless it failed or was canceled.

        Args:
          options: options of the variant: an `Options`, a dict of flags, or the text of an XLA_FLAGS variable.
          target: target of the variant; None for the baseline's target. For another platform, such as a TPU that is not
            attached, the program is lowered first; if that fails, the result is a failed variant.

        Raises:
          OptionError, TargetError: the request is invalid; nothing was started.
        """
        parsed_target = Target.parse(target if target is not None else self.baseline.target)
        return self._compiles.start(Options.of(options), parsed_target, self._compiles.tuning)

    def tune(
        self,
        compiler_params: Mapping[str | int, Mapping[str, Any]] | None = None,
        *,
        interpret: bool = False,
        options: OptionsLike = None,
        target: str | Target | None = None,
    ) -> Variant:
        """Lowers the program again with other compiler parameters for Pallas kernels, and starts compiling it as a variant.

        Args:
          compiler_params: fields of Pallas's `CompilerParams` by the kernel's name or number, "*" for
            all, on top of the baseline's.
          interpret: run the kernels in JAX's interpreter; with the target "cpu" they can run on this machine.
          options: options of the compile.
          target: target of the compile; None for the baseline's target, or "cpu" for interpreted kernels.

        Returns:
          The variant; a failed one if the function could not be lowered this way.

        Raises:
          OptionError, TargetError: the options or the target are invalid; nothing was started.
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
        shape: Mapping[str | int, Sequence[int | None] | int] | None = None,
        rematerialize: str | Sequence[str] = (),
        checkpoint: str = "",
        options: OptionsLike = None,
        target: str | Target | None = None,
    ) -> Variant:
        """Lowers the program for a different call, and starts compiling it as a variant.

        Args:
          donate: arguments whose buffers the program may reuse.
          dtype: dtypes by argument; see `Lowered.what_if`.
          batch: lengths of the leading dimension by argument, or by the current length for all arrays that share it.
          shape: lengths of all dimensions by argument, or by the current length; see `Lowered.what_if`.
          rematerialize: name scopes whose values are computed again for the backward pass.
          checkpoint: a change of every `jax.checkpoint`, as in `Lowered.what_if`.
          options: options of the compile; None for the baseline's.
          target: target of the compile; None for the baseline's target.

        Returns:
          The variant; a failed one if the function could not be lowered this way.

        Raises:
          ParameterError: invalid names or lengths.
          OptionError, TargetError: the options or the target are invalid; nothing was started.
        """
        changes = WhatIf.of(
            donate=donate, dtype=dtype, batch=batch, rematerialize=rematerialize, checkpoint=checkpoint, shape=shape,
            arrays=[(each.path, each.shape) for each in self.lowered.inputs],
        )  # fmt: skip
        tuning = dataclasses.replace(self._compiles.tuning, what_if=self._compiles.tuning.what_if.merge(changes))
        parsed_target = Target.parse(target if target is not None else self.baseline.target)
        parsed_options = self.baseline.options if options is None else Options.of(options)
        return self._compiles.start(parsed_options, parsed_target, tuning)

    def remove(self, variant: Variant) -> None:
        """Removes a variant and cancels its compile. The baseline cannot be removed.

        Raises:
          ParameterError: `variant` is not a variant.
          ValueError: the variant is the baseline, pinned, or not of this Explorer.
          ClosedError: the Explorer is closed.
        """
        self._compiles.remove(variant)

    def pin(self, variant: Variant, is_pinned: bool = True) -> None:
        """Pins a variant or unpins it.

        A pinned variant is shown directly after the baseline, cannot be removed and stays pinned when the program is lowered again.

        Args:
          variant: the variant.
          is_pinned: False to unpin it.

        Raises:
          ParameterError: `variant` is not a variant.
          ValueError: the variant is the baseline, which is always first, or not of this Explorer.
          ClosedError: the Explorer is closed.
        """
        self._compiles.pin(variant, is_pinned)

    def wait(self, timeout: float | None = None) -> Explorer:
        """Waits until every variant has succeeded or failed, and its panes are filled.

        Raises:
          TimeoutError: some are not done after `timeout` seconds.
          ClosedError: the Explorer is closed, or was closed while waiting.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._threads.drain(deadline)
        while pending := [v for v in self.variants if not v.shown.is_set()]:
            if not pending[0].shown.wait(remaining(deadline)):
                raise TimeoutError(
                    f"Not done after {timeout} s: {', '.join(f'{v.label} ({v.state})' for v in pending)}. They continue to run."
                )
        self._threads.drain(deadline)
        self._recorder.finish()
        return self

    @property
    def selection(self) -> Mapping[str, Any] | None:
        """The browser's selection: pane, variant, file, line, origin and instruction; None if nothing is selected.

        Can be set to such a mapping, of which "pane" and "line" or "instruction" are enough; this calls `focus`.
        """
        return self._selection

    @selection.setter
    def selection(self, value: Any) -> None:
        if not isinstance(value, Mapping) or "pane" not in value:
            raise ParameterError(
                f'selection must be a mapping such as {{"pane": "source", "line": 3}}, got {short(value)}.'
            )
        number = value.get("variant")
        variant = None if number is None else self._compiles.variant(number)
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
        """Brings a pane to the front in the browser, and selects a line or an instruction in it. Also works before a browser is connected.

        Args:
          pane: "source", "jaxpr", "stablehlo", "hlo", "optimized", "memory", ...
          line: line number as the pane shows it, from 1.
          instruction: name of an instruction in "hlo" or "optimized".
          variant: the variant to activate; None to leave the active one.

        Raises:
          ParameterError: there is no such pane, or it has no such line or instruction.
        """
        message = focus(self._panes, pane, line, instruction, variant.number if variant else None)
        self._app.publish(message)

    @property
    def arrangement(self) -> Mapping[str, Any]:
        """The arrangement of the panes; {} if it was never changed. The notebook saves it, and it can be set.

        "columns" is a list of columns with their "weight" in width and their stacked "groups", each
        with its "panes", the "active" pane and its "weight" in height; "dock" is the group below the columns; "hidden" lists the
        hidden panes. Set it to such a mapping, where a column with one group can be that group, or to "read",
        "compare", "communicate" or "memory". (`layout` is ipywidgets' own.)

        Raises:
          ParameterError: no such arrangement, or panes that do not exist.
        """
        return dict(self._app.arrangement)

    @arrangement.setter
    def arrangement(self, value: str | Mapping[str, Any]) -> None:
        self._app.arrangement = arrangement(self._panes, value)

    def compare(self) -> pd.DataFrame:
        """Returns a table of memory, cost and compile time of the compiled variants; waits for all."""
        done = [v for v in self.wait().variants if v.state == "done"]
        # Otherwise by their options, which are more informative.
        is_named = any(v.tuning != AS_IT_IS or v.origin for v in done)
        return compare(*(v.compiled for v in done), names=[v.label for v in done] if is_named else ())

    def collectives(self) -> Collectives:
        """Returns the collectives of the baseline's optimized HLO; waits for it."""
        return self.baseline.compiled.collectives()

    def findings(self, variant: Variant | None = None) -> Findings:
        """Returns what the user can change in a program and what it would gain, as the Findings pane shows it; waits for its compile.

        Proofs that the pane made are in `Finding.proof`. If calls were watched (`watch_retraces`), what they could avoid is included.

        Args:
          variant: the variant; None for the baseline.

        Raises:
          InspectorError: the variant could not be compiled.
        """
        chosen = self.baseline if variant is None else variant
        if not isinstance(chosen, Variant):
            raise ParameterError(f"Expected one of the Explorer's `variants`, got {short(variant)}.")
        further = self._compiles.work.watched_findings(chosen.lowered)
        return findings_under(chosen.compiled, proofs=chosen.proofs, further=further)

    def watch_retraces(self, is_on: bool = True) -> None:
        """Starts or stops watching why JAX traces again in this process, as in the Retraces pane; see `retraces`.

        Raises:
          ClosedError: the Explorer is closed.
        """
        self._compiles.check_open()
        self._compiles.board.answer({"type": "watch_retraces", "on": is_on})

    @property
    def retraces(self) -> Retraces | Unavailable:
        """The functions that JAX traced again in this process while it was watched, as `inspector.watch_retraces` returns them.

        Raises:
          ClosedError: the Explorer is closed.
        """
        self._compiles.check_open()
        watch = self._compiles.work.retraces
        if watch is None:
            return Unavailable("the exploration was loaded without its function", "use inspector.watch_retraces()")
        return watch.retraces

    def save_html(self, path: str | os.PathLike[str], *, note: str = "") -> None:
        """Writes the whole exploration as a single HTML file that opens in any browser without a network; waits for all variants.

        Every pane works with its recorded data and states what was not recorded. The page opens with the current panes and
        selection. An existing file at the path is replaced.

        Args:
          path: path of the file.
          note: a text for its readers, shown above the panes.

        Raises:
          OSError: the file cannot be written.
          ClosedError: the Explorer is closed.
        """
        self.wait()
        page = self._recorder.page(self._place, note)
        with files.writing(path) as file:
            file.write(page.encode())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to a single file that `inspector.load` opens: programs, variants, products, runs, versions.

        Waits for running work. Machine code and the inputs of runs are not saved.

        Raises:
          OSError: the file cannot be written.
        """
        bundle.save(record(self.wait().variants, self._compiles), path)

    def restore(self, recorded: Sequence[RecordedVariant]) -> None:
        """Shows recorded variants, the first of which is the baseline. Its `Work` must return the recorded results."""
        restore(recorded, self._compiles)

    def resume(self, earlier: object) -> None:
        """Restores the state of the cell's earlier Explorer: its arrangement, variants, selection and recordings.

        Args:
          earlier: the state of that Explorer; anything else is ignored.
        """
        self._given = frozenset(variant.number for variant in self.variants)
        if not isinstance(earlier, rerun.EarlierState):
            return
        if earlier.arrangement:
            self._app.arrangement = dict(earlier.arrangement)
        self._previous = earlier.previous_of(self.lowered)
        if self._previous is not None:
            self._controls.offer_previous()
        self._select_again(earlier)
        for added in earlier.added:
            self._threads.later(functools.partial(rerun.add_again, added, self._compiles))
        if earlier.has(self.lowered):
            rerun.show_again(earlier, self.baseline, self._compiles)

    def _select_again(self, earlier: rerun.EarlierState) -> None:
        """Selects the same place: any in an equal program, or an unchanged line of the source."""
        selection = earlier.selection
        if selection is None:
            return
        if not earlier.has(self.lowered):
            line = rerun.same_line(selection.get("line"), earlier.version.lowered.source, self.lowered.source)
            if selection["pane"] != "source" or line is None:
                return
            selection = {"pane": "source", "line": line}
        with contextlib.suppress(ParameterError):  # a pane without lines
            self.selection = {**selection, "variant": None}

    def add_previous(self) -> Variant:
        """Adds the program that this cell showed before its last run as a variant, to compare with.

        Raises:
          ParameterError: the cell ran once, or the program is the same.
          ClosedError: the Explorer is closed.
        """
        if self._previous is None:
            raise ParameterError(
                "There is no previous version of the program: edit the function and run the cell of this Explorer again."
            )
        return rerun.add_version(self._previous, self._compiles)

    def state_for_rerun(self) -> object:
        """Returns the state for `resume` of the Explorer that replaces this one when its cell runs again."""
        if self._is_closed:
            return None
        return rerun.state(self._compiles, self._given, self._previous, self.arrangement, self._selection)

    def page_element(self, *, has_code: bool) -> str:
        """Returns the page of `save_html` as an element of a larger page.

        One element of such a page has the app's code: see `widgets/saving/page.py`.
        """
        return self._recorder.element(has_code=has_code, place=self._place)

    @property
    def _place(self) -> messages.Focus | None:
        """The selection as a message that brings a browser there; None without one."""
        selection = self._selection
        if selection is None:
            return None
        instruction = selection.get("instruction")
        pane = selection["pane"] if instruction is None or selection["pane"] in ("hlo", "optimized") else "optimized"
        line = selection.get("line") if instruction is None else None
        with contextlib.suppress(ParameterError):
            return focus(self._panes, pane if line is None else "source", line, instruction, selection.get("variant"))
        return None

    def close(self) -> None:
        """Cancels running work, removes the widget from the page, and releases everything that it showed.

        Get the results that you need before, such as `explorer.baseline.compiled`. Can be called twice.
        """
        if self._is_closed:
            return
        is_large = self._compiles.board.row_count >= _LARGE_ROWS
        self._end()
        if is_large:
            collect()  # a module forms a reference cycle
            memory_release.give_back_soon()  # memory that the caller's variable holds
        else:
            memory_release.give_back()

    def __del__(self) -> None:
        """Ends the Explorer when it is garbage collected; the collector also frees the modules."""
        if not self._is_closed:
            self._end()

    def _end(self) -> None:
        self._is_closed = True
        self._threads.close()
        self._controls.close()
        self._recorder.close()
        self._compiles.close()
        self._app.close()
        self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return "<Explorer, closed>" if self._is_closed else self._recorder.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Returns the widget, with a text and an HTML form for pages without a kernel."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        data.update({"text/plain": self._recorder.text(), "text/html": self._recorder.html()})
        return bundle

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the Explorer in a cell. Called by IPython."""
        if self._is_closed:
            raise NotImplementedError  # IPython then shows its repr
        keep(self)
        if is_batch():  # the output is saved as it is now
            with contextlib.suppress(TimeoutError):
                self.wait(_BATCH_LIMIT_S)
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        self._recorder.display({**data, "text/plain": f"Explorer of {self.lowered.program.name}"}, self._frame)
        self._frame = None

    def _display_(self) -> App:
        """Returns the widget, which lives as long as the cell has it. Called by marimo to show the Explorer."""
        hold(self._app)
        return self._app

    def _refresh_stored(self) -> None:
        """Updates the stored output after the pending tasks of the Explorer's thread, so that a saved notebook has the current results."""
        self._threads.later(self._recorder.refresh)

    # ------------------------------------------------------------------ requests of the browser

    def _on_request(self, message: Mapping[str, Any]) -> None:
        compiles, board = self._compiles, self._compiles.board
        match message["type"]:
            case "cancel":
                compiles.cancel(compiles.variant(message["variant"]))
            case "remove":
                self.remove(compiles.variant(message["variant"]))
            case "pin":
                self.pin(compiles.variant(message["variant"]), message["pinned"])
            case "record":
                board.record(compiles.variant(message["variant"]), message["product"])
            case "flags" | "add" | "lower":
                self._controls.receive(message)
            case "previous":
                self.add_previous()
                self._app.publish(
                    messages.Focus(
                        type="focus", pane="optimized", variant=self.baseline.number, line=None, instruction=None
                    )
                )
            case "page":
                self._recorder.send_page(message["id"], self._place, message["note"])
            case "select":
                self._selection = message["selection"]
            case _:
                board.answer(message)
