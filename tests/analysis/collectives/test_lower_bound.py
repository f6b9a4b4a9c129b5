"""Lower bounds of collectives, computed by hand."""

from __future__ import annotations

import dataclasses

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.lower_bound import communication
from inspector.errors import AtLeast, Unavailable
from inspector.hlo.module import Module
from tests.peaks import PEAKS

TEXT = """HloModule m, num_partitions=8

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[{operand}]{{0}} parameter(0)
  ROOT c = f32[{result}]{{0}} {opcode}(x), {groups}{more}
}}
"""
ALL = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3,4,5,6,7}}"


def one(opcode: str, operand: int, result: int, more: str = "", groups: str = ALL) -> Collective:
    text = TEXT.format(opcode=opcode, operand=operand, result=result, groups=groups, more=more)
    module = Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    (found,) = collectives(module, None, 1, 8)
    return found


V5E, H100 = PEAKS["v5e"], PEAKS["h100"]
ONE_WAY = 200e9  # half of the 400 GB/s in both directions


@pytest.mark.parametrize(
    ("opcode", "operand", "result", "more", "sent"),
    [
        ("all-gather", 8, 64, ", dimensions={0}", 64 * 4 * 7 / 8),
        ("reduce-scatter", 64, 8, ", dimensions={0}, to_apply=add", 64 * 4 * 7 / 8),
        ("all-reduce", 64, 64, ", to_apply=add", 64 * 4 * 2 * 7 / 8),
        ("all-to-all", 64, 64, ", dimensions={0}", 64 * 4 * 7 / 8),
    ],
)
def test_bytes_that_leave_a_device(opcode: str, operand: int, result: int, more: str, sent: float) -> None:
    groups = ALL.replace("use_global_device_ids=true, ", "") if opcode == "all-to-all" else ALL
    found = communication(one(opcode, operand, result, more, groups), V5E)
    assert found.link_bytes == sent
    assert found.least_s == sent / ONE_WAY
    assert not isinstance(found.least_s, AtLeast)


def test_a_permute_sends_all_of_it() -> None:
    pairs = "channel_id=1, source_target_pairs={{0,1},{1,0}}"
    assert communication(one("collective-permute", 64, 64, groups=pairs), V5E).link_bytes == 64 * 4
    same = "channel_id=1, source_target_pairs={{0,0},{1,1}}"
    assert communication(one("collective-permute", 64, 64, groups=same), V5E).least_s == 0


def test_a_group_of_one_sends_nothing() -> None:
    alone = "channel_id=1, use_global_device_ids=true, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}"
    assert communication(one("all-reduce", 64, 64, ", to_apply=add", alone), V5E).link_bytes == 0


def test_switches_that_reduce_halve_an_all_reduce() -> None:
    reduced = one("all-reduce", 64, 64, ", to_apply=add")
    assert communication(reduced, H100).link_bytes == 64 * 4
    assert communication(reduced, PEAKS["a100"]).link_bytes == 64 * 4 * 2 * 7 / 8


def test_a_link_of_unknown_speed_is_missing() -> None:
    reduced = one("all-reduce", 64, 64, ", to_apply=add")
    unknown = communication(reduced, PEAKS["v4"])
    assert isinstance(unknown.least_s, AtLeast)
    assert unknown.least_s.reason == "1 collective over links of unknown speed"
    between = communication(reduced, dataclasses.replace(H100, linked_devices=4))
    assert isinstance(between.least_s, AtLeast)
    assert between.least_s > 0
    assert "between hosts" in between.least_s.reason
    assert communication(reduced, Unavailable("no chip")).link_bytes > 0


def test_every_chips_link_has_a_source() -> None:
    for peak in PEAKS.values():
        assert isinstance(peak.interconnect_bytes_per_s, Unavailable) or peak.source.startswith("https://")
