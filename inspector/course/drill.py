"""`inspector.drill`: exercises without end on one subject, which become harder."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterator, Mapping

from inspector.course.drills.axis_environments import groups, order
from inspector.course.drills.shardings import collectives, shard_bytes
from inspector.course.drills.times import time
from inspector.course.drills.written_groups import group_modes, iota
from inspector.course.question import Question, Verdict
from inspector.errors import ParameterError
from inspector.support.notebook import short
from inspector.support.units import format_list

_MAKERS: Mapping[str, Callable[[random.Random, int], Question]] = {
    "groups": groups,
    "order": order,
    "iota": iota,
    "group_modes": group_modes,
    "collectives": collectives,
    "bytes": shard_bytes,
    "time": time,
}
KINDS = tuple(_MAKERS)
_AT_ONE_LEVEL = 3
_HIGHEST_LEVEL = 6
_MOST_SEEDS = 1 << 32
_WIDTH = 100


class Drill:
    """Exercises without end on one subject. Three exercises are at each level, then the level rises.

    Attributes:
      kind: the subject.
      seed: the seed; drills with the same kind and seed have the same exercises.
      number: number of the current exercise, from 1.
      tries: number of answers so far.
      right: number of right answers so far.
    """

    def __init__(self, kind: str, seed: int) -> None:
        """Starts at exercise 1."""
        self.kind = kind
        self.seed = seed
        self.number = 1
        self.tries = 0
        self.right = 0
        self._current = self.exercise(1)

    def __repr__(self) -> str:
        state = f"{self.kind} {self.number}, level {level_of(self.number)} (seed {self.seed}): {self._current.text}"
        return f"{textwrap.fill(state, _WIDTH)}\n  Try .check(answer), .skip()"

    def __iter__(self) -> Iterator[Question]:
        """Yields all exercises from the first on, without end."""
        number = 1
        while True:
            yield self.exercise(number)
            number += 1

    def exercise(self, number: int) -> Question:
        """Returns an exercise by its number, from 1.

        Raises:
          ParameterError: not a number from 1 on.
        """
        if not _is_integer(number) or number < 1:
            raise ParameterError(f"Got the exercise {short(number)}; expected a number from 1 on.")
        return _MAKERS[self.kind](random.Random(f"{self.kind} {self.seed} {number}"), level_of(number))

    def check(self, answer: object = ...) -> Verdict:
        """Checks an answer to the current exercise; after a right answer, the next exercise follows.

        Args:
          answer: as for `inspector.check`; `...` shows the question.
        """
        verdict = self._current.verdict(answer)
        if verdict.is_right is None:
            return verdict
        self.tries += 1
        if not verdict:
            return verdict
        self.right += 1
        return self._next(True, verdict.reply)

    def skip(self) -> Verdict:
        """Returns the answer to the current exercise with its reason, and goes on to the next one."""
        return self._next(
            None, f"The answer to exercise {self.number} is {self._current.answer}. {self._current.because}"
        )

    def _next(self, is_right: bool | None, reply: str) -> Verdict:
        self.number += 1
        self._current = self.exercise(self.number)
        return Verdict(is_right, f"{reply}\nNext, level {level_of(self.number)}: {self._current.text}")


def level_of(number: int) -> int:
    """Returns the level of an exercise, from 1."""
    return min(1 + (number - 1) // _AT_ONE_LEVEL, _HIGHEST_LEVEL)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def drill(kind: str, seed: int | None = None) -> Drill:
    """Returns exercises without end on one subject, which become harder. JAX and XLA work out the answers.

    Args:
      kind: "groups" (of a sum over axes), "order" (of the members of an all-gather), "iota" (groups in HLO's short notation),
        "group_modes" (devices of a program with replicas and partitions), "collectives" (of a product of sharded matrices),
        "bytes" or "time".
      seed: an integer for the same exercises again; a random one by default.

    Returns:
      A `Drill`, which notebooks display with its current question: `check(answer)` checks an answer and goes on after a
      right one, `skip()` shows the answer.

    Raises:
      ParameterError: no such kind, or the seed is not an integer.
    """
    if kind not in _MAKERS:
        raise ParameterError(
            f"Unknown kind {short(kind)}. Expected one of {format_list([repr(each) for each in KINDS])}."
        )
    if seed is not None and not _is_integer(seed):
        raise ParameterError(f"Got the seed {short(seed)}; expected an integer, or None for a random one.")
    return Drill(kind, random.SystemRandom().randrange(_MOST_SEEDS) if seed is None else seed)
