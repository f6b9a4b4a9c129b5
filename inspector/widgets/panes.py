"""What the panes of an Explorer show of each variant, published as it becomes known, as long as the variant is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from inspector.analysis.collectives import collectives
from inspector.analysis.source import hlo_listing
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.preview import Preview
from inspector.compilation.target import Target
from inspector.hlo.module import Module
from inspector.widgets import messages
from inspector.widgets.app import App, TextDocument
from inspector.widgets.collectives import collectives_message
from inspector.widgets.diff import Shown, diff_message
from inspector.widgets.documents import document
from inspector.widgets.pallas import kernels_message
from inspector.widgets.stats import stats_message
from inspector.widgets.variants import Variant
from inspector.widgets.work import Work

if TYPE_CHECKING:
    from inspector.compilation.engine import Job


class Panes:
    """Publishes to an app. Thread-safe, under its Explorer's lock."""

    def __init__(
        self, app: App, work: Callable[[], Work], lock: threading.RLock, variants: Mapping[int, Variant]
    ) -> None:
        """Nothing is published yet.

        Args:
          app: the browser's side.
          work: tells the fields of kernels.
          lock: guards `variants`.
          variants: the Explorer's, by number; those that are gone are no longer spoken of.
        """
        self._app, self._work, self._lock, self._variants = app, work, lock, variants
        self._shown: dict[int, Shown] = {}

    def module(self, variant: Variant) -> Module | None:
        """The optimized HLO of a variant as it is shown, None before."""
        shown = self._shown.get(variant.number)
        return None if shown is None else shown.module

    def forget(self, variant: Variant) -> None:
        """The variant is gone."""
        self._shown.pop(variant.number, None)
        self._app.publish(messages.VariantRemoved(type="variant_removed", variant=variant.number))

    def close(self) -> None:
        """Nothing is shown any more."""
        self._shown.clear()

    def publish_lowered(self, entries: Iterable[TextDocument | messages.Unavailable]) -> None:
        """The panes before the compiler, as `lowered_panes` makes them."""
        for entry in entries:
            self._publish(entry)

    def publish_state(self, variant: Variant) -> None:
        """Where its compile stands."""
        with self._lock:
            if self.holds(variant):
                self._app.publish(variant.message())

    def publish_of(self, variant: Variant, entry: messages.ToBrowser | TextDocument) -> None:
        """Publishes what belongs to a variant, unless that is gone: the app would keep it for ever."""
        with self._lock:
            if self.holds(variant):
                self._publish(entry)

    def holds(self, variant: Variant) -> bool:
        """Whether the variant is still there."""
        return self._variants.get(variant.number) is variant

    def show(self, variant: Variant, job: Job[CompiledProgram]) -> None:
        """Tells how a compile has ended, and fills the panes when well."""
        try:
            error = job.exception()
            if error is None and self.holds(variant):
                self._fill(variant, job.result())
            elif error is not None:
                self.publish_kernels(variant, error)
        finally:
            self.publish_state(variant)
            variant.shown.set()

    def _fill(self, variant: Variant, compiled: CompiledProgram) -> None:
        if variant.number not in self._shown:
            self.show_program(variant, compiled)
        self.publish_state(variant)
        self.publish_kernels(variant)
        self.publish_of(variant, stats_message(variant.number, compiled))

    def show_program(self, variant: Variant, program: Preview | CompiledProgram) -> None:
        """The optimized HLO and what follows from it alone; a preview's is the result's."""
        if not self.holds(variant):
            return
        module = program.module()
        assert variant.lowered is not None, "what has a program was lowered"
        listing = hlo_listing(program.hlo, module, variant.lowered.root)
        self.publish_of(variant, document("optimized", listing, variant.number))
        with self._lock:
            if self.holds(variant):
                self._shown[variant.number] = Shown(module, listing)
        self._publish_diffs(variant)
        self._publish_collectives(variant, program, module)

    def publish_kernels(self, variant: Variant, error: BaseException | None = None) -> None:
        """The program's Pallas kernels, and what the compiler had against them."""
        lowered = variant.lowered
        if lowered is not None and lowered.kernels:
            fields = [self._work().kernel_fields(kernel, lowered.program.platform) for kernel in lowered.kernels]
            # Before there is code, the optimized HLO says of every kernel that it has no memory.
            module = self.module(variant) if variant.state == "done" else None
            message = kernels_message(variant.number, lowered.kernels, fields, variant.target, error, module)
            self.publish_of(variant, message)

    def _publish_diffs(self, variant: Variant) -> None:
        """Of the variant against those before it that matter; of later ones when it came after them."""
        with self._lock:
            shown, variants = dict(self._shown), list(self._variants.values())
        for before, after in compared(variants):
            pair = before.number, after.number
            if variant.number in pair and shown.keys() >= set(pair):
                name = "the baseline" if before.is_baseline else before.label
                self.publish_of(after, diff_message(pair[0], shown[pair[0]], pair[1], shown[pair[1]], name))

    def _publish_collectives(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> None:
        options = program.build_options
        counts = (options.num_replicas or 1, options.num_partitions or 1)
        mesh = program.program.mesh
        assert variant.lowered is not None, "what has a program was lowered"
        before = collectives(Module.from_proto(variant.lowered.hlo_proto), mesh, *counts)
        self.publish_of(variant, collectives_message(variant.number, "hlo", before))
        after = collectives(module, mesh, *counts)
        self.publish_of(variant, collectives_message(variant.number, "optimized", after))

    def _publish(self, entry: messages.ToBrowser | TextDocument) -> None:
        if isinstance(entry, TextDocument):
            self._app.publish_document(entry)
        else:
            self._app.publish(entry)


def compared(variants: Iterable[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Which are compared: each with the first one for its own target, and with the baseline."""
    first: dict[Target, Variant] = {}
    baseline = None
    for variant in variants:
        baseline = variant if variant.is_baseline else baseline
        reference = first.setdefault(variant.target, variant)
        if reference is not variant:
            yield reference, variant
        if baseline is not None and baseline is not variant and baseline is not reference:
            yield baseline, variant
