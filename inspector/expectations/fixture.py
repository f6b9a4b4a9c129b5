"""What the fixture `hlo` gives."""

from __future__ import annotations

import dataclasses
from typing import Any

from inspector.expectations.baseline_context import Keeping
from inspector.expectations.expectation import Expectation, expect


@dataclasses.dataclass(frozen=True, slots=True)
class Hlo:
    """`hlo(step, *args, target="cpu:8")` is `inspector.expect`, with the baselines of its test.

    Attributes:
      keeping: of the test.
    """

    keeping: Keeping

    def __call__(self, fun: Any, *args: Any, **keywords: Any) -> Expectation:
        """As `inspector.expect`; parameters and errors are the same."""
        return expect(fun, *args, keeping=self.keeping, **keywords)

    def __repr__(self) -> str:
        return f"<hlo of {self.keeping.name}>"
