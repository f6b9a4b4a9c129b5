"""Slices: links agree with a search, loads with messages that are routed one by one."""

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import Sequence

import jax.numpy as jnp
import pytest
from jax import lax

import inspector
from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS
from inspector.analysis.collectives.exchanges.torus import Link, Place, Torus
from inspector.errors import ParameterError, TargetError, Unavailable
from inspector.platforms import TPU

SLICES = [
    Torus((4,), (True,)),
    Torus((2, 4), (False, False)),
    Torus((4, 4), (True, False)),
    Torus((5, 3), (True, True)),
    Torus((2, 2, 2), (True,) * 3),
    Torus((2, 3, 4), (False, True, True), devices_per_chip=2),
]


def neighbors(torus: Torus) -> dict[Place, list[Place]]:
    """Chips one apart along one axis, and the ends of an axis that wraps: said of each pair, not walked."""
    places = list(itertools.product(*map(range, torus.shape)))
    found: dict[Place, list[Place]] = {place: [] for place in places}
    for a, b in itertools.permutations(places, 2):
        apart = [(x, y, axis) for axis, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        if len(apart) == 1:
            ((x, y, axis),) = apart
            if abs(x - y) == 1 or (torus.wraps[axis] and abs(x - y) == torus.shape[axis] - 1):
                found[a].append(b)
    return found


def distances(links: dict[Place, list[Place]], start: Place) -> dict[Place, int]:
    found, queue = {start: 0}, collections.deque([start])
    while queue:
        place = queue.popleft()
        for other in links[place]:
            if other not in found:
                found[other] = found[place] + 1
                queue.append(other)
    return found


@pytest.mark.parametrize("torus", SLICES, ids=str)
def test_a_route_is_a_shortest_way_along_links_that_are_there(torus: Torus) -> None:
    joined = neighbors(torus)
    assert sorted(torus.links()) == sorted((a, b) for a, others in joined.items() for b in others)
    for sender in range(torus.device_count):
        far = distances(joined, torus.place(sender))
        for receiver in range(torus.device_count):
            route = torus.route(sender, receiver)
            ends = [torus.place(sender), *(b for _, b in route)]
            assert [a for a, _ in route] == ends[:-1]
            assert ends[-1] == torus.place(receiver)
            assert all(b in joined[a] for a, b in route)
            assert len(route) == far[torus.place(receiver)]


def mirrored(way: Sequence[Link], x: int) -> list[Link]:
    """The way that goes around the first axis in the other direction."""

    def place(at: Place) -> Place:
        return ((2 * x - at[0]) % 4, *at[1:])

    return [(place(a), place(b)) for a, b in way]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_loads_are_those_of_messages_that_are_walked_one_by_one(algorithm: str) -> None:
    torus = Torus((4, 2), (True, False), 2e9, 3e-6)
    lowered = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(64), axis_env=[("i", 4), ("j", 2)])
    collectives = lowered.collectives()
    devices = random.Random(algorithm).sample(range(8), 8)
    loads = collectives.link_loads(0, torus, algorithm, devices=devices)
    total: dict[Link, float] = collections.defaultdict(float)
    seconds = 0.0
    exchanges = [collectives.exchange(0, algorithm, group=group) for group in range(2)]
    for step in range(len(exchanges[0].steps)):
        here: dict[Link, float] = collections.defaultdict(float)
        hops = 0
        for exchange in exchanges:
            for transfer in exchange.steps[step]:
                sender, receiver = (devices[exchange.members[end]] for end in (transfer.sender, transfer.receiver))
                hops = max(hops, len(torus.route(sender, receiver)))
                x, goal = torus.place(sender)[0], torus.place(receiver)[0]
                ways = [torus.route(sender, receiver)]
                if abs(x - goal) == 2:  # half around the ring of 4
                    ways.append(mirrored(ways[0], x))
                for way in ways:
                    for link in way:
                        here[link] += len(transfer.blocks) * exchange.block_bytes / len(ways)
        for link, count in here.items():
            total[link] += count
        seconds += 3e-6 * hops + max(here.values()) / 2e9
    assert loads.bytes == pytest.approx(dict(total))
    assert loads.seconds == pytest.approx(seconds)
    assert loads.table().bytes.tolist() == sorted((total[link] for link in torus.links()), reverse=True)


def test_a_ring_along_an_axis_that_wraps_loads_every_link_of_one_way_alike() -> None:
    collectives = inspector.lower(
        lambda x: lax.all_gather(x, "i"), jnp.ones(4), axis_env=[("j", 16), ("i", 16)]
    ).collectives()
    loads = collectives.link_loads(0, inspector.Torus.published("tpu:v5e:16x16"))
    ahead = {((x, y), ((x + 1) % 16, y)) for x in range(16) for y in range(16)}
    assert loads.bytes == dict.fromkeys(ahead, 15 * 16.0)
    assert "768 links idle" in repr(loads)


def test_published_speeds_add_up_to_the_makers() -> None:
    for chip in TPU.chips:
        torus = Torus.published(f"tpu:{chip.name}")
        assert chip.peak is not None
        both = chip.peak.interconnect_bytes_per_s
        if isinstance(both, Unavailable):
            assert isinstance(torus.bytes_per_s, Unavailable)
            continue
        assert not isinstance(torus.bytes_per_s, Unavailable)
        whole = Torus((4,) * len(torus.shape), (True,) * len(torus.shape))
        touching = [link for link in whole.links() if (0,) * len(torus.shape) in link]
        assert len(touching) * torus.bytes_per_s == both
        assert Links.published(f"tpu:{chip.name}", wraps=True) == Links("ring", torus.bytes_per_s, torus.latency_s)
    assert Links.published("gpu:h100:8") == Links("switch", 450e9, 1e-6)
    assert Links.published("tpu:v5e:2x4").kind == "line"


def test_ends_are_linked_as_specified_by_the_vendor() -> None:
    wraps = {
        text: Torus.published(text).wraps
        for text in ("tpu:v5e:4x4", "tpu:v5e:16x8", "tpu:v5p:4x4x4", "tpu:v5p:4x4x2", "tpu:tpu7x:4x4x8")
    }
    assert list(wraps.values()) == [(False, False), (True, False), (True,) * 3, (False,) * 3, (True,) * 3]
    assert Torus.published("tpu:tpu7x:2x2x1").device_count == 8


def test_impossible_arguments_are_refused_with_the_reason() -> None:
    collectives = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(4), axis_env=[("i", 8)]).collectives()
    with pytest.raises(ParameterError, match=r"Device 4 takes part, but the network has only 4 devices \(2x2 chips\)"):
        collectives.link_loads(0, Torus((2, 2), (False, False)))
    with pytest.raises(ParameterError, match=r"got only 3 physical ids"):
        collectives.link_loads(0, Torus((8,), (False,)), devices=[0, 1, 2])
    with pytest.raises(ParameterError, match=r"expected a TPU slice"):
        Torus.published("gpu:h100:8")
    with pytest.raises(ParameterError, match=r"expected a chip such as"):
        Links.published("tpu:v99")
    with pytest.raises(TargetError, match=r"no topology 3x3"):
        Torus.published("tpu:v5e:3x3")
    with pytest.raises(ParameterError, match=r"one entry of wraps per axis"):
        Torus((4, 4), (True,))


def test_a_picture_has_every_chip_and_link() -> None:
    collectives = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(64), axis_env=[("i", 8)]).collectives()
    for torus in (Torus((4, 2), (True, False), 1e9), Torus((2, 2, 2), (False,) * 3)):
        figure = collectives.link_loads(0, torus).plot()
        texts = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert {text for text in texts if text} == set(map(str, range(8)))
        drawn = sum(not text for text in texts)
        assert drawn == sum((*a, 0, 0)[2] == (*b, 0, 0)[2] for a, b in torus.links())
        assert "by ring (textbook)" in figure.get_suptitle()
