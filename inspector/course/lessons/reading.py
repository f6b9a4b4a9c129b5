"""Lesson 7: a real module's collectives, read."""

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
    """Attention of 16 heads, and a projection that joins them: as the notebook has it."""
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, v)
    return mixed.reshape(*mixed.shape[:2], -1) @ w


def _stray() -> Collective:
    on = mesh(data=2, model=4)
    by_head = split(on, _HEADS, "data", None, "model")
    by_place = split(on, _HEADS, "data", "model")
    found = compiled_collectives(jax.jit(attention), by_head, by_place, by_head, split(on, (512, 256), "model"))
    (stray,) = (one for one in found if one.opcode != "all-reduce")
    return stray


def _devices() -> list[int]:
    participants = _stray().participants
    if isinstance(participants, Unavailable):
        raise TypeError(participants.reason)  # a compiled module's are known
    (group,) = (group for group in participants if 6 in group)
    return list(group)


QUESTIONS = (
    Question(
        "k came split by place instead of by head. Which collective did the partitioner insert beside the all-reduce of the projection?",
        Choice(_OPCODES),
        lambda: _stray().opcode,
        "An all-to-all: every device has all heads of a quarter of the places, and needs a quarter of the heads at all places.",
        "A device keeps as many bytes of k as it had, but others.",
        (
            Mistake(
                "all-gather",
                "That would make k whole on each device. It needs a quarter of the heads only: blocks change hands.",
            ),
            Mistake("all-reduce", "That is the projection's own, which adds up heads; it is there with k by head too."),
            Mistake(
                "collective-permute", "That moves whole parts; here each device gives a block to each of the others."
            ),
            Mistake("reduce-scatter", "Nothing of k is added up: its parts change hands."),
        ),
    ),
    Question(
        "With which devices does device 6 exchange k? The mesh is data = 2, model = 4.",
        Ids(example="[0, 1]"),
        _devices,
        "With its row of the mesh: the same data, another model.",
        "Which axis was k split over, and which is it to be split over?",
        (
            Mistake([2, 6], "Those differ in data. k stays split over data; what moves is split over model."),
            Mistake([0, 1, 2, 3], "That is the other row: device 6 has data = 1."),
            Mistake([4, 5, 7], "The group has device 6 itself too, which keeps a block."),
            Mistake(list(range(8)), "k stays split over data: only devices of one row exchange."),
        ),
    ),
    Question(
        "How many bytes of k does each device put in? k is f32[8, 64, 16, 32].",
        Number("bytes"),
        lambda: _stray().operand_bytes,
        "An eighth of k: 8 * 64 * 16 * 32 * 4 / 8.",
        "How much of k has one device?",
        (
            Mistake(8 * 64 * 16 * 32 * 4, "That is all of k; a device has an eighth."),
            Mistake(8 * 64 * 16 * 32 * 4 // 4, "That is a quarter: k is split over data (2) too."),
            Mistake(8 * 64 * 16 * 32 // 8, "Those are elements; an f32 has 4 bytes."),
        ),
    ),
)
