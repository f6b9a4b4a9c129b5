"""Additional work of a CPU's kernels by hand, with round rates."""

from __future__ import annotations

import dataclasses

import pytest

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.kernel_time import KernelTime, KernelTimes
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.platforms import CacheLevel, Peak, Rate
from tests.modules import module_of

NONE = Unavailable("none")
CPU = Peak(
    "cpu", {"f32": 1000.0}, 10.0, NONE, NONE, NONE, "measured", vector=Rate(500.0, "vector"), vmem=NONE,
    caches=(CacheLevel(1 << 40, 100.0, 20.0),), strided=Rate(2.0, "strided"), chained=Rate(4.0, "chained"),
    runs=Rate(8.0, "runs"), transcendental=Rate(5.0, "functions"),
)  # fmt: skip
CHIP = dataclasses.replace(CPU, strided=NONE)
NOTHING = InstructionCost(0.0, 0.0, 0.0, 0.0)

PRODUCTS = """HloModule m, is_scheduled=true
fused { a = f32[8,4]{1,0} parameter(0)
  b = f32[6,4]{1,0} parameter(1)
  ROOT d = f32[8,6]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }
ENTRY e { x = f32[8,4]{1,0} parameter(0)
  y = f32[4,6]{1,0} parameter(1)
  z = f32[6,4]{1,0} parameter(2)
  w = f32[4,8]{1,0} parameter(3)
  plain = f32[8,6]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rhs = f32[8,6]{1,0} dot(x, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  lhs = f32[8,6]{1,0} dot(w, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  both = f32[8,6]{1,0} dot(w, z), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT ynn = f32[8,6]{1,0} fusion(x, z), kind=kCustom, calls=fused }
"""

CONVOLUTIONS = """HloModule m, is_scheduled=true
fused { a = f32[2,5,5,3]{3,2,1,0} parameter(0)
  b = f32[3,3,3,7]{3,2,1,0} parameter(1)
  ROOT c = f32[2,5,5,7]{3,2,1,0} convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }
ENTRY e { x = f32[2,5,5,3]{3,2,1,0} parameter(0)
  w = f32[3,3,3,7]{3,2,1,0} parameter(1)
  alone = f32[2,5,5,7]{3,2,1,0} convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT ynn = f32[2,5,5,7]{3,2,1,0} fusion(x, w), kind=kCustom, calls=fused }
"""

LOOPS = """HloModule m, is_scheduled=true
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
scalar { p = f32[6,32]{1,0} parameter(0)
  o = f32[] constant(0)
  ROOT r = f32[6]{0} reduce(p, o), dimensions={1}, to_apply=sum }
library { p2 = f32[6,32]{1,0} parameter(0)
  o2 = f32[] constant(0)
  ROOT r2 = f32[6]{0} reduce(p2, o2), dimensions={1}, to_apply=sum }
most { a4 = f32[] parameter(0)
  b4 = f32[] parameter(1)
  ROOT larger = f32[] maximum(a4, b4) }
library_columns { p5 = f32[6,32]{1,0} parameter(0)
  o5 = f32[] constant(0)
  ROOT r5 = f32[32]{0} reduce(p5, o5), dimensions={0}, to_apply=sum }
library_most { p6 = f32[6,32]{1,0} parameter(0)
  o6 = f32[] constant(0)
  ROOT r6 = f32[6]{0} reduce(p6, o6), dimensions={1}, to_apply=most }
turned { p3 = f32[6,32]{1,0} parameter(0)
  q3 = f32[32]{0} parameter(1)
  b3 = f32[6,32]{1,0} broadcast(q3), dimensions={1}
  a3 = f32[6,32]{1,0} add(p3, b3)
  ROOT t3 = f32[32,6]{1,0} transpose(a3), dimensions={1,0} }
rooted { p4 = c64[10]{0} parameter(0)
  ROOT m4 = f32[10]{0} abs(p4) }
ENTRY e { x = f32[6,32]{1,0} parameter(0)
  y = f32[32,6]{1,0} parameter(1)
  v = f32[32]{0} parameter(2)
  c = c64[10]{0} parameter(3)
  zero = f32[] constant(0)
  rows = f32[6]{0} fusion(x), kind=kLoop, calls=scalar
  ynn = f32[6]{0} fusion(x), kind=kCustom, calls=library
  ynn_columns = f32[32]{0} fusion(x), kind=kCustom, calls=library_columns
  ynn_most = f32[6]{0} fusion(x), kind=kCustom, calls=library_most
  columns = f32[32]{0} reduce(x, zero), dimensions={0}, to_apply=sum
  short = f32[32]{0} reduce(y, zero), dimensions={1}, to_apply=sum
  turn = f32[32,6]{1,0} fusion(x, v), kind=kLoop, calls=turned
  size = f32[10]{0} fusion(c), kind=kLoop, calls=rooted
  i = s32[9,1]{1,0} parameter(4)
  u = f32[9,32]{1,0} parameter(5)
  taken = f32[9,32]{1,0} gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}
  ROOT put = f32[6,32]{1,0} scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum }
"""


def time_of(text: str, name: str, cost: InstructionCost = NOTHING, peak: Peak = CPU) -> KernelTime:
    module = module_of(text)
    costs = {i.name: cost for i in module.instructions()}
    return KernelTimes(module, products(module), costs, peak).of(module.instruction(name))


@pytest.mark.parametrize(("name", "packed"), [("plain", 0), ("rhs", 96), ("lhs", 128), ("both", 96 + 128), ("ynn", 0)])
def test_eigen_packs_transposed_operands_with_a_stride(name: str, packed: int) -> None:
    cost = InstructionCost(384.0, 0.0, 0.0, 0.0)
    assert time_of(PRODUCTS, name, cost).units["matrix unit"] == 0.384 + 2 * packed / 20
    assert time_of(PRODUCTS, name, cost, CHIP).units["matrix unit"] == 0.384


@pytest.mark.parametrize(("name", "runs"), [("alone", 2 * 5 * 5 * 3 * 3), ("ynn", 0)])
def test_convolutions_include_padding_and_the_runs_of_eigens_patches(name: str, runs: int) -> None:
    whole = 2 * (2 * 5 * 5 * 7) * (3 * 3 * 3)
    cost = InstructionCost(whole - 1000.0, 0.0, 0.0, 0.0)
    assert time_of(CONVOLUTIONS, name, cost).units["matrix unit"] == whole / 1000 + runs / (4 * 8)
    assert time_of(CONVOLUTIONS, name, cost, CHIP).units["matrix unit"] == (whole - 1000) / 1000


@pytest.mark.parametrize(("name", "runs"), [("ynn", 6), ("ynn_columns", 0), ("ynn_most", 0), ("rows", 0), ("short", 0)])
def test_each_row_of_a_librarys_sum_takes_as_long_as_a_run(name: str, runs: int) -> None:
    assert time_of(LOOPS, name).units["cache"] == runs / 8
    assert time_of(LOOPS, name, peak=CHIP).seconds == 0


@pytest.mark.parametrize(("name", "chained"), [("rows", 6 * 32), ("ynn", 0), ("columns", 0), ("short", 0)])
def test_loops_reduce_a_long_innermost_dimension_step_by_step(name: str, chained: int) -> None:
    time = time_of(LOOPS, name)
    assert time.units.get("chained operations", 0.0) == chained / 4
    if chained:
        assert time.seconds == chained / 4
        assert (time.unit, time.source) == ("chained operations", "chained")
        assert time_of(LOOPS, name, peak=CHIP).seconds == 0


def test_everything_that_a_transposing_loop_reads_has_a_stride() -> None:
    x, v = 4 * 6 * 32, 4 * 32
    cost = InstructionCost(0.0, 0.0, 5000.0, 5000.0)
    assert time_of(LOOPS, "turn", cost).seconds == (5000 - 2 * (x + v)) / 100 + 2 * (x + v) / 20
    assert time_of(LOOPS, "turn", cost, CHIP).seconds == 50


@pytest.mark.parametrize(("cache_bytes", "per_s"), [(6 * 64, 25.0), (6 * 64 - 1, 20.0)])
def test_transposed_reads_are_as_fast_as_the_cache_that_holds_the_lines_until_their_next_read(
    cache_bytes: int, per_s: float
) -> None:
    caches = (CacheLevel(cache_bytes, 200.0, 25.0), *CPU.caches)
    strided = 2 * 4 * (6 * 32 + 32)
    time = time_of(LOOPS, "turn", InstructionCost(0.0, 0.0, 5000.0, 5000.0), dataclasses.replace(CPU, caches=caches))
    assert time.seconds == (5000 - strided) / 100 + strided / per_s


@pytest.mark.parametrize(
    ("opcode", "exponentials"), [("exponential", 10), ("tanh", 10), ("cosine", 140), ("rsqrt", 20)]
)
def test_functions_take_different_times(opcode: str, exponentials: int) -> None:
    text = f"""HloModule m
    ENTRY e {{ x = f32[10]{{0}} parameter(0)
      ROOT f = f32[10]{{0}} {opcode}(x) }}
    """
    cost = InstructionCost(0.0, 10.0, 0.0, 0.0)
    assert time_of(text, "f", cost).units["transcendental unit"] == exponentials / 5
    assert time_of(text, "f", cost, CHIP).units["transcendental unit"] == 2


def test_absolute_values_of_complex_numbers_take_square_roots() -> None:
    time = time_of(LOOPS, "size", InstructionCost(0.0, 5.0, 0.0, 0.0))
    assert (time.unit, time.seconds) == ("transcendental unit", 15 / 5)
    assert time_of(LOOPS, "size", InstructionCost(0.0, 5.0, 0.0, 0.0), CHIP).seconds == 1


@pytest.mark.parametrize("name", ["taken", "put"])
def test_each_index_takes_the_time_of_a_run(name: str) -> None:
    cost = InstructionCost(0.0, 0.0, 100.0, 100.0)
    assert time_of(LOOPS, name, cost).seconds == 1 + 9 / 8
    assert time_of(LOOPS, name, cost, CHIP).seconds == 1
