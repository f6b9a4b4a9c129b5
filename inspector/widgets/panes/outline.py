"""The computations of the optimized HLO as a tree: made in the browser of the text and of what its lines cost."""

from __future__ import annotations

from inspector.widgets.panes.framework.pane import Pane


class OutlinePane(Pane):
    """See the module."""
