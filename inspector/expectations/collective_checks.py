"""Checks of a program's collectives: kinds, axes, number and bytes."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Sequence

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
from inspector.analysis.collectives.operations import OPCODES
from inspector.errors import AtLeast, Missing, ParameterError, Unavailable, total
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.expectations.limits import Limit
from inspector.support.notebook import short
from inspector.support.units import format_bytes, format_count

Axes = str | Sequence[str]

_TITLES = COLLECTIVE_COLUMNS.titles("check")


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The collectives that a check selects.

    Attributes:
      opcodes: the selected kinds; empty for all.
      axes: exactly these axes, in any order; None for any.
    """

    opcodes: frozenset[str]
    axes: frozenset[str] | None

    @classmethod
    def of(cls, opcodes: Collection[str], axes: Axes | None) -> Wanted:
        """Creates a selection from the arguments of a check.

        Raises:
          ParameterError: an unknown opcode, or values that are not names of axes.
        """
        strange = sorted(set(opcodes) - set(OPCODES), key=str)
        if strange:
            raise ParameterError(
                f"Unknown collective {short(strange[0])}. Expected one of {', '.join(sorted(OPCODES))}."
            )
        if axes is None:
            return cls(frozenset(opcodes), None)
        names = axes.split(",") if isinstance(axes, str) else list(axes)
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(
                f"Expected names of mesh axes, such as 'data' or ('data', 'model'), got axes={short(axes)}."
            )
        return cls(frozenset(opcodes), frozenset(name.strip() for name in names if name.strip()))

    def has(self, one: Collective) -> bool | Unavailable:
        """Reports whether a collective is selected, or the reason why this is unknown."""
        if self.opcodes and one.opcode not in self.opcodes:
            return False
        if self.axes is None:
            return True
        return one.axes if isinstance(one.axes, Unavailable) else frozenset(one.axes) == self.axes

    def __str__(self) -> str:
        over = "" if self.axes is None else f" over {', '.join(sorted(self.axes)) or 'no axis'}"
        return f"{' or '.join(sorted(self.opcodes)) or 'collectives'}{over}"


def check_count(collectives: Sequence[Collective], wanted: Wanted, bound: Limit) -> CheckResult:
    """Checks the number of selected collectives, each counted once even if it runs several times."""
    of = [wanted.has(one) for one in collectives]
    count = _sum(zip(collectives, of, [1] * len(collectives), strict=True))
    is_met = bound.judge(count)
    is_too_many = bound.most is not None and count > bound.most
    return CheckResult(
        str(wanted), bound.words(format_count), format_count(count), is_met, _TITLES,
        _lines(collectives, [is_too_many and has is not False for has in of]),
        "" if is_met else _nearest(collectives, of, wanted) if not is_too_many else "",
    )  # fmt: skip


def check_bytes(collectives: Sequence[Collective], wanted: Wanted, bound: Limit) -> CheckResult:
    """Checks the bytes that one device sends in the selected collectives in one execution of the program."""
    of = [wanted.has(one) for one in collectives]
    sent_bytes = _sum(zip(collectives, of, [_sent_bytes(one) for one in collectives], strict=True))
    is_met = bound.judge(sent_bytes)
    largest = max((one for one, has in zip(collectives, of, strict=True) if has), key=_sent_bytes, default=None)
    return CheckResult(
        f"bytes into {wanted}", bound.words(format_bytes), format_bytes(sent_bytes), is_met, _TITLES,
        _lines(collectives, [not is_met and one is largest for one in collectives]),
        "" if is_met or largest is None else f"the largest is {largest.name}, {format_bytes(_sent_bytes(largest))}",
    )  # fmt: skip


def check_others(collectives: Sequence[Collective], wanted: Sequence[Wanted]) -> CheckResult:
    """Checks that every collective is selected by one of the earlier checks."""
    others = [not any(each.has(one) is True for each in wanted) for one in collectives]
    kinds = collections.Counter(
        f"{one.opcode} over {axes_text(one.axes)}"
        for one, is_other in zip(collectives, others, strict=True)
        if is_other
    )
    got = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
    return CheckResult("other collectives", "none", got, not any(others), _TITLES, _lines(collectives, others))


def show(collectives: Sequence[Collective], kinds: Collection[str], recorded: int) -> CheckResult:
    """Shows all collectives and marks those of some kinds ("all-reduce over data"), of which the record has fewer."""
    against = [f"{one.opcode} over {axes_text(one.axes)}" in kinds for one in collectives]
    what, expected = ", ".join(sorted(kinds)), f"{recorded}, as recorded" if recorded else "none, as recorded"
    return CheckResult(what, expected, str(sum(against)), False, _TITLES, _lines(collectives, against))


def _sum(amounts: Iterable[tuple[Collective, bool | Unavailable, float]]) -> float:
    """Returns the sum over selected collectives; `AtLeast` if the selection of some is unknown."""
    known: list[float] = []
    for one, has, amount in amounts:
        if isinstance(has, Unavailable):
            known.append(AtLeast(0, [Missing(one.name, f"{one.opcode} over unknown axes")]))
        elif has:
            known.append(amount)
    return total(known)


def _sent_bytes(one: Collective) -> float:
    if isinstance(one.executions, Unavailable):
        return AtLeast(0, [Missing(one.name, "collective that runs an unknown number of times")])
    return one.operand_bytes * one.executions


def _nearest(collectives: Sequence[Collective], of: Sequence[bool | Unavailable], wanted: Wanted) -> str:
    """Counts the kinds that differ from the selection in one respect."""
    rest = [one for one, has in zip(collectives, of, strict=True) if has is not True]
    same_kind = [one for one in rest if one.opcode in wanted.opcodes]
    same_axes = [one for one in rest if not isinstance(one.axes, Unavailable) and frozenset(one.axes) == wanted.axes]
    near = collections.Counter(f"{one.opcode} over {axes_text(one.axes)}" for one in same_kind or same_axes or rest)
    return ", ".join(f"{count} {kind}" for kind, count in near.most_common(3))


def _lines(collectives: Sequence[Collective], against: Sequence[bool]) -> tuple[TableLine, ...]:
    return tuple(
        TableLine(COLLECTIVE_COLUMNS.texts("check", CollectiveRow(one)), one.origin.frames, is_against)
        for one, is_against in zip(collectives, against, strict=True)
    )
