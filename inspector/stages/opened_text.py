"""The listing of a program's HLO."""

from __future__ import annotations

from inspector.analysis.hlo_listing import hlo_listing
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered


def hlo_lines(lowered: Lowered) -> Listing | Unavailable:
    """Returns the HLO of a program as a listing, with the origin of each line; Unavailable for a program without HLO."""
    if isinstance(lowered.hlo, Unavailable):
        return lowered.hlo
    return hlo_listing(lowered.hlo, lowered.module(), lowered.root)
