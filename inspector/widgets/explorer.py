"""`Explorer`: panes and controls over one program and its variants.

It asks for work through `Work` and never blocks: a callback of the comm starts a job and returns.
Jobs end on engine threads; what is then computed for the panes runs on one thread of the Explorer.
Everything on screen is also a Python value here.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from inspector.analysis.collectives import Collectives, collectives
from inspector.analysis.diff import instruction_changes, instruction_multiset, line_hunks
from inspector.analysis.graph import graph
from inspector.analysis.layout import svg
from inspector.analysis.source import hlo_listing
from inspector.analysis.stats import compare
from inspector.compilation.compiled import Compiled
from inspector.compilation.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.errors import CancelledError, InspectorError, Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.collectives import collectives_message
from inspector.widgets.controls import Controls
from inspector.widgets.documents import document
from inspector.widgets.fallback import html_form, text_form
from inspector.widgets.run import failed, run_result
from inspector.widgets.stats import stats_message
from inspector.widgets.variants import Variant
from inspector.widgets.work import LoweredView, RunJob, Work

if TYPE_CHECKING:
    import pandas as pd

    from inspector.compilation.engine import Job

OptionsLike = Options | Mapping[str, FlagValue] | str | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """What is kept of a compiled variant for later comparisons."""

    module: Module
    listing: Listing


class Explorer(widgets.VBox):
    """A widget that shows a program at every stage, and variants of its compilation side by side.

    Made by `inspector.explore`. Display it, or use it from Python: `lowered`, `variants`, `add`,
    `wait`, `compare`, `collectives`.
    """

    def __init__(
        self,
        lowered: LoweredView,
        work: Work,
        *,
        options: OptionsLike = None,
        target: str | Target = "attached",
        can_lower: bool = True,
        height_px: int = 640,
    ) -> None:
        """Shows `lowered` and starts compiling the baseline.

        Args:
          lowered: the program.
          work: how to lower, compile and run.
          options: of the baseline.
          target: of the baseline.
          can_lower: whether another axis environment can be asked for.
          height_px: of the panes, at first.

        Raises:
          OptionError, TargetError: the baseline's request is wrong.
        """
        self.lowered = lowered
        self.selection: Mapping[str, Any] | None = None
        self._work = work
        self._variants: dict[int, Variant] = {}
        self._shown: dict[int, _Shown] = {}
        self._runs: dict[int, RunJob] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-explorer")
        self._app = App(lowered.program.name, height_px=height_px, on_request=self._on_request)
        mesh = lowered.program.mesh
        axes = list(zip(mesh.axis_names, mesh.axis_sizes, strict=True)) if mesh and mesh.kind == "replica" else None
        self._controls = Controls(
            work.targets, str(target), axes, self.add, self._start_lowering if can_lower else None
        )
        super().__init__([self._controls, self._app])
        self.add_class("inspector-explorer")
        self._publish_lowered()
        self.add(options, target)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the baseline first."""
        with self._lock:
            return tuple(self._variants.values())

    @property
    def baseline(self) -> Variant:
        """The variant that the others are compared with."""
        return self.variants[0]

    def add(self, options: OptionsLike = None, target: str | Target | None = None) -> Variant:
        """Starts compiling a variant and returns at once.

        Args:
          options: its options; an `Options`, a dict of flags, the text of an XLA_FLAGS variable.
          target: for what; None for the baseline's target.

        Raises:
          OptionError, TargetError: the request is wrong; nothing was started.
        """
        with self._lock:
            chosen = Target.parse(target if target is not None else self.baseline.target)
            request = self.lowered.request(Options.of(options), chosen)
            variant = Variant(next(self._numbers), not self._variants, request.options, chosen)
            self._variants[variant.number] = variant
        variant.job = self._work.submit(request)
        self._app.publish(variant.message())
        variant.job.add_progress_callback(lambda _: self._publish_state(variant))
        variant.job.add_done_callback(lambda job: self._later(lambda: self._show(variant, job)))
        return variant

    def remove(self, variant: Variant) -> None:
        """Takes a variant away and cancels its compile. The baseline stays.

        Raises:
          ValueError: it is the baseline, or not of this Explorer.
        """
        with self._lock:
            if variant.is_baseline or self._variants.get(variant.number) is not variant:
                raise ValueError(f"{variant.label} cannot be removed: it is the baseline, or gone already.")
            self._forget(variant)

    def wait(self, timeout: float | None = None) -> Explorer:
        """Waits until every variant has ended, well or badly, and its panes are filled.

        Raises:
          TimeoutError: some are still under way after `timeout` seconds.
        """
        for variant in self.variants:
            if variant.job is not None:
                variant.job.exception(timeout) if not variant.job.done() else None
        self._thread.submit(lambda: None).result(timeout)
        return self

    def compare(self) -> pd.DataFrame:
        """Memory, cost and compile time of the variants that compiled, side by side; waits for all."""
        return compare(*(v.compiled for v in self.wait().variants if v.state == "done"))

    def collectives(self) -> Collectives:
        """The collectives of the baseline's optimized HLO; waits for it."""
        return self.baseline.compiled.collectives()

    def close(self) -> None:
        """Cancels what is under way and takes the widget off the page."""
        for variant in self.variants:
            if variant.job is not None:
                variant.job.cancel()
        for run in self._runs.values():
            run.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, with a text and an HTML form for pages without a kernel."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        data["text/plain"] = text_form(self)
        data["text/html"] = html_form(self)
        return bundle

    # ------------------------------------------------------------------ publishing

    def _publish_lowered(self) -> None:
        lowered = self.lowered
        panes: tuple[tuple[messages.TextPane, Listing | Unavailable], ...] = (
            ("source", lowered.source),
            ("jaxpr", lowered.jaxpr_listing),
            ("stablehlo", lowered.stablehlo_listing),
            ("hlo", hlo_listing(lowered.hlo, Module.from_proto(lowered.hlo_proto), lowered.root)),
        )
        for pane, listing in panes:
            if isinstance(listing, Unavailable):
                self._app.publish(
                    messages.Unavailable(
                        type="unavailable", pane=pane, variant=None, reason=listing.reason, remedy=listing.remedy
                    )
                )
            else:
                self._app.publish_document(document(pane, listing))

    def _publish_state(self, variant: Variant) -> None:
        with self._lock:
            if variant.number in self._variants:
                self._app.publish(variant.message())

    def _show(self, variant: Variant, job: Job[Compiled]) -> None:
        """Fills the panes of a variant whose compile has ended."""
        error = job.exception()
        if error is not None or variant.number not in self._variants:
            self._publish_state(variant)
            return
        compiled = job.result()
        module = compiled.module()
        listing = hlo_listing(compiled.hlo, module, self.lowered.root)
        self._app.publish_document(document("optimized", listing, variant.number))
        self._publish_state(variant)
        self._app.publish(stats_message(variant.number, compiled))
        self._shown[variant.number] = _Shown(module, listing)
        self._publish_diffs(variant)
        self._publish_collectives(variant, compiled, module)

    def _publish_diffs(self, variant: Variant) -> None:
        """Of the variant against the baseline; of every other one when the baseline itself came last."""
        baseline = self.baseline.number
        if baseline not in self._shown:
            return
        others = [n for n in self._shown if n != baseline] if variant.is_baseline else [variant.number]
        for number in others:
            before, after = self._shown[baseline], self._shown[number]
            changes = instruction_changes(instruction_multiset(before.module), instruction_multiset(after.module))
            hunks = line_hunks(before.listing.text.split("\n"), after.listing.text.split("\n"))
            self._app.publish(
                messages.Diff(type="diff", baseline=baseline, variant=number, hunks=list(hunks), summary=str(changes))
            )

    def _publish_collectives(self, variant: Variant, compiled: Compiled, module: Module) -> None:
        options = compiled.build_options
        counts = (options.num_replicas or 1, options.num_partitions or 1)
        mesh = compiled.program.mesh
        before = collectives(Module.from_proto(self.lowered.hlo_proto), mesh, *counts)
        self._app.publish(collectives_message(variant.number, "hlo", before))
        self._app.publish(collectives_message(variant.number, "optimized", collectives(module, mesh, *counts)))

    # ------------------------------------------------------------------ requests of the browser

    def _on_request(self, message: messages.FromBrowser) -> None:
        match message["type"]:
            case "run":
                self._start_run(self._variant(message["variant"]), message["repeat"])
            case "cancel":
                self._cancel(self._variant(message["variant"]))
            case "remove":
                self.remove(self._variant(message["variant"]))
            case "graph":
                self._later(lambda: self._draw(message))
            case "select":
                self.selection = message["selection"]

    def _variant(self, number: int) -> Variant:
        with self._lock:
            if number not in self._variants:
                raise ValueError(f"There is no variant {number} any more.")
            return self._variants[number]

    def _cancel(self, variant: Variant) -> None:
        run = self._runs.get(variant.number)
        if run is not None:
            run.cancel()
        if variant.job is not None:
            variant.job.cancel()

    def _start_run(self, variant: Variant, repeat: int) -> None:
        try:
            run = self._work.run(variant.compiled, repeat)
        except InspectorError as error:
            self._app.publish(_run_message(variant, "failed", error=error))
            return
        self._runs[variant.number] = run
        self._app.publish(_run_message(variant, "running", run))
        run.add_done_callback(lambda _: self._later(lambda: self._show_run(variant, run)))

    def _show_run(self, variant: Variant, run: RunJob) -> None:
        try:
            message = _run_message(variant, "done", run, result=run_result(run.result()))
        except CancelledError:
            message = _run_message(variant, "cancelled", run)
        except Exception as error:  # whatever it is, it belongs in the pane
            message = _run_message(variant, "failed", run, error=error)
        if self._runs.get(variant.number) is run:
            self._app.publish(message)

    def _draw(self, request: messages.GraphRequest) -> None:
        reply = messages.Graph(
            type="graph",
            id=request["id"],
            variant=request["variant"],
            mode=request["mode"],
            svg=None,
            caption="",
            error=None,
        )
        try:
            compiled = self._variant(request["variant"]).compiled
            shown = self._shown.get(request["variant"])
            selection = request["selection"]
            instruction = selection["instruction"] if selection else None
            drawn = graph(shown.module if shown else compiled.module(), request["mode"], instruction)
            reply |= {"svg": svg(drawn.dot), "caption": drawn.caption, "mode": drawn.mode}  # type: ignore[typeddict-item]
        except Exception as error:
            reply["error"] = failed(error)
        self._app.publish(reply)

    # ------------------------------------------------------------------ another axis environment

    def _start_lowering(self, pairs: Sequence[tuple[str, int]]) -> None:
        self._later(lambda: self._lower(pairs))

    def _lower(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Lowers again and starts over with the baseline's options and the other variants'."""
        asked = [(v.options, v.target) for v in self.variants]
        try:
            lowered = self._work.lower(pairs)
            lowered.request(*asked[0])
        except Exception as error:  # user code ran: anything may come out of it
            self._controls.say(error)
            return
        with self._lock:
            for variant in self.variants:
                self._forget(variant)
            self.lowered = lowered
        self._publish_lowered()
        for options, target in asked:
            self.add(options, target)

    def _forget(self, variant: Variant) -> None:
        del self._variants[variant.number]
        self._shown.pop(variant.number, None)
        run = self._runs.pop(variant.number, None)
        if run is not None:
            run.cancel()
        if variant.job is not None:
            variant.job.cancel()
        self._app.publish(messages.VariantRemoved(type="variant_removed", variant=variant.number))

    def _later(self, task: Callable[[], None]) -> None:
        """Runs a task on the Explorer's thread; what it raises is shown."""

        def guarded() -> None:
            try:
                task()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                self._app.publish(messages.Notice(type="notice", level="error", message=text))

        try:
            self._thread.submit(guarded)
        except RuntimeError:  # closed
            pass


def _run_message(
    variant: Variant,
    state: messages.State,
    run: RunJob | None = None,
    *,
    error: BaseException | None = None,
    result: messages.RunResult | None = None,
) -> messages.Run:
    return messages.Run(
        type="run",
        variant=variant.number,
        state=state,
        stage="" if run is None else run.stage,
        elapsed_s=0.0 if run is None else run.elapsed_s,
        error=None if error is None else failed(error),
        result=result,
    )


def variants_of(compare: Iterable[OptionsLike | Target]) -> list[tuple[OptionsLike, str | Target | None]]:
    """What `explore(compare=...)` takes, as (options, target): a target's text, a Target, or options."""
    pairs: list[tuple[OptionsLike, str | Target | None]] = []
    for entry in compare:
        is_target = isinstance(entry, Target) or (
            isinstance(entry, str) and "=" not in entry and not entry.startswith("--")
        )
        pairs.append((None, entry) if is_target else (entry, None))  # type: ignore[arg-type]
    return pairs
