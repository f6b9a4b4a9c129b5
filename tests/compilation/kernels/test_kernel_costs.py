"""Costs of Pallas kernels for TPUs in compiled programs: every view has the numbers of the kernel's body."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import inspector
from inspector._jax.modules.mosaic import read_kernel
from inspector.analysis.cost.dot_algorithms import product_flops, products
from inspector.analysis.cost.kernel_time import KernelTimes
from inspector.compilation.cost import InstructionCost, costs
from inspector.compilation.kernels.costs import body_of, doubts_of, kernel_counts, with_doubts
from inspector.errors import About, AtLeast, Missing, Unavailable
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.stages.compiled import Compiled, instruction_costs
from tests.absent import needs_tpu
from tests.kernels import F32, matmul, scale, struct
from tests.modules import module_of
from tests.peaks import PEAKS

TARGET = "tpu:v5e:2x2"
PEAK = PEAKS["v5e"]


def compiled(fun: Any, *args: Any) -> Compiled:
    return inspector.lower(fun, *args, platform="tpu").compile(target=TARGET)


def cost_of_call(program: Compiled) -> InstructionCost:
    (call,) = (each for each in program.module().instructions() if each.custom_call_target == "tpu_custom_call")
    return instruction_costs(program)[call.name]


def kernels_cost(fun: Any, *args: Any) -> InstructionCost:
    """The cost of the only kernel, without XLA's passes."""
    module = Module.from_proto(inspector.lower(fun, *args, platform="tpu").hlo_proto)
    parts = singles(module)
    counts = [kernel_counts(part.module, read_kernel) or {} for part in parts]
    (call,) = (each for each in module.instructions() if each.custom_call_target == "tpu_custom_call")
    return costs(module, parts, counts)[call.name]


@needs_tpu
def test_every_view_has_the_same_cost() -> None:
    program = compiled(lambda x, y: matmul(x, y), struct(512, 256), struct(256, 384))
    flops = 2.0 * 512 * 256 * 384 + 2 * 512 * 384
    moved = 2 * 24 * 128 * 128 * 4 + 512 * 384 * 4  # both operands in each of 24 steps, and the result once
    cost = cost_of_call(program)
    assert (cost.flops, cost.transcendentals) == (flops, 0.0)
    assert (cost.bytes_accessed, cost.main_memory_bytes, cost.host_bytes) == (moved, moved, 0.0)
    assert not isinstance(program.cost, Unavailable)
    assert (program.cost.flops, program.cost.bytes_accessed) == (flops, moved)
    roof = program.roofline()
    (point,) = roof.points
    assert (point.flops, point.main_memory_bytes, point.algorithm) == (flops, moved, "bf16")
    assert point.least_s == pytest.approx(moved / PEAK.memory_bytes_per_s)
    assert (roof.peak_name, point.limited_by) == ("bf16", "main memory")
    course = program.schedule()
    assert not isinstance(course, Unavailable)
    assert course.seconds == point.least_s
    lines = program.roofline().by("line")
    assert float(lines["flops"].sum()) == flops
    assert float(lines["main_memory_bytes"].sum()) == moved


@needs_tpu
def test_arrays_in_vector_memory_are_not_main_memory_traffic() -> None:
    def fun(x: Any) -> Any:
        return scale(scale(x, rows=64), rows=64)

    program = compiled(fun, struct(64, 128))
    size = 64 * 128 * 4
    moved = [each.main_memory_bytes for each in instruction_costs(program).values() if each.body is not None]
    spaces = {
        each.name: [s.layout.memory_space for s in (each.shape, *(o.shape for o in each.operands)) if s.layout]
        for each in program.module().instructions()
        if each.custom_call_target == "tpu_custom_call"
    }
    assert moved == [size * found.count(0) for found in spaces.values()]


def test_kernels_that_differ_in_their_bodies_only_have_separate_costs() -> None:
    def kernel(times: int) -> Any:
        def body(x: Any, o: Any) -> None:
            for _ in range(times):
                o[...] = jnp.exp(x[...])

        return pl.pallas_call(body, out_shape=struct(8, 128))

    module = Module.from_proto(
        inspector.lower(lambda x: (kernel(1)(x), kernel(3)(x)), struct(8, 128), platform="tpu").hlo_proto
    )
    parts = singles(module)
    counted = costs(module, parts, [kernel_counts(part.module, read_kernel) or {} for part in parts])
    assert sorted(each.transcendentals for each in counted.values() if each.body) == [1024.0, 3072.0]  # type: ignore[type-var]


def test_blocks_that_depend_on_data_are_a_lower_bound() -> None:
    def kernel(_: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(8,), in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, _: (i, 0)),
    )  # fmt: skip

    def fun(declared: pl.CostEstimate | None) -> Any:
        return pl.pallas_call(kernel, out_shape=struct(64, 128), grid_spec=grid, cost_estimate=declared)

    args = struct(8, dtype=jnp.int32), struct(64, 128)
    cost = kernels_cost(fun(None), *args)
    assert isinstance(cost.bytes_accessed, AtLeast)
    assert float(cost.bytes_accessed) == 9 * 4096 + 32  # a block at least, eight results and the table
    assert cost.bytes_accessed.reason == (
        "1 Pallas kernel counted with the fewest block copies of operand 1 (at most 8)"
    )
    assert cost.flops == 64 * 128
    assert not isinstance(cost.flops, AtLeast)
    declared = kernels_cost(fun(pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=70000)), *args)
    assert isinstance(declared.main_memory_bytes, About)
    assert float(declared.main_memory_bytes) == 70000
    assert declared.main_memory_bytes.reason == "1 Pallas kernel counted as its cost_estimate declares"
    assert declared.flops == 64 * 128


def test_dynamic_grids_and_conditions_on_data() -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def kernel(x: Any, o: Any) -> None:
        @pl.when(x[0, 0] > 0)
        def _() -> None:
            o[...] = x[...] * 2

    def fun(n: Any, x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=struct(64, 128), grid=(n,), in_specs=[spec], out_specs=spec)(x)

    cost = kernels_cost(fun, struct(dtype=jnp.int32), struct(64, 128))
    assert isinstance(cost.flops, AtLeast)
    assert "the cheaper branch of each data-dependent condition" in cost.flops.reason
    assert isinstance(cost.bytes_accessed, AtLeast)
    assert cost.bytes_accessed.reason == "1 Pallas kernel counted with one step of each dynamic grid dimension"


def test_a_body_that_cannot_be_read_counts_as_declared() -> None:
    def unreadable(_: bytes) -> str:
        raise ValueError("another version")

    module = Module.from_proto(
        inspector.lower(lambda x, y: matmul(x, y), struct(512, 256), struct(256, 384), platform="tpu").hlo_proto
    )
    parts = singles(module)
    assert [kernel_counts(part.module, unreadable) for part in parts] == [None] * len(parts)
    found = costs(module, parts, [{"flops": -1.0}] * len(parts))
    (call,) = (each for each in module.instructions() if each.custom_call_target == "tpu_custom_call")
    assert found[call.name].flops == 2 * 512 * 256 * 384
    assert found == costs(module, parts, Unavailable("no worker")) | {
        name: cost for name, cost in found.items() if name != call.name
    }
    ((algorithm, flops),) = product_flops(call, found, PEAK)
    assert flops == found[call.name].flops
    time = KernelTimes(module, products(module), found, PEAK).of(call)
    assert "vector unit" not in {unit for unit, seconds in time.units.items() if seconds}
    assert isinstance(time.compute_s, About)
    fastest = max(PEAK.flops_per_s.values())
    assert float(time.compute_s) == pytest.approx(float(flops) / fastest)  # type: ignore[arg-type]
    assert not isinstance(algorithm, Unavailable)
    assert algorithm.doubt


def test_the_times_of_the_units() -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        for precision in (None, "highest"):
            o[...] = jnp.dot(x[...], y[...], precision=precision, preferred_element_type=F32)

    module = Module.from_proto(
        inspector.lower(
            pl.pallas_call(kernel, out_shape=struct(128, 128)), *[struct(128, 128)] * 2, platform="tpu"
        ).hlo_proto
    )
    parts = singles(module)
    found = costs(module, parts, [kernel_counts(part.module, read_kernel) or {} for part in parts])
    (call,) = (each for each in module.instructions() if each.custom_call_target == "tpu_custom_call")
    body = found[call.name].body
    assert body is not None
    assert body.products == (("f32", 0, 2.0 * 128**3), ("f32", 2, 2.0 * 128**3))
    assert body.vmem_bytes == 6 * 128 * 128 * 4
    time = KernelTimes(module, products(module), found, PEAK).of(call)
    assert time.units["matrix unit"] == pytest.approx(7 * 2 * 128**3 / PEAK.flops_per_s["bf16"])
    assert time.algorithm == "bf16 + bf16 x 6"
    assert not isinstance(PEAK.vmem, Unavailable)
    assert time.units["VMEM"] == body.vmem_bytes / PEAK.vmem.per_s


def test_fused_kernels_count() -> None:
    text = """HloModule m
fused {
  a = f32[8,128]{1,0} parameter(0)
  n = f32[8,128]{1,0} negate(a)
  ROOT c = f32[8,128]{1,0} custom-call(n), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"body":"TUzv"}}
}
ENTRY e {
  a = f32[8,128]{1,0} parameter(0)
  ROOT f = f32[8,128]{1,0} fusion(a), kind=kCustom, calls=fused
}
"""
    module = module_of(text)
    parts = singles(module)
    kernel = {"flops": 50.0, "transcendentals": 7.0, "bytes accessed": 8192.0, "kernel steps": 1.0}
    counts = [{"flops": 1023.0} if b"negate" in part.module and b"fusion" in part.module else kernel for part in parts]
    found = costs(module, parts, counts)["f"]
    assert (found.flops, found.transcendentals) == (1024.0 + 50.0, 7.0)


def test_other_modules_are_not_kernels() -> None:
    assert kernel_counts(b"anything", lambda _: pytest.fail("read")) is None
    assert body_of({"flops": 1.0}) is None
    assert doubts_of("call", {"kernel unwalked steps": 4.0}).is_estimate


def test_numbers_with_doubts() -> None:
    doubts = (Missing("call", "Pallas kernel", "counted by the first part of its grid"),)
    assert isinstance(with_doubts(4.0, doubts, is_estimate=True), About)
    assert type(with_doubts(0.0, doubts, is_estimate=True)) is float  # no step has such work
    other = (Missing("call", "Pallas kernel", "counted without loops of data-dependent length"),)
    assert isinstance(with_doubts(0.0, other, is_estimate=False), AtLeast)
    assert isinstance(with_doubts(4.0, other, is_estimate=False, declared=3.0), AtLeast)
