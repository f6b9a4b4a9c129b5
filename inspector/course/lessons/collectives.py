"""Lesson 3: the result of each collective, and the data that it sends."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inspector.analysis.collectives.exchanges.exchange import Exchange
from inspector.course.answers import Ids, Number
from inspector.course.question import Mistake, Question
from inspector.lowering.lower import lower

_MEMBERS = 4
_VALUES = [10 * replica + np.arange(_MEMBERS) for replica in range(_MEMBERS)]
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


def _result(opcode: str, replica: int) -> list[int]:
    ended = _exchange(opcode, (_MEMBERS,), _MEMBERS, "direct").play(_VALUES)
    return [int(value) for value in ended[replica]]


QUESTIONS = (
    Question(
        "Replica r of 4 holds [10r, 10r+1, 10r+2, 10r+3]. What is the result of psum_scatter(x, 'i', tiled=True) on replica 2?",
        Ids(ordered=True, example="[22]"),
        lambda: _result("reduce-scatter", 2),
        "Block 2 of the sum: 2 + 12 + 22 + 32.",
        "Add all four, then keep one block.",
        (
            Mistake([60, 64, 68, 72], "That is the all-reduce; keep block i = 2."),
            Mistake([22], "That is block 2 of replica 2's values. It must be added over all replicas."),
            Mistake([86], "That adds the values of replica 2. Blocks are added across replicas, not within one."),
            Mistake([64], "That is block 1. Blocks, like replicas, are counted from 0."),
        ),
    ),
    Question(
        "For the same values, what is the result of all_to_all(x, 'i', 0, 0, tiled=True) on replica 1?",
        Ids(ordered=True, example="[0, 1, 2, 3]"),
        lambda: _result("all-to-all", 1),
        "Block 1 of every replica, in the order of the group: rows become columns.",
        "Every replica divides its values into 4 blocks and sends block r to replica r.",
        (
            Mistake(
                [10, 11, 12, 13], "Those are the values that replica 1 had. It keeps one block and receives three."
            ),
            Mistake([0, 10, 20, 30], "That is block 0 of every replica, which replica 0 receives."),
            Mistake([64], "That is a sum, as in psum_scatter. all_to_all moves blocks and adds nothing."),
        ),
    ),
    Question(
        "How many steps does an all-reduce on a ring of 8 take?",
        Number(),
        lambda: len(_exchange("all-reduce", (64,), 8).steps),
        "7 steps until every block is summed on one member (reduce-scatter), and 7 until every member has all blocks (all-gather).",
        "First every block must be summed, then every member must receive it.",
        (
            Mistake(
                7,
                "That is half. After 7 steps each member has one block of the sum (reduce-scatter). Then the blocks are gathered.",
            ),
            Mistake(8, "A block starts on one member, so it needs 7 messages to go around, not 8. This happens twice."),
            Mistake(16, "A block starts on one member, so it needs 7 messages to go around, not 8."),
            Mistake(
                3,
                "That is the logarithm of 8: halving and doubling needs 2 * 3 steps. On a ring a block moves one neighbor at a time.",
            ),
        ),
    ),
    Question(
        "8 devices on a ring run an all-gather of 2,048 bytes each. How many bytes does one device send?",
        Number("bytes"),
        lambda: _exchange("all-gather", (512,), 8).most_sent_bytes,
        "Its own block and six blocks that it received: 7 times 2,048.",
        "It sends one block in each step.",
        (
            Mistake(
                2048,
                "That is its own block. It also passes on the blocks that it receives; otherwise only its neighbor would get them.",
            ),
            Mistake(
                16384,
                "That is the size of the result. A device never sends the block of the neighbor that it sends to.",
            ),
        ),
    ),
    Question(
        "8 devices on a ring run a reduce-scatter of 16,384 bytes each. How many bytes does one device send?",
        Number("bytes"),
        lambda: _exchange("reduce-scatter", (4096,), 8).most_sent_bytes,
        "7 blocks of 2,048: as many as the all-gather of the result sends. The two are inverse.",
        "A block is an eighth of the operand. How many blocks does a device send?",
        (
            Mistake(16384, "That is the size of the operand. A device never sends the block that it keeps at the end."),
            Mistake(2048, "That is one block. There are 7 steps."),
            Mistake(7 * 16384, "A step sends one block, an eighth of the operand, not all of it."),
        ),
    ),
)
