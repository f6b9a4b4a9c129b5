"""Textbook algorithms: every one ends with what the collective is defined to give, and with what devices exchange."""

from __future__ import annotations

import collections
import itertools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS, OPCODES, schedule
from inspector.errors import ModuleError, ParameterError, Unavailable

SPEED, LATENCY = 1e9, 1e-6


def made(opcode: str, algorithm: str, count: int, links: Links = Links()) -> Exchange:  # noqa: B008 - frozen
    steps = schedule(opcode, algorithm, count)
    if isinstance(steps, Unavailable):
        pytest.skip(steps.reason)
    return Exchange(opcode, algorithm, tuple(range(count)), 960 * count, steps, links)


def blocks(exchange: Exchange, *numbers: int) -> list[int]:
    return [block * exchange.parts + part for block in numbers for part in range(exchange.parts)]


def expected(exchange: Exchange, member: int) -> dict[int, frozenset[int]]:
    """Returns the expected final value of a member, by the collective's definition."""
    everyone = range(len(exchange.members))
    count = len(everyone)
    match exchange.opcode:
        case "all-gather":
            return {b: frozenset({owner}) for owner in everyone for b in blocks(exchange, owner)}
        case "reduce-scatter":
            return dict.fromkeys(blocks(exchange, member), frozenset(everyone))
        case "all-reduce":
            return dict.fromkeys(blocks(exchange, *everyone), frozenset(everyone))
        case "all-to-all":
            return {b: frozenset({i}) for i in everyone for b in blocks(exchange, i * count + member)}
        case _:
            return dict.fromkeys(blocks(exchange, *everyone), frozenset({0}))


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_member_ends_with_the_result_of_the_collective(opcode: str, algorithm: str) -> None:
    for count in (1, 2, 3, 4, 5, 7, 8, 13, 16):
        if isinstance(schedule(opcode, algorithm, count), Unavailable):
            continue
        exchange = made(opcode, algorithm, count)
        held = exchange.blocks(len(exchange.steps))
        for member in range(count):
            assert {b: held[member].get(b) for b in expected(exchange, member)} == expected(exchange, member)
        for number, step in enumerate(exchange.steps):  # nobody sends what it has not, nobody counts a value twice
            before = exchange.blocks(number)
            for transfer in step:
                assert set(transfer.blocks) <= set(before[transfer.sender])
            for receiver, arrivals in itertools.groupby(sorted(step, key=lambda t: t.receiver), lambda t: t.receiver):
                counted = [
                    (block, source)
                    for transfer in arrivals
                    if transfer.adds
                    for block in transfer.blocks
                    for source in before[transfer.sender][block]
                ]
                counted += [(b, source) for b in {b for b, _ in counted} for source in before[receiver].get(b, ())]
                assert len(counted) == len(set(counted))


STEPS = {  # of n members: steps, and bytes that the busiest member sends, in operands
    ("all-gather", "ring"): lambda n: (n - 1, n - 1),
    ("reduce-scatter", "ring"): lambda n: (n - 1, (n - 1) / n),
    ("all-reduce", "ring"): lambda n: (2 * n - 2, 2 * (n - 1) / n),
    ("all-reduce", "bidirectional ring"): lambda n: (2 * n - 2, 2 * (n - 1) / n),
    ("all-reduce", "halving and doubling"): lambda n: (2 * np.log2(n), 2 * (n - 1) / n),
    ("all-reduce", "tree"): lambda n: (2 * np.log2(n), np.log2(n)),
    ("all-reduce", "double binary tree"): lambda n: (n / 2 - 1 + 2 * np.log2(n), min(2, n / 2)),
    ("all-to-all", "direct"): lambda n: (1, (n - 1) / n),
    ("all-to-all", "halving and doubling"): lambda n: (np.log2(n), np.log2(n) / 2),
}


@pytest.mark.parametrize(("opcode", "algorithm"), list(STEPS))
def test_steps_and_bytes_are_those_of_the_textbook(opcode: str, algorithm: str) -> None:
    for count in (2, 4, 8, 16):
        exchange = made(opcode, algorithm, count)
        steps, operands = STEPS[opcode, algorithm](count)
        assert len(exchange.steps) == steps
        assert exchange.most_sent_bytes == pytest.approx(operands * exchange.operand_bytes)
        assert sum(exchange.sent_bytes) == pytest.approx(sum(exchange.received_bytes))


@pytest.mark.parametrize("kind", ["ring", "line", "switch"])
def test_loads_are_those_of_bytes_that_are_walked_one_by_one(kind: str) -> None:
    draw = random.Random(7)
    for _ in range(30):
        exchange = made("all-reduce", "ring", 2)
        while exchange.algorithm == "ring":
            opcode, algorithm, count = draw.choice(OPCODES), draw.choice(ALGORITHMS), draw.randint(2, 9)
            if not isinstance(schedule(opcode, algorithm, count), Unavailable):
                exchange = made(opcode, algorithm, count, Links(kind, SPEED, LATENCY))
        count, seconds = len(exchange.members), 0.0
        for step in exchange.steps:
            loads: collections.Counter[object] = collections.Counter()
            hops = 0
            for transfer in step:
                ways = walks(kind, transfer.sender, transfer.receiver, count)
                hops = max(hops, *(1 if kind == "switch" else len(way) for way in ways))
                for _ in transfer.blocks:
                    for way in ways:
                        for link in way:
                            loads[link] += 1 / len(ways)  # type: ignore[assignment]
            walked = {link: number * exchange.block_bytes for link, number in loads.items()}
            assert dict(exchange.link_bytes(step)) == pytest.approx(walked)
            seconds += hops * LATENCY + max(walked.values()) / SPEED
        assert exchange.seconds == pytest.approx(seconds)
        assert exchange.table()["seconds"].sum() == pytest.approx(seconds)


def walks(kind: str, place: int, goal: int, count: int) -> list[list[tuple[str, int, int]]]:
    """All shortest ways: the mirrored one too where a ring has two."""
    way = walk(kind, place, goal, count)
    if kind != "ring" or 2 * len(way) != count:
        return [way]
    return [way, [("link", (2 * place - a) % count, (2 * place - b) % count) for _, a, b in way]]


def walk(kind: str, place: int, goal: int, count: int) -> list[tuple[str, int, int]]:
    """The links of one block, found by going to whichever neighbor is nearer."""
    if kind == "switch":
        return [("out", place, place), ("in", goal, goal)]
    links = []
    while place != goal:
        ways = (1, -1) if kind == "ring" else ((1,) if goal > place else (-1,))
        way = min(ways, key=lambda way: (goal - place) * way % count)
        links.append(("link", place, (place + way) % count))
        place = (place + way) % count
    return links


AXES = [("i", 3), ("j", 2)]
PROGRAMS = {
    "all-reduce": (lambda x: lax.psum(x, "i"), np.add, 0),
    "the largest": (lambda x: lax.pmax(x, ("i", "j")), np.maximum, 0),
    "all-gather": (lambda x: lax.all_gather(x, "j", axis=1, tiled=True), np.add, 1),
    "reduce-scatter": (lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True), np.add, 1),
    "all-to-all": (lambda x: lax.all_to_all(x, "i", 1, 1, tiled=True), np.add, 1),
    "collective-permute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), np.add, 0),
    "groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [1]]), np.add, 0),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_played_exchange_equals_the_execution(name: str) -> None:
    function, combine, dimension = PROGRAMS[name]
    lowered = inspector.lower(function, jax.ShapeDtypeStruct((2, 6), jnp.float32), axis_env=AXES)
    collectives = lowered.collectives()
    x = np.arange(6 * 2 * 6, dtype=np.float32).reshape(6, 2, 6) % 11
    executed = list(lowered.compile().run(x, repeat=1, warmup=0).replicas()["result"])
    found = collectives[0]
    assert not isinstance(found.participants, Unavailable)
    groups = 1 if found.opcode == "collective-permute" else len(found.participants)
    for algorithm, group in itertools.product(ALGORITHMS, range(groups)):
        count = 6 if found.opcode == "collective-permute" else len(found.participants[group])
        if found.opcode in OPCODES and isinstance(schedule(found.opcode, algorithm, count), Unavailable):
            continue
        exchange = collectives.exchange(0, algorithm, group=group)
        for member, value in zip(
            exchange.members, exchange.play([x[m] for m in exchange.members], combine, dimension), strict=True
        ):
            np.testing.assert_array_equal(value, executed[member])


def test_unsupported_exchanges_are_refused_with_the_reason() -> None:
    found = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(6), axis_env=[("i", 6)]).collectives()
    with pytest.raises(ParameterError, match="Got the algorithm 'rings'; expected one of ring, bidirectional ring"):
        found.exchange(0, "rings")
    with pytest.raises(ModuleError, match="not 6"):
        found.exchange(0, "halving and doubling")
    with pytest.raises(ParameterError, match="no group 1: it has 1"):
        found.exchange(0, group=1)
    exchange = found.exchange(0)
    assert isinstance(exchange.seconds, Unavailable)
    with pytest.raises(ParameterError, match="5 operands for 6 members"):
        exchange.play([np.ones(6)] * 5)
    with pytest.raises(ParameterError, match="no state after 11 steps: the exchange has 10"):
        exchange.blocks(11)
    with pytest.raises(ParameterError, match="expected one of ring, line, switch"):
        Links("torus")
    with pytest.raises(ParameterError, match="a speed above 0"):
        Links("ring", 0.0)
    scatter = made("reduce-scatter", "ring", 4)
    with pytest.raises(ParameterError, match=r"Cannot split dimension \d of .* among 4 members"):
        scatter.play([np.ones((4, 6))] * 4, dimension=1)


@pytest.mark.parametrize("opcode", OPCODES)
def test_a_strip_shows_every_block_where_it_is(opcode: str) -> None:
    exchange = made(opcode, "bidirectional ring", 4)
    figure = exchange.plot(most_frames=3)
    assert figure.axes[0].get_title() == "start"
    assert figure.axes[-1].get_title() == f"after step {len(exchange.steps)}"
    last = exchange.blocks(len(exchange.steps))
    written = [text.get_text() for text in figure.axes[-1].texts if text.get_text()]
    assert len(written) == sum(map(len, last))
    assert exchange.block_name(3) == ("0→1b" if opcode == "all-to-all" else "1b")


def test_a_strip_of_too_many_is_refused() -> None:
    with pytest.raises(ModuleError, match="a figure shows at most 16"):
        made("all-reduce", "ring", 32).plot()
