"""The arrangement and focus of panes as set from Python, validated before they are sent to a browser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inspector.errors import ParameterError
from inspector.support.notebook import short
from inspector.widgets import messages

PRESETS = ("read", "compare", "communicate", "memory")
"""Names of predefined arrangements in the browser (`frontend/src/state/layout.ts`)."""

_VERSION = 2
_TEXTS = ("source", "jaxpr", "stablehlo", "hlo", "optimized")
_OF_INSTRUCTIONS = ("hlo", "optimized")


def focus(panes: Sequence[str], pane: str, line: Any, instruction: Any, variant: int | None) -> messages.Focus:
    """Returns the message that brings a browser's view to a line or an instruction.

    Raises:
      ParameterError: `panes` does not contain the pane, or the pane has no lines or instructions.
    """
    if pane not in panes:
        raise ParameterError(f"Unknown pane {short(pane)}. Available: {', '.join(panes)}.")
    if line is not None and instruction is not None:
        raise ParameterError(f"Pass a line or an instruction, not both; got {short(line)} and {short(instruction)}.")
    if line is not None and (pane not in _TEXTS or not isinstance(line, int) or line < 1):
        raise ParameterError(
            f"A line must be a number from 1 in one of {', '.join(_TEXTS)}; got {short(line)} in {short(pane)}."
        )
    if instruction is not None and (pane not in _OF_INSTRUCTIONS or not isinstance(instruction, str)):
        raise ParameterError(
            f"An instruction must be a name in one of {', '.join(_OF_INSTRUCTIONS)}; got {short(instruction)} in {short(pane)}."
        )
    name = None if instruction is None else instruction.removeprefix("%")
    return messages.Focus(type="focus", pane=pane, variant=variant, line=line, instruction=name)


def arrangement(panes: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns an arrangement in the browser's format; panes that it does not name are hidden.

    Raises:
      ParameterError: an unknown arrangement, no column, or panes that do not exist or appear twice.
    """
    if isinstance(value, str):
        if value not in PRESETS:
            raise ParameterError(f"The named arrangements are {', '.join(PRESETS)}; got {short(value)}.")
        return {"preset": value}
    if not isinstance(value, Mapping) or not value.get("columns"):
        example = (
            '{"columns": [{"groups": [{"panes": ["source"]}, {"panes": ["hlo"]}]}, {"panes": ["optimized"]}], '
            '"dock": {"panes": ["stats"]}}'
        )
        raise ParameterError(f"An arrangement must be a name or a mapping such as {example}; got {short(value)}.")
    columns = [_column(column) for column in value["columns"]]
    dock = _group(value["dock"]) if value.get("dock") else None
    groups = [group for column in columns for group in column["groups"]]
    placed = [pane for group in (*groups, *([dock] if dock else [])) for pane in group["panes"]]
    _check(panes, placed)
    return {
        "version": _VERSION,
        "columns": columns,
        "dock": dock,
        "hidden": [pane for pane in panes if pane not in placed],
        "dockOpen": bool(value.get("dockOpen", True)),
        "dockShare": float(value.get("dockShare", 0.36)),
        "dockShares": {str(pane): float(share) for pane, share in (value.get("dockShares") or {}).items()},
        "side_by_side": bool(value.get("side_by_side", False)),
    }


def _column(column: Any) -> dict[str, Any]:
    """Returns a column of stacked groups; a single group may be written without "groups"."""
    stacked = column.get("groups") if isinstance(column, Mapping) else None
    if stacked is None:
        group = _group(column)
        return {"groups": [{**group, "weight": 1.0}], "weight": group["weight"]}
    if not isinstance(stacked, list | tuple) or not stacked:
        raise ParameterError(f'The "groups" of a column must be a list of mappings with "panes", got {short(stacked)}.')
    return {"groups": [_group(group) for group in stacked], "weight": float(column.get("weight", 1))}


def _group(group: Any) -> dict[str, Any]:
    listed = group.get("panes") if isinstance(group, Mapping) else None
    if not isinstance(listed, list | tuple) or not listed:
        raise ParameterError(f'A group must be a mapping with a list of "panes", got {short(group)}.')
    active = group.get("active", listed[0])
    if active not in listed:
        raise ParameterError(
            f"The active pane must be in its group, {', '.join(map(str, listed))}; got {short(active)}."
        )
    return {"panes": list(listed), "active": active, "weight": float(group.get("weight", 1))}


def _check(panes: Sequence[str], placed: Iterable[str]) -> None:
    seen: set[str] = set()
    for pane in placed:
        if pane not in panes:
            raise ParameterError(f"Unknown pane {short(pane)}. Available: {', '.join(panes)}.")
        if pane in seen:
            raise ParameterError(f"{short(pane)} appears twice in the arrangement.")
        seen.add(pane)
