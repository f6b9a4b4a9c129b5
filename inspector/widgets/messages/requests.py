"""What the browser asks for."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import GraphMode, Pane, Product


class Ready(TypedDict):
    """A browser is there and knows nothing yet.

    Attributes:
      client: names the browser's model; replies to it carry the name as `to`.
    """

    type: Literal["ready"]
    client: str


class RunRequest(TypedDict):
    """Run a variant; `repeat` measured executions."""

    type: Literal["run"]
    variant: int
    repeat: int


class RecordRequest(TypedDict):
    """Record something of a variant, by compiling it once more."""

    type: Literal["record"]
    variant: int
    product: Product


class PassRequest(TypedDict):
    """Tell what a recorded pass changed. `id` numbers the request; late replies are dropped."""

    type: Literal["pass"]
    id: int
    variant: int
    index: int


class CodeRequest(TypedDict):
    """Send the text of a recorded entry. `id` numbers the request; late replies are dropped."""

    type: Literal["code"]
    id: int
    variant: int
    index: int


class CancelRequest(TypedDict):
    """Stop what is under way for a variant: its compile, its run, its recordings."""

    type: Literal["cancel"]
    variant: int


class RemoveRequest(TypedDict):
    """Take a variant away."""

    type: Literal["remove"]
    variant: int


class Selection(TypedDict):
    """What is selected: a line, its origin's operation name, the instruction it defines."""

    pane: Pane
    variant: int | None
    file: str | None
    line: int | None
    origin: str | None
    instruction: str | None


class GraphRequest(TypedDict):
    """Draw a variant's optimized HLO. `id` numbers the request; late replies are dropped."""

    type: Literal["graph"]
    id: int
    variant: int
    mode: GraphMode
    selection: Selection | None


class TuneRequest(TypedDict):
    """Lower again with other compiler parameters of a kernel, and compile that as a new variant.

    Attributes:
      id: numbers the request; late replies are dropped.
      variant: whose program is tuned, with its options and target.
      values: texts by field, those that were changed only.
      interpret: instead, let JAX's interpreter run all kernels on the CPU.
    """

    type: Literal["tune"]
    id: int
    variant: int
    kernel: int
    values: dict[str, str]
    interpret: bool


class SelectionChanged(TypedDict):
    """The selection in the browser changed. Throttled; None when it was cleared."""

    type: Literal["select"]
    selection: Selection | None
