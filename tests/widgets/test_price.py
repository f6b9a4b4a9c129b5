"""Prices of collectives as the pane asks for them: those of `link_loads`, and why there is none."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.analysis.collectives.exchanges.link_loads import published
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.compilation.target import Target
from inspector.stages.lowered import Lowered
from inspector.widgets.panes.collective_parts.price import PricedProgram, PriceRequest, networks_for, priced, recordable
from tests.widgets.fakes import Mailbox


def lowered(function: Any, axes: list[tuple[str, int]]) -> Lowered:
    return inspector.lower(function, jnp.ones(64), axis_env=axes)


def program(lowered: Lowered, target: str = "cpu:8", devices: tuple[int, ...] = ()) -> PricedProgram:
    found = dataclasses.replace(lowered.collectives(), devices=devices)
    return PricedProgram(found, found, Target(target))


def request(name: str, network: str, algorithm: str = "ring") -> PriceRequest:
    return PriceRequest(
        type="price", id=7, variant=0, program="optimized", name=name, network=network, algorithm=algorithm
    )


@pytest.mark.parametrize("network", ["tpu:v5e:2x4", "tpu:v5p:4x4x4", "tpu:tpu7x:2x2x1", "gpu:h100:8"])
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_a_price_is_that_of_python(network: str, algorithm: str) -> None:
    collectives = (given := lowered(lambda x: lax.psum(x, "i"), [("i", 4), ("j", 2)])).collectives()
    reply = priced(request(collectives[0].name, network, algorithm), program(given))
    loads = collectives.link_loads(0, published(network), algorithm)
    assert reply["error"] is None
    assert (reply["id"], reply["algorithm"], reply["steps"]) == (7, algorithm, len(loads.steps))
    assert reply["latency_s"] == 1e-6
    assert reply["hops"] * 1e-6 + reply["busiest_bytes"] / (reply["bytes_per_s"] or 0) == pytest.approx(
        collectives.link_loads(0, published(network, latency_s=1e-6), algorithm).seconds
    )
    assert (reply["sent_bytes"], reply["bus_bytes"]) == (loads.most_sent_bytes, 384.0)
    assert reply["source"].startswith("https://")
    places = {-1: (), **{number: tuple(chip["place"]) for number, chip in enumerate(reply["chips"])}}
    assert {(places[a], places[b]): count for a, b, count in reply["links"] if count} == dict(loads.bytes)
    assert len(reply["links"]) == reply["link_count"]
    assert reply["idle_links"] == reply["link_count"] - len(loads.bytes)
    groups = {
        id_: group for chip in reply["chips"] for id_, group in zip(chip["logical_ids"], chip["groups"], strict=True)
    }
    groups.pop(None, None)
    assert groups == {0: 0, 2: 0, 4: 0, 6: 0, 1: 1, 3: 1, 5: 1, 7: 1}


def test_permuted_devices_stand_where_they_are() -> None:
    given = lowered(lambda x: lax.psum(x, "i"), [("i", 8)])
    reply = priced(request(given.collectives()[0].name, "tpu:v5e:2x4"), program(given, devices=tuple(range(7, -1, -1))))
    ids = {
        device: id_ for chip in reply["chips"] for device, id_ in zip(chip["devices"], chip["logical_ids"], strict=True)
    }
    assert ids == {device: 7 - device for device in range(8)}


def test_an_algorithm_that_the_operation_lacks_gives_way() -> None:
    given = lowered(lambda x: lax.all_to_all(x.reshape(8, 8), "i", 0, 0), [("i", 8)])
    reply = priced(request(given.collectives()[0].name, "gpu:h100:8", "tree"), program(given))
    assert (reply["error"], reply["algorithm"]) == (None, "estimate")
    assert "tree" not in reply["algorithms"]
    pairs = lowered(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), [("i", 6)])
    reply = priced(request(pairs.collectives()[0].name, "gpu:h100:8"), program(pairs))
    assert (reply["algorithms"], reply["algorithm"], reply["most_bytes"]) == (["estimate", "direct"], "estimate", 256.0)
    odd = lowered(lambda x: lax.psum(x, "i"), [("i", 12)])
    assert (
        "halving and doubling"
        not in priced(request(odd.collectives()[0].name, "tpu:v5e:4x4"), program(odd))["algorithms"]
    )


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("tpu:v5e:2x2", "Choose a larger network"),
        ("tpu:v5e:3x3", "no topology 3x3"),
        ("gpu:h100:2x8", "the speed between hosts"),
        ("", "expected a chip such as"),
        ("tpu:v5e:" + "9" * 40, "cannot read the topology"),
    ],
)
def test_prices_that_cannot_be_computed_state_the_reason(network: str, reason: str) -> None:
    given = lowered(lambda x: lax.psum(x, "i"), [("i", 8)])
    reply = priced(request(given.collectives()[0].name, network), program(given))
    assert reply["error"] is not None
    assert reason in reply["error"]["message"]


def test_too_many_messages_are_not_walked() -> None:
    given = lowered(lambda x: lax.psum(x, "i"), [("i", 1024)])
    name = given.collectives()[0].name
    error = priced(request(name, "tpu:v5p:8x8x16"), program(given))["error"]
    assert error is not None
    assert "too many to simulate. The limit is 400,000" in error["message"]
    few = priced(request(name, "tpu:v5p:8x8x16", "halving and doubling"), program(given))
    assert (few["error"], few["chips"], few["links"]) == (None, [], [])
    assert few["link_count"] == 1024 * 6


def test_networks_are_large_enough_and_the_programs_own_comes_first() -> None:
    given = lowered(lambda x: lax.psum(x, "i"), [("i", 16)])
    assert next(networks_for(program(given, "tpu:v5p:4x4x2"))) == "tpu:v5p:4x4x2"
    found = [*networks_for(program(given))]
    assert all(published(network).device_count >= 16 for network in found)
    assert not [network for network in found if network.startswith("gpu:h100")]
    slices = [published(network) for network in found]
    assert [all(each.wraps) for each in slices if isinstance(each, Torus)].count(True) >= 3


def test_pages_have_the_first_prices_and_reports_the_others() -> None:
    given = lowered(lambda x: lax.all_gather(lax.psum(x, "i"), "i"), [("i", 8)])
    first = [*recordable(program(given), 0, is_whole=False)]
    assert [(each["program"], each["algorithm"]) for each in first] == [("optimized", "estimate")] * 2
    whole = [*recordable(program(given), 0, is_whole=True)]
    assert {each["program"] for each in whole} == {"hlo", "optimized"}
    assert len(whole) == 2 * 3 * (6 + 7)  # programs, networks, and algorithms of the all-gather and the all-reduce


def test_slow_or_large_prices_are_not_recorded() -> None:
    large = lowered(lambda x: lax.psum(x, "i"), [("i", 128)])
    assert [*recordable(program(large), 0, is_whole=True)] == []
    many = lowered(lambda x: [lax.psum(x * i, "i") for i in range(40)], [("i", 64)])
    some = [*recordable(program(many), 0, is_whole=True)]
    assert 5 <= len(some) < 30


def test_an_explorer_prices_its_collectives() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("a",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    explorer = inspector.explore(jax.jit(lambda x: x.sum(), in_shardings=sharding), np.ones(8, np.float32)).wait(120)
    mailbox = Mailbox(explorer)
    told = mailbox.last("collectives", program="optimized")
    assert told["networks"]
    wanted = request(told["rows"][0]["name"], told["networks"][0])
    mailbox.send({**wanted})
    reply = mailbox.wait_for("priced", id=7)
    assert (reply["error"], reply["steps"]) == (None, 14)
    assert mailbox.last("collectives", program="hlo")["networks"] == []
    explorer.close()
