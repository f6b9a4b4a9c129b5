"""Lesson 8: products of sharded matrices, after the exercises of the scaling book's chapter on sharding, in our own words."""

import math
from collections.abc import Sequence

import jax

from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.course.answers import Choice, Number
from inspector.course.programs import compiled_collectives, mesh, microseconds, split
from inspector.course.question import Mistake, Question
from inspector.hlo.devices.mesh import Mesh

_NONE = "none"
_OPCODES = (_NONE, "all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_SHAPE = (512, 512)
_ARRAY = (1024, 4096)


def _bytes_of_a_part() -> int:
    on = Mesh(("x", "y", "z"), (4, 2, 2), "partition")
    return 2 * math.prod(Sharding(_ARRAY, on, (("x",), ("y",))).part_shape)


def _product(a: Sequence[str | None], b: Sequence[str | None]) -> str:
    on = mesh(x=4, y=2)
    found = compiled_collectives(jax.jit(lambda a, b: a @ b), split(on, _SHAPE, *a), split(on, _SHAPE, *b))
    return found[0].opcode if len(found) else _NONE


def _microseconds() -> float:
    on = mesh(x=4)
    found = compiled_collectives(jax.jit(lambda a, b: a @ b), split(on, (4096, 1024), "x"), split(on, (1024, 512), "x"))
    (gather,) = found
    return microseconds(found.exchange(gather.name, "bidirectional ring", links=Links("ring", 90e9)))


_GATHERED = 1024 * 512 * 4 / 90e9 * 1e6

QUESTIONS = (
    Question(
        "bf16[1024, 4096] is split by P('x', 'y') over x = 4, y = 2, z = 2. How many bytes has one device?",
        Number("bytes"),
        _bytes_of_a_part,
        "1024/4 * 4096/2 * 2 bytes; along z devices hold the same.",
        "Which axes split it, and which only repeat it?",
        (
            Mistake(
                1024 * 4096 * 2 // 16,
                "That divides by all 16 devices. z splits nothing: along it devices hold the same.",
            ),
            Mistake(1024 * 4096 * 2, "That is the whole array: x and y split it."),
            Mistake(1024 * 4096 * 2 // 4, "That divides by x alone; columns are split by y."),
        ),
    ),
    Question(
        "A[I, J] @ B[J, K] with A split over x by I, B over y by K. Which collective is needed?",
        Choice(_OPCODES),
        lambda: _product(("x",), (None, "y")),
        "None: every device has whole rows of A and whole columns of B, and makes its block of the result.",
        "What has a device of the dimension that is summed over?",
        (
            Mistake(
                "all-gather", "J is whole on every device, so every product that its block needs is already there."
            ),
            Mistake("all-reduce", "J is whole on every device, so its sums are too: there is nothing to add up."),
        ),
    ),
    Question(
        "Now both are split over x by J, the dimension that is summed over. Which collective, if the result is to be whole?",
        Choice(_OPCODES),
        lambda: _product((None, "x"), ("x",)),
        "An all-reduce: every device has summed over its part of J, and the partial sums are added.",
        "Every device can multiply what it has: what is it that it gets?",
        (
            Mistake("none", "A device has a quarter of J, so its sums are a quarter of the sums."),
            Mistake(
                "all-gather",
                "That works too, and moves A and B to do all the work on each device; adding partial sums shares it.",
            ),
            Mistake("reduce-scatter", "That leaves a part of the result on each device; asked is the whole result."),
        ),
    ),
    Question(
        "Now A is split over x by I, and B over x by J. Which collective?",
        Choice(_OPCODES),
        lambda: _product(("x",), ("x",)),
        "B is gathered: x can split the rows of the result, so what splits J must go.",
        "A device needs all of J for its rows of A.",
        (
            Mistake("none", "For its rows a device needs B whole, and has a quarter of it."),
            Mistake(
                "all-reduce",
                "Devices have different rows of A: their products are of different rows, and not to be added.",
            ),
            Mistake("all-to-all", "That would leave a device with a quarter of B; for its rows it needs all."),
        ),
    ),
    Question(
        "That gather, of f32[1024, 512] over a ring of x = 4 with 90 GB/s each way on each link, both ways used: how many microseconds?",
        Number("microseconds"),
        _microseconds,
        "3/4 of the array over both ways of a link: V * 3/4 / 180 GB/s.",
        "How many bytes come to a device, over how many links at once?",
        (
            Mistake(
                _GATHERED * 0.75, "That uses one way around. Both neighbors send: half of it comes from each side."
            ),
            Mistake(_GATHERED / 2, "Nearly: a device's own quarter need not come."),
            Mistake(
                _GATHERED,
                "That sends the whole array one way. A quarter is there already, and it comes from both sides.",
            ),
        ),
    ),
)
