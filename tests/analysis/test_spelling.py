"""Modules that differ in the spelling of groups, pairs and shardings only are the same; a change of meaning is told.

The pairs are generated from a seed: a collective's groups are chosen first, then written in two ways.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import inspector
from inspector.analysis.diff.fingerprint import module_digest
from inspector.analysis.diff.module_diff import diff
from inspector.analysis.diff.text_diff import instruction_changes, instruction_multiset
from inspector.compilation import machine_code
from inspector.compilation.caches import cell_files
from inspector.hlo.module import Module
from tests.absent import needs_gpu, needs_tpu
from tests.modules import changed, module_of, proto_of

Groups = list[list[int]]

UNORDERED = ("all-reduce", "all-reduce-start")
TARGETS = (
    "cpu:8",
    pytest.param("gpu:h100:8", marks=needs_gpu),
    pytest.param("tpu:v5e:2x4", marks=needs_tpu),
)
PAIRS_A_TARGET = 34
COUNT = 8


@functools.cache
def compiled_module(target: str) -> Module:
    """A partitioned program with all-reduces, all-gathers, an all-to-all and collective-permutes."""
    mesh = AbstractMesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)

    def array(*axes: str | None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*axes)))

    def collectives(x: jax.Array) -> Any:
        turned = lax.all_to_all(x, "d", 1, 0, tiled=True)
        shifted = lax.ppermute(turned, "d", [(n, (n + 1) % 4) for n in range(4)])
        return lax.all_gather(jnp.tanh(shifted), "m", axis=1, tiled=True) * 2

    inner = jax.shard_map(
        collectives, mesh=mesh, in_specs=PartitionSpec("d", "m"), out_specs=PartitionSpec(None, "d"), check_vma=False
    )

    def f(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return inner(jnp.tanh(x)), (x @ w).sum(0)

    lowered = inspector.lower(f, array("d", "m"), array("m", None), target=target)
    return lowered.compile(target=target).module()


def instructions(proto: Any) -> list[Any]:
    return [each for computation in proto.computations for each in computation.instructions]


def grouped(proto: Any) -> list[Any]:
    return [each for each in instructions(proto) if each.WhichOneof("replica_group_list")]


def groups_of(module: Module) -> list[Groups]:
    return [module.instruction(each.name).replica_groups.expand(COUNT).tolist() for each in grouped(proto_of(module))]


# Each of these writes groups, or returns False where its form cannot.


def as_list(proto: Any, groups: Groups, generator: random.Random) -> bool:
    proto.collective_device_list.SetInParent()
    order = generator.sample(groups, len(groups))
    for group in order:
        is_free = proto.opcode in UNORDERED
        members = generator.sample(group, len(group)) if is_free else group
        proto.collective_device_list.replica_groups.add().replica_ids.extend(members)
    return True


def as_old_list(proto: Any, groups: Groups, generator: random.Random) -> bool:
    for group in groups:
        proto.replica_groups.add().replica_ids.extend(group)
    return True


def iotas() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    shapes = [(8,), (4, 2), (2, 4), (2, 2, 2)]
    return [(shape, turn) for shape in shapes for turn in itertools.permutations(range(len(shape)))]


def as_iota(proto: Any, groups: Groups, generator: random.Random) -> bool:
    found = [
        (shape, turn)
        for shape, turn in iotas()
        if is_same(proto.opcode, np.arange(COUNT).reshape(shape).transpose(turn).reshape(len(groups), -1), groups)
    ]
    if not found:
        return False
    shape, turn = generator.choice(found)
    said = proto.iota_collective_device_list
    said.num_replica_groups, said.num_devices_per_group = len(groups), len(groups[0])
    said.iota_reshape_dims.extend(shape)
    said.iota_transpose_perm.extend(turn)
    return True


def as_mesh(proto: Any, groups: Groups, generator: random.Random) -> bool:
    """With devices in order: some axes of a mesh, with names of any kind."""
    names = generator.sample(["a", "b", "data", "model", "x'y", "axis_0"], 3)
    found = []
    for shape in ((4, 2), (2, 4), (2, 2, 2), (1, 2, 4)):
        for count in range(1, len(shape) + 1):
            for axes in itertools.permutations(range(len(shape)), count):
                rest = [axis for axis in range(len(shape)) if axis not in axes]
                ids = np.arange(COUNT).reshape(shape).transpose(*rest, *axes)
                ids = ids.reshape(-1, math.prod(shape[axis] for axis in axes))
                if is_same(proto.opcode, ids, groups):
                    found.append((shape, axes))
    if not found:
        return False
    shape, axes = generator.choice(found)
    _write_mesh(proto.mesh_axes_replica_group_list, [*zip(names, shape, strict=False)], axes)
    return True


def as_mesh_of_devices(proto: Any, groups: Groups, generator: random.Random) -> bool:
    """With the devices of the mesh written out, or as an iota where they are one."""
    order = generator.sample(groups, len(groups))
    _write_mesh(proto.mesh_axes_replica_group_list, [("g", len(groups)), ("member", len(groups[0]))], (1,))
    ids = [device for group in order for device in group]
    mesh = proto.mesh_axes_replica_group_list.mesh
    for shape, turn in iotas():
        if len(shape) > 1 and np.arange(COUNT).reshape(shape).transpose(turn).reshape(-1).tolist() == ids:
            mesh.iota_transform.reshape_dims.extend(shape)
            mesh.iota_transform.transpose_perm.extend(turn)
            return True
    mesh.device_ids.extend(ids)
    return True


def as_all(proto: Any, groups: Groups, generator: random.Random) -> bool:
    proto.collective_device_list.SetInParent()
    return is_same(proto.opcode, np.arange(COUNT)[None], groups)


def _write_mesh(said: Any, axes: Sequence[tuple[str, int]], chosen: Sequence[int]) -> None:
    for name, size in axes:
        said.mesh.axes.add(name=name, size=size)
    for number in chosen:
        axis = said.axes.add()
        axis.mesh_axis_index = number
        axis.SetInParent()


WRITERS = (as_list, as_old_list, as_iota, as_mesh, as_mesh_of_devices, as_all)


def is_same(opcode: str, ids: Any, groups: Groups) -> bool:
    """Reports whether two lists of groups mean the same, by sets."""
    if opcode in UNORDERED:
        return {frozenset(map(int, g)) for g in ids} == {*map(frozenset, groups)}
    return {tuple(map(int, g)) for g in ids} == {*map(tuple, groups)}


def clear_groups(proto: Any) -> None:
    proto.ClearField("replica_groups")
    for name in ("collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list"):
        proto.ClearField(name)


def random_groups(generator: random.Random) -> Groups:
    shape = generator.choice([(1, 8), (2, 4), (4, 2), (8, 1)])
    if generator.random() < 0.5:
        ids = generator.sample(range(COUNT), COUNT)
    else:
        dims, turn = generator.choice(iotas())
        ids = np.arange(COUNT).reshape(dims).transpose(turn).reshape(-1).tolist()
    found: Groups = np.array(ids).reshape(shape).tolist()
    return found


def spelled(proto: Any, groups: Sequence[Groups], generator: random.Random) -> None:
    """Writes the groups of all collectives in any of their forms, and shuffles source-target pairs."""
    for instruction, members in zip(grouped(proto), groups, strict=True):
        writers = generator.sample(WRITERS, len(WRITERS))
        for write in writers:
            if write is as_all and instruction.use_global_device_ids:
                continue  # which XLA refuses
            clear_groups(instruction)
            if write(instruction, members, generator):
                break
    for instruction in instructions(proto):
        if instruction.source_target_pairs:
            pairs = [(pair.source, pair.target) for pair in instruction.source_target_pairs]
            instruction.ClearField("source_target_pairs")
            for source, target in generator.sample(pairs, len(pairs)):
                instruction.source_target_pairs.add(source=source, target=target)
        if instruction.HasField("sharding"):
            respell_sharding(instruction.sharding, generator)


def respell_sharding(proto: Any, generator: random.Random) -> None:
    """Writes the devices of tiles one by one, in any order where they hold the same part."""
    if not proto.tile_assignment_dimensions:
        return
    if proto.iota_reshape_dims:
        ids = np.arange(math.prod(proto.iota_reshape_dims)).reshape(*proto.iota_reshape_dims)
        ids = ids.transpose(*proto.iota_transpose_perm).reshape(*proto.tile_assignment_dimensions)
    else:
        ids = np.array(proto.tile_assignment_devices).reshape(*proto.tile_assignment_dimensions)
    if proto.replicate_on_last_tile_dim:
        ids = np.array([generator.sample(row, len(row)) for row in ids.reshape(-1, ids.shape[-1]).tolist()])
        proto.replicate_on_last_tile_dim = False
        proto.last_tile_dims.append(0)  # REPLICATED
    proto.ClearField("iota_reshape_dims")
    proto.ClearField("iota_transpose_perm")
    proto.tile_assignment_devices[:] = ids.reshape(-1).tolist()


def pair(target: str, seed: int) -> tuple[Module, Module]:
    """Two modules with the same random groups, written in two ways; the first with JAX's own where the seed is even."""
    generator, base = random.Random(seed), compiled_module(target)
    own = seed % 2 == 0
    groups = groups_of(base) if own else [random_groups(generator) for _ in groups_of(base)]
    protos = [proto_of(base), proto_of(base)]
    for number, proto in enumerate(protos):
        if number or not own:
            spelled(proto, groups, generator)
    return changed(protos[0]), changed(protos[1])


@pytest.mark.parametrize("target", TARGETS)
def test_none_of_a_hundred_pairs_that_differ_in_spelling_is_altered(target: str) -> None:
    differing = 0
    for seed in range(PAIRS_A_TARGET):
        before, after = pair(target, seed)
        found = diff(before, after)
        assert not found.changes, (seed, found.table().to_string())
        assert found.headline.startswith("the same program, ")
        assert "spelled differently" in found.headline
        assert found.respelled
        assert module_digest(before) == module_digest(after), seed
        assert instruction_changes(instruction_multiset(before), instruction_multiset(after)).same
        assert cell_files.module_digest(before.columns.data) != cell_files.module_digest(after.columns.data)
        forms = [[each.WhichOneof("replica_group_list") for each in grouped(proto_of(m))] for m in (before, after)]
        differing += forms[0] != forms[1]
    assert differing > PAIRS_A_TARGET // 2


def exchanged(groups: Groups) -> Groups:
    """Two members of different groups in each other's place."""
    (a, *first), (b, *second), *rest = groups
    return [[b, *first], [a, *second], *rest]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(6))
def test_groups_with_another_meaning_are_altered(target: str, seed: int) -> None:
    generator, base = random.Random(seed), compiled_module(target)
    groups = [np.array(random_groups(generator)).reshape(2, 4).tolist() for _ in groups_of(base)]
    before, after = proto_of(base), proto_of(base)
    spelled(before, groups, generator)
    place = generator.randrange(len(groups))
    other = [exchanged(each) if n == place else each for n, each in enumerate(groups)]
    spelled(after, other, generator)
    found = diff(changed(before), changed(after))
    assert [change.what.partition(" {")[0].partition(" [")[0] for change in found.changes if change.kind == "altered"]
    assert "replica groups" in found.headline
    assert module_digest(changed(before)) != module_digest(changed(after))


def edited(change: Callable[[Any], Any], target: str = "cpu:8") -> tuple[Module, Module]:
    """A module whose groups are lists, and the same after a change."""
    base = compiled_module(target)
    proto = proto_of(base)
    for instruction, groups in zip(grouped(proto), groups_of(base), strict=True):
        clear_groups(instruction)
        as_list(instruction, groups, random.Random(0))
    before = changed(proto)
    assert [change(each) for each in instructions(proto)].count(True) > 0
    return before, changed(proto)


def turned_members(proto: Any) -> bool:
    if proto.opcode not in ("all-gather", "all-to-all") or not proto.collective_device_list.replica_groups:
        return False
    ids = proto.collective_device_list.replica_groups[0].replica_ids
    ids[:] = list(ids)[::-1]
    return True


def other_mode(proto: Any) -> bool:
    is_it: bool = proto.opcode == "all-gather"
    if is_it:
        proto.use_global_device_ids = False
    return is_it


def without_channel(proto: Any) -> bool:
    is_it: bool = proto.opcode == "all-to-all"
    if is_it:
        proto.ClearField("channel_id")
    return is_it


def other_pairs(proto: Any) -> bool:
    if not proto.source_target_pairs:
        return False
    first = proto.source_target_pairs[0]
    first.source, first.target = first.target, first.source
    return True


@pytest.mark.parametrize("change", [turned_members, other_mode, without_channel, other_pairs])
def test_differences_in_meaning_are_differences(change: Callable[[Any], bool]) -> None:
    before, after = edited(change)
    assert [each.kind for each in diff(before, after).changes].count("altered") >= 1
    assert module_digest(before) != module_digest(after)


ALL = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY main {
  p = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(p), replica_groups=GROUPS, to_apply=add
}
"""


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("{}", "{{0,1,2,3}}", True),
        ("{{3,1,2,0}}", "[1,4]<=[4]", True),
        ("{{0,1,2,3}}", "{{0,1,2,3,4,5,6,7}}", False),
        ("{}", "{{0,1},{2,3}}", False),
    ],
)
def test_empty_groups_equal_the_group_of_all_devices(before: str, after: str, is_same: bool) -> None:
    ours, theirs = (module_of(ALL.replace("GROUPS", groups)) for groups in (before, after))
    assert bool(diff(ours, theirs)) is not is_same
    assert bool(diff(theirs, ours)) is not is_same


@pytest.mark.parametrize("count", [4, 8])
def test_empty_groups_are_all_of_the_device_assignment(count: int) -> None:
    """`{}` for 4 devices is another program than `{}` for 8."""

    def module(groups: str, replicas: int) -> Module:
        proto = proto_of(module_of(ALL.replace("GROUPS", groups)))
        proto.device_assignment.replica_count, proto.device_assignment.computation_count = replicas, 1
        return changed(proto)

    listed = module("{{" + ",".join(map(str, range(count))) + "}}", count)
    assert module_digest(module("{}", count)) == module_digest(listed)
    assert module_digest(module("{}", 12 - count)) != module_digest(listed)
    found = diff(module("{}", 4), module("{}", 8))
    assert "{} of 4 replicas, 1 partition → {} of 8 replicas, 1 partition" in found.table()["what"].str.cat()


SHARDED = """HloModule m
ENTRY main {
  ROOT p = f32[8,8] parameter(0), sharding=SHARDING
}
"""
SAME_SHARDINGS = [
    ("{devices=[4,2]<=[8]}", "{devices=[4,2]0,1,2,3,4,5,6,7}"),
    ("{devices=[2,4]<=[4,2]T(1,0)}", "{devices=[2,4]0,2,4,6,1,3,5,7}"),
    ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,2]<=[8] last_tile_dims={replicated}}"),
    ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,2]1,0,2,3,5,4,6,7 last_tile_dim_replicate}"),
    ("{devices=[1,1,8]<=[8] last_tile_dim_replicate}", "{replicated}"),
    (
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
        "{devices=[2,1,2,2]0,2,1,3,4,6,5,7 last_tile_dims={replicated, manual}}",
    ),
]
OTHER_SHARDINGS = [
    ("{devices=[4,2]<=[8]}", "{devices=[2,4]<=[8]}"),
    ("{devices=[4,2]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}"),
    ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,2]<=[8] last_tile_dims={manual}}"),
    ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
    ("{replicated}", "{manual}"),
    ("{replicated}", "{maximal device=0}"),
    ("{maximal device=0}", "{maximal device=1}"),
]


@pytest.mark.parametrize(("before", "after"), SAME_SHARDINGS)
def test_a_sharding_is_compared_by_the_parts_that_devices_hold(before: str, after: str) -> None:
    modules = [module_of(SHARDED.replace("SHARDING", each)) for each in (before, after)]
    found = diff(modules[0], modules[1])
    is_normalized = modules[0].entry.root.sharding == modules[1].entry.root.sharding  # by XLA's parser
    said = "" if is_normalized else ", sharding spelled differently in 1 instruction"
    assert found.headline == f"the same program{said}"
    assert len(found.respelled) == (not is_normalized)
    assert module_digest(modules[0]) == module_digest(modules[1])


@pytest.mark.parametrize(("before", "after"), OTHER_SHARDINGS)
def test_another_sharding_is_another(before: str, after: str) -> None:
    modules = [module_of(SHARDED.replace("SHARDING", each)) for each in (before, after)]
    found = diff(modules[0], modules[1])
    assert found.headline.startswith("1 parameter altered (sharding")
    assert not found.respelled
    assert module_digest(modules[0]) != module_digest(modules[1])


def named(axes: Sequence[tuple[str, int]], split: Sequence[Sequence[int]], ids: Sequence[int] = ()) -> Module:
    """A parameter with a sharding by the axes of a mesh."""
    proto = proto_of(module_of(SHARDED.replace("SHARDING", "{replicated}")))
    (parameter,) = instructions(proto)
    if "named_sharding" not in parameter.sharding.DESCRIPTOR.fields_by_name:
        pytest.skip("this jaxlib has no named shardings")
    said = parameter.sharding.named_sharding
    for name, size in axes:
        said.mesh.axes.add(name=name, size=size)
    said.mesh.device_ids.extend(ids)
    for numbers in split:
        dimension = said.dim_shardings.add(is_closed=True)
        for number in numbers:
            dimension.axes.add(mesh_axis_index=number).SetInParent()
    return changed(proto)


@pytest.mark.parametrize(
    ("axes", "split", "ids", "tiles"),
    [
        ([("d", 4), ("m", 2)], [[0], [1]], (), "{devices=[4,2]<=[8]}"),
        ([("x", 4), ("y", 2)], [[1], [0]], (), "{devices=[2,4]<=[4,2]T(1,0)}"),
        ([("x", 4), ("y", 2)], [[0], []], (), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        ([("x", 4), ("y", 2)], [[], [1]], (), "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ([("x", 4), ("y", 2)], [[1, 0], []], (), "{devices=[8,1]<=[4,2]T(1,0)}"),
        ([("x", 4), ("y", 2)], [[], []], (), "{replicated}"),
        ([("x", 8)], [[0], []], (7, 6, 5, 4, 3, 2, 1, 0), "{devices=[8,1]7,6,5,4,3,2,1,0}"),
    ],
)
def test_a_sharding_by_names_is_the_one_by_tiles(
    axes: list[tuple[str, int]], split: list[list[int]], ids: tuple[int, ...], tiles: str
) -> None:
    ours, theirs = named(axes, split, ids), module_of(SHARDED.replace("SHARDING", tiles))
    assert not diff(ours, theirs)
    assert module_digest(ours) == module_digest(theirs)
    other = module_of(SHARDED.replace("SHARDING", "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"))
    assert diff(ours, other)
    assert module_digest(ours) != module_digest(other)


@pytest.mark.parametrize("target", TARGETS)
def test_other_names_of_mesh_axes_change_nothing(target: str) -> None:
    found = []
    for names in (("d", "m"), ("rows", "columns")):
        mesh = AbstractMesh((4, 2), names, axis_types=(AxisType.Auto,) * 2)
        x = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*names)))
        found.append(inspector.lower(lambda x: x @ x.T, x, target=target).compile(target=target))
    assert not found[0].diff(found[1]).changes


@pytest.mark.parametrize("target", TARGETS)
def test_the_partitioner_and_a_user_have_the_same_all_reduce(target: str) -> None:
    """The same groups, spelled as the partitioner spells them and as `shard_map` does."""
    mesh = AbstractMesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
    x, w = (
        jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*axes)))
        for axes in ((None, "m"), ("m", None))
    )
    mapped = jax.shard_map(
        lambda x, w: lax.psum(x @ w, "m"), mesh=mesh, in_specs=(PartitionSpec(None, "m"), PartitionSpec("m", None)),
        out_specs=PartitionSpec(None, None), check_vma=False,
    )  # fmt: skip
    ours, theirs = (
        inspector.lower(f, x, w, target=target).compile(target=target) for f in (lambda x, w: x @ w, mapped)
    )
    found = ours.diff(theirs)
    assert {change.kind for change in found.changes} <= {"configured"}  # the partitioner marks its own
    if not found:
        assert found.headline == "the same program, replica groups spelled differently in 1 instruction"
    assert machine_code.differ(ours, theirs) is False


SWAPPED = """HloModule m
ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  FIRST = f32[8] exponential(p)
  SECOND = f32[8] negate(q)
  ROOT r = f32[8] subtract(t.2, t.3)
}
"""


def test_instructions_with_swapped_names_are_distinguished() -> None:
    modules = [
        module_of(SWAPPED.replace("FIRST", first).replace("SECOND", second))
        for first, second in (("t.2", "t.3"), ("t.3", "t.2"))
    ]
    for before, after in (modules, modules[::-1]):
        assert "(operands t.2, t.3 → t.3, t.2)" in diff(before, after).headline


def _mapped(axes: dict[str, int], body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    spec = PartitionSpec(*axes)
    mapped: Callable[[Any], Any] = jax.shard_map(
        lambda x: body(jnp.sin(x)), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    return mapped


RING = [(i, (i + 1) % 8) for i in range(8)]


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            _mapped({"d": 4, "m": 2}, lambda x: lax.psum(x, ("d", "m"))),
            _mapped({"d": 4, "m": 2}, lambda x: lax.psum(x, ("m", "d"))),
        ),
        (
            _mapped({"d": 8}, lambda x: lax.ppermute(x, "d", RING)),
            _mapped({"d": 8}, lambda x: lax.ppermute(x, "d", RING[::-1])),
        ),
    ],
    ids=["axes", "pairs"],
)
def test_machine_code_for_another_spelling_is_the_same(target: str, before: Any, after: Any) -> None:
    argument = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    ours, theirs = (inspector.lower(each, argument, target=target).compile(target=target) for each in (before, after))
    difference = ours.diff(theirs)
    assert difference.headline.startswith("the same program, "), difference.headline
    assert difference.other_code is False
