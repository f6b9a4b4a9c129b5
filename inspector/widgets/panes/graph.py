"""The Graph pane: a variant's optimized HLO as nested boxes with their costs. It is sent completely, once, and laid out in the browser."""

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
from inspector.analysis.graph.hierarchy_costs import HierarchyCosts, hierarchy_costs, measured_times
from inspector.analysis.profile.profile import Profile
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
    """Requests a variant's graph, and its costs once it is compiled; nothing is sent twice."""

    type: Literal["graph"]
    variant: int


class GraphTable(TypedDict):
    """The texts and values that the indices of a graph refer to.

    Attributes:
      operations: JAX's names of operations, "" for none.
      shape_bytes: size of each of `shapes`.
      edge_bytes: distinct sizes of the values on edges.
      kinds, titles, phases: properties of each box; the first box is the module's.
      unscheduled: the reason why there are no live ranges; "" if there are.
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


class GraphMessage(TypedDict):
    """The nodes and edges of a variant, or the reason why there are none.

    Buffers, each compressed with gzip: `GraphTable` as JSON; the instructions' names, one per line; int32 columns of the nodes, which are
    the instructions followed by the boxes: the containing box, -1 for the first box; then for the instructions their opcode, operation,
    shape, and the start and end of their live range in their computation's schedule; int32 columns of the edges: the
    producing instructions, the consuming instructions, and indices into `edge_bytes`.
    """

    type: Literal["graph"]
    variant: int
    instructions: int
    error: messages.Error | None


class GraphCosts(TypedDict):
    """The costs of a graph's nodes, or an error.

    Buffers, each compressed with gzip: float32 columns of the nodes, NaN if unknown: FLOPs, bytes accessed, seconds at the roof; uint8
    columns of the nodes in the same order: 1 if part of the number is unknown.
    """

    type: Literal["graph_costs"]
    variant: int
    error: messages.Error | None


class GraphTimesRequest(TypedDict):
    """Requests the measured times of a graph's nodes; nothing is sent twice.

    Attributes:
      profile: the variant's `VariantMessage.profile`, so that a new profile is a new request.
    """

    type: Literal["graph_times"]
    variant: int
    profile: int


class GraphTimes(TypedDict):
    """The measured times of a graph's nodes, or an error.

    One buffer, compressed with gzip: float32 seconds of the nodes in one execution on one device, NaN for nodes without measured time.

    Attributes:
      profile: the number of the profile, as `VariantMessage.profile`.
    """

    type: Literal["graph_times"]
    variant: int
    profile: int
    error: messages.Error | None


class GraphBeforeRequest(TypedDict):
    """Requests the costs of a graph's nodes in another variant; nothing is sent twice."""

    type: Literal["graph_before"]
    variant: int
    baseline: int


class GraphBefore(TypedDict):
    """The costs that the counterparts of a graph's nodes have in another variant, or an error.

    Boxes are matched by their titles, instructions by their computation. One buffer, compressed with gzip: float32 columns of the nodes,
    NaN if there is no counterpart or its cost is unknown: FLOPs, bytes accessed, seconds at the roof.
    """

    type: Literal["graph_before"]
    variant: int
    baseline: int
    error: messages.Error | None


class GraphPane(CountedPane):
    """Sends the graph of each variant and its costs."""

    def answer(self, request: GraphRequest | GraphTimesRequest | GraphBeforeRequest) -> None:
        """Sends data that was not sent before; the app stores it for browsers that connect later."""
        with contextlib.suppress(RuntimeError):  # closed
            if request["type"] == "graph_before":
                both = request["variant"], request["baseline"]
                self._counting.submit(lambda: self._send_before(*both))
            elif request["type"] == "graph_times":
                self._counting.submit(lambda: self._send_times(request["variant"]))
            else:
                self._counting.submit(lambda: self._send(request["variant"]))

    def recordable(
        self, variant: Variant, *, is_whole: bool
    ) -> Iterator[GraphRequest | GraphTimesRequest | GraphBeforeRequest]:
        """Yields the requests for the graph and its measured times, and for the comparison with the baseline if `is_whole`."""
        yield GraphRequest(type="graph", variant=variant.number)
        if variant.profile_count:
            yield GraphTimesRequest(type="graph_times", variant=variant.number, profile=variant.profile_count)
        if is_whole and (baseline := self.context.variants()[0]) is not variant and baseline.state == "done":
            yield GraphBeforeRequest(type="graph_before", variant=variant.number, baseline=baseline.number)

    def _send(self, number: int) -> None:
        try:
            variant = self.context.variant(number)
        except ValueError:  # removed
            return
        try:
            self.once(variant, "graph", lambda: self._graph(variant))
        except Exception as error:  # the pane shows any error
            failed = GraphMessage(type="graph", variant=number, instructions=0, error=messages.error_of(error))
            self.context.publish(PackedMessage(failed, []))
            return
        if variant.state not in ("queued", "running"):
            self.once(variant, "costs", lambda: self._costs(variant))

    def _module(self, variant: Variant) -> Module:
        return self.context.module(variant) or variant.compiled_now.module()

    def _graph(self, variant: Variant) -> bool:
        module = self._module(variant)
        message = GraphMessage(type="graph", variant=variant.number, instructions=len(module.columns), error=None)
        self.context.publish(PackedMessage(message, graph_buffers(hierarchy(module), module)))
        return True

    def _costs(self, variant: Variant) -> bool:
        error, buffers = None, list[bytes]()
        try:
            buffers = _cost_buffers(self._counted(variant)[1])
        except Exception as reason:  # the pane shows any error
            error = messages.error_of(reason)
        self.context.publish(
            PackedMessage(GraphCosts(type="graph_costs", variant=variant.number, error=error), buffers)
        )
        return True

    def _counted(self, variant: Variant) -> tuple[Hierarchy, HierarchyCosts]:
        module, compiled = self._module(variant), variant.compiled_now
        tree, points = hierarchy(module), compiled.roofline().points
        return tree, hierarchy_costs(tree, module, instruction_costs(compiled), points)

    def _send_times(self, number: int) -> None:
        with contextlib.suppress(ValueError):  # removed
            variant = self.context.variant(number)
            profile, count = variant.profile, variant.profile_count
            if not isinstance(profile, Unavailable):
                self.once(variant, ("times", count), lambda: self._times(variant, profile, count))

    def _times(self, variant: Variant, profile: Profile, count: int) -> bool:
        error, buffers = None, list[bytes]()
        try:
            module = self._module(variant)
            buffers = [numbers("<f4", measured_times(hierarchy(module), module, profile.execution_times))]
        except Exception as reason:  # the pane shows any error
            error = messages.error_of(reason)
        message = GraphTimes(type="graph_times", variant=variant.number, profile=count, error=error)
        self.context.publish(PackedMessage(message, buffers))
        return True

    def _send_before(self, number: int, baseline: int) -> None:
        with contextlib.suppress(ValueError):  # one was removed
            variant, before = self.context.variant(number), self.context.variant(baseline)
            self.once(variant, ("before", before), lambda: self._before(variant, before))

    def _before(self, variant: Variant, before: Variant) -> bool:
        error, buffers = None, list[bytes]()
        try:
            tree, (other, costs) = hierarchy(self._module(variant)), self._counted(before)
            matched = counterparts(tree, self._module(variant), other, self._module(before))
            known = (sums.known for sums in (costs.flops, costs.bytes_accessed, costs.least_s))
            buffers = [numbers("<f4", *(np.append(each, np.nan)[matched] for each in known))]
        except Exception as reason:  # the pane shows any error
            error = messages.error_of(reason)
        message = GraphBefore(type="graph_before", variant=variant.number, baseline=before.number, error=error)
        self.context.publish(PackedMessage(message, buffers))
        return True


def graph_buffers(tree: Hierarchy, module: Module) -> list[bytes]:
    """Returns the four buffers of a `GraphMessage`."""
    columns, alive = module.columns, spans(module)
    edge_bytes, sizes = np.unique(tree.edge_bytes, return_inverse=True)
    shapes, codes = _numbered([str(shape.without_layout()) for shape in module.known_shapes])
    byte_sizes = dict(zip(codes.tolist(), [shape.byte_size for shape in module.known_shapes], strict=True))
    operations, of_origins = _numbered([*(operation_of(origin.op_name) for origin in module.known_origins), ""])
    table = GraphTable(
        opcodes=columns.opcodes.values,
        operations=operations,
        shapes=shapes,
        shape_bytes=[byte_sizes[number] for number in range(len(shapes))],
        edge_bytes=edge_bytes.tolist(),
        kinds=[box.kind for box in tree.boxes],
        titles=[box.title for box in tree.boxes],
        phases=[box.phase for box in tree.boxes],
        unscheduled=alive.reason if isinstance(alive, Unavailable) else "",
    )
    ends = (alive.start, alive.end) if isinstance(alive, LiveSpans) else ()
    nodes = [
        tree.parents,
        columns.opcodes.codes,
        of_origins[columns.metadata.codes],
        codes[columns.shapes.codes],
        *ends,
    ]
    return [
        packed(json.dumps(table, separators=(",", ":"), ensure_ascii=False)),
        packed("\n".join(columns.names)),
        numbers("<i4", *nodes),
        numbers("<i4", tree.sources, tree.targets, sizes),
    ]


def _cost_buffers(counted: HierarchyCosts) -> list[bytes]:
    sums = (counted.flops, counted.bytes_accessed, counted.least_s)
    return [numbers("<f4", *(each.known for each in sums)), numbers("<u1", *(each.partial for each in sums))]


def _numbered(texts: list[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Returns the distinct texts, and the index of each text among them."""
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(known), np.array([known[text] for text in texts], np.int64)


def numbers(kind: str, *columns: npt.NDArray[np.generic]) -> bytes:
    """Returns columns of one type as a gzip-compressed buffer."""
    return gzip.compress(np.concatenate(columns).astype(kind).tobytes(), _GZIP_LEVEL, mtime=0)
