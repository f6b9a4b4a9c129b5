"""Textbook algorithms for collectives, as the browser plays them step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, schedule
from inspector.errors import Unavailable

# Largest group whose exchange can be followed, and largest group for all-to-all, where each member has a different block for
# each other member.
_MOST_FOLLOWED = 16
_MOST_SENT = 8


class TransferMessage(TypedDict):
    """The blocks that one member of a group sends to another in one step.

    The same as `inspector.analysis.collectives.exchanges.textbook.Transfer`.
    """

    sender: int
    receiver: int
    blocks: list[int]
    adds: bool


class ExchangeMessage(TypedDict):
    """A textbook algorithm for a collective among a number of members, which are positions in a group.

    Attributes:
      opcode: opcode of the collective.
      algorithm: name of the algorithm.
      members: number of members.
      parts: number of parts of a block that travel separately.
      steps: the transfers of each step.
    """

    opcode: str
    algorithm: str
    members: int
    parts: int
    steps: list[list[TransferMessage]]


def most_followed(opcode: str) -> int:
    """Returns the largest group whose exchange is small enough for a screen."""
    return _MOST_SENT if opcode == "all-to-all" else _MOST_FOLLOWED


def exchange_messages(opcode: str, members: int) -> Iterator[ExchangeMessage]:
    """Yields the algorithms for a collective among a number of members; none if they are too many for a screen."""
    if not 1 < members <= most_followed(opcode):
        return
    for algorithm in ALGORITHMS:
        steps = schedule(opcode, algorithm, members)
        if isinstance(steps, Unavailable):
            continue
        yield ExchangeMessage(
            opcode=opcode,
            algorithm=algorithm,
            members=members,
            parts=2 if algorithm == "bidirectional ring" else 1,
            steps=[
                [
                    TransferMessage(sender=t.sender, receiver=t.receiver, blocks=list(t.blocks), adds=t.adds)
                    for t in step
                ]
                for step in steps
            ],
        )
