"""A variant's optimized HLO as boxes in boxes, and what each costs: all of it, once; laid out in the browser."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from inspector.analysis.cost.scopes import operation_of
from inspector.analysis.graph.boxes import BoxKind
from inspector.analysis.graph.counterparts import counterparts
from inspector.analysis.graph.flow import LiveSpans, spans
from inspector.analysis.graph.hierarchy import Hierarchy, hierarchy
from inspector.analysis.graph.hierarchy_costs import HierarchyCosts, hierarchy_costs
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.stages.compiled import instruction_costs
from inspector.widgets import messages
from inspector.widgets.documents import packed
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import PackedMessage
from inspector.widgets.variants import Variant

_GZIP_LEVEL = 1


class GraphRequest(TypedDict):
    """Send a variant's graph, and its costs once it is compiled; what was sent is not sent again."""

    type: Literal["graph"]
    variant: int


class GraphTable(TypedDict):
    """What the numbers of a graph stand for.

    Attributes:
      operations: JAX's names of operations, "" for none.
      shape_bytes: of each of `shapes`.
      edge_bytes: what goes along edges.
      kinds, titles, phases: of each box; the first is the module's.
      unscheduled: why there are no spans; "" where there are.
    """

    opcodes: list[str]
    operations: list[str]
    shapes: list[str]
    shape_bytes: list[int]
    edge_bytes: list[int]
    kinds: list[BoxKind]
    titles: list[str]
    phases: list[str]
    unscheduled: str


class Graph(TypedDict):
    """The nodes and edges of a variant, or why there are none.

    Buffers, each gzip: `GraphTable` as JSON; the instructions' names, a line each; int32 of the nodes, which are the
    instructions and then the boxes: what each is in, -1 of the first box, then of the instructions opcode, operation,
    shape, and from where to where in its computation's schedule its value is alive; int32 of the edges: the instructions
    that make, those that take, places in `edge_bytes`.
    """

    type: Literal["graph"]
    variant: int
    instructions: int
    error: messages.Error | None


class GraphCosts(TypedDict):
    """What the nodes of a graph cost, or why nobody knows.

    Buffers, each gzip: float32 of the nodes, NaN where nothing is known: flops, bytes accessed, least seconds; uint8
    of the nodes in the same order: 1 where a part of the number is not known.
    """

    type: Literal["graph_costs"]
    variant: int
    error: messages.Error | None


class GraphBeforeRequest(TypedDict):
    """Send what the nodes of a variant's graph cost in another variant; what was sent is not sent again."""

    type: Literal["graph_before"]
    variant: int
    baseline: int


class GraphBefore(TypedDict):
    """What the counterparts of a graph's nodes cost in another variant, or why nobody knows.

    Boxes are found by their titles, instructions by what they compute. Buffer, gzip: float32 of the nodes, NaN where
    there is no counterpart or nothing is known of it: flops, bytes accessed, least seconds.
    """

    type: Literal["graph_before"]
    variant: int
    baseline: int
    error: messages.Error | None


class GraphPane(CountedPane):
    """See the module."""

    def answer(self, request: GraphRequest | GraphBeforeRequest) -> None:
        """Sends what was not sent: the app keeps it for browsers that come later."""
        with contextlib.suppress(RuntimeError):  # closed
            if request["type"] == "graph_before":
                both = request["variant"], request["baseline"]
                self._counting.submit(lambda: self._send_before(*both))
            else:
                self._counting.submit(lambda: self._send(request["variant"]))

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[GraphRequest | GraphBeforeRequest]:
        """The graph; what is compared with another variant's too."""
        yield GraphRequest(type="graph", variant=variant.number)
        if is_whole and (baseline := self.context.variants()[0]) is not variant and baseline.state == "done":
            yield GraphBeforeRequest(type="graph_before", variant=variant.number, baseline=baseline.number)

    def _send(self, number: int) -> None:
        try:
            variant = self.context.variant(number)
        except ValueError:  # gone
            return
        try:
            self.once(variant, "graph", lambda: self._graph(variant))
        except Exception as error:  # whatever it is, it belongs in the pane
            failed = Graph(type="graph", variant=number, instructions=0, error=messages.error_of(error))
            self.context.publish(PackedMessage(failed, []))
            return
        if variant.state not in ("queued", "running"):
            self.once(variant, "costs", lambda: self._costs(variant))

    def _module(self, variant: Variant) -> Module:
        return self.context.module(variant) or variant.compiled_now.module()

    def _graph(self, variant: Variant) -> bool:
        module = self._module(variant)
        message = Graph(type="graph", variant=variant.number, instructions=len(module.columns), error=None)
        self.context.publish(PackedMessage(message, graph_buffers(hierarchy(module), module)))
        return True

    def _costs(self, variant: Variant) -> bool:
        error, buffers = None, list[bytes]()
        try:
            buffers = _cost_buffers(self._counted(variant)[1])
        except Exception as reason:  # whatever it is, it belongs in the pane
            error = messages.error_of(reason)
        self.context.publish(
            PackedMessage(GraphCosts(type="graph_costs", variant=variant.number, error=error), buffers)
        )
        return True

    def _counted(self, variant: Variant) -> tuple[Hierarchy, HierarchyCosts]:
        module, compiled = self._module(variant), variant.compiled_now
        found, points = hierarchy(module), compiled.roofline().points
        return found, hierarchy_costs(found, module, instruction_costs(compiled), points)

    def _send_before(self, number: int, baseline: int) -> None:
        with contextlib.suppress(ValueError):  # one is gone
            variant, before = self.context.variant(number), self.context.variant(baseline)
            self.once(variant, ("before", before), lambda: self._before(variant, before))

    def _before(self, variant: Variant, before: Variant) -> bool:
        error, buffers = None, list[bytes]()
        try:
            found, (other, costs) = hierarchy(self._module(variant)), self._counted(before)
            matched = counterparts(found, self._module(variant), other, self._module(before))
            known = (sums.known for sums in (costs.flops, costs.bytes_accessed, costs.least_s))
            buffers = [numbers("<f4", *(np.append(each, np.nan)[matched] for each in known))]
        except Exception as reason:  # whatever it is, it belongs in the pane
            error = messages.error_of(reason)
        message = GraphBefore(type="graph_before", variant=variant.number, baseline=before.number, error=error)
        self.context.publish(PackedMessage(message, buffers))
        return True


def graph_buffers(found: Hierarchy, module: Module) -> list[bytes]:
    """The four of a `Graph`."""
    columns, alive = module.columns, spans(module)
    edge_bytes, sizes = np.unique(found.edge_bytes, return_inverse=True)
    shapes, codes = _numbered([str(shape.without_layout()) for shape in module.known_shapes])
    byte_sizes = dict(zip(codes.tolist(), [shape.byte_size for shape in module.known_shapes], strict=True))
    operations, of_origins = _numbered([*(operation_of(origin.op_name) for origin in module.known_origins), ""])
    table = GraphTable(
        opcodes=columns.opcodes.values,
        operations=operations,
        shapes=shapes,
        shape_bytes=[byte_sizes[number] for number in range(len(shapes))],
        edge_bytes=edge_bytes.tolist(),
        kinds=[box.kind for box in found.boxes],
        titles=[box.title for box in found.boxes],
        phases=[box.phase for box in found.boxes],
        unscheduled=alive.reason if isinstance(alive, Unavailable) else "",
    )
    ends = (alive.start, alive.end) if isinstance(alive, LiveSpans) else ()
    nodes = [
        found.parents,
        columns.opcodes.codes,
        of_origins[columns.metadata.codes],
        codes[columns.shapes.codes],
        *ends,
    ]
    return [
        packed(json.dumps(table, separators=(",", ":"), ensure_ascii=False)),
        packed("\n".join(columns.names)),
        numbers("<i4", *nodes),
        numbers("<i4", found.sources, found.targets, sizes),
    ]


def _cost_buffers(counted: HierarchyCosts) -> list[bytes]:
    sums = (counted.flops, counted.bytes_accessed, counted.least_s)
    return [numbers("<f4", *(each.known for each in sums)), numbers("<u1", *(each.at_least for each in sums))]


def _numbered(texts: list[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Each text once, and which each is."""
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(known), np.array([known[text] for text in texts], np.int64)


def numbers(kind: str, *columns: npt.NDArray[np.generic]) -> bytes:
    """Columns of one type as a buffer, gzip."""
    return gzip.compress(np.concatenate(columns).astype(kind).tobytes(), _GZIP_LEVEL, mtime=0)
