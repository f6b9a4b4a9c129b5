"""Lesson 2: replica groups by hand and by machine."""

import jax.numpy as jnp
from jax import lax

from inspector.course.answers import Groups, Ids
from inspector.course.programs import groups_of, only_collective
from inspector.course.question import Mistake, Question
from inspector.hlo.devices.replica_groups import parse

_X = jnp.float32(0)
_IOTA = "[2,4]<=[2,2,2]T(1,0,2)"


def _over_j() -> list[list[int]]:
    return groups_of(only_collective(lambda x: lax.psum(x, "j"), _X, [("i", 4), ("j", 2)]))


def _over_two() -> list[list[int]]:
    return groups_of(only_collective(lambda x: lax.pmax(x, ("b", "c")), _X, [("a", 2), ("b", 2), ("c", 2)]))


def _gathered() -> list[list[int]]:
    return groups_of(only_collective(lambda x: lax.all_gather(x, ("j", "i")), _X, [("i", 2), ("j", 3)]))


def _iota() -> list[list[int]]:
    return [[int(id_) for id_ in group] for group in parse(_IOTA).expand()]


def _without_source() -> list[int]:
    shift = only_collective(lambda x: lax.ppermute(x, "j", [(0, 1), (1, 2)]), _X, [("i", 2), ("j", 3)])
    targets = {target for _, target in groups_of(shift)}
    return [replica for replica in range(6) if replica not in targets]


QUESTIONS = (
    Question(
        'What are the groups of psum(x, "j") under [("i", 4), ("j", 2)]?',
        Groups(),
        _over_j,
        "Members of a group differ only in j, so replicas 2i and 2i + 1 are added.",
        "Members of a group differ in the named axis, and agree in all others.",
        (
            Mistake(
                [[0, 2, 4, 6], [1, 3, 5, 7]],
                "Those share j; psum over j *varies* j: members differ in j and agree in i.",
            ),
            Mistake([list(range(8))], "That is psum over both axes. Members must agree in i, because it is not named."),
            Mistake(
                [[0, 4], [1, 5], [2, 6], [3, 7]], "That lets i vary fastest. The axis named last, j, varies fastest."
            ),
        ),
    ),
    Question(
        'What are the groups of pmax(x, ("b", "c")) under [("a", 2), ("b", 2), ("c", 2)]?',
        Groups(),
        _over_two,
        "a is not named, so a group has all replicas with the same a.",
        "Draw the cube. What do the replicas of a group have in common?",
        (
            Mistake(
                [[0, 4], [1, 5], [2, 6], [3, 7]],
                "Those differ only in a: that is pmax over a, the axis that is not named.",
            ),
            Mistake(
                [[0, 1], [2, 3], [4, 5], [6, 7]], "That is over c alone. b is also named, so members may differ in it."
            ),
            Mistake(
                [[0, 2], [1, 3], [4, 6], [5, 7]], "That is over b alone. c is also named, so members may differ in it."
            ),
            Mistake([[0, 2, 4, 6], [1, 3, 5, 7]], "Those agree in c. The axis that is not named is a."),
        ),
    ),
    Question(
        'What are the groups of all_gather(x, ("j", "i")) under [("i", 2), ("j", 3)], with their members in order?',
        Groups(ordered=True),
        _gathered,
        "The axis named first varies slowest: first both replicas with j = 0, then those with j = 1. The gathered blocks are in that order.",
        "Which replica's block comes first, second, third? Go through the named axes; the last one varies fastest.",
        (
            Mistake(
                [[0, 1, 2, 3, 4, 5]],
                'That is ("i", "j"). In ("j", "i"), i varies fastest: after replica 0 comes the replica with i = 1.',
            ),
            Mistake(
                [[0, 3], [1, 4], [2, 5]],
                "That is over i alone. Both axes are named, so there is one group. The question is its order.",
            ),
            Mistake(
                [[0, 1, 2], [3, 4, 5]],
                "That is over j alone. Both axes are named, so there is one group. The question is its order.",
            ),
        ),
    ),
    Question(
        f"Which groups does {_IOTA} denote?",
        Groups(ordered=True),
        _iota,
        "Write 0 to 7 as a cube of 2 x 2 x 2 and swap its first two dimensions: the four pairs come in the order 01, 45, 23, 67. Each half is a group.",
        "Write 0 to 7 as a cube of 2 x 2 x 2, swap its first two dimensions, then read 2 rows of 4.",
        (
            Mistake(
                [[0, 1, 2, 3], [4, 5, 6, 7]],
                "That is [2,4]<=[8]. T(1,0,2) swaps the first two dimensions of the cube before it is divided into groups.",
            ),
            Mistake(
                [[0, 2, 4, 6], [1, 3, 5, 7]],
                "That is [2,4]<=[4,2]T(1,0). In T(1,0,2), the last dimension stays the last, so 0 and 1 stay neighbors.",
            ),
            Mistake(
                [[0, 4, 1, 5], [2, 6, 3, 7]],
                "In T(1,0,2), the last dimension stays the last, so 0 and 1 stay neighbors. You let the first one vary fastest.",
            ),
        ),
    ),
    Question(
        'Which replicas receive zeros from ppermute(x, "j", [(0, 1), (1, 2)]) under [("i", 2), ("j", 3)]?',
        Ids(),
        _without_source,
        "A replica without a source gets zeros. Nothing is sent to j = 0, for any i, because the permutation does not wrap around.",
        "Which replicas are not a target? A pair applies to every position along the other axes.",
        (
            Mistake([2, 5], "Those have no target, but they receive. The question asks for replicas without a source."),
            Mistake([0], "A permutation along j happens once for every i, here twice."),
            Mistake(
                [],
                "Without the pair (2, 0) it does not wrap around, so some replicas are not a target. They get zeros.",
            ),
        ),
    ),
)
