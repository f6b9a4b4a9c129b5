"""Parser, expansion and printing of replica groups, against XLA's own reader and the oracle's parser."""

from __future__ import annotations

import math
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.errors import ModuleError
from inspector.hlo.cursor import Cursor
from inspector.hlo.devices.group_mode import GroupMode, participants
from inspector.hlo.devices.mixed_radix import Digit
from inspector.hlo.devices.replica_groups import (
    AxisRef,
    Iota,
    IotaGroups,
    ListGroups,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
    parse,
    parse_pairs,
)
from inspector.hlo.devices.replica_groups_proto import alike_groups, from_instruction_proto
from inspector.hlo.module import Module
from inspector.support.varints import write_varint
from inspector.toolchain.schema import installed_schema
from tests.groups import to_lists

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "oracle"))

import digest

FORMS = [
    ("{}", [[0, 1, 2, 3]]),
    ("{{0,1},{2,3}}", [[0, 1], [2, 3]]),
    ("{{0},{1,2,3}}", [[0], [1, 2, 3]]),
    ("{{3,1,2,0}}", [[3, 1, 2, 0]]),
    ("[2,2]<=[4]", [[0, 1], [2, 3]]),
    ("[2,4]<=[4,2]T(1,0)", [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ("[4,2]<=[2,2,2]T(0,2,1)", [[0, 2], [1, 3], [4, 6], [5, 7]]),
    ("mesh['a'=2,'b'=4] {'b'}", [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ("mesh['a'=2,'b'=4] {'b','a'}", [[0, 4, 1, 5, 2, 6, 3, 7]]),
    ("mesh['a'=2,'b'=4] {'a','b'}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ("mesh['b'=4] {'b':(1)2}", [[0, 2], [1, 3]]),
    ("mesh['b'=4] {'b':(2)2}", [[0, 1], [2, 3]]),
    ("mesh['b'=8] {'b':(4)2,'b':(1)2}", [[0, 4, 1, 5], [2, 6, 3, 7]]),
    ("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}", [[3, 1], [2, 0]]),
    ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("mesh['a'=2,'b'=2] {}", [[0], [1], [2], [3]]),
    ("mesh[] {}", [[0]]),
    ("single_device[device_id=3] {}", [[3]]),
    ('mesh["it\'s"=2] {"it\'s"}', [[0, 1]]),
]


@pytest.mark.parametrize(("text", "groups"), FORMS)
def test_expand_and_print_back(text: str, groups: list[list[int]]) -> None:
    parsed = parse(text)
    assert to_lists(parsed, 4 if text == "{}" else None) == groups
    assert str(parsed) == text
    assert parse(f"  {str(parsed).replace(',', ' , ')} ") == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"Cannot read replica groups at position 0: expected '\{', '\[', 'mesh\[' or 'single_device\[', got ''"),
        ("{{0,1}", r"at position 6: expected ',', got '' after '\{\{0,1\}'"),
        ("{{0,x}}", r"at position 2: expected integers up to '\}', got '0,x\}\}'"),
        ("{{0,1}} x", r"at position 8: expected the end, got 'x'"),
        ("{{0,,1}}", "expected integers"),
        ("[2,2]<[4]", r"expected '<='"),
        ("[2,2,2]<=[8]", r"expected two sizes \[groups,members\], not 3"),
        ("[2,3]<=[8]", r"2 groups of 3 need 6 ids, but \[8\] has 8"),
        ("[2,4]<=[4,2]T(1,1)", r"T\(1,1\) is not a permutation of the 2 dimensions \[4,2\]"),
        ("mesh['a'=2 {'a'}", r"expected ','"),
        ("mesh['a=2] {'a'}", "expected '='"),
        ("mesh['a'=2] {'c'}", r"the mesh has no axis 'c', only \['a'\]"),
        ("mesh['a'=2,'a'=2] {'a'}", "a mesh axis name occurs twice"),
        ("mesh['a'=4] {'a':(3)2}", r"'a':\(3\)2 does not split the mesh axis 'a' of size 4"),
        ("mesh['a'=8] {'a':(1)4,'a':(2)2}", "not overlap"),
        ("mesh['a'=8] {'a':(0)4}", r"'a':\(0\)4 does not split the mesh axis 'a' of size 8"),
        ("mesh['a'=8] {'a':(0)2,'a':(4)2}", r"'a':\(0\)2 does not split"),
        ("mesh['a'=8] {'a':(2)0}", r"'a':\(2\)0 does not split"),
        ("mesh['a'=4] {'a','a'}", "not overlap"),
        ("mesh['a'=4], device_ids=(0,1) {'a'}", "the mesh has 4 positions, but 2 device ids"),
        ("mesh['a'=-2,'b'=-2] {'a'}", "the size of a mesh axis is negative"),
        ("[-1,-4]<=[4]", "the number of groups or members is negative"),
        ("[2,2]<=[-2,-2]", r"a dimension of \[-2,-2\] is negative"),
        ("{{0,9223372036854775808}}", "an id of more than 64 bits"),
    ],
)
def test_errors_state_the_place_and_the_expected_text(text: str, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        parse(text)


def test_all_needs_a_count() -> None:
    with pytest.raises(ModuleError, match=r"\{\} mean all ids"):
        parse("{}").expand()


def test_pairs() -> None:
    assert parse_pairs("{{0,1},{1,0}}") == ((0, 1), (1, 0))
    assert parse_pairs("{}") == ()
    with pytest.raises(ModuleError, match="expected two ids"):
        parse_pairs("{{0,1,2}}")


def test_uneven_groups_are_padded() -> None:
    assert parse("{{0},{1,2,3}}").expand().tolist() == [[0, -1, -1], [1, 2, 3]]


@pytest.mark.parametrize(
    "text",
    ["{}", "[1,1099511627776]<=[1099511627776]", "[2,8388608]<=[4096,4096]T(1,0)", "mesh['a'=1099511627776] {'a'}"],
)
def test_more_ids_than_devices_can_be_are_not_written_out(text: str) -> None:
    groups = parse(text)
    with pytest.raises(
        ModuleError, match=r"Replica groups have [\d,]+ ids, too many to expand\. Expected at most 2,097,152"
    ):
        groups.expand(1 << 40)


def test_uneven_groups_do_not_multiply() -> None:
    with pytest.raises(ModuleError, match="ids, too many to expand"):
        ListGroups((tuple(range(3000)), *((n,) for n in range(3000, 6000)))).expand()


@pytest.mark.parametrize("counts", [(2**31 - 1, 1), (1, 2**31 - 1), (2**16, 2**16)])
@pytest.mark.parametrize("mode", GroupMode)
def test_participants_of_a_claimed_multitude_are_refused(mode: GroupMode, counts: tuple[int, int]) -> None:
    with pytest.raises(ModuleError, match="ids, too many to expand"):
        participants(ListGroups(((0,),)), mode, *counts)


def test_a_quarter_of_a_million_devices() -> None:
    groups = parse("[1024,256]<=[64,16,256]T(1,0,2)")
    start = time.process_time()
    expanded = groups.expand()
    assert time.process_time() - start < 0.1
    assert expanded.shape == (1024, 256)
    text = "{" + ",".join(f"{{{2 * i},{2 * i + 1}}}" for i in range(125_000)) + "}"
    start = time.process_time()
    assert parse(text).expand().shape == (125_000, 2)
    assert time.process_time() - start < 4


@pytest.mark.parametrize("text", ["{{}}", "[0,0]<=[0]", "mesh['a'=0] {'a'}", "mesh['a'=0,'b'=2] {'b'}"])
@pytest.mark.parametrize("mode", GroupMode)
def test_empty_groups_have_no_participants(text: str, mode: GroupMode) -> None:
    groups = parse(text)
    assert groups.member_digits() is None
    assert groups.expand().size == 0
    assert groups.expand().shape == groups.shape()
    assert participants(groups, mode, 2, 3).size == 0


def test_lists_are_values() -> None:
    groups = ListGroups(((0, 1), (2, 3)))
    assert groups.groups == ((0, 1), (2, 3))
    assert repr(groups) == "ListGroups(groups=((0, 1), (2, 3)))"
    others = [ListGroups(()), ListGroups(((0, 1, 2, 3),)), ListGroups(((0, 1), (3, 2))), ListGroups(((0,), (1, 2, 3)))]
    for other in others:
        assert groups != other
        assert hash(groups) != hash(other)
    for copy in (ListGroups([[0, 1], [2, 3]]), pickle.loads(pickle.dumps(groups)), parse("{{0,1},{2,3}}")):
        assert copy == groups
        assert hash(copy) == hash(groups)
        assert isinstance(copy, ListGroups)
        with pytest.raises(ValueError, match="read-only"):
            copy.ids[0] = 7
    assert groups != ((0, 1), (2, 3))


def test_many_ids_are_shown_in_part() -> None:
    groups = ListGroups.from_arrays(np.arange(10_000), np.full(100, 100))
    assert repr(groups).startswith("<ListGroups: 10,000 ids in 100 groups, {{0,1,2,3,")
    assert len(repr(groups)) < 300
    assert len(str(groups)) > 40_000
    with pytest.raises(ModuleError, match="name id 9999, but in mode") as caught:
        participants(groups, GroupMode.CROSS_REPLICA, 10, 1)
    assert len(str(caught.value)) < 500


@given(st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=5), min_size=1, max_size=6), st.data())
@settings(deadline=None)
def test_plain_lists_are_read_as_any(groups: list[list[int]], data: st.DataObject) -> None:
    """Digits, commas and braces alone are read at once, and the same lists with a space one by one."""
    text = "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"
    assert Cursor(text, "groups").plain_lists() is not None
    assert parse(text) == ListGroups(groups)
    place = data.draw(st.sampled_from([i for i, character in enumerate(text) if character in ",{"])) + 1
    spaced = text[:place] + " " + text[place:]
    assert Cursor(spaced, "groups").plain_lists() is None
    assert parse(spaced) == ListGroups(groups)


@pytest.mark.parametrize(
    "text",
    ["{{}}", "{{},{1}}", "{{1},{}}", "{{1},{},{2}}", "{{1,},{2}}", "{{1},{,2}}", "{{-1,2}}", "{{1}, {2}}", "{{١}}",
     "{1}", "{}", "{{1,2}", "{{12345678901234567890}}"],
)  # fmt: skip
def test_other_lists_are_not_plain(text: str) -> None:
    cursor = Cursor(text, "groups")
    assert cursor.plain_lists() is None
    assert cursor.position == 0


def proto_of(groups: list[list[int]]) -> Any:
    proto: Any = installed_schema().message("xla.HloInstructionProto")()
    proto.collective_device_list.SetInParent()
    for group in groups:
        proto.collective_device_list.replica_groups.add(replica_ids=group)
    return proto


def read(proto: Any) -> ReplicaGroups:
    """Reads the groups of a module's instruction."""
    return read_bytes(proto.SerializeToString())


def read_bytes(instruction: bytes) -> ReplicaGroups:
    """Reads the groups of a module with an instruction of these bytes."""
    message = installed_schema().message
    named: Any = message("xla.HloInstructionProto")(name="r", id=1, opcode="all-reduce")
    computation: Any = message("xla.HloComputationProto")(name="main", id=1, root_id=1)
    module: Any = message("xla.HloModuleProto")(name="m", entry_computation_id=1)
    data = computation.SerializeToString() + field(2, named.SerializeToString() + instruction)
    return Module.from_proto(module.SerializeToString() + field(3, data)).instruction("r").replica_groups


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return write_varint(number << 3 | 2) + write_varint(len(data)) + data


@pytest.mark.parametrize("seed", range(5))
def test_many_groups_are_read_from_their_bytes_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(seed)
    for _ in range(40):
        count, members = int(source.integers(65, 400)), int(source.integers(1, 140))
        largest = 1 << int(source.integers(1, 63))
        ids = source.integers(0, largest, (count, members)).tolist()
        alike = source.random() < 0.7
        if not alike:
            ids[int(source.integers(count))].append(5)
        proto = proto_of(ids)
        written = alike_groups(proto.collective_device_list.SerializeToString())
        assert (written is not None) == alike
        found = from_instruction_proto(proto)
        assert found == ListGroups(ids)
        assert read(proto) == found
        assert written is None or written == found
        assert found.expand().shape == (count, members + (not alike))
        ids[int(source.integers(count))][0] = -1
        with pytest.raises(ModuleError, match="the id -1 is negative"):
            read(proto_of(ids))


def test_other_bytes_than_groups_are_read_individually() -> None:
    """With fields of a later version, or of the same number of integers but in other groups."""
    groups = [[n, n + 1] for n in range(100)]
    proto = proto_of(groups)
    data = proto.SerializeToString() + proto_of(groups[:3]).SerializeToString()
    merged = type(proto).FromString(data)
    assert read(merged) == ListGroups([*groups, *groups[:3]])
    moved = [*groups[:50], [1], [2, 3, 4], *groups[50:]]
    assert read(proto_of(moved)) == ListGroups(moved)
    empty = [*groups, []]
    assert read(proto_of(empty)) == ListGroups(empty)
    nobody: list[list[int]] = [[]] * 100
    assert read(proto_of(nobody)) == ListGroups(nobody)
    group = type(proto.collective_device_list.replica_groups[0])
    for data, ids in ((b"\x0a\x01\x07\x10\x01", [7]), (b"\x12\x02\x05\x06", [])):  # field 2 after the ids, or alone
        later = proto_of([])
        later.collective_device_list.replica_groups.extend([group.FromString(data)] * 100)
        assert read(later) == ListGroups([ids] * 100)


def test_the_later_of_two_forms_counts() -> None:
    proto, iota = proto_of([[n, n + 1] for n in range(100)]), proto_of([])
    iota.iota_collective_device_list.num_replica_groups = 2
    iota.iota_collective_device_list.num_devices_per_group = 3
    iota.iota_collective_device_list.iota_reshape_dims.append(6)
    assert read_bytes(proto.SerializeToString() + iota.SerializeToString()) == IotaGroups(2, 3, Iota((6,)))


def test_ids_of_the_programs_mesh_are_its_positions() -> None:
    ids = WrittenIds.of((3, 1, 0, 2))
    groups = MeshGroups((("a", 2), ("b", 2)), (AxisRef("b"),), ids)
    assert groups.in_mesh_order(ids.ids) == MeshGroups(groups.mesh_axes, groups.axes)
    assert groups.in_mesh_order(np.array((3, 1, 2, 0))) is None
    for wrong in map(WrittenIds.of, ((0, 0, 1, 1), (0, 1, 2, 4), (-1, 0, 1, 2))):
        assert MeshGroups(groups.mesh_axes, groups.axes, wrong).in_mesh_order(wrong.ids) is None


@st.composite
def meshes(draw: st.DrawFn) -> MeshGroups:
    """Random meshes with parts of axes in any order, and ids in any order or transposed."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=3))
    axes = tuple((f"axis{i}", size) for i, size in enumerate(sizes))
    references: list[AxisRef] = []
    for name, size in axes:
        if draw(st.booleans()):
            if draw(st.booleans()):
                references.append(AxisRef(name))
            else:
                pre_size = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
                rest = size // pre_size
                references.append(
                    AxisRef(name, pre_size, draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
                )
    total = math.prod(sizes)
    ids = draw(st.sampled_from(["none", "list", "iota"]))
    device_ids: WrittenIds | Iota | None = None
    if ids == "list":
        device_ids = WrittenIds.of(draw(st.permutations(range(total))))
    elif ids == "iota":
        device_ids = Iota(tuple(sizes), tuple(draw(st.permutations(range(len(sizes))))))
    return MeshGroups(axes, tuple(draw(st.permutations(references))), device_ids)


def hold_to_ids(groups: Any, id_count: int | None = None) -> None:
    """Compares the properties of groups, computed without listing their ids, with the ids."""
    ids = groups.expand(id_count)
    assert groups.shape(id_count) == ids.shape
    assert groups.largest_id(id_count) == ids.max(initial=-1)
    digits = groups.member_digits(id_count)
    if digits is not None:
        counted = np.zeros(1, np.int64)
        for digit in digits:
            counted = (counted[:, None] + np.arange(digit.size) * digit.stride).reshape(-1)
        assert (ids - ids[:, :1] == counted).all()


@pytest.mark.parametrize(("text", "groups"), FORMS)
def test_properties_of_ids_are_correct(text: str, groups: list[list[int]]) -> None:
    hold_to_ids(parse(text), 4)
    if "{{" in text:
        assert parse(text).member_digits(4) is None


@pytest.mark.parametrize("id_count", [1, 2, 7])
def test_no_groups_are_one_of_all(id_count: int) -> None:
    hold_to_ids(parse("{}"), id_count)
    assert parse("{}").member_digits(id_count) == (Digit(id_count, 1),)


@given(meshes())
@settings(max_examples=300, deadline=None)
def test_meshes_match_the_reference_parser_and_partition_the_ids(groups: MeshGroups) -> None:
    assert parse(str(groups)) == groups
    assert to_lists(groups) == digest.parse_groups(str(groups))
    assert sorted(groups.expand().reshape(-1)) == list(range(math.prod(size for _, size in groups.mesh_axes)))
    hold_to_ids(groups)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_iotas_match_the_reference_parser(dims: list[int], data: st.DataObject) -> None:
    permutation = tuple(data.draw(st.permutations(range(len(dims)))))
    total = math.prod(dims)
    size = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    groups = IotaGroups(total // size, size, Iota(tuple(dims), permutation))
    assert parse(str(groups)) == groups
    hold_to_ids(groups)
    assert to_lists(groups) == digest.parse_groups(str(groups))


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5).map(tuple), min_size=1, max_size=5).map(tuple))
def test_lists_print_and_parse_back(groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse(str(ListGroups(groups))) == ListGroups(groups)
    assert to_lists(ListGroups(groups)) == [list(group) for group in groups]


@given(st.text(alphabet="{}[],0123456789<=T()mesh'ab:", max_size=30))
def test_any_text_is_read_or_refused_cleanly(text: str) -> None:
    try:
        groups = parse(text)
    except ModuleError:
        return
    assert parse(str(groups)) == groups


def test_golden_groups() -> None:
    """Every group in the recorded outcomes of the old `xla_computation`."""
    import json

    golden = json.loads((Path(digest.__file__).parent / "golden.json").read_text())
    seen = 0
    for case in golden["cases"].values():
        for computation in digest.parse_module(case["hlo"])["comps"].values() if "hlo" in case else ():
            for instruction in computation:
                text = instruction["attrs"].get("replica_groups")
                if text and text != "{}":
                    seen += 1
                    assert to_lists(parse(text)) == digest.parse_groups(text)
                if pairs := instruction["attrs"].get("source_target_pairs"):
                    seen += 1
                    assert [list(pair) for pair in parse_pairs(pairs)] == digest.parse_groups(pairs)
    assert seen > 50


def test_expand_is_int64() -> None:
    assert parse("{{0,1}}").expand().dtype == np.int64


def test_a_pickle_has_the_fields_and_no_cached_values() -> None:
    groups = MeshGroups((("x", 4), ("y", 2)), (AxisRef("y"),), WrittenIds.of(range(7, -1, -1)))
    size = len(pickle.dumps(groups))
    expanded = groups.expand().tolist()
    copy = pickle.loads(pickle.dumps(groups))
    assert len(pickle.dumps(groups)) == size
    assert copy == groups
    assert copy.expand().tolist() == expanded


def test_more_dimensions_than_arrays_have_are_refused() -> None:
    many = Iota((1,) * 100, tuple(reversed(range(100))))
    mesh = MeshGroups(tuple((f"x{n}", 1) for n in range(80)), (AxisRef("x3"),))
    for groups in (IotaGroups(1, 1, many), mesh):
        with pytest.raises(ModuleError, match="dimensions, too many to expand"):
            groups.expand()
    assert IotaGroups(0, 4, Iota((0, 2**62, 2**62), (2, 1, 0))).expand().shape == (0, 4)


def test_damaged_device_lists_and_meshes() -> None:
    instruction: Any = installed_schema().message("xla.HloInstructionProto")()
    for n in range(70):
        instruction.collective_device_list.replica_groups.add(replica_ids=[2 * n, 2 * n + 1])
    listed = instruction.collective_device_list.SerializeToString() + b"\x7a\x01\xff"  # an unknown field 15
    instruction.collective_device_list.ParseFromString(listed)
    assert to_lists(from_instruction_proto(instruction)) == [[2 * n, 2 * n + 1] for n in range(70)]
    for index in (-1, 5):
        other: Any = installed_schema().message("xla.HloInstructionProto")()
        other.mesh_axes_replica_group_list.mesh.axes.add(name="x", size=2)
        other.mesh_axes_replica_group_list.axes.add(mesh_axis_index=index)
        with pytest.raises(ModuleError, match=rf"has 1 axes, but no axis {index}"):
            from_instruction_proto(other)


@pytest.mark.parametrize("text", ["{{0,-1},{1,2}}", "{{-5}}"])
def test_negative_ids_are_refused(text: str) -> None:
    with pytest.raises(ModuleError, match=r"the id -\d is negative"):
        parse(text)
    with pytest.raises(ModuleError, match=r"the id -\d is negative"):
        ListGroups([[0, 1], [-1, 2]])
