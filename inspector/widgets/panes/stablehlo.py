"""The lowered program, as JAX hands it to XLA."""

from __future__ import annotations

from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.framework.text import TextPane


class StableHloPane(TextPane):
    """See the module."""

    language = "mlir"

    def listing(self, lowered: Lowered) -> Listing:
        """As MLIR prints it."""
        return lowered.stablehlo_listing
