"""The values of members, in words; tests/hlo/test_groups_observed.py compares the numbers with an execution."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.collectives.members import COLUMNS
from inspector.analysis.collectives.operations import OPCODES
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module

DATA = Path(__file__).parents[2] / "hlo" / "data"

HLO = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4,6] parameter(0)
  y = f32[4,6] parameter(1)
  o = s64[2] parameter(2)
  reduced = f32[4,6] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  gathered = f32[4,12] all-gather(x), replica_groups={{1,0},{3,2}}, dimensions={1}
  scattered = f32[2,6] reduce-scatter(x), replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=add
  exchanged = f32[4,6] all-to-all(x), replica_groups={{0,1},{2,3}}, dimensions={0}
  swapped = (f32[4,6], f32[4,6]) all-to-all(x, y), replica_groups={{0,1},{2,3}}
  ragged = f32[4,6] ragged-all-to-all(x, y, o, o, o, o), replica_groups={{0,1},{2,3}}
  sent = f32[4,6] collective-permute(x), source_target_pairs={{0,1},{1,0},{2,3}}
  broadcast = f32[4,6] collective-broadcast(x), replica_groups={{1,0},{2,3}}
  ROOT r = (f32[4,6]) tuple(reduced)
}"""


@pytest.fixture(scope="module")
def found() -> Collectives:
    proto = _hlo.hlo_module_from_text(HLO).as_serialized_hlo_module_proto()
    return collectives(Module.from_proto(proto), Mesh(("i", "j"), (2, 2), "replica"), num_replicas=4)


def row(table: pd.DataFrame, logical_id: int) -> pd.Series:
    return table[table["logical_id"] == logical_id].iloc[0]


@pytest.mark.parametrize(
    ("name", "logical_id", "before", "after", "sources"),
    [
        ("reduced", 3, "own f32[4,6]", "sum of all 2: f32[4,6], the same on each", [2, 3]),
        (
            "gathered",
            3,
            "block 0 of 2 along dimension 1: f32[4,6]",
            "all 2 blocks along dimension 1, in order: f32[4,12]",
            [3, 2],
        ),
        (
            "scattered",
            1,
            "own f32[4,6], all 2 blocks along dimension 0",
            "block 1 of 2 along dimension 0 of the sum of all 2: f32[2,6]",
            [0, 1],
        ),
        (
            "exchanged",
            1,
            "own f32[4,6], block j of 2 along dimension 0 for member j",
            "block 1 of all 2 along dimension 0, in order: f32[4,6]",
            [0, 1],
        ),
        (
            "swapped",
            2,
            "own 2 x f32[4,6], operand j for member j",
            "operand 0 of all 2, in order: 2 x f32[4,6]",
            [2, 3],
        ),
        ("sent", 1, "own f32[4,6], sent to id 0", "f32[4,6] of id 0", [0]),
        ("sent", 2, "own f32[4,6], sent to id 3", "zeros f32[4,6] (no pair has it as target)", []),
        ("sent", 3, "own f32[4,6], not sent", "f32[4,6] of id 2", [2]),
        ("broadcast", 0, "own f32[4,6], not used", "f32[4,6] of id 1, the first of the group", [1]),
        ("broadcast", 2, "own f32[4,6], sent to all", "f32[4,6] of id 2, the first of the group", [2]),
    ],
)
def test_words(found: Collectives, name: str, logical_id: int, before: str, after: str, sources: list[int]) -> None:
    member = row(found.members(name), logical_id)
    assert (member["before"], member["after"], member["receives_from"]) == (before, after, sources)


def test_every_opcode_has_words(found: Collectives) -> None:
    assert {c.opcode for c in found} == set(OPCODES)
    for collective in found:
        table = found.members(collective.name)
        assert tuple(table.columns) == COLUMNS
        assert sorted(table["logical_id"]) == [0, 1, 2, 3]
        assert (table["before"].str.len() > 5).all()


def test_numbers(found: Collectives) -> None:
    table = found.members("gathered")
    assert table["group"].tolist() == [0, 0, 1, 1]
    assert table["position"].tolist() == [0, 1, 0, 1]
    assert table["logical_id"].tolist() == table["replica"].tolist() == [1, 0, 3, 2]
    assert table["coordinates"].tolist() == [(0, 1), (0, 0), (1, 1), (1, 0)]
    assert set(table["before_bytes"]) == {96}
    assert set(table["after_bytes"]) == {192}


def test_a_permute_has_pairs_and_no_groups(found: Collectives) -> None:
    table = found.members("sent")
    assert table["group"].isna().all()
    assert table["position"].isna().all()
    assert table["logical_id"].tolist() == [0, 1, 2, 3]


def test_coordinates_on_a_mesh_with_ids_of_its_own() -> None:
    module = Module.from_proto((DATA / "forms.0.12.pb").read_bytes())
    mesh = Mesh(("a", "b"), (2, 4), "partition", (3, 1, 2, 0, 7, 5, 6, 4))
    found = collectives(module, mesh, 1, 8)
    assert found["listed"].axes == ("b",)
    table = found.members("listed")
    assert row(table, 3)["coordinates"] == (0, 0)
    assert row(table, 4)["coordinates"] == (1, 3)
    without = collectives(module, None, 1, 8).members("listed")
    assert set(without["coordinates"]) == {()}


def test_plot(found: Collectives) -> None:
    figure = found.plot("gathered")
    assert figure.get_suptitle().startswith("all-gather")
    assert len(figure.axes[0].patches) == 4
    assert len(found.plot("sent").artists) == 3
    module = Module.from_proto((DATA / "forms.0.12.pb").read_bytes())
    with pytest.raises(ModuleError, match="Cannot draw the groups of mesh: the program has no mesh"):
        collectives(module, None, 1, 8).plot("mesh")
    across_partitions = collectives(module, Mesh(("a", "b"), (2, 4), "partition"), 1, 8)
    assert across_partitions.plot("mesh").get_suptitle() == "all-gather over b:(2)2, a"


@pytest.mark.parametrize("operation", [
    "collective-permute(x), source_target_pairs={{0,1},{1,0}}", "all-gather(x), replica_groups={{0,1}}, dimensions={0}",
])  # fmt: skip
def test_groups_of_too_many_devices_are_reported_with_their_ids(operation: str) -> None:
    shape = "f32[4,6]" if "permute" in operation else "f32[8,6]"
    text = f"HloModule m\nENTRY main {{\n  x = f32[4,6] parameter(0)\n  ROOT r = {shape} {operation}\n}}"
    module = Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    (one,) = collectives(module, None, 2, 1 << 30)
    assert isinstance(one.participants, Unavailable)
    assert "ids, too many to expand" in one.participants.reason
    assert one.axes == one.participants
    assert one.groups == (((0, 1), (1, 0)) if "permute" in operation else ((0, 1),))
