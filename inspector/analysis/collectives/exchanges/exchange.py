"""`Exchange`: a collective done by the algorithm of a textbook, with what every member has after each step.

No runtime says which algorithm it takes; these are the textbook's, and every one ends with what the collective
is defined to give, which `play` shows with numbers.
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
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, Held, Schedule, Step, Transfer, schedule
from inspector.errors import ModuleError, ParameterError, Unavailable
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
    """One group of a collective at work.

    Attributes:
      opcode: of the collective.
      algorithm: one of `textbook.ALGORITHMS`.
      members: their logical ids, by position in the group.
      operand_bytes: what one member puts in.
      steps: positions of who sends which blocks to whom.
      links: between the members.
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
            f"<{self.opcode} of {len(self.members)} members by {self.algorithm}: {len(self.steps)} steps, each sends"
            f" at most {format_bytes(round(self.most_sent_bytes))}{seconds}>"
        )

    @property
    def parts(self) -> int:
        """Parts of a block that travel apart: 2 on a bidirectional ring."""
        return 2 if self.algorithm == "bidirectional ring" else 1

    @property
    def block_bytes(self) -> float:
        """Of one block, or of its half where halves travel apart."""
        is_whole = self.opcode in ("all-gather", "collective-permute")
        return self.operand_bytes / (1 if is_whole else len(self.members)) / self.parts

    @property
    def sent_bytes(self) -> tuple[float, ...]:
        """By position, in all steps."""
        return self._moved(lambda transfer: transfer.sender)

    @property
    def received_bytes(self) -> tuple[float, ...]:
        """By position, in all steps."""
        return self._moved(lambda transfer: transfer.receiver)

    @property
    def most_sent_bytes(self) -> float:
        """By the member that sends most."""
        return max(self.sent_bytes, default=0.0)

    @property
    def seconds(self) -> float | Unavailable:
        """All steps, one after the other: latency, and the bytes on the busiest link over its speed."""
        return self.links.seconds([self.link_bytes(step) for step in self.steps])

    def link_bytes(self, step: Step) -> Mapping[tuple[str, int, int], float]:
        """By link, as `Links.route` names them."""
        loads: dict[tuple[str, int, int], float] = {}
        for transfer in step:
            for link in self.links.route(transfer.sender, transfer.receiver, len(self.members)):
                loads[link] = loads.get(link, 0.0) + len(transfer.blocks) * self.block_bytes
        return loads

    def held(self, step: int) -> tuple[Held, ...]:
        """What every member has after so many steps, by position.

        Raises:
          ParameterError: there are not so many steps.
        """
        if not 0 <= step <= len(self.steps):
            raise ParameterError(f"There is no state after {step} steps: the exchange has {len(self.steps)}.")
        held = [dict(each) for each in self._beginning()]
        for transfers in self.steps[:step]:
            before = [dict(each) for each in held]
            for transfer in transfers:
                mine = held[transfer.receiver]
                for block in transfer.blocks:
                    come = before[transfer.sender][block]
                    mine[block] = mine.get(block, frozenset()) | come if transfer.adds else come
                    if self.opcode == "all-to-all":  # it is nobody's but the one's that it is for
                        del held[transfer.sender][block]
        return tuple(held)

    def play(
        self, operands: Sequence[Array], combine: Callable[[Array, Array], Array] = np.add, dimension: int = 0
    ) -> list[Array]:
        """Does it with numbers.

        Args:
          operands: of every member, by position, of one shape.
          combine: two values into one, as of an all-reduce.
          dimension: that is gathered, scattered or split; all-reduce and broadcast have none.

        Returns:
          What every member has at the end, as the collective gives it.

        Raises:
          ParameterError: not one operand a member, or a dimension that cannot be split among them.
        """
        count = len(self.members)
        if len(operands) != count:
            raise ParameterError(f"There are {len(operands)} operands for {count} members: give one each.")
        given = [np.asarray(operand) for operand in operands]
        if self.opcode in ("reduce-scatter", "all-to-all") and given[0].shape[dimension] % count:
            raise ParameterError(
                f"Dimension {dimension} of {given[0].shape} cannot be split among {count} members: its size must be a"
                " multiple of their number."
            )
        cut = [self._cut(operand, dimension) for operand in given]
        values = [{b: cut[member][b] for b in held} for member, held in enumerate(self._beginning())]
        for step in self.steps:
            before = [dict(each) for each in values]
            for transfer in step:
                mine = values[transfer.receiver]
                for block in transfer.blocks:
                    come = before[transfer.sender][block]
                    mine[block] = combine(mine[block], come) if transfer.adds and block in mine else come
        return [self._joined(member, values[member], given[member], dimension) for member in range(count)]

    def block_name(self, block: int) -> str:
        """Its number, with "a" or "b" for a half; of an all-to-all the ids that it is from and for, "0→2"."""
        whole, part = divmod(block, self.parts)
        half = "ab"[part] if self.parts > 1 else ""
        if self.opcode != "all-to-all":
            return f"{whole}{half}"
        source, target = divmod(whole, len(self.members))
        return f"{self.members[source]}→{self.members[target]}{half}"

    def table(self) -> pd.DataFrame:
        """A row a step: messages, the bytes that the busiest member sends and the busiest link carries, seconds."""
        rows = []
        for number, step in enumerate(self.steps, 1):
            sent = [0.0] * len(self.members)
            for transfer in step:
                if transfer.sender != transfer.receiver:
                    sent[transfer.sender] += len(transfer.blocks) * self.block_bytes
            loads = self.link_bytes(step)
            seconds = self.links.seconds([loads])
            shown = None if isinstance(seconds, Unavailable) else seconds
            rows.append((number, len(step), max(sent), max(loads.values(), default=0.0), shown))
        return make_table(_KINDS, rows)

    def plot(self, most_frames: int = 9) -> Figure:
        """A strip of frames, before the first step and after each: see `plot.strip`."""
        from inspector.analysis.collectives.exchanges.plot import strip

        states = [self.held(step) for step in range(len(self.steps) + 1)]
        count = 1 + max((block for state in states for held in state for block in held), default=0)
        names = [self.block_name(block) for block in range(count)]
        title = f"{self.opcode} of {len(self.members)} members by {self.algorithm} (textbook)"
        return strip(states, self.steps, self.members, names, title, most_frames)

    def _moved(self, end: Callable[[Transfer], int]) -> tuple[float, ...]:
        moved = [0] * len(self.members)
        for transfer in itertools.chain.from_iterable(self.steps):
            if transfer.sender != transfer.receiver:
                moved[end(transfer)] += len(transfer.blocks)
        return tuple(blocks * self.block_bytes for blocks in moved)

    def _beginning(self) -> list[Held]:
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
        """The parts of a block that travel apart."""
        return range(block * self.parts, (block + 1) * self.parts)

    def _cut(self, operand: Array, dimension: int) -> Mapping[int, Array]:
        """Everything that a member could put in, by number of the block; of an all-gather the same for all."""
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
                come = [b for b in values if any(t.receiver == member and b in t.blocks for t in self.steps[0])]
                return values[come[0]].reshape(shape) if come else np.zeros_like(operand)
            case "reduce-scatter":
                return whole(member, shape)
            case "all-to-all":
                return np.concatenate([whole(b * count + member, shape) for b in range(count)], dimension)
            case _:
                return np.concatenate([values[b] for b in range(count * self.parts)]).reshape(shape)


def exchange(collective: Collective, algorithm: str, group: int, links: Links) -> Exchange:
    """One group of a collective by an algorithm; of a permutation, all ids, each pair at once, whatever the algorithm.

    Raises:
      ParameterError: an algorithm that nobody knows, or a group that is not there.
      ModuleError: the groups are not known, no textbook does it so, or too many take part to follow each.
    """
    if algorithm not in ALGORITHMS:
        raise ParameterError(f"Got the algorithm {algorithm!r}; expected one of {', '.join(ALGORITHMS)}.")
    groups = collective.participants
    if isinstance(groups, Unavailable):
        raise ModuleError(f"The members of {collective.name} are not known: {groups.reason}")
    steps: Schedule | Unavailable
    if collective.opcode == "collective-permute":
        algorithm = "direct"
        members = tuple(range(1 + max(itertools.chain.from_iterable(groups), default=0)))
        steps = (tuple(Transfer(sender, receiver, (sender,)) for sender, receiver in groups),)
    elif 0 <= group < len(groups):
        members = tuple(groups[group])
        steps = schedule(collective.opcode, algorithm, len(members)) if len(members) <= _MOST_MEMBERS else ()
    else:
        raise ParameterError(f"{collective.name} has no group {group}: it has {len(groups)}, counted from 0.")
    if len(members) > _MOST_MEMBERS:
        raise ModuleError(f"{len(members):,} members are too many to follow each: at most {_MOST_MEMBERS:,}.")
    if isinstance(steps, Unavailable):
        raise ModuleError(f"{collective.name} cannot be shown by {algorithm}: {steps.reason}.")
    return Exchange(collective.opcode, algorithm, members, collective.operand_bytes, steps, links)
