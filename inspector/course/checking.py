"""`inspector.check`: checks an answer to a question of the course, and explains what is wrong with it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from inspector.course.question import Question, Verdict
from inspector.errors import ParameterError
from inspector.support.units import format_list

LESSONS = ("stages", "axes", "replica_groups", "collectives", "four_ways", "training", "overlap", "reading", "sharding")


def check(number: str, answer: object) -> Verdict:
    """Checks an answer to a question of the course (`notebooks/course/`), and explains what is wrong with it.

    Args:
      number: lesson and question, such as "2.1".
      answer: groups as lists of ids or in HLO notation such as "{{0,1},{2,3}}" or "[2,2]<=[4]", ids as a list or a set, a number
        with or without a unit such as "14 KiB", or a word in any spelling; `...` for no answer yet.

    Returns:
      A `Verdict`, which notebooks display: `is_right` (None for no answer yet) and `reply`. `bool(verdict)` is true for a
      right answer only.

    Raises:
      ParameterError: there is no such question.
    """
    lesson, _, _ = str(number).partition(".")
    place = int(lesson) if lesson.isascii() and lesson.isdigit() and len(lesson) < 3 else len(LESSONS)
    known = questions(place) if place < len(LESSONS) else {}
    if str(number) not in known:
        last = len(LESSONS) - 1
        there = list(known) or [f"0.1 to {last}.{len(questions(last))}"]
        raise ParameterError(f"Unknown question {number!r}. Expected one of {format_list(there)}.")
    return known[str(number)].verdict(answer)


@functools.cache
def questions(lesson: int) -> Mapping[str, Question]:
    """Returns the questions of a lesson by number. Lessons are counted from 0."""
    module = importlib.import_module(f"inspector.course.lessons.{LESSONS[lesson]}")
    return {f"{lesson}.{index}": question for index, question in enumerate(module.QUESTIONS, 1)}
