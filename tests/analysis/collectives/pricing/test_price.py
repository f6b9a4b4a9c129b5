"""Prices of collectives: by hand, message by message, with libtpu's algorithms, and for many and large groups."""

from __future__ import annotations

import dataclasses
import itertools
import random
import time

import numpy as np
import pytest

from inspector.analysis.collectives.exchanges.torus import Link, Torus
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.collectives.pricing.torus_loads import all_links, ring_of_snake, routed, shortest_ways
from inspector.analysis.collectives.pricing.torus_members import Members
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.errors import About, Unavailable
from inspector.platforms import Peak
from tests.analysis.collectives.pricing.hand_cases import CASES, HOP, Case, price_on, program
from tests.peaks import PEAKS

ALL = "[1,8]<=[8]"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_price_is_the_formula_computed_by_hand(case: Case) -> None:
    price = case.price
    assert price.known_s == pytest.approx(case.hand_s, rel=1e-9)
    assert price.unknown == ()
    assert isinstance(price.seconds, About)
    assert price.algorithm in price.seconds.reason
    assert price.source.startswith("https://")
    assert not isinstance(price.network, Unavailable)
    assert max(price.link_bytes.values()) == pytest.approx(price.busiest_bytes)
    assert set(price.link_bytes) <= set(price.network.links())


TORUSES = [
    Torus((4, 2), (True, False)),
    Torus((5, 3), (True, True)),
    Torus((3, 4), (False, False)),
    Torus((2, 3, 4), (False, True, True), devices_per_chip=2),
    Torus((8,), (True,)),
]


def walked(torus: Torus, messages: list[tuple[int, int, float]]) -> dict[Link, float]:
    loads: dict[Link, float] = {}
    for sender, receiver, count in messages:
        for share, links in torus.ways(sender, receiver):
            for link in links:
                loads[link] = loads.get(link, 0.0) + share * count
    return loads


@pytest.mark.parametrize("torus", TORUSES, ids=str)
def test_loads_of_messages_are_those_of_walking_each(torus: Torus) -> None:
    draw = random.Random(str(torus))
    messages = [
        (draw.randrange(torus.device_count), draw.randrange(torus.device_count), draw.random()) for _ in range(40)
    ]
    senders, receivers, weights = map(np.array, zip(*messages, strict=True))
    load = routed(torus, senders, receivers, weights, "")
    expected = walked(torus, messages)
    assert load.busiest == pytest.approx(max(expected.values()))
    assert sum(float(axis.sum()) for axis in load.per_byte) == pytest.approx(sum(expected.values()))
    assert load.hops == max(torus.hops(a, b) for a, b, _ in messages)


@pytest.mark.parametrize("torus", TORUSES, ids=str)
def test_an_all_to_all_of_boxes_is_that_of_its_messages(torus: Torus) -> None:
    every = np.arange(torus.device_count)
    halves = every.reshape(2, -1) if torus.device_count % 2 == 0 else every[None]
    for groups in (every[None], halves, halves.reshape(halves.shape[0], -1)):
        members = Members(torus, groups)
        if not members.are_boxes:
            continue
        messages = [
            (int(a), int(b), 1 / len(group)) for group in groups for a, b in itertools.permutations(group.tolist(), 2)
        ]
        expected, load = walked(torus, messages), shortest_ways(members)
        assert load.busiest == pytest.approx(max(expected.values()))
        assert load.hops == max(torus.hops(a, b) for a, b, _ in messages)


def test_irregular_groups_send_each_message_too() -> None:
    torus, groups = Torus((2, 4), (False, False)), np.array([[0, 1, 2], [3, 5, 7]])
    members = Members(torus, groups)
    assert not members.are_boxes
    messages = [(int(a), int(b), 1 / 3) for group in groups for a, b in itertools.permutations(group.tolist(), 2)]
    assert shortest_ways(members).busiest == pytest.approx(max(walked(torus, messages).values()))
    ring = ring_of_snake(members, np.array([2 / 3, 2 / 3]))
    assert all_links(members, np.array([2 / 3, 2 / 3])).busiest == ring.busiest >= 1 / 3
    padded = Members(torus, np.array([[0, 1, 2, 3], [4, 5, -1, -1]]))
    assert padded.are_boxes
    assert (padded.count.tolist(), padded.chips.tolist()) == ([4, 2], [4, 2])


def test_two_devices_of_a_chip_share_its_links() -> None:
    whole = price_on("tpu:tpu7x:2x2x1", program("all-gather", 1 << 20, "[1,8]<=[8]", 8, 8))
    halves = price_on("tpu:tpu7x:2x2x1", program("all-gather", 1 << 20, "{{0,2,4,6},{1,3,5,7}}", 8, 4))
    assert whole.busiest_bytes == (1 << 20) * 3 / 4 / 2
    assert halves.busiest_bytes == 2 * whole.busiest_bytes


CONFIG = (
    ', backend_config={{"collective_algorithm_config":{{"emitter":"{}","strategy":"{}",'
    '"debug":"\\nX{{colors:{} phases:1 cores:{{{}}},{{{}}} nophase0:0}}"}}}}'
)


def test_libtpus_algorithm_bounds_the_links_and_gives_the_hops() -> None:
    whole = 64 << 20
    plain = price_on("tpu:v5p:4x4x4", program("all-reduce", whole, "[1,64]<=[64]", 64, 64))
    config = CONFIG.format("RotatedPincerEmitter", "UniDirection1DRingStrategy", 2, 64, 64)
    chosen = price_on("tpu:v5p:4x4x4", program("all-reduce", whole, "[1,64]<=[64]", 64, 64, config))
    assert chosen.algorithm == "libtpu's UniDirection1DRingStrategy with 2 colors"
    assert chosen.busiest_bytes == pytest.approx(3 * plain.busiest_bytes)  # 2 of 6 links
    assert chosen.hops == 2 * 63
    config = CONFIG.format("RotatedPincerEmitter", "UniDirectionNDRingStrategy", 6, "4 4 4", "4 4 4")
    many = price_on("tpu:v5p:4x4x4", program("all-reduce", whole, "[1,64]<=[64]", 64, 64, config))
    assert (many.busiest_bytes, many.hops) == (pytest.approx(plain.busiest_bytes), 2 * 9)
    line = (
        ', backend_config={"collective_algorithm_config":{"emitter":"1DAllGatherOnMajorDim","debug":"group_size = 64"}}'
    )
    gather = price_on("tpu:v5p:4x4x4", program("all-gather", whole, "[1,64]<=[64]", 64, 64, line))
    assert gather.busiest_bytes == pytest.approx(whole * 63 / 64 / 2)


def test_unknown_links_are_named() -> None:
    across = price_on("gpu:h100:2x8", program("all-reduce", 1 << 20, "[1,16]<=[16]", 16, 16))
    assert "1 collective between hosts, whose links are unknown" in across.seconds.reason
    assert across.busiest_bytes == 2 * 15 / 16 * (1 << 20)  # switches of one host cannot reduce for another
    inside = price_on("gpu:h100:2x8", program("all-reduce", 1 << 20, "[2,8]<=[16]", 16, 8))
    assert (inside.unknown, inside.algorithm) == ((), "reduction in the switches (NVLS)")
    found = program("all-reduce", 1 << 20, ALL, 8, 8)
    slow = dataclasses.replace(PEAKS["v5e"], interconnect_bytes_per_s=Unavailable("not published"))
    unknown = Pricing(found.devices, links_of(slow, None, 8)).price(found[0])
    assert float(unknown.seconds) == 0
    assert "over links of unknown speed" in unknown.seconds.reason
    none = Pricing(found.devices, links_of(Unavailable("no chip"), None, 8)).price(found[0])
    assert (none.sent_bytes, none.known_s) == (2 * 7 / 8 * (1 << 20), 0.0)
    assumed = Pricing(found.devices, links_of(PEAKS["v5e"], Target("attached"), 8)).price(found[0])
    assert "on a slice of assumed shape" in assumed.seconds.reason
    own = dataclasses.replace(PEAKS["v5e"], chip="mine")
    assert "unknown layout" in Pricing(found.devices, links_of(own, None, 8)).price(found[0]).seconds.reason


def test_a_group_of_one_sends_nothing() -> None:
    alone = price_on("tpu:v5e:2x4", program("all-reduce", 64, "{{0},{1},{2},{3},{4},{5},{6},{7}}", 8, 1))
    assert (alone.known_s, alone.hops, dict(alone.link_bytes)) == (0, 0, {})
    to_itself = price_on("tpu:v5e:2x4", program("collective-permute", 64, "{{0,0},{1,1}}", 8, 1))
    assert to_itself.known_s == 0


@pytest.mark.parametrize("opcode", ["all-gather", "all-reduce", "all-to-all"])
@pytest.mark.parametrize("groups", ["[1,65536]<=[65536]", "[32768,2]<=[65536]", "[256,256]<=[256,256]T(1,0)"])
def test_groups_of_65536_devices_take_no_loop_over_devices(opcode: str, groups: str) -> None:
    members = int(groups.split(",")[1].split("]")[0])
    found = program(opcode, 65536 * 4, groups, 65536, members)
    torus = Torus((256, 256), (True, True), 50e9, HOP)
    links = dataclasses.replace(links_of(PEAKS["v5e"], Target("tpu:v5e:2x4"), 8), network=torus)
    start = time.process_time()
    assert Pricing(found.devices, links).price(found[0]).known_s > 0
    assert time.process_time() - start < 4


def test_pricing_2000_collectives_takes_milliseconds() -> None:
    found = program("all-reduce", 1 << 20, "[64,4]<=[4,16,4]T(1,0,2)", 256, 4)
    many = dataclasses.replace(found, items=tuple(dataclasses.replace(found[0], name=f"c{n}") for n in range(2000)))
    target = Target("tpu:v5e:16x16")
    peak = peak_of(target)
    assert isinstance(peak, Peak)
    start = time.process_time()
    pricing = Pricing(many.devices, links_of(peak, target, 256))
    assert sum(pricing.price(each).known_s for each in many) > 0
    assert time.process_time() - start < 0.3
