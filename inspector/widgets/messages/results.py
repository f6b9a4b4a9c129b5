"""What is known of a program: numbers, differences, collectives, a graph, a run."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error, GraphMode, SourceLine, Stage, State


class StatsRow(TypedDict):
    """One number of a variant. With a `reason` it is not known: None, or at least the `value`."""

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
      baseline: the Explorer's, or the first variant for the same target.
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


class Member(TypedDict):
    """One logical id's part in a collective.

    Attributes:
      group: index of its group, None in a collective-permute, which has pairs.
      position: its place in the group.
      logical_id: its place in the program's device assignment.
      coordinates: its place on each mesh axis, or None without a mesh.
      before, after: what it holds, in words.
    """

    group: int | None
    position: int | None
    logical_id: int
    replica: int
    partition: int
    coordinates: list[int] | None
    before: str
    after: str


class Collective(TypedDict):
    """A collective instruction.

    Attributes:
      axes: the mesh axes it works over, None when its groups are no axes; then `axes_reason`.
      groups: lists of ids, or source-target pairs when `is_pairs`.
      operand_bytes: bytes of all operands on one device, each time that it runs.
      executions: how often it runs in one execution of the program, None when unknown; then `executions_reason`.
      phases: the parts of a differentiated program that it belongs to.
      source_from: which instruction `source` is from, or why there is none.
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
    operand_bytes: int
    executions: int | None
    executions_reason: str
    phases: list[str]
    source: SourceLine | None
    source_from: str
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
