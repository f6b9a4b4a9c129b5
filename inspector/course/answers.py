"""Parsing of answers, and clues for unexpected wrong answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from inspector.support.notebook import short
from inspector.support.units import format_list

Group: TypeAlias = tuple[int, ...]

_CLOSE = 0.02


class Misread(Exception):
    """The value is not an answer of this kind; the text describes the expected kind."""


class Kind(Protocol):
    """A kind of answer."""

    def read(self, answer: object) -> Any:
        """Converts an answer to the form that is compared.

        Raises:
          Misread: the answer is of another kind.
        """

    def is_same(self, answer: Any, right: Any) -> bool:
        """Reports whether two answers are equivalent."""

    def clue(self, answer: Any, right: Any) -> str:
        """Returns a clue from comparing both that does not reveal the answer; "" for none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Groups:
    """Groups of ids.

    Attributes:
      ordered: true if the order within a group counts; the order of the groups never does.
    """

    ordered: bool = False

    def read(self, answer: object) -> tuple[Group, ...]:
        """Implements `Kind.read`."""
        expected = "Expected groups of ids, such as [[0, 1], [2, 3]]"
        if not _is_sequence(answer) or not all(map(_is_sequence, answer)):  # type: ignore[call-overload]
            raise Misread(f"{expected}; got {short(answer)}.")
        groups = [tuple(_integer(id_, expected) for id_ in group) for group in answer]  # type: ignore[attr-defined]
        return tuple(sorted(group if self.ordered else tuple(sorted(group)) for group in groups))

    def is_same(self, answer: Sequence[Group], right: Sequence[Group]) -> bool:
        """Implements `Kind.is_same`."""
        return self.read(answer) == self.read(right)

    def clue(self, answer: Sequence[Group], right: Sequence[Group]) -> str:
        """Implements `Kind.clue`."""
        ids, there = [id_ for group in answer for id_ in group], {id_ for group in right for id_ in group}
        if strangers := sorted(set(ids) - there):
            return f"There is no id {_named(strangers)}. Ids go from 0 to {max(there)}."
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            return f"{_named(twice)} appears more than once. Each id is in exactly one group."
        if missing := sorted(there - set(ids)):
            return f"Missing: {_named(missing)}. Each id is in exactly one group."
        if sorted(map(len, answer)) != sorted(map(len, right)):
            return f"Expected {len(right)} groups of {len(right[0])}; got {len(answer)} groups."
        if self.ordered and Groups().is_same(answer, right):
            return "The members are right, but their order is not."
        return "The number and size of the groups are right, but not the members."


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """Ids, numbers or coordinates.

    Attributes:
      ordered: true if the order counts.
      example: an example of an answer.
    """

    ordered: bool = False
    example: str = "[0, 3]"

    def read(self, answer: object) -> tuple[int, ...]:
        """Implements `Kind.read`."""
        expected = f"Expected integers, such as {self.example}"
        if not _is_sequence(answer):
            raise Misread(f"{expected}; got {short(answer)}.")
        ids = tuple(_integer(id_, expected) for id_ in answer)  # type: ignore[attr-defined]
        return ids if self.ordered else tuple(sorted(ids))

    def is_same(self, answer: Sequence[int], right: Sequence[int]) -> bool:
        """Implements `Kind.is_same`."""
        return self.read(answer) == self.read(right)

    def clue(self, answer: Sequence[int], right: Sequence[int]) -> str:
        """Implements `Kind.clue`."""
        if len(answer) != len(right):
            return f"Expected {len(right)} numbers; got {len(answer)}."
        if sorted(answer) == sorted(right):
            return "The numbers are right, but their order is not."
        return f"{sum(a == b for a, b in zip(answer, right, strict=True))} of {len(right)} are right and in the right place."


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number.

    Attributes:
      unit: the unit as text; "" for a count. Counts and bytes must be exact; other numbers may be 2 % off.
    """

    unit: str = ""

    def read(self, answer: object) -> float:
        """Implements `Kind.read`."""
        number = _number(answer)
        if number is None:
            raise Misread(f"Expected a number{f' of {self.unit}' if self.unit else ''}; got {short(answer)}.")
        return number

    def is_same(self, answer: float, right: float) -> bool:
        """Implements `Kind.is_same`."""
        return math.isclose(answer, right, rel_tol=_CLOSE if self.unit and self.unit != "bytes" else 0.0)

    def clue(self, answer: float, right: float) -> str:
        """Implements `Kind.clue`."""
        if answer > 0 and right > 0:
            for factor, words in ((1e3, "a thousand"), (1e6, "a million"), (8, "eight"), (4, "four"), (2, "two")):
                for ratio, way in ((answer / right, "large"), (right / answer, "small")):
                    if math.isclose(ratio, factor, rel_tol=_CLOSE):
                        return f"Too {way} by a factor of {words}."
        return "Too large." if answer > right else "Too small."


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One word of a list."""

    words: tuple[str, ...]

    def read(self, answer: object) -> str:
        """Implements `Kind.read`."""
        text = answer.strip().lower().replace("_", "-") if isinstance(answer, str) else answer
        for word in self.words:
            if text == word.lower().replace("_", "-"):
                return word
        raise Misread(f"Expected one of {', '.join(map(repr, self.words))}; got {short(answer)}.")

    def is_same(self, answer: str, right: str) -> bool:
        """Implements `Kind.is_same`."""
        return answer == right

    def clue(self, answer: str, right: str) -> str:  # noqa: ARG002 - a clue would reveal the choice
        """Implements `Kind.clue`."""
        return ""


def _named(ids: Iterable[int]) -> str:
    return format_list([str(id_) for id_ in ids])


def _is_sequence(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)


def _integer(value: object, expected: str) -> int:
    number = _number(value)
    if number is None or number != round(number):
        raise Misread(f"{expected}; one of them is {short(value)}.")
    return round(number)


def _number(value: object) -> float | None:
    """Converts a number of Python, NumPy or JAX; None for other values."""
    if isinstance(value, bool | str | bytes):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
