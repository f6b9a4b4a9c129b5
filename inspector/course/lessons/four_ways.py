"""Lesson 4: one program written in four ways, from axis_env to jit with shardings."""

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
    collectives = {"axis_env": _environment(), "shard_map": _manual(), "jit": _automatic()}
    (way,) = (way for way, (collective,) in collectives.items() if collective.inserted_by == "partitioner")
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
        "An array of 8 elements is sharded over i = 4. In which of the four ways does XLA's partitioner insert the collective, because the program does not contain it?",
        Choice(_WAYS),
        _of_the_partitioner,
        "With jit and shardings the program is a sum of the whole array. The partitioner determines that devices must communicate.",
        "In three of them you can point at the psum.",
        (
            Mistake("axis_env", "There you wrote psum, and JAX lowered it directly to an all-reduce."),
            Mistake("pmap", "There you wrote psum over the axis_name. pmap only assigns the parts to devices."),
            Mistake("shard_map", "There you wrote psum. In shard_map, the manual way, the partitioner adds nothing."),
        ),
    ),
    Question(
        "How many (replicas, partitions) does the program of shard_map over i = 4 have?",
        Ids(ordered=True, example="(2, 2)"),
        lambda: _counts(_manual()),
        "One program over 4 partitions: programs over a mesh are partitioned, programs over an axis environment are replicated.",
        "Look at num_partitions in the first line of its HLO.",
        (
            Mistake(
                (4, 1),
                "That is the program of the axis environment. The devices of a mesh are partitions of one replica.",
            ),
            Mistake((4, 4), "That would be 16 devices. There are 4 devices, all of them partitions."),
        ),
    ),
    Question(
        "What is the shape of x, an array of 8 elements, inside a shard_map with in_specs=P('i') over i = 4?",
        Ids(ordered=True, example="(4,)"),
        _seen_inside,
        "Inside, a device sees only its own part.",
        "The function runs once on each device.",
        (
            Mistake(
                (8,),
                "That is the whole array, as in jit with shardings. Inside shard_map a device sees only its own part.",
            ),
            Mistake((4, 2), "shard_map splits a dimension. It does not add one."),
            Mistake((4,), "8 elements over 4 devices are 2 each. 4 is the number of devices."),
        ),
    ),
)
