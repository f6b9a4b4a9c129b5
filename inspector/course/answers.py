"""Answers in the forms that students write, and clues for unexpected wrong answers.

An answer is a Python value or text: numbers with or without a unit, groups in HLO notation or as lists, names in any
spelling. Sets compare as sets. Every clue is true of the answer.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from inspector.errors import InspectorError
from inspector.hlo.devices.replica_groups import ListGroups, ReplicaGroups, parse
from inspector.support.notebook import short
from inspector.support.units import counted, format_list, parse_bytes, parse_seconds

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
        """Reports whether two answers, as `read` returns them, are equivalent."""

    def clue(self, answer: Any, right: Any) -> str:
        """Returns a clue from comparing both that does not reveal the answer; "" for none."""

    def shown(self, right: Any) -> str:
        """Returns an answer, as `read` returns it, as text in the form that is asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Groups:
    """Groups of ids: nested lists, sets or arrays, or text in HLO notation such as `{{0,1},{2,3}}` or `[2,2]<=[4]`.

    Attributes:
      ordered: true if the order within a group counts; the order of the groups never does.
    """

    ordered: bool = False

    def read(self, answer: object) -> tuple[Group, ...]:
        """Implements `Kind.read`. One list of ids is one group; `{}` in text, one group of all ids, is `()`."""
        expected = "Expected groups of ids, such as [[0, 1], [2, 3]]"
        groups = _groups_of_text(answer, expected) if isinstance(answer, str) else answer
        if isinstance(groups, ReplicaGroups):
            return self._sorted(_expanded(groups, expected))
        if not _is_sequence(groups):
            raise Misread(f"{expected}; got {short(answer)}.")
        listed: list[object] = list(groups)  # type: ignore[call-overload]
        if listed and all(_number(each) is not None for each in listed):
            listed = [listed]
        if not listed or not all(map(_is_sequence, listed)):
            raise Misread(f"{expected}; got {short(answer)}.")
        if self.ordered and any(isinstance(group, set | frozenset) for group in listed):
            raise Misread(f"{expected}: the order counts, and a set has none. Write lists; got {short(answer)}.")
        return self._sorted([tuple(_integer(id_, expected) for id_ in group) for group in listed])  # type: ignore[attr-defined]

    def is_same(self, answer: Sequence[Group], right: Sequence[Group]) -> bool:
        """Implements `Kind.is_same`."""
        return self._sorted(answer or _all_of(right)) == self._sorted(right)

    def clue(self, answer: Sequence[Group], right: Sequence[Group]) -> str:
        """Implements `Kind.clue`."""
        answer = answer or _all_of(right)
        ids, there = [id_ for group in answer for id_ in group], {id_ for group in right for id_ in group}
        if strangers := sorted(set(ids) - there):
            return f"There is no id {_named(strangers)}. Ids go from 0 to {max(there)}."
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            return f"{_named(twice)} appears more than once. Each id is in exactly one group."
        if missing := sorted(there - set(ids)):
            return f"Missing: {_named(missing)}. Each id is in exactly one group."
        if len(answer) != len(right):
            return f"Expected {counted(len(right), 'group')} of {len(right[0])}; got {counted(len(answer), 'group')}."
        if sorted(map(len, answer)) != sorted(map(len, right)):
            return f"The number of groups is right, but not their sizes: all have {len(right[0])} members."
        if self.ordered and Groups().is_same(answer, right):
            return "The members are right, but their order is not."
        return "The number and size of the groups are right, but not the members."

    def shown(self, right: Sequence[Group]) -> str:
        """Implements `Kind.shown`."""
        return str([list(group) for group in right])

    def _sorted(self, groups: Iterable[Iterable[int]]) -> tuple[Group, ...]:
        return tuple(sorted(tuple(group) if self.ordered else tuple(sorted(group)) for group in groups))


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """Ids, numbers or coordinates: a list, tuple, set, array or a single number, or text such as "0, 3" or "f32[2]".

    Attributes:
      ordered: true if the order and the number of times count. Otherwise answers are sets.
      example: an example of an answer.
    """

    ordered: bool = False
    example: str = "[0, 3]"

    def read(self, answer: object) -> tuple[int, ...]:
        """Implements `Kind.read`."""
        expected = f"Expected integers, such as {self.example}"
        values = _integers_of_text(answer) if isinstance(answer, str) else answer
        if values is not None and _number(values) is not None:
            values = (values,)
        if values is None or not _is_sequence(values):
            raise Misread(f"{expected}; got {short(answer)}.")
        if self.ordered and isinstance(values, set | frozenset) and len(values) > 1:
            raise Misread(f"{expected}: the order counts, and a set has none. Write a list; got {short(answer)}.")
        ids = tuple(_integer(id_, expected) for id_ in values)  # type: ignore[attr-defined]
        return ids if self.ordered else tuple(sorted(set(ids)))

    def is_same(self, answer: Sequence[int], right: Sequence[int]) -> bool:
        """Implements `Kind.is_same`."""
        return self.read(answer) == self.read(right)

    def clue(self, answer: Sequence[int], right: Sequence[int]) -> str:
        """Implements `Kind.clue`."""
        if len(answer) != len(right):
            return f"Expected {counted(len(right), 'number')}; got {len(answer)}."
        if not self.ordered:
            return f"{len(set(answer) & set(right))} of {len(right)} are right."
        if sorted(answer) == sorted(right):
            return "The numbers are right, but their order is not."
        return f"{sum(a == b for a, b in zip(answer, right, strict=True))} of {len(right)} are right and in the right place."

    def shown(self, right: Sequence[int]) -> str:
        """Implements `Kind.shown`."""
        return str(tuple(right) if self.example.startswith("(") else list(right))


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number: of Python, NumPy or JAX, alone or in a list, or text such as "14,336", "14 KiB" or "73.4 µs".

    Attributes:
      unit: "bytes", "microseconds" or "" for a count. Counts and bytes must be exact; times may be 2 % off.
    """

    unit: str = ""

    def read(self, answer: object) -> float:
        """Implements `Kind.read`."""
        value = _only(answer)
        number = _number_of_text(value, self.unit) if isinstance(value, str) else _number(value)
        if number is None:
            raise Misread(f"Expected a number{f' of {self.unit}' if self.unit else ''}; got {short(answer)}.")
        return number

    def is_same(self, answer: float, right: float) -> bool:
        """Implements `Kind.is_same`."""
        # A quotient such as 2 / 1e-6 has a rounding error; a byte more or less is a wrong answer.
        return math.isclose(answer, right, rel_tol=1e-12 if self._is_exact else _CLOSE)

    def clue(self, answer: float, right: float) -> str:
        """Implements `Kind.clue`."""
        if answer > 0 and right > 0:
            for factor, words in _FACTORS:
                for ratio, way in ((answer / right, "large"), (right / answer, "small")):
                    if math.isclose(ratio, factor, rel_tol=1e-12 if self._is_exact else _CLOSE):
                        return f"Too {way} by a factor of {words}."
        return "Too large." if answer > right else "Too small."

    def shown(self, right: float) -> str:
        """Implements `Kind.shown`."""
        return f"{right:,.0f}" if self._is_exact else f"{right:.3g}"

    @property
    def _is_exact(self) -> bool:
        return self.unit in ("", "bytes")


_FACTORS = ((1e3, "a thousand"), (1e6, "a million"), (1024, "1,024"), (8, "eight"), (4, "four"), (2, "two"))


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One word of a list, in any spelling: "all-gather", "AllGather", "all_gather", "jax.lax.all_gather" or the function."""

    words: tuple[str, ...]

    def read(self, answer: object) -> str:
        """Implements `Kind.read`."""
        value = _only(answer)
        text = value if isinstance(value, str) else getattr(value, "__name__", None)
        spelled = _spelled(text) if isinstance(text, str) else ""
        for word in self.words:
            if spelled and spelled == _spelled(word):
                return word
        raise Misread(f"Expected one of {', '.join(map(repr, self.words))}; got {short(answer)}.")

    def is_same(self, answer: str, right: str) -> bool:
        """Implements `Kind.is_same`."""
        return answer == right

    def clue(self, answer: str, right: str) -> str:  # noqa: ARG002 - a clue would reveal the choice
        """Implements `Kind.clue`."""
        return ""

    def shown(self, right: str) -> str:
        """Implements `Kind.shown`."""
        return repr(right)


_SYNONYMS: Mapping[str, str] = {
    "psum": "allreduce", "pmean": "allreduce", "pmax": "allreduce", "pmin": "allreduce",
    "psumscatter": "reducescatter", "ppermute": "collectivepermute", "permute": "collectivepermute",
    "nothing": "none", "nocollective": "none", "nocollectives": "none",
    "axisenvironment": "axisenv", "cannottell": "canttell",
}  # fmt: skip
"""JAX's names and other words for the words of choices, without spaces and marks."""


def _spelled(text: str) -> str:
    """Returns a word without case, spaces, marks, article, module and the suffix of an asynchronous half."""
    last = text.strip().lower().rstrip(".!").rpartition(".")[2]
    letters = re.sub(r"[^a-z0-9]", "", re.sub(r"^(an?|the)\s+|[-_](start|done)$", "", last.strip()))
    return _SYNONYMS.get(letters, letters)


def _named(ids: Iterable[int]) -> str:
    return format_list([str(id_) for id_ in ids])


def _all_of(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Returns one group of all ids, HLO's `{}`."""
    return (tuple(sorted(id_ for group in groups for id_ in group)),)


def _is_sequence(value: object) -> bool:
    if isinstance(value, str | bytes | dict) or getattr(value, "shape", None) == ():
        return False
    return isinstance(value, Iterable)


def _only(value: object) -> object:
    """Returns the value in a list of one; other values as they are."""
    if _is_sequence(value):
        values = list(value)  # type: ignore[call-overload]
        return values[0] if len(values) == 1 else value
    return value


def _integer(value: object, expected: str) -> int:
    number = _number(value)
    if number is None or number != round(number):
        raise Misread(f"{expected}; one of them is {short(value)}.")
    return round(number)


def _number(value: object) -> float | None:
    """Converts a number of Python, NumPy or JAX; None for other values."""
    if isinstance(value, bool | np.bool_ | str | bytes) or _is_sequence(value):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|[\d_]+)?(\.\d*)?(e[+-]?\d+)?\s*([a-zµμ]*)", re.IGNORECASE)
_WORDS_OF_UNITS = {"byte": "bytes", "second": "s", "millisecond": "ms", "microsecond": "us", "nanosecond": "ns"}
_US = 1e-6


def _microseconds(text: str) -> float:
    return parse_seconds(text) / _US


_READERS: Mapping[str, Callable[[str], float]] = {"bytes": parse_bytes, "microseconds": _microseconds}


def _number_of_text(text: str, unit: str) -> float | None:
    """Reads a number with or without its unit; None for other text, such as a number of another unit."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction, exponent, word = (part or "" for part in match.groups())
    digits = f"{whole.replace(',', '').replace('_', '')}{fraction}{exponent}"
    word = _WORDS_OF_UNITS.get(word.lower().removesuffix("s"), word)
    try:
        number = float(digits)
        if word and unit in _READERS:
            number = _READERS[unit](f"{digits} {word}")
        elif word and any(_reads(reader, word) for reader in _READERS.values()):
            return None  # "8 bytes" is not a count
    except (InspectorError, ValueError):
        return None
    return -number if sign == "-" else number if math.isfinite(number) else None


def _reads(reader: Callable[[str], float], unit: str) -> bool:
    try:
        reader(f"1 {unit}")
    except InspectorError:
        return False
    return True


def _groups_of_text(text: str, expected: str) -> ReplicaGroups | list[list[int]]:
    """Reads groups in HLO notation or as nested lists in text; the name of the attribute may precede them."""
    bare = re.sub(r"^\s*(replica_groups|source_target_pairs)\s*=\s*", "", text).strip()
    if re.search(r"<=|mesh\[", bare):
        compact = bare if "mesh[" in bare else re.sub(r"\s", "", bare)
        try:
            return parse(compact)
        except InspectorError as e:
            raise Misread(f"{expected} or {{{{0,1}},{{2,3}}}}. {e}") from None
    commas = re.sub(r"(?<=\d)\s+(?=\d)", ",", bare)  # NumPy prints none
    braces = re.sub(r"\s+", "", commas.translate(str.maketrans("[](){}", "{}{}{}")).replace("},{", "}{")).replace(
        "}{", "},{"
    )
    if re.fullmatch(r"\{?(\{\d+(,\d+)*,?\},?)+\}?|\{\}|\{?\d+(,\d+)*\}?", braces):
        if braces == "{}":
            return parse("{}")
        inner = re.findall(r"\{(\d+(?:,\d+)*),?\}", braces) or [braces.strip("{}")]
        return [[int(id_) for id_ in group.split(",")] for group in inner]
    raise Misread(f"{expected} or {{{{0,1}},{{2,3}}}}; got {short(text)}.")


def _expanded(groups: ReplicaGroups, expected: str) -> list[list[int]]:
    """Returns the ids of each group; [] for `{}`, whose ids depend on the program."""
    if groups == ListGroups(()):
        return []
    try:
        return [[int(id_) for id_ in group if id_ >= 0] for group in groups.expand()]
    except InspectorError as e:
        raise Misread(f"{expected}. {e}") from None


def _integers_of_text(text: str) -> list[int] | None:
    """Reads integers between commas, spaces or "and", in any brackets or as the dimensions of a shape such as "f32[2,4]"."""
    if not text.strip():
        return None
    bare = re.sub(r"\{[\d,]*\}$", "", text.strip()) if re.match(r"[a-z]+\d*\[", text.strip()) else text
    inner = re.sub(r"^\s*[a-z]+\d*(?=\[)", "", bare).strip().strip("[](){}").strip()
    parts = re.split(r"\s*,\s*and\s+|\s*[,;]\s*|\s+and\s+|\s+", inner.rstrip(", ")) if inner else []
    return [int(part) for part in parts] if all(re.fullmatch(r"-?\d+", part) for part in parts) else None
