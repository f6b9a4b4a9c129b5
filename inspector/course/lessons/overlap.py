"""Lesson 6: overlap and asynchronous collectives."""

from inspector.course.answers import Choice, Number
from inspector.course.question import Mistake, Question

_TAKES, _BETWEEN = (12.0, 5.0), (9.0, 8.0)
"""Microseconds of two collectives, and of the kernels between the start and the done of each."""


def _exposed() -> float:
    return sum(max(0.0, takes - hidden) for takes, hidden in zip(_TAKES, _BETWEEN, strict=True))


QUESTIONS = (
    Question(
        "An all-gather takes 12 µs, kernels between its -start and its -done 9 µs; another takes 5 µs with 8 µs between. How"
        " many microseconds of communication are exposed?",
        Number("microseconds"),
        _exposed,
        "3 of the first; the second is hidden whole, and what is left over there helps nobody.",
        "Of each: what is left of the exchange when the kernels between are done?",
        (
            Mistake(17.0, "That is all communication. What runs beside kernels is hidden."),
            Mistake(
                0.0, "17 µs of kernels for 17 µs of exchanges: but those between the second pair do not help the first."
            ),
            Mistake(
                17.0 - 8.0 - 5.0,
                "Each exchange is hidden by the kernels between its own start and done: 9 µs and 8 µs.",
            ),
            Mistake(
                3.0 + 8.0 - 5.0,
                "Where kernels take longer than the exchange, nothing is exposed; it is not 3 µs of the other kind.",
            ),
        ),
    ),
    Question(
        "In a schedule, an all-gather-start stands right before its all-gather-done. Is the exchange hidden, exposed, or can't one tell?",
        Choice(("hidden", "exposed", "can't tell")),
        lambda: "exposed",
        "Nothing runs between the two, so the device waits: written asynchronously, done synchronously.",
        "What could run while the bytes travel?",
        (
            Mistake("hidden", "A pair only makes room for other work. With none between, the device waits at -done."),
            Mistake("can't tell", "How long it takes one can't tell; that nothing runs meanwhile, the order says."),
        ),
    ),
)
