"""The listing of a program's HLO, for programs without StableHLO."""

from __future__ import annotations

from inspector.analysis.hlo_listing import hlo_listing
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered


def hlo_lines(lowered: Lowered) -> Listing:
    """Returns the HLO of a program as a listing, with the origin of each line."""
    return hlo_listing(lowered.hlo, lowered.module(), lowered.root)
