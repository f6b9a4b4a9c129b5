"""`Question`, and `Verdict`: what is said of an answer."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from inspector.course.answers import Kind, Misread

_WIDTH = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """A usual wrong answer.

    Attributes:
      answer: what is given then.
      reply: what is said of it.
    """

    answer: Any
    reply: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One question.

    Attributes:
      asked: in one sentence, as the notebook has it.
      kind: of answer.
      right: works it out, of JAX and the compiler where they know it.
      because: what is said of the right answer.
      hint: what to look at, when a wrong one is none of `mistakes`.
      mistakes: of them; none is right.
    """

    asked: str
    kind: Kind
    right: Callable[[], Any]
    because: str
    hint: str
    mistakes: Sequence[Mistake] = ()

    def verdict(self, given: object) -> Verdict:
        """What is said of an answer; `...` is none yet."""
        if given is ...:
            return Verdict(None, f"{self.asked} Write your answer in place of the dots, then run this cell.")
        try:
            answer = self.kind.read(given)
        except Misread as misread:
            return Verdict(False, str(misread))
        right = self.kind.read(_right(self))
        if self.kind.is_same(answer, right):
            return Verdict(True, self.because)
        for mistake in self.mistakes:
            if self.kind.is_same(answer, self.kind.read(mistake.answer)):
                return Verdict(False, mistake.reply)
        return Verdict(False, f"{self.kind.clue(answer, right)} {self.hint}".strip())


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What is said of an answer.

    Attributes:
      is_right: None where none was given yet.
      reply: in words.
    """

    is_right: bool | None
    reply: str

    def __repr__(self) -> str:
        said = {True: "Right.", False: "Not yet.", None: "Your turn."}[self.is_right]
        return textwrap.fill(f"{said} {self.reply}", _WIDTH)


@functools.cache
def _right(question: Question) -> Any:
    return question.right()
