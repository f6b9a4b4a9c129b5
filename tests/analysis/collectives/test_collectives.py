"""The table of collectives on real modules of both JAX versions, and on the recorded old outcomes."""

from __future__ import annotations

import ast
import json
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives import participation
from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS
from inspector.analysis.collectives.operations import OPCODES
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices import replica_groups, replica_groups_proto
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module
from tests.modules import proto_of

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "oracle"))

import digest

DATA = Path(__file__).parents[2] / "hlo" / "data"
ORACLE = Path(__file__).parents[2] / "data" / "oracle"

MESH = Mesh(("a", "b"), (2, 4), "partition")
VERSIONS = pytest.mark.parametrize("version", ["0.10", "0.12"])


def load(case: str, mesh: Mesh | None = MESH) -> Collectives:
    return collectives(Module.from_proto((DATA / f"{case}.pb").read_bytes()), mesh, 1, 8)


def from_text(hlo: str, mesh: Mesh | None = None, num_replicas: int = 1, num_partitions: int = 1) -> Collectives:
    proto = _hlo.hlo_module_from_text(hlo).as_serialized_hlo_module_proto()
    return collectives(Module.from_proto(proto), mesh, num_replicas, num_partitions)


@VERSIONS
def test_shard_map(version: str) -> None:
    found = load(f"shard_map.{version}")
    seen = sorted((c.opcode, c.axes, c.context[-1], c.reduction, c.inserted_by) for c in found)
    assert seen == [
        ("all-gather", ("a",), "branch 1", "", "user"),
        ("all-gather", ("b", "a"), "entry", "", "user"),
        ("all-gather", ("b:(1)2",), "entry", "", "user"),
        ("all-reduce", ("a",), "while-body", "add", "user"),
        ("all-reduce", ("a", "b"), "entry", "maximum", "user"),
        ("all-reduce", ("b",), "entry", "add", "user"),
        ("all-to-all", ("a",), "entry", "", "user"),
        ("collective-permute", ("b",), "entry", "", "user"),
        ("reduce-scatter", ("a", "b"), "entry", "add", "user"),
    ]
    table = found.table()
    assert tuple(table.columns) == COLLECTIVE_COLUMNS.names
    assert COLLECTIVE_COLUMNS.names[:12] == (
        *("name", "opcode", "computation", "axes", "replica_groups", "group_mode", "operand_shapes"),
        *("result_shapes", "operand_bytes", "source_file", "source_line", "inserted_by"),
    )
    row = table[table["opcode"] == "reduce-scatter"].iloc[0]
    assert row["replica_groups"] == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert (row["operand_shapes"], row["result_shapes"]) == (["f32[8,4]"], ["f32[1,4]"])
    assert (row["operand_bytes"], row["result_bytes"], row["dimensions"]) == (128, 16, [0])
    assert row["source_file"] == "tests/hlo/make_data.py"
    assert row["group_mode"] == "flattened_id"
    assert row["group_size"] == 8
    permute = table[table["opcode"] == "collective-permute"].iloc[0]
    assert permute["group_size"] == 2
    assert permute["replica_groups"] == [[0, 1], [1, 2], [4, 5], [5, 6]]
    assert permute["source_line"] == json.loads((DATA / f"shard_map.{version}.json").read_text())["ppermute_line"]


@VERSIONS
def test_the_partitioner_is_named(version: str) -> None:
    found = load(f"partitioned.{version}")
    assert [(c.opcode, c.axes, c.inserted_by) for c in found] == [
        ("all-gather", ("a",), "partitioner"),
        ("all-reduce", ("b",), "partitioner"),
    ]


@VERSIONS
def test_pairs_are_one_row(version: str) -> None:
    found = load(f"asynchronous.{version}")
    assert [(c.name, c.done, c.opcode, c.axes) for c in found][:5] == [
        ("gather-start", "gather-done", "all-gather", ("b",)),
        ("reduce-start", "reduce-done", "all-reduce", ("a",)),
        ("permute-start", "permute-done", "collective-permute", ("b",)),
        ("exchange-start", "exchange-done", "all-to-all", ("b",)),
        ("scatter-start", "scatter-done", "reduce-scatter", ("b:(2)2",)),
    ]
    assert [c.name for c in found][5:] == ["broadcast"]
    assert [str(c.result_shapes[0].without_layout()) for c in found] == [
        *("f32[8,16]", "f32[8,4]", "f32[8,4]", "f32[8,4]", "f32[4,4]", "f32[8,4]"),
    ]
    assert {c.computation for c in found} == {"main"}
    assert found["scatter-done"] is found["scatter-start"]
    assert found["exchange-start"].inserted_by == "user"  # said by the operation inside
    assert found["reduce-start"].inserted_by == Unavailable("the instruction has no op_name, so its origin is unknown")
    table = found.table()
    assert table["source_line"].isna()[0]
    assert (
        "source_from: the compiler recorded no source line for it, nor for the instructions that contain it"
        in table["unknown"][0]
    )


def test_start_without_done() -> None:
    hlo = """HloModule m, num_partitions=8
ENTRY main {
  x = f32[2]{0} parameter(0)
  ROOT s = (f32[2]{0}, f32[16]{0}) all-gather-start(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, use_global_device_ids=true
}"""
    (gather,) = from_text(hlo, num_partitions=8)
    assert (gather.done, gather.result_bytes, gather.operand_bytes) == ("", 64, 8)


@VERSIONS
def test_frozen_value(version: str) -> None:
    found = load(f"forms.{version}")
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert hash(copy.items[0]) == hash(found.items[0])
    assert list(copy) == list(found)
    assert len(copy) == 6
    with pytest.raises(KeyError, match="No collective 'nope'"):
        found["nope"]


def test_no_collectives() -> None:
    table = load("plain.0.12").table()
    assert len(table) == 0
    assert tuple(table.columns) == COLLECTIVE_COLUMNS.names


def test_all_is_written_out() -> None:
    found = load("forms.0.12")
    assert found["all"].groups == ((0, 1, 2, 3, 4, 5, 6, 7),)
    assert found["all"].axes == ("a", "b")
    assert found["uneven"].groups == ((0,), (1, 2), (3, 4, 5), (6, 7))
    assert found.table().set_index("name")["group_size"][["all", "uneven"]].tolist() == [8, 3]
    assert isinstance(found["uneven"].axes, Unavailable)


def all_reduces(groups: list[str], count: int) -> Collectives:
    lines = [f"r{i} = f32[] all-reduce(p), replica_groups={form}, to_apply=add" for i, form in enumerate(groups)]
    return from_text(
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
        "ENTRY e {\n p = f32[] parameter(0)\n" + "\n".join(lines) + "\nROOT t = f32[] add(p, p)\n}",
        num_replicas=count,
    )  # fmt: skip


def test_a_table_lists_ids_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participation, "_MOST_LISTED_TOGETHER", 64)
    forms = ["[1,16]<=[16]", "[16,1]<=[16]", "[2,8]<=[16]", "[2,8]<=[2,8]T(1,0)"]
    assert not all_reduces(forms * 5, 16).table()["replica_groups"].isna().any()
    found = all_reduces([*forms, "[4,4]<=[16]", forms[0]], 16)
    table = found.table()
    assert list(table["replica_groups"].isna()) == [False] * 4 + [True, False]
    assert "replica_groups: 4 groups of up to 4 ids are too many for a table: Coll" in table["unknown"][4]
    assert found[4].groups == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))


def test_a_million_devices() -> None:
    mesh = Mesh(("data", "fsdp", "model"), (32, 128, 256), "replica")
    (one,) = found = from_text(REDUCED.format(groups="[4096,256]<=[1048576]"), mesh, num_replicas=mesh.size)
    assert repr(found).partition("\n")[0] == f"<Collectives on the {mesh}: 1 all-reduce over model>"
    assert one.axes == ("model",)
    table = found.table()
    assert table["replica_groups"].isna()[0]
    assert "4,096 groups of up to 256 ids are too many for a table" in table["unknown"][0]
    assert found.totals()["axes"][0] == "model"
    with pytest.raises(
        ModuleError, match="Cannot list the members of r: there are 1,048,576, and a table has at most 2"
    ):
        found.members("r")
    with pytest.raises(ModuleError, match="Cannot draw 1,048,576 devices: a figure shows at most 65,536"):
        found.plot("r")
    assert one.groups[4095][-1] == 1_048_575
    assert one.participants is one.groups
    assert len(pickle.dumps(found)) < 10_000


REDUCED = """HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{ p = f32[] parameter(0)  ROOT r = f32[] all-reduce(p), replica_groups={groups}, to_apply=add }}"""


def test_groups_that_come_again_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participation, "_MOST_IDS", 64)
    forms = ["[1,16]<=[16]", "[2,8]<=[16]"]
    assert len(all_reduces(forms * 5, 16)) == 10
    with pytest.raises(ModuleError, match="too many to analyze"):
        all_reduces([*forms, "[4,4]<=[16]"], 16)


def test_more_ids_than_devices_can_be_are_not_even_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    written = "{" + ",".join(f"{{{2 * i},{2 * i + 1}}}" for i in range(50)) + "}"
    monkeypatch.setattr(replica_groups, "MAX_IDS", 99)
    monkeypatch.setattr(replica_groups_proto, "ListGroups", None)
    with pytest.raises(ModuleError, match=r"groups have 100 ids, too many to expand\. Expected at most 99"):
        all_reduces([written], 100)


def test_contexts() -> None:
    """In a fusion of a while body; in a computation that nothing calls; called through `call`."""
    hlo = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
fused { p = f32[2] parameter(0)  ROOT r = f32[2] all-reduce(p), replica_groups={}, to_apply=add }
body { p = (f32[2]) parameter(0)  g = f32[2] get-tuple-element(p), index=0  f = f32[2] fusion(g), kind=kLoop, calls=fused  ROOT t = (f32[2]) tuple(f) }
cond { p = (f32[2]) parameter(0)  ROOT c = pred[] constant(false) }
callee { p = f32[2] parameter(0)  ROOT q = f32[2] all-reduce(p), replica_groups={}, to_apply=add, metadata={op_name="jit(f)/psum[axes=('i',)]"} }
lost { p = f32[2] parameter(0)  ROOT l = f32[2] all-reduce(p), replica_groups={}, to_apply=add, metadata={op_name="jit(f)/dot_general"} }
ENTRY main {
  x = f32[2] parameter(0)
  c = f32[2] call(x), to_apply=callee
  t = (f32[2]) tuple(c)
  w = (f32[2]) while(t), condition=cond, body=body
  ROOT g = f32[2] get-tuple-element(w), index=0
}"""
    found = from_text(hlo, Mesh(("i",), (4,), "replica"), num_replicas=4)
    contexts = {row.name: row.context for row in found.table().itertuples()}
    assert contexts == {"r": "entry > while-body > fusion", "q": "entry > call", "l": "not called"}
    assert {c.name: c.axes for c in found} == {"r": ("i",), "q": ("i",), "l": ("i",)}
    assert found["q"].inserted_by == "user"
    assert found["l"].inserted_by == "compiler"
    assert found["q"].reduction == "add"


def test_combined_collectives_have_all_their_authors() -> None:
    """The op_name of an all-reduce that XLA combined from a loss and a gradient."""
    hlo = """HloModule m, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[] parameter(0)
  y = f32[2] parameter(1)
  ROOT r = (f32[], f32[2]) all-reduce(x, y), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add, metadata={op_name="jit(f)/shard_map/(jvp()/psum_invariant:transpose(jvp())/psum_invariant)"}
}"""
    (combined,) = from_text(hlo, Mesh(("i",), (2,), "partition"), num_partitions=2)
    assert combined.inserted_by == "user + autodiff"
    assert combined.phases == ("forward", "backward")


def test_ids_that_the_program_does_not_have() -> None:
    hlo = """HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  ROOT r = f32[8] all-gather(x), replica_groups={{0,1,2,3}}, dimensions={0}
}"""
    found = from_text(hlo, Mesh(("i",), (2,), "replica"), num_replicas=2)
    (gather,) = found
    assert gather.groups == ((0, 1, 2, 3),)
    assert gather.axes == gather.participants
    assert isinstance(gather.axes, Unavailable)
    assert gather.axes.reason.endswith(
        "name id 3, but in mode cross_replica a program of 2 replicas and 1 partitions has ids 0 to 1."
    )
    with pytest.raises(ModuleError, match="The members of r are unknown: Replica groups"):
        found.members("r")


def golden_cases() -> list[Any]:
    cases = json.loads((ORACLE / "golden.json").read_text())["cases"]
    return [pytest.param(case, id=name) for name, case in cases.items() if case.get("hlo") and "=" in case["hlo"]]


@pytest.mark.parametrize("case", golden_cases())
def test_recorded_outcomes_of_the_old_xla_computation(case: dict[str, Any]) -> None:
    """Opcodes, groups, shapes and reductions as the oracle's own parser digests the same text."""
    env = ast.literal_eval(case["env"]) if case["env"] != "None" and "<" not in case["env"] else []
    count = math.prod(size for _, size in env)
    mesh = Mesh(tuple(str(n) for n, _ in env), tuple(s for _, s in env), "replica") if env else None
    found = from_text(case["hlo"], mesh, num_replicas=count)
    expected = [c for c in digest.collectives(digest.parse_module(case["hlo"])) if c["op"] in OPCODES]
    assert {c.opcode for c in found} == {e["op"] for e in expected}
    plain = [(e["op"], e.get("replica_groups") or e.get("source_target_pairs"), e["operands"], e.get("to_apply") or "")
             for e in expected]  # fmt: skip
    for collective in found:
        groups = [list(group) for group in collective.groups]
        operands = [str(shape.without_layout()) for shape in collective.operand_shapes]
        everyone = [list(range(count))]
        assert (collective.opcode, groups, operands, collective.reduction) in plain or (
            groups == everyone and (collective.opcode, [], operands, collective.reduction) in plain
        )
        if mesh is not None and collective.form is not None:
            assert isinstance(collective.axes, tuple) or collective.axes.reason


@pytest.mark.slow
def test_all_collectives_of_a_large_module_are_listed() -> None:
    """220,000 instructions, many of them collectives."""
    big = proto_of(Module.from_proto((DATA / "shard_map.0.12.pb").read_bytes()))
    entry = next(c for c in big.computations if c.id == big.entry_computation_id)
    originals = list(entry.instructions)
    count = 220_000 // len(originals)
    for copy in range(count):
        for original in originals:
            instruction = entry.instructions.add()
            instruction.CopyFrom(original)
            instruction.name = f"{original.name}.copy{copy}"
    module = Module.from_proto(big.SerializeToString())
    found = collectives(module, MESH, 1, 8)
    assert len(found) > 3_000
    per_copy = sum(collective.name.endswith(".copy0") for collective in found)
    assert sum(".copy" in collective.name for collective in found) == count * per_copy
    assert len(found.table()) == len(found)
