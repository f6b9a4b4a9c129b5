"""A graph of a variant's optimized HLO, for the Graph pane."""

from __future__ import annotations

from collections.abc import Callable

from inspector.analysis.graph import graph
from inspector.analysis.layout import svg
from inspector.hlo.module import Module
from inspector.widgets import messages


def graph_reply(request: messages.GraphRequest, module: Callable[[], Module]) -> messages.Graph:
    """The answer to a request: the picture, or why there is none.

    Args:
      request: the browser's.
      module: gives the variant's optimized module; what it raises is the answer then.
    """
    reply = messages.Graph(
        type="graph",
        id=request["id"],
        variant=request["variant"],
        mode=request["mode"],
        svg=None,
        caption="",
        error=None,
    )
    try:
        selection = request["selection"]
        drawn = graph(module(), request["mode"], selection["instruction"] if selection else None)
        reply |= {"svg": svg(drawn.dot), "caption": drawn.caption, "mode": drawn.mode}  # type: ignore[typeddict-item]
    except Exception as error:  # whatever it is, it belongs in the pane
        reply["error"] = messages.error_of(error)
    return reply
