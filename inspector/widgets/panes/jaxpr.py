"""The traced program."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class JaxprPane(TextPane):
    """See the module."""

    language = "jaxpr"
    is_shared = True

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """As JAX prints it."""
        return lowered.jaxpr_listing
