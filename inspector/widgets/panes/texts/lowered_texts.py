"""The panes jaxpr, StableHLO and HLO: the texts of a program before any compiler pass."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.stages.opened_text import hlo_lines
from inspector.widgets.panes.framework.text import TextPane


class JaxprPane(TextPane):
    """Shows the jaxpr of the program."""

    language = "jaxpr"
    is_shared = True

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text as JAX prints it."""
        return lowered.jaxpr_listing


class StableHloPane(TextPane):
    """Shows the StableHLO of the program, as JAX passes it to XLA."""

    language = "mlir"

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text as MLIR prints it; Unavailable for HLO without StableHLO."""
        return lowered.stablehlo_listing


class HloPane(TextPane):
    """Shows the HLO of the program."""

    language = "hlo"

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text as XLA prints it; Unavailable for StableHLO without HLO."""
        return hlo_lines(lowered)
