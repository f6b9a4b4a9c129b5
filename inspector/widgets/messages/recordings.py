"""What a compile recorded: passes, and the back-end's code."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, Language, Product, State


class Recording(TypedDict):
    """The state of what is recorded of a variant on demand, by a compile of its own."""

    type: Literal["recording"]
    variant: int
    product: Product
    state: State
    stage: str
    elapsed_s: float
    error: Error | None


class PassRow(TypedDict):
    """A compiler pass; `duration_s` is None exactly when `reason` says why."""

    pipeline: str
    name: str
    changed: bool
    duration_s: float | None
    reason: str


class PassList(TypedDict):
    """The compiler passes of a variant, in order; `note` explains an empty or a short list."""

    type: Literal["passes"]
    variant: int
    rows: list[PassRow]
    note: str


class PassChange(TypedDict):
    """The reply to `PassRequest` number `id`: what a pass changed, or an error.

    Without an error there are five buffers: the four of a `Document`, of the text after the pass, and gzip of
    the lines that the hunks took out of the text before, in order.

    Attributes:
      index: of the pass in the list.
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of before (a) and after (b).
      summary: in words.
    """

    type: Literal["pass_change"]
    id: int
    variant: int
    index: int
    hunks: list[tuple[int, int, int, int]]
    summary: str
    error: Error | None


class CodeList(TypedDict):
    """What code there is of a variant. One buffer: gzip of a `CodeTable` as JSON; `note` says what is missing."""

    type: Literal["code"]
    variant: int
    note: str


class CodeEntry(TypedDict):
    """One kernel at one stage; the kernel is "" for what belongs to the whole program."""

    stage: str
    kernel: str
    language: Language


class CodeTable(TypedDict):
    """The code by kernel and stage.

    Attributes:
      entries: in order of stages.
      instructions: by kernel the optimized HLO's instructions that it computes, the one it is named after
        first.
    """

    entries: list[CodeEntry]
    instructions: dict[str, list[str]]


class CodeText(TypedDict):
    """The reply to `CodeRequest` number `id`: one buffer, gzip of the text, or why there is none.

    Attributes:
      index: of the entry in the table.
      reason, remedy: why the text cannot be shown here and what would help, or "".
    """

    type: Literal["code_text"]
    id: int
    variant: int
    index: int
    reason: str
    remedy: str
    error: Error | None
