"""`Limit`: what a number may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from inspector.errors import About, AtLeast, ParameterError, Unavailable

Amount = float | str
"""A number, or a text with a unit, such as "1 GiB"."""

Value = float | Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """The least and the most that a number may be; None for no limit.

    Attributes:
      least, most: equal where only one number will do.
    """

    least: float | None
    most: float | None

    @classmethod
    def of(
        cls,
        exactly: Amount | None,
        at_most: Amount | None,
        at_least: Amount | None,
        read: Callable[[Amount], float],
    ) -> Limit:
        """From what a check is given.

        Raises:
          ParameterError: nothing; `exactly` beside others; more at least than at most; what `read` does not take.
        """
        if exactly is not None and (at_most, at_least) == (None, None):
            return cls(read(exactly), read(exactly))
        if exactly is not None or (at_most, at_least) == (None, None):
            raise ParameterError("Say what is expected: exactly=..., or at_most=..., at_least=..., or both of these.")
        least, most = (None if given is None else read(given) for given in (at_least, at_most))
        if least is not None and most is not None and least > most:
            raise ParameterError(f"No number is at least {at_least} and at most {at_most}.")
        return cls(least, most)

    def judge(self, value: Value) -> bool | Unavailable:
        """Whether a number is within, or why nobody can tell."""
        if isinstance(value, Unavailable):
            return value
        if self.most is not None and value > self.most and not isinstance(value, About):
            return False
        if isinstance(value, AtLeast):
            enough = self.most is None and self.least is not None and value >= self.least
            return enough or Unavailable(f"only a part of it is known: {value.reason}")
        if isinstance(value, About):
            return Unavailable(f"it is an estimate: {value.reason}")
        return self.least is None or value >= self.least

    def words(self, form: Callable[[float], str]) -> str:
        """Such as "at most 1 GiB"."""
        if self.least is not None and self.least == self.most:
            return f"exactly {form(self.least)}" if self.most else "none"
        ends = (("at least", self.least), ("at most", self.most))
        return ", ".join(f"{name} {form(limit)}" for name, limit in ends if limit is not None)
