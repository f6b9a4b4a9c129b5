"""A graph of a variant's optimized HLO."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.analysis.graph import graph
from inspector.analysis.layout import svg
from inspector.widgets import messages
from inspector.widgets.panes.pane import Pane

GraphMode = Literal["whole", "scopes", "around"]


class GraphRequest(TypedDict):
    """Draw a variant's optimized HLO. `id` numbers the request; late replies are dropped."""

    type: Literal["graph"]
    id: int
    variant: int
    mode: GraphMode
    selection: messages.Selection | None


class Graph(TypedDict):
    """The reply to `GraphRequest` number `id`: an SVG, or an error.

    Attributes:
      svg: Graphviz output; a node is `<g id="node-NAME">` with NAME an instruction's name.
      caption: what is drawn and what was left out.
    """

    type: Literal["graph"]
    id: int
    variant: int
    mode: GraphMode
    svg: str | None
    caption: str
    error: messages.Error | None


class GraphPane(Pane):
    """Draws when asked."""

    def answer(self, request: GraphRequest) -> None:
        """The picture, or why there is none."""
        self.context.later(lambda: self.context.publish(self._reply(request)))

    def _reply(self, request: GraphRequest) -> Graph:
        number, mode, selection = request["variant"], request["mode"], request["selection"]
        reply = Graph(type="graph", id=request["id"], variant=number, mode=mode, svg=None, caption="", error=None)
        try:
            variant = self.context.variant(number)
            module = self.context.module(variant) or variant.compiled_now.module()
            drawn = graph(module, mode, selection["instruction"] if selection else None)
            reply |= {"svg": svg(drawn.dot), "caption": drawn.caption, "mode": drawn.mode}  # type: ignore[typeddict-item]
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"] = messages.error_of(error)
        return reply
