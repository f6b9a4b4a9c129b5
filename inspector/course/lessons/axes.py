"""Lesson 1: axes and devices; replica, partition and physical id told apart."""

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
        'How many replicas has the axis environment [("i", 4), ("j", 2)]?',
        Number(),
        _replicas,
        "Every combination of coordinates is a replica: 4 times 2.",
        "Count the combinations of a coordinate along i with one along j.",
        (
            Mistake(6, "That adds the sizes. Each of the 4 places along i has 2 places along j."),
            Mistake(4, "That counts i alone. Each place along i has 2 places along j."),
            Mistake(2, "That counts the axes, not the places on them."),
        ),
    ),
    Question(
        "Which coordinates (i, j) has replica 5?",
        Ids(ordered=True, example="(0, 1)"),
        _coordinates,
        "Replicas are numbered row by row, the last axis the fastest: 5 = 2 * 2 + 1.",
        "Number the replicas row by row: (0, 0) is 0, (0, 1) is 1, (1, 0) is 2.",
        (
            Mistake((1, 2), "That is (j, i): the environment names i first, so i comes first in the coordinates."),
            Mistake((1, 1), "You let i vary fastest: there, 5 = 1 + 4 * 1. The axis named last is the fastest."),
            Mistake(
                (2, 2), "j has the size 2, so its coordinates are 0 and 1; replicas count from 0, coordinates too."
            ),
        ),
    ),
    Question(
        "A program has 2 replicas of 4 partitions each. Which flattened id has partition 2 of replica 1?",
        Number(),
        lambda: 1 * 4 + 2,
        "XLA flattens replica * partitions + partition: a replica's partitions lie together.",
        "All partitions of replica 0 come first.",
        (
            Mistake(
                5,
                "That is partition * replicas + replica. It is the other way round: a replica's partitions lie together.",
            ),
            Mistake(3, "That adds the two. All 4 partitions of replica 0 come before those of replica 1."),
            Mistake(2, "That is the partition alone: replica 0 has one of that id too."),
        ),
    ),
    Question(
        "A mesh has the physical devices (3, 1, 0, 2) along i. Which of 4 elements split over i does physical device 0 hold?",
        Number(),
        _element_of_device_0,
        "Device 0 stands at position 2 of the mesh, so it is the logical device 2, and holds element 2.",
        "Find the position of device 0 in the list.",
        (
            Mistake(0, "That is what logical device 0 holds, which is physical device 3 here."),
            Mistake(3, "That is the device at position 0; asked is the position of device 0."),
        ),
    ),
)
