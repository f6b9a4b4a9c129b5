"""Divides the operations of a program into parts that users know: by scope or by line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence

from inspector._jax.modules.slicing import SlicedOperation
from inspector.analysis.cost.scopes import scope_of
from inspector.hlo.source import Frame, own_line

_MOST_PARTS = 12
_NEIGHBORS = 4
_NUMBER = re.compile(r"\d+")


@dataclasses.dataclass(frozen=True, slots=True)
class Division:
    """A part of a program.

    Attributes:
      name: its scope, line or operations in words.
      members: positions of its operations.
      is_rest: whether it collects the smallest parts, which are divided again.
    """

    name: str
    members: tuple[int, ...]
    is_rest: bool = False


def divisions(operations: Sequence[SlicedOperation], members: Collection[int]) -> list[list[Division]]:
    """Returns the ways to divide some operations into at least two parts, the best first. The largest part comes first.

    Numbered scopes, such as `layer_0` and `layer_1`, are one part; where nothing else divides it, they are divided if their
    operations differ. Neighboring operations are parts if no scope or line is known.

    Args:
      operations: the operations of a program.
      members: positions of the operations to divide.
    """
    chosen = sorted(members)
    if len(chosen) < 2:
        return []
    paths = {at: _path(operations[at]) for at in chosen}
    merged = {at: tuple(_NUMBER.sub("*", name) for name in paths[at]) for at in chosen}
    common = _common([merged[at] for at in chosen])
    first = _common([paths[at] for at in chosen])  # the scope whose number differs

    def shown(length: int, at: int) -> str:
        """Returns the first names of an operation's scope, with their numbers if all operations of the scope have the same."""
        star = merged[at][:length]
        alike = {paths[each][:length] for each in chosen if merged[each][:length] == star}
        return "/".join(
            names[0] if len({*names}) == 1 else name for name, names in zip(star, zip(*alike, strict=True), strict=True)
        )

    def scope(at: int) -> str:
        if operations[at].is_loop:
            return f"loop at {line_of(operations[at]) or f'operation {at:,}'}"
        if len(merged[at]) > common:
            return shown(common + 1, at)
        return f"other operations of {shown(len(merged[at]), at)}" if merged[at] else "other operations"

    def numbered(at: int) -> str:
        return "/".join(paths[at][: first + 1])

    def line(at: int) -> str:
        return line_of(operations[at])

    ways = [_grouped(chosen, by) for by in (scope, line)]
    by_number = _grouped(chosen, numbered) if first < common else []  # only the number of the scope differs
    if _differ([[operations[at].name for at in each.members] for each in by_number]):
        ways.append(by_number)
    if not any(map(line, chosen)) and not any(paths.values()):
        ways.append(_neighbors(operations, chosen))
    return [way for way in ways if len(way) > 1]


def line_of(operation: SlicedOperation) -> str:
    """Returns the user's line of an operation, such as `model.py:12`; "" if unknown."""
    return own_line(frames_of(operation))


def frames_of(operation: SlicedOperation) -> tuple[Frame, ...]:
    """Returns the Python frames of an operation, innermost first."""
    return tuple(Frame(file, line) for file, line in operation.places)


def _path(operation: SlicedOperation) -> tuple[str, ...]:
    return scope_of(operation.op_name).path if "/" in operation.op_name else ()


def _common(paths: Sequence[tuple[str, ...]]) -> int:
    """Returns the length of the longest common beginning."""
    first, last = min(paths), max(paths)
    return next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _grouped(members: Sequence[int], key: Callable[[int], str]) -> list[Division]:
    groups: dict[str, list[int]] = {}
    for at in members:
        groups.setdefault(key(at), []).append(at)
    parts = sorted(
        (Division(name or "operations without a line", tuple(each)) for name, each in groups.items()),
        key=lambda each: -len(each.members),
    )
    if len(parts) <= _MOST_PARTS:
        return parts
    kept, rest = parts[: _MOST_PARTS - 1], parts[_MOST_PARTS - 1 :]
    others = tuple(sorted(at for each in rest for at in each.members))
    return [*kept, Division(f"{len(rest):,} smaller parts", others, is_rest=True)]


def _neighbors(operations: Sequence[SlicedOperation], members: Sequence[int]) -> list[Division]:
    count = min(_NEIGHBORS, len(members))
    size = -(-len(members) // max(count, 1))
    runs = [members[start : start + size] for start in range(0, len(members), size)]
    return [Division(_run(operations, each), tuple(each)) for each in runs]


def _differ(groups: Sequence[Sequence[str]]) -> bool:
    return any(each != groups[0] for each in groups)


def _run(operations: Sequence[SlicedOperation], members: Sequence[int]) -> str:
    first, last = (operations[at].name.rpartition(".")[2] for at in (members[0], members[-1]))
    line = line_of(operations[members[0]])
    what = first if len(members) == 1 else f"{len(members):,} operations from {first} to {last}"
    return f"{what} at {line}" if line else what
