"""The same program written otherwise: every name and number another, everything in another order."""

from __future__ import annotations

import random
from typing import Any

from inspector.hlo.module import Module
from inspector.hlo.reading.module_message import decoded

_LINKS = ("operand_ids", "control_predecessor_ids", "called_computation_ids")


def scrambled(module: Module, seed: int) -> Module:
    """A module renamed and reordered at random, operands before users and callees before callers."""
    proto, generator = decoded(module.columns.data), random.Random(seed)
    ids = _renumbered([c.id for c in proto.computations], generator)
    proto.entry_computation_id = ids[proto.entry_computation_id]
    proto.name = "other"
    channels: dict[int, int] = {}
    schedule = {old: [*sequence.instruction_ids] for old, sequence in proto.schedule.sequences.items()}
    proto.ClearField("schedule")
    for computation in proto.computations:
        own = _renumbered([i.id for i in computation.instructions], generator)
        if computation.id in schedule:
            order = [own[each] for each in schedule[computation.id]]
            proto.schedule.sequences[ids[computation.id]].instruction_ids.extend(order)
        computation.id, computation.root_id = ids[computation.id], own[computation.root_id]
        computation.name = f"c.{computation.id}"
        for i in computation.instructions:
            i.id = own[i.id]
            i.name = f"i.{i.id}.{computation.id}"
            i.metadata.Clear()
            if i.channel_id > 0:
                i.channel_id = channels.setdefault(i.channel_id, 1000 + len(channels))
            for field, numbers in zip(_LINKS, (own, own, ids), strict=True):
                values = [numbers[v] for v in getattr(i, field)]
                i.ClearField(field)
                getattr(i, field).extend(values)
        needs = {i.id: {*i.operand_ids, *i.control_predecessor_ids} for i in computation.instructions}
        _reorder(computation.instructions, needs, generator)
    calls = {c.id: {n for i in c.instructions for n in i.called_computation_ids} for c in proto.computations}
    _reorder(proto.computations, calls, generator)
    return Module.from_proto(proto.SerializeToString())


def _renumbered(ids: list[int], generator: random.Random) -> dict[int, int]:
    # Sparse, but not more: XLA reserves memory for every number up to the largest one.
    return dict(zip(ids, generator.sample(range(1, 8 * len(ids) + 64), len(ids)), strict=True))


def _reorder(repeated: Any, needs: dict[int, set[int]], generator: random.Random) -> None:
    """Puts messages in a random order in which each comes after those that it needs."""
    waiting = {each.id: each for each in repeated}
    copies = {key: type(each).FromString(each.SerializeToString()) for key, each in waiting.items()}
    users: dict[int, list[int]] = {}
    for key, needed in needs.items():
        for other in needed:
            users.setdefault(other, []).append(key)
    left = {key: len(needed) for key, needed in needs.items()}
    ready = [key for key in copies if not left[key]]
    order = []
    while ready:
        at = generator.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        order.append(ready.pop())
        for user in users.get(order[-1], ()):
            left[user] -= 1
            if not left[user]:
                ready.append(user)
    assert len(order) == len(copies), "a circle"
    del repeated[:]
    repeated.extend(copies[key] for key in order)
