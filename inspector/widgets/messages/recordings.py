"""The progress of a recording."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, Product, State


class Recording(TypedDict):
    """The state of a product that is recorded for a variant on request, by a separate compile."""

    type: Literal["recording"]
    variant: int
    product: Product
    state: State
    stage: str
    elapsed_s: float
    error: Error | None
