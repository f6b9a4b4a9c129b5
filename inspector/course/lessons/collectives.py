"""Lesson 3: each collective, what it leaves, and what it sends."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.course.answers import Ids, Number
from inspector.course.question import Mistake, Question
from inspector.lowering.lower import lower

_MEMBERS = 4
_HELD = [10 * replica + np.arange(_MEMBERS) for replica in range(_MEMBERS)]
_MIB = 1 << 20


def _exchange(opcode: str, shape: tuple[int, ...], members: int, algorithm: str = "ring") -> Exchange:
    does = {
        "all-reduce": lambda x: lax.psum(x, "i"),
        "all-gather": lambda x: lax.all_gather(x, "i", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
        "all-to-all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
    }[opcode]
    lowered = lower(does, jax.ShapeDtypeStruct(shape, jnp.float32), axis_env=[("i", members)])
    return lowered.collectives().exchange(0, algorithm)


def _left(opcode: str, replica: int) -> list[int]:
    ended = _exchange(opcode, (_MEMBERS,), _MEMBERS, "direct").play(_HELD)
    return [int(value) for value in ended[replica]]


QUESTIONS = (
    Question(
        "Replica r of 4 holds [10r, 10r+1, 10r+2, 10r+3]. What does psum_scatter(x, 'i', tiled=True) leave on replica 2?",
        Ids(ordered=True, example="[22]"),
        lambda: _left("reduce-scatter", 2),
        "Block 2 of the sum: 2 + 12 + 22 + 32.",
        "Add up all four, then keep one block.",
        (
            Mistake([60, 64, 68, 72], "That is the all-reduce; keep block i = 2."),
            Mistake([22], "That is block 2 of what replica 2 had; it is to be added over all replicas."),
            Mistake([86], "That adds up what replica 2 had. Blocks are added across replicas, not within one."),
            Mistake([64], "That is block 1: blocks count from 0, as replicas do."),
        ),
    ),
    Question(
        "Of the same values, what does all_to_all(x, 'i', 0, 0, tiled=True) leave on replica 1?",
        Ids(ordered=True, example="[0, 1, 2, 3]"),
        lambda: _left("all-to-all", 1),
        "Block 1 of everybody, in the order of the group: rows become columns.",
        "Everybody cuts what it has into 4 and sends block r to replica r.",
        (
            Mistake([10, 11, 12, 13], "That is what replica 1 had. It keeps one block of it and gets three."),
            Mistake([0, 10, 20, 30], "That is block 0 of everybody, which replica 0 gets."),
            Mistake([64], "That adds up, as psum_scatter does; all_to_all moves blocks and adds nothing."),
        ),
    ),
    Question(
        "How many steps has an all-reduce on a ring of 8?",
        Number(),
        lambda: len(_exchange("all-reduce", (64,), 8).steps),
        "7 steps until every block is summed somewhere (reduce-scatter), 7 until everybody has them (all-gather).",
        "First every block must be summed, then everybody must get it.",
        (
            Mistake(
                7,
                "That is half: after 7 steps each member has one block of the sum (reduce-scatter). Then they are gathered.",
            ),
            Mistake(
                8, "A block is with somebody at the start, so 7 messages take it around, not 8; and that is done twice."
            ),
            Mistake(16, "A block is with somebody at the start, so 7 messages take it around, not 8."),
            Mistake(
                3,
                "That is the logarithm: halving and doubling needs 2 * 3. On a ring a block passes one neighbor at a time.",
            ),
        ),
    ),
    Question(
        "8 devices on a ring all-gather 2,048 bytes each. How many bytes does one device send?",
        Number("bytes"),
        lambda: _exchange("all-gather", (512,), 8).most_sent_bytes,
        "Its own block and then six that came: 7 times 2,048.",
        "In each of the steps it sends one block.",
        (
            Mistake(
                2048,
                "That is its own block. It also passes on those that come, or nobody behind its neighbor would get them.",
            ),
            Mistake(16384, "That is the result. A device never sends the block that its neighbor sent out first."),
        ),
    ),
    Question(
        "8 devices on a ring reduce-scatter 16,384 bytes each. How many bytes does one device send?",
        Number("bytes"),
        lambda: _exchange("reduce-scatter", (4096,), 8).most_sent_bytes,
        "7 blocks of 2,048: as many as the all-gather of its result sends, which it undoes.",
        "Blocks are an eighth of the operand. How many does a device send?",
        (
            Mistake(16384, "That is the operand. The block that it keeps in the end is never sent by it."),
            Mistake(2048, "That is one block, and there are 7 steps."),
            Mistake(7 * 16384, "A step sends one block, an eighth of the operand, not all of it."),
        ),
    ),
)
