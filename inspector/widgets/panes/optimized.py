"""The optimized HLO: its text, and how it differs from that of variants that came before.

Programs are matched and their texts aligned aside from the Explorer's thread, as large ones take seconds.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypedDict

from inspector.analysis.diff.aligned_text import Aligned, aligned
from inspector.analysis.diff.changes import Change as Changed
from inspector.analysis.diff.module_diff import Diff as Difference
from inspector.analysis.diff.module_diff import diff, totals
from inspector.analysis.hlo_listing import hlo_listing
from inspector.compilation import machine_code
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.preview import NO_CODE, Preview
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.text import display_text
from inspector.stages.compiled import instruction_costs
from inspector.support import memory_release
from inspector.widgets import messages
from inspector.widgets.documents import document, packed
from inspector.widgets.panes.framework.pane import Context, Entry, PackedMessage
from inspector.widgets.panes.framework.text import TextPane
from inspector.widgets.variants import Variant

# More than anybody reads; the table of `Compiled.diff` has all.
_MOST_CHANGES = 2000
_MOST_NAMES = 6

Pair = tuple[int, int]


class Change(TypedDict):
    """A thing that differs.

    Attributes:
      kind: what happened, one of `inspector.analysis.diff.changes.KINDS`.
      before, after: the instructions that it is about, of baseline and variant; the first few.
      names: how many there are on both sides.
      what: what differs, in words.
      line: of the variant's text at which it shows, -1 for none.
    """

    kind: str
    opcode: str
    before: list[str]
    after: list[str]
    names: int
    what: str
    line: int


class Diff(TypedDict):
    """How the optimized HLO of `variant` differs from that of `baseline`, matched by structure.

    One buffer: gzip of the lines that the hunks took out of the baseline's text, in order. The baseline is in the order
    and with the names of the variant, as far as they are the same.

    Attributes:
      baseline: the Explorer's, or the first variant for the same target.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of baseline (a) and variant (b).
      following: the hunks, by number, that only follow from others.
      summary: in words, such as "3 fusions split, 1 all-gather appeared, peak +1.2 MiB"; where the optimized HLO is the
        same, with whether the machine code differs.
      changes: the first of `count`, the most telling first.
    """

    type: Literal["diff"]
    baseline: int
    variant: int
    hunks: list[tuple[int, int, int, int]]
    following: list[int]
    summary: str
    changes: list[Change]
    count: int


class DiffCostsRequest(TypedDict):
    """Tell what the changes of a `Diff` cost. `id` numbers the request; late replies are dropped."""

    type: Literal["diff_costs"]
    id: int
    baseline: int
    variant: int


class DiffCosts(TypedDict):
    """The reply to `DiffCostsRequest` number `id`, or an error.

    Attributes:
      costs: of each change flops before and after, bytes before and after, of one execution; None where not known.
      unknown: for each why something is not known; "" where all is.
    """

    type: Literal["diff_costs"]
    id: int
    baseline: int
    variant: int
    costs: list[list[float | None]]
    unknown: list[str]
    error: messages.Error | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """An optimized program, for comparisons."""

    variant: Variant
    program: Preview | CompiledProgram
    module: Module


@dataclasses.dataclass(frozen=True, slots=True)
class _Compared:
    """Two programs that were compared."""

    diff: Difference
    texts: Aligned


class OptimizedPane(TextPane):
    """See the module."""

    language = "hlo"

    def __init__(self, name: str, context: Context) -> None:
        """Compares nothing yet."""
        super().__init__(name, context)
        self._shown: dict[int, _Shown] = {}
        self._compared: dict[Pair, _Compared] = {}

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Its text; what sets it apart follows, and of later variants too when it came after them."""
        assert variant.lowered is not None, "what has a program was lowered"
        listing = hlo_listing(program.hlo, module, variant.lowered.root)
        yield document(self.name, listing, variant.number, language=self.language)
        with self.context.lock:
            if self.context.holds(variant):
                self._shown[variant.number] = _Shown(variant, program, module)
        self._compare(variant)

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """What the whole program costs may not have been known of its preview."""
        shown = self._shown.get(variant.number)
        if shown is not None and isinstance(shown.program, Preview):
            self._shown[variant.number] = dataclasses.replace(shown, program=compiled)
            self._compare(variant)
        return ()

    def answer(self, request: DiffCostsRequest) -> None:
        """What changes cost, once it is counted."""
        self.context.aside(lambda: self.context.publish(self._costs(request)))

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[DiffCostsRequest]:  # noqa: ARG002
        """What the changes cost against those that it is compared with."""
        for before, after in list(self._compared):
            if after == variant.number and self.context.variant(before).state == "done":
                yield DiffCostsRequest(type="diff_costs", id=0, baseline=before, variant=after)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Compares with it no more."""
        self._shown.pop(variant.number, None)
        for pair in [pair for pair in self._compared if variant.number in pair]:
            del self._compared[pair]
        return super().forget(variant)

    def close(self) -> None:
        """Compares no more, and lets go of all programs."""
        self._shown.clear()
        self._compared.clear()

    def _compare(self, variant: Variant) -> None:
        with self.context.lock:
            shown, variants = {*self._shown}, list(self.context.variants())
        for before, after in compared(variants):
            pair = before.number, after.number
            if variant.number in pair and shown.issuperset(pair):
                self.context.aside(functools.partial(self._tell, pair))

    def _tell(self, pair: Pair) -> None:
        """Compares two programs and says how they differ, unless one of them is gone."""
        with self.context.lock:
            before, after = (self._shown.get(number) for number in pair)
        if before is None or after is None:
            return
        known = self._compared.get(pair)
        found = _compared(before, after) if known is None else _updated(known, before, after)
        if known is None:
            memory_release.give_back()  # what matching took besides
        elif known.diff.totals == found.diff.totals and known.diff.other_code == found.diff.other_code:
            return
        self._keep(pair, found)
        self.context.publish(_message(pair, found))

    def _keep(self, pair: Pair, found: _Compared) -> None:
        with self.context.lock:
            if self._shown.keys() >= set(pair):
                self._compared[pair] = found

    def _costs(self, request: DiffCostsRequest) -> DiffCosts:
        pair = request["baseline"], request["variant"]
        reply = DiffCosts(
            type="diff_costs", id=request["id"], baseline=pair[0], variant=pair[1], costs=[], unknown=[], error=None
        )
        try:
            programs = [self.context.variant(number).compiled_now for number in pair]
            found = self._compared[pair].diff.counted(
                lambda: (instruction_costs(programs[0]), instruction_costs(programs[1]))
            )
            for change in found.changes[:_MOST_CHANGES]:
                numbers = found.cost(change).values()
                reply["costs"].append([None if isinstance(each, Unavailable) else float(each) for each in numbers])
                reasons = dict.fromkeys(each.reason for each in numbers if isinstance(each, Unavailable))
                reply["unknown"].append("; ".join(reasons))
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"] = messages.error_of(error)
        return reply


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


def _compared(before: _Shown, after: _Shown) -> _Compared:
    found = diff(before.module, after.module)
    texts = aligned(found, *(display_text(each.program.hlo) for each in (before, after)))
    return _updated(_Compared(found, texts), before, after)


def _updated(found: _Compared, before: _Shown, after: _Shown) -> _Compared:
    """The same with what is known of both programs as a whole."""
    difference = dataclasses.replace(found.diff, totals=totals(before.program, after.program))
    if not difference.changes:
        difference = difference.with_code(_code(before, after))
    return dataclasses.replace(found, diff=difference)


def _code(before: _Shown, after: _Shown) -> bool | Unavailable:
    """Reports whether the machine code differs, where both have been compiled to the end."""
    programs = before.program, after.program
    if isinstance(programs[0], Preview) or isinstance(programs[1], Preview):
        return NO_CODE
    return machine_code.differ(programs[0], programs[1])


def _message(pair: Pair, found: _Compared) -> PackedMessage:
    told, texts = found.diff.changes, found.texts
    message = Diff(
        type="diff",
        baseline=pair[0],
        variant=pair[1],
        hunks=list(texts.hunks),
        following=list(texts.following),
        summary=found.diff.headline,
        changes=[_change(*each) for each in zip(told[:_MOST_CHANGES], texts.lines, strict=False)],
        count=len(told),
    )
    return PackedMessage(message, [packed("\n".join(texts.removed))])


def _change(told: Changed, line: int) -> Change:
    return Change(
        kind=told.kind,
        opcode=told.opcode or "module",
        before=[instruction.name for instruction in told.before[:_MOST_NAMES]],
        after=[instruction.name for instruction in told.after[:_MOST_NAMES]],
        names=len(told.before) + len(told.after),
        what=told.what,
        line=line,
    )
