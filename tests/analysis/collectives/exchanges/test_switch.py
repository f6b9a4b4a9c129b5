"""Hosts with switches: loads are those of one group after the other, prices follow nccl-tests' conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

import inspector
from inspector.analysis.collectives.exchanges.link_loads import published
from inspector.analysis.collectives.exchanges.switch import HUB, Switch
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.errors import ParameterError, Unavailable

AXES = [("i", 4), ("j", 2)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_device_has_its_own_links_so_groups_do_not_meet(algorithm: str) -> None:
    collectives = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(64), axis_env=AXES).collectives()
    loads = collectives.link_loads(0, Switch(8, 1e9, 2e-6), algorithm)
    one = collectives.exchange(0, algorithm, links=inspector.Links("switch", 1e9, 2e-6))
    assert loads.seconds == pytest.approx(one.seconds)
    for group in range(2):
        exchange = collectives.exchange(0, algorithm, group=group)
        for member, sent, received in zip(exchange.members, exchange.sent_bytes, exchange.received_bytes, strict=True):
            assert loads.bytes.get(((member,), HUB), 0.0) == sent
            assert loads.bytes.get((HUB, (member,)), 0.0) == received
    assert (loads.most_sent_bytes, loads.most_received_bytes) == (max(one.sent_bytes), max(one.received_bytes))


@pytest.mark.parametrize(
    ("function", "factor"),
    [  # of the bytes that nccl-tests counts as the operation's size, from its PERFORMANCE.md
        (lambda x: lax.psum(x, "i"), 2 * 3 / 4),
        (lambda x: lax.all_gather(x, "i"), 4 * 3 / 4),  # its size is the whole result
        (lambda x: lax.psum_scatter(x, "i", tiled=True), 3 / 4),
        (lambda x: lax.all_to_all(x.reshape(4, 16), "i", 0, 0), 3 / 4),
    ],
)
def test_a_ring_without_latency_reaches_the_bus_bandwidth_of_its_links(
    function: Callable[[Any], Any], factor: float
) -> None:
    collectives = inspector.lower(function, jnp.ones(64), axis_env=AXES).collectives()
    direct = collectives.link_loads(0, Switch(8, 1e9), "direct")
    assert direct.bus_bytes == 256 * factor
    assert direct.bus_bytes_per_s == pytest.approx(1e9)
    slow = collectives.link_loads(0, Switch(8, 1e9, 1e-6), "direct")
    assert isinstance(slow.bus_bytes_per_s, float)
    assert slow.bus_bytes_per_s < 1e9


def test_published_hosts_have_their_makers_speeds_and_no_more_devices_than_are_linked() -> None:
    assert Switch.published("gpu:h100:8") == Switch(8, 450e9, 1e-6, reduces=True)
    assert published("gpu:a100:4", latency_s=2e-6) == Switch(4, 300e9, 2e-6)
    assert published("tpu:v5e:4x4") == Torus.published("tpu:v5e:4x4")
    with pytest.raises(ParameterError, match=r"join only 8 GPUs; the speed between hosts is not published"):
        Switch.published("gpu:h100:2x8")
    with pytest.raises(ParameterError, match=r"TPUs are connected as a torus"):
        Switch.published("tpu:v5e:2x2")
    with pytest.raises(ParameterError, match=r"Got 0 devices"):
        Switch(0)


def test_unknown_loads_stay_unknown() -> None:
    collectives = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(64), axis_env=AXES).collectives()
    loads = collectives.link_loads(0, Switch(8))
    assert isinstance(loads.seconds, Unavailable)
    assert isinstance(loads.bus_bytes_per_s, Unavailable)
    with pytest.raises(ParameterError, match=r"Device 4 takes part, but the network has only 4 devices on a switch"):
        collectives.link_loads(0, Switch(4))


def test_the_picture_has_a_bar_each_way_for_every_device() -> None:
    collectives = inspector.lower(lambda x: lax.psum(x, "i"), jnp.ones(64), axis_env=AXES).collectives()
    figure = collectives.link_loads(0, Switch(8, 1e9)).plot()
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == [f"device {device}" for device in range(8)]
    assert [bar.get_width() for bar in panel.patches] == [384.0] * 16
