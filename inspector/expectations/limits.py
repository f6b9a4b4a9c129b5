"""`Limit`: the range that a number must be in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from inspector.errors import About, AtLeast, ParameterError, Unavailable

Amount = float | str
"""A number, or a text with a unit, such as "1 GiB"."""

Value = float | Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A lower and an upper bound; None for no bound.

    Attributes:
      least, most: the bounds, equal for one exact number.
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
        """Creates a limit from the arguments of a check.

        Raises:
          ParameterError: no argument; `exactly` together with others; a lower bound above the upper one; a value that
            `read` rejects.
        """
        if exactly is not None and (at_most, at_least) == (None, None):
            return cls(read(exactly), read(exactly))
        if exactly is not None or (at_most, at_least) == (None, None):
            raise ParameterError("Give a limit: exactly=..., or at_most=... or at_least=..., or both of these.")
        least, most = (None if amount is None else read(amount) for amount in (at_least, at_most))
        if least is not None and most is not None and least > most:
            raise ParameterError(f"at_least={at_least} is greater than at_most={at_most}.")
        return cls(least, most)

    def judge(self, value: Value) -> bool | Unavailable:
        """Reports whether a number is within the limit, or the reason why this is unknown."""
        if isinstance(value, Unavailable):
            return value
        if self.most is not None and value > self.most and not isinstance(value, About):
            return False
        if isinstance(value, AtLeast):
            enough = self.most is None and self.least is not None and value >= self.least
            return enough or Unavailable(f"only part of the number is known: {value.reason}")
        if isinstance(value, About):
            return Unavailable(f"the number is an estimate: {value.reason}")
        return self.least is None or value >= self.least

    def words(self, form: Callable[[float], str]) -> str:
        """Describes the limit, such as "at most 1 GiB"."""
        if self.least is not None and self.least == self.most:
            return f"exactly {form(self.least)}" if self.most else "none"
        ends = (("at least", self.least), ("at most", self.most))
        return ", ".join(f"{name} {form(limit)}" for name, limit in ends if limit is not None)
