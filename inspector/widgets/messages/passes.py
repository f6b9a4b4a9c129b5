"""What the Passes and the Graph pane say of recorded compiler passes."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error


class ModuleCounts(TypedDict):
    """What is in a module between two passes; see `inspector.compilation.records.pass_counts.Counts`."""

    instructions: int
    fusions: int
    written_bytes: int
    collectives: int


class PassRow(TypedDict):
    """A compiler pass; `duration_s` is None exactly when `reason` says why.

    Attributes:
      counts: what is in the module after it, None where nobody counted.
      is_step: whether it changed the module itself, and not a pass within it.
      without: why it cannot be left out, "" where it can.
      until: why the passes after it cannot be left out, "" where they can.
      kept: of the passes after it those that would still run.
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
    """A part of the time from a Python function to machine code; `duration_s` is None exactly when `reason` says why."""

    name: str
    where: str
    duration_s: float | None
    reason: str


class PassList(TypedDict):
    """The compiler passes of a variant, in order; `note` explains an empty or a short list.

    Attributes:
      start: what is in the module before all passes.
      times: where the time of the compile that recorded them went.
    """

    type: Literal["passes"]
    variant: int
    rows: list[PassRow]
    note: str
    start: ModuleCounts | None
    times: list[CompileTimePart]


class PassRequest(TypedDict):
    """Tell what a recorded pass changed. `id` numbers the request; late replies are dropped.

    Attributes:
      since: what to compare the module after it with: None for the one before it, else the one after the pass of this
        index, -1 for the one before all passes.
      whole: whether to give the whole module, not only what changed with some lines around.
    """

    type: Literal["pass"]
    id: int
    variant: int
    index: int
    since: int | None
    whole: bool


class PassEvent(TypedDict):
    """One thing that a pass did; of many instructions the first, with how many there are."""

    word: str
    before: list[str]
    after: list[str]
    before_count: int
    after_count: int
    certainty: str
    note: str


class PassChange(TypedDict):
    """The reply to `PassRequest` number `id`: what a pass changed, or an error.

    Without an error there are six buffers: the five of a `Document`, of the text after the pass or an excerpt of it, and
    gzip of the lines that the hunks took out of the text before, in order.

    Attributes:
      index, since, whole: of the request.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of before (a) and after (b).
      summary: in words.
      events: what was done, the first of `event_count`.
      left_out: hunks that the excerpt has not.
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
    """Tell the story of an instruction, an operation or a Python line; the first of these that is not empty.

    Attributes:
      instruction: a name.
      index: of the pass after which it is called so, -1 for before all; None for its name in the compiled program.
      op_name: JAX's name stack.
      file, line: as documents name them.
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
    """What a pass did to what is followed; `index` is None for what was there before all of them."""

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
      what: what is followed.
      fate: what it is at the end.
      note: what is left out, or "".
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
    """Compile a variant without a recorded pass, or without those after it."""

    type: Literal["pass_variant"]
    variant: int
    index: int
    which: Literal["without", "until"]


class PassGraphRequest(TypedDict):
    """Send the graph of the module before or after a recorded pass. `id` numbers the request; late replies are dropped."""

    type: Literal["pass_graph"]
    id: int
    variant: int
    index: int
    is_before: bool


class PassGraph(TypedDict):
    """The reply to `PassGraphRequest` number `id`, or an error.

    Buffers, each gzip: the four of a `Graph`, then uint8 of the instructions: 0 for what the pass left alone, else what it
    did to that, a place in `words` from 1.

    Attributes:
      index, is_before: of the request.
      instructions: nodes from there on are boxes.
      words: what passes do.
    """

    type: Literal["pass_graph"]
    id: int
    variant: int
    index: int
    is_before: bool
    instructions: int
    words: list[str]
    error: Error | None
