"""Lower bounds of collectives, computed by hand."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.lower_bound import sent_bytes
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
    found = sent_bytes(one(opcode, operand, result, more, groups))
    assert found == sent
    assert not isinstance(found, AtLeast)


def test_a_permute_sends_all_of_it() -> None:
    pairs = "channel_id=1, source_target_pairs={{0,1},{1,0}}"
    assert sent_bytes(one("collective-permute", 64, 64, groups=pairs)) == 64 * 4
    same = "channel_id=1, source_target_pairs={{0,0},{1,1}}"
    assert sent_bytes(one("collective-permute", 64, 64, groups=same)) == 0


def test_a_group_of_one_sends_nothing() -> None:
    alone = "channel_id=1, use_global_device_ids=true, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}"
    assert sent_bytes(one("all-reduce", 64, 64, ", to_apply=add", alone)) == 0


def test_switches_that_reduce_halve_an_all_reduce() -> None:
    reduced = one("all-reduce", 64, 64, ", to_apply=add")
    assert sent_bytes(reduced, adds_on_the_way=True) == 64 * 4
    assert sent_bytes(reduced) == 64 * 4 * 2 * 7 / 8


def test_every_chips_link_has_a_source() -> None:
    for peak in PEAKS.values():
        assert isinstance(peak.interconnect_bytes_per_s, Unavailable) or peak.links_source.startswith("https://")
