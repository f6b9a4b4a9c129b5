"""The compiler passes of a variant, recorded when asked for, and what one of them changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from inspector.analysis import passes as analysis
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.records.passes import Passes
from inspector.errors import Unavailable
from inspector.units import format_seconds
from inspector.widgets import messages
from inspector.widgets.documents import document, packed
from inspector.widgets.panes.pane import Entry, Packed
from inspector.widgets.panes.recorded import RecordedPane, sentence
from inspector.widgets.variants import Variant


class PassRow(TypedDict):
    """A compiler pass; `duration_s` is None exactly when `reason` says why."""

    pipeline: str
    name: str
    changed: bool
    duration_s: float | None
    reason: str


class PassList(TypedDict):
    """The compiler passes of a variant, in order; `note` explains an empty or a short list."""

    type: Literal["passes"]
    variant: int
    rows: list[PassRow]
    note: str


class PassRequest(TypedDict):
    """Tell what a recorded pass changed. `id` numbers the request; late replies are dropped."""

    type: Literal["pass"]
    id: int
    variant: int
    index: int


class PassChange(TypedDict):
    """The reply to `PassRequest` number `id`: what a pass changed, or an error.

    Without an error there are five buffers: the four of a `Document`, of the text after the pass, and gzip of
    the lines that the hunks took out of the text before, in order.

    Attributes:
      index: of the pass in the list.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of before (a) and after (b).
      summary: in words.
    """

    type: Literal["pass_change"]
    id: int
    variant: int
    index: int
    hunks: list[tuple[int, int, int, int]]
    summary: str
    error: messages.Error | None


class PassesPane(RecordedPane[Passes | Unavailable]):
    """See the module."""

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """The list of passes."""
        self.keep(variant, compiled.passes)
        return [_pass_list(variant.number, compiled.passes)]

    def answer(self, request: PassRequest) -> None:
        """What one pass changed."""
        self.context.later(lambda: self._change(request))

    def _change(self, request: PassRequest) -> None:
        passes = self.kept(request["variant"])
        reply = PassChange(
            type="pass_change", id=request["id"], variant=request["variant"], index=request["index"], hunks=[],
            summary="", error=None,
        )  # fmt: skip
        try:
            lowered = self.context.variant(request["variant"]).lowered
            assert lowered is not None, "what was compiled was lowered"
            chosen = passes[request["index"]]  # type: ignore[index]  # of Unavailable the browser has no rows
            change = analysis.pass_change(chosen)
            reply |= {"hunks": list(change.hunks), "summary": str(change)}
            listing = analysis.listing_after(chosen, change, lowered.module(), lowered.root)
            buffers = [*document("optimized", listing).buffers(), packed(_removed(change))]
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"], buffers = messages.error_of(error), []
        self.context.publish(Packed(reply, buffers))


def _pass_list(number: int, passes: Passes | Unavailable) -> PassList:
    if isinstance(passes, Unavailable):
        return PassList(type="passes", variant=number, rows=[], note=sentence(passes))
    rows = [
        PassRow(
            pipeline=p.pipeline,
            name=p.name,
            changed=p.changed,
            duration_s=None if isinstance(p.duration_s, Unavailable) else p.duration_s,
            reason=p.duration_s.reason if isinstance(p.duration_s, Unavailable) else "",
        )
        for p in passes
    ]
    return PassList(type="passes", variant=number, rows=rows, note=_rest(passes))


def _rest(passes: Passes) -> str:
    """What the list of passes leaves out, and the time that is no pass's."""
    said = [f"{phase.name}, {format_seconds(phase.duration_s)}" for phase in passes.phases]
    parts = [passes.note, f"Besides the passes: {'; '.join(said)}." if said else ""]
    return " ".join(part for part in parts if part)


def _removed(change: analysis.PassChange) -> str:
    """The lines that went: with the text after it what a browser needs to know the one before."""
    before = change.before.text.split("\n")
    return "\n".join(line for a0, a1, _, _ in change.hunks for line in before[a0:a1])
