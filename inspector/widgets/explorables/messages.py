"""The messages of explorables. A browser gets one message with everything that it computes with."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets import messages
from inspector.widgets.panes.collective_parts.exchange_messages import ExchangeMessage


class AlgorithmCostMessage(TypedDict):
    """The cost of an algorithm, as `inspector.analysis.collectives.pricing.algorithm_costs.AlgorithmCost`.

    Attributes:
      busiest, sent: bytes per byte of the array.
    """

    algorithm: str
    steps: int
    hops: int
    busiest: float
    sent: float


class NetworkMessage(TypedDict):
    """Links with the cost of each algorithm on them.

    Attributes:
      bytes_per_s: speed of a link in one direction.
      latency_s: latency of a hop.
      source: origin of the speed.
    """

    name: str
    bytes_per_s: float
    latency_s: float
    source: str
    costs: list[AlgorithmCostMessage]


class PlayerMessage(TypedDict):
    """A collective among groups of ids, to be played step by step.

    Attributes:
      groups: logical ids of each group; pairs of a source and a target for a collective-permute.
      array_bytes: bytes of the whole array: see `AlgorithmCost.seconds`.
      operand: shape of the operand, "" if it is unknown.
      before, after: an example of the values on each id, in the order of the ids.
    """

    type: Literal["player"]
    opcode: str
    groups: list[list[int]]
    is_pairs: bool
    array_bytes: int
    operand: str
    exchanges: list[ExchangeMessage]
    networks: list[NetworkMessage]
    before: list[str]
    after: list[str]


class PlayerRunRequest(TypedDict):
    """Runs the collective of a player on virtual devices."""

    type: Literal["run_player"]
    id: int


class PlayerRun(TypedDict):
    """The values of a collective on each id, before and after a run."""

    type: Literal["player_run"]
    id: int
    error: messages.Error | None
    device_kind: str
    before: list[str]
    after: list[str]


class MeshBenchMessage(TypedDict):
    """A mesh over the chips of a slice.

    Attributes:
      axis_names, axis_sizes: the mesh, the last axis varying fastest.
      over: axes that the collective uses.
      shape, wraps: the slice, whose first axis varies fastest.
      devices: the device of each logical id.
    """

    type: Literal["mesh_bench"]
    axis_names: list[str]
    axis_sizes: list[int]
    over: list[str]
    shape: list[int]
    wraps: list[bool]
    devices: list[int]


class MeshRunRequest(TypedDict):
    """Runs a sum over axes of a mesh on virtual devices."""

    type: Literal["run_mesh"]
    id: int
    axis_names: list[str]
    axis_sizes: list[int]
    over: list[str]


class MeshRun(TypedDict):
    """The groups that XLA has, and the sum on each logical id. Every id contributes two to the power of its number."""

    type: Literal["mesh_run"]
    id: int
    error: messages.Error | None
    replica_groups: str
    groups: list[list[int]]
    after: list[str]


class RaceTable(TypedDict):
    """The costs of a collective on several networks."""

    opcode: str
    networks: list[NetworkMessage]


class RaceMessage(TypedDict):
    """Algorithms whose times are compared over the size of the array.

    Attributes:
      members: number of devices.
      smallest_bytes, largest_bytes: range of sizes.
    """

    type: Literal["race"]
    opcode: str
    members: int
    smallest_bytes: int
    largest_bytes: int
    tables: list[RaceTable]


class GameMessage(TypedDict):
    """A product of arrays whose dimensions the reader shards.

    Attributes:
      operands: the letters of each operand's dimensions.
      result: the letters of the result.
      sizes: size of each letter's dimension.
      itemsize: bytes of an element.
      axis_names, axis_sizes: the mesh.
      memory_bytes: memory of a device.
    """

    type: Literal["sharding_game"]
    operands: list[str]
    result: str
    sizes: dict[str, int]
    dtype: str
    itemsize: int
    axis_names: list[str]
    axis_sizes: list[int]
    memory_bytes: int


class JudgeRequest(TypedDict):
    """Compiles the product with shardings: for each dimension of each operand, its axes; the same for the result."""

    type: Literal["judge"]
    id: int
    operands: list[list[list[str]]]
    result: list[list[str]]


class JudgedCollective(TypedDict):
    """A collective of the compiled product; `sent_bytes` is what a device sends at least."""

    opcode: str
    axes: str
    operand: str
    sent_bytes: float


class Judged(TypedDict):
    """The compiled product.

    Attributes:
      sent_bytes: bytes that a device sends in all collectives.
      memory_bytes: peak memory of a device; None if unknown.
    """

    type: Literal["judged"]
    id: int
    error: messages.Error | None
    collectives: list[JudgedCollective]
    sent_bytes: float
    memory_bytes: int | None


OfExplorable = PlayerMessage | PlayerRun | MeshBenchMessage | MeshRun | RaceMessage | GameMessage | Judged
"""The messages that Python sends."""
ToExplorable = PlayerRunRequest | MeshRunRequest | JudgeRequest
"""The requests that the browser sends."""
