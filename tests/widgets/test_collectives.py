"""The groups that are sent to the browser: all that it draws, and the first of more, with their number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module
from inspector.platforms import Peak
from inspector.support.units import format_seconds
from inspector.widgets.panes.collective_parts.collective_rows import CollectiveMessage, rows_of
from inspector.widgets.panes.collectives import _exchanges

HLO = """HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{ p = f32[] parameter(0)  ROOT r = f32[] {operation} }}"""


UNKNOWN = Unavailable("not measured")


def row(operation: str, mesh: Mesh | None, count: int, peak: Peak | Unavailable = UNKNOWN) -> CollectiveMessage:
    text = HLO.format(operation=operation)
    module = Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    found = collectives(module, mesh, count, 1)
    target = None if isinstance(peak, Unavailable) else Target("tpu:v5e:2x2")
    (only,) = rows_of(found, Pricing(found.devices, links_of(peak, target, count)))
    return only


def reduced(groups: str, sizes: tuple[int, ...]) -> CollectiveMessage:
    mesh = Mesh(("a", "b", "c")[: len(sizes)], sizes, "replica")
    return row(f"all-reduce(p), replica_groups={groups}, to_apply=add", mesh, mesh.size)


def test_groups_that_are_drawn_are_whole() -> None:
    """Any that may be: there are more than a thousand pairs in a mesh of 4,096 devices."""
    found = reduced("[2048,2]<=[4096]", (2048, 2))
    assert (found["groups_cut"], found["group_count"], found["group_sizes"]) == (False, 2048, (2, 2))
    assert found["groups"] == [[2 * n, 2 * n + 1] for n in range(2048)]
    uneven = reduced("{{0},{1,2,3}}", (4,))
    assert (uneven["groups"], uneven["group_sizes"]) == ([[0], [1, 2, 3]], (1, 3))


@pytest.mark.parametrize(
    ("groups", "count", "first", "axes"),
    [
        ("[4096,256]<=[1048576]", 4096, [0, 1, 2, 3, 4, 5, 6, 7, 255], ["c"]),
        ("[1,1048576]<=[1048576]", 1, [0, 1, 2, 3, 4, 5, 6, 7, 1048575], ["a", "b", "c"]),
        ("[131072,8]<=[1048576]", 131072, [0, 1, 2, 3, 4, 5, 6, 7], ["c:(32)8"]),
        ("[1048576,1]<=[1048576]", 1048576, [0], []),
    ],
)
def test_only_the_first_of_many_ids_are_sent(groups: str, count: int, first: list[int], axes: list[str]) -> None:
    found = reduced(groups, (32, 128, 256))
    assert (found["groups_cut"], found["group_count"]) == (True, count)
    assert found["group_sizes"] == ((1 << 20) // count,) * 2
    assert found["groups"][0] == first
    assert len(found["groups"]) == min(count, 64)
    assert found["axes"] == axes
    assert len(json.dumps(found)) < 10_000


def test_pairs() -> None:
    found = row("collective-permute(p), source_target_pairs={{0,1},{1,0}}", None, 2)
    assert (found["groups"], found["group_count"], found["group_sizes"]) == ([[0, 1], [1, 0]], 2, (2, 2))
    none = row("collective-permute(p), source_target_pairs={}", None, 2)
    assert (none["groups"], none["group_count"], none["groups_cut"]) == ([], 0, False)
    ring = ",".join(f"{{{n},{(n + 1) % 9000}}}" for n in range(9000))
    many = row(f"collective-permute(p), source_target_pairs={{{ring}}}", None, 9000)
    assert (many["groups_cut"], many["group_count"]) == (True, 9000)
    assert many["groups"] == [[n, n + 1] for n in range(64)]
    assert cell(many, "replica_groups")["value"] == "9,000 pairs"
    explicit = ",".join(f"{{{n},{(n + 7) % 2048}}}" for n in range(0, 2048, 14))
    text = cell(row(f"all-reduce(p), replica_groups={{{explicit}}}, to_apply=add", None, 2048), "replica_groups")[
        "value"
    ]
    assert text.startswith("{{0,7},{14,21}")


def cell(found: Any, name: str) -> Any:
    """Returns the cell of a column of the pane, without a profile."""
    shown = [column.name for column in COLLECTIVE_COLUMNS.of("pane") if column.name != "measured_s"]
    return found["cells"][shown.index(name)]


def test_bytes_over_links_and_their_time() -> None:
    gathered = "all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=add"
    mesh, peak = Mesh(("i",), (4,), "replica"), peak_of(Target("tpu:v5e:2x2"))
    assert isinstance(peak, Peak)
    assert isinstance(peak.interconnect_bytes_per_s, float)
    found = row(gathered, mesh, 4, peak)
    sent = 2 * (3 / 4) * 4  # all but a quarter of the four bytes, twice
    assert cell(found, "sent_bytes") == {"value": sent, "text": "6 B", "note": ""}
    seconds = 2 * 2e-6 + sent / 2 / (
        peak.interconnect_bytes_per_s / 8
    )  # over two of four links, in two phases of 2 hops
    assert cell(found, "estimated_s") == {"value": seconds, "text": format_seconds(seconds), "note": ""}
    unknown = row(gathered, mesh, 4)
    assert cell(unknown, "sent_bytes")["value"] == sent
    assert cell(unknown, "estimated_s") == {"value": None, "text": "unknown", "note": "not measured"}


def test_the_browser_has_every_algorithm_of_a_size_that_can_be_followed() -> None:
    def sent(operation: str, count: int) -> list[tuple[str, int, int]]:
        text = HLO.format(operation=operation)
        module = Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
        found = collectives(module, Mesh(("i",), (count,), "replica"), count, 1)
        return [(e["algorithm"], e["members"], len(e["steps"])) for e in _exchanges(found)]

    assert sent("all-reduce(p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add", 8) == [
        ("ring", 4, 6),
        ("bidirectional ring", 4, 6),
        ("halving and doubling", 4, 4),
        ("tree", 4, 4),
        ("double binary tree", 4, 5),
        ("direct", 4, 2),
    ]
    assert sent("all-reduce(p), replica_groups=[2,32]<=[64], to_apply=add", 64) == []
    assert sent("all-reduce(p), replica_groups={{0},{1,2}}, to_apply=add", 3) == []
    assert sent("collective-permute(p), source_target_pairs={{0,1}}", 2) == []
