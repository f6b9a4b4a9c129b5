"""The observed inputs and outputs of a function's collectives on every device, as the Collectives pane shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

import numpy as np

from inspector.analysis.collectives import collective as analysis
from inspector.analysis.collectives.collectives import Collectives
from inspector.errors import Unavailable
from inspector.execution import collective_values
from inspector.widgets import messages
from inspector.widgets.cells import display_file

_MOST_DEVICES = 64
_MOST_EXECUTIONS = 8
_MOST_VALUES = 16
"""Maximum number of elements that are shown; larger arrays show both ends of each axis."""
_MOST_CHARACTERS = 60_000
"""Limit for all values together, as a notebook saves them."""
_CHARACTERS = 200
"""Approximate number of characters per array."""


class ObserveRequest(TypedDict):
    """Runs a variant's function once on virtual CPU devices, and requests the inputs and outputs of its collectives.

    Attributes:
      apart: whether to add each replica's number to its inputs, so that the values of replicas differ.
    """

    type: Literal["observe"]
    variant: int
    apart: bool


class ObservedDevice(TypedDict):
    """One device's values of a collective.

    Attributes:
      logical_id: position in the program's devices; None if one value stands for several devices.
      device: the device's id; None if one value stands for several devices.
      coordinates: coordinates along the axes that the collective can see.
      before, after: values of its operands and of its result, for each execution.
    """

    logical_id: int | None
    device: int | None
    coordinates: dict[str, int]
    before: list[str]
    after: list[str]


class ObservationMessage(TypedDict):
    """An executed collective of the function.

    Attributes:
      hlo: its instruction before optimization; "" if there is none or several match, with the reason in `unnamed`.
      optimized: its instruction after optimization, if there is exactly one unchanged; else "".
      executions: largest number of executions on a device.
      note: description of the values that are not shown, with the reason.
    """

    hlo: str
    optimized: str
    unnamed: str
    primitive: str
    source: messages.SourceLine | None
    executions: int
    rows: list[ObservedDevice]
    note: str


class ObservedMessage(TypedDict):
    """The observations of a variant's function, or an error; `items` is set once the run is done."""

    type: Literal["observed"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    device_kind: str
    items: list[ObservationMessage]


def observed_message(
    variant: int,
    state: messages.State,
    *,
    elapsed_s: float = 0.0,
    error: BaseException | None = None,
    device_kind: str = "",
    items: Iterable[ObservationMessage] = (),
) -> ObservedMessage:
    """Returns the state of a variant's observation."""
    return ObservedMessage(
        type="observed",
        variant=variant,
        state=state,
        stage="",
        elapsed_s=elapsed_s,
        error=None if error is None else messages.error_of(error),
        device_kind=device_kind,
        items=list(items),
    )


def observations(
    observed: collective_values.Observed, before: Collectives, after: Collectives | None
) -> list[ObservationMessage]:
    """Returns the observations of a function's collectives, with a limited number of values.

    Args:
      observed: the observed values.
      before: the collectives before optimization.
      after: the collectives after optimization, if available.
    """
    optimized = _counterparts(before, after)
    left, items = _MOST_CHARACTERS, list[ObservationMessage]()
    for each in observed:
        item = _observation(each, optimized, left)
        left -= sum(len(text) for row in item["rows"] for text in (*row["before"], *row["after"]))
        items.append(item)
    return items


def _observation(each: collective_values.Observation, optimized: Mapping[str, str], left: int) -> ObservationMessage:
    name = "" if isinstance(each.name, Unavailable) else each.name
    executions = max(each.executions, default=0)
    arrays = (1 + len(each.before)) * min(_MOST_DEVICES, len(each.coordinates))
    shown = min(_MOST_EXECUTIONS, each.recorded_executions, max(1, left // (_CHARACTERS * arrays))) if left > 0 else 0
    is_known = isinstance(each.source_file, str) and isinstance(each.source_line, int)
    return ObservationMessage(
        hlo=name,
        optimized=optimized.get(name, ""),
        unnamed=each.name.reason if isinstance(each.name, Unavailable) else "",
        primitive=each.primitive,
        source=messages.SourceLine(file=display_file(str(each.source_file)), line=int(each.source_line), library="")
        if is_known and not isinstance(each.source_line, Unavailable)
        else None,
        executions=executions,
        rows=_rows(each, shown) if shown else [],
        note=_note(each, executions, shown),
    )


def _rows(each: collective_values.Observation, executions: int) -> list[ObservedDevice]:
    assert not isinstance(each.after, Unavailable), "nothing was recorded"
    rows = []
    for position, coordinates in enumerate(each.coordinates[:_MOST_DEVICES]):
        ran = range(min(each.executions[position], executions))
        rows.append(
            ObservedDevice(
                logical_id=None if isinstance(each.logical_ids, Unavailable) else each.logical_ids[position],
                device=None if isinstance(each.devices, Unavailable) else each.devices[position],
                coordinates=dict(coordinates),
                before=[", ".join(_text(operand[position, i]) for operand in each.before) for i in ran],
                after=[_text(each.after[position, i]) for i in ran],
            )
        )
    return rows


def _note(each: collective_values.Observation, executions: int, shown: int) -> str:
    if isinstance(each.after, Unavailable):
        return f"Its values were not recorded: {each.after.reason}."
    if not executions:
        return "This collective did not run."
    if not shown:
        return "Its values do not fit into this page. Call lowered.observe(...) to get them."
    left_out = []
    if len(each.coordinates) > _MOST_DEVICES:
        left_out.append(f"the first {_MOST_DEVICES} of {len(each.coordinates):,} devices")
    if executions > shown:
        left_out.append(f"the first {shown} of {executions:,} executions")
    if left_out:
        return f"Showing {' and '.join(left_out)}; lowered.observe(...) has more."
    return ""


def _counterparts(before: Collectives, after: Collectives | None) -> dict[str, str]:
    """Returns the optimized instruction of each unchanged collective: the only one with its line, groups and shapes on both sides."""
    if after is None:
        return {}
    old, new = _by_kind(before), _by_kind(after)
    return {names[0]: new[kind][0] for kind, names in old.items() if len(names) == 1 and len(new.get(kind, ())) == 1}


def _by_kind(collectives: Collectives) -> dict[tuple[object, ...], list[str]]:
    kinds: dict[tuple[object, ...], list[str]] = {}
    for each in collectives:
        kinds.setdefault(_kind(each), []).append(each.name)
    return kinds


def _kind(each: analysis.Collective) -> tuple[object, ...]:
    operands = tuple(shape.without_layout() for shape in each.operand_shapes)
    primitive = each.origin.op_name.rpartition("/")[2]  # the part before it grows as calls are inlined
    return each.opcode, primitive, each.origin.innermost, str(each.participants), operands


def _text(value: np.ndarray) -> str:
    """Formats a value on one line; large arrays are shortened in the middle of each axis."""
    shown = np.asarray(value)
    if shown.dtype.kind not in "biufc":  # bfloat16 and smaller types, which NumPy prints with all digits
        shown = shown.astype(np.int32 if "int" in shown.dtype.name else np.float32)
    if not shown.ndim:
        return f"{float(shown):.5g}" if shown.dtype.kind == "f" else str(shown[()])
    edge = {1: 4, 2: 2}.get(shown.ndim, 1)
    text = np.array2string(
        shown, precision=4, threshold=_MOST_VALUES, edgeitems=edge, separator=", ", max_line_width=1 << 20
    )
    return re.sub(r"\s+(?=[],])|(?<=\[)\s+", "", " ".join(text.split()))
