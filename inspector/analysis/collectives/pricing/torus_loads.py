"""Bytes on each link of a torus during a collective: per byte of the collective, and with the number of hops.

Gathers, reductions and broadcasts of boxes use all links between their members: data arrives at a member over two links per
ring and one link per line, so a gather of V bytes over two rings takes (n - 1) / n V / (4 W) for links of W bytes/s in one
direction (jax-ml.github.io/scaling-book/sharding). Groups that share links share their speed. An all-to-all sends each
block along the shortest way (a quarter of a gather's bytes on a ring), and so does a permute. Members of other groups pass
data around a ring in the order of a snake through the slice.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.torus_members import Loads, Members, Numbers, places_of

_MOST_PAIRS = 1 << 21  # of members whose ways are followed one by one, with NumPy


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The use of the links by all groups of a collective at the same time.

    Attributes:
      hops: number of hops in sequence.
      per_byte: bytes on each link per byte of the collective, for each axis `[2, *shape]`: from each chip in the
        directions + and -. () for a switch.
      busiest: bytes on the busiest link per byte of the collective.
      algorithm: the routes in words.
      doubt: the reason why the loads are a rough estimate; "" if there is none.
    """

    hops: int
    per_byte: tuple[Loads, ...]
    busiest: float
    algorithm: str
    doubt: str = ""


def _load(hops: int, per_byte: list[Loads], algorithm: str, doubt: str = "") -> Load:
    busiest = max((float(axis.max(initial=0.0)) for axis in per_byte), default=0.0)
    return Load(hops, tuple(per_byte), busiest, algorithm, doubt)


def all_links(members: Members, arriving: Loads, *, most_links: int = 0) -> Load:
    """Returns the load of a collective in which data arrives at every member over all its links: a gather or a broadcast.

    Args:
      members: the groups.
      arriving: bytes that arrive at each member of a group, per byte of the collective: `[groups]`.
      most_links: the number of links that the algorithm uses at a chip; 0 for all.
    """
    if not members.are_boxes:
        return ring_of_snake(members, arriving)
    groups, axes = len(members.count), range(len(members.torus.shape))
    links, hops = np.zeros(groups), np.zeros(groups, np.int64)
    sharing = [_sharing(members, axis) for axis in axes]
    for axis in axes:
        for line, numbers in members.lines[axis]:
            links[numbers] += line.links / max(sharing[axis], 1.0)
            hops[numbers] += line.hops
    used = np.minimum(links, most_links) if most_links else links
    # Every link between members has the same load, as far as the algorithm uses it.
    factor = np.divide(arriving, used, out=np.zeros(groups), where=used > 0)
    loads = [np.zeros((2, *members.torus.shape)) for _ in axes]
    for axis in axes:
        for line, numbers in members.lines[axis]:
            if line.links:
                loads[axis] += members.spread(axis, line, numbers, factor[numbers] / sharing[axis], line.used)
    return _load(int(hops.max(initial=0)), loads, _routes(members))


def _routes(members: Members) -> str:
    """Returns the routes of a gather in words, such as "bidirectional rings along 2 axes"."""
    kinds = [max((line.links for line, _ in lines), default=0) for lines in members.lines]
    used = [("line", "bidirectional ring")[links - 1] for links in kinds if links]
    if len(used) > 1:
        return f"{' and '.join(f'{kind}s' for kind in dict.fromkeys(used))} along {len(used)} axes"
    return used[0] if used else "nothing"


def _sharing(members: Members, axis: int) -> float:
    """Returns the largest number of groups that use one link of an axis."""
    total = np.zeros((2, *members.torus.shape))
    for line, numbers in members.lines[axis]:
        if line.links:
            total += members.spread(axis, line, numbers, np.ones(len(numbers)), line.used)
    return float(total.max(initial=0.0))


def shortest_ways(members: Members) -> Load:
    """Returns the load of an all-to-all, per byte of one member's operand."""
    if not members.are_boxes:
        return _pairs_of_all(members)
    torus, loads, hops = members.torus, [], np.zeros(len(members.count), np.int64)
    for axis in range(len(torus.shape)):
        load = np.zeros((2, *torus.shape))
        for line, numbers in members.lines[axis]:
            hops[numbers] += line.farthest
            if line.links:
                each = members.count[numbers] / np.maximum(members.chips[numbers], 1) / line.count
                load += members.spread(axis, line, numbers, each, line.crossed)
        loads.append(load)
    return _load(int(hops.max(initial=0)), loads, "shortest ways")


def _pairs_of_all(members: Members) -> Load:
    groups, longest = members.devices.shape
    if groups * longest * longest > _MOST_PAIRS:
        arriving = (members.chips - 1) / np.maximum(members.chips, 1)
        rough = ring_of_snake(members, arriving)
        return dataclasses.replace(rough, doubt="that exchanges blocks in an irregular group, timed as a ring")
    first, second = (np.broadcast_to(members.devices[:, a, b], (groups, longest, longest)) for a, b in _BOTH)
    kept = (first >= 0) & (second >= 0) & (first != second)
    weights = np.broadcast_to((1.0 / np.maximum(members.count, 1))[:, None, None], kept.shape)[kept]
    return routed(members.torus, first[kept], second[kept], weights, "shortest ways")


_BOTH = ((slice(None), None), (None, slice(None)))


def routed(torus: Torus, senders: Numbers, receivers: Numbers, weights: Loads, algorithm: str) -> Load:
    """Returns the load of messages that all travel at the same time along the shortest ways, first axis first.

    Args:
      torus: the slice.
      senders: device ids.
      receivers: device ids, one per sender.
      weights: bytes of each message.
      algorithm: as in `Load`.
    """
    here = places_of(torus, senders // torus.devices_per_chip)
    goal = places_of(torus, receivers // torus.devices_per_chip)
    hops, loads = np.zeros(len(senders), np.int64), []
    for axis, size in enumerate(torus.shape):
        ahead = goal[axis] - here[axis]
        around = np.where(2 * (ahead % size) > size, ahead % size - size, ahead % size)
        distance = around if torus.has_ring(axis) else ahead
        is_tie = (2 * distance == size) & torus.has_ring(axis)
        hops += np.abs(distance)
        load = np.zeros((2, *torus.shape))
        for way, takes in ((0, distance > 0), (1, (distance < 0) | is_tie)):
            share = np.where(is_tie, 0.5, 1.0)[takes] * weights[takes]
            place = [each[takes] for each in here]
            _add_line(load[way], axis, place, np.abs(distance)[takes], share, -1 if way else 1)
        loads.append(load)
        here[axis] = goal[axis]
    return _load(int(hops.max(initial=0)), loads, algorithm)


def _add_line(load: Loads, axis: int, begin: list[Numbers], hops: Numbers, weights: Loads, way: int) -> None:
    """Adds messages that travel along one axis, from each begin over a number of links in one direction."""
    size = load.shape[axis]
    along = begin[axis] if way > 0 else size - 1 - begin[axis]
    others = [each for number, each in enumerate(begin) if number != axis]
    shape = [length for number, length in enumerate(load.shape) if number != axis]
    lines = np.ravel_multi_index(others, shape) if shape else np.zeros(len(along), np.int64)
    changes = np.zeros((int(np.prod(shape, dtype=np.int64)), 2 * size + 1))
    np.add.at(changes, (lines, along), weights)
    np.add.at(changes, (lines, along + hops), -weights)
    carried = np.cumsum(changes, axis=1)
    whole = carried[:, :size] + carried[:, size : 2 * size]
    load += np.moveaxis((whole if way > 0 else whole[:, ::-1]).reshape(*shape, size), -1, axis)


def ring_of_snake(members: Members, arriving: Loads) -> Load:
    """Returns the load of groups that pass data around a ring in both directions, in the order of a snake."""
    snake = _snake(members)
    order = np.argsort(np.where(members.is_member, snake, np.iinfo(np.int64).max), axis=1, kind="stable")
    devices = np.take_along_axis(members.devices, order, axis=1)
    following = np.roll(devices, -1, axis=1)
    last = np.maximum(members.count - 1, 0)
    following[np.arange(len(devices)), last] = devices[:, 0]
    kept = (devices >= 0) & (following >= 0) & (devices != following)
    a, b = devices[kept], following[kept]
    half = np.broadcast_to((arriving / 2)[:, None], kept.shape)[kept]
    both = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([half, half])
    step = routed(members.torus, *both, "bidirectional ring")
    return dataclasses.replace(step, hops=step.hops * int(members.count.max(initial=1)) // 2)


def _snake(members: Members) -> Numbers:
    """Returns the position of each member on a path that visits neighboring chips in sequence."""
    position = np.zeros(members.devices.shape, np.int64)
    for size, place in reversed(list(zip(members.torus.shape, members.places, strict=True))):
        forward = position % 2 == 0
        position = position * size + np.where(forward, place, size - 1 - place)
    return position
