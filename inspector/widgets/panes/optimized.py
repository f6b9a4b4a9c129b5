"""The optimized HLO: its text, and how it differs from that of variants that came before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from inspector.analysis.diff import instruction_changes, instruction_multiset, line_hunks
from inspector.analysis.headline import headline
from inspector.analysis.source import hlo_listing
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.preview import Preview
from inspector.compilation.target import Target
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.widgets.documents import document
from inspector.widgets.panes.pane import Context, Entry
from inspector.widgets.panes.text import TextPane
from inspector.widgets.variants import Variant


class Diff(TypedDict):
    """How the optimized HLO of `variant` differs from that of `baseline`.

    Attributes:
      baseline: the Explorer's, or the first variant for the same target.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of baseline (a) and variant (b).
      summary: in words, such as "1 all-gather appeared; 12 only in the baseline (...); 340 in both".
    """

    type: Literal["diff"]
    baseline: int
    variant: int
    hunks: list[tuple[int, int, int, int]]
    summary: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """What is kept of a variant's optimized program for comparisons.

    Attributes:
      module: the program.
      lines: what each line of its text hashes to, in this process: a tenth of the text's bytes.
    """

    module: Module
    lines: npt.NDArray[np.int64]

    @classmethod
    def of(cls, module: Module, listing: Listing) -> _Shown:
        lines = listing.text.split("\n")
        return cls(module, np.fromiter(map(hash, lines), np.int64, len(lines)))


class OptimizedPane(TextPane):
    """See the module."""

    language = "hlo"

    def __init__(self, name: str, context: Context) -> None:
        """Compares nothing yet."""
        super().__init__(name, context)
        self._shown: dict[int, _Shown] = {}

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterator[Entry]:
        """Its text, then what sets it apart; of later variants too when it came after them."""
        assert variant.lowered is not None, "what has a program was lowered"
        listing = hlo_listing(program.hlo, module, variant.lowered.root)
        yield document(self.name, listing, variant.number, language=self.language)
        with self.context.lock:
            if self.context.holds(variant):
                self._shown[variant.number] = _Shown.of(module, listing)
            shown, variants = dict(self._shown), list(self.context.variants())
        for before, after in compared(variants):
            pair = before.number, after.number
            if variant.number in pair and shown.keys() >= set(pair):
                name = "the baseline" if before.is_baseline else before.label
                yield _diff(pair[0], shown[pair[0]], pair[1], shown[pair[1]], name)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Compares with it no more."""
        self._shown.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Lets go of all texts."""
        self._shown.clear()


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


def _diff(baseline: int, before: _Shown, variant: int, after: _Shown, reference: str) -> Diff:
    """What differs, as hunks of lines and in words, in which `reference` names what is compared with."""
    changes = instruction_changes(instruction_multiset(before.module), instruction_multiset(after.module))
    hunks = line_hunks(before.lines.tolist(), after.lines.tolist())
    parts = headline(before.module, after.module), changes.words(reference)
    summary = "; ".join(part for part in parts if part)
    return Diff(type="diff", baseline=baseline, variant=variant, hunks=list(hunks), summary=summary)
