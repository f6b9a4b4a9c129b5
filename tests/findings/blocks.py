"""Pallas kernels for TPUs with small blocks and with narrow arrays, for the tests of detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash

from tests.findings.sharded import Program
from tests.kernels import matmul, scale, scale_kernel, struct

BF16 = jnp.bfloat16


def product(size: int = 4096, dtype: Any = jnp.float32, **blocks: int) -> Program:
    return (lambda x, y: matmul(x, y, **blocks)), (struct(size, size, dtype=dtype), struct(size, size, dtype=dtype))


def product_of_small_blocks() -> Program:
    return product()


def products_in_a_loop() -> Program:
    def layers(x: Any, ws: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(matmul(x, w)), None), x, ws)[0]

    return layers, (struct(4096, 4096), struct(3, 4096, 4096))


def product_of_each_example() -> Program:
    args = struct(4, 2048, 2048, dtype=BF16), struct(4, 2048, 2048, dtype=BF16)
    return jax.vmap(lambda x, y: matmul(x, y, bm=256, bn=128, bk=256)), args


def attention_of_small_blocks(**sizes: int) -> Program:
    blocks = {"block_q": 128, "block_k_major": 128, "block_k": 128, "block_b": 1, **sizes}

    def attention(q: Any, k: Any, v: Any) -> Any:
        return flash.flash_attention(q, k, v, block_sizes=flash.BlockSizes(**blocks))

    return attention, (struct(2, 8, 4096, 128, dtype=BF16),) * 3


def gradient_of_attention(**sizes: int) -> Program:
    blocks = flash.BlockSizes.get_default(2, 8, 2048, 2048, 128)
    blocks = type(blocks)(**{**vars(blocks), **sizes}) if sizes else blocks

    def loss(q: Any, k: Any, v: Any) -> Any:
        return flash.flash_attention(q, k, v, causal=True, block_sizes=blocks).astype(jnp.float32).sum()

    return jax.grad(loss, argnums=(0, 1, 2)), (struct(2, 8, 2048, 128, dtype=BF16),) * 3


# Silent


def product_of_large_blocks() -> Program:
    return product(bm=1024, bn=1024, bk=256)


def product_without_room() -> Program:
    """Its blocks are long and flat, and fill VMEM."""
    return product(bm=128, bk=4096, bn=256)


def each_block_once() -> Program:
    return (lambda x: scale(x, rows=64)), (struct(4096, 1024),)


def rows_by_index() -> Program:
    """Its blocks depend on data."""

    def kernel(rows: Any, x: Any, out: Any) -> None:
        out[...] = x[...]

    def gather(rows: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(8192,), in_specs=[pl.BlockSpec((1, 8, 128), lambda i, rows: (rows[i], 0, 0))],
            out_specs=pl.BlockSpec((1, 8, 128), lambda i, rows: (i, 0, 0)),
        )  # fmt: skip
        out = jax.ShapeDtypeStruct((8192, 8, 128), x.dtype)
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=out, name="gather")(rows, x)

    return gather, (struct(8192, dtype=jnp.int32), struct(64, 8, 128))


# Narrow arrays


def heads_of_64() -> Program:
    return (lambda q, k, v: flash.flash_attention(q, k, v, causal=True)), (struct(4, 8, 4096, 64, dtype=BF16),) * 3


def thin_product() -> Program:
    return (lambda x, y: matmul(x, y, bm=512, bk=512, bn=64)), (struct(4096, 4096), struct(4096, 64))


def few_features() -> Program:
    return (lambda x: scale(x, rows=512)), (struct(65_536, 40),)


def few_features_in_a_loop() -> Program:
    return (lambda x: lax.fori_loop(0, 8, lambda _, y: jnp.sin(scale(y, rows=512)), x)), (struct(1 << 20, 24),)


def between_operations_by_element() -> Program:
    """They have the kernel's layout, so that the copies are behind them."""
    return (lambda x: jnp.tanh(scale(jnp.sin(x) * 2, rows=512)) + x), (struct(65_536, 40),)


def five_rows() -> Program:
    """Its blocks have five of the eight rows of a tile."""

    def tripled(x: Any) -> Any:
        spec = pl.BlockSpec((64, 5, 128), lambda i: (i, 0, 0))
        return pl.pallas_call(
            scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 64,), in_specs=[spec],
            out_specs=spec, name="tripled",
        )(x)  # fmt: skip

    return tripled, (struct(65_536, 5, 128),)


# Silent


def heads_of_128() -> Program:
    return attention_of_small_blocks(block_q=512, block_k_major=512, block_k=512)


def features_of_192() -> Program:
    return (lambda x: scale(x, rows=256)), (struct(16_384, 192),)


def small_and_narrow() -> Program:
    return (lambda x: scale(x, rows=64)), (struct(256, 64),)


AGAIN: tuple[Callable[[], Program], ...] = (
    product_of_small_blocks, products_in_a_loop, product_of_each_example, attention_of_small_blocks, gradient_of_attention,
)  # fmt: skip
ENOUGH: tuple[Callable[[], Program], ...] = (
    product_of_large_blocks, product_without_room, each_block_once, rows_by_index, heads_of_128,
)  # fmt: skip
NARROW: tuple[Callable[[], Program], ...] = (
    heads_of_64,
    thin_product,
    few_features,
    few_features_in_a_loop,
    five_rows,
    between_operations_by_element,
)
WIDE: tuple[Callable[[], Program], ...] = (heads_of_128, features_of_192, small_and_narrow, product_of_large_blocks)
CHIP = "tpu:v5e:1x1"
RECORDED = {CHIP: tuple(dict.fromkeys((*AGAIN, *ENOUGH, *NARROW, *WIDE)))}
