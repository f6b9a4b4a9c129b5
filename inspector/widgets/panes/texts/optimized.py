"""The Optimized HLO pane: the text, and its differences from earlier variants.

Programs are matched and their texts aligned on a separate thread, as large ones take seconds.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypedDict

from inspector.analysis.diff.aligned_text import Aligned, aligned
from inspector.analysis.diff.changes import Change
from inspector.analysis.diff.module_diff import Diff, diff, totals
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
from inspector.widgets.variants import PREVIOUS, Variant

# More than a user reads; the table of `Compiled.diff` lists all.
_MOST_CHANGES = 2000
_MOST_NAMES = 6

Pair = tuple[int, int]


class ChangeMessage(TypedDict):
    """A difference between two programs.

    Attributes:
      kind: kind of the change, one of `inspector.analysis.diff.changes.KINDS`.
      before, after: affected instructions of the baseline and the variant; the first few.
      names: number of affected instructions on both sides.
      what: description of the difference.
      line: line of the variant's text where it is visible, -1 for none.
    """

    kind: str
    opcode: str
    before: list[str]
    after: list[str]
    names: int
    what: str
    line: int


class DiffMessage(TypedDict):
    """The differences between the optimized HLO of `variant` and that of `baseline`, matched by structure.

    One buffer: gzip of the lines that the hunks removed from the baseline's text, in order. The baseline's text has the order
    and the names of the variant's as far as they match.

    Attributes:
      baseline: the Explorer's baseline, the first variant for the same target, or the one of a `DiffRequest`.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of baseline (a) and variant (b).
      following: indices of the hunks that are only consequences of others.
      summary: description such as "3 fusions split, 1 all-gather appeared, peak +1.2 MiB"; if the optimized HLO is
        equal, it also states whether the machine code differs.
      changes: the first of `count` changes, the most significant first.
    """

    type: Literal["diff"]
    baseline: int
    variant: int
    hunks: list[tuple[int, int, int, int]]
    following: list[int]
    summary: str
    changes: list[ChangeMessage]
    count: int


class DiffRequest(TypedDict):
    """Compares two variants that are not compared automatically. A `DiffMessage` follows once both have a program."""

    type: Literal["compare"]
    baseline: int
    variant: int


class DiffCostsRequest(TypedDict):
    """Requests the costs of the changes of a `DiffMessage`. `id` numbers the request; late replies are dropped."""

    type: Literal["diff_costs"]
    id: int
    baseline: int
    variant: int


class DiffCosts(TypedDict):
    """The reply to `DiffCostsRequest` number `id`, or an error.

    Attributes:
      costs: for each change FLOPs before and after, and bytes before and after, of one execution; None if unknown.
      unknown: for each change the reason for unknown values; "" if all are known.
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
    """An optimized program that is available for comparisons."""

    variant: Variant
    program: Preview | CompiledProgram
    module: Module


@dataclasses.dataclass(frozen=True, slots=True)
class _Compared:
    """Two programs that were compared."""

    diff: Diff
    texts: Aligned


class OptimizedPane(TextPane):
    """Shows the optimized HLO of each variant and its differences."""

    language = "hlo"

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is compared yet."""
        super().__init__(name, context)
        self._shown: dict[int, _Shown] = {}
        self._compared: dict[Pair, _Compared] = {}
        self._requested: set[Pair] = set()

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Yields the text; its differences follow, also those of later variants that were available first."""
        assert variant.lowered is not None, "a variant with a program was lowered"
        listing = hlo_listing(program.hlo, module, variant.lowered.root)
        yield document(self.name, listing, variant.number, language=self.language)
        with self.context.lock:
            if self.context.holds(variant):
                self._shown[variant.number] = _Shown(variant, program, module)
        self._compare(variant)

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Updates the comparison with the costs of the whole program, which the preview may not have had."""
        shown = self._shown.get(variant.number)
        if shown is not None and isinstance(shown.program, Preview):
            self._shown[variant.number] = dataclasses.replace(shown, program=compiled)
            self._compare(variant)
        return ()

    def answer(self, request: DiffCostsRequest | DiffRequest) -> None:
        """Compares two variants, or sends the costs of changes once they are counted."""
        if request["type"] == "diff_costs":
            self.context.aside(lambda: self.context.publish(self._costs(request)))
            return
        pair = tuple(self.context.variant(request[name]) for name in ("baseline", "variant"))
        self._requested.add((pair[0].number, pair[1].number))
        self._compare(pair[1])

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[DiffCostsRequest]:  # noqa: ARG002
        """Yields the requests for the costs of changes against each compared variant."""
        for before, after in list(self._compared):
            if after == variant.number and self.context.variant(before).state == "done":
                yield DiffCostsRequest(type="diff_costs", id=0, baseline=before, variant=after)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant and its comparisons."""
        self._shown.pop(variant.number, None)
        self._requested = {pair for pair in self._requested if variant.number not in pair}
        for pair in [pair for pair in self._compared if variant.number in pair]:
            del self._compared[pair]
        return super().forget(variant)

    def close(self) -> None:
        """Stops comparing, and releases all programs."""
        self._shown.clear()
        self._compared.clear()

    def _compare(self, variant: Variant) -> None:
        with self.context.lock:
            shown, variants = {*self._shown}, list(self.context.variants())
        pairs = {(before.number, after.number): None for before, after in compared(variants)}
        for pair in (*pairs, *(self._requested - pairs.keys())):
            if variant.number in pair and shown.issuperset(pair):
                self.context.aside(functools.partial(self._publish_diff, pair))

    def _publish_diff(self, pair: Pair) -> None:
        """Compares two programs and publishes the differences, unless one of the variants was removed."""
        with self.context.lock:
            before, after = (self._shown.get(number) for number in pair)
        if before is None or after is None:
            return
        known = self._compared.get(pair)
        comparison = _compared(before, after) if known is None else _updated(known, before, after)
        if known is None:
            memory_release.give_back()  # temporary memory of matching
        elif known.diff.totals == comparison.diff.totals and known.diff.other_code == comparison.diff.other_code:
            return
        self._keep(pair, comparison)
        self.context.publish(_message(pair, comparison))

    def _keep(self, pair: Pair, comparison: _Compared) -> None:
        with self.context.lock:
            if self._shown.keys() >= set(pair):
                self._compared[pair] = comparison

    def _costs(self, request: DiffCostsRequest) -> DiffCosts:
        pair = request["baseline"], request["variant"]
        reply = DiffCosts(
            type="diff_costs", id=request["id"], baseline=pair[0], variant=pair[1], costs=[], unknown=[], error=None
        )
        try:
            programs = [self.context.variant(number).compiled_now for number in pair]
            comparison = self._compared[pair].diff.counted(
                lambda: (instruction_costs(programs[0]), instruction_costs(programs[1]))
            )
            for change in comparison.changes[:_MOST_CHANGES]:
                numbers = comparison.cost(change).values()
                reply["costs"].append([None if isinstance(each, Unavailable) else float(each) for each in numbers])
                reasons = dict.fromkeys(each.reason for each in numbers if isinstance(each, Unavailable))
                reply["unknown"].append("; ".join(reasons))
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        return reply


def compared(variants: Iterable[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Yields the pairs to compare: each variant with the first one for its own target, and with the baseline.

    The baseline is compared with the previous version of the program, which shows what the user's edit changed.
    """
    first: dict[Target, Variant] = {}
    baseline = None
    for variant in variants:
        baseline = variant if variant.is_baseline else baseline
        if variant.origin == PREVIOUS:
            if baseline is not None:
                yield variant, baseline
            continue
        reference = first.setdefault(variant.target, variant)
        if reference is not variant:
            yield reference, variant
        if baseline is not None and baseline is not variant and baseline is not reference:
            yield baseline, variant


def _compared(before: _Shown, after: _Shown) -> _Compared:
    comparison = diff(before.module, after.module)
    texts = aligned(comparison, *(display_text(each.program.hlo) for each in (before, after)))
    return _updated(_Compared(comparison, texts), before, after)


def _updated(comparison: _Compared, before: _Shown, after: _Shown) -> _Compared:
    """Adds the totals of both programs to a comparison."""
    difference = dataclasses.replace(comparison.diff, totals=totals(before.program, after.program))
    if not difference.changes:
        difference = difference.with_code(_code(before, after))
    return dataclasses.replace(comparison, diff=difference)


def _code(before: _Shown, after: _Shown) -> bool | Unavailable:
    """Reports whether the machine code differs, if both programs are compiled completely."""
    programs = before.program, after.program
    if isinstance(programs[0], Preview) or isinstance(programs[1], Preview):
        return NO_CODE
    return machine_code.differ(programs[0], programs[1])


def _message(pair: Pair, comparison: _Compared) -> PackedMessage:
    changes, texts = comparison.diff.changes, comparison.texts
    message = DiffMessage(
        type="diff",
        baseline=pair[0],
        variant=pair[1],
        hunks=list(texts.hunks),
        following=list(texts.following),
        summary=comparison.diff.headline,
        changes=[_change(*each) for each in zip(changes[:_MOST_CHANGES], texts.lines, strict=False)],
        count=len(changes),
    )
    return PackedMessage(message, [packed("\n".join(texts.removed))])


def _change(changed: Change, line: int) -> ChangeMessage:
    return ChangeMessage(
        kind=changed.kind,
        opcode=changed.opcode or "module",
        before=[instruction.name for instruction in changed.before[:_MOST_NAMES]],
        after=[instruction.name for instruction in changed.after[:_MOST_NAMES]],
        names=len(changed.before) + len(changed.after),
        what=changed.what,
        line=line,
    )
