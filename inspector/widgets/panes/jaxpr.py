"""The jaxpr pane: the traced program."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class JaxprPane(TextPane):
    """Shows the jaxpr of the program."""

    language = "jaxpr"
    is_shared = True

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text as JAX prints it."""
        return lowered.jaxpr_listing
