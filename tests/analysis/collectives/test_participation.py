"""Participants of collectives and their axes: the fast methods against listing every device."""

from __future__ import annotations

import collections
import math
import pickle
import random
from collections.abc import Sequence

import numpy as np
import pytest

from inspector.analysis.collectives import participation
from inspector.analysis.collectives.axes import axes_of_form, axes_of_groups
from inspector.analysis.collectives.participation import Participation, Participations
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.group_mode import GroupMode, participants
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import (
    AxisRef,
    Ids,
    Iota,
    IotaGroups,
    ListGroups,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
    parse,
)
from tests.analysis.plain_axes import plain_axes

SIZES = (1, 2, 2, 3, 4, 6, 8)
FULL = 1 << 20


def divisor(source: random.Random, number: int) -> int:
    return source.choice([d for d in range(1, number + 1) if number % d == 0])


def random_mesh(source: random.Random) -> Mesh:
    while math.prod(sizes := [source.choice(SIZES) for _ in range(source.randint(1, 4))]) > 96:
        pass
    ids = random_ids(source, math.prod(sizes), 0.2)
    kind = source.choice(["partition", "replica"])
    return Mesh(tuple("ijkl"[: len(sizes)]), tuple(sizes), kind, ids)  # type: ignore[arg-type]


def random_ids(source: random.Random, count: int, often: float) -> tuple[int, ...] | None:
    return tuple(source.sample(range(count), count)) if source.random() < often else None


def random_iota(source: random.Random, count: int) -> Iota:
    dims = []
    while count > 1:
        dims.append(divisor(source, count))
        count //= dims[-1]
    return Iota(tuple(dims) or (1,), tuple(source.sample(range(len(dims) or 1), len(dims) or 1)))


def random_iota_groups(source: random.Random, mesh: Mesh, count: int) -> IotaGroups:
    members = divisor(source, count)
    return IotaGroups(count // members, members, random_iota(source, count))


def random_mesh_groups(source: random.Random, mesh: Mesh, count: int) -> MeshGroups:
    """On the mesh's own axes, or on others, with parts of axes, and ids of each kind."""
    named = list(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    if mesh.size != count or source.random() < 0.3:
        first = divisor(source, count)
        named = [("p", first), ("q", count // first)]
    axes = []
    for name, size in named:
        if source.random() < 0.4:
            axes.append(AxisRef(name))
        elif source.random() < 0.4:
            before = divisor(source, size)
            axes.append(AxisRef(name, before, divisor(source, size // before)))
    written = random_ids(source, count, 0.2)
    ids: WrittenIds | Iota | None = None if written is None else WrittenIds.of(written)
    if ids is None and source.random() < 0.3:
        ids = random_iota(source, count)
    return MeshGroups(tuple(named), tuple(source.sample(axes, len(axes))), ids)


def random_list(source: random.Random, mesh: Mesh, count: int) -> ListGroups:
    """A regular form written out, then disturbed in some way."""
    make = source.choice([random_iota_groups, random_mesh_groups])
    groups: list[list[int]] = make(source, mesh, count).expand().tolist()
    disturb = source.choice(["not", "not", "members", "all members", "groups", "swap", "leave out", "again", "cut"])
    one = source.randrange(len(groups))
    if disturb == "members":
        source.shuffle(groups[one])
    elif disturb == "all members":
        order = source.sample(range(len(groups[0])), len(groups[0]))
        groups = [[group[place] for place in order] for group in groups]
    elif disturb == "groups":
        source.shuffle(groups)
    elif disturb == "swap":
        other = source.randrange(len(groups))
        groups[one][-1], groups[other][0] = groups[other][0], groups[one][-1]
    elif disturb == "leave out" and len(groups) > 1:
        groups.pop(one)
    elif disturb == "again":
        groups.append(list(groups[one]))
    elif disturb == "cut":
        groups[one] = groups[one][: len(groups[one]) // 2]
    return ListGroups(groups)


FORMS = (random_iota_groups, random_mesh_groups, random_list)


def random_program(source: random.Random, mesh: Mesh) -> tuple[int, int]:
    """Replicas and partitions; the mesh has nearly all devices of its kind."""
    count = mesh.size if source.random() < 0.95 else mesh.size + 1
    others = source.choice([1, 1, 1, 2, 3])
    return (others, count) if mesh.kind == "partition" else (count, others)


def plain_participants(form: ReplicaGroups, mode: GroupMode, replicas: int, partitions: int) -> list[list[int]]:
    """XLA's rules, one device after the other."""
    count = {GroupMode.CROSS_PARTITION: partitions, GroupMode.FLATTENED_ID: replicas * partitions}.get(mode, replicas)
    groups = [[member for member in group if member >= 0] for group in form.expand(count).tolist()]
    if mode is GroupMode.FLATTENED_ID:
        return groups
    if mode is GroupMode.CROSS_REPLICA:
        return [[r * partitions + p for r in group] for group in groups for p in range(partitions)]
    if mode is GroupMode.CROSS_PARTITION:
        return [[r * partitions + p for p in group] for group in groups for r in range(replicas)]
    return [[r * partitions + p for r in group for p in range(partitions)] for group in groups]


@pytest.mark.parametrize("seed", range(8))
def test_all_methods_agree_with_the_coordinates_of_each_device(seed: int) -> None:
    source, seen = random.Random(seed), collections.Counter[str]()
    for _ in range(400):
        mesh = random_mesh(source)
        counts = random_program(source, mesh)
        mode = source.choice(list(GroupMode))
        ids = {GroupMode.CROSS_PARTITION: counts[1], GroupMode.FLATTENED_ID: counts[0] * counts[1]}.get(mode, counts[0])
        form = source.choice(FORMS)(source, mesh, ids if source.random() < 0.8 else divisor(source, ids))
        ordered = source.random() < 0.6
        who = Participations(mesh, *counts).groups(form, mode, ordered)
        expected = plain_participants(form, mode, *counts)
        assert who.participants == tuple(map(tuple, expected))
        assert who.most_devices == max(map(len, expected))
        devices = participants(form, mode, *counts)
        axes = plain_axes(devices, form, mesh, *counts, ordered)
        assert who.axes == axes, (str(form), mode, mesh, counts, ordered)
        assert axes_of_groups(devices, form, mesh, *counts, ordered) == axes
        seen["found" if isinstance(axes, tuple) else "not"] += 1
        seen["by form"] += axes_of_form(form, mode, mesh, *counts, ordered) is not None
    assert min(seen["found"], seen["not"], seen["by form"]) > 20, seen


@pytest.mark.parametrize("seed", range(4))
def test_a_form_over_a_mesh_in_order_is_named_without_an_id(seed: int) -> None:
    """Unless an axis ends within one of its dimensions."""
    source, named = random.Random(seed), 0
    for _ in range(200):
        own = random_mesh(source)
        mesh = Mesh(own.axis_names, own.axis_sizes, "partition")
        form = source.choice([random_iota_groups, random_mesh_groups])(source, mesh, mesh.size)
        devices = participants(form, GroupMode.FLATTENED_ID, 1, mesh.size)
        expected = plain_axes(devices, form, mesh, 1, mesh.size, ordered=True)
        found = axes_of_form(form, GroupMode.FLATTENED_ID, mesh, 1, mesh.size, ordered=True)
        if isinstance(form, IotaGroups):
            assert found == (expected if isinstance(expected, tuple) else None), str(form)
        assert found in (None, expected)
        named += found is not None
    assert named > 100


def full_mesh(ids: tuple[int, ...] | None = None) -> Mesh:
    return Mesh(("data", "fsdp", "model"), (32, 128, 256), "partition", ids)


def no_array(*_: object) -> Ids:
    raise AssertionError("an id was written out")


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("[4096,256]<=[1048576]", ("model",)),
        ("[256,4096]<=[32,128,256]T(2,1,0)", ("fsdp", "data")),
        ("[1,1048576]<=[1048576]", ("data", "fsdp", "model")),
        ("[8192,128]<=[32,2,64,256]T(0,3,1,2)", ("fsdp",)),
        ("[524288,2]<=[32,2,64,256]T(0,2,3,1)", ("fsdp:(1)2",)),
        ("mesh['data'=32,'fsdp'=128,'model'=256] {'model':(4)8,'data'}", ("model:(4)8", "data")),
        ("mesh['a'=1024,'b'=1024], device_ids=([1024,1024]T(1,0)) {'b'}", ("data", "fsdp:(1)32")),
    ],
)  # fmt: skip
def test_a_million_devices_are_named_without_an_id(
    text: str, axes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (IotaGroups, MeshGroups):
        monkeypatch.setattr(kind, "_expanded", no_array)
    who = Participations(full_mesh(), 1, FULL).groups(parse(text), GroupMode.FLATTENED_ID, ordered=True)
    assert who.axes == axes
    assert who.most_devices == who.shape[1]
    assert pickle.loads(pickle.dumps(who)) == who
    monkeypatch.undo()
    devices = participants(who.written, who.mode, 1, FULL)
    assert axes_of_groups(devices, who.written, full_mesh(), 1, FULL, ordered=True) == axes


def test_a_million_ids_that_are_written_out_are_checked() -> None:
    ids = np.arange(FULL).reshape(32, 128, 256).transpose(0, 2, 1).reshape(-1, 128).copy()
    lengths = np.full(len(ids), 128)
    program = Participations(full_mesh(), 1, FULL)

    def axes(ids: Ids) -> Sequence[str] | Unavailable:
        form = ListGroups.from_arrays(ids.reshape(-1).copy(), lengths)
        return program.groups(form, GroupMode.FLATTENED_ID, ordered=True).axes

    assert axes(ids) == ("fsdp",)
    ids[17, 5], ids[18, 5] = ids[18, 5], ids[17, 5]
    assert axes(ids) == Unavailable(f"the groups match no axes or parts of axes of the {full_mesh()}")
    ids[17, 5] = ids[18, 5]
    assert axes(ids) == Unavailable("the groups leave out 1 devices")
    ids[17, 5] = FULL
    outside = axes(ids)
    assert isinstance(outside, Unavailable)
    assert f"name id {FULL}, but in mode flattened_id a program of 1 replicas" in outside.reason
    assert len(outside.reason) < 1000


def test_the_description_of_groups_is_short() -> None:
    """Groups that are not axes but stay within one: its halves, with one position different in each."""
    halves = np.arange(4000).reshape(2, 2000).copy()
    halves[0, 0], halves[1, 0] = 2000, 0
    mesh = Mesh(("i",), (4000,), "partition")
    axes = Participations(mesh, 1, 4000).groups(ListGroups(halves.tolist()), GroupMode.FLATTENED_ID, ordered=True).axes
    assert isinstance(axes, Unavailable)
    assert axes.reason.startswith("the groups match no axes: {2000,1,2,3,")
    assert axes.reason.endswith("3999} of the 4000 positions on i, as with axis_index_groups")
    assert "characters left out" in axes.reason
    assert len(axes.reason) < 5000


def test_the_first_members_do_not_speak_for_the_others() -> None:
    """The first group counts through an axis, a later one does not."""
    mesh = Mesh(("i", "j"), (2, 4), "partition")
    program = Participations(mesh, 1, 8)
    in_order, not_in_order = parse("{{0,1,2,3},{4,5,6,7}}"), parse("{{0,1,2,3},{4,6,5,7}}")
    for form, ordered, axes in [
        (in_order, True, ("j",)),
        (not_in_order, False, ("j",)),
        (parse("{{0,4},{1,5},{2,7},{3,6}}"), False, None),
        (not_in_order, True, None),
    ]:
        found = program.groups(form, GroupMode.FLATTENED_ID, ordered).axes
        assert found == axes if axes else isinstance(found, Unavailable)


def test_groups_are_listed_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participation, "_MOST_LISTED", 16)
    monkeypatch.setattr(participation, "_MOST_LISTED_TOGETHER", 40)
    program = Participations(None, 64, 1)
    texts = ["[2,8]<=[16]", "[2,16]<=[32]", "[4,4]<=[16]", "{{0,1},{2}}", "[8,2]<=[16]"]
    whose = [program.groups(parse(text), GroupMode.CROSS_REPLICA, ordered=True) for text in texts]
    first, large, second, small, last = participation.listed([*whose])
    assert first == [list(range(8)), list(range(8, 16))]
    assert large == Unavailable("2 groups of up to 16 ids are too many for a table: Collective.groups has them")
    assert isinstance(second, list)
    assert small == [[0, 1], [2]]
    assert isinstance(last, Unavailable)
    again = participation.listed([whose[0], whose[2]] * 5)
    assert again == [first, second] * 5


def test_ids_of_all_groups_together_are_looked_at_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participation, "_MOST_IDS", 100)  # of each the ids and the devices
    program = Participations(None, 16, 1)
    for text in ("[1,16]<=[16]", "[16,1]<=[16]", "[2,8]<=[16]"):
        program.groups(parse(text), GroupMode.CROSS_REPLICA, ordered=True)
    with pytest.raises(ModuleError, match="more than 100 ids in distinct groups, which are too many"):
        program.groups(parse("[4,4]<=[16]"), GroupMode.CROSS_REPLICA, ordered=True)


def test_groups_that_multiply_are_refused() -> None:
    uneven = ListGroups([tuple(range(3000)), *((n,) for n in range(3000, 6000))])
    with pytest.raises(ModuleError, match="ids, too many to expand"):
        Participations(None, 6000, 1).groups(uneven, GroupMode.CROSS_REPLICA, ordered=True)


def test_padding_is_not_a_device() -> None:
    who = Participation(parse("{{0,1},{2},{4,5}}"), False, GroupMode.FLATTENED_ID, 1, 6, ())
    assert not who.leaves(2)
    assert who.leaves(1)


@pytest.mark.parametrize("seed", range(3))
def test_links_are_left_where_a_group_spans_them(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        mesh = random_mesh(source)
        form = source.choice(FORMS)(source, mesh, mesh.size)
        linked = source.randint(1, 9)
        who = Participation(form, False, GroupMode.FLATTENED_ID, 1, mesh.size, ())
        groups = who.participants
        assert not isinstance(groups, Unavailable)
        assert who.leaves(linked) == any(len({device // linked for device in group}) > 1 for group in groups)
        assert who.most_devices == max(map(len, groups))
        assert not who.leaves(0)
        assert who.shape == (len(groups), max(map(len, groups)))
        assert who.group_sizes == (min(map(len, groups)), max(map(len, groups)))


def test_meshes_of_very_many_axes() -> None:
    sizes = (2, 2, *[1] * 70)
    mesh = Mesh(tuple(f"x{n}" for n in range(72)), sizes, "replica")
    participations = Participations(mesh, 4, 1)
    crossed = participations.groups(ListGroups([[0, 3], [1, 2]]), GroupMode.CROSS_REPLICA, ordered=True)
    assert isinstance(crossed.axes, Unavailable)
    rows = participations.groups(ListGroups([[0, 1], [2, 3]]), GroupMode.CROSS_REPLICA, ordered=True)
    assert rows.axes == ("x1",)
