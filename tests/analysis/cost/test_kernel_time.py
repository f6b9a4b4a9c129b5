"""The time of a kernel by hand: the longest of its times on units with round rates."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import inspector
from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.cost.kernel_time import KernelTime, KernelTimes
from inspector.analysis.cost.roofline import roofline, schedule
from inspector.compilation.cost import InstructionCost
from inspector.errors import About, AtLeast, Missing, Unavailable
from inspector.hlo.module import Module
from inspector.platforms import CacheLevel, Peak, Rate
from inspector.stages.compiled import Compiled, instruction_costs
from tests.absent import needs_tpu
from tests.modules import changed, module_of, proto_of

NONE = Unavailable("none")
ROOFS = Peak(
    "toy", {"f32": 1000.0}, 10.0, NONE, NONE, NONE, "matrix", vector=Rate(100.0, "vector"),
    transcendental=Rate(10.0, "functions"), vmem=Rate(50.0, "registers"), clock=Rate(20.0, "clock"),
)  # fmt: skip
TEXT = """HloModule m, is_scheduled=true
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4,4]{1,0} parameter(0)
  zero = f32[] constant(0)
  windows = f32[4,4]{1,0} reduce-window(x, zero), window={size=1x4 pad=0_0x3_0}, to_apply=sum
  tanh = f32[4,4]{1,0} tanh(windows)
  again = f32[4,4]{1,0} tanh(tanh)
  other = f32[4,4]{1,0} dot(x, again), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT dot = f32[4,4]{1,0} dot(again, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""


def with_cycles(cycles: int, name: str = "tanh") -> Module:
    """Returns the module with the compiler's estimate for one instruction."""
    proto = proto_of(module_of(TEXT))
    (instruction,) = (i for c in proto.computations for i in c.instructions if i.name == name)
    instruction.backend_config = b'{"window_config":{"estimated_cycles":"%d"}}' % cycles
    return changed(proto)


def time_of(
    module: Module, cost: InstructionCost, name: str = "tanh", peak: Peak = ROOFS, **others: InstructionCost
) -> KernelTime:
    costs = {name: cost, **others}
    return KernelTimes(module, products(module), costs, peak).of(module.instruction(name))


@pytest.mark.parametrize(
    ("cost", "unit", "seconds", "source"),
    [
        (InstructionCost(900.0, 20.0, 100.0, 40.0), "vector unit", 9.0, "vector"),
        (InstructionCost(100.0, 30.0, 100.0, 20.0), "transcendental unit", 3.0, "functions"),
        (InstructionCost(100.0, 10.0, 100.0, 40.0), "main memory", 4.0, "matrix"),
        (InstructionCost(100.0, 10.0, 300.0, 40.0), "VMEM", 6.0, "registers"),
    ],
)
def test_the_slowest_unit_gives_the_time(cost: InstructionCost, unit: str, seconds: float, source: str) -> None:
    time = time_of(module_of(TEXT), cost)
    assert (time.unit, time.seconds, time.source) == (unit, seconds, source)
    assert time.units == {
        "vector unit": cost.flops / 100, "transcendental unit": cost.transcendentals / 10,
        "main memory": cost.main_memory_bytes / 10, "VMEM": cost.bytes_accessed / 50,
    }  # fmt: skip


def test_products_take_the_peak_of_their_arithmetic() -> None:
    time = time_of(module_of(TEXT), InstructionCost(12000.0, 0.0, 10.0, 10.0), "dot")
    assert (time.unit, time.seconds, time.algorithm) == ("matrix unit", 12.0, "f32")


def test_the_compilers_cycles_count_if_they_are_longer() -> None:
    by_memory, by_vector = InstructionCost(100.0, 0.0, 10.0, 20.0), InstructionCost(300.0, 0.0, 10.0, 20.0)
    time = time_of(with_cycles(80), by_memory)
    assert (time.unit, time.seconds, time.memory_s, time.compute_s) == ("compiler's cycles", 4.0, 4.0, 1.0)
    assert time.source == "estimated_cycles of libtpu at 0.00 GHz, clock"
    time = time_of(with_cycles(80), by_vector)
    assert (time.seconds, time.memory_s, time.compute_s) == (4.0, 2.0, 4.0)
    time = time_of(with_cycles(50), by_vector)
    assert (time.unit, time.seconds, time.memory_s, time.compute_s) == ("vector unit", 3.0, 2.0, 3.0)
    without = dataclasses.replace(ROOFS, clock=NONE)
    assert time_of(with_cycles(80), by_memory, peak=without).unit == "main memory"


def test_cycles_replace_the_operations_of_windows() -> None:
    cost = InstructionCost(9000.0, 0.0, 10.0, 20.0)
    assert time_of(module_of(TEXT), cost, "windows").seconds == 90.0
    time = time_of(with_cycles(80, "windows"), cost, "windows")
    assert (time.unit, time.seconds) == ("compiler's cycles", 4.0)


def test_a_cpu_serves_small_kernels_from_a_cache() -> None:
    peak = dataclasses.replace(ROOFS, caches=(CacheLevel(32, 64.0), CacheLevel(128, 16.0)), vmem=NONE)
    for moved, unit, seconds in ((32.0, "cache", 0.5), (33.0, "cache", 33 / 16), (129.0, "main memory", 12.9)):
        time = time_of(module_of(TEXT), InstructionCost(0.0, 0.0, moved, moved), peak=peak)
        assert (time.unit, time.seconds) == (unit, seconds)


def test_fourier_transforms_of_a_cpu_have_a_rate_of_their_own() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e { x = c64[8]{0} parameter(0)
  ROOT fft = c64[8]{0} fft(x), fft_type=FFT, fft_length={8} }
"""
    cost, measured = InstructionCost(120.0, 0.0, 8.0, 8.0), Rate(20.0, "transforms")
    time = time_of(module_of(text), cost, "fft", dataclasses.replace(ROOFS, transforms=measured))
    assert (time.unit, time.seconds, time.source) == ("Fourier transforms", 6.0, "transforms")
    assert time_of(module_of(text), cost, "fft").unit == "vector unit"
    assert time_of(module_of(TEXT), cost, peak=dataclasses.replace(ROOFS, transforms=measured)).unit == "vector unit"


SORT = """HloModule m, is_scheduled=true
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
pairs { a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
absolute { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] abs(a)
  ROOT l = pred[] compare(c, b), direction=LT }
ENTRY e { x = f32[16,3]{1,0} parameter(0)
  k = s32[16,3]{1,0} parameter(1)
  direct = f32[16,3]{1,0} sort(x), dimensions={0}, to_apply=less
  two = (f32[16,3]{1,0}, s32[16,3]{1,0}) sort(x, k), dimensions={0}, to_apply=pairs
  ROOT called = f32[16,3]{1,0} sort(direct), dimensions={0}, to_apply=absolute }
"""


def test_sorts_of_a_cpu_take_comparisons() -> None:
    peak = dataclasses.replace(
        ROOFS, comparisons=Rate(4.0, "calls"), direct_comparisons=Rate(32.0, "numbers"), vmem=NONE
    )
    cost = InstructionCost(288.0, 0.0, 10.0, 10.0)  # XLA's count, of all elements as one row
    comparisons = 3 * 16 * 4
    for name, seconds, source in (
        ("direct", comparisons / 32, "numbers"),
        ("called", comparisons / 4, "calls"),
        ("two", 2 * comparisons / 4, "calls"),
    ):
        time = time_of(module_of(SORT), cost, name, peak)
        assert (time.unit, time.seconds, time.source) == ("comparisons", seconds, source)
    assert time_of(module_of(SORT), cost, "called").unit == "vector unit"


MOVES = """HloModule m, is_scheduled=true
ENTRY e { x = f32[4,8,1]{2,1,0} parameter(0)
  transposed = f32[8,4,1]{2,1,0} transpose(x), dimensions={1,0,2}
  bitcast = f32[8,4,1]{0,1,2} transpose(x), dimensions={1,0,2}
  outer = f32[8,4,1]{0,2,1} transpose(x), dimensions={1,0,2}
  plain = f32[4,8,1]{2,1,0} copy(x)
  ROOT changed = f32[4,8,1]{0,1,2} copy(x) }
"""


def test_copies_that_change_the_innermost_dimension_have_the_strided_rate() -> None:
    caches = (CacheLevel(256, 64.0, 8.0),)
    near = dataclasses.replace(ROOFS, caches=caches, vmem=NONE, strided=Rate(2.0, "transposing"))
    far = dataclasses.replace(near, caches=())
    size = 4 * 8 * 4
    cost = InstructionCost(0.0, 0.0, 2.0 * size, 2.0 * size)
    for name, is_strided in {
        "transposed": True,
        "bitcast": False,
        "outer": False,
        "plain": False,
        "changed": True,
    }.items():
        assert time_of(module_of(MOVES), cost, name, near).seconds == 2 * size / (8 if is_strided else 64)
        assert time_of(module_of(MOVES), cost, name, far).seconds == 2 * size / (2 if is_strided else 10)
        assert time_of(module_of(MOVES), cost, name, dataclasses.replace(far, strided=NONE)).seconds == 2 * size / 10


def test_only_the_bytes_of_the_transposed_array_are_strided() -> None:
    peak = dataclasses.replace(ROOFS, vmem=NONE, strided=Rate(2.0, "transposing"))
    cost = InstructionCost(0.0, 0.0, 1000.0, 1000.0)
    assert time_of(module_of(MOVES), cost, "changed", peak).seconds == 256 / 2 + 744 / 10


def test_copies_to_the_host_take_the_time_of_pcie() -> None:
    cost = InstructionCost(0.0, 0.0, 20.0, 10.0, host_bytes=10.0)
    time = time_of(module_of(TEXT), cost, peak=dataclasses.replace(ROOFS, host=Rate(2.0, "slot")))
    assert (time.unit, time.seconds, time.source, time.memory_s) == ("PCIe", 5.0, "slot", 5.0)
    unknown = time_of(module_of(TEXT), cost)
    assert isinstance(unknown.seconds, About)
    assert float(unknown.seconds) == 1.0
    assert [part.name for part in unknown.seconds.missing] == ["tanh"]


@needs_tpu
def test_offloading_takes_longer_than_the_main_memory() -> None:
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,))

    def offloaded(x: Any) -> Any:
        return jax.device_put(jnp.sin(jax.device_put(x, jax.memory.Space.Device)), jax.memory.Space.Host)

    there = NamedSharding(mesh, PartitionSpec(), memory_kind="pinned_host")
    x = jax.ShapeDtypeStruct((4096, 4096), jnp.float32, sharding=there)
    found = inspector.lower(offloaded, x, target="tpu:v5e:1x1").compile(target="tpu:v5e:1x1")
    roof = found.roofline()
    copies = [point for point in roof.points if point.limited_by == "PCIe"]
    assert [point.least_s for point in copies] == [pytest.approx((64 << 20) / 15e9)] * 2
    assert float(roof.total.least_s) > 2 * (64 << 20) / 15e9  # type: ignore[arg-type]
    shown = found.schedule()
    assert not isinstance(shown, Unavailable)
    assert shown.seconds == pytest.approx(roof.total.least_s)


def test_unknown_parts_are_named_for_each_kernel() -> None:
    module = module_of(TEXT)
    unknown = InstructionCost(NONE, NONE, NONE, NONE)
    assert time_of(module, unknown).seconds == NONE
    assert time_of(module, unknown).unit == "none"
    parts = {name: AtLeast(100.0, [Missing(name, "call")]) for name in ("tanh", "again")}
    costs = {name: InstructionCost(part, 0.0, 0.0, 0.0) for name, part in parts.items()}
    times = KernelTimes(module, products(module), costs, ROOFS)
    for name, part in parts.items():
        time = times.of(module.instruction(name))
        assert isinstance(time.seconds, About)
        assert time.seconds.missing == part.missing


def test_equal_costs_of_different_kernels_are_told_apart() -> None:
    module = module_of(TEXT)
    cost = InstructionCost(1000.0, 0.0, 0.0, 0.0)
    costs = dict.fromkeys(("tanh", "dot", "other"), cost)
    times = KernelTimes(module, products(module), costs, ROOFS)
    assert [times.of(module.instruction(name)).unit for name in costs] == ["vector unit", "matrix unit", "matrix unit"]
    times = KernelTimes(module, products(module), costs, dataclasses.replace(ROOFS, flops_per_s={"s8": 1000.0}))
    for name in ("dot", "other"):
        seconds = times.of(module.instruction(name)).seconds
        assert isinstance(seconds, About)
        assert [part.name for part in seconds.missing] == [name]


def test_without_rates_other_operations_run_at_the_highest_peak() -> None:
    peak = Peak("toy", {"f32": 1000.0, "bf16": 4000.0}, 10.0, NONE, NONE, NONE, "matrix")
    time = time_of(module_of(TEXT), InstructionCost(8000.0, 100.0, 10.0, 10.0), peak=peak)
    assert (time.unit, time.seconds, time.units) == ("vector unit", 2.0, {"vector unit": 2.0, "main memory": 1.0})
    assert time.source == "matrix"


def compiled_softmax() -> Compiled:
    def attention(q: Any, k: Any) -> Any:
        return jax.nn.softmax((q @ k).astype(jnp.float32))

    x = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    return inspector.lower(attention, x, x).compile(target="tpu:v5e:1x1")


@needs_tpu
def test_a_softmax_takes_longer_than_its_product_on_a_tpu() -> None:
    compiled = compiled_softmax()
    roof = compiled.roofline()
    product = next(p for p in roof.points if p.algorithm)
    others = [p for p in roof.points if not p.algorithm and p.opcode != "copy-start"]
    assert sum(float(p.least_s) for p in others) > 0.5 * float(product.least_s)
    assert {p.limited_by for p in others} == {"compiler's cycles"}
    assert all("GHz" in p.limit_source for p in others)


@needs_tpu
def test_all_views_have_the_same_kernel_times() -> None:
    compiled = compiled_softmax()
    roof, module, costs = compiled.roofline(), compiled.module(), instruction_costs(compiled)
    assert isinstance(roof.peak, Peak)
    times = KernelTimes(module, products(module), costs, roof.peak)
    assert len(roof.points) > 2
    for point in roof.points:
        assert point.least_s == times.of(module.instruction(point.name)).seconds
    shown = schedule(module, costs, roof.peak)
    lengths = {each.name: each.end_s - each.start_s for each in shown if not each.is_wait}
    for point in roof.points:
        if point.least_s and point.name in lengths:
            assert lengths[point.name] == pytest.approx(point.least_s)
    assert roof.total.least_s == pytest.approx(shown.seconds)
    assert roof.by("opcode")["least_s"].sum() == pytest.approx(roof.spent_s)
    x = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    lowered = inspector.lower(lambda q, k: jax.nn.softmax((q @ k).astype(jnp.float32)), x, x)
    lines = lowered.line_costs(compiled)
    assert lines.total.least_s == pytest.approx(roof.spent_s)
    again = roofline(module, costs, roof.peak)
    assert [p.least_s for p in again.points] == [p.least_s for p in roof.points]
