"""`Record`: the record of a program in a baseline file, and the differences of a program from it."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.sharding.reshardings import full_rematerializations
from inspector.errors import ParameterError, Partial, Unavailable
from inspector.expectations import content_checks, number_checks
from inspector.stages.compiled import Compiled
from inspector.support.notebook import short
from inspector.support.units import format_bytes, format_change, format_count, parse_bytes, parse_count

NUMBERS = (
    "peak_bytes", "temp_bytes", "argument_bytes", "output_bytes", "alias_bytes", "flops", "bytes_accessed", "kernels",
    "fusions", "custom_calls",
)  # fmt: skip
"""The recorded numbers, by their names in `inspector.compare`."""

_MORE_IS_BETTER = frozenset({"alias_bytes"})  # outputs in donated arguments
_OTHERS = ("host_transfers", "full_rematerializations")

Number = int | float
Verdict = Literal["same", "better", "allowed", "worse", "unknown"]


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveRecord:
    """Collectives of one kind over the same axes.

    Attributes:
      count: number of collectives in the program.
      runs: number of times they run in one execution of the program, in total.
      operand_bytes: bytes that one device sends in all of these runs.
    """

    count: int
    runs: Number
    operand_bytes: Number


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A program in numbers.

    Attributes:
      numbers: numbers by name; for partially known numbers, the known part.
      collectives: collectives by kind and axes, such as "all-reduce over data".
      element_types: element types of all computed values, in HLO's names.
      in_part: the omitted parts of partially known numbers.
      unknown: the reasons of unknown numbers.
    """

    numbers: Mapping[str, Number]
    collectives: Mapping[str, CollectiveRecord]
    element_types: tuple[str, ...]
    in_part: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, compiled: Compiled) -> Record:
        """Records a program."""
        known = number_checks.numbers(compiled)
        values: dict[str, float | Unavailable] = {key: known[key].value for key in NUMBERS if key in known}
        values["host_transfers"] = len(content_checks.transfers(compiled.module()))
        replicated = full_rematerializations(compiled)
        values["full_rematerializations"] = replicated if isinstance(replicated, Unavailable) else len(replicated)
        return cls(
            {key: _plain(value) for key, value in values.items() if not isinstance(value, Unavailable)},
            exchanges(compiled.collectives().items),
            content_checks.element_types(compiled.module()),
            {key: value.reason for key, value in values.items() if isinstance(value, Partial)},
            {key: value.reason for key, value in values.items() if isinstance(value, Unavailable)},
        )


def exchanges(collectives: Sequence[Collective]) -> dict[str, CollectiveRecord]:
    """Groups collectives by kind and axes. A collective with an unknown number of executions counts as one run."""
    by_kind: dict[str, list[Collective]] = collections.defaultdict(list)
    for one in collectives:
        by_kind[kind_of(one)].append(one)
    runs = {id(one): 1 if isinstance(one.executions, Unavailable) else one.executions for one in collectives}
    return {
        kind: CollectiveRecord(
            len(same), sum(runs[id(one)] for one in same), sum(runs[id(one)] * one.operand_bytes for one in same)
        )
        for kind, same in sorted(by_kind.items())
    }


def kind_of(one: Collective) -> str:
    """Names the kind and axes of a collective, such as "all-reduce over data"."""
    return f"{one.opcode} over {axes_text(one.axes)}"


def _plain(value: float) -> Number:
    number = float(value)
    return int(number) if number.is_integer() else number


@dataclasses.dataclass(frozen=True, slots=True)
class NumberChange:
    """One number of a program compared with the recorded one.

    Attributes:
      name: name of the number or of the collectives.
      before, now: the values as text.
      difference: the difference as text, "" if there is none.
      verdict: "worse" and "unknown" are failures; "allowed" is an increase within the allowance.
      key: the number's name if it is one of `NUMBERS`, the kind of the collectives, or "".
      most: the largest allowed value; None if that is not a number.
    """

    name: str
    before: str
    now: str
    difference: str
    verdict: Verdict
    key: str = ""
    most: Number | None = None


Above = float | str | Mapping[str, float | str]
"""The allowed increase over the record: a share ("5%", 0.05), an amount ("1 MiB"), or either by name of the number."""


def check_names(above: Above, ignore: Collection[str]) -> None:
    """Refuses unknown names of numbers.

    Raises:
      ParameterError: an unknown name; the message lists the known ones.
    """
    known = (*NUMBERS, *_OTHERS, "collectives", "element_types")
    names = (*([ignore] if isinstance(ignore, str) else ignore), *(above if isinstance(above, Mapping) else ()))
    if strange := [name for name in names if name not in known]:
        raise ParameterError(f"A baseline has no number {short(strange[0])}. Expected one of {', '.join(known)}.")


def changes(before: Record, now: Record, above: Above = 0, ignore: Collection[str] = ()) -> tuple[NumberChange, ...]:
    """Compares a program with a record, each number once.

    Args:
      before: the record.
      now: the record of the current program.
      above: the allowed increase.
      ignore: names of numbers that may change; "collectives" and "element_types" are names too.

    Raises:
      ParameterError: `above` is not an allowance.
    """
    all_changes = [*_numbers(before, now, above)]
    all_changes += _collectives(before, now, above)
    all_changes += _types(before, now)
    rest = [change for change in all_changes if change.key not in ignore]
    return tuple(c for c in rest if "collectives" not in ignore or " over " not in c.key)


def _numbers(before: Record, now: Record, above: Above) -> Iterator[NumberChange]:
    for key in (*NUMBERS, *_OTHERS):
        old, new = before.numbers.get(key), now.numbers.get(key)
        if old is None and new is None:
            continue
        label, form = key.replace("_", " "), functools.partial(written, key)
        if new is None:
            why = now.unknown.get(key, "the program has no such number")
            yield NumberChange(label, form(old or 0), f"unknown: {why}", "", "unknown", key)
        elif old is None:
            yield NumberChange(label, "unknown", form(new), "", "better", key)
        elif before.in_part.get(key, "") != now.in_part.get(key, ""):
            old_text, new_text = (
                f"{form(number)}, without {record.in_part[key]}" if key in record.in_part else form(number)
                for record, number in ((before, old), (now, new))
            )
            yield NumberChange(label, old_text, new_text, "", "unknown", key)
        else:
            yield _change(label, key, old, new, allowed(above, key, old))


def _change(label: str, key: str, old: Number, new: Number, most: float) -> NumberChange:
    form = functools.partial(written, key)
    off = float(new) - float(old)
    sign = "+" if off > 0 else "−"
    share = f" ({format_change(float(new), float(old))})" if old else ""
    difference = f"{sign}{form(abs(off))}{share}" if off else ""
    worse = off < 0 if key in _MORE_IS_BETTER else new > most
    better = off > 0 if key in _MORE_IS_BETTER else off < 0
    verdict: Verdict = "same" if not off else "worse" if worse else "better" if better else "allowed"
    return NumberChange(label, form(old), form(new), difference, verdict, key, most)


def _collectives(before: Record, now: Record, above: Above) -> Iterator[NumberChange]:
    for kind in sorted({*before.collectives, *now.collectives}):
        old, new = before.collectives.get(kind), now.collectives.get(kind)
        if old is None or new is None or old.count != new.count:
            counts = [0 if one is None else one.count for one in (old, new)]
            yield _change(kind, f"collectives {kind}", counts[0], counts[1], counts[0])
        elif old.runs != new.runs:
            yield _change(f"{kind}, executions", f"collectives {kind}", old.runs, new.runs, old.runs)
        else:
            most = allowed(above, "collectives", old.operand_bytes)
            yield _change(f"{kind}, bytes", f"collectives {kind} bytes", old.operand_bytes, new.operand_bytes, most)


def _types(before: Record, now: Record) -> Iterator[NumberChange]:
    old, new = set(before.element_types), set(now.element_types)
    gained, lost = sorted(new - old), sorted(old - new)
    text = " ".join([*(f"+{each}" for each in gained), *(f"−{each}" for each in lost)])
    verdict: Verdict = "worse" if gained else "better" if lost else "same"
    yield NumberChange("element types", ", ".join(sorted(old)), ", ".join(sorted(new)), text, verdict, "element_types")


def allowed(above: Above, key: str, recorded: Number) -> float:
    """Returns the largest allowed value of a number.

    Raises:
      ParameterError: `above` is not an allowance.
    """
    allowance = above.get(key, 0) if isinstance(above, Mapping) else above
    if isinstance(allowance, str) and allowance.strip().endswith("%"):
        return recorded * (1 + parse_count(allowance.strip()[:-1]) / 100)
    if isinstance(allowance, str):
        if not isinstance(above, Mapping):
            raise ParameterError(
                f"above={short(allowance)} is not a share, such as '5%' or 0.05. For an amount: above={{'peak_bytes': {short(allowance)}}}."
            )
        return recorded + (
            parse_bytes(allowance) if _is_bytes(key) else parse_count(allowance, "flop" if key == "flops" else "")
        )
    return recorded * (1 + parse_count(allowance))


def written(key: str, value: float) -> str:
    """Formats a value of a number with its unit."""
    return format_bytes(value) if _is_bytes(key) else format_count(value, "flop" if key == "flops" else "")


def _is_bytes(key: str) -> bool:
    return key.endswith(("_bytes", " bytes")) or key in ("bytes_accessed", "collectives")
