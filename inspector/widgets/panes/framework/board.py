"""Connects the panes of an Explorer: routes results to the panes that need them, and requests to the pane that answers them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import READING_CACHE
from inspector.compilation.preview import Preview
from inspector.execution.outcome import Outcome
from inspector.hlo.module import Module
from inspector.stages.lowered import Lowered
from inspector.support import memory_release
from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.documents import TextDocument
from inspector.widgets.panes.framework.pane import CompileService, Context, Entry, Excerpt, PackedMessage, Pane
from inspector.widgets.panes.registry import PaneEntry
from inspector.widgets.products import Products
from inspector.widgets.saving.transcript import SentMessage
from inspector.widgets.threads import Threads
from inspector.widgets.variants import Variant, Variants

if TYPE_CHECKING:
    from inspector.compilation.engine import Job


class Board:
    """Publishes the messages of panes to an app. Thread-safe, guarded by its Explorer's lock."""

    def __init__(
        self, lines: Sequence[PaneEntry], app: App, threads: Threads, variants: Variants, compiles: CompileService
    ) -> None:
        """Creates the panes; nothing is published yet.

        Args:
          lines: registry entries of the panes to offer.
          app: the app to publish to.
          threads: the Explorer's threads.
          variants: the Explorer's variants; messages about removed variants are dropped.
          compiles: starts the work that panes request.
        """
        self._app, self._variants, self._lock = app, variants, variants.lock
        self._modules: dict[int, Module] = {}
        self._own_ids = itertools.count(-1, -1)  # browsers count upwards
        self._replies: dict[int, Entry | None] = {}
        self._behind: dict[int, list[Callable[[], object]]] = {}
        self._context = context = Context(variants, threads, compiles, self)
        self._products = Products(context, self._show_recorded)
        self._lines = lines
        self._panes = {line.name: line.make(line.name, context) for line in lines}
        self._hears = {messages.type_of(kind): self._panes[line.name] for line in lines for kind in line.hears}

    @property
    def row_count(self) -> int:
        """The number of instructions in all programs that are shown."""
        with self._lock:
            return sum(len(module.columns) for module in self._modules.values())

    def rows_of(self, variant: Variant) -> int:
        """Returns the number of instructions in a variant's program, or 0 if unknown."""
        module = self._modules.get(variant.number)
        return 0 if module is None else len(module.columns)

    def module(self, variant: Variant) -> Module | None:
        """Returns a variant's optimized HLO, or None before it is available."""
        return self._modules.get(variant.number)

    def publish(self, entry: Entry) -> None:
        """Sends a message, unless it is about a removed variant, as the app would store it forever."""
        content = _content(entry)
        if (number := content.get("id", 0)) < 0:  # requested by `ask`, not by a browser
            if number in self._replies:
                self._replies[number] = entry
            return
        about = [content[name] for name in messages.OF_VARIANTS if content.get(name) is not None]
        with self._lock:
            if "id" in content or self._variants.numbers.issuperset(about):
                self._send(entry)

    def publish_all(self, entries: Iterable[Entry]) -> None:
        """Sends messages as they are produced."""
        for entry in entries:
            self.publish(entry)

    def lowered(self, lowered: Lowered, variant: int | None = None) -> list[Entry]:
        """Returns the messages of panes that show the lowered program; for a variant, only those that depend on its platform."""
        return [entry for pane in self._needing("lowered") for entry in pane.lowered(lowered, variant)]

    def show_lowered(self, lowered: Lowered, baseline: Variant) -> None:
        """Shows the lowered program, one pane at a time; after the baseline if the baseline is read from the cache."""
        panes, job = self._needing("lowered"), baseline.job
        tasks: list[Callable[[], object]] = [
            functools.partial(self._show_text, pane, lowered, baseline) for pane in panes
        ]
        with self._lock:
            self._behind[baseline.number] = tasks
            if job is None or job.stage != READING_CACHE or baseline.shown.is_set():
                self._go_on(baseline)
        if job is not None:
            job.add_progress_callback(
                lambda _: self._go_on(baseline)
            )  # the cache entry is damaged, so the program is compiled
            if job.stage != READING_CACHE and not job.done():
                self._go_on(baseline)

    def behind(self, baseline: Variant, task: Callable[[], object]) -> None:
        """Runs a task on the Explorer's thread after the lowered program is shown, which may itself be delayed."""
        with self._lock:
            if baseline.number in self._behind:
                self._behind[baseline.number].append(task)
            else:
                self._context.later(task)

    def begin(self, variant: Variant) -> None:
        """Publishes a new variant. Its kernels are published later, as they have to be counted."""
        self.publish(variant.message())
        if variant.lowered is not None and variant.lowered.kernels:
            self._context.later(lambda: self._show_kernels(variant))

    def follow(self, variant: Variant, job: Job[CompiledProgram], ended: Callable[[], object]) -> None:
        """Shows the progress and result of a compile, then calls `ended`. Must not be called while holding the lock."""
        later = self._context.later
        job.add_progress_callback(lambda _: self.publish(variant.message()))
        job.add_preview_callback(lambda preview: later(lambda: self._show_preview(variant, preview)))

        def end(_: object) -> None:
            self.publish(variant.message())  # immediately, as the Explorer's thread may be busy
            later(lambda: self._show(variant, job))
            ended()

        job.add_done_callback(end)

    def answer(self, request: Mapping[str, Any]) -> None:
        """Passes a browser's request to its pane, on the comm's thread."""
        self._hears[request["type"]].answer(request)

    def ask(self, variants: Sequence[Variant], *, is_whole: bool) -> Callable[[], list[SentMessage]]:
        """Sends the panes the requests of a page without a notebook kernel, and returns a function that waits for the replies.

        Args:
          variants: variants that compiled successfully.
          is_whole: see `Pane.recordable`.
        """
        requests: dict[int, Mapping[str, Any]] = {}
        for pane in self._panes.values():
            for variant in variants:
                for request in pane.recordable(variant, is_whole=is_whole):
                    number = next(self._own_ids)
                    if "id" in request:
                        requests[number] = {name: value for name, value in request.items() if name != "id"}
                        self._replies[number] = None
                    pane.answer({**request, "id": number} if "id" in request else request)

        def collect() -> list[SentMessage]:
            for pane in self._panes.values():
                pane.settle()
            replies = [(request, self._replies.pop(number, None)) for number, request in requests.items()]
            return [SentMessage(*_parts(entry), request) for request, entry in replies if entry is not None]

        return collect

    def record(self, variant: Variant, product: str) -> None:
        """Records a product of a variant with a separate compile.

        Raises:
          InspectorError: the variant is not compiled, or there is no such product.
        """
        self._products.start(variant, product)

    def show_profile(self, variant: Variant) -> None:
        """Publishes the number of a variant's profile, and the panes that show its times without a request."""
        self.publish(variant.message())
        for pane in self._needing("profiled"):
            self._context.later(functools.partial(self._show_times, pane, variant))

    def products(self, variant: Variant) -> tuple[str, ...]:
        """Returns the products that were recorded for a variant by separate compiles."""
        return self._products.shown(variant)

    def excerpts(self, variant: Variant) -> list[Excerpt]:
        """Returns the recorded data of a variant beyond its compile, for pages without scripts."""
        return [excerpt for pane in self._panes.values() for excerpt in pane.excerpts(variant)]

    def outcome(self, variant: Variant) -> Outcome | None:
        """Returns the stored outcome of a variant's latest run, or None."""
        return next(filter(None, (pane.outcome(variant) for pane in self._panes.values())), None)

    def cancel(self, variant: Variant) -> None:
        """Stops all running work for a variant except its compile."""
        for pane in self._panes.values():
            pane.cancel(variant)
        self._products.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], None]:
        """Drops the data of a removed variant. Must be called under the lock.

        The caller then calls the returned function, which stops work.
        """
        self._modules.pop(variant.number, None)
        self._behind.pop(variant.number, None)
        stops = [self._products.forget(variant.number), *(pane.forget(variant) for pane in self._panes.values())]
        self._app.publish(messages.VariantRemoved(type="variant_removed", variant=variant.number))

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def close(self) -> None:
        """Stops all work; nothing is shown afterwards."""
        self._products.close()
        for pane in self._panes.values():
            pane.close()
        self._modules.clear()
        self._behind.clear()

    def _needing(self, need: str) -> list[Pane]:
        return [self._panes[line.name] for line in self._lines if need in line.needs]

    def _send(self, entry: Entry) -> None:
        if isinstance(entry, TextDocument):
            self._app.publish_document(entry)
        elif isinstance(entry, PackedMessage):
            self._app.publish(entry.content, entry.buffers)
        else:
            self._app.publish(entry)

    def _show(self, variant: Variant, job: Job[CompiledProgram]) -> None:
        """Publishes the end of a compile, and fills the panes if it succeeded."""
        try:
            error = job.exception()
            if error is None and variant in self._variants:
                self._fill(variant, job.result())
            elif error is not None:
                self._show_kernels(variant, error)
                for pane in self._needing("failed"):
                    self.publish_all(pane.failed(variant, error))
        finally:
            self.publish(variant.message())
            with self._lock:
                self._go_on(variant)
                variant.shown.set()
            memory_release.give_back()  # temporary memory of reading a large program

    def _go_on(self, variant: Variant) -> None:
        """Starts the tasks that wait for a variant to be shown."""
        with self._lock:
            for task in self._behind.pop(variant.number, ()):
                self._context.later(task)

    def _show_text(self, pane: Pane, lowered: Lowered, baseline: Variant) -> None:
        if baseline in self._variants:  # not lowered again in the meantime
            self.publish_all(pane.lowered(lowered, None))

    def _show_times(self, pane: Pane, variant: Variant) -> None:
        if variant in self._variants:
            self.publish_all(pane.profiled(variant))

    def _fill(self, variant: Variant, compiled: CompiledProgram) -> None:
        if variant.number not in self._modules:
            self._show_program(variant, compiled)
        self.publish(variant.message())
        self._show_kernels(variant)
        for pane in self._needing("compiled"):
            self.publish_all(pane.compiled(variant, compiled))
        self._products.show_known(variant)

    def _show_preview(self, variant: Variant, preview: Preview) -> None:
        if variant.number not in self._modules:
            self._show_program(variant, preview)
        if preview.before_code:  # otherwise the complete result follows next
            for pane in self._needing("preview"):
                self.publish_all(pane.preview(variant, preview))

    def _show_program(self, variant: Variant, program: Preview | CompiledProgram) -> None:
        """Shows the optimized HLO and everything that depends only on it; a preview has the same HLO as the result."""
        if variant not in self._variants:
            return
        module = program.module()
        with self._lock:
            if variant in self._variants:
                self._modules[variant.number] = module
        for pane in self._needing("program"):
            self.publish_all(pane.program(variant, program, module))

    def _show_kernels(self, variant: Variant, error: BaseException | None = None) -> None:
        for pane in self._needing("kernels"):
            self.publish_all(pane.kernels(variant, error))

    def _show_recorded(self, variant: Variant, product: str, compiled: CompiledProgram) -> None:
        for pane in self._needing(product):
            self.publish_all(pane.recorded(variant, compiled))
        self._context.recorded()


def _content(entry: Entry) -> Mapping[str, Any]:
    if isinstance(entry, TextDocument):
        return entry.message()
    return entry.content if isinstance(entry, PackedMessage) else entry


def _parts(entry: Entry) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    assert not isinstance(entry, TextDocument), "a reply to a request is never a pane's text"
    return (entry.content, entry.buffers) if isinstance(entry, PackedMessage) else (entry, ())
