"""Lesson 7: reading the collectives of a real module."""

import jax
import jax.numpy as jnp

from inspector.analysis.collectives.collective import Collective
from inspector.course.answers import Choice, Ids, Number
from inspector.course.programs import compiled_collectives, mesh, split
from inspector.course.question import Mistake, Question
from inspector.errors import Unavailable

_HEADS = (8, 64, 16, 32)
_OPCODES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def attention(q: jax.Array, k: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
    """Computes attention with 16 heads and a projection that joins them, as in the notebook."""
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, v)
    return mixed.reshape(*mixed.shape[:2], -1) @ w


def _stray() -> Collective:
    on = mesh(data=2, model=4)
    by_head = split(on, _HEADS, "data", None, "model")
    by_place = split(on, _HEADS, "data", "model")
    collectives = compiled_collectives(jax.jit(attention), by_head, by_place, by_head, split(on, (512, 256), "model"))
    (stray,) = (one for one in collectives if one.opcode != "all-reduce")
    return stray


def _devices() -> list[int]:
    participants = _stray().participants
    if isinstance(participants, Unavailable):
        raise TypeError(participants.reason)  # those of a compiled module are known
    (group,) = (group for group in participants if 6 in group)
    return list(group)


QUESTIONS = (
    Question(
        "k was sharded by position instead of by head. Which collective did the partitioner insert in addition to the all-reduce of the projection?",
        Choice(_OPCODES),
        lambda: _stray().opcode,
        "An all-to-all: every device has all heads for a quarter of the positions, and needs a quarter of the heads for all positions.",
        "A device has as many bytes of k as before, but different ones.",
        (
            Mistake(
                "all-gather",
                "That would provide all of k on each device. A device needs only a quarter of the heads, so devices exchange blocks.",
            ),
            Mistake(
                "all-reduce",
                "That belongs to the projection, which sums over heads. It is also there if k is sharded by head.",
            ),
            Mistake(
                "collective-permute", "That moves whole parts. Here each device sends a block to each of the others."
            ),
            Mistake("reduce-scatter", "No part of k is summed. Devices exchange parts."),
        ),
    ),
    Question(
        "Which devices exchange k with each other in the group of device 6, itself included? The mesh is data = 2, model = 4.",
        Ids(example="[0, 1]"),
        _devices,
        "With its row of the mesh: the same coordinate along data, other coordinates along model.",
        "Over which axis was k sharded, and over which should it be sharded?",
        (
            Mistake([2, 6], "Those differ in data. k stays sharded over data; the exchange is along model."),
            Mistake([0, 1, 2, 3], "That is the other row: device 6 has data = 1."),
            Mistake([4, 5, 7], "The group also contains device 6 itself, which keeps a block."),
            Mistake(list(range(8)), "k stays sharded over data, so only devices of one row exchange blocks."),
        ),
    ),
    Question(
        "How many bytes of k are the operand of each device? k is f32[8, 64, 16, 32].",
        Number("bytes"),
        lambda: _stray().operand_bytes,
        "An eighth of k: 8 * 64 * 16 * 32 * 4 / 8.",
        "How much of k does one device have?",
        (
            Mistake(8 * 64 * 16 * 32 * 4, "That is all of k. A device has an eighth."),
            Mistake(8 * 64 * 16 * 32 * 4 // 4, "That is a quarter. k is also sharded over data (2)."),
            Mistake(8 * 64 * 16 * 32 // 8, "That is the number of elements. An f32 has 4 bytes."),
        ),
    ),
)
