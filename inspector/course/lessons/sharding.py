"""Lesson 8: products of sharded matrices, based on exercises of the scaling book's chapter on sharding, reworded."""

import math
from collections.abc import Sequence

import jax
from jax.sharding import NamedSharding, PartitionSpec

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


def _product(a: Sequence[str | None], b: Sequence[str | None], out: Sequence[str | None] | None = None) -> str:
    """Returns the only collective of A @ B, or "none"; the compiler chooses the sharding of the result if `out` is None."""
    on = mesh(x=4, y=2)
    kept = None if out is None else NamedSharding(on, PartitionSpec(*out))
    product = jax.jit(lambda a, b: a @ b, out_shardings=kept)
    opcodes = [one.opcode for one in compiled_collectives(product, split(on, _SHAPE, *a), split(on, _SHAPE, *b))]
    (opcode,) = opcodes or [_NONE]
    return opcode


def _microseconds() -> float:
    on = mesh(x=4)
    collectives = compiled_collectives(
        jax.jit(lambda a, b: a @ b), split(on, (4096, 1024), "x"), split(on, (1024, 512), "x")
    )
    (gather,) = collectives
    return microseconds(collectives.exchange(gather.name, "bidirectional ring", links=Links("ring", 90e9)))


_GATHERED = 1024 * 512 * 4 / 90e9 * 1e6

QUESTIONS = (
    Question(
        "bf16[1024, 4096] is sharded by P('x', 'y') over x = 4, y = 2, z = 2. How many bytes does one device hold?",
        Number("bytes"),
        _bytes_of_a_part,
        "1024/4 * 4096/2 * 2 bytes. Along z, devices hold copies.",
        "Which axes shard the array, and which only replicate it?",
        (
            Mistake(
                1024 * 4096 * 2 // 16,
                "That divides by all 16 devices. z does not shard the array: along z, devices hold copies.",
            ),
            Mistake(1024 * 4096 * 2, "That is the whole array. x and y shard it."),
            Mistake(1024 * 4096 * 2 // 4, "That divides by x alone. y also shards the columns."),
        ),
    ),
    Question(
        "A[I, J] @ B[J, K], with I of A sharded over x and K of B over y. Which collective is needed?",
        Choice(_OPCODES),
        lambda: _product(("x",), (None, "y")),
        "None. Every device has whole rows of A and whole columns of B, and computes its block of the result.",
        "How much of the summed dimension does a device have?",
        (
            Mistake("all-gather", "Every device has all of J, so it has every product that its block needs."),
            Mistake("all-reduce", "Every device has all of J, so its sums are complete. There is nothing to add."),
        ),
    ),
    Question(
        "Only J of A is sharded over x, and every device has all of B. Which collective is needed if the result should be whole on every device?",
        Choice(_OPCODES),
        lambda: _product((None, "x"), (), ()),
        "An all-gather of A: a device has a quarter of the columns of A, and its sums need all of them.",
        "Which of its terms can a device not compute?",
        (
            Mistake("none", "A device has all of B, but only a quarter of the columns of A."),
            Mistake(
                "all-reduce",
                "Devices could take the matching rows of B and add partial sums. That sends the result twice; here the compiler moves A, once.",
            ),
            Mistake("reduce-scatter", "That leaves a part of the result on each device. It should be whole."),
            Mistake("all-to-all", "That leaves a device with as much of A as before. It needs all of A."),
        ),
    ),
    Question(
        "J is sharded over x in both operands. Which collective is needed if the result should be whole on every device?",
        Choice(_OPCODES),
        lambda: _product((None, "x"), ("x",), ()),
        "An all-reduce. Every device has summed over its part of J, and the partial sums are added.",
        "Every device can multiply its parts. What is the result?",
        (
            Mistake("none", "A device has a quarter of J, so its sums are incomplete."),
            Mistake(
                "all-gather",
                "That also works, but it moves A and B, and each device does all the work. Adding partial sums shares the work.",
            ),
            Mistake(
                "reduce-scatter",
                "That leaves a part of the result on each device. The question asks for the whole result.",
            ),
        ),
    ),
    Question(
        "The all-gather of f32[1024, 512] runs on a ring of x = 4 with 90 GB/s in each direction of each link, and uses both directions. How many microseconds does it take?",
        Number("microseconds"),
        _microseconds,
        "3/4 of the array over both directions: V * 3/4 / 180 GB/s.",
        "How many bytes does a device receive, over how many links at once?",
        (
            Mistake(
                _GATHERED * 0.75, "That uses one direction. Both neighbors send: half of the data comes from each side."
            ),
            Mistake(_GATHERED / 2, "Nearly. A device already has its own quarter."),
            Mistake(
                _GATHERED,
                "That sends the whole array in one direction. A quarter is already there, and the rest comes from both sides.",
            ),
        ),
    ),
)
