"""A roofline's kernels summed by scope, line, phase, opcode or roof: where the least time goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from inspector.analysis.matrix_unit import NO_PRODUCT, mean_filled
from inspector.analysis.roofline_point import Point, flops_a_byte
from inspector.errors import AtLeast, Missing, Unavailable, total
from inspector.tables import UNKNOWN, Kind

GroupedBy = Literal["scope", "line", "phase", "opcode", "roof"]
"""What kernels are summed by."""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Kernels that share something.

    Attributes:
      name: what they share, a line as `file:line`; None where nothing tells.
      points: the kernels, the slowest first.
      flops, main_memory_bytes, least_s: of all executions of all of them; `AtLeast` where a part is not known.
      link_bytes: that one device sends to others.
      exposed_s: of the time on the links what no kernel hides, as of a `Point`.
      filled: the share of the matrix unit that their products fill at most.
      share: of the sum of all kernels' `least_s`; unavailable where that is nothing.
    """

    name: str | None
    points: tuple[Point, ...]
    flops: float
    main_memory_bytes: float
    link_bytes: float
    least_s: float
    exposed_s: float
    filled: float | Unavailable
    share: float | Unavailable

    @property
    def intensity(self) -> float | Unavailable:
        """Flops a byte."""
        return flops_a_byte(self.flops, self.main_memory_bytes)


GROUP_COLUMNS: Mapping[str, Kind] = {
    "name": "text", "kernels": "int", "flops": "float", "main_memory_bytes": "float", "link_bytes": "float",
    "least_s": "float", "exposed_s": "float", "filled": "float", "share": "float", UNKNOWN: "reasons",
}  # fmt: skip


def grouped(points: Iterable[Point], by: GroupedBy) -> tuple[Group, ...]:
    """The groups, the slowest first; every point is in one."""
    found: dict[str | None, list[Point]] = {}
    for point in points:
        found.setdefault(_shared(point, by), []).append(point)
    spent = {name: _sum(each, "least_s") for name, each in found.items()}
    whole = float(sum(spent.values()))
    groups = [
        Group(
            name=name,
            points=tuple(each),
            flops=_sum(each, "flops"),
            main_memory_bytes=_sum(each, "main_memory_bytes"),
            link_bytes=sum(point.link_bytes for point in each),
            least_s=spent[name],
            exposed_s=_sum(each, "exposed_s"),
            filled=filled_by(each),
            share=float(spent[name]) / whole if whole else Unavailable("no kernel's time is known"),
        )
        for name, each in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.least_s, -group.main_memory_bytes, -group.flops)))


def group_row(group: Group) -> tuple[object, ...]:
    """A row of `GROUP_COLUMNS`."""
    return (
        group.name, len(group.points), group.flops, group.main_memory_bytes, group.link_bytes, group.least_s,
        group.exposed_s, None if isinstance(group.filled, Unavailable) else group.filled, group.share,
    )  # fmt: skip


def filled_by(points: Iterable[Point]) -> float | Unavailable:
    """The share of the matrix unit that the products of kernels fill at most."""
    pairs, reasons = list[tuple[float, float]](), list[Unavailable]()
    for point in points:
        if isinstance(point.filled, Unavailable):
            reasons += [point.filled] if point.filled != NO_PRODUCT else []
        elif not isinstance(point.flops, Unavailable) and point.flops:
            pairs.append((point.filled, float(point.flops)))
    return mean_filled(pairs) if pairs else next(iter(reasons), NO_PRODUCT)


def _shared(point: Point, by: GroupedBy) -> str | None:
    if by == "line":
        return f"{point.line.file}:{point.line.line}" if point.line else None
    if by == "roof":
        return None if isinstance(point.bound_by, Unavailable) else point.bound_by
    return {"scope": point.scope or None, "phase": point.phase, "opcode": point.opcode}[by]


def _sum(points: Sequence[Point], name: str) -> float:
    """What is not known counts as nothing, and is missing."""
    values = ((point, getattr(point, name)) for point in points)
    return total(
        AtLeast(0.0, [Missing(point.name, point.opcode.replace("-", " "))]) if isinstance(value, Unavailable) else value
        for point, value in values
    )
