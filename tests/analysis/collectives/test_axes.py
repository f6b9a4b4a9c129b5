"""Axes of groups: what is found always means the same groups; groups made from axes are always found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inspector.analysis.collectives.axes import axes_of_groups, axes_of_pairs, with_size_one
from inspector.errors import Unavailable
from inspector.hlo.devices.group_mode import GroupMode, participants
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import AxisRef, ListGroups, MeshGroups, ReplicaGroups, WrittenIds, parse
from tests.groups import to_lists


def find(groups: ReplicaGroups, mesh: Mesh | None, ordered: bool = True) -> tuple[str, ...] | Unavailable:
    """In a program with one replica, and partitions as the mesh has positions (or 8)."""
    count = mesh.size if mesh else 8
    devices = participants(groups, GroupMode.FLATTENED_ID, 1, count)
    return axes_of_groups(devices, groups, mesh, 1, count, ordered)


def written_ids(mesh: Mesh) -> WrittenIds | None:
    """The mesh's ids."""
    return None if mesh.device_ids is None else WrittenIds.of(mesh.device_ids)


def as_groups(axes: tuple[str, ...], mesh: Mesh) -> MeshGroups:
    """The groups that a result means."""
    names = ",".join(f"'{n}'={s}" for n, s in zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    written = ",".join(f"'{name}'" + colon + part for name, colon, part in (axis.partition(":") for axis in axes))
    form = parse(f"mesh[{names}] {{{written}}}")
    assert isinstance(form, MeshGroups)
    return MeshGroups(form.mesh_axes, form.axes, written_ids(mesh))


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    assume(math.prod(sizes) <= 64)
    ids = tuple(draw(st.permutations(range(math.prod(sizes))))) if draw(st.booleans()) else None
    return Mesh(tuple("ijkl"[: len(sizes)]), sizes, "partition", ids)


@given(meshes(), st.data())
@settings(deadline=None, max_examples=200)
def test_whole_axes_in_any_order_are_found(mesh: Mesh, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(mesh.axis_names))[: data.draw(st.integers(0, len(mesh.axis_names)))]
    groups = as_groups(tuple(axes), mesh)
    large = tuple(axis for axis in axes if mesh.axis_sizes[mesh.axis_names.index(axis)] > 1)
    if mesh.device_ids is None:
        assert find(groups, mesh) == tuple(axes)  # the form names axes of size 1 too
    assert find(ListGroups(tuple(map(tuple, groups.expand().tolist()))), mesh) == large


@given(meshes(), st.data())
@settings(deadline=None, max_examples=200)
def test_parts_of_axes_are_found(mesh: Mesh, data: st.DataObject) -> None:
    parts = []
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        if data.draw(st.booleans()):
            part = data.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
            before = data.draw(st.sampled_from([d for d in range(1, size // part + 1) if size // part % d == 0]))
            parts.append(AxisRef(name, before, part))
    axes = tuple(data.draw(st.permutations(parts)))
    named = tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    expanded = MeshGroups(named, axes, written_ids(mesh)).expand()
    found = find(ListGroups(tuple(map(tuple, expanded.tolist()))), mesh)
    assert isinstance(found, tuple), found
    assert sorted(to_lists(as_groups(found, mesh))) == sorted(expanded.tolist())


@given(st.sampled_from([(8,), (2, 4), (2, 2, 2), (2, 3)]), st.booleans(), st.data())
@settings(deadline=None, max_examples=300)
def test_all_matches_have_the_same_groups(sizes: tuple[int, ...], ordered: bool, data: st.DataObject) -> None:
    """Any partition of the ids: either axes that expand to it, or a reason."""
    mesh = Mesh(tuple("ijk"[: len(sizes)]), sizes, "partition")
    ids = data.draw(st.permutations(range(mesh.size)))
    size = data.draw(st.sampled_from([d for d in range(1, mesh.size + 1) if mesh.size % d == 0]))
    groups = ListGroups(tuple(tuple(ids[start : start + size]) for start in range(0, mesh.size, size)))
    found = find(groups, mesh, ordered)
    if isinstance(found, Unavailable):
        assert len(found.reason) > 20
        return
    meant, given_ = to_lists(as_groups(found, mesh)), to_lists(groups)
    if not ordered:
        meant, given_ = [sorted(g) for g in meant], [sorted(g) for g in given_]
    assert sorted(meant) == sorted(given_)


MESH = Mesh(("i", "j"), (2, 4), "partition")


@pytest.mark.parametrize(
    ("groups", "mesh", "reason"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", None, "the program has no mesh or axis environment"),
        ("{{0},{1,2},{3,4,5,6,7}}", MESH, "the groups have different sizes"),
        ("{{0,1},{2,3}}", MESH, "the groups leave out 4 devices"),
        ("{{0,5},{1,4},{2,7},{3,6}}", MESH, r"match no axes or parts of axes of the partition mesh \(i=2, j=4\)"),
        ("{{3,1,2,0},{7,5,6,4}}", MESH, r"those of axes \(j\), but their members are in a different order"),
        ("{{0,1,2,3},{4,5,6,7}}", Mesh(("r",), (4,), "replica"), "has 4 positions, but the program has 1 replicas"),
    ],
)  # fmt: skip
def test_reasons(groups: str, mesh: Mesh | None, reason: str) -> None:
    form = parse(groups)
    devices = participants(form, GroupMode.FLATTENED_ID, 1, 8)
    if mesh is not None and mesh.kind == "replica":
        devices = np.arange(8).reshape(8, 1)
    found = axes_of_groups(devices, form, mesh, 1, 8, ordered=True)
    assert isinstance(found, Unavailable)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)


def test_order_does_not_matter_to_a_reduction() -> None:
    assert find(parse("{{3,1,2,0},{7,5,6,4}}"), MESH, ordered=False) == ("j",)
    assert find(parse("{{0,4,1,5,2,6,3,7}}"), MESH, ordered=False) == ("j", "i")


def test_the_fewest_matching_parts_are_named() -> None:
    """The first way to cut twelve positions gives the same groups in two parts."""
    mesh = Mesh(("i",), (12,), "partition")
    assert find(parse("{{0,3,1,4,2,5},{6,9,7,10,8,11}}"), mesh, ordered=False) == ("i:(2)6",)


def test_alone_on_its_mesh() -> None:
    mesh = Mesh(("i", "j"), (1, 1), "partition")
    assert find(parse("{{0}}"), mesh) == ()
    assert with_size_one((), mesh, 1, [("j",)]) == ("j",)
    assert with_size_one((), mesh, 1, []) == ("i", "j")
    assert with_size_one(("i",), mesh, 1, [("j",)]) == ("i",)


def test_an_axis_without_positions_has_no_groups() -> None:
    form, mesh = parse("{{0}}"), Mesh(("i", "j"), (2, 0), "replica")
    found = axes_of_groups(np.array([[0]]), form, mesh, 1, 1, ordered=True)
    assert found == Unavailable("the replica mesh (i=2, j=0) has 0 positions, but the program has 1 replicas")


def test_a_form_names_its_axes_without_a_mesh() -> None:
    assert find(parse("mesh['data'=2,'model'=4] {'model':(2)2,'data'}"), None) == ("model:(2)2", "data")


def test_a_form_over_another_mesh_is_matched() -> None:
    """The partitioner names axes as it likes."""
    assert find(parse("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}"), MESH) == ("j",)


def test_replicas_and_partitions() -> None:
    """Two replicas of four partitions: a replica mesh is matched in every partition at once."""
    replica_mesh = Mesh(("r",), (2,), "replica")
    partition_mesh = Mesh(("p", "q"), (2, 2), "partition")
    form = parse("{{0,1}}")
    across_replicas = participants(form, GroupMode.CROSS_REPLICA, 2, 4)
    assert axes_of_groups(across_replicas, form, replica_mesh, 2, 4, ordered=True) == ("r",)
    found = axes_of_groups(across_replicas, form, partition_mesh, 2, 4, ordered=True)
    assert isinstance(found, Unavailable)
    assert "combine replicas with partitions" in found.reason
    pairs = parse("{{0,1},{2,3}}")
    across_partitions = participants(pairs, GroupMode.CROSS_PARTITION, 2, 4)
    assert axes_of_groups(across_partitions, pairs, partition_mesh, 2, 4, ordered=True) == ("q",)


@pytest.mark.parametrize(
    ("pairs", "axes"),
    [
        ([[0, 1], [1, 2], [4, 5]], ("j",)),
        ([[0, 4], [1, 5]], ("i",)),
        ([[0, 1], [1, 5]], ("i", "j")),
        ([[3, 3]], ()),
    ],
)
def test_pairs(pairs: list[list[int]], axes: tuple[str, ...]) -> None:
    assert axes_of_pairs(np.array(pairs), MESH, 1, 8) == axes
    shuffled = (3, 0, 5, 1, 2, 7, 4, 6)  # the id at each position
    moved = [[shuffled[s], shuffled[t]] for s, t in pairs]
    assert axes_of_pairs(np.array(moved), Mesh(("i", "j"), (2, 4), "partition", shuffled), 1, 8) == axes
    assert isinstance(axes_of_pairs(np.array(pairs), None, 1, 8), Unavailable)
