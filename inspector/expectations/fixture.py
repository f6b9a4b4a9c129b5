"""The value of the fixture `hlo`."""

from __future__ import annotations

import dataclasses
from typing import Any

from inspector.expectations.baseline_context import Keeping
from inspector.expectations.expectation import Expectation, expect


@dataclasses.dataclass(frozen=True, slots=True)
class Hlo:
    """A form of `inspector.expect` with the baselines of its test: `hlo(step, *args, target="cpu:8")`.

    Attributes:
      keeping: the files of the test.
    """

    keeping: Keeping

    def __call__(self, fun: Any, *args: Any, **keywords: Any) -> Expectation:
        """Calls `inspector.expect`, with the same parameters and errors."""
        return expect(fun, *args, keeping=self.keeping, **keywords)

    def __repr__(self) -> str:
        return f"<hlo of {self.keeping.name}>"
