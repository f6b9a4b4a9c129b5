"""Textbook algorithms for collectives, as steps in which members send blocks to each other.

Members are positions in a group of `n`, 0 to n - 1. A block is a number with a meaning that depends on the collective:
  all-gather: block b is the operand of member b.
  reduce-scatter, all-reduce: block b is the b-th part of every member's operand.
  all-to-all: block `i * n + j` is the part that member i sends to member j.
  broadcast: block b is the b-th part of member 0's operand.

Rings and bidirectional rings: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009. Halving, doubling and trees: Thakur, Rabenseifner, Gropp, "Optimization of collective
communication operations in MPICH", 2005. Double binary trees: Sanders, Speck, Träff, "Two-tree algorithms for full
bandwidth broadcast, reduction and scan", 2009. Runtimes do not document which algorithm they use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from inspector.errors import Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """A message from one member to another in one step.

    Attributes:
      sender: position of the sender in the group.
      receiver: position of the receiver in the group.
      blocks: numbers of the blocks, at least one.
      adds: whether the receiver combines the blocks with its own values of them.
    """

    sender: int
    receiver: int
    blocks: tuple[int, ...]
    adds: bool = False


Step: TypeAlias = tuple[Transfer, ...]
"""Transfers at the same time: every member sends the data that it had before the step."""
Schedule: TypeAlias = tuple[Step, ...]
MemberBlocks: TypeAlias = Mapping[int, frozenset[int]]
"""The blocks of a member: for each block the positions of the members whose values are in it."""

ALGORITHMS = ("ring", "bidirectional ring", "halving and doubling", "tree", "double binary tree", "direct")
OPCODES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-broadcast")


def schedule(opcode: str, algorithm: str, count: int) -> Schedule | Unavailable:
    """Returns the steps of an algorithm among `count` members.

    A bidirectional ring sends block b in two halves, 2b and 2b + 1.
    """
    if opcode not in OPCODES:
        return Unavailable(f"textbooks have no algorithm for {opcode}")
    steps = _MAKERS[algorithm](opcode, count)
    return steps if isinstance(steps, Unavailable) else tuple(step for step in steps if step)


def _ring(opcode: str, n: int) -> Schedule:
    match opcode:
        case "all-gather":
            return _ring_steps(n, n - 1, lambda member, step: [(member - step) % n])
        case "reduce-scatter":
            return _ring_steps(n, n - 1, lambda member, step: [(member - step - 1) % n], adds=True)
        case "all-reduce":
            return _ring("reduce-scatter", n) + _ring("all-gather", n)
        case "all-to-all":
            return _ring_steps(
                n,
                n - 1,
                lambda member, step: [
                    (member - step) % n * n + (member - step + far) % n for far in range(step + 1, n)
                ],
            )
        case _:  # block b leaves member 0 in step b
            return _ring_steps(
                n, 2 * n - 2, lambda member, step: [step - member] if member < n - 1 and 0 <= step - member < n else []
            )


def _ring_steps(n: int, count: int, sent: Callable[[int, int], Sequence[int]], *, adds: bool = False) -> Schedule:
    """Returns steps in which every member sends to the next."""
    return tuple(
        tuple(
            Transfer(member, (member + 1) % n, tuple(blocks), adds)
            for member in range(n)
            if (blocks := sent(member, step))
        )
        for step in range(count)
    )


def _two_rings(opcode: str, n: int) -> Schedule:
    """Returns steps that send the two halves of all blocks in opposite directions at the same time."""

    def mirrored(block: int) -> int:
        if opcode == "all-to-all":
            return -(block // n) % n * n + -(block % n) % n
        return block if opcode == "collective-broadcast" else -block % n

    def halves(transfer: Transfer) -> tuple[Transfer, Transfer]:
        there = dataclasses.replace(transfer, blocks=tuple(2 * block for block in transfer.blocks))
        back = tuple(2 * mirrored(block) + 1 for block in transfer.blocks)
        return there, dataclasses.replace(
            transfer, sender=-transfer.sender % n, receiver=-transfer.receiver % n, blocks=back
        )

    return tuple(tuple(half for transfer in step for half in halves(transfer)) for step in _ring(opcode, n))


def _halving(opcode: str, n: int) -> Schedule | Unavailable:
    if n & (n - 1):
        return Unavailable(f"halving and doubling needs 2, 4, 8, ... members, not {n}")
    distances = [1 << bit for bit in range(n.bit_length() - 1)]

    def same(block: int, member: int, distance: int) -> bool:
        """Reports whether the numbers agree in the bit of this distance and all higher ones."""
        return block // distance == member // distance

    def steps(order: Sequence[int], sent: Callable[[int, int], Sequence[int]], *, adds: bool = False) -> Schedule:
        return tuple(
            tuple(
                Transfer(member, member ^ distance, tuple(blocks), adds)
                for member in range(n)
                if (blocks := sent(member, distance))
            )
            for distance in order
        )

    match opcode:
        case "all-gather":
            return steps(distances, lambda member, d: [b for b in range(n) if same(b, member, d)])
        case "reduce-scatter":
            return steps(distances[::-1], lambda member, d: [b for b in range(n) if same(b, member ^ d, d)], adds=True)
        case "all-reduce":
            return (*_steps(_halving("reduce-scatter", n)), *_steps(_halving("all-gather", n)))
        case "all-to-all":  # blocks for members that differ in this bit, from members that agree in the lower bits
            return steps(
                distances,
                lambda member, d: [
                    i * n + j
                    for i in range(n)
                    for j in range(n)
                    if i // d == member // d and (i ^ j) & d and (j ^ member) % d == 0
                ],
            )
        case _:
            scatter = steps(
                distances[::-1],
                lambda member, d: [b for b in range(n) if same(b, member ^ d, d)] if member % (2 * d) == 0 else [],
            )
            return (*scatter, *_steps(_halving("all-gather", n)))


def _tree(opcode: str, n: int) -> Schedule | Unavailable:
    """Returns the steps of a binomial tree with root 0: in step k of the way down, each member m < 2^k sends to m + 2^k."""
    distances = [1 << bit for bit in range((n - 1).bit_length())]

    def below(member: int, distance: int) -> list[int]:
        """Returns the blocks of the subtree below a member."""
        return [b for b in range(member, n) if (b - member) % distance == 0]

    def down(blocks: Callable[[int, int], Sequence[int]]) -> Schedule:
        return tuple(
            tuple(Transfer(m, m + d, tuple(blocks(m + d, 2 * d))) for m in range(min(d, n - d))) for d in distances
        )

    def up(blocks: Callable[[int, int], Sequence[int]], *, adds: bool) -> Schedule:
        return tuple(
            tuple(Transfer(m + d, m, tuple(blocks(m + d, 2 * d)), adds) for m in range(min(d, n - d)))
            for d in distances[::-1]
        )

    def everything(_member: int, _distance: int) -> range:
        return range(n)

    match opcode:
        case "all-gather":
            return up(below, adds=False) + down(everything)
        case "reduce-scatter":
            return up(everything, adds=True) + down(below)
        case "all-reduce":
            return up(everything, adds=True) + down(everything)
        case "all-to-all":
            return Unavailable("textbooks have no tree for all-to-all: all data would pass through one member")
        case _:
            return down(everything)


def _double_tree(opcode: str, n: int) -> Schedule | Unavailable:
    """Returns the steps of two binary trees, each of which sums and distributes every second block.

    The trees are pipelined: a member passes a block on in the step after it received it, while the next one arrives.
    A member with children in one tree has none in the other if `n` is even, so no member sends more than twice the operand.
    """
    if opcode != "all-reduce":
        return Unavailable(f"textbooks use two trees for sums and broadcasts, not for {opcode}")
    parents = {member: _parent(member, n) for member in range(1, n)}
    heights, depths = dict.fromkeys(range(n), 0), {0: 0}
    for member in sorted(parents, key=lambda member: member & -member):  # children before parents
        heights[parents[member]] = max(heights[parents[member]], heights[member] + 1)
    for member in sorted(parents, key=lambda member: -heights[member]):
        depths[member] = depths[parents[member]] + 1
    steps: list[list[Transfer]] = [[] for _ in range(-(-n // 2) - 1 + 2 * heights[0])] if n > 1 else []
    for block in range(n):
        first, name = block // 2, _mirrored(n) if block % 2 else range(n)
        for child, parent in parents.items():
            steps[first + heights[child]].append(Transfer(name[child], name[parent], (block,), adds=True))
            steps[first + heights[0] + depths[parent]].append(Transfer(name[parent], name[child], (block,)))
    return tuple(map(tuple, steps))


def _parent(member: int, n: int) -> int:
    """Returns the parent in a binary tree with root 0, in which odd members have no children."""
    bit = member & -member
    parent = (member ^ bit) | (bit << 1)
    return parent if parent < n else member ^ bit


def _mirrored(n: int) -> Sequence[int]:
    """Returns the members of the second tree by their place in the first: mirrored, or shifted if `n` is odd."""
    return [(member + 1) % n for member in range(n)] if n % 2 else range(n)[::-1]


def _direct(opcode: str, n: int) -> Schedule:
    def step(blocks: Callable[[int, int], Sequence[int]], *, adds: bool = False) -> Schedule:
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        return (tuple(Transfer(i, j, tuple(sent), adds) for i, j in pairs if (sent := blocks(i, j))),)

    match opcode:
        case "all-gather":
            return step(lambda sender, _: [sender])
        case "reduce-scatter":
            return step(lambda _, receiver: [receiver], adds=True)
        case "all-reduce":
            return _direct("reduce-scatter", n) + _direct("all-gather", n)
        case "all-to-all":
            return step(lambda i, j: [i * n + j])
        case _:
            return step(lambda sender, _: [] if sender else range(n))


def _steps(made: Schedule | Unavailable) -> Schedule:
    return () if isinstance(made, Unavailable) else made


_MAKERS: Mapping[str, Callable[[str, int], Schedule | Unavailable]] = {
    "ring": _ring,
    "bidirectional ring": _two_rings,
    "halving and doubling": _halving,
    "tree": _tree,
    "double binary tree": _double_tree,
    "direct": _direct,
}
