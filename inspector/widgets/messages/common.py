"""What every pane needs: the session, texts, variants, and words that messages share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

Pane = Annotated[str, "Pane"]
"""The name of a pane: `panes/registry.py` has them all."""
TextPane = Annotated[str, "TextPane"]
"""Of one that shows documents."""
Product = Annotated[str, "Product"]
"""What a compile records on request: `inspector.compilation.request.PRODUCTS` has them all."""
Language = Literal["python", "jaxpr", "mlir", "hlo", "llvm", "ptx", "asm", "sass", "llo", "text"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
Stage = Literal["hlo", "optimized"]


class Session(TypedDict):
    """What is explored. The first message to a browser.

    Attributes:
      version: of these messages, `VERSION`.
      name: the function or module, as a title.
      panes: the panes that can be shown, in order.
      height_px: initial height of the app in CSS pixels.
      side_by_side: whether the optimized HLO of the variants stands side by side at first.
      stored_class: of the element with what a notebook keeps of the app; hidden where the app is.
      notes: what is to be known of how the program was lowered, such as arguments that are part of it.
    """

    type: Literal["session"]
    version: int
    name: str
    panes: list[Pane]
    height_px: int
    side_by_side: bool
    stored_class: str
    notes: list[str]


class Focus(TypedDict):
    """Bring a pane to the front, and select a line or an instruction in it.

    Attributes:
      variant: which becomes the active one; None for the one that is.
      line: as the pane numbers it, from 1; None for none.
      instruction: its name; None for none.
    """

    type: Literal["focus"]
    pane: Pane
    variant: int | None
    line: int | None
    instruction: str | None


class Existing(TypedDict):
    """A request equals that of a variant, which becomes the active one; nothing is compiled."""

    type: Literal["existing"]
    variant: int


class Document(TypedDict):
    """A text, in five buffers.

    The buffers are gzip of: UTF-8 text; one little-endian int32 per line, an index into
    `OriginTable.origins` or -1; an `OriginTable` as JSON; a `LineTable` as JSON; one byte per line, 1 where it
    defines an instruction and so names it, else 0; nothing where the language has no instructions.

    Attributes:
      variant: the variant it belongs to, None when all variants share it.
      title: of the pane, such as a file name; "" for the pane's own name.
      line_count: lines in the text; an empty text has one.
    """

    type: Literal["document"]
    pane: TextPane
    variant: int | None
    language: Language
    title: str
    line_count: int


class OriginTable(TypedDict):
    """Where lines come from.

    Attributes:
      files: source files by index.
      libraries: for each file whether it is a library's.
      origins: the origins that lines have, mostly one a line; several where a line stands for
        several places, as inside of a function that is called twice. Each is a pair of an operation
        name (`jit(f)/dot_general`, "" if unknown) and its frames,
        innermost first, each a file index and a line.
      phases: for each entry of `origins` the part of a differentiated program, such as "forward" or
        "forward + backward"; "" where it is not known. Empty where none is.
    """

    files: list[str]
    libraries: list[bool]
    origins: list[list[tuple[str, list[tuple[int, int]]]]]
    phases: list[str]


class LineTable(TypedDict):
    """What else is known of a document's lines.

    Attributes:
      first_line: at which a reader begins, from 0; of HLO, where this says 0, it is that of the entry computation.
      labels: the line number shown for each line, None for a heading; None: 1, 2, 3, ...
    """

    first_line: int
    labels: list[int | None] | None


class Unavailable(TypedDict):
    """A document that there is not, with the reason and what to do about it ("" if nothing)."""

    type: Literal["unavailable"]
    pane: TextPane
    variant: int | None
    reason: str
    remedy: str


class Error(TypedDict):
    """An error for the reader: the exception's name, and what was got, expected and can be done."""

    kind: str
    message: str


class Variant(TypedDict):
    """The state of a variant. The first variant is the baseline.

    Attributes:
      label: what sets it apart, such as `xla_cpu_enable_fast_math=true`.
      platform: whose compiler it is: "cpu", "tpu", "gpu"; "" where the program was not lowered for it.
      options: all options that were said, by name.
      stage: what the engine is doing.
      elapsed_s: seconds since it was asked for; final once the state is.
      cached: that its program came from the cache, in words; "" where it was compiled for the variant.
      timing: where the time of its compile went, in words; "" before it ended well.
      warnings: of its compile; those of every compile in this process are left out.
      pinned: whether it stands right after the baseline and cannot be removed.
      no_run: why its program cannot run here; "" when it can.
      supposed: what its call is supposed to be in place of what it is; "" where it is that.
    """

    type: Literal["variant"]
    variant: int
    label: str
    target: str
    platform: str
    options: dict[str, Any]
    state: State
    stage: str
    elapsed_s: float
    error: Error | None
    cached: str
    timing: str
    warnings: list[str]
    pinned: bool
    no_run: str
    supposed: str


class VariantRemoved(TypedDict):
    """A variant is gone, with all that belongs to it."""

    type: Literal["variant_removed"]
    variant: int


class SourceLine(TypedDict):
    """A place in a source file; lines count from 1, None when unknown.

    Attributes:
      library: the line of a library that it led to, such as `flax/linen/linear.py:287`; "" for none.
    """

    file: str
    line: int | None
    library: str


class Page(TypedDict):
    """The reply to `PageRequest` number `id`, or an error. One buffer: gzip of the page, UTF-8."""

    type: Literal["page"]
    id: int
    error: Error | None


class Notice(TypedDict):
    """Something that the user must know and that belongs to no pane."""

    type: Literal["notice"]
    level: Literal["info", "error"]
    message: str
