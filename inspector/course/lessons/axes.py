"""Lesson 1: axes and devices; the difference between replica, partition and physical id."""

import jax.numpy as jnp
from jax import lax

from inspector.analysis.sharding.array_sharding import Sharding
from inspector.course.answers import Ids, Number
from inspector.course.programs import groups_of, only_collective
from inspector.course.question import Mistake, Question
from inspector.hlo.devices.mesh import Mesh
from inspector.lowering.lower import lower

_ENVIRONMENT = [("i", 4), ("j", 2)]
_PLACES = (3, 1, 0, 2)


def _coordinates() -> tuple[int, ...]:
    collectives = lower(lambda x: lax.psum(x, "i"), jnp.float32(0), axis_env=_ENVIRONMENT).collectives()
    rows = collectives.members(0).set_index("replica")
    return tuple(rows.coordinates[5])


def _replicas() -> int:
    return sum(map(len, groups_of(only_collective(lambda x: lax.psum(x, "j"), jnp.float32(0), _ENVIRONMENT))))


def _element_of_device_0() -> int:
    ((start, _),) = Sharding((4,), Mesh(("i",), (4,), "partition", _PLACES), (("i",),)).part_of(0)
    return start


QUESTIONS = (
    Question(
        'How many replicas does the axis environment [("i", 4), ("j", 2)] have?',
        Number(),
        _replicas,
        "Every combination of coordinates is a replica: 4 times 2.",
        "Count the combinations of one coordinate along i and one along j.",
        (
            Mistake(6, "That adds the sizes. Each of the 4 places along i has 2 places along j."),
            Mistake(4, "That counts i alone. Each place along i has 2 places along j."),
            Mistake(2, "That counts the axes, not the places on them."),
        ),
    ),
    Question(
        "What are the coordinates (i, j) of replica 5?",
        Ids(ordered=True, example="(0, 1)"),
        _coordinates,
        "Replicas are numbered row by row; the last axis varies fastest: 5 = 2 * 2 + 1.",
        "Number the replicas row by row: (0, 0) is 0, (0, 1) is 1, (1, 0) is 2.",
        (
            Mistake((1, 2), "That is (j, i): the environment names i first, so i comes first in the coordinates."),
            Mistake((1, 1), "You let i vary fastest: 5 = 1 + 4 * 1. The axis named last varies fastest."),
            Mistake((2, 2), "j has size 2, so its coordinates are 0 and 1. Replicas and coordinates both start at 0."),
        ),
    ),
    Question(
        "A program has 2 replicas of 4 partitions each. What is the flattened id of partition 2 of replica 1?",
        Number(),
        lambda: 1 * 4 + 2,
        "XLA computes replica * partitions + partition: the partitions of a replica are consecutive.",
        "All partitions of replica 0 come first.",
        (
            Mistake(
                5,
                "That is partition * replicas + replica. It is the other way around: the partitions of a replica are consecutive.",
            ),
            Mistake(3, "That adds the two. All 4 partitions of replica 0 come before those of replica 1."),
            Mistake(2, "That is the partition alone. Replica 0 also has a partition 2."),
        ),
    ),
    Question(
        "A mesh has the physical devices (3, 1, 0, 2) along i. An array of 4 elements is sharded over i. Which element does physical device 0 hold?",
        Number(),
        _element_of_device_0,
        "Device 0 is at position 2 of the mesh, so it is logical device 2 and holds element 2.",
        "Find the position of device 0 in the list.",
        (
            Mistake(0, "That is the element of logical device 0, which is physical device 3 here."),
            Mistake(3, "That is the device at position 0. The question asks for the position of device 0."),
        ),
    ),
)
