"""The base class of panes that show products recorded on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from inspector.errors import ExecutionError, Unavailable
from inspector.widgets.panes.framework.pane import Context, Pane
from inspector.widgets.variants import Variant

T = TypeVar("T")


class ProductPane(Pane, Generic[T]):
    """Stores the recorded product of each variant, to answer requests about it."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is recorded yet."""
        super().__init__(name, context)
        self._values: dict[int, T] = {}

    def store(self, variant: Variant, value: T) -> None:
        """Stores the recorded product, unless the variant was removed."""
        with self.context.lock:
            if self.context.holds(variant):
                self._values[variant.number] = value

    def find(self, number: int) -> T | None:
        """Returns the recorded product of a variant, or None."""
        with self.context.lock:
            return self._values.get(number)

    def product(self, number: int) -> T:
        """Returns the recorded product of a variant.

        Raises:
          ExecutionError: nothing is recorded, or the variant was removed.
        """
        with self.context.lock:
            if number not in self._values:
                raise ExecutionError(f"The {self.name} of variant {number} are not recorded. Record them first.")
            return self._values[number]

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the recorded product."""
        self._values.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Drops all recorded products."""
        self._values.clear()


def sentence(unavailable: Unavailable) -> str:
    """Returns the reason and the remedy as a note of the pane."""
    parts = (unavailable.reason, unavailable.remedy.rstrip("."))
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)
