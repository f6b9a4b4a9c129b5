"""Two parallel tests of twelve questions each, to compare a class before and after the course."""

from __future__ import annotations

from inspector.course.drill import drill
from inspector.course.question import Question

EXERCISES = (  # kind, number of the exercise
    ("groups", 2), ("groups", 8),
    ("order", 2), ("iota", 5), ("iota", 8), ("group_modes", 8),
    ("bytes", 5), ("bytes", 10), ("time", 2), ("time", 8),
    ("collectives", 2), ("collectives", 5),
)  # fmt: skip
_SEEDS = {"before": 2026, "after": 2027}
FORMS = tuple(_SEEDS)


def questions_of(form: str) -> list[Question]:
    """Returns the twelve questions of a form. Both forms have the same kinds and levels.

    Args:
      form: "before" or "after".
    """
    return [drill(kind, seed=_SEEDS[form]).exercise(number) for kind, number in EXERCISES]


def as_markdown(form: str, *, with_key: bool) -> str:
    """Returns a test as Markdown, with the answers and their reasons at the end if wanted."""
    asked = questions_of(form)
    lines = [f"# Test {form} the course", "", "Twelve questions, one point each. No notes and no computer.", ""]
    lines += [f"{number}. {question.text}\n" for number, question in enumerate(asked, 1)]
    if with_key:
        lines += ["## Key", ""]
        lines += [f"{number}. `{question.answer}`: {question.because}" for number, question in enumerate(asked, 1)]
    return "\n".join(lines).rstrip() + "\n"
