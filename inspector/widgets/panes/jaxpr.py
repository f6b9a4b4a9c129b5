"""The traced program."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.widgets.panes.text import TextPane
from inspector.widgets.work import LoweredView


class JaxprPane(TextPane):
    """See the module."""

    language = "jaxpr"
    is_shared = True

    def listing(self, lowered: LoweredView) -> Listing | Unavailable:
        """As JAX prints it."""
        return lowered.jaxpr_listing
