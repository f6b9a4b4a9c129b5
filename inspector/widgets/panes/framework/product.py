"""What the panes have in common that show what a compile records on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from inspector.errors import ExecutionError, Unavailable
from inspector.widgets.panes.framework.pane import Context, Pane
from inspector.widgets.variants import Variant

T = TypeVar("T")


class ProductPane(Pane, Generic[T]):
    """Keeps what was recorded of each variant, to answer what is asked about it."""

    def __init__(self, name: str, context: Context) -> None:
        """Nothing is recorded yet."""
        super().__init__(name, context)
        self._values: dict[int, T] = {}

    def keep(self, variant: Variant, value: T) -> None:
        """Takes what was recorded, unless the variant is gone."""
        with self.context.lock:
            if self.context.holds(variant):
                self._values[variant.number] = value

    def known(self, number: int) -> T | None:
        """What was recorded of a variant; None where nothing was."""
        with self.context.lock:
            return self._values.get(number)

    def kept(self, number: int) -> T:
        """What was recorded of a variant.

        Raises:
          ExecutionError: nothing yet, or not any more.
        """
        with self.context.lock:
            if number not in self._values:
                raise ExecutionError(f"The {self.name} of variant {number} are not recorded. Record them first.")
            return self._values[number]

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what was recorded."""
        self._values.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Drops everything."""
        self._values.clear()


def sentence(unavailable: Unavailable) -> str:
    """Why there is nothing, as a note of the pane."""
    reason = f"{unavailable.reason[:1].upper()}{unavailable.reason[1:]}."
    return f"{reason} {unavailable.remedy}".strip()
