"""Pallas kernels for tests: small, each with one thing to see."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F32 = jnp.float32


def matmul_kernel(x_ref: Any, y_ref: Any, o_ref: Any, sum_ref: Any) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        o_ref[...] = sum_ref[...].astype(o_ref.dtype)


def matmul(x: Any, y: Any, *, bm: int = 128, bk: int = 128, bn: int = 128, **params: Any) -> Any:
    """Blocks of bm x bk and bk x bn, an accumulator in VMEM, the contraction innermost."""
    (m, k), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), F32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"), **params),
        cost_estimate=pl.CostEstimate(
            flops=2 * m * k * n, transcendentals=0, bytes_accessed=4 * (m * k + k * n + m * n)
        ),
        name="matmul",
    )(x, y)


def scale_kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def scale(x: Any, *, rows: int = 8, **options: Any) -> Any:
    """Blocks of some rows, no compiler parameters; works on every backend and in 64-bit mode."""
    spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        scale_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(x.shape[0], rows),),
        in_specs=[spec],
        out_specs=spec,
        name="scale",
        **options,
    )(x)


def line(x: Any) -> Any:
    """One-dimensional blocks, whose tiling depends on the chip."""
    spec = pl.BlockSpec((1024,), lambda i: (i,))
    grid = (x.shape[0] // 1024,)
    return pl.pallas_call(
        scale_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=grid,
        in_specs=[spec],
        out_specs=spec,
        name="line",
    )(x)


def _increment_in_pieces(x_ref: Any, o_ref: Any) -> None:
    def body(x_block: Any, o_block: Any) -> None:
        o_block[...] = x_block[...] + 1

    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(body, grid=(x_ref.shape[0] // 64,), in_specs=[spec], out_specs=[spec])(x_ref, o_ref)


def piped(x: Any) -> Any:
    """A kernel without a grid that pipes blocks of 64 rows itself."""
    whole = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        _increment_in_pieces,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[whole],
        out_specs=whole,
        name="piped",
    )(x)


def on_cores(x: Any) -> Any:
    """The same by `pl.kernel`, on one core."""
    name = "out_type" if "out_type" in inspect.signature(pl.kernel).parameters else "out_shape"  # up to JAX 0.10
    result = {name: jax.ShapeDtypeStruct(x.shape, x.dtype)}
    return pl.kernel(_increment_in_pieces, mesh=_one_core(), name="on_cores", **result)(x)


def _one_core() -> Any:
    if hasattr(pltpu, "TensorCoreMesh"):
        return pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    return pltpu.create_tensorcore_mesh("core", num_cores=1)  # up to JAX 0.10


def on_sparse_cores(x: Any) -> Any:
    """Each of 32 subcores copies a row, by way of its own memory."""
    from jax.experimental.pallas import tpu_sc

    given = {"core_axis_name": "c", "subcore_axis_name": "s", "num_cores": 2, "num_subcores": 16}
    known = inspect.signature(tpu_sc.VectorSubcoreMesh).parameters
    mesh = tpu_sc.VectorSubcoreMesh(**{name: value for name, value in given.items() if name in known})

    def body(x_ref: Any, o_ref: Any, row_ref: Any) -> None:
        row = jax.lax.axis_index("c") * 16 + jax.lax.axis_index("s")
        pltpu.sync_copy(x_ref.at[row], row_ref)
        pltpu.sync_copy(row_ref, o_ref.at[row])

    parameters = inspect.signature(pl.kernel).parameters
    result, scratch = ("out_type", "scratch_types") if "out_type" in parameters else ("out_shape", "scratch_shapes")
    given = {result: jax.ShapeDtypeStruct(x.shape, x.dtype), scratch: [pltpu.VMEM(x.shape[1:], x.dtype)]}
    return pl.kernel(body, mesh=mesh, name="on_sparse_cores", **given)(x)


def struct(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
