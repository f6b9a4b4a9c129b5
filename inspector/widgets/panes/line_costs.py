"""The costs of each line of a variant's texts, for the margins of the panes that show them."""

from __future__ import annotations

import json
from typing import Literal, TypedDict

from inspector.analysis.cost.line_costs import LineCosts
from inspector.errors import About, Unavailable
from inspector.widgets import messages
from inspector.widgets.documents import packed
from inspector.widgets.panes.framework.pane import PackedMessage


class LineCostsRequest(TypedDict):
    """Requests the costs of a variant's lines.

    Attributes:
      is_measured: whether to measure the roofs of this machine's CPU if none are published.
    """

    type: Literal["line_costs"]
    variant: int
    is_measured: bool


class LineCostTotals(TypedDict):
    """The costs of the whole program; None where `LineCostsMessage.reasons` has the reason.

    Attributes:
      least_s: the kernels' times at the roof, in sequence, in seconds.
      peak_bytes: peak memory of temporaries.
    """

    least_s: float | None
    flops: float
    main_memory_bytes: float
    peak_bytes: float | None


class LineCostColumns(TypedDict):
    """The lines of a text that have a cost, in order, one row for each part of a differentiated program.

    Attributes:
      line: line number from 0; -1 for costs that belong to no line.
      phase: "" if unknown.
    """

    line: list[int]
    phase: list[str]
    least_s: list[float]
    flops: list[float]
    main_memory_bytes: list[float]
    peak_bytes: list[float]


class LineCostsMessage(TypedDict):
    """The costs of a variant's lines, or an error. One buffer: `LineCostColumns` by text, as gzip-compressed JSON.

    Attributes:
      reasons: the reasons why there is no time or no memory at the peak.
      can_measure: whether this machine's CPU can be measured for the time.
      unknown: the costs that the numbers do not include; "" for none.
    """

    type: Literal["line_costs"]
    variant: int
    total: LineCostTotals | None
    reasons: dict[str, str]
    can_measure: bool
    unknown: str
    error: messages.Error | None


def message_of(variant: int, line_costs: LineCosts, *, can_measure: bool) -> PackedMessage:
    """Returns the costs as a message."""
    reasons = {"least_s": line_costs.least_s, "peak_bytes": line_costs.peak}
    least_s, flops, moved, peak = line_costs.total.values
    total = LineCostTotals(
        least_s=least_s if line_costs.least_s is True else None,
        flops=flops,
        main_memory_bytes=moved,
        peak_bytes=peak if line_costs.peak is True else None,
    )
    message = LineCostsMessage(
        type="line_costs", variant=variant, total=total,
        reasons={name: why.reason for name, why in reasons.items() if isinstance(why, Unavailable)},
        can_measure=can_measure, unknown=About(0, line_costs.unknown).reason if line_costs.unknown else "", error=None,
    )  # fmt: skip
    return PackedMessage(
        message, [packed(json.dumps({text: _columns(line_costs, text) for text in line_costs.listings}))]
    )


def failed(variant: int, error: BaseException) -> PackedMessage:
    """Returns the message for costs that are not available, with the error."""
    message = LineCostsMessage(
        type="line_costs", variant=variant, total=None, reasons={}, can_measure=False,
        unknown="", error=messages.error_of(error),
    )  # fmt: skip
    return PackedMessage(message, [packed("{}")])


def _columns(line_costs: LineCosts, text: str) -> LineCostColumns:
    costs = line_costs.on(text)
    least_s, flops, moved, peak = zip(*(cost.amounts.values for cost in costs), strict=True) if costs else ((),) * 4
    return LineCostColumns(
        line=[-1 if cost.line is None else cost.line for cost in costs],
        phase=[cost.phase or "" for cost in costs],
        least_s=list(least_s),
        flops=list(flops),
        main_memory_bytes=list(moved),
        peak_bytes=list(peak),
    )
