"""The Outline pane: the computations of the optimized HLO as a tree. The browser builds it from the text and the costs of its lines."""

from __future__ import annotations

from inspector.widgets.panes.framework.pane import Pane


class OutlinePane(Pane):
    """The pane; the browser builds its content."""
