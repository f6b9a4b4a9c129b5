"""The messages between Python and the Explorer's browser app. Written once, here.

`frontend/src/messages.ts` is generated from this file by `frontend/generate_messages.py`; a test
checks that it is current. Every message is a JSON object with a `type`. Values are plain: this
module knows nothing of JAX, of engines or of analyses. `app.py` carries the messages.

Line numbers of sources count from 1, as editors do; lines and ranges of documents count from 0.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

VERSION = 2
_CHECKED_ITEMS = 16

TextPane = Literal["source", "jaxpr", "stablehlo", "hlo", "optimized"]
Pane = Literal[
    "source",
    "jaxpr",
    "stablehlo",
    "hlo",
    "optimized",
    "graph",
    "collectives",
    "stats",
    "passes",
    "code",
    "run",
    "pallas",
]
Product = Literal["passes", "code"]
Language = Literal["python", "jaxpr", "mlir", "hlo", "llvm", "ptx", "asm", "sass", "llo", "text"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
GraphMode = Literal["whole", "scopes", "around"]
Stage = Literal["hlo", "optimized"]


class Session(TypedDict):
    """What is explored. The first message to a browser.

    Attributes:
      version: of these messages, `VERSION`.
      name: the function or module, as a title.
      panes: the panes that can be shown, in order.
      height_px: initial height of the app in CSS pixels.
      side_by_side: whether the optimized HLO of the variants stands side by side at first.
    """

    type: Literal["session"]
    version: int
    name: str
    panes: list[Pane]
    height_px: int
    side_by_side: bool


class Document(TypedDict):
    """A text, in four buffers.

    The buffers are gzip of: UTF-8 text; one little-endian int32 per line, an index into
    `OriginTable.origins` or -1; an `OriginTable` as JSON; a `LineTable` as JSON.

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
      origins: the origins that lines have, mostly one a line; several where a line stands for
        several places, as inside of a function that is called twice. Each is a pair of an operation
        name (`jit(f)/dot_general`, "" if unknown) and its frames,
        innermost first, each a file index and a line.
    """

    files: list[str]
    origins: list[list[tuple[str, list[tuple[int, int]]]]]


class LineTable(TypedDict):
    """What else is known of a document's lines.

    Attributes:
      labels: the line number shown for each line, None for a heading; None: 1, 2, 3, ...
      instructions: the name of the instruction that each line defines, or None.
    """

    labels: list[int | None] | None
    instructions: list[str | None] | None


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
      platform: whose compiler it is: "cpu", "tpu", "cuda"; "" where the program was not lowered for it.
      options: all options that were said, by name.
      stage: what the engine is doing.
      elapsed_s: seconds since it was asked for; final once the state is.
      no_run: why its program cannot run here; "" when it can.
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
    no_run: str


class VariantRemoved(TypedDict):
    """A variant is gone, with all that belongs to it."""

    type: Literal["variant_removed"]
    variant: int


class StatsRow(TypedDict):
    """One number of a variant; `value` is None exactly when `reason` says why."""

    key: str
    label: str
    unit: Literal["bytes", "count", "seconds"]
    value: float | None
    reason: str | None
    less_is_better: bool


class Stats(TypedDict):
    """The numbers of a variant."""

    type: Literal["stats"]
    variant: int
    rows: list[StatsRow]


class Diff(TypedDict):
    """How the optimized HLO of `variant` differs from that of `baseline`.

    Attributes:
      hunks: line ranges `[a0, a1, b0, b1]`, half open, of baseline (a) and variant (b).
      summary: a sentence, such as "12 instructions changed, 3 added, 1 removed".
    """

    type: Literal["diff"]
    baseline: int
    variant: int
    hunks: list[tuple[int, int, int, int]]
    summary: str


class Mesh(TypedDict):
    """Named axes over devices, as `inspector.hlo.mesh.Mesh`."""

    axis_names: list[str]
    axis_sizes: list[int]
    kind: Literal["replica", "partition"]
    device_ids: list[int] | None


class SourceLine(TypedDict):
    """A place in a source file; lines count from 1, None when unknown."""

    file: str
    line: int | None


class Member(TypedDict):
    """One device's part in a collective.

    Attributes:
      group: index of its group.
      position: its place in the group.
      coordinates: its place on each mesh axis, or None without a mesh.
      before, after: what it holds, in words.
    """

    group: int
    position: int
    device: int | None
    replica: int | None
    partition: int | None
    coordinates: list[int] | None
    before: str
    after: str


class Collective(TypedDict):
    """A collective instruction.

    Attributes:
      axes: the mesh axes it works over, None when its groups are no axes; then `axes_reason`.
      groups: lists of ids, or source-target pairs when `is_pairs`.
      operand_bytes: bytes of all operands on one device, None when unknown.
      inserted_by: the pass or partitioner that made it, "" when the program asked for it.
      members: at most as many as are worth drawing.
    """

    name: str
    opcode: str
    computation: str
    context: str
    axes: list[str] | None
    axes_reason: str
    groups: list[list[int]]
    is_pairs: bool
    group_mode: str
    operand_shapes: list[str]
    result_shapes: list[str]
    operand_bytes: int | None
    source: SourceLine | None
    inserted_by: str
    members: list[Member]


class Collectives(TypedDict):
    """The collectives of one stage of a variant; `note` explains an empty list."""

    type: Literal["collectives"]
    variant: int
    stage: Stage
    mesh: Mesh | None
    note: str
    rows: list[Collective]


class Graph(TypedDict):
    """The reply to `GraphRequest` number `id`: an SVG, or an error.

    Attributes:
      svg: Graphviz output; a node is `<g id="node-NAME">` with NAME an instruction's name.
      caption: what is drawn and what was left out.
    """

    type: Literal["graph"]
    id: int
    variant: int
    mode: GraphMode
    svg: str | None
    caption: str
    error: Error | None


class RunArray(TypedDict):
    """An input or output of a run.

    Attributes:
      path: how the user would write it, such as `params['w']`.
      shape: as text, such as `f32[128,64]` without the type: `128,64`.
      generated: inspector made the values, because only a shape was given.
      per_replica: every replica has its own values.
      preview: one line of values a replica (a single one when all hold the same).
    """

    path: str
    shape: str
    dtype: str
    generated: bool
    per_replica: bool
    preview: list[str]


class RunResult(TypedDict):
    """What was measured: seconds from call to outputs ready, one duration an execution."""

    device_kind: str
    durations_s: list[float]
    median_s: float
    min_s: float
    iqr_s: float
    inputs: list[RunArray]
    outputs: list[RunArray]
    note: str


class Run(TypedDict):
    """The state of a run of a variant; `result` once it is done."""

    type: Literal["run"]
    variant: int
    state: State
    stage: str
    elapsed_s: float
    error: Error | None
    result: RunResult | None


class KernelOperand(TypedDict):
    """An input or output of a Pallas kernel.

    Attributes:
      block: its shape as text; `block_shape` as numbers, 1 where a dimension is squeezed.
      index_map: JAX's text of it.
      starts: first element of each distinct block, in the order of the first visit.
      steps: index into `starts` for each grid step that is shown.
      revisited, overlapping: indices into `starts`.
      copies, copied_bytes: of its blocks, over the whole grid; None when they are not known.
      reason: why there are no blocks, "" when there are.
    """

    name: str
    role: Literal["input", "output"]
    shape: list[int]
    dtype: str
    block: str
    block_shape: list[int]
    memory_space: str
    index_map: str
    block_bytes: int
    starts: list[list[int]]
    steps: list[int]
    revisited: list[int]
    overlapping: list[int]
    copies: int | None
    copied_bytes: int | None
    remarks: list[str]
    reason: str


class KernelAllocation(TypedDict):
    """A piece of fast memory: `buffers` times `size_bytes`."""

    name: str
    what: str
    buffers: int
    size_bytes: int


class KernelMemory(TypedDict):
    """The fast memory that a kernel asks for on a chip, against its limit.

    Attributes:
      used_bytes: what the compiler gave it, None before it has, or where it does not say.
    """

    chip: str
    allocations: list[KernelAllocation]
    total_bytes: int
    limit_bytes: int
    limit_source: str
    capacity_bytes: int
    used_bytes: int | None


class KernelParam(TypedDict):
    """A field of Pallas's CompilerParams; values are texts as they are typed.

    Attributes:
      overridden: the value was put in place of the program's own.
      reason: why this JAX does not take it, "" when it does.
    """

    name: str
    type: str
    value: str
    default: str
    choices: list[str]
    description: str
    overridden: bool
    reason: str


class Kernel(TypedDict):
    """One Pallas kernel of a variant's program.

    Attributes:
      grid: steps along each dimension, None where only a run knows.
      semantics: of each grid dimension.
      steps_shown: of the grid, from the first; `step_count` None where only a run knows.
      facts: pairs of name and text, such as scratch, aliases and cost.
      memory: None where it is not known; then `memory_reason` says why.
    """

    number: int
    name: str
    function: str
    source: SourceLine | None
    grid: list[int | None]
    semantics: list[str]
    step_count: int | None
    steps_shown: int
    facts: list[tuple[str, str]]
    operands: list[KernelOperand]
    memory: KernelMemory | None
    memory_reason: str
    params: list[KernelParam]
    interpret: bool


class KernelTrouble(TypedDict):
    """Why the compiler refused a kernel, in numbers; the error's own text stands with the variant.

    Attributes:
      kernel: the number of the kernel, None where the compiler does not say.
      advice: what can be done, one sentence each.
      asked_bytes, limit_bytes: of a memory that is too small, else None.
      source: the place in the kernel, if it is known.
      help_url: the compiler's own page on it, or "".
    """

    summary: str
    kernel: int | None
    advice: list[str]
    asked_bytes: int | None
    limit_bytes: int | None
    allocations: list[KernelAllocation]
    source: SourceLine | None
    help_url: str


class Kernels(TypedDict):
    """The Pallas kernels of a variant's program, and what its compiler had against them."""

    type: Literal["kernels"]
    variant: int
    rows: list[Kernel]
    trouble: KernelTrouble | None


class Tuned(TypedDict):
    """The reply to `TuneRequest` number `id`: the new variant, or what is wrong."""

    type: Literal["tuned"]
    id: int
    variant: int | None
    error: Error | None


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


class Notice(TypedDict):
    """Something that the user must know and that belongs to no pane."""

    type: Literal["notice"]
    level: Literal["info", "error"]
    message: str


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


ToBrowser = (
    Session
    | Document
    | Unavailable
    | Variant
    | VariantRemoved
    | Stats
    | Diff
    | Collectives
    | Graph
    | Run
    | Recording
    | PassList
    | PassChange
    | CodeList
    | CodeText
    | Kernels
    | Tuned
    | Notice
)
FromBrowser = (
    Ready
    | RunRequest
    | CancelRequest
    | RemoveRequest
    | GraphRequest
    | RecordRequest
    | PassRequest
    | CodeRequest
    | TuneRequest
    | SelectionChanged
)


def problem(value: object, kind: Any, path: str = "message") -> str | None:
    """What is wrong with a message, or None.

    Of a list only the first items are looked at: a message may carry 100,000 group members, all
    made by the same line of code.

    Args:
      value: a decoded JSON value.
      kind: the type it should have: `ToBrowser`, `FromBrowser`, a message class or a part of one.
      path: how to name the value in the answer.
    """
    if is_typeddict(kind):
        return _problem_of_fields(value, kind, path)
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _problem_of_union(value, arguments, path)
    if origin is Literal:
        return None if value in arguments else f"{path} is {value!r}, expected one of {arguments}"
    if origin is list:
        if not isinstance(value, list):
            return f"{path} is {value!r}, expected a list"
        return _first(problem(v, arguments[0], f"{path}[{i}]") for i, v in enumerate(value[:_CHECKED_ITEMS]))
    if origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(arguments):
            return f"{path} is {value!r}, expected {len(arguments)} values"
        pairs = enumerate(zip(value, arguments, strict=True))
        return _first(problem(v, a, f"{path}[{i}]") for i, (v, a) in pairs)
    if origin is dict:
        return None if isinstance(value, Mapping) else f"{path} is {value!r}, expected an object"
    return _problem_of_scalar(value, kind, path)


def _problem_of_fields(value: object, kind: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{path} is {value!r}, expected {kind.__name__}"
    hints = _hints(kind)
    missing = sorted(hints.keys() - value.keys())
    unknown = sorted(value.keys() - hints.keys() - {"to"})
    if missing or unknown:
        return f"{path} is not {kind.__name__}: missing {missing}, unknown {unknown}"
    return _first(problem(value[name], hint, f"{path}.{name}") for name, hint in hints.items())


def _problem_of_union(value: object, kinds: tuple[Any, ...], path: str) -> str | None:
    tagged = {get_args(_hints(k)["type"])[0]: k for k in kinds if "type" in _hints(k)}
    if tagged:
        tag = value.get("type") if isinstance(value, Mapping) else None
        if tag not in tagged:
            return f"{path} has type {tag!r}, expected one of {sorted(tagged)}"
        return problem(value, tagged[tag], path)
    problems = [problem(value, k, path) for k in kinds]
    return None if None in problems else problems[0]


def _problem_of_scalar(value: object, kind: Any, path: str) -> str | None:
    if kind is Any:
        return None
    accepted = (int, float) if kind is float else (kind,)
    is_flag = isinstance(value, bool) and kind is not bool
    if isinstance(value, accepted) and not is_flag:
        return None
    name = "null" if kind is NoneType else kind.__name__
    return f"{path} is {value!r}, expected {name}"


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind) if is_typeddict(kind) else {}


def _first(problems: Any) -> str | None:
    return next((p for p in problems if p is not None), None)
