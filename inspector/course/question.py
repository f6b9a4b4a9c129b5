"""`Question`, and `Verdict`, the reply to an answer."""

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
    """A common wrong answer.

    Attributes:
      answer: the wrong answer.
      reply: the reply to it.
    """

    answer: Any
    reply: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One question.

    Attributes:
      text: the question in one sentence, as in the notebook.
      kind: the kind of answer.
      right: computes the right answer, with JAX and the compiler if possible.
      because: the reply to the right answer.
      hint: the hint for a wrong answer that is not in `mistakes`.
      mistakes: common wrong answers.
    """

    text: str
    kind: Kind
    right: Callable[[], Any]
    because: str
    hint: str
    mistakes: Sequence[Mistake] = ()

    def verdict(self, value: object) -> Verdict:
        """Replies to an answer; `...` stands for no answer yet."""
        if value is ...:
            return Verdict(None, f"{self.text} Replace the dots with your answer and run this cell.")
        try:
            answer = self.kind.read(value)
        except Misread as misread:
            return Verdict(False, str(misread))
        right = self.key
        if self.kind.is_same(answer, right):
            return Verdict(True, self.because)
        for mistake in self.mistakes:
            if self.kind.is_same(answer, self.kind.read(mistake.answer)):
                return Verdict(False, mistake.reply)
        return Verdict(False, f"{self.kind.clue(answer, right)} {self.hint}".strip())

    @property
    def key(self) -> Any:
        """The right answer, as `kind.read` returns it."""
        return self.kind.read(_right(self))

    @property
    def answer(self) -> str:
        """The right answer as text."""
        return self.kind.shown(self.key)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The reply to an answer. `bool(verdict)` is true for a right answer only.

    Attributes:
      is_right: true for a right answer; None for no answer yet.
      reply: the explanation.
    """

    is_right: bool | None
    reply: str

    def __bool__(self) -> bool:
        return self.is_right is True

    def __repr__(self) -> str:
        heading = {True: "Right.", False: "Not yet.", None: "Your turn."}[self.is_right]
        return "\n".join(textwrap.fill(line, _WIDTH) for line in f"{heading} {self.reply}".splitlines())


@functools.lru_cache(maxsize=256)  # a drill has no last question
def _right(question: Question) -> Any:
    return question.right()
