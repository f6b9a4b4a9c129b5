"""`Exchange`: a collective performed by a textbook algorithm, with each member's data after each step.

Runtimes do not document which algorithm they use; these are textbook algorithms. Each ends with the result that the
collective is defined to have, which `play` demonstrates with numbers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.textbook import (
    ALGORITHMS,
    MemberBlocks,
    Schedule,
    Step,
    Transfer,
    schedule,
)
from inspector.errors import ModuleError, ParameterError, Unavailable
from inspector.support.notebook import short
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array: TypeAlias = npt.NDArray[Any]

_KINDS: Mapping[str, Kind] = {
    "step": "int",
    "messages": "int",
    "sent_bytes": "float",
    "link_bytes": "float",
    "seconds": "float",
}
_MOST_MEMBERS = 1 << 10


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Exchange(Tabular):
    """The steps of an algorithm for one group of a collective.

    Attributes:
      opcode: opcode of the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      members: logical ids, by position in the group.
      operand_bytes: input bytes of one member.
      steps: the transfers of each step; senders and receivers are positions in the group.
      links: links between the members.
    """

    opcode: str
    algorithm: str
    members: tuple[int, ...]
    operand_bytes: int
    steps: Schedule
    links: Links

    def __repr__(self) -> str:
        seconds = "" if isinstance(self.seconds, Unavailable) else f", {self.seconds * 1e6:.3g} µs"
        return (
            f"<{self.opcode} of {len(self.members)} members by {self.algorithm}: {len(self.steps)} steps, each member"
            f" sends at most {format_bytes(round(self.most_sent_bytes))}{seconds}>"
        )

    @property
    def parts(self) -> int:
        """Number of parts of a block that are sent separately: 2 on a bidirectional ring."""
        return 2 if self.algorithm == "bidirectional ring" else 1

    @property
    def block_bytes(self) -> float:
        """Size of one block, or of half a block if halves are sent separately."""
        is_whole = self.opcode in ("all-gather", "collective-permute")
        return self.operand_bytes / (1 if is_whole else len(self.members)) / self.parts

    @property
    def sent_bytes(self) -> tuple[float, ...]:
        """Bytes that each member sends in all steps, by position."""
        return self._moved(lambda transfer: transfer.sender)

    @property
    def received_bytes(self) -> tuple[float, ...]:
        """Bytes that each member receives in all steps, by position."""
        return self._moved(lambda transfer: transfer.receiver)

    @property
    def most_sent_bytes(self) -> float:
        """Bytes that the busiest sender sends in all steps."""
        return max(self.sent_bytes, default=0.0)

    @property
    def seconds(self) -> float | Unavailable:
        """Estimated time of all steps in sequence: the latency of their hops, and the bytes on the busiest links over the speed."""
        busiest = sum(max(self.link_bytes(step).values(), default=0.0) for step in self.steps)
        return self.links.seconds(sum(map(self.hops, self.steps)), busiest)

    def hops(self, step: Step) -> int:
        """Returns the number of hops of the longest path in a step."""
        return max((self.links.hops(t.sender, t.receiver, len(self.members)) for t in step), default=0)

    def link_bytes(self, step: Step) -> Mapping[tuple[str, int, int], float]:
        """Returns the bytes on each link in one step. Links are named as in `Links.route`."""
        loads: dict[tuple[str, int, int], float] = {}
        for transfer in step:
            for share, links in self.links.ways(transfer.sender, transfer.receiver, len(self.members)):
                for link in links:
                    loads[link] = loads.get(link, 0.0) + share * len(transfer.blocks) * self.block_bytes
        return loads

    def blocks(self, step: int) -> tuple[MemberBlocks, ...]:
        """Returns the blocks of every member after a number of steps, by position.

        Raises:
          ParameterError: the exchange does not have that many steps.
        """
        if not 0 <= step <= len(self.steps):
            raise ParameterError(f"There is no state after {step} steps: the exchange has {len(self.steps)}.")
        states = [dict(each) for each in self._beginning()]
        for transfers in self.steps[:step]:
            before = [dict(each) for each in states]
            for transfer in transfers:
                target = states[transfer.receiver]
                for block in transfer.blocks:
                    sources = before[transfer.sender][block]
                    target[block] = target.get(block, frozenset()) | sources if transfer.adds else sources
                    if self.opcode == "all-to-all":  # only its destination keeps a block
                        del states[transfer.sender][block]
        return tuple(states)

    def play(
        self, operands: Sequence[Array], combine: Callable[[Array, Array], Array] = np.add, dimension: int = 0
    ) -> list[Array]:
        """Performs the exchange with numbers.

        Args:
          operands: operand of every member, by position, all of one shape.
          combine: combines two values into one, as in an all-reduce.
          dimension: the gathered, scattered or split dimension; all-reduce and broadcast have none.

        Returns:
          The collective's result on every member, by position.

        Raises:
          ParameterError: the number of operands differs from the number of members, or the dimension cannot be split
            among them.
        """
        count = len(self.members)
        if len(operands) != count:
            raise ParameterError(f"Got {len(operands)} operands for {count} members. Pass one operand per member.")
        arrays = [np.asarray(operand) for operand in operands]
        if self.opcode in ("reduce-scatter", "all-to-all") and arrays[0].shape[dimension] % count:
            raise ParameterError(
                f"Cannot split dimension {dimension} of {arrays[0].shape} among {count} members: its size must be a"
                " multiple of their number."
            )
        cut = [self._cut(operand, dimension) for operand in arrays]
        values = [{b: cut[member][b] for b in blocks} for member, blocks in enumerate(self._beginning())]
        for step in self.steps:
            before = [dict(each) for each in values]
            for transfer in step:
                target = values[transfer.receiver]
                for block in transfer.blocks:
                    value = before[transfer.sender][block]
                    target[block] = combine(target[block], value) if transfer.adds and block in target else value
        return [self._joined(member, values[member], arrays[member], dimension) for member in range(count)]

    def block_name(self, block: int) -> str:
        """Returns a block's name: its number, with "a" or "b" for a half; for an all-to-all source and target, "0→2"."""
        whole, part = divmod(block, self.parts)
        half = "ab"[part] if self.parts > 1 else ""
        if self.opcode != "all-to-all":
            return f"{whole}{half}"
        source, target = divmod(whole, len(self.members))
        return f"{self.members[source]}→{self.members[target]}{half}"

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per step.

        Columns:
          step: number of the step, from 1.
          messages: number of transfers.
          sent_bytes: bytes that the busiest member sends.
          link_bytes: bytes on the busiest link.
          seconds: estimated time.
        """
        rows = []
        for number, step in enumerate(self.steps, 1):
            sent = [0.0] * len(self.members)
            for transfer in step:
                if transfer.sender != transfer.receiver:
                    sent[transfer.sender] += len(transfer.blocks) * self.block_bytes
            loads = self.link_bytes(step)
            seconds = self.links.seconds(self.hops(step), max(loads.values(), default=0.0))
            shown = None if isinstance(seconds, Unavailable) else seconds
            rows.append((number, len(step), max(sent), max(loads.values(), default=0.0), shown))
        return make_table(_KINDS, rows)

    def plot(self, most_frames: int = 9) -> Figure:
        """Draws a strip of frames, one before the first step and one after each step: see `plot.strip`."""
        from inspector.analysis.collectives.exchanges.plot import strip

        states = [self.blocks(step) for step in range(len(self.steps) + 1)]
        count = 1 + max((block for state in states for blocks in state for block in blocks), default=0)
        names = [self.block_name(block) for block in range(count)]
        title = f"{self.opcode} of {len(self.members)} members by {self.algorithm} (textbook)"
        return strip(states, self.steps, self.members, names, title, most_frames)

    def _moved(self, end: Callable[[Transfer], int]) -> tuple[float, ...]:
        moved = [0] * len(self.members)
        for transfer in itertools.chain.from_iterable(self.steps):
            if transfer.sender != transfer.receiver:
                moved[end(transfer)] += len(transfer.blocks)
        return tuple(blocks * self.block_bytes for blocks in moved)

    def _beginning(self) -> list[MemberBlocks]:
        count, all_parts = len(self.members), len(self.members) * self.parts
        own = [frozenset({member}) for member in range(count)]
        match self.opcode:
            case "all-gather":
                return [dict.fromkeys(self._of(member), own[member]) for member in range(count)]
            case "collective-permute":
                return [{member: own[member]} for member in range(count)]
            case "reduce-scatter" | "all-reduce":
                return [dict.fromkeys(range(all_parts), own[member]) for member in range(count)]
            case "all-to-all":
                return [
                    {b: own[member] for other in range(count) for b in self._of(member * count + other)}
                    for member in range(count)
                ]
            case _:
                return [dict.fromkeys(range(all_parts), own[0]), *[{}] * (count - 1)]

    def _of(self, block: int) -> range:
        """Returns the numbers of the separately sent parts of a block."""
        return range(block * self.parts, (block + 1) * self.parts)

    def _cut(self, operand: Array, dimension: int) -> Mapping[int, Array]:
        """Returns all blocks that a member could contribute, by number; for an all-gather all have the same value."""
        count = len(self.members)
        match self.opcode:
            case "all-gather" | "collective-permute":
                blocks = [operand] * count
            case "all-to-all":
                blocks = np.split(operand, count, dimension) * count
            case "reduce-scatter":
                blocks = np.split(operand, count, dimension)
            case _:
                blocks = np.array_split(operand.reshape(-1), count)
        parts = (part for block in blocks for part in np.array_split(block.reshape(-1), self.parts))
        return dict(enumerate(parts))

    def _joined(self, member: int, values: Mapping[int, Array], operand: Array, dimension: int) -> Array:
        count = len(self.members)

        def whole(block: int, shape: tuple[int, ...]) -> Array:
            return np.concatenate([values[b] for b in self._of(block)]).reshape(shape)

        block_shape = list(operand.shape)
        if self.opcode in ("reduce-scatter", "all-to-all"):
            block_shape[dimension] //= count
        shape = tuple(block_shape)
        match self.opcode:
            case "all-gather":
                return np.concatenate([whole(b, shape) for b in range(count)], dimension)
            case "collective-permute":
                received = [b for b in values if any(t.receiver == member and b in t.blocks for t in self.steps[0])]
                return values[received[0]].reshape(shape) if received else np.zeros_like(operand)
            case "reduce-scatter":
                return whole(member, shape)
            case "all-to-all":
                return np.concatenate([whole(b * count + member, shape) for b in range(count)], dimension)
            case _:
                return np.concatenate([values[b] for b in range(count * self.parts)]).reshape(shape)


def exchange(collective: Collective, algorithm: str, group: int, links: Links) -> Exchange:
    """Returns the exchange of one group of a collective.

    A collective-permute has no groups: all ids take part, all pairs at once, whatever the algorithm.

    Args:
      collective: the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      group: index of the group.
      links: links between the members.

    Raises:
      ParameterError: an unknown algorithm, or no such group.
      ModuleError: the groups are unknown, no textbook has this algorithm for the collective, or there are too many
        members to follow each.
    """
    if algorithm not in ALGORITHMS:
        raise ParameterError(f"Got the algorithm {short(algorithm)}; expected one of {', '.join(ALGORITHMS)}.")
    groups = collective.participants
    if isinstance(groups, Unavailable):
        raise ModuleError(f"The members of {collective.name} are unknown: {groups.reason}")
    steps: Schedule | Unavailable
    if collective.opcode == "collective-permute":
        algorithm = "direct"
        members = tuple(range(1 + max(itertools.chain.from_iterable(groups), default=0)))
        steps = (tuple(Transfer(sender, receiver, (sender,)) for sender, receiver in groups),)
    elif 0 <= group < len(groups):
        members = tuple(groups[group])
        steps = schedule(collective.opcode, algorithm, len(members)) if len(members) <= _MOST_MEMBERS else ()
    else:
        raise ParameterError(f"{collective.name} has no group {group}: it has {len(groups)}, numbered from 0.")
    if len(members) > _MOST_MEMBERS:
        raise ModuleError(f"{len(members):,} members are too many to follow each. The limit is {_MOST_MEMBERS:,}.")
    if isinstance(steps, Unavailable):
        raise ModuleError(f"Cannot show {collective.name} by {algorithm}: {steps.reason}.")
    return Exchange(collective.opcode, algorithm, members, collective.operand_bytes, steps, links)
