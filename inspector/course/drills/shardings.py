"""Exercises on shardings: the collective that a product needs, and the bytes of shards and of messages."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from inspector.analysis.collectives.collectives import Collectives
from inspector.course.answers import Choice, Number
from inspector.course.programs import compiled_collectives, mesh, split
from inspector.course.question import Mistake, Question
from inspector.lowering.lower import lower
from inspector.support.units import counted

Spec = tuple[str | None, ...]

_NONE = "none"
_OPCODES = (_NONE, "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_SIZES = (64, 512, 1024)
_MOST_TRIES = 50
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "s8": jnp.int8, "s32": jnp.int32}
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "all_gather": lambda x: lax.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "psum": lambda x: lax.psum(x, "i"),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
}


def collectives(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the only collective of a product of sharded matrices, compiled for virtual CPU devices."""
    for _ in range(_MOST_TRIES):
        on = mesh(x=4) if level < 2 else mesh(x=2, y=2)
        axes: list[str | None] = [None, *on.axis_names]
        sizes = (512,) * 3 if level < 4 else tuple(draw.choice(_SIZES) for _ in range(3))
        a, b = _spec(draw, axes), _spec(draw, axes)
        out = None if level < 3 else _spec(draw, axes)
        if a == b == (None, None):
            continue
        found = _product(on, sizes, a, b, out)
        if len(found) < 2:
            break
    else:  # never seen: most products have one collective or none
        a, b, out = (axes[1], None), (None, None), None
        found = _product(on, sizes, a, b, out)
    right = found[0].opcode if len(found) else _NONE
    i, j, k = sizes
    kept = (
        "The compiler chooses the sharding of the result."
        if out is None
        else f"The result has the sharding {_shown(out)}."
    )
    over = f" over {' and '.join(str(axis) for axis in found[0].axes)}" if len(found) else ""  # type: ignore[union-attr]
    return Question(
        f"A is f32[{i},{j}] with the sharding {_shown(a)}, B is f32[{j},{k}] with {_shown(b)}, on a mesh of"
        f" {', '.join(f'{name} = {size}' for name, size in on.shape.items())}. {kept} Which collective does the CPU compiler"
        " insert into A @ B? One of " + ", ".join(_OPCODES) + ".",
        Choice(_OPCODES),
        lambda: right,
        f"XLA compiles it to {'no collective' if right == _NONE else f'{right}{over}'}.",
        "Which part of the contracted dimension does each device have? Is an axis used twice? Which sharding should the result have?",
        (Mistake("reduce-scatter", "The CPU compiler has none: it adds partial sums with an all-reduce and takes a slice."),)
        if right == "all-reduce"
        else (),
    )  # fmt: skip


def shard_bytes(draw: random.Random, level: int) -> Question:
    """Returns an exercise on bytes: of a shard, then of operands and results, then of messages on a ring."""
    if level < 3:
        return _bytes_of_a_shard(draw, level)
    return _bytes_of_an_operand(draw) if level < 4 else _bytes_sent(draw)


def _bytes_of_a_shard(draw: random.Random, level: int) -> Question:
    names = ("x", "y", "z")[: 1 + level]
    on = mesh(**{name: draw.choice((2, 4, 8)) for name in names})
    rank = draw.choice((2, 3))
    shape = tuple(draw.choice((64, 128, 256, 1024)) for _ in range(rank))
    dtype = draw.choice(list(DTYPES))
    named = draw.sample(names, draw.randint(1, min(rank, len(names) - 1)))
    spec: Spec = tuple(draw.sample([*named, *(None,) * (rank - len(named))], rank))
    itemsize = jnp.dtype(DTYPES[dtype]).itemsize
    whole = math.prod(shape) * itemsize
    part = NamedSharding(on, PartitionSpec(*spec)).shard_shape(shape)
    right = math.prod(part) * itemsize
    wrong = {
        whole: "That is the whole array. A device holds a part of it.",
        whole
        // on.size: "That divides by all devices. Along axes that the sharding does not name, devices hold copies.",
        math.prod(part): f"That is the number of elements. {dtype} has {counted(itemsize, 'byte')}.",
    }
    return Question(
        f"{dtype}[{','.join(map(str, shape))}] has the sharding {_shown(spec)} on a mesh of"
        f" {', '.join(f'{name} = {size}' for name, size in on.shape.items())}. How many bytes does one device hold?",
        Number("bytes"),
        lambda: right,
        f"The part is {dtype}[{','.join(map(str, part))}], {counted(itemsize, 'byte')} for each element.",
        "Divide each dimension by the axes that shard it. Axes that are not named do not divide.",
        tuple(Mistake(value, reply) for value, reply in wrong.items() if value != right),
    )


def exchange_of(operation: str, dtype: str, elements: int, members: int) -> Collectives:
    """Returns the collectives of one operation over an axis i, as lowered by JAX."""
    operand = jax.ShapeDtypeStruct((elements,), DTYPES[dtype])
    return lower(OPERATIONS[operation], operand, axis_env=[("i", members)]).collectives()


def _drawn_operation(draw: random.Random) -> tuple[str, str, int, int]:
    return (
        draw.choice(list(OPERATIONS)),
        draw.choice(list(DTYPES)),
        draw.choice((1 << 10, 1 << 14, 1 << 18)),
        draw.choice((4, 8, 16)),
    )


def _bytes_of_an_operand(draw: random.Random) -> Question:
    operation, dtype, elements, members = _drawn_operation(draw)
    (one,) = exchange_of(operation, dtype, elements, members)
    right = one.result_bytes
    wrong = {
        one.operand_bytes: "That is the operand. The question asks for the result.",
        one.operand_bytes * members: "That concatenates the operands of all members.",
        one.operand_bytes // members: "That is one block of the operand.",
    }
    return Question(
        f"{members} devices run {operation}(x, \"i\") with tiled=True where it applies, and x is {dtype}[{elements}] on each device."
        " How many bytes does the result have on each device?",
        Number("bytes"),
        lambda: right,
        f"The result is {one.result_shapes[0].element_type}[{','.join(map(str, one.result_shapes[0].dimensions))}].",
        "Is the result as large as the operand, larger or smaller?",
        tuple(Mistake(value, reply) for value, reply in wrong.items() if value != right),
    )  # fmt: skip


def _bytes_sent(draw: random.Random) -> Question:
    operation, dtype, elements, members = _drawn_operation(draw)
    if operation == "all_to_all":
        operation = "psum"
    exchange = exchange_of(operation, dtype, elements, members).exchange(0, "ring")
    right = round(exchange.most_sent_bytes)
    steps, block = len(exchange.steps), round(exchange.block_bytes)
    wrong = {
        exchange.operand_bytes: "That is the operand of the instruction, not the bytes that are sent.",
        block: f"That is one block. There are {steps} steps.",
        (steps + 1) * block: "A device never sends the block that its neighbor has already.",
    }
    return Question(
        f"{members} devices on a ring run {operation}(x, \"i\"), tiled where it applies, and x is {dtype}[{elements}] on each device."
        " How many bytes does one device send by the ring algorithm?",
        Number("bytes"),
        lambda: right,
        f"{steps} steps of {block:,} bytes.",
        "How large is a block, and how many steps are there?",
        tuple(Mistake(value, reply) for value, reply in wrong.items() if value != right),
    )  # fmt: skip


def _product(
    on: AbstractMesh,
    sizes: Sequence[int],
    a: Sequence[str | None],
    b: Sequence[str | None],
    out: Sequence[str | None] | None,
) -> Collectives:
    i, j, k = sizes
    kept = None if out is None else NamedSharding(on, PartitionSpec(*out))
    product = jax.jit(lambda a, b: a @ b, out_shardings=kept)
    return compiled_collectives(product, split(on, (i, j), *a), split(on, (j, k), *b))


def _spec(draw: random.Random, axes: Sequence[str | None]) -> Spec:
    """Returns a sharding of a matrix that uses no axis twice."""
    rows = draw.choice(axes)
    return rows, draw.choice([axis for axis in axes if axis is None or axis != rows])


def _shown(spec: Sequence[str | None]) -> str:
    return f"P({', '.join('None' if axis is None else repr(axis) for axis in spec)})"
