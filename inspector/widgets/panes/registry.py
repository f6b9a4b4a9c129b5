"""The registry of panes: their names, titles, places, inputs, messages and redraw topics.

The browser's half of each is `frontend/src/panes/NAME.ts`, which exports `pane`. The browser's copy of this table is
generated from it by `frontend/generate_messages.py`, like the messages.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Union

from inspector.widgets import messages
from inspector.widgets.explorables import messages as explorables
from inspector.widgets.messages import kernels
from inspector.widgets.messages import passes as recorded
from inspector.widgets.panes import (
    bisect,
    code,
    collectives,
    findings,
    graph,
    instructions,
    memory,
    options,
    pallas,
    passes,
    profile,
    retraces,
    roofline,
    run,
    shardings,
    stats,
    what_if,
)
from inspector.widgets.panes.collective_parts import observed, price
from inspector.widgets.panes.framework.pane import Need, Pane
from inspector.widgets.panes.roofline_parts import headline, line_costs
from inspector.widgets.panes.run_parts import accuracy, results
from inspector.widgets.panes.texts import lowered_texts, optimized, outline, source

Place = Literal["left", "middle", "right", "dock"]
"""One of three columns, or the dock below them."""


@dataclasses.dataclass(frozen=True, slots=True)
class PaneEntry:
    """The registry entry of a pane.

    Attributes:
      name: name in file names, messages and saved layouts.
      title: title of its tab.
      place: initial place, after the panes that precede it in the registry.
      make: class of the pane.
      needs: inputs that the pane receives as they become available for a variant.
      says: classes of the messages that it sends, except `Document`.
      hears: classes of the requests that it answers.
      topics: types of messages that make the browser redraw it; a change of the connection always does.
      only: what the program must have for the pane to be offered: Pallas kernels, or several partitions.
    """

    name: str
    title: str
    place: Place
    make: type[Pane]
    needs: tuple[Need, ...] = ()
    says: tuple[type, ...] = ()
    hears: tuple[type, ...] = ()
    topics: tuple[str, ...] = ()
    only: Literal["", "kernels", "partitions"] = ""


_TEXT = ("document", "variant", "session", "diff")
_RECORDED = ("recording", "variant")

# fmt: off
PANES: tuple[PaneEntry, ...] = (
    PaneEntry("source", "Source", "left", source.SourcePane, ("lowered",), topics=_TEXT),
    PaneEntry("outline", "Outline", "left", outline.OutlinePane, topics=("document", "variant", "line_costs")),
    PaneEntry("jaxpr", "jaxpr", "middle", lowered_texts.JaxprPane, ("lowered",), topics=_TEXT),
    PaneEntry("stablehlo", "StableHLO", "middle", lowered_texts.StableHloPane, ("lowered",), topics=_TEXT),
    PaneEntry("hlo", "HLO", "middle", lowered_texts.HloPane, ("lowered",), topics=_TEXT),
    PaneEntry("optimized", "Optimized HLO", "right", optimized.OptimizedPane, ("program", "compiled"), (optimized.DiffMessage, optimized.DiffCosts), (optimized.DiffRequest, optimized.DiffCostsRequest), (*_TEXT, "diff_costs")),
    PaneEntry("findings", "Findings", "dock", findings.FindingsPane, (), (findings.FindingsMessage, findings.Proving), (findings.FindingsRequest, findings.ProveRequest, findings.AddChangedRequest), ("findings", "proving", "variant")),
    PaneEntry("pallas", "Pallas", "dock", pallas.PallasPane, ("kernels",), (kernels.Kernels, kernels.Tuned), (kernels.TuneRequest,), ("kernels", "variant"), only="kernels"),
    PaneEntry("stats", "Stats", "dock", stats.StatsPane, ("preview", "compiled"), (stats.Stats,), topics=("stats", "variant", "diff")),
    PaneEntry("instructions", "Instructions", "dock", instructions.InstructionsPane, (), (instructions.InstructionTable,), (instructions.InstructionsRequest,), ("instruction_table", "variant", "line_costs")),
    PaneEntry("memory", "Memory", "dock", memory.MemoryPane, ("buffers", "failed"), (memory.MemoryTimeline,), (), (*_RECORDED, "memory", "stats", "diff")),
    PaneEntry("what_if", "What if", "dock", what_if.WhatIfPane, ("lowered",), (what_if.Suppositions, what_if.Supposed), (what_if.SupposeRequest,), ("suppositions", "supposed", "stats", "variant")),
    PaneEntry("roofline", "Roofline", "dock", roofline.RooflinePane, ("buffers",), (roofline.RooflineMessage, line_costs.LineCostsMessage, headline.HeadlineMessage), (roofline.RooflineRequest, line_costs.LineCostsRequest, headline.HeadlineRequest), ("roofline", "headline", "variant")),
    PaneEntry("collectives", "Collectives", "dock", collectives.CollectivesPane, ("program", "compiled", "passes", "profiled"), (collectives.CollectivesMessage, collectives.FullRematerializations, observed.ObservedMessage, price.Priced), (observed.ObserveRequest, price.PriceRequest), ("collectives", "full_rematerializations", "observed", "priced", "recording", "variant", "document")),
    PaneEntry("shardings", "Shardings", "dock", shardings.ShardingsPane, ("compiled", "passes"), (shardings.ShardingList,), topics=("sharding_list", "recording", "variant", "document"), only="partitions"),
    PaneEntry("graph", "Graph", "dock", graph.GraphPane, (), (graph.GraphMessage, graph.GraphCosts, graph.GraphTimes, graph.GraphBefore), (graph.GraphRequest, graph.GraphTimesRequest, graph.GraphBeforeRequest), ("graph", "graph_costs", "graph_times", "graph_before", "pass_graph", "passes", "collectives", "variant", "document")),
    PaneEntry("passes", "Passes", "dock", passes.PassesPane, ("passes",), (recorded.PassList, recorded.PassChangeMessage, recorded.Story, recorded.PassGraph), (recorded.PassRequest, recorded.FollowRequest, recorded.PassVariantRequest, recorded.PassGraphRequest), (*_RECORDED, "passes", "pass_change", "story")),
    PaneEntry("code", "Code", "dock", code.CodePane, ("assembly",), (code.CodeList, code.CodeText), (code.CodeRequest,), (*_RECORDED, "code", "code_text")),
    PaneEntry("options", "Options", "dock", options.OptionsPane, (), (options.Scan, options.BuildOptions, options.Built), (options.ScanRequest, options.ScanAddRequest, options.BuildOptionsRequest, options.BuildRequest), ("scan", "build_options", "built", "variant")),
    PaneEntry("bisect", "Bisect", "dock", bisect.BisectPane, (), (bisect.BisectMessage, bisect.ReproductionSaved), (bisect.BisectRequest, bisect.SaveReproductionRequest), ("bisect", "reproduction_saved", "variant", "document")),
    PaneEntry("run", "Run", "dock", run.RunPane, (), (run.RunMessage, results.RunComparison, run.Profiling, accuracy.AccuracyMessage), (run.RunRequest, run.RunAllRequest, accuracy.AccuracyRequest), ("run", "run_comparison", "profiling", "accuracy", "variant")),
    PaneEntry("profile", "Profile", "dock", profile.ProfilePane, (), (profile.ProfileTable,), (profile.ProfileRequest,), ("profile_table", "profiling", "run", "variant")),
    PaneEntry("retraces", "Retraces", "dock", retraces.RetracesPane, ("lowered",), (retraces.RetracesMessage,), (retraces.WatchRetracesRequest,), ("retraces", "document")),
)
# fmt: on

ToBrowser: Any = Union[(messages.OfExplorer, explorables.OfExplorable, *(kind for line in PANES for kind in line.says))]
"""Every message that Python can send."""
FromBrowser: Any = Union[
    (messages.ToExplorer, explorables.ToExplorable, *(kind for line in PANES for kind in line.hears))
]
"""Every message that a browser can send."""


def offered(*, has_kernels: bool, has_partitions: bool) -> tuple[PaneEntry, ...]:
    """Returns the panes that are offered for a program, in order."""
    has = {"": True, "kernels": has_kernels, "partitions": has_partitions}
    return tuple(line for line in PANES if has[line.only])
