"""Messages of the Passes and Graph panes about recorded compiler passes."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, TableHead


class ModuleCounts(TypedDict):
    """Totals of a module between two passes; see `inspector.compilation.records.pass_counts.Counts`."""

    instructions: int
    fusions: int
    written_bytes: int
    collectives: int


class PassRow(TypedDict):
    """A compiler pass; `duration_s` is None exactly when `reason` explains why.

    A module may have a thousand passes, so a row has no formatted cells. Its values, and those of `counts`, have the names
    of the columns of `Passes.table()`.

    Attributes:
      counts: totals of the module after the pass; None if they were not counted.
      is_step: whether the pass changed the module itself, rather than through a nested pass.
      without: the reason why the pass cannot be left out; "" if it can.
      until: the reason why the later passes cannot be left out; "" if they can.
      kept: later passes that would still run.
    """

    pipeline: str
    name: str
    changed: bool
    duration_s: float | None
    reason: str
    counts: ModuleCounts | None
    is_step: bool
    without: str
    until: str
    kept: list[str]


class CompileTimePart(TypedDict):
    """A part of the time from a Python function to machine code; `duration_s` is None exactly when `reason` explains why."""

    name: str
    where: str
    duration_s: float | None
    reason: str


class PassList(TypedDict):
    """The compiler passes of a variant, in order; `note` explains an empty or incomplete list.

    Attributes:
      columns: headings of the list.
      copied: names of the copied columns.
      start: totals of the module before all passes.
      times: breakdown of the time of the compile that recorded the passes.
    """

    type: Literal["passes"]
    variant: int
    columns: list[TableHead]
    copied: list[str]
    rows: list[PassRow]
    note: str
    start: ModuleCounts | None
    times: list[CompileTimePart]


class PassRequest(TypedDict):
    """Requests the changes of a recorded pass. `id` numbers the request; late replies are dropped.

    Attributes:
      since: the module to compare with: None for the one directly before the pass, -1 for the one before all passes, else
        the one after the pass of this index.
      whole: whether to return the whole module, not only the changed lines with some context.
    """

    type: Literal["pass"]
    id: int
    variant: int
    index: int
    since: int | None
    whole: bool


class PassEvent(TypedDict):
    """A single action of a pass; of many instructions, only the first are listed, with the total count."""

    word: str
    before: list[str]
    after: list[str]
    before_count: int
    after_count: int
    certainty: str
    note: str


class PassChangeMessage(TypedDict):
    """The reply to `PassRequest` number `id`: the changes of a pass, or an error.

    Without an error there are six buffers: the five of a `Document`, of the text after the pass or an excerpt of it, and
    the gzip-compressed lines that the hunks removed from the text before, in order.

    Attributes:
      index, since, whole: as in the request.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of before (a) and after (b).
      summary: the changes in words.
      events: the actions of the pass, the first of `event_count`.
      left_out: number of hunks that are not in the excerpt.
    """

    type: Literal["pass_change"]
    id: int
    variant: int
    index: int
    since: int | None
    whole: bool
    hunks: list[tuple[int, int, int, int]]
    summary: str
    events: list[PassEvent]
    event_count: int
    left_out: int
    error: Error | None


class FollowRequest(TypedDict):
    """Requests the history of an instruction, an operation or a Python line, whichever comes first and is not empty.

    Attributes:
      instruction: name of the instruction.
      index: the pass after which the instruction has this name, -1 for before all passes; None for its name in the compiled program.
      op_name: JAX's name stack.
      file, line: source position as in documents.
    """

    type: Literal["follow"]
    id: int
    variant: int
    instruction: str
    index: int | None
    op_name: str
    file: str
    line: int


class PassTouch(TypedDict):
    """The effect of a pass on the followed instruction; `index` is None for the state before all passes."""

    index: int | None
    name: str
    word: str
    text: str
    before: list[str]
    after: list[str]
    certainty: str


class Story(TypedDict):
    """The reply to `FollowRequest` number `id`, or an error.

    Attributes:
      what: the followed instruction, operation or line.
      fate: its form in the compiled program.
      note: a description of omitted parts, or "".
    """

    type: Literal["story"]
    id: int
    variant: int
    what: str
    fate: str
    certainty: str
    note: str
    touches: list[PassTouch]
    error: Error | None


class PassVariantRequest(TypedDict):
    """Compiles a variant without a recorded pass, or without the passes after it."""

    type: Literal["pass_variant"]
    variant: int
    index: int
    which: Literal["without", "until"]


class PassGraphRequest(TypedDict):
    """Requests the graph of the module before or after a recorded pass. `id` numbers the request; late replies are dropped."""

    type: Literal["pass_graph"]
    id: int
    variant: int
    index: int
    is_before: bool


class PassGraph(TypedDict):
    """The reply to `PassGraphRequest` number `id`, or an error.

    Buffers, each compressed with gzip: the four of a `GraphMessage`, then one uint8 per instruction: 0 if the pass left it unchanged,
    else the effect of the pass, an index into `words` from 1.

    Attributes:
      index, is_before: as in the request.
      instructions: number of instructions; later nodes are boxes.
      words: names of the possible effects.
    """

    type: Literal["pass_graph"]
    id: int
    variant: int
    index: int
    is_before: bool
    instructions: int
    words: list[str]
    error: Error | None
