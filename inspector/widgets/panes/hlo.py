"""The HLO pane: the program in HLO, before any compiler pass."""

from __future__ import annotations

from inspector.analysis.hlo_listing import hlo_listing
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class HloPane(TextPane):
    """Shows the HLO of the program."""

    language = "hlo"

    def listing(self, lowered: Lowered) -> Listing:
        """Returns the text as XLA prints it."""
        return hlo_listing(lowered.hlo, lowered.module(), lowered.root)
