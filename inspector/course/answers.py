"""How answers are read, and what can be said of a wrong one that nobody expected."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from inspector.support.units import format_list

Group: TypeAlias = tuple[int, ...]

_CLOSE = 0.02


class Misread(Exception):
    """What was given is no answer of that kind; the text says what is."""


class Kind(Protocol):
    """A kind of answer."""

    def read(self, given: object) -> Any:
        """An answer as it is compared.

        Raises:
          Misread: it is of another kind.
        """

    def is_same(self, given: Any, right: Any) -> bool:
        """Whether two say the same."""

    def clue(self, given: Any, right: Any) -> str:
        """What a look at both shows without giving it away, "" when nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Groups:
    """Groups of ids.

    Attributes:
      ordered: whether the order within a group is asked for; that of the groups never is.
    """

    ordered: bool = False

    def read(self, given: object) -> tuple[Group, ...]:
        """As `Kind.read`."""
        expected = "Expected groups of ids, such as [[0, 1], [2, 3]]"
        if not _is_sequence(given) or not all(map(_is_sequence, given)):  # type: ignore[call-overload]
            raise Misread(f"{expected}; got {_shown(given)}.")
        groups = [tuple(_integer(id_, expected) for id_ in group) for group in given]  # type: ignore[attr-defined]
        return tuple(sorted(group if self.ordered else tuple(sorted(group)) for group in groups))

    def is_same(self, given: Sequence[Group], right: Sequence[Group]) -> bool:
        """As `Kind.is_same`."""
        return self.read(given) == self.read(right)

    def clue(self, given: Sequence[Group], right: Sequence[Group]) -> str:
        """As `Kind.clue`."""
        ids, there = [id_ for group in given for id_ in group], {id_ for group in right for id_ in group}
        if strangers := sorted(set(ids) - there):
            return f"No such id: {_named(strangers)}. They go from 0 to {max(there)}."
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            return f"More than once: {_named(twice)}. Everyone is in one group, once."
        if missing := sorted(there - set(ids)):
            return f"In no group: {_named(missing)}. Everyone is in one."
        if sorted(map(len, given)) != sorted(map(len, right)):
            return f"There are {len(right)} groups of {len(right[0])}; got {len(given)}."
        if self.ordered and Groups().is_same(given, right):
            return "The same members, in another order than they are written in."
        return "As many groups of the right size, with other members."


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """Ids, numbers or coordinates.

    Attributes:
      ordered: whether their order is asked for.
      example: of an answer.
    """

    ordered: bool = False
    example: str = "[0, 3]"

    def read(self, given: object) -> tuple[int, ...]:
        """As `Kind.read`."""
        expected = f"Expected integers, such as {self.example}"
        if not _is_sequence(given):
            raise Misread(f"{expected}; got {_shown(given)}.")
        ids = tuple(_integer(id_, expected) for id_ in given)  # type: ignore[attr-defined]
        return ids if self.ordered else tuple(sorted(ids))

    def is_same(self, given: Sequence[int], right: Sequence[int]) -> bool:
        """As `Kind.is_same`."""
        return self.read(given) == self.read(right)

    def clue(self, given: Sequence[int], right: Sequence[int]) -> str:
        """As `Kind.clue`."""
        if len(given) != len(right):
            return f"There are {len(right)}; got {len(given)}."
        if sorted(given) == sorted(right):
            return "The right ones, in another order."
        return f"{sum(a == b for a, b in zip(given, right, strict=True))} of {len(right)} are right where they stand."


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number.

    Attributes:
      unit: in words, "" for a count, which must be exact; others may be 2 % off.
    """

    unit: str = ""

    def read(self, given: object) -> float:
        """As `Kind.read`."""
        number = _number(given)
        if number is None:
            raise Misread(f"Expected a number{f' of {self.unit}' if self.unit else ''}; got {_shown(given)}.")
        return number

    def is_same(self, given: float, right: float) -> bool:
        """As `Kind.is_same`."""
        return math.isclose(given, right, rel_tol=_CLOSE if self.unit and self.unit != "bytes" else 0.0)

    def clue(self, given: float, right: float) -> str:
        """As `Kind.clue`."""
        if given > 0 and right > 0:
            for factor, words in ((1e3, "a thousand"), (1e6, "a million"), (8, "eight"), (4, "four"), (2, "two")):
                for ratio, way in ((given / right, "large"), (right / given, "small")):
                    if math.isclose(ratio, factor, rel_tol=_CLOSE):
                        return f"Too {way} by a factor of {words}."
        return "Too large." if given > right else "Too small."


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def read(self, given: object) -> str:
        """As `Kind.read`."""
        text = given.strip().lower().replace("_", "-") if isinstance(given, str) else given
        for word in self.words:
            if text == word.lower().replace("_", "-"):
                return word
        raise Misread(f"Expected one of {', '.join(map(repr, self.words))}; got {_shown(given)}.")

    def is_same(self, given: str, right: str) -> bool:
        """As `Kind.is_same`."""
        return given == right

    def clue(self, given: str, right: str) -> str:  # noqa: ARG002 - a choice gives nothing away
        """As `Kind.clue`."""
        return ""


def _named(ids: Iterable[int]) -> str:
    return format_list([str(id_) for id_ in ids])


def _is_sequence(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | dict)


def _integer(given: object, expected: str) -> int:
    number = _number(given)
    if number is None or number != round(number):
        raise Misread(f"{expected}; got {_shown(given)} among them.")
    return round(number)


def _number(given: object) -> float | None:
    """Of Python, NumPy or JAX; None for what is none."""
    if isinstance(given, bool | str | bytes):
        return None
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
