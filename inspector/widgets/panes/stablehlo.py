"""The StableHLO pane: the lowered program, as JAX passes it to XLA."""

from __future__ import annotations

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class StableHloPane(TextPane):
    """Shows the StableHLO of the program."""

    language = "mlir"

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text as MLIR prints it; Unavailable for HLO without StableHLO."""
        return lowered.stablehlo_listing
