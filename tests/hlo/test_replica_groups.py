"""Parser, expansion and printing of replica groups, against XLA's own reader and the oracle's parser."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.errors import ModuleError
from inspector.hlo.group_mode import GroupMode, participants
from inspector.hlo.replica_groups import AxisRef, Iota, IotaGroups, ListGroups, MeshGroups, parse, parse_pairs
from tests.groups import to_lists

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "oracle"))

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
        ("mesh['a'=4] {'a':(3)2}", r"'a':\(3\)2 does not cut the mesh axis 'a' of size 4"),
        ("mesh['a'=8] {'a':(1)4,'a':(2)2}", "not overlap"),
        ("mesh['a'=8] {'a':(0)4}", r"'a':\(0\)4 does not cut the mesh axis 'a' of size 8"),
        ("mesh['a'=8] {'a':(0)2,'a':(4)2}", r"'a':\(0\)2 does not cut"),
        ("mesh['a'=8] {'a':(2)0}", r"'a':\(2\)0 does not cut"),
        ("mesh['a'=4] {'a','a'}", "not overlap"),
        ("mesh['a'=4], device_ids=(0,1) {'a'}", "the mesh has 4 positions, but 2 device ids"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, message: str) -> None:
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
    with pytest.raises(ModuleError, match=r"Groups of [\d,]+ ids are not written out: expected at most 262,144"):
        groups.expand(1 << 40)


def test_uneven_groups_do_not_multiply() -> None:
    with pytest.raises(ModuleError, match="ids are not written out"):
        ListGroups((tuple(range(3000)), *((n,) for n in range(3000, 6000)))).expand()


@pytest.mark.parametrize("counts", [(2**31 - 1, 1), (1, 2**31 - 1), (2**16, 2**16)])
@pytest.mark.parametrize("mode", GroupMode)
def test_participants_of_a_claimed_multitude_are_refused(mode: GroupMode, counts: tuple[int, int]) -> None:
    with pytest.raises(ModuleError, match="ids are not written out"):
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
    device_ids: tuple[int, ...] | Iota | None = None
    if ids == "list":
        device_ids = tuple(draw(st.permutations(range(total))))
    elif ids == "iota":
        device_ids = Iota(tuple(sizes), tuple(draw(st.permutations(range(len(sizes))))))
    return MeshGroups(axes, tuple(draw(st.permutations(references))), device_ids)


@given(meshes())
@settings(max_examples=300, deadline=None)
def test_meshes_match_the_reference_parser_and_partition_the_ids(groups: MeshGroups) -> None:
    assert parse(str(groups)) == groups
    assert to_lists(groups) == digest.parse_groups(str(groups))
    assert sorted(groups.expand().reshape(-1)) == list(range(math.prod(size for _, size in groups.mesh_axes)))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_iotas_match_the_reference_parser(dims: list[int], data: st.DataObject) -> None:
    permutation = tuple(data.draw(st.permutations(range(len(dims)))))
    total = math.prod(dims)
    size = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    groups = IotaGroups(total // size, size, Iota(tuple(dims), permutation))
    assert parse(str(groups)) == groups
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
