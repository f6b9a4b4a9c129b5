"""Finds the compiler pass that makes a difference, by cutting the pipeline and leaving passes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from inspector.analysis.diff.module_diff import Diff
from inspector.api.bisection.search import minimal_subset, shortest_prefix
from inspector.api.flag_effects.effect import FailedEffect
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options import pass_switches
from inspector.compilation.options.options import Options
from inspector.compilation.records.passes import Pass
from inspector.errors import Unavailable
from inspector.stages.bisection.result import CulpritPass, Phase
from inspector.stages.bisection.sides import Side
from inspector.stages.compiled import as_compiled
from inspector.stages.passes import CompilerPasses

Trial = Callable[[Phase, str, Side], bool]
Record = Callable[[Side, float], CompiledProgram | FailedEffect]
Compile = Callable[[Side], CompiledProgram | FailedEffect]


class PassSearch:
    """The search for the pass between two sides.

    First in the compile of the bad side: with its later passes left out, the difference disappears. If it stays even without
    all passes that can be left out, then in the compile of the good side: there, leaving passes out makes the difference.
    """

    def __init__(self, good: Side, bad: Side, is_bad: Trial, record: Record, compiled: Compile) -> None:
        """Prepares the search.

        Args:
          good: the good side.
          bad: the bad side, with the fewest changes from the good one.
          is_bad: tries a side.
          record: compiles a side with its passes recorded, for a step that began at a time.
          compiled: returns the program of a side that was tried.
        """
        self._good, self._bad, self._is_bad, self._record, self._compiled = good, bad, is_bad, record, compiled

    def run(self, whole: Diff) -> tuple[CulpritPass | Unavailable, Diff]:
        """Searches.

        Args:
          whole: the comparison of both optimized modules.

        Returns:
          The pass, with the comparison of the optimized modules without and with it; or why none can be named, with `whole`.
        """
        if not whole.changes:
            return Unavailable(
                "the optimized HLO of both is the same: the backend makes the difference when it generates code"
            ), whole
        reasons = []
        for name, side in (("bad", self._bad), ("good", self._good)):
            found = self._search("bad" if name == "bad" else "good", side)
            if not isinstance(found, Unavailable):
                return found
            reasons.append(f"{name} side: {found.reason}")
        return Unavailable("; ".join(reasons)), whole

    def _search(self, name: Literal["good", "bad"], side: Side) -> tuple[CulpritPass, Diff] | Unavailable:
        recorded = self._record(side, time.monotonic())
        if isinstance(recorded, FailedEffect):
            return Unavailable(f"its passes cannot be recorded: {recorded.error}")
        passes = as_compiled(recorded).passes
        if isinstance(passes, Unavailable):
            return passes
        cuts = _cuts(passes, side.options)
        if len(cuts) < 2:
            return Unavailable("the backend needs every pass that changed the module")
        whole_is_bad = name == "bad"  # so a trial counts if it has the outcome of the whole pipeline

        def has_outcome(number: int) -> bool:
            last, options = cuts[number]
            words = "no pass that can be left out" if last is None else f"until {last.pipeline}/{last.name}"
            return self._is_bad("passes", f"{name} side, {words}", Side(side.target, options)) == whole_is_bad

        if has_outcome(0):
            _, needed = pass_switches.later_passes(passes, -1)
            state = "the difference stays" if whole_is_bad else "there is no difference"
            return Unavailable(
                f"{state} without all passes that can be left out, so a pass that the backend needs makes it"
                f" ({', '.join(needed) or 'none changed the module'}), or its code generation"
            )
        length = shortest_prefix(len(cuts) - 1, has_outcome)
        last, options = cuts[length]
        assert last is not None, "the first cut does not have the outcome"
        difference = self._between(Side(side.target, cuts[length - 1][1]), Side(side.target, options))
        if isinstance(difference, Unavailable):
            return difference
        together = self._together(name, side, passes, last, options)
        left_out = passes.without(last, side.options)
        confirmed: bool | Unavailable
        if isinstance(left_out, Unavailable):
            confirmed = left_out
        else:
            words = f"{name} side without {last.name}"
            confirmed = self._is_bad("passes", words, Side(side.target, left_out)) != whole_is_bad
        runs = sum(each.name == last.name and each.changed for each in passes)
        return CulpritPass(
            last.name, last.pipeline, last.index, name, together, runs, last.before, last.after, confirmed
        ), difference

    def _between(self, before: Side, after: Side) -> Diff | Unavailable:
        """Compares the optimized modules of two cuts, both of which were tried or are a whole pipeline."""
        ours, theirs = self._compiled(before), self._compiled(after)
        if isinstance(ours, FailedEffect) or isinstance(theirs, FailedEffect):
            return Unavailable("without the pass the program cannot be compiled")
        return as_compiled(ours).diff(theirs)

    def _together(
        self, name: Literal["good", "bad"], side: Side, passes: CompilerPasses, last: Pass, options: Options
    ) -> tuple[str, ...]:
        """Returns the other passes without which the pass does not have its effect."""
        everything, _ = pass_switches.later_passes(passes, -1)
        disabled = _disabled(options) | {last.name}
        earlier = tuple(each for each in everything if each not in disabled)

        def has_outcome(kept: tuple[str, ...]) -> bool:
            rest = ",".join(each for each in earlier if each not in kept)
            already = str(options.flags.get(pass_switches.FLAG, ""))
            chosen = options.merge({pass_switches.FLAG: ",".join(filter(None, (already, rest)))}) if rest else options
            words = f"{name} side, of the earlier passes only {', '.join(kept) or 'none'}"
            return self._is_bad("passes", words, Side(side.target, chosen)) == (name == "bad")

        if not earlier or has_outcome(()):
            return ()
        return minimal_subset(earlier, has_outcome)


def _disabled(options: Options) -> set[str]:
    return {*str(options.flags.get(pass_switches.FLAG, "")).split(",")}


def _cuts(passes: CompilerPasses, options: Options) -> list[tuple[Pass | None, Options]]:
    """Returns options that cut the pipeline after later and later passes, each with the last pass that it runs.

    The first one leaves out all passes that can be; the last one is the whole pipeline.
    """
    cuts: list[tuple[Pass | None, Options]] = []
    for last in (None, *passes.steps):
        found = pass_switches.until(passes, -1 if last is None else last.index, options)
        chosen = options if isinstance(found, Unavailable) else found
        if not cuts or chosen != cuts[-1][1]:
            cuts.append((last, chosen))
        if chosen == options:
            break
    return cuts
