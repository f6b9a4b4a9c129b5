"""Sums of a roofline's kernels by scope, line, phase, opcode or roof.

For scope, line and phase, the costs of a fusion are split by `analysis/cost/attribution.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from inspector.analysis.cost.attribution import Part
from inspector.analysis.cost.matrix_unit import NO_PRODUCT, mean_filled
from inspector.analysis.cost.roofline_point import Point, flops_a_byte
from inspector.errors import About, Missing, Unavailable, missing, total
from inspector.hlo.source import Frame, Origin

GroupedBy = Literal["scope", "line", "phase", "opcode", "roof"]
"""The property by which kernels are summed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Kernels, or parts of them, with a common property.

    Attributes:
      name: the common property, such as a scope, or a line as `file:line`; None if unknown.
      points: the kernels, those with the most time in this group first.
      frames: for a line, call stack of the part with the most time; () otherwise.
      flops, main_memory_bytes, least_s: operations, bytes and estimated seconds of all executions of all kernels; of a
        fusion, its part in this group. `About` if a part is unknown, or if a kernel runs an unknown number of times and
        is counted once; Unavailable if no part is known.
      link_bytes: bytes that one device sends to others.
      exposed_s: estimated time on the links that no kernel hides, as in `Point`.
      filled: upper bound for the share of the matrix unit that their products use.
      share: share of the sum of all kernels' `least_s`; Unavailable if that sum is 0 or the group's time is unknown.
    """

    name: str | None
    points: tuple[Point, ...]
    frames: tuple[Frame, ...]
    flops: float | Unavailable
    main_memory_bytes: float | Unavailable
    link_bytes: float
    least_s: float | Unavailable
    exposed_s: float | Unavailable
    filled: float | Unavailable
    share: float | Unavailable

    @property
    def intensity(self) -> float | Unavailable:
        """FLOPs per byte."""
        return flops_a_byte(self.flops, self.main_memory_bytes)


def grouped(points: Iterable[Point], by: GroupedBy) -> tuple[Group, ...]:
    """Returns the groups, the slowest first. A kernel is in one group, or in several with its parts."""
    found: dict[str | None, list[_Shared]] = {}
    for point in points:
        for shared in _shared(point, by):
            found.setdefault(shared.name, []).append(shared)
    spent = {name: _sum(each, "least_s") for name, each in found.items()}
    whole = float(sum(each for each in spent.values() if not isinstance(each, Unavailable)))
    groups = [
        Group(
            name=name,
            points=tuple(dict.fromkeys(shared.point for shared in sorted(each, key=_rank))),
            frames=min(each, key=_rank).origin.frames if by == "line" else (),
            flops=_sum(each, "flops"),
            main_memory_bytes=_sum(each, "main_memory_bytes"),
            link_bytes=sum(shared.point.link_bytes * shared.least_s for shared in each),
            least_s=spent[name],
            exposed_s=_sum(each, "exposed_s"),
            filled=filled_by([shared.point for shared in each if shared.flops]),
            share=_share(spent[name], whole),
        )
        for name, each in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: _descending(group.least_s, group.main_memory_bytes, group.flops)))


def filled_by(points: Iterable[Point]) -> float | Unavailable:
    """Returns an upper bound for the share of the matrix unit that the products of kernels use."""
    pairs, reasons = list[tuple[float, float]](), list[Unavailable]()
    for point in points:
        if isinstance(point.filled, Unavailable):
            reasons += [point.filled] if point.filled != NO_PRODUCT else []
        elif not isinstance(point.flops, Unavailable) and point.flops:
            pairs.append((point.filled, float(point.flops)))
    return mean_filled(pairs) if pairs else next(iter(reasons), NO_PRODUCT)


class _Shared(NamedTuple):
    """The share of a kernel's numbers that goes to a group."""

    name: str | None
    point: Point
    origin: Origin
    flops: float = 1.0
    main_memory_bytes: float = 1.0
    least_s: float = 1.0

    def amount(self, number: str) -> float | Unavailable:
        """Returns the group's share of a number of the kernel."""
        value: float | Unavailable = getattr(self.point, number)
        if isinstance(value, Unavailable):
            return value
        if isinstance(self.point.executions, Unavailable) and value:
            once = Missing(self.point.name, "kernel that runs an unknown number of times", "counted once")
            value = About(float(value), (*missing(value), once))
        share: float = self.least_s if number == "exposed_s" else getattr(self, number)
        return value * share


def _shared(point: Point, by: GroupedBy) -> Iterator[_Shared]:
    if by == "opcode":
        yield _Shared(point.opcode, point, point.origin)
    elif by == "roof":
        yield _Shared(None if isinstance(point.bound_by, Unavailable) else point.bound_by, point, point.origin)
    else:
        for part in point.parts:
            name = {"line": _line, "scope": _scope, "phase": _phase}[by](part)
            yield _Shared(name, point, part.origin, part.flops, part.main_memory_bytes, part.least_s)


def _line(part: Part) -> str | None:
    line = part.origin.line
    return f"{line.file}:{line.line}" if line else None


def _scope(part: Part) -> str | None:
    return part.origin.scope or None


def _phase(part: Part) -> str | None:
    return part.phase


def _rank(shared: _Shared) -> tuple[float, ...]:
    return _descending(*(shared.amount(number) for number in ("least_s", "flops", "main_memory_bytes")))


def _descending(*numbers: float | Unavailable) -> tuple[float, ...]:
    return tuple(0.0 if isinstance(number, Unavailable) else -float(number) for number in numbers)


def _share(spent: float | Unavailable, whole: float) -> float | Unavailable:
    if isinstance(spent, Unavailable):
        return spent
    return float(spent) / whole if whole else Unavailable("all estimated times are 0")


def _sum(shared: Sequence[_Shared], number: str) -> float | Unavailable:
    """Sums a number. Unknown parts are listed as missing; if all are unknown, so is the sum."""
    amounts = [each.amount(number) for each in shared]
    reasons = [amount for amount in amounts if isinstance(amount, Unavailable)]
    if reasons and len(reasons) == len(amounts):
        return reasons[0]
    return total(
        About(0.0, [Missing(each.point.name, each.point.opcode.replace("-", " "))])
        if isinstance(amount, Unavailable)
        else amount
        for each, amount in zip(shared, amounts, strict=True)
    )
