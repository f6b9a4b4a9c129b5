"""Lesson 5: a train step data-, tensor- and fully sharded: its collectives counted and priced."""

from typing import Any

import jax
import jax.numpy as jnp

from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.exchanges.links import Links
from inspector.course.answers import Choice, Number
from inspector.course.programs import compiled_collectives, mesh, microseconds, split
from inspector.course.question import Mistake, Question

_W_IN, _W_OUT, _BATCH = (256, 1024), (1024, 256), (64, 256)
_GRADIENTS = 2 * 256 * 1024 * 4
_SPEED = 50e9


def _loss(w_in: jax.Array, w_out: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.mean((jax.nn.relu(x @ w_in) @ w_out) ** 2)


def _train(w_in: jax.Array, w_out: jax.Array, x: jax.Array) -> Any:
    to_in, to_out = jax.grad(_loss, argnums=(0, 1))(w_in, w_out, x)
    return w_in - to_in, w_out - to_out


def _data() -> Collectives:
    on = mesh(data=8)
    return compiled_collectives(jax.jit(_train), split(on, _W_IN), split(on, _W_OUT), split(on, _BATCH, "data"))


def _tensor() -> Collectives:
    on = mesh(model=8)
    weights = split(on, _W_IN, None, "model"), split(on, _W_OUT, "model")
    return compiled_collectives(jax.jit(_loss), *weights, split(on, _BATCH))


def _fully() -> Collectives:
    on = mesh(data=8)
    weights = split(on, _W_IN, "data"), split(on, _W_OUT, "data")
    step = jax.jit(_train, out_shardings=tuple(weight.sharding for weight in weights))
    return compiled_collectives(step, *weights, split(on, _BATCH, "data"))


def _bytes_reduced() -> int:
    return sum(one.operand_bytes for one in _data() if one.opcode == "all-reduce")


def _brings_weights() -> str:
    whole = 256 * 1024 * 4
    (opcode,) = {one.opcode for one in _fully() if one.result_bytes == whole}
    return opcode


def _microseconds() -> float:
    (gradients,) = (one.name for one in _data() if one.opcode == "all-reduce")
    return microseconds(_data().exchange(gradients, "ring", links=Links("ring", _SPEED)))


QUESTIONS = (
    Question(
        "Weights of 256 x 1024 and 1024 x 256 (f32), whole on each of 8 devices; the batch is split. How many bytes of"
        " gradients does each device put into all-reduces in a step?",
        Number("bytes"),
        _bytes_reduced,
        "As many as there are weights, whatever the batch: data parallelism pays by the size of the model.",
        "Which values differ from device to device, and must not?",
        (
            Mistake(_GRADIENTS // 2, "That is one of the two matrices; both have gradients."),
            Mistake(
                _GRADIENTS // 8, "That is an eighth: weights are whole on each device here, so their gradients are too."
            ),
            Mistake(_GRADIENTS // 4, "Those are elements; an f32 has 4 bytes."),
            Mistake(_GRADIENTS * 8, "That is all devices together; asked is what each puts in."),
        ),
    ),
    Question(
        "w_in is split by columns and w_out by rows over 8 devices (tensor parallelism), the batch is whole. How many"
        " collectives has loss(w_in, w_out, x)?",
        Number(),
        lambda: len(_tensor()),
        "One all-reduce, after the second product: each device summed over its own eighth of the hidden layer.",
        "Follow the hidden layer: which part of it has a device, and which part does it need?",
        (
            Mistake(
                2,
                "After the first product a device has just the columns of the hidden layer that its rows of w_out need: nothing is sent.",
            ),
            Mistake(
                0,
                "The second product sums over the hidden layer, of which a device has an eighth: partial sums must be added.",
            ),
        ),
    ),
    Question(
        "Now the weights are split by rows over the same 8 devices as the batch (fully sharded). Which collective brings a"
        " whole weight to a device before it is used?",
        Choice(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")),
        _brings_weights,
        "All-gather: memory is paid back with communication, an eighth of each weight at rest, all of it while in use.",
        "Everybody has an eighth and needs all of it; nothing is added.",
        (
            Mistake("all-reduce", "That adds. Parts of a weight lie beside each other; they are not summands."),
            Mistake("reduce-scatter", "That is what gradients want on their way back: summed, and an eighth kept."),
            Mistake("all-to-all", "That leaves a device with as much as it had; here it needs all of it."),
        ),
    ),
    Question(
        "The all-reduce of the first question, 2 MiB among 8, on a ring whose links carry 50 GB/s each way: how many"
        " microseconds, without latency, by the ring algorithm?",
        Number("microseconds"),
        _microseconds,
        "2 * 7/8 * 2 MiB over 50 GB/s. With many members it is twice the bytes over the speed, however many they are.",
        "Bytes that one device sends, over the speed of a link.",
        (
            Mistake(
                _GRADIENTS / _SPEED * 1e6,
                "That sends the operand once. A ring sends 7/8 of it for the sums, and 7/8 again to spread them.",
            ),
            Mistake(
                _GRADIENTS / _SPEED * 1e6 * 7 / 8,
                "That is the first half, the reduce-scatter. The sums must then be gathered.",
            ),
            Mistake(_GRADIENTS / _SPEED * 2e6, "Nearly: a device's own block need not be sent: 7/8 each way."),
            Mistake(
                _GRADIENTS / _SPEED * 1e6 * 14,
                "That sends the whole operand in each of 14 steps; a step sends an eighth of it.",
            ),
        ),
    ),
)
