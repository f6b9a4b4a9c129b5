"""A variant's optimized HLO against the baseline's."""

from __future__ import annotations

import dataclasses

from inspector.analysis.diff import instruction_changes, instruction_multiset, line_hunks
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.widgets import messages


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """What is kept of a variant's optimized program for comparisons."""

    module: Module
    listing: Listing


def diff_message(
    baseline: int, before: Shown, variant: int, after: Shown, reference: str = "the baseline"
) -> messages.Diff:
    """What differs, as hunks of lines and in words, in which `reference` names what is compared with."""
    changes = instruction_changes(instruction_multiset(before.module), instruction_multiset(after.module))
    hunks = line_hunks(before.listing.text.split("\n"), after.listing.text.split("\n"))
    return messages.Diff(
        type="diff", baseline=baseline, variant=variant, hunks=list(hunks), summary=changes.words(reference)
    )
