"""Exercises on groups as HLO writes them: the iota notation, and the meaning of ids in each group mode."""

from __future__ import annotations

import math
import random

from inspector.course.answers import Groups
from inspector.course.question import Mistake, Question
from inspector.hlo.devices.group_mode import GroupMode, group_mode, id_count, participants
from inspector.hlo.devices.replica_groups import parse

_MODES = {
    GroupMode.CROSS_REPLICA: ("all-gather", "", "without a channel id, ids are replicas, and every partition has the same groups"),
    GroupMode.FLATTENED_ID: (
        "all-gather", ", channel_id=1, use_global_device_ids=true", "with global device ids, ids are devices",
    ),
    GroupMode.CROSS_PARTITION: (
        "all-to-all", ", channel_id=1", "an all-to-all with a channel id has partitions as ids, and every replica has the same groups",
    ),
    GroupMode.CROSS_REPLICA_AND_PARTITION: (
        "all-gather", ", channel_id=1", "with a channel id and without global device ids, ids are replicas with all of their partitions",
    ),
}  # fmt: skip
"""For each mode: an opcode that has it, the attributes, and the meaning of the ids."""


def iota(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the groups that an iota denotes."""
    count = draw.choice((6, 8, 8, 12) if level < 3 else (8, 8, 12, 16, 24))
    rank = min(level, 4)
    dimensions = _factors(draw, count, rank)
    order = list(range(len(dimensions)))
    while len(order) > 1 and order == sorted(order):
        draw.shuffle(order)
    members = draw.choice([size for size in range(2, count) if count % size == 0])
    reshaped = f"[{count // members},{members}]<=[{','.join(map(str, dimensions))}]"
    text = reshaped + (f"T({','.join(map(str, order))})" if len(order) > 1 else "")
    right = [[int(id_) for id_ in group] for group in parse(text).expand()]
    plain = [[*range(first, first + members)] for first in range(0, count, members)]
    return Question(
        f"Which groups does {text} denote, with their members in order?",
        Groups(ordered=True),
        lambda: right,
        f"np.arange({count}).reshape({dimensions}).transpose({order}).reshape({count // members}, {members}); each row is a group.",
        f"Write 0 to {count - 1} into an array of the shape after <=, reorder its dimensions as T says, then read rows of {members}.",
        () if sorted(right) == plain else (Mistake(plain, "That leaves out T: the dimensions are reordered before the rows are read."),),
    )  # fmt: skip


def group_modes(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the devices that exchange data, for a program with replicas and partitions."""
    sizes = (
        [(2, 2), (4, 1), (1, 4)] if level < 2 else [(2, 2), (2, 3), (3, 2)] if level < 4 else [(2, 4), (4, 2), (2, 3)]
    )
    replicas, partitions = draw.choice(sizes)
    modes = [mode for mode in _MODES if id_count(mode, replicas, partitions) > 1]
    mode = draw.choice(modes[:2] if level < 2 else modes)
    opcode, attributes, meaning = _MODES[mode]
    ids = id_count(mode, replicas, partitions)
    members = draw.choice(
        [size for size in range(1 if mode is GroupMode.CROSS_REPLICA_AND_PARTITION else 2, ids + 1) if ids % size == 0]
    )
    shuffled = draw.sample(range(ids), ids) if level > 2 else list(range(ids))
    written = "{" + ",".join(
        "{" + ",".join(map(str, shuffled[first : first + members])) + "}" for first in range(0, ids, members)
    ) + "}"  # fmt: skip
    read = group_mode(opcode, 1 if "channel_id" in attributes else None, "global" in attributes)

    def devices(of: GroupMode) -> list[list[int]]:
        return [[int(id_) for id_ in group] for group in participants(parse(written), of, replicas, partitions)]

    others = (other for other in GroupMode if other is not read and id_count(other, replicas, partitions) == ids)
    wrong = {str(sorted(map(sorted, devices(other)))): other for other in others}
    right = sorted(map(sorted, devices(read)))
    return Question(
        f"A program has {_counted(replicas, 'replica')} and {_counted(partitions, 'partition')} of each. Which devices"
        f" (replica * {partitions} + partition) exchange data in {opcode}(x), replica_groups={written}{attributes}?"
        " A device that exchanges with no other device is a group of its own.",
        Groups(),
        lambda: devices(read),
        f"The mode is {read}: {meaning}.",
        "First the mode: is there a channel id, are there global device ids, and which opcode is it? Then list the devices of each id.",
        tuple(Mistake(text, f"That is mode {mode}. Here, {meaning}.") for text, mode in wrong.items() if text != str(right)),
    )  # fmt: skip


def _factors(draw: random.Random, count: int, rank: int) -> list[int]:
    """Returns up to `rank` factors of a number, each of at least 2."""
    factors = [count]
    while len(factors) < rank:
        places = [place for place, factor in enumerate(factors) if _divisors(factor)]
        if not places:
            break
        place = draw.choice(places)
        divisor = draw.choice(_divisors(factors[place]))
        factors[place : place + 1] = [divisor, factors[place] // divisor]
    assert math.prod(factors) == count
    return factors


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(2, number) if number % divisor == 0]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"
