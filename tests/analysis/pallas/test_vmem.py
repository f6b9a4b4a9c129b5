"""The VMEM that a kernel asks for; libtpu's own errors are the oracle."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxlib import _hlo

import inspector
from inspector.analysis.memory.tpu_errors import MemoryOverflow, explain
from inspector.analysis.pallas.vmem import VMEM, VmemAllocation, VmemBudget, padded_bytes, used_vmem, vmem_budget
from inspector.errors import CompilationError, TargetError, Unavailable
from inspector.hlo.module import Module
from inspector.stages.kernel import Kernel
from tests.absent import needs_tpu
from tests.kernels import matmul, on_cores, piped, scale, struct

MIB = 1 << 20


def kernel(fun: Any, *args: Any, **options: Any) -> Kernel:
    return inspector.lower(fun, *args, platform="tpu", **options).kernels[0]


def test_blocks_twice_and_scratch_once() -> None:
    found = vmem_budget(kernel(lambda x, y: matmul(x, y, bm=256), struct(512, 512), struct(512, 512)), "v5e")
    assert not isinstance(found, Unavailable)
    assert [(a.name, a.role, a.size_bytes, a.buffer_count) for a in found.allocations] == [
        ("x_ref", "input", 131072, 2), ("y_ref", "input", 65536, 2), ("o_ref", "output", 131072, 2),
        ("sum_ref", "scratch", 131072, 1),
    ]  # fmt: skip
    assert found.total_bytes == 2 * (131072 + 65536 + 131072) + 131072
    assert isinstance(found.fits, Unavailable)
    assert str(found) == (
        "about 768 KiB of 16 MiB VMEM (the default for v5e; v5e has 128 MiB): leaves 15.3 MiB for the compiler's own needs"
    )


def test_a_custom_limit_and_internal_scratch() -> None:
    params = {"*": {"vmem_limit_bytes": MIB, "internal_scratch_in_bytes": 2 * MIB}}
    found = vmem_budget(kernel(scale, struct(64, 128), compiler_params=params), "v6e")
    assert not isinstance(found, Unavailable)
    assert (found.limit_bytes, found.limit_source, found.fits) == (MIB, "the kernel's vmem_limit_bytes", False)
    assert found.allocations[-1].role == "internal scratch"


def test_a_limit_beyond_the_core_is_all_there_is() -> None:
    params = {"*": {"vmem_limit_bytes": 120 * MIB}}
    found = vmem_budget(kernel(lambda x: scale(x, rows=1024), struct(2048, 8192), compiler_params=params), "tpu7x")
    assert not isinstance(found, Unavailable)
    assert (found.total_bytes, found.limit_bytes) == (128 * MIB, 64 * MIB)
    assert isinstance(found.fits, Unavailable)
    assert str(found) == (
        "about 128 MiB of 64 MiB VMEM (the capacity, which is below the kernel's vmem_limit_bytes; tpu7x has 64 MiB): 64 MiB too much,"
        " unless XLA places a whole array in VMEM"
    )


def test_scoped_allocations_of_a_body_count_at_their_peak() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        def outer(one: Any) -> None:
            def small(two: Any) -> None:
                two[...] = one[...].astype(jnp.bfloat16)

            def large(three: Any) -> None:
                three[...] = one[...]

            one[...] = x_ref[...]
            pl.run_scoped(small, pltpu.VMEM((8, 128), jnp.bfloat16))
            pl.run_scoped(large, pltpu.VMEM((8, 128), jnp.float32))
            o_ref[...] = one[...]

        pl.run_scoped(outer, pltpu.VMEM((8, 128), jnp.float32))

    found = vmem_budget(kernel(lambda x: pl.pallas_call(body, out_shape=struct(8, 128))(x), struct(8, 128)), "v5e")
    assert not isinstance(found, Unavailable)
    assert [(a.name, a.role, a.total_bytes) for a in found.allocations[2:]] == [
        ("one", "scoped", 4096),
        ("three", "scoped", 4096),
    ]


def test_a_block_that_stays_and_one_that_asks_for_one_buffer_have_one() -> None:
    def fun(x: Any, y: Any) -> Any:
        return pl.pallas_call(
            lambda x, y, o: None,
            out_shape=struct(32, 128),
            grid=(4,),
            in_specs=[
                pl.BlockSpec((8, 128), lambda i: (0, 0)),
                pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)),
            ],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(x, y)

    budget = vmem_budget(kernel(fun, struct(32, 128), struct(32, 128)), "v4")
    assert not isinstance(budget, Unavailable)
    assert [a.buffer_count for a in budget.allocations] == [1, 1, 2]


def test_an_array_that_stays_where_it_is_asks_for_none() -> None:
    def fun(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o, s: None,
            out_shape=struct(8, 128),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            scratch_shapes=[pltpu.SMEM((4,), jnp.int32)],
        )(x)

    budget = vmem_budget(kernel(fun, struct(1024, 1024)), "v5p")
    assert not isinstance(budget, Unavailable)
    assert [a.total_bytes for a in budget.allocations] == [4096]


@pytest.mark.parametrize(
    ("shape", "bits", "expected"),
    [
        ((8, 128), 32, 4096),
        ((5, 100), 32, 4096),
        ((2048, 1, 128), 32, 2048 * 128 * 4),
        ((2048, 2, 128), 32, 2048 * 256 * 4),
        ((2048, 5, 128), 32, 2048 * 1024 * 4),
        ((16, 128), 16, 4096),
        ((8, 128), 16, 2048),
        ((1, 128), 16, 512),
        ((32, 128), 8, 4096),
        ((128,), 32, 512),
        ((), 32, 512),
        ((3,), 0, 0),
    ],
)
def test_padding_to_tiles(shape: tuple[int, ...], bits: int, expected: int) -> None:
    assert padded_bytes(shape, bits) == expected


def test_unknown_chips_and_other_backends() -> None:
    some = kernel(scale, struct(64, 128))
    with pytest.raises(TargetError, match=r"'v9' is unknown\. Expected one of v4, v5e, v5p, v6e, tpu7x"):
        vmem_budget(some, "v9")


def refused(fun: Any, *args: Any, chip: str = "v5e", **options: Any) -> tuple[MemoryOverflow, Kernel]:
    lowered = inspector.lower(fun, *args, platform="tpu", **options)
    with pytest.raises(CompilationError) as raised:
        lowered.compile(target=f"tpu:{chip}")
    found = explain(str(raised.value))
    assert isinstance(found, MemoryOverflow), raised.value
    return found, lowered.kernels[0]


def scratch_of(mib: int) -> Any:
    def body(x_ref: Any, o_ref: Any, scratch_ref: Any) -> None:
        o_ref[...] = x_ref[...] + scratch_ref[0:8, :]

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return lambda x: pl.pallas_call(
        body, out_shape=struct(32, 128), grid=(4,), in_specs=[spec], out_specs=spec, name="scratch",
        scratch_shapes=[pltpu.VMEM((mib * 2048, 128), jnp.float32)],
    )(x)  # fmt: skip


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize("chip", VMEM)
def test_the_limits_equal_those_of_libtpu(chip: str) -> None:
    memory = VMEM[chip]
    found, _ = refused(scratch_of(memory.capacity_bytes // MIB + 1), struct(32, 128), chip=chip)
    assert (found.limit, found.limit_bytes) == ("capacity", memory.capacity_bytes)
    if memory.default_limit_bytes < memory.capacity_bytes:
        found, _ = refused(scratch_of(memory.default_limit_bytes // MIB + 1), struct(32, 128), chip=chip)
        assert (found.limit, found.limit_bytes) == ("scoped", memory.default_limit_bytes)


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 256, 1024])
def test_the_estimate_equals_the_request_of_libtpu(rows: int) -> None:
    """A limit too small makes it say what it needs; 4 KiB are its own."""
    found, kernel = refused(
        lambda x: scale(x, rows=rows), struct(4096, 256), compiler_params={0: {"vmem_limit_bytes": 1024}}
    )
    budget = vmem_budget(kernel, "v5e")
    assert not isinstance(budget, Unavailable)
    assert found.asked_bytes == pytest.approx(budget.total_bytes, rel=0.006, abs=4096)


@needs_tpu
@pytest.mark.slow
def test_the_compiled_size_is_the_estimate_plus_compiler_internals() -> None:
    big = struct(2048, 2048, dtype="bfloat16")
    lowered = inspector.lower(
        lambda x, y: matmul(scale(x, rows=256), y, bm=512, bk=512, bn=512), big, big, platform="tpu"
    )
    module = lowered.compile(target="tpu:v5e").module()
    for one in lowered.kernels:
        used, budget = used_vmem(one, module), vmem_budget(one, "v5e")
        assert not isinstance(used, Unavailable)
        assert not isinstance(budget, Unavailable)
        # Never more than asked for and a quarter; less where XLA puts a whole array into VMEM.
        assert used <= budget.total_bytes * 1.25
        assert used > 0


def test_a_module_without_the_kernel_has_no_scratch_size() -> None:
    some = kernel(scale, struct(64, 128))
    assert isinstance(
        used_vmem(some, inspector.lower(lambda x: x + 1, struct(3)).compile(target="cpu").module()), Unavailable
    )


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize("fun", [piped, on_cores])
def test_a_pipeline_in_the_body_uses_the_memory_of_the_compiler(fun: Any) -> None:
    lowered = inspector.lower(fun, struct(256, 128), platform="tpu")
    (found,) = lowered.kernels
    budget = vmem_budget(found, "v5e")
    assert not isinstance(budget, Unavailable)
    assert used_vmem(found, lowered.compile(target="tpu:v5e").module()) == budget.total_bytes == 4 * 64 * 128 * 4


@pytest.mark.parametrize(
    ("used", "refused", "said", "remark"),
    [
        (Unavailable("not compiled"), 0, "about 3 KiB", "An estimate: 1 KiB of scratch and 2 KiB of blocks"),
        (Unavailable("not compiled"), 9 << 10, "at least 9 KiB", "The compiler rejected it at 9 KiB"),
        (Unavailable("not compiled"), 2 << 10, "about 3 KiB", "The compiler rejected it at 2 KiB"),
        (4 << 10, 0, "4 KiB", "The compiler's figure, including 1 KiB for its own needs."),
    ],
)
def test_a_budget_names_the_source_of_its_limit(used: Any, refused: int, said: str, remark: str) -> None:
    allocations = (
        VmemAllocation("x", "input", (8, 32), "float32", 1024, 1024, 2),
        VmemAllocation("s", "scratch", (8, 32), "float32", 1024, 1024, 1),
    )
    budget = VmemBudget(allocations, 8 << 10, "a test", 16 << 10, "v5e", used, refused)
    assert str(budget).startswith(f"{said} of 8 KiB VMEM (a test; v5e has 16 KiB)")
    assert budget.remark.startswith(remark)
    if isinstance(used, Unavailable) and not refused:
        assert isinstance(budget.fits, Unavailable)
        assert budget.verdict == "leaves 5 KiB for the compiler's own needs"
    else:
        assert budget.fits is (refused == 0)
        assert budget.verdict.startswith("does not fit" if refused else "fits")


def compiled(calls: str) -> Module:
    """A module as libtpu gives it back, by hand: layouts, and what each call noted."""
    text = f"""HloModule m

ENTRY e {{
  x = f32[64,128]{{1,0:T(8,128)S(1)}} parameter(0)
  y = f32[64,128]{{1,0:T(8,128)}} parameter(1)
  {calls}
}}
"""
    return Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def call(name: str, argument: str, op_name: str, *sizes: int, shape: str = "f32[64,128]{1,0:T(8,128)}") -> str:
    noted = ",".join(f'{{"memory_space":"1","offset":"0","size":"{size}"}}' for size in sizes)
    return (
        f'{name} = {shape} custom-call({argument}), custom_call_target="tpu_custom_call", metadata={{op_name="{op_name}"}},'
        f' backend_config={{"used_scoped_memory_configs":[{noted}]}}'
    )


@pytest.fixture(scope="module")
def some() -> Kernel:
    return kernel(scale, struct(64, 128))


def budget(some: Kernel, module: Module) -> VmemBudget:
    found = vmem_budget(some, "v5e", module)
    assert not isinstance(found, Unavailable)
    return found


def test_an_array_that_xla_put_into_vmem_needs_no_blocks(some: Kernel) -> None:
    (origin,) = some.origins
    block = 8 * 128 * 4
    for argument, counts, said in (
        ("x", [0, 2], "The compiler's figure, including 4 KiB for its own needs. XLA placed all of x_ref in VMEM, so no blocks of it are fetched."),
        ("y", [2, 2], "The compiler's figure."),
    ):  # fmt: skip
        found = budget(some, compiled(f"ROOT {call('scale.1', argument, origin.op_name, 8192, 4096)}"))
        assert [a.buffer_count for a in found.allocations] == counts
        assert found.used_bytes == found.total_bytes == 12288
        assert found.counted_bytes == sum(counts) * block
        assert found.remark == said
        assert found.certainty == "compiler"


def test_a_result_may_lie_in_vmem_too(some: Kernel) -> None:
    (origin,) = some.origins
    placed = call("scale.1", "y", origin.op_name, 0, shape="f32[64,128]{1,0:T(8,128)S(1)}")
    found = budget(some, compiled(f"ROOT {placed}"))
    assert [(a.name, a.buffer_count) for a in found.allocations] == [("x_ref", 2), ("o_ref", 0)]
    assert found.remark == (
        "The compiler's figure: the kernel needs no VMEM beyond its arrays. XLA placed all of o_ref in VMEM, so"
        " no blocks of it are fetched."
    )


def test_the_largest_of_several_calls_counts(some: Kernel) -> None:
    (origin,) = some.origins
    scope, _, name = origin.op_name.rpartition("/")
    module = compiled("\n  ".join([
        call("a", "y", origin.op_name, 4096), call("b", "a", f"{scope}/closed_call/{name}", 8192), f"ROOT {call('c', 'b', 'jit(g)/other', 65536)}",
    ]))  # fmt: skip
    assert used_vmem(some, module) == 8192


def test_a_call_without_the_kernels_name_is_known_by_the_instructions(some: Kernel) -> None:
    module = compiled(
        f"{call('scale.7', 'y', 'jit(f)/renamed', 4096)}\n  ROOT {call('other.7', 'y', 'jit(f)/other', 8192)}"
    )
    assert used_vmem(some, module) == 4096
    assert isinstance(used_vmem(some, compiled(f"ROOT {call('other.7', 'y', 'jit(f)/other', 8192)}")), Unavailable)


def test_calls_without_a_recorded_size_are_unknown(some: Kernel) -> None:
    (origin,) = some.origins
    silent = call("a", "y", origin.op_name).replace('{"used_scoped_memory_configs":[]}', "{}")
    assert isinstance(used_vmem(some, compiled(f"ROOT {silent}")), Unavailable)
    assert used_vmem(some, compiled(f"{silent}\n  ROOT {call('b', 'a', origin.op_name, 4096)}")) == 4096
