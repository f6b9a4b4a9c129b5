"""The Passes pane: the recorded compiler passes of a variant with their changes, and the history of an instruction through them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from inspector.analysis.cost.compile_time import TimePart, compile_time
from inspector.analysis.graph.hierarchy import hierarchy
from inspector.analysis.passes import snapshot_changes as analysis
from inspector.analysis.passes.follow import Following
from inspector.analysis.passes.step_descriptions import WORDS, StepEvent
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options import pass_switches
from inspector.compilation.options.options import Options
from inspector.compilation.records.pass_counts import Counts
from inspector.compilation.records.passes import PASS_COLUMNS, Pass
from inspector.errors import InspectorError, ParameterError, Unavailable
from inspector.hlo.module import Module
from inspector.stages.passes import CompilerPasses
from inspector.support.units import format_seconds
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.described_tables import heads_of
from inspector.widgets.documents import document, packed
from inspector.widgets.messages.passes import (
    CompileTimePart,
    FollowRequest,
    ModuleCounts,
    PassChangeMessage,
    PassEvent,
    PassGraph,
    PassGraphRequest,
    PassList,
    PassRequest,
    PassRow,
    PassTouch,
    PassVariantRequest,
    Story,
)
from inspector.widgets.panes.framework.pane import Context, Entry, Excerpt, PackedMessage
from inspector.widgets.panes.framework.product import ProductPane, sentence
from inspector.widgets.panes.graph import graph_buffers, numbers
from inspector.widgets.variants import Variant

CONTEXT_LINES = 3
MOST_LINES = 600
MOST_EVENTS = 120
MOST_NAMES = 24
_FIRST_SEEN = 20


class PassesPane(ProductPane[CompilerPasses | Unavailable]):
    """Lists the passes of each variant and sends their changes."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is recorded yet."""
        super().__init__(name, context)
        self._waiting: dict[str, set[int]] = {}
        self._modules: dict[tuple[int, int], Module] = {}

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Returns the list of passes."""
        passes = compiled.passes
        known = passes if isinstance(passes, Unavailable) else CompilerPasses.of(passes, compiled.module)
        self.store(variant, known)
        lowering = {} if variant.lowered is None else variant.lowered.timings
        return [_pass_list(variant.number, known, compile_time(compiled, lowering))]

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[PassRequest]:
        """Yields the requests for the changes of recorded passes; only the first ones unless `is_whole`."""
        known = self.find(variant.number)
        steps = () if known is None or isinstance(known, Unavailable) else known.steps
        for step in steps if is_whole else steps[:_FIRST_SEEN]:
            yield PassRequest(
                type="pass", id=0, variant=variant.number, index=step.index, since=None, whole=False
            )  # fmt: skip

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Yields the passes that changed the module, one per line."""
        known = self.find(variant.number)
        if known is not None and not isinstance(known, Unavailable):
            lines = "\n".join(_line(step, known) for step in known.steps)
            yield Excerpt(f"Passes: {len(known):,}, {len(known.changed):,} changed the module", lines)

    def answer(self, request: PassRequest | FollowRequest | PassVariantRequest | PassGraphRequest) -> None:
        """Sends the changes of a pass, the history of an instruction or the graph of a module, or starts a variant without a pass."""
        if request["type"] == "pass_variant":
            chosen = request
            self.context.later(lambda: self._start(chosen))
        elif request["type"] == "follow":
            followed = request
            self._once("detail", followed["id"], lambda: self._follow(followed))
        elif request["type"] == "pass_graph":
            drawn = request
            self._once("graph", drawn["id"], lambda: self._draw(drawn))
        else:
            selected = request
            self._once("detail", selected["id"], lambda: self._change(selected))

    def _once(self, what: str, number: int, do: Callable[[], object]) -> None:
        """Runs a request's task, unless the same browser sent a newer request of this kind in the meantime."""
        waiting = self._waiting.setdefault(what, set())
        waiting.add(number)

        def answer() -> None:
            waiting.discard(number)
            if not any(number < later < number + _OF_ONE_BROWSER for later in list(waiting)):
                do()

        self.context.later(answer)

    @property
    def _is_idle(self) -> bool:
        return not any(self._waiting.values())

    def _recorded_passes(self, number: int) -> CompilerPasses:
        passes = self.product(number)
        if isinstance(passes, Unavailable):
            raise ParameterError(str(passes))
        return passes

    def _change(self, request: PassRequest) -> None:
        passes = self._recorded_passes(request["variant"])
        reply = PassChangeMessage(
            type="pass_change", id=request["id"], variant=request["variant"], index=request["index"],
            since=request["since"], whole=request["whole"], hunks=[], summary="", events=[], event_count=0, left_out=0,
            error=None,
        )  # fmt: skip
        try:
            buffers = self._fill(request, passes, reply)
        except Exception as error:  # the pane shows any error
            reply["error"], buffers = messages.error_of(error), []
        self.context.publish(PackedMessage(reply, buffers))
        if request["since"] is None and self._is_idle:
            self.context.later(lambda: self._prepare(request["variant"], request["index"]))

    def _prepare(self, number: int, index: int) -> None:
        """Compares the modules around the next pass in advance, for users who step through the passes."""
        with contextlib.suppress(InspectorError):  # the variant was removed
            passes = self._recorded_passes(number)
            following = next((step for step in passes.steps if step.index > index), None)
            if following is not None and self._is_idle:
                passes.history.compared(following.before_index, following.after_index)

    def _fill(self, request: PassRequest, passes: CompilerPasses, reply: PassChangeMessage) -> list[bytes]:
        lowered = self.context.variant(request["variant"]).lowered
        assert lowered is not None, "a compiled variant was lowered"
        since = request["since"]
        if since is None:
            change = passes.change(request["index"])
        else:
            change = passes.between(None if since < 0 else since, request["index"])
        part = None if request["whole"] else analysis.excerpt(change, CONTEXT_LINES, MOST_LINES)
        listing = analysis.listing_after(change, lowered.module(), lowered.root, None if part is None else part.places)
        events = change.words.events
        reply["hunks"] = list(change.hunks if part is None else part.hunks)
        reply["summary"] = str(change)
        reply["events"] = [_event(event) for event in events[:MOST_EVENTS]]
        reply["event_count"] = len(events)
        reply["left_out"] = 0 if part is None else part.left_out
        removed = change.removed(change.hunks if part is None else part.whole)
        return [*document("optimized", listing).buffers(), packed(removed)]

    def _draw(self, request: PassGraphRequest) -> None:
        """Compares the snapshots on this thread; builds the graph of the module, which takes longer, on another thread."""
        reply = PassGraph(
            type="pass_graph", id=request["id"], variant=request["variant"], index=request["index"],
            is_before=request["is_before"], instructions=0, words=[*WORDS], error=None,
        )  # fmt: skip
        try:
            passes = self._recorded_passes(request["variant"])
            one = passes.at(request["index"])
            events = passes.history.compared(one.before_index, one.after_index)[1].events
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
            self.context.publish(PackedMessage(reply, []))
            return

        def send() -> None:
            buffers = list[bytes]()
            try:
                module = self._module(request, passes)
                reply["instructions"] = len(module.columns)
                buffers = [*graph_buffers(hierarchy(module), module), _done(module, events, request["is_before"])]
            except Exception as error:
                reply["error"] = messages.error_of(error)
            self.context.publish(PackedMessage(reply, buffers))

        self.context.aside(send)

    def _module(self, request: PassGraphRequest, passes: CompilerPasses) -> Module:
        """Returns the module of a snapshot. The latest ones are cached, as the module before a pass is the one after the previous pass."""
        one = passes.at(request["index"])
        key = request["variant"], one.before_index if request["is_before"] else one.after_index
        module = self._modules.pop(key, None) or passes.module(one, before=request["is_before"])
        self._modules[key] = module
        while len(self._modules) > _MOST_MODULES:
            del self._modules[next(iter(self._modules))]
        return module

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's modules as well."""
        for key in [key for key in self._modules if key[0] == variant.number]:
            self._modules.pop(key, None)
        return super().forget(variant)

    def close(self) -> None:
        """Drops everything."""
        self._modules.clear()
        super().close()

    def _follow(self, request: FollowRequest) -> None:
        passes = self._recorded_passes(request["variant"])
        reply = Story(
            type="story", id=request["id"], variant=request["variant"], what="", fate="", certainty="", note="",
            touches=[], error=None,
        )  # fmt: skip
        try:
            history = _followed(request, passes)
        except Exception as error:
            reply["error"] = messages.error_of(error)
        else:
            reply |= {
                "what": history.what,
                "fate": history.fate,
                "certainty": str(history.certainty),
                "note": history.note,
            }
            reply["touches"] = [
                PassTouch(
                    index=t.index, name=t.name, word=t.word, text=t.text, before=list(t.before[:MOST_NAMES]),
                    after=list(t.after[:MOST_NAMES]), certainty=str(t.certainty),
                )
                for t in history.touches
            ]  # fmt: skip
        self.context.publish(reply)

    def _start(self, request: PassVariantRequest) -> None:
        variant = self.context.variant(request["variant"])
        passes = self._recorded_passes(request["variant"])
        switch = pass_switches.without if request["which"] == "without" else pass_switches.until
        options: Options | Unavailable = switch(passes, request["index"], variant.options)
        if isinstance(options, Unavailable):
            raise ParameterError(str(options))
        self.context.tune(options, variant.target, variant.tuning)


_MOST_MODULES = 2
_OF_ONE_BROWSER = 10_000  # each browser starts to count at a random number


def _followed(request: FollowRequest, passes: CompilerPasses) -> Following:
    if request["instruction"]:
        index = request["index"]
        history = passes.history
        if index is None:
            return passes.follow(request["instruction"])
        return history.follow([request["instruction"]], history.place_after(index), request["instruction"])
    if request["op_name"]:
        return passes.follow(op_name=request["op_name"])
    history = passes.history
    file, line = request["file"], request["line"]
    names = history.of_line(lambda at, number: number == line and display_file(at) == file)
    if not names:
        raise ParameterError(f"No instruction of the module before all passes comes from {file}:{line}.")
    return history.follow(names, 0, f"{file.rpartition('/')[2]}:{line}")


def _pass_list(number: int, passes: CompilerPasses | Unavailable, times: Sequence[TimePart]) -> PassList:
    empty = PassList(
        type="passes", variant=number, columns=heads_of(PASS_COLUMNS), rows=[], note="", start=None,
        copied=[column.name for column in PASS_COLUMNS.of("data_frame")], times=[_time(part) for part in times],
    )  # fmt: skip
    if isinstance(passes, Unavailable):
        return empty | {"note": sentence(passes)}
    start = passes.counts_at(passes[0].before_index) if len(passes) else None
    steps = {step.index for step in passes.steps}
    rows = [
        PassRow(
            pipeline=p.pipeline,
            name=p.name,
            changed=p.changed,
            duration_s=None if isinstance(p.duration_s, Unavailable) else p.duration_s,
            reason=p.duration_s.reason if isinstance(p.duration_s, Unavailable) else "",
            counts=_counts(passes.counts_at(p.after_index)),
            is_step=p.index in steps,
            without=_refusal(passes.without(p.index)) if p.changed else "it changed nothing",
            until=_refusal(passes.until(p.index))
            if p.changed
            else "it changed nothing. Choose a pass that changed the module",
            kept=list(pass_switches.later_passes(passes, p.index)[1]) if p.changed else [],
        )
        for p in passes
    ]
    return empty | {"rows": rows, "note": passes.note, "start": _counts(start)}


def _line(step: Pass, passes: CompilerPasses) -> str:
    took = "" if isinstance(step.duration_s, Unavailable) else f", {format_seconds(step.duration_s)}"
    before, after = passes.counts_at(step.before_index), passes.counts_at(step.after_index)
    counts = ""
    if isinstance(before, Counts) and isinstance(after, Counts):
        counts = f": {before.instructions:,} → {after.instructions:,} instructions"
    return f"{step.index} {step.pipeline}/{step.name}{counts}{took}"


def _refusal(options: Options | Unavailable) -> str:
    return options.reason if isinstance(options, Unavailable) else ""


def _counts(counts: Counts | Unavailable | None) -> ModuleCounts | None:
    if not isinstance(counts, Counts):
        return None
    return ModuleCounts(
        instructions=counts.instructions,
        fusions=counts.fusions,
        written_bytes=counts.written_bytes,
        collectives=counts.collectives,
    )


def _time(part: TimePart) -> CompileTimePart:
    is_known = not isinstance(part.duration_s, Unavailable)
    return CompileTimePart(
        name=part.name,
        where=part.where,
        duration_s=part.duration_s if is_known else None,  # type: ignore[typeddict-item]
        reason="" if is_known else str(part.duration_s),
    )


def _event(event: StepEvent) -> PassEvent:
    return PassEvent(
        word=event.word,
        before=list(event.before[:MOST_NAMES]),
        after=list(event.after[:MOST_NAMES]),
        before_count=len(event.before),
        after_count=len(event.after),
        certainty=str(event.certainty),
        note=event.note,
    )


def _done(module: Module, events: Iterable[StepEvent], is_before: bool) -> bytes:
    """Returns the effect of the pass on each instruction, in the format of `PassGraph`."""
    words: dict[str, int] = {}
    for event in events:
        for name in event.before if is_before else event.after:
            words.setdefault(name, 1 + WORDS.index(event.word))
    return numbers("<u1", np.array([words.get(name, 0) for name in module.columns.names], np.int64))
