"""Work and copies of Pallas kernels for TPUs, from their compiled bodies; the walk of the jaxpr's grid is one oracle."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import inspector
from inspector._jax.modules.mosaic import read_kernel
from inspector.analysis.pallas.grid_walk import visits
from inspector.compilation.kernels import walk as kernel_walk
from inspector.compilation.kernels.operations import element_bits, work_of
from inspector.compilation.kernels.values import Scope, evaluate
from inspector.compilation.kernels.walk import KernelWalk, walk
from inspector.errors import Unavailable
from inspector.hlo.backend_config import kernel_body
from inspector.hlo.module import Module
from tests.kernels import F32, matmul, on_cores, piped, scale, struct

TILE = 8 * 128  # elements


def body_of(fun: Callable[..., Any], *args: Any) -> bytes:
    """The body of the only kernel of a function, before XLA's passes."""
    module = Module.from_proto(inspector.lower(fun, *args, platform="tpu").hlo_proto)
    (body,) = filter(None, map(kernel_body, module.instructions()))
    return body


def walked(fun: Callable[..., Any], *args: Any) -> KernelWalk:
    return walk(json.loads(read_kernel(body_of(fun, *args))))


def called(kernel: Callable[..., None], *shapes: tuple[int, ...], grid: tuple[Any, ...] = (4,), **options: Any) -> Any:
    """A call of a kernel with blocks of a tile, one for each step of the first grid dimension."""
    spec = pl.BlockSpec((8, 128), lambda i, *_: (i, 0))
    options = {"in_specs": [spec] * len(shapes), "out_specs": spec, "grid": grid} | options
    return pl.pallas_call(kernel, out_shape=struct(*shapes[0]), **options)


def test_a_product_with_conditions_on_the_grid() -> None:
    found = walked(lambda x, y: matmul(x, y), struct(512, 256), struct(256, 384))
    products = 2.0 * 512 * 256 * 384
    sums = 512 * 384 * 2  # of each step of the contracted dimension
    assert found.steps == 4 * 3 * 2
    assert found.work["product f32 0"] == products
    assert found.work["flops"] == products + sums
    assert "transcendentals" not in found.work
    block = 128 * 128 * 4
    # In each step both operands and the sum are read and the sum is written; it is set first and read last.
    assert found.work["vmem"] == 24 * 4 * block + 12 * block + 12 * 2 * block
    assert (found.unknown_conditions, found.unknown_loops, found.unknown_dimensions) == (0, 0, 0)


SQUARE = struct(512, 512)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (matmul, (struct(512, 256), struct(256, 384))),
        (lambda x, y: matmul(x, y, bk=256), (struct(512, 256), struct(256, 384))),
        (lambda x: scale(x, rows=16), (struct(64, 128),)),
    ],
)
def test_copies_as_in_the_walk_of_the_grid(fun: Callable[..., Any], args: tuple[Any, ...]) -> None:
    (kernel,) = inspector.lower(fun, *args, platform="tpu").kernels
    expected = [each.copied_bytes for each in visits(kernel) if not isinstance(each, Unavailable)]
    found = walked(fun, *args)
    assert [found.work[f"copied {number}"] for number in range(found.arguments)] == expected


def test_a_highest_precision_and_types() -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], y[...], precision="highest", preferred_element_type=F32)

    call = pl.pallas_call(kernel, out_shape=struct(128, 128), grid=())
    assert walked(call, struct(128, 128), struct(128, 128)).work["product f32 2"] == 2 * 128**3
    call = pl.pallas_call(lambda x, y, o: matmul_into(x, y, o, jnp.int32), out_shape=struct(128, 128, dtype=jnp.int32))
    whole = struct(128, 128, dtype=jnp.int8)
    assert walked(call, whole, whole).work["product s8 0"] == 2 * 128**3


def matmul_into(x: Any, y: Any, o: Any, dtype: Any) -> None:
    o[...] = jnp.dot(x[...], y[...], preferred_element_type=dtype)


@pytest.mark.parametrize("fun", [piped, on_cores])
def test_copies_that_the_kernel_itself_pipes(fun: Callable[..., Any]) -> None:
    found = walked(fun, struct(512, 128))
    assert [found.work["copied 0"], found.work["copied 1"]] == [512 * 128 * 4] * 2
    assert found.work["flops"] == 512 * 128
    assert found.copies_itself
    assert (found.unknown_conditions, found.unknown_loops) == (0, 0)


def test_functions_and_results_that_are_not_used() -> None:
    def kernel(x: Any, o: Any) -> None:
        jnp.sin(x[...])
        o[...] = jnp.exp(x[...]) + jnp.tanh(x[...])

    found = walked(called(kernel, (32, 128)), struct(32, 128))
    assert found.work["transcendentals"] == 4 * 2 * TILE
    assert found.work["flops"] == 4 * TILE


def test_a_loop_of_known_length() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jax.lax.fori_loop(0, pl.program_id(0), lambda _, s: s + jnp.exp(x[...]), jnp.zeros((8, 128), F32))

    found = walked(called(kernel, (32, 128)), struct(32, 128))
    assert found.work["transcendentals"] == (0 + 1 + 2 + 3) * TILE
    assert not found.unknown_loops


def test_a_condition_in_a_loop() -> None:
    def kernel(x: Any, o: Any) -> None:
        def body(i: Any, total: Any) -> Any:
            return jax.lax.cond(i % 3 == 0, lambda: total + jnp.exp(x[...]), lambda: total)

        o[...] = jax.lax.fori_loop(0, 8, body, jnp.zeros((8, 128), F32))

    found = walked(called(kernel, (32, 128)), struct(32, 128))
    assert found.work["transcendentals"] == 4 * 3 * TILE
    assert not found.unknown_conditions


def test_a_loop_that_takes_too_long_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x: Any, o: Any) -> None:
        def body(i: Any, total: Any) -> Any:
            return jax.lax.cond(i % 3 == 0, lambda: total + jnp.exp(x[...]), lambda: total)

        o[...] = jax.lax.fori_loop(0, 1000, body, jnp.zeros((8, 128), F32))

    monkeypatch.setattr(kernel_walk, "_BUDGET", 1000)
    found = walked(called(kernel, (32, 128)), struct(32, 128))
    assert found.unknown_conditions == 1
    assert "transcendentals" not in found.work or not found.work["transcendentals"]


def test_a_loop_until_a_value_of_the_grid() -> None:
    def kernel(x: Any, o: Any) -> None:
        def body(state: Any) -> Any:
            return state[0] * 2, state[1] + jnp.exp(x[...])

        o[...] = jax.lax.while_loop(lambda s: s[0] < 100, body, (1, jnp.zeros((8, 128), F32)))[1]

    found = walked(called(kernel, (32, 128)), struct(32, 128))
    assert found.work["transcendentals"] == 4 * 7 * TILE  # 1, 2, 4, ..., 64
    assert not found.unknown_loops


def test_conditions_and_loops_that_depend_on_data() -> None:
    def kernel(n: Any, x: Any, o: Any) -> None:
        o[...] = jnp.exp(x[...])

        @pl.when(n[0] > 0)
        def _() -> None:
            o[...] = jnp.exp(x[...]) + 1

        o[...] = jax.lax.fori_loop(0, n[0], lambda _, s: s + jnp.exp(x[...]), o[...])

    spec = pl.BlockSpec((8, 128), lambda i, _: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[spec], out_specs=spec)
    call = pl.pallas_call(kernel, out_shape=struct(32, 128), grid_spec=grid)
    found = walked(call, struct(8, dtype=jnp.int32), struct(32, 128))
    assert found.unknown_conditions == 1
    assert found.unknown_loops
    assert found.work["transcendentals"] == 4 * TILE


def test_blocks_that_depend_on_data_have_the_fewest_copies() -> None:
    tile = pl.BlockSpec((8, 128), lambda i, j, table: (table[i], j))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(8, 4), in_specs=[tile, pl.BlockSpec((8, 128), lambda i, j, table: (table[j], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, _: (i, j)),
    )  # fmt: skip

    def kernel(_: Any, x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    call = pl.pallas_call(kernel, out_shape=struct(64, 512), grid_spec=grid)
    found = walked(call, struct(8, dtype=jnp.int32), struct(64, 512), struct(64, 512))
    assert found.unknown_blocks == {1: 32, 2: 32}
    assert found.work["copied 0"] == 32  # the table, once
    assert found.work["copied 1"] == 32 * TILE * 4  # a coordinate changes in each step
    assert found.work["copied 2"] == TILE * 4  # it may be the same block in all steps
    assert found.work["copied 3"] == 32 * TILE * 4


def test_a_dynamic_grid_counts_one_step() -> None:
    def call(n: Any, x: Any) -> Any:
        return called(lambda x_ref, o_ref: scale_into(x_ref, o_ref), (64, 128), grid=(n, 4))(x)

    found = walked(call, struct(dtype=jnp.int32), struct(64, 128))
    assert (found.steps, found.unknown_dimensions) == (4, 1)
    assert found.work["copied 0"] == TILE * 4


def scale_into(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def test_a_large_grid_counts_by_its_first_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def fun(x: Any, y: Any) -> Any:
        return matmul(x, y)

    args = struct(1024, 256), struct(256, 384)
    whole = walked(fun, *args)
    monkeypatch.setattr(kernel_walk, "_MOST_STEPS", 20)
    part = walked(fun, *args)
    assert (whole.unwalked_steps, part.unwalked_steps) == (0, 48 - 18)
    assert part.work == whole.work


def test_an_empty_grid_does_nothing() -> None:
    kernel = json.loads(read_kernel(body_of(lambda x: scale(x), struct(64, 128))))
    kernel["functions"][0]["attributes"]["iteration_bounds"] = [0]
    found = walk(kernel)
    assert (found.steps, *(amount for amount in found.work.values() if amount)) == (0,)


def test_other_bytes_are_no_kernel() -> None:
    with pytest.raises(ValueError, match="parse"):
        read_kernel(b"ML\xefRjunk")
    with pytest.raises(ValueError, match="main function"):
        walk({"functions": [], "types": []})


@pytest.mark.parametrize(
    ("element", "bits"),
    [("bf16", 16), ("f32", 32), ("i1", 1), ("f8E4M3FN", 8), ("index", 32), ("!tpu.dma_semaphore", 0)],
)
def test_bits(element: str, bits: int) -> None:
    assert element_bits(element) == bits


@pytest.mark.parametrize(
    ("name", "left", "right", "result"),
    [
        ("divsi", -7, 2, -3), ("floordivsi", -7, 2, -4), ("ceildivsi", -7, 2, -3), ("remsi", -7, 2, -1), ("remui", 7, 4, 3),
        ("shli", 3, 2, 12), ("minsi", -1, 2, -1), ("xori", 5, 1, 4), ("divsi", 1, 0, None), ("other", 1, 2, None),
    ],
)  # fmt: skip
def test_integers(name: str, left: int, right: int, result: int | None) -> None:
    found = evaluate(f"arith.{name}", [np.asarray(left), np.asarray(right)], {}, ["i32", "i32"])
    assert (None if found is None else int(found)) == result


def test_integers_that_are_partly_known() -> None:
    zero, one = np.asarray(0), np.asarray(1)
    assert evaluate("arith.andi", [zero, None], {}, ["i1", "i1"]) == 0
    assert evaluate("arith.andi", [one, None], {}, ["i1", "i1"]) is None
    assert evaluate("arith.ori", [None, one], {}, ["i1", "i1"]) == 1
    assert evaluate("arith.ori", [None, one], {}, ["i32", "i32"]) is None
    assert evaluate("arith.select", [None, one, one], {}, ["i32", "i1"]) == 1
    assert evaluate("arith.select", [None, zero, one], {}, ["i32", "i1"]) is None
    assert evaluate("arith.extsi", [one], {}, ["i32", "i1"]) == -1
    less_unsigned = evaluate("arith.cmpi", [np.asarray(-1), one], {"predicate": 6}, ["i1", "i32"])
    assert less_unsigned == 0


def test_executions_of_inner_regions() -> None:
    outer = Scope(3)
    outer.set(1, np.array([5, 6, 7]))
    loop = outer.child(weight=np.array([1, 2, 3]))
    assert loop.executions == 6
    inner = loop.child(np.array([0, 2]))
    assert inner.executions == 4
    assert inner.get(1) is not None
    assert list(inner.get(1)) == [5, 7]  # type: ignore[arg-type]
    assert inner.get(2) is None


def test_an_older_form_of_a_product() -> None:
    types = [("vector", [2, 8, 16], "bf16", ""), ("vector", [2, 16, 4], "bf16", ""), ("vector", [2, 8, 4], "f32", "")]
    maps = [
        "affine_map<(b, m, n, k) -> (b, m, k)>",
        "affine_map<(b, m, n, k) -> (b, k, n)>",
        "affine_map<(b, m, n, k) -> (b, m, n)>",
    ]
    flops = 2.0 * 2 * 8 * 16 * 4
    found = work_of("vector.contract", [0, 1, 2], [2], {"indexing_maps": maps}, types, {})
    assert found == {"flops": flops, "product bf16 0": flops}


OF_LIBTPU = """module {
  func.func @main(%i: i32, %j: i32, %x: memref<8x256xf32, #tpu.memory_space<vmem>>, %y: memref<128x256xf32, #tpu.memory_space<vmem>>,
      %o: memref<8x128xf32, #tpu.memory_space<vmem>>, %s: memref<8x128xf32, #tpu.memory_space<vmem>>)
      attributes {iteration_bounds = array<i64: 3, 4>, scratch_operands = 1 : i64, window_params = [
        {transform_indices = affine_map<(d0, d1) -> (d0, 0)>}, {transform_indices = affine_map<(d0, d1) -> (d1, 0)>},
        {transform_indices = affine_map<(d0, d1) -> (d0, d1 * 2)>}]} {
    %c0 = arith.constant 0 : index
    %a = vector.load %x[%c0, %c0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %b = vector.load %y[%c0, %c0] : memref<128x256xf32, #tpu.memory_space<vmem>>, vector<128x256xf32>
    %zero = arith.constant dense<0.000000e+00> : vector<8x128xf32>
    %p = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %zero
      {precision = #tpu.contract_precision<fp32>} : vector<8x256xf32>, vector<128x256xf32> into vector<8x128xf32>
    vector.store %p, %o[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    return
  }
}"""


def test_a_kernel_of_libtpu() -> None:
    """Its body is text, and its index maps are affine maps. An expression in a map counts by the known coordinates."""
    found = walk(json.loads(read_kernel(OF_LIBTPU.encode())))
    assert found.work["product f32 2"] == 12 * 2 * 8 * 128 * 256
    assert {number: window.copies for number, window in found.windows.items()} == {0: 3, 1: 12, 2: 3}
    assert found.windows[0].repeated == (1,)
    assert found.work["copied 1"] == 12 * 128 * 256 * 4
    assert found.unknown_blocks == {2: 12}
