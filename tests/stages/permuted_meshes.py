"""Random programs on meshes of permuted devices, and which device holds which part of their arrays, as JAX reports it."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import inspector
from inspector.analysis.sharding.program_shardings import ArraySharding
from inspector.errors import Unavailable

Parts = dict[int, tuple[tuple[int, int], ...]]
"""The part that each device holds, by device id."""

Kind = Literal["jit", "shard_map", "constraint"]
_SIZES = [(8,), (2, 4), (4, 2), (2, 2, 2), (8, 1), (1, 2, 4), (4,), (2, 2), (2,), (2, 3), (3,), (6,), (5,), (7,)]
_AXES = ["x", "y", "z"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, its arguments on a mesh, and the specs of its results.

    Attributes:
      results: None where XLA chooses the sharding.
    """

    mesh: Mesh
    fun: Callable[..., Any]
    arguments: tuple[jax.Array, ...]
    results: tuple[PartitionSpec | None, ...]


def random_mesh(source: random.Random) -> Mesh:
    """Meshes of some or all devices, in any order; a few as `jax.make_mesh` lays them."""
    sizes = source.choice(_SIZES)
    devices = source.sample(jax.devices()[:8], math.prod(sizes))
    names = tuple(_AXES[: len(sizes)])
    if source.random() < 0.15:
        return jax.make_mesh(sizes, names, (AxisType.Auto,) * len(sizes), devices=devices)
    return Mesh(np.array(devices).reshape(sizes), names)


def random_case(source: random.Random, *, is_specified: bool = False) -> Case:
    """A program of one to four arguments and as many results.

    Args:
      source: of all choices.
      is_specified: whether the function says how all its results are split.
    """
    mesh = random_mesh(source)
    count = source.randint(2, 4)
    shapes = [_shape(source, mesh) for _ in range(count)]
    specs = [_spec(source, mesh, len(shape)) for shape in shapes]
    arguments = tuple(
        jax.device_put(np.arange(math.prod(shape), dtype=np.float32).reshape(shape), NamedSharding(mesh, spec))
        for shape, spec in zip(shapes, specs, strict=True)
    )
    kind: Kind = source.choice(("jit", "jit", "shard_map", "constraint"))
    others = [_spec(source, mesh, len(shape)) for shape in shapes]
    results: tuple[PartitionSpec | None, ...] = tuple(others)
    if kind == "shard_map":
        results = tuple(specs)
        inner = jax.shard_map(lambda *v: tuple(each + 1 for each in v), mesh=mesh, in_specs=results, out_specs=results)
        return Case(mesh, jax.jit(inner, out_shardings=_shardings(mesh, results)), arguments, results)
    if kind == "constraint":
        pinned = list(zip(_shardings(mesh, results), strict=True))

        def constrained(*arrays: jax.Array) -> tuple[jax.Array, ...]:
            return tuple(
                jax.lax.with_sharding_constraint(jnp.sin(a), s) for a, (s,) in zip(arrays, pinned, strict=True)
            )

        shown = _shardings(mesh, results) if is_specified else None
        return Case(mesh, jax.jit(constrained, out_shardings=shown), arguments, results)
    if not is_specified:
        results = tuple(spec if source.random() < 0.6 else None for spec in results)
    return Case(
        mesh, jax.jit(lambda *v: tuple(a * 2 for a in v), out_shardings=_shardings(mesh, results)), arguments, results
    )


def parts_of(array: ArraySharding) -> Parts:
    """inspector's answer."""
    assert not isinstance(array.sharding, Unavailable), array.sharding
    return {id_: part for part, ids in array.sharding.parts.items() for id_ in ids}


def parts_on(sharding: Any, shape: tuple[int, ...]) -> Parts:
    """JAX's answer for a sharding."""
    return {d.id: _ranges(index, shape) for d, index in sharding.devices_indices_map(shape).items()}


def parts_there(array: jax.Array) -> Parts:
    """JAX's answer for an array that lies on devices."""
    return {shard.device.id: _ranges(shard.index, array.shape) for shard in array.addressable_shards}


def check(case: Case, target: str) -> int:
    """Holds all that inspector reports of devices to JAX; the number of arrays compared."""
    lowered = inspector.lower(case.fun, *case.arguments, target=target)
    compiled = lowered.compile(target=target)
    order = [device.id for device in case.mesh.devices.flat]
    names = [int(text.partition(" at ")[0].rpartition(" ")[2]) for text in compiled.devices]
    assert names == order, (target, case.mesh)
    found = [*lowered.shardings(compiled)]
    arguments = [each for each in found if each.kind == "argument"]
    results = [each for each in found if each.kind == "result"]
    assert [len(arguments), len(results)] == [len(case.arguments), len(case.results)]
    for each, given in zip(arguments, case.arguments, strict=True):
        assert parts_of(each) == parts_there(given) == parts_of_value(given), (target, each, case.mesh)
    theirs = case.fun.lower(*case.arguments).compile() if None in case.results else None
    for position, (each, spec) in enumerate(zip(results, case.results, strict=True)):
        wanted = theirs.output_shardings[position] if spec is None and theirs else NamedSharding(case.mesh, spec)  # type: ignore[arg-type]
        assert parts_of(each) == parts_on(wanted, each.shape), (target, each, spec, case.mesh)
    for one in compiled.collectives():
        for row in compiled.collectives().members(one.name).to_dict("records"):
            assert row["device"] == case.mesh.devices[tuple(row["coordinates"])].id, (target, one, case.mesh)
    return len(arguments) + len(results)


def parts_of_value(array: jax.Array) -> Parts:
    """inspector's answer for an array."""
    return {id_: part for part, ids in inspector.sharding(array).parts.items() for id_ in ids}


def _ranges(index: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(each.indices(size)[:2] for each, size in zip(index, shape, strict=True))


def _shape(source: random.Random, mesh: Mesh) -> tuple[int, ...]:
    """Of sizes that all axes divide."""
    return tuple(mesh.size * source.randint(1, 2) for _ in range(source.randint(1, 3)))


def _spec(source: random.Random, mesh: Mesh, rank: int) -> PartitionSpec:
    """Axes alone, in tuples in any order, or left out."""
    axes = source.sample(mesh.axis_names, len(mesh.axis_names))
    entries: list[list[str]] = [[] for _ in range(rank)]
    for axis in axes:
        if source.random() < 0.7:
            source.choice(entries).append(axis)
    return PartitionSpec(*(None if not e else e[0] if len(e) == 1 else tuple(e) for e in entries))


def _shardings(mesh: Mesh, specs: tuple[PartitionSpec | None, ...]) -> tuple[Any, ...]:
    return tuple(None if spec is None else NamedSharding(mesh, spec) for spec in specs)
