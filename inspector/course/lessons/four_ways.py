"""Lesson 4: one program four ways, from axis_env to jit with shardings."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from inspector.analysis.collectives.collectives import Collectives
from inspector.course.answers import Choice, Ids
from inspector.course.programs import compiled_collectives, mesh, split
from inspector.course.question import Mistake, Question
from inspector.lowering.lower import lower

_WAYS = ("axis_env", "pmap", "shard_map", "jit")


def _environment() -> Collectives:
    return lower(lambda x: lax.psum(x.sum(), "i"), jnp.ones(2), axis_env=[("i", 4)]).collectives()


def _manual() -> Collectives:
    on = mesh(i=4)
    summed = jax.shard_map(
        lambda x: lax.psum(x.sum(), "i"), mesh=on, in_specs=PartitionSpec("i"), out_specs=PartitionSpec()
    )
    return compiled_collectives(jax.jit(summed), split(on, (8,), "i"))


def _automatic() -> Collectives:
    return compiled_collectives(jax.jit(jnp.sum), split(mesh(i=4), (8,), "i"))


def _of_the_partitioner() -> str:
    found = {"axis_env": _environment(), "shard_map": _manual(), "jit": _automatic()}
    (way,) = (way for way, (collective,) in found.items() if collective.inserted_by == "partitioner")
    return way


def _counts(collectives: Collectives) -> tuple[int, int]:
    return collectives.num_replicas, collectives.num_partitions


def _seen_inside() -> tuple[int, ...]:
    seen: list[tuple[int, ...]] = []

    def total(x: jax.Array) -> Any:
        seen.append(x.shape)
        return lax.psum(x, "i")

    on = mesh(i=4)
    summed = jax.shard_map(total, mesh=on, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    jax.eval_shape(summed, jax.ShapeDtypeStruct((8,), jnp.float32))
    return seen[0]


QUESTIONS = (
    Question(
        "An array of 8 is split over i = 4. In which of the four ways does nobody write the collective, so that XLA's partitioner inserts it?",
        Choice(_WAYS),
        _of_the_partitioner,
        "With jit and shardings the program says sum, of the whole array; the partitioner finds out that devices must talk.",
        "In three of them you can point at the psum.",
        (
            Mistake("axis_env", "There you wrote psum, and JAX lowered it to an all-reduce at once."),
            Mistake("pmap", "There you wrote psum over the axis_name; only who has which part is pmap's."),
            Mistake(
                "shard_map", "There you wrote psum: shard_map is the manual way, in which the partitioner adds nothing."
            ),
        ),
    ),
    Question(
        "How many (replicas, partitions) has the program of shard_map over i = 4?",
        Ids(ordered=True, example="(2, 2)"),
        lambda: _counts(_manual()),
        "One program over 4 partitions: what belongs to a mesh is partitioned, what belongs to an axis environment replicated.",
        "Look at num_partitions in the first line of its HLO.",
        (
            Mistake((4, 1), "That is the axis environment's program. A mesh's devices are partitions of one replica."),
            Mistake((4, 4), "That would be 16 devices. There are 4 devices, which are all of one kind."),
        ),
    ),
    Question(
        "Which shape has x, of 8 elements, inside of a shard_map with in_specs=P('i') over i = 4?",
        Ids(ordered=True, example="(4,)"),
        _seen_inside,
        "Inside, a device sees its own part, and nothing else.",
        "The function runs once on each device.",
        (
            Mistake(
                (8,),
                "That is the whole, as jit with shardings sees it. Inside of shard_map a device sees its own part.",
            ),
            Mistake((4, 2), "shard_map splits a dimension and adds none."),
            Mistake((4,), "8 elements over 4 devices are 2 each; 4 is the number of devices."),
        ),
    ),
)
