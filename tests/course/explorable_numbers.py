"""Numbers of Python's models that pages compute again: written for the tests of the front end.

`python -m tests.course.explorable_numbers` writes `frontend/test/explorables.json`; a test checks that the file is up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import inspector
from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.algorithm_costs import algorithm_costs
from inspector.hlo.devices.replica_groups import parse

FILE = Path(__file__).resolve().parent.parent.parent / "frontend" / "test" / "explorables.json"

SIZES = (1 << 8, 1 << 14, 1 << 20, 1 << 30)
SPEEDS = ((50e9, 1e-6), (450e9, 1e-5), (1e9, 0.0))
NETWORKS = (("all-reduce", Links("ring")), ("all-gather", Torus((4, 2), (True, False))), ("all-to-all", Switch(8)))
# Axis sizes, the axes of the collective, and the shortest iota notation.
GROUPINGS: tuple[tuple[dict[str, int], tuple[str, ...], str], ...] = (
    ({"x": 2, "y": 4}, ("x",), "[4,2]<=[2,4]T(1,0)"),
    ({"x": 2, "y": 4}, ("y",), "[2,4]<=[8]"),
    ({"x": 2, "y": 4}, ("x", "y"), "[1,8]<=[8]"),
    ({"x": 2, "y": 4}, ("y", "x"), "[1,8]<=[2,4]T(1,0)"),
    ({"a": 2, "b": 3, "c": 4}, ("b",), "[8,3]<=[2,3,4]T(0,2,1)"),
    ({"a": 2, "b": 3, "c": 4}, ("a", "b"), "[4,6]<=[6,4]T(1,0)"),
    ({"a": 2, "b": 3, "c": 4}, ("a", "c"), "[3,8]<=[2,3,4]T(1,0,2)"),
    ({"a": 2, "b": 1, "c": 4}, ("a",), "[4,2]<=[2,4]T(1,0)"),
)
ROUTES = (
    (Torus((4, 2), (False, False)), (0, 1, 6, 3, 4, 5, 2, 7)),
    (Torus((4, 4), (True, True)), (0, 2, 8, 10, 5, 15, 7, 13)),
    (Torus((5, 2), (True, False)), (0, 9, 3, 4)),
)


def numbers() -> dict[str, Any]:
    """Returns times by algorithm, groups in iota notation, and loads of links."""
    times = [
        {
            "cost": {name: getattr(cost, name) for name in ("algorithm", "steps", "hops", "busiest", "sent")},
            "bytes_per_s": speed,
            "latency_s": latency,
            "size": size,
            "seconds": cost.seconds(size, speed, latency),
        }
        for opcode, network in NETWORKS
        for cost in algorithm_costs(opcode, 8, network)
        for speed, latency in SPEEDS
        for size in SIZES
    ]
    groupings = [
        {"sizes": sizes, "over": list(over), "iota": text, "groups": _groups(sizes, over)}
        for sizes, over, text in GROUPINGS
    ]
    return {"times": times, "groupings": groupings, "routes": [_route(*each) for each in ROUTES]}


def _groups(sizes: dict[str, int], over: tuple[str, ...]) -> list[list[int]]:
    lowered = inspector.lower(lambda x: jax.lax.psum(x, over), jnp.zeros(()), axis_env=list(sizes.items()))
    (collective,) = lowered.collectives()
    assert not isinstance(collective.participants, inspector.Unavailable)
    return [list(group) for group in collective.participants]


def _route(torus: Torus, ring: tuple[int, ...]) -> dict[str, Any]:
    pairs = [(one, ring[(i + 1) % len(ring)]) for i, one in enumerate(ring)]
    loads: dict[str, float] = {}
    device = {torus.place(number): number for number in range(torus.device_count)}
    for sender, receiver in pairs:
        for share, links in torus.ways(sender, receiver):
            for start, end in links:
                key = f"{device[start]},{device[end]}"
                loads[key] = loads.get(key, 0.0) + share
    links = sorted([device[start], device[end]] for start, end in torus.links())
    return {
        "shape": list(torus.shape),
        "wraps": list(torus.wraps),
        "pairs": [list(pair) for pair in pairs],
        "loads": dict(sorted(loads.items())),
        "hops": max(torus.hops(*pair) for pair in pairs),
        "links": links,
    }


def expanded(text: str) -> list[list[int]]:
    """Returns the groups of HLO's notation."""
    return [list(map(int, group)) for group in parse(text).expand()]


if __name__ == "__main__":
    FILE.write_text(json.dumps(numbers(), indent=1) + "\n", encoding="utf-8")
