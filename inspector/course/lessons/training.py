"""Lesson 5: the number and cost of collectives in a training step with data, tensor and fully sharded parallelism."""

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
        "Weights of 256 x 1024 and 1024 x 256 (f32) are replicated on 8 devices, and the batch is sharded. How many bytes of"
        " gradients are the operand of all-reduces on each device in one step?",
        Number("bytes"),
        _bytes_reduced,
        "As many bytes as the weights have, for any batch: the cost of data parallelism depends on the size of the model.",
        "Which values differ between devices but must be equal?",
        (
            Mistake(_GRADIENTS // 2, "That is one of the two matrices. Both have gradients."),
            Mistake(
                _GRADIENTS // 8,
                "That is an eighth. The weights are replicated here, so their gradients are not sharded either.",
            ),
            Mistake(_GRADIENTS // 4, "That is the number of elements. An f32 has 4 bytes."),
            Mistake(_GRADIENTS * 8, "That is the sum over all devices. The question asks for one device."),
        ),
    ),
    Question(
        "w_in is sharded by columns and w_out by rows over 8 devices (tensor parallelism), and the batch is replicated. How many"
        " collectives does loss(w_in, w_out, x) have?",
        Number(),
        lambda: len(_tensor()),
        "One all-reduce, after the second product: each device has summed over its own eighth of the hidden layer.",
        "Follow the hidden layer. Which part of it does a device have, and which part does it need?",
        (
            Mistake(
                2,
                "After the first product a device has exactly the columns of the hidden layer that its rows of w_out need. Nothing is sent.",
            ),
            Mistake(
                0,
                "The second product sums over the hidden layer, and each device has an eighth of it. The partial sums must be added.",
            ),
        ),
    ),
    Question(
        "Now the weights are sharded by rows over the same 8 devices as the batch (fully sharded). Which collective provides the"
        " whole weight on a device before it is used?",
        Choice(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")),
        _brings_weights,
        "All-gather. It trades communication for memory: each device stores an eighth of a weight, and all of it only while it is used.",
        "Every device has an eighth and needs all of it. Nothing is added.",
        (
            Mistake("all-reduce", "That adds. The parts of a weight are concatenated, not summed."),
            Mistake("reduce-scatter", "Gradients need that: they are summed, and each device keeps an eighth."),
            Mistake("all-to-all", "That leaves a device with as much data as before. Here it needs the whole weight."),
        ),
    ),
    Question(
        "The all-reduce of the first question has 2 MiB on each of 8 devices, on a ring with links of 50 GB/s in each direction. How many"
        " microseconds does the ring algorithm take, without latency?",
        Number("microseconds"),
        _microseconds,
        "2 * 7/8 * 2 MiB divided by 50 GB/s. With many members it approaches twice the bytes divided by the speed.",
        "Divide the bytes that one device sends by the speed of a link.",
        (
            Mistake(
                _GRADIENTS / _SPEED * 1e6,
                "That sends the operand once. A ring sends 7/8 of it to compute the sums, and 7/8 again to distribute them.",
            ),
            Mistake(
                _GRADIENTS / _SPEED * 1e6 * 7 / 8,
                "That is the first half, the reduce-scatter. Then the sums must be gathered.",
            ),
            Mistake(_GRADIENTS / _SPEED * 2e6, "Nearly. A device does not send its own block, so it is 7/8 each time."),
            Mistake(
                _GRADIENTS / _SPEED * 1e6 * 14,
                "That sends the whole operand in each of 14 steps. A step sends an eighth of it.",
            ),
        ),
    ),
)
