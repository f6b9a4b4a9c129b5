"""The costs of a variant's lines, for the margins of the panes that show texts, and of its scopes, for the Outline pane."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal, TypedDict

from inspector.analysis.cost.line_costs import OPTIMIZED, Amounts, LineCosts
from inspector.analysis.cost.scope_costs import ScopeCost
from inspector.errors import About, Unavailable
from inspector.hlo.listing import Listing
from inspector.widgets import messages
from inspector.widgets.documents import packed
from inspector.widgets.panes.framework.pane import PackedMessage

_NAMES = tuple(field.name for field in dataclasses.fields(Amounts))


class LineCostsRequest(TypedDict):
    """Requests the costs of a variant's lines.

    Attributes:
      is_measured: whether to measure the roofs of this machine's CPU if none are published.
      profile: the variant's `VariantMessage.profile`, so that a new profile is a new request.
    """

    type: Literal["line_costs"]
    variant: int
    is_measured: bool
    profile: int


class LineCostTotals(TypedDict):
    """The costs of the whole program; None where `LineCostsMessage.reasons` has the reason.

    Attributes:
      measured_s: mean measured time of one execution on one device, in seconds.
      least_s: the kernels' times at the roof, in sequence, in seconds.
      peak_bytes: peak memory of temporaries.
    """

    measured_s: float | None
    least_s: float | None
    flops: float
    main_memory_bytes: float
    peak_bytes: float | None


class AmountColumns(TypedDict):
    """The amounts of some rows, as in `line_costs.Amounts`: seconds, operations and bytes. Unknown amounts are 0."""

    measured_s: list[float]
    least_s: list[float]
    flops: list[float]
    main_memory_bytes: list[float]
    peak_bytes: list[float]


class LineCostColumns(AmountColumns):
    """The lines of a text that have a cost, in order, one row for each part of a differentiated program.

    Attributes:
      line: line number from 0; -1 for costs that belong to no line.
      phase: "" if unknown.
    """

    line: list[int]
    phase: list[str]


class ScopeCostColumns(AmountColumns):
    """The kernels of a program in order, one row for each scope and phase that a part of the kernel belongs to.

    Attributes:
      scopes: the distinct scopes: phase ("" if unknown), followed by the names of the scopes, outermost first.
      scope: index of the row's scope.
      line: the kernel's line in the optimized HLO, from 0; -1 for work that belongs to no line.
    """

    scopes: list[list[str]]
    scope: list[int]
    line: list[int]


class LineCostsMessage(TypedDict):
    """The costs of a variant's lines and scopes, or an error.

    Two buffers with gzip-compressed JSON: `LineCostColumns` by text, and `ScopeCostColumns`. The first is empty and the
    second missing in case of an error; the second is also missing in recordings of older versions.

    Attributes:
      profile: the number of the profile that the measured times come from, as `VariantMessage.profile`; 0 for none.
      program_s: estimated seconds of one execution, as in the Roofline pane; None if unknown. Older recordings lack it.
      reasons: the reasons why there is no measured time, no estimated time or no memory at the peak.
      can_measure: whether this machine's CPU can be measured for the time.
      unknown: the costs that the estimates do not include; "" for none.
    """

    type: Literal["line_costs"]
    variant: int
    profile: int
    total: LineCostTotals | None
    program_s: float | None
    reasons: dict[str, str]
    can_measure: bool
    unknown: str
    error: messages.Error | None


def message_of(
    variant: int, profile: int, line_costs: LineCosts, scope_costs: Sequence[ScopeCost], *, can_measure: bool
) -> PackedMessage:
    """Returns the costs, with the times of a variant's profile by its number, as a message."""
    amounts = dict(zip(_NAMES, line_costs.known(line_costs.total), strict=True))
    known = {name: None if isinstance(each, Unavailable) else each for name, each in amounts.items()}
    total = LineCostTotals(
        measured_s=known["measured_s"],
        least_s=known["least_s"],
        flops=line_costs.total.flops,
        main_memory_bytes=line_costs.total.main_memory_bytes,
        peak_bytes=known["peak_bytes"],
    )
    program_s = line_costs.program_s
    message = LineCostsMessage(
        type="line_costs", variant=variant, profile=profile, total=total, program_s=None if isinstance(program_s, Unavailable) else program_s,
        reasons={name: why.reason for name, why in amounts.items() if isinstance(why, Unavailable)},
        can_measure=can_measure, unknown=About(0, line_costs.unknown).reason if line_costs.unknown else "", error=None,
    )  # fmt: skip
    texts = {text: _columns(line_costs, text) for text in line_costs.listings}
    scopes = _scope_columns(scope_costs, line_costs.listings[OPTIMIZED])
    return PackedMessage(message, [packed(json.dumps(texts)), packed(json.dumps(scopes))])


def failed(variant: int, profile: int, error: BaseException) -> PackedMessage:
    """Returns the message for costs that are not available, with the error."""
    message = LineCostsMessage(
        type="line_costs", variant=variant, profile=profile, total=None, program_s=None, reasons={}, can_measure=False,
        unknown="", error=messages.error_of(error),
    )  # fmt: skip
    return PackedMessage(message, [packed("{}")])


def _columns(line_costs: LineCosts, text: str) -> LineCostColumns:
    costs = line_costs.on(text)
    return LineCostColumns(
        line=[-1 if cost.line is None else cost.line for cost in costs],
        phase=[cost.phase or "" for cost in costs],
        **_amounts([cost.amounts for cost in costs]),
    )


def _scope_columns(scope_costs: Sequence[ScopeCost], optimized: Listing) -> ScopeCostColumns:
    lines = {name: line for line, name in enumerate(optimized.instructions) if name is not None}
    scopes = [(cost.phase or "", *cost.path) for cost in scope_costs]
    numbers = {scope: number for number, scope in enumerate(dict.fromkeys(scopes))}
    return ScopeCostColumns(
        scopes=[[*scope] for scope in numbers],
        scope=[numbers[scope] for scope in scopes],
        line=[lines.get(cost.kernel, -1) for cost in scope_costs],
        **_amounts([cost.amounts for cost in scope_costs]),
    )


def _amounts(amounts: Sequence[Amounts]) -> AmountColumns:
    values = zip(*(each.values for each in amounts), strict=True) if amounts else [()] * len(_NAMES)
    columns = {name: list(each) for name, each in zip(_NAMES, values, strict=True)}
    return AmountColumns(
        measured_s=columns["measured_s"],
        least_s=columns["least_s"],
        flops=columns["flops"],
        main_memory_bytes=columns["main_memory_bytes"],
        peak_bytes=columns["peak_bytes"],
    )
