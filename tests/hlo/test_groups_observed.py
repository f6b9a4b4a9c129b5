"""Replica groups as decoded against what devices really gathered: random meshes, axes, forms and modes."""

from __future__ import annotations

import base64
import math
from typing import Any

import jax
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import collectives
from inspector.hlo.devices.group_mode import GroupMode, group_mode, participants
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import (
    AxisRef,
    Iota,
    IotaGroups,
    ListGroups,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
)
from inspector.hlo.module import Module
from tests.hlo.conftest import Execute

DEVICES = 8
MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (2, 1, 4), (4, 1, 2), (8, 1)]

by_execution = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip


def decoded(reply: dict[str, Any], mesh: Mesh | None, replicas: int, partitions: int) -> tuple[Collective, ...]:
    return collectives(Module.from_proto(base64.b64decode(reply["module"])), mesh, replicas, partitions).items


def gathered(groups: tuple[tuple[int, ...], ...]) -> dict[int, list[int]]:
    """By device, what an all-gather of ids leaves on it."""
    return {device: list(group) for group in groups for device in group}


@given(st.data())
@by_execution
def test_shard_map(execute: Execute, data: st.DataObject) -> None:
    """jax.lax.all_gather over axes in any order on meshes with devices in any order."""
    sizes = data.draw(st.sampled_from(MESHES))
    names = [f"axis{i}" for i in range(len(sizes))]
    devices = data.draw(st.permutations(range(DEVICES)))
    axes = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
    reply = execute(do="shard_map", names=names, sizes=sizes, devices=devices, axes=axes)
    found = decoded(reply, Mesh(tuple(names), sizes, "partition"), 1, DEVICES)
    large = tuple(axis for axis in axes if sizes[names.index(axis)] > 1)
    if not found:  # an exchange with oneself is optimized away
        assert large == ()
        assert reply["observed"] == [[device] for device in range(DEVICES)]
        return
    (gather,) = found
    # Logical id p runs on the p-th device of the mesh: groups are in logical ids, observations in device ids.
    for logical, expected in gathered(gather.participants).items():
        assert reply["observed"][devices[logical]] == [devices[member] for member in expected]
    assert isinstance(gather.axes, tuple)
    assert tuple(axis for axis in gather.axes if sizes[names.index(axis)] > 1) == large
    assert gather.inserted_by == "user"
    assert gather.mode is GroupMode.FLATTENED_ID


@st.composite
def mesh_groups(draw: st.DrawFn) -> MeshGroups:
    """Axes or parts of axes of a mesh of 8, with ids in any order."""
    sizes = draw(st.sampled_from(MESHES))
    names = [f"axis{i}" for i in range(len(sizes))]
    references = []
    for name, size in zip(names, sizes, strict=True):
        kind = draw(st.sampled_from(["none", "whole", "part", "two parts"]))
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        if kind == "whole" and size > 1:
            references.append(AxisRef(name))
        elif kind == "part" and divisors:
            part = draw(st.sampled_from(divisors))
            before = draw(st.sampled_from([d for d in range(1, size // part + 1) if size // part % d == 0]))
            references.append(AxisRef(name) if part == size else AxisRef(name, before, part))
        elif kind == "two parts" and size >= 8:
            references += [AxisRef(name, 1, 2), AxisRef(name, 4, 2)]
    assume(references)
    ids = draw(st.sampled_from(["none", "list", "iota"]))
    device_ids: WrittenIds | Iota | None = None
    if ids == "list":
        device_ids = WrittenIds.of(draw(st.permutations(range(DEVICES))))
    elif ids == "iota":
        transposed = Iota(sizes, tuple(draw(st.permutations(range(len(sizes))))))
        device_ids = transposed if transposed.permutation else None  # XLA refuses one that moves nothing
    axes = tuple(draw(st.permutations(references)))
    return MeshGroups(tuple(zip(names, sizes, strict=True)), axes, device_ids)


@st.composite
def iota_groups(draw: st.DrawFn) -> IotaGroups:
    dims = draw(st.sampled_from(MESHES))
    size = draw(st.sampled_from([2, 4, 8]))
    return IotaGroups(DEVICES // size, size, Iota(dims, tuple(draw(st.permutations(range(len(dims)))))))


@st.composite
def list_groups(draw: st.DrawFn, count: int = DEVICES) -> ListGroups:
    ids = draw(st.permutations(range(count)))
    size = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
    return ListGroups(tuple(tuple(ids[start : start + size]) for start in range(0, count, size)))


def predict_and_execute(execute: Execute, groups: ReplicaGroups, replicas: int, partitions: int, channel: str) -> None:
    mode = group_mode("all-gather", 1 if "channel_id" in channel else None, "global" in channel)
    devices = participants(groups, mode, replicas, partitions)
    ids = replicas * partitions if mode is GroupMode.FLATTENED_ID else replicas
    group_count = len(groups.expand(ids))
    reply = execute(
        do="groups",
        groups=str(groups),
        group_size=devices.shape[1],
        placeholder=f"[{group_count},{ids // group_count}]<=[{ids}]",
        replicas=replicas,
        partitions=partitions,
        attributes=channel,
    )
    expected = gathered(tuple(map(tuple, devices.tolist())))
    assert reply["observed"] == [expected[device] for device in range(replicas * partitions)]
    (gather,) = decoded(reply, None, replicas, partitions)
    assert type(gather.form) is type(groups)  # so the executed module had these very groups, shortened at most
    assert gather.participants == tuple(map(tuple, devices.tolist()))
    assert gather.mode is mode


FLATTENED = ", channel_id=1, use_global_device_ids=true"


@given(st.one_of(mesh_groups(), iota_groups(), list_groups()))
@by_execution
def test_every_form(execute: Execute, groups: ReplicaGroups) -> None:
    predict_and_execute(execute, groups, 1, DEVICES, FLATTENED)


@pytest.mark.parametrize(("replicas", "partitions"), [(2, 4), (4, 2), (8, 1), (1, 8)])
@pytest.mark.parametrize(
    "channel", ["", ", channel_id=1", FLATTENED], ids=["cross_replica", "replica_and_partition", "flattened_id"]
)
@given(data=st.data())
@settings(by_execution, max_examples=6)
def test_every_mode(execute: Execute, replicas: int, partitions: int, channel: str, data: st.DataObject) -> None:
    count = replicas * partitions if channel == FLATTENED else replicas
    groups: ReplicaGroups = data.draw(list_groups(count))
    if channel != FLATTENED and data.draw(st.booleans()):
        groups = ListGroups(())  # all
    predict_and_execute(execute, groups, replicas, partitions, channel)


@pytest.mark.parametrize(("replicas", "partitions"), [(2, 4), (4, 2)])
@pytest.mark.parametrize("channel", ["", ", channel_id=1"], ids=["cross_replica", "cross_partition"])
def test_permute_and_members(execute: Execute, replicas: int, partitions: int, channel: str) -> None:
    """Receivers and senders, and zeros for members without a sender."""
    hlo = f"""HloModule permute
ENTRY main {{
  x = s32[1]{{0}} parameter(0), sharding={{manual}}
  ROOT r = s32[1]{{0}} collective-permute(x), source_target_pairs={{{{1,0}}}}, sharding={{manual}}{channel}
}}"""
    reply = execute(do="operation", hlo=hlo, replicas=replicas, partitions=partitions)
    mesh = Mesh(("r",), (replicas,), "replica") if not channel else Mesh(("p",), (partitions,), "partition")
    found = collectives(Module.from_proto(base64.b64decode(reply["module"])), mesh, replicas, partitions)
    (permute,) = found
    assert permute.axes == mesh.axis_names
    table = found.members(permute.name)
    assert list(table["logical_id"]) == list(range(DEVICES))
    for row, observed in zip(table.itertuples(), reply["observed"], strict=True):
        assert observed == (row.receives_from or [0])
        assert ("zeros" in row.after) == (not row.receives_from)
    assert (table["receives_from"].map(len) == 0).sum() == DEVICES - DEVICES // mesh.size


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        # Device d holds 4d, 4d+1, 4d+2, 4d+3; groups of two: (1, 0), (3, 2), ...
        (
            "s32[8]{0} all-gather(x), dimensions={0}",
            lambda own, group, k: [v for d in group for v in own(d)],
        ),
        (
            "s32[4]{0} all-reduce(x), to_apply=add",
            lambda own, group, k: [sum(column) for column in zip(*map(own, group), strict=True)],
        ),
        (
            "s32[2]{0} reduce-scatter(x), dimensions={0}, to_apply=add",
            lambda own, group, k: [sum(column) for column in zip(*map(own, group), strict=True)][2 * k : 2 * k + 2],
        ),
        (
            "s32[4]{0} all-to-all(x), dimensions={0}",
            lambda own, group, k: [v for d in group for v in own(d)[2 * k : 2 * k + 2]],
        ),
    ],
    ids=["all-gather", "all-reduce", "reduce-scatter", "all-to-all"],
)  # fmt: skip
def test_values_of_members_before_and_after(execute: Execute, operation: str, expected: Any) -> None:
    """`before` and `after` of `members()` in numbers: block k of n is the member at position k."""
    hlo = f"""HloModule m
add {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}}
ENTRY main {{
  x = s32[4]{{0}} parameter(0), sharding={{manual}}
  ROOT r = {operation}, replica_groups={{{{1,0}},{{3,2}},{{5,4}},{{7,6}}}}, sharding={{manual}}
}}"""
    reply = execute(do="operation", hlo=hlo, replicas=DEVICES, partitions=1)
    found = collectives(Module.from_proto(base64.b64decode(reply["module"])), Mesh(("i", "j"), (4, 2), "replica"), 8, 1)
    collective = found.items[0]
    for row in found.members(collective.name).itertuples():
        own = lambda device: list(range(4 * device, 4 * device + 4))  # noqa: E731
        assert reply["observed"][row.logical_id] == expected(own, row.receives_from, row.position)
        assert row.receives_from[row.position] == row.logical_id
        assert row.before_bytes == 16
        assert row.after_bytes == 4 * len(reply["observed"][row.logical_id])


def test_versions_are_those_under_test() -> None:
    assert jax.__version_info__ >= (0, 10)
    assert math.prod(MESHES[0]) == DEVICES
