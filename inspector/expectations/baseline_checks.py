"""Checks of a program against its record in a baseline file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from inspector.errors import Unavailable
from inspector.expectations import baseline, collective_checks, number_checks
from inspector.expectations.baseline import Found, Key
from inspector.expectations.baseline_context import BaselineComparison
from inspector.expectations.baseline_record import Above, NumberChange, Record, changes, check_names, kind_of, written
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.expectations.limits import Limit
from inspector.expectations.message import short
from inspector.stages.compiled import Compiled

_UPDATE = "record it with `pytest --inspector-update` (or `inspector expect --update`) and review the file"
_COLUMNS = ("", "recorded", "current", "difference")
_MEMORY = ("temp_bytes", "peak_bytes")


def check(
    compiled: Compiled, path: Path, name: str, above: Above, ignore: Collection[str], *, is_written: bool
) -> tuple[list[CheckResult], BaselineComparison]:
    """Compares a program with its record, or writes the record.

    Returns:
      The results, the first of which is a summary; and the comparison.

    Raises:
      ModuleError: the file is not a baseline.
      ParameterError: an unknown number in `above` or `ignore`.
      OSError: the file cannot be written.
    """
    check_names(above, ignore)
    key, now = Key.of(compiled), Record.of(compiled)
    match = baseline.find(path, name, key)
    what = f"baseline {name!r} in {short(str(path))}"
    changed = () if isinstance(match, Unavailable) else changes(match.record, now, above, ignore)
    by = "" if isinstance(match, Unavailable) else match.compiler
    compared = BaselineComparison(name, key.target, key.compiler, by, changed, is_new=is_written)
    if is_written:
        baseline.write(path, name, key, now)
        return [CheckResult(what, "a new record", "recorded", is_met=True)], compared
    if isinstance(match, Unavailable):
        return [CheckResult(what, "a record", f"none: {match.reason}", is_met=False, advice=_UPDATE)], compared
    whole = _whole(what, key, match, changed)
    return [whole, *([] if whole.is_met else _details(compiled, match.record, changed))], compared


def _whole(what: str, key: Key, match: Found, changed: Sequence[NumberChange]) -> CheckResult:
    different = [change for change in changed if change.verdict != "same"]
    worse = [change for change in different if change.verdict == "worse"]
    unknown = [change for change in different if change.verdict == "unknown"]
    by = "" if match.compiler == key.compiler else f" with {match.compiler}"
    lines = tuple(
        TableLine((c.name, c.before, c.now, c.difference or c.verdict), is_against=c in (*worse, *unknown))
        for c in different
    )
    parts = [f"{len(worse)} worse" if worse else "", f"{len(unknown)} that cannot be compared" if unknown else ""]
    got = ", ".join(filter(None, parts)) or "the same" + (", or better" if lines else "")
    other = f"{key.compiler} can have its own record: " if by else "If this is intended: "
    return CheckResult(
        what, f"no worse than recorded{by}", got, not worse and not unknown, _COLUMNS, lines,
        advice="" if not worse and not unknown else f"{other}{_UPDATE}",
    )  # fmt: skip


def _details(compiled: Compiled, record: Record, changed: Sequence[NumberChange]) -> Iterator[CheckResult]:
    """Explains worse numbers by collectives and memory; otherwise by the first number that has contributions to show."""
    worse = [change for change in changed if change.verdict == "worse"]
    collectives = compiled.collectives().items
    kinds = {kind for c in worse if (kind := c.key.removeprefix("collectives ").removesuffix(" bytes")) != c.key}
    against = [one for one in collectives if kind_of(one) in kinds]
    if against:
        yield collective_checks.show(
            collectives, kinds, sum(e.count for kind, e in record.collectives.items() if kind in kinds)
        )
    memory = [change for change in worse if change.key in _MEMORY]
    others = [change for change in worse if change.key in record.numbers and change.key not in _MEMORY]
    yield from _contributions(compiled, memory)
    if not against and not memory:
        yield from _contributions(compiled, others)


def _contributions(compiled: Compiled, changed: Sequence[NumberChange]) -> Iterator[CheckResult]:
    """Shows the contributions to the first of some numbers that has any."""
    for change in changed:
        columns, lines = number_checks.evidence(compiled, change.key)
        if lines and change.most is not None:
            most = Limit(None, change.most).words(lambda limit, key=change.key: written(key, limit))  # type: ignore[misc]
            yield CheckResult(change.name, most, change.now, is_met=False, columns=columns, lines=lines)
            return
