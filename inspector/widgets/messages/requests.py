"""Requests of the browser to the Explorer itself. Requests to a pane are in the pane's file."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Pane, Product


class Ready(TypedDict):
    """A browser has connected and has no data yet.

    Attributes:
      browser: identifier of the browser's model; replies carry it as `to`.
    """

    type: Literal["ready"]
    browser: str


class AppCode(TypedDict):
    """Requests the app's code, if the page does not have it yet. The reply has the same type, with the code in a buffer."""

    type: Literal["app_code"]


class PageRequest(TypedDict):
    """Requests a single HTML file of the whole exploration, which opens at the current selection.

    Attributes:
      note: a text for its readers.
    """

    type: Literal["page"]
    id: int
    note: str


class RecordRequest(TypedDict):
    """Records a product of a variant, by compiling it again."""

    type: Literal["record"]
    variant: int
    product: Product


class CancelRequest(TypedDict):
    """Stops the running work of a variant: its compile, its run and its recordings."""

    type: Literal["cancel"]
    variant: int


class RemoveRequest(TypedDict):
    """Removes a variant."""

    type: Literal["remove"]
    variant: int


class PinRequest(TypedDict):
    """Pins a variant directly after the baseline, where it cannot be removed, or unpins it."""

    type: Literal["pin"]
    variant: int
    pinned: bool


class PreviousRequest(TypedDict):
    """Adds the previous version of the program as a variant, and activates it."""

    type: Literal["previous"]


class Selection(TypedDict):
    """The selection: a line, the operation name of its origin, and the instruction that it defines."""

    pane: Pane
    variant: int | None
    file: str | None
    line: int | None
    origin: str | None
    instruction: str | None


class SelectionChanged(TypedDict):
    """The selection in the browser changed; None if it was cleared. Throttled."""

    type: Literal["select"]
    selection: Selection | None
