"""Messages and types that every pane uses: the session, texts and variants."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

Pane = Annotated[str, "Pane"]
"""The name of a pane. `panes/registry.py` lists all panes."""
TextPane = Annotated[str, "TextPane"]
"""The name of a pane that shows documents."""
Product = Annotated[str, "Product"]
"""Data that a compile records on request. `inspector.compilation.request.PRODUCTS` lists all products."""
Language = Literal["python", "jaxpr", "mlir", "hlo", "llvm", "ptx", "asm", "sass", "llo", "text"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
Stage = Literal["hlo", "optimized"]
Explorable = Literal["", "player", "mesh_bench", "race", "sharding_game"]
"""A page element of the course; "" for an Explorer."""


class Session(TypedDict):
    """The program that is explored. The first message to a browser.

    Attributes:
      version: version of the messages, `VERSION`.
      name: name of the function or module, used as a title.
      panes: available panes, in order.
      height_px: initial height of the app in CSS pixels.
      side_by_side: whether the optimized HLO of the variants is initially shown side by side.
      is_kernel: whether the program is little more than calls to Pallas kernels; their pane is then initially active.
      stored_class: CSS class of the element with the app's stored output; the app hides that element.
      notes: remarks about the lowering, such as arguments that were treated as static.
      explorable: the element that is shown instead of panes; "" for an Explorer.
    """

    type: Literal["session"]
    version: int
    name: str
    panes: list[Pane]
    height_px: int
    side_by_side: bool
    is_kernel: bool
    stored_class: str
    notes: list[str]
    explorable: Explorable


class Focus(TypedDict):
    """Brings a pane to the front and selects a line or an instruction in it.

    Attributes:
      variant: the variant to activate; None to leave the active one.
      line: line number as the pane shows it, from 1; None for no line.
      instruction: name of an instruction; None for no instruction.
    """

    type: Literal["focus"]
    pane: Pane
    variant: int | None
    line: int | None
    instruction: str | None


class Existing(TypedDict):
    """A request matches an existing variant, which becomes the active one; nothing is compiled."""

    type: Literal["existing"]
    variant: int


class TableHead(TypedDict):
    """The heading of a column of a described table (`support/columns.py`).

    Attributes:
      name: name of the column, as in data frames.
      title: the heading.
      tooltip: explanation of the heading.
      is_number: whether the cells are numbers.
    """

    name: str
    title: str
    tooltip: str
    is_number: bool


class TableCell(TypedDict):
    """A cell of a described table.

    Attributes:
      value: number or text to sort by; None if unknown or empty.
      text: formatted value; "" if it is the value itself.
      note: the reason why the value is unknown or incomplete; "" if it is known.
    """

    value: str | float | None
    text: str
    note: str


class Document(TypedDict):
    """A text, in five buffers.

    Each buffer is compressed with gzip: UTF-8 text; one little-endian int32 per line, an index into
    `OriginTable.origins` or -1; an `OriginTable` as JSON; a `LineTable` as JSON; one byte per line, 1 where the line
    defines an instruction and therefore names it, else 0. The last buffer is empty if the language has no instructions.

    Attributes:
      variant: the variant that the text belongs to; None if all variants share it.
      title: title of the pane, such as a file name; "" for the pane's own name.
      line_count: number of lines in the text; 1 for an empty text.
    """

    type: Literal["document"]
    pane: TextPane
    variant: int | None
    language: Language
    title: str
    line_count: int


class OriginTable(TypedDict):
    """The origins of the lines of a document.

    Attributes:
      files: source files by index.
      libraries: for each file, whether it belongs to a library.
      origins: the origins of lines, usually one per line; a line that stands for several places has
        several, such as a line in a function that is called twice. Each origin is a pair of an operation
        name (`jit(f)/dot_general`, "" if unknown) and its frames,
        innermost first. Each frame is a file index and a line.
      phases: for each entry of `origins`, the part of a differentiated program, such as "forward" or
        "forward + backward"; "" if unknown. Empty if no phase is known.
    """

    files: list[str]
    libraries: list[bool]
    origins: list[list[tuple[str, list[tuple[int, int]]]]]
    phases: list[str]


class LineTable(TypedDict):
    """Further properties of a document's lines.

    Attributes:
      first_line: the line to scroll to first, from 0; for HLO, 0 means the line of the entry computation.
      labels: the displayed line number of each line, None for a heading; None means 1, 2, 3, ...
    """

    first_line: int
    labels: list[int | None] | None


class UnavailableMessage(TypedDict):
    """An unavailable document, with the reason and the remedy ("" if there is none)."""

    type: Literal["unavailable"]
    pane: TextPane
    variant: int | None
    reason: str
    remedy: str


class Error(TypedDict):
    """An error to display: the name of the exception, and a message with the actual value, the expected value and the remedy."""

    kind: str
    message: str


class VariantMessage(TypedDict):
    """The state of a variant. The first variant is the baseline.

    Attributes:
      label: the difference from the other variants, such as `xla_cpu_enable_fast_math=true`.
      platform: the platform of its compiler: "cpu", "tpu" or "gpu"; "" if the program was not lowered for it.
      options: all options that were set, by name.
      stage: the current step of the engine.
      elapsed_s: seconds since the request; final once the state is.
      origin: the recorded label of a program that was read and not compiled, such as "dumped": it has no time. Otherwise "".
      cached: a description of the cache that the program came from; "" if it was compiled for the variant.
      timing: a description of where the compile time went; "" until the compile succeeds.
      warnings: warnings of its compile, except those that every compile in this process emits.
      pinned: whether it is shown directly after the baseline and cannot be removed.
      no_run: the reason why its program cannot run on this machine; "" if it can.
      supposed: the changes to the call that the variant assumes; "" if it is the program's own call.
      profile: number of its latest profile, which measured the time of each kernel; 0 if there is none.
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
    origin: str
    cached: str
    timing: str
    warnings: list[str]
    pinned: bool
    no_run: str
    supposed: str
    profile: int


class VariantRemoved(TypedDict):
    """A variant was removed, with everything that belongs to it."""

    type: Literal["variant_removed"]
    variant: int


class SourceLine(TypedDict):
    """A position in a source file; lines count from 1, None if unknown.

    Attributes:
      library: the line of the library code that it calls, such as `flax/linen/linear.py:287`; "" for none.
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
    """Information for the user that belongs to no pane."""

    type: Literal["notice"]
    level: Literal["info", "error"]
    message: str
