"""The same program in XLA's own language, before any pass."""

from __future__ import annotations

from inspector.analysis.hlo_listing import hlo_listing
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class HloPane(TextPane):
    """See the module."""

    language = "hlo"

    def listing(self, lowered: Lowered) -> Listing:
        """As XLA prints it."""
        return hlo_listing(lowered.hlo, lowered.module(), lowered.root)
