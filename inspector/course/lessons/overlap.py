"""Lesson 6: overlap and asynchronous collectives."""

from inspector.course.answers import Choice, Number
from inspector.course.question import Mistake, Question

_TAKES, _BETWEEN = (12.0, 5.0), (9.0, 8.0)
"""Microseconds of two collectives, and of the kernels between their `-start` and `-done`."""


def _exposed() -> float:
    return sum(max(0.0, takes - hidden) for takes, hidden in zip(_TAKES, _BETWEEN, strict=True))


QUESTIONS = (
    Question(
        "An all-gather takes 12 µs, and the kernels between its -start and its -done take 9 µs. Another takes 5 µs, with 8 µs of kernels."
        " How many microseconds of communication are exposed?",
        Number("microseconds"),
        _exposed,
        "3 µs of the first. The second is completely hidden, and its spare 3 µs do not help the first.",
        "For each exchange: how much of it remains when its kernels are done?",
        (
            Mistake(17.0, "That is all communication. The part that overlaps with kernels is hidden."),
            Mistake(
                0.0,
                "There are 17 µs of kernels for 17 µs of exchanges, but the kernels of the second exchange do not hide the first.",
            ),
            Mistake(
                17.0 - 8.0 - 5.0,
                "Each exchange is hidden only by the kernels between its own start and done: 9 µs and 8 µs.",
            ),
            Mistake(
                3.0 + 8.0 - 5.0,
                "If kernels take longer than the exchange, nothing is exposed. The spare 3 µs are not communication.",
            ),
        ),
    ),
    Question(
        "In a schedule, an all-gather-start is right before its all-gather-done. Is the exchange hidden or exposed, or can't you tell?",
        Choice(("hidden", "exposed", "can't tell")),
        lambda: "exposed",
        "Nothing runs between the two, so the device waits: an asynchronous form with synchronous behavior.",
        "What could run while the data is in transit?",
        (
            Mistake("hidden", "A pair only allows other work in between. Without any, the device waits at -done."),
            Mistake(
                "can't tell", "You can't tell how long it takes, but the order shows that nothing else runs meanwhile."
            ),
        ),
    ),
)
