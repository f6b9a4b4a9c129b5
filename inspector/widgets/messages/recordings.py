"""How a recording fares."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, Product, State


class Recording(TypedDict):
    """The state of what is recorded of a variant on demand, by a compile of its own."""

    type: Literal["recording"]
    variant: int
    product: Product
    state: State
    stage: str
    elapsed_s: float
    error: Error | None
