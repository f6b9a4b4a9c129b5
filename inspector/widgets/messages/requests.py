"""What the browser asks of the Explorer itself; what it asks of a pane stands with the pane."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Pane, Product


class Ready(TypedDict):
    """A browser is there and knows nothing yet.

    Attributes:
      browser: names the browser's model; replies to it carry the name as `to`.
    """

    type: Literal["ready"]
    browser: str


class AppCode(TypedDict):
    """The page has not the app's code yet. The reply has the same type, and the code as a buffer."""

    type: Literal["app_code"]


class PageRequest(TypedDict):
    """Make one HTML file of the whole exploration."""

    type: Literal["page"]
    id: int


class RecordRequest(TypedDict):
    """Record something of a variant, by compiling it once more."""

    type: Literal["record"]
    variant: int
    product: Product


class CancelRequest(TypedDict):
    """Stop what is under way for a variant: its compile, its run, its recordings."""

    type: Literal["cancel"]
    variant: int


class RemoveRequest(TypedDict):
    """Take a variant away."""

    type: Literal["remove"]
    variant: int


class PinRequest(TypedDict):
    """Keep a variant right after the baseline, where it cannot be removed; or no more."""

    type: Literal["pin"]
    variant: int
    pinned: bool


class Selection(TypedDict):
    """What is selected: a line, its origin's operation name, the instruction it defines."""

    pane: Pane
    variant: int | None
    file: str | None
    line: int | None
    origin: str | None
    instruction: str | None


class SelectionChanged(TypedDict):
    """The selection in the browser changed. Throttled; None when it was cleared."""

    type: Literal["select"]
    selection: Selection | None
