"""`ProofTime`: the time limit of proofs."""

from __future__ import annotations

import math
import time
from typing import TypeVar

from inspector.compilation.engine import Job
from inspector.errors import InspectorError
from inspector.support.units import format_seconds

T = TypeVar("T")


class TimeOverError(InspectorError):
    """The time limit of the proofs was over before a job ended."""


class ProofTime:
    """The time limit of one proof or of several ones in sequence. It begins when it is created.

    Attributes:
      limit_s: the limit in seconds; None for none.
      words: the limit in words.
      waiting: number of further proofs after the running one.
    """

    def __init__(self, limit_s: float | None, words: str = "") -> None:
        """Begins the time."""
        self.limit_s, self.waiting = limit_s, 0
        self.words = words or ("no time limit" if limit_s is None else f"the time limit of {format_seconds(limit_s)}")
        self._end = math.inf if limit_s is None else time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """The seconds that are left; infinite without a limit."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True after the limit."""
        return not self.left_s

    def of_runs(self, most_s: float) -> ProofTime:
        """Returns the time for the executions of the running proof: an equal part for each one that is left.

        Args:
          most_s: the limit without a time limit, in seconds.
        """
        if self.limit_s is None:
            return ProofTime(most_s)
        part = f"its part of {self.words}" if self.waiting else self.words
        return ProofTime(self.left_s / (1 + self.waiting), part)

    def result(self, job: Job[T]) -> T:
        """Waits for the result of a job, and cancels the job at the limit.

        Raises:
          TimeOverError: the limit was over first.
          InspectorError: the error of the job.
        """
        left_s = self.left_s
        try:
            return job.result(None if math.isinf(left_s) else left_s)
        except TimeoutError:
            job.cancel()
            raise TimeOverError(f"{self.words} was over") from None
