"""The Outline pane: the optimized HLO as a tree of scopes or computations, with costs.

The browser builds it from the text and the costs of its lines and scopes, which the Roofline pane sends (`roofline_parts/line_costs.py`).
"""

from __future__ import annotations

from inspector.widgets.panes.framework.pane import Pane


class OutlinePane(Pane):
    """The pane; the browser builds its content."""
