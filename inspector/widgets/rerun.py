"""The state of an Explorer, for the one that replaces it when its cell runs again.

The user edits the function and runs the cell: the variants that were added in the Explorer, the open panes, the selection
and the recordings stay, and the program can be compared with its previous version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from inspector.errors import InspectorError, Unavailable
from inspector.support import deferred
from inspector.widgets import messages
from inspector.widgets.variants import PREVIOUS, Variant

if TYPE_CHECKING:
    from inspector.analysis.profile.profile import Profile
    from inspector.compilation.options.options import Options
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.hlo.listing import Listing
    from inspector.stages.lowered import Lowered
    from inspector.widgets.compiles import Compiles


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A program with the options and target of its baseline."""

    lowered: Lowered
    options: Options
    target: Target
    tuning: Tuning


@dataclasses.dataclass(frozen=True, slots=True)
class AddedVariant:
    """A variant that was added in the Explorer, not by the cell's code."""

    options: Options
    target: Target
    tuning: Tuning
    is_pinned: bool


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierState:
    """The state of the Explorer that a cell showed before it ran again.

    Attributes:
      version: its program.
      previous: the version before that one; None if the program never changed.
      added: the variants that were added in it.
      arrangement: as in `Explorer.arrangement`.
      selection: as in `Explorer.selection`.
      products: products that were recorded for the baseline.
      profile: the baseline's measured times.
    """

    version: Version
    previous: Version | None
    added: tuple[AddedVariant, ...]
    arrangement: Mapping[str, Any]
    selection: Mapping[str, Any] | None
    products: tuple[str, ...]
    profile: Profile | Unavailable

    def previous_of(self, lowered: Lowered) -> Version | None:
        """Returns the version to compare a program with: this one, or its previous one if the program is the same."""
        return self.previous if self.has(lowered) else self.version

    def has(self, lowered: Lowered) -> bool:
        """Reports whether a program is the same as this one."""
        return self.version.lowered.program == lowered.program


def state(
    compiles: Compiles,
    given: Collection[int],
    previous: Version | None,
    arrangement: Mapping[str, Any],
    selection: Mapping[str, Any] | None,
) -> EarlierState:
    """Returns the state of an Explorer.

    Args:
      compiles: its compiles.
      given: numbers of the variants that the cell's code asked for.
      previous: the previous version of its program.
      arrangement: as in `Explorer.arrangement`.
      selection: as in `Explorer.selection`.
    """
    baseline, *others = compiles.variants
    # Without what lowers it again, which has the user's arguments. Its binding stays for runs; it keeps no argument array.
    program = dataclasses.replace(compiles.lowered.program, changed=None)
    lowered = deferred.replace(compiles.lowered, program=program, _again=None)
    return EarlierState(
        version=Version(lowered, baseline.options, baseline.target, baseline.tuning),
        previous=previous,
        added=tuple(
            AddedVariant(each.options, each.target, each.tuning, each.is_pinned)
            for each in others
            if each.number not in given and not each.origin and each.state != "failed"
        ),
        arrangement=arrangement,
        selection=selection,
        products=compiles.board.products(baseline),
        profile=baseline.profile,
    )


def add_again(added: AddedVariant, compiles: Compiles) -> None:
    """Starts a variant of the earlier Explorer in the new one; a request that is invalid now becomes a notice."""
    try:
        variant = compiles.start(added.options, compiles.work.suit(compiles.lowered, added.target), added.tuning)
        if added.is_pinned and not variant.is_baseline:
            compiles.pin(variant, True)
    except InspectorError as error:
        compiles.board.publish(messages.notice_of(error))


def add_version(version: Version, compiles: Compiles) -> Variant:
    """Adds another version of the program as a variant, or returns it if it is there."""
    return compiles.start(version.options, version.target, version.tuning, version.lowered, PREVIOUS)


def show_again(earlier: EarlierState, baseline: Variant, compiles: Compiles) -> None:
    """Shows the recordings and the measured times of an equal program once the baseline is compiled.

    The products are cached.
    """

    def show() -> None:
        if baseline.state != "done":
            return
        for product in earlier.products:
            compiles.board.record(baseline, product)
        if not isinstance(earlier.profile, Unavailable):
            baseline.profile, baseline.profile_count = earlier.profile, 1
            compiles.board.show_profile(baseline)

    if baseline.job is not None and (earlier.products or not isinstance(earlier.profile, Unavailable)):
        baseline.job.add_done_callback(lambda _: compiles.board.behind(baseline, show))


def same_line(line: int | None, before: Listing | Unavailable, now: Listing | Unavailable) -> int | None:
    """Returns the number of a line in another version of the source: the nearest line with the same text; None without one.

    Args:
      line: its number before, as the pane shows it.
      before: the source before.
      now: the source now.
    """
    if isinstance(before, Unavailable) or isinstance(now, Unavailable) or line is None:
        return None
    text = dict(_numbered(before)).get(line, "")
    same = [number for number, each in _numbered(now) if text and each == text]
    return min(same, key=lambda number: abs(number - line), default=None)


def _numbered(listing: Listing) -> list[tuple[int, str]]:
    lines = listing.text.split("\n")
    labels = listing.labels or range(1, len(lines) + 1)
    return [(label, line.strip()) for label, line in zip(labels, lines, strict=False) if label is not None]
