"""Products of compiles for TPUs and GPUs that are not attached."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import inspector
from inspector.compilation.records.assembly import PROGRAM, Assembly
from inspector.compilation.records.passes import Passes
from inspector.compilation.request import PRODUCTS
from inspector.errors import OptionError, Unavailable
from inspector.hlo.module import Instruction
from inspector.stages.compiled import Compiled
from inspector.stages.passes import CompilerPasses
from tests.engines.test_absent import needs_gpu, needs_tpu
from tests.engines.test_products import temporary

TPU, GPU = "tpu:v5e:2x2", "gpu:h100:1"
F32 = jax.ShapeDtypeStruct((128, 128), jnp.float32)
on_both = pytest.mark.parametrize("target", [pytest.param(TPU, marks=needs_tpu), pytest.param(GPU, marks=needs_gpu)])


def step(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.tanh(x @ x)).sum(0)


@functools.cache
def compiled(target: str) -> Compiled:
    lowered = inspector.lower(step, F32, platform=inspector.Target.parse(target).platform)
    return lowered.compile(target=target, products=PRODUCTS)


def passes(target: str) -> Passes:
    found = compiled(target).passes
    assert not isinstance(found, Unavailable)
    return found


def assembly(target: str) -> Assembly:
    found = compiled(target).assembly
    assert not isinstance(found, Unavailable)
    return found


@on_both
def test_passes_lead_from_the_first_hlo_to_the_last(target: str) -> None:
    found = passes(target)
    assert len(found) > 200
    assert len(found.changed) > 10
    assert sum(not isinstance(p.duration_s, Unavailable) for p in found) > 200
    assert found[0].before.startswith("HloModule jit_step")
    names = {i.name for i in compiled(target).module().entry.instructions if i.opcode == "fusion"}
    assert names
    assert all(f"%{name} = " in found[-1].after for name in names)
    assert names <= {i.name for i in CompilerPasses.of(found).module(len(found) - 1).entry.instructions}
    assert not any(f"%{name} = " in found[0].before for name in names)
    fused = [p.name for p in found.changed if "fusion" in p.name]
    assert fused
    told, whole = found.table()["duration_s"].sum(), compiled(target).timings["compile_s"]
    assert 0.9 * whole < told < 1.5 * whole  # a busy machine stops clocks that run beside each other apart
    assert [phase.name.partition(":")[0] for phase in found.phases][-1] == "code generation"


@needs_tpu
def test_passes_continue_after_complex_numbers_are_decomposed() -> None:
    def spectrum(x: jax.Array) -> jax.Array:
        return jnp.fft.irfft(jnp.fft.rfft(x) * 2) + 1

    found = inspector.lower(spectrum, F32, platform="tpu").compile(target=TPU, products=("passes",))
    assert not isinstance(found.passes, Unavailable)
    first, last = found.passes[0].before, found.passes[-1].after
    assert " fft(" in first
    assert " fft(" not in last
    assert {"fft_expander", "xprecision-rewriter", "tpu_fusion"} <= {step.name for step in found.passes.steps}
    assert sum(not isinstance(p.duration_s, Unavailable) for p in found.passes) > 200
    fusion = next(i for i in found.module().entry.instructions if i.opcode == "fusion")
    assert found.passes.follow(fusion.name).last == (fusion.name,)
    # The last text is libtpu's own, in which elements of a tuple have no instruction.
    both = found.module(), found.passes.module(found.passes[-1])
    names, last_names = (
        {i.name for i in module.entry.instructions if i.opcode != "get-tuple-element"} for module in both
    )
    assert names == last_names
    for name in names:  # copies between memories among them, which libtpu makes after the last pass that it records
        assert name in found.passes.follow(name).last


@on_both
def test_every_kernel_of_the_hlo_has_its_code(target: str) -> None:
    found = assembly(target)
    fusions = [i.name for i in compiled(target).module().entry.instructions if i.opcode == "fusion"]
    assert all(found.of(name) for name in fusions)
    assert found.stages[0] == {TPU: "LLO", GPU: "thunks"}[target]
    for code in found:
        assert isinstance(code.text, str), (code.stage, code.kernel, code.text)


@needs_gpu
def test_gpu_code_down_to_machine_code() -> None:
    found = assembly(GPU)
    assert [s for s in found.stages if s != "thunks, optimized"] == [
        "thunks",
        "LLVM IR",
        "LLVM IR, optimized",
        "PTX",
        "SASS",
    ]
    thunks = found.code("thunks", PROGRAM).text
    for kernel in {code.kernel for code in found if code.stage == "SASS"}:
        assert kernel in str(thunks)
        assert f".entry {kernel}(" in str(found.code("PTX", kernel).text)
        assert f"@{kernel}(" in str(found.code("LLVM IR", kernel).text)
        sass = str(found.code("SASS", kernel).text)
        assert "EXIT ;" in sass
        assert sass.count(".section\t") == 1


@needs_gpu
def test_code_without_a_kernel_has_the_same_name_at_every_stage() -> None:
    table = (
        np.random.default_rng(0).normal(size=64).astype(np.float32)
    )  # a constant that is too large for a kernel's own code
    lowered = inspector.lower(
        lambda i: jnp.asarray(table)[i] * 2, jax.ShapeDtypeStruct((8,), jnp.int32), platform="gpu"
    )
    found = lowered.compile(target=GPU, products=("assembly",)).assembly
    assert not isinstance(found, Unavailable)
    assert {c.kernel for c in found if not c.symbols and c.language in ("llvm", "ptx")} == {"constants"}
    assert ".global" in str(found.code("PTX", "constants").text)


@needs_tpu
def test_tpu_code_down_to_bundles() -> None:
    found = assembly(TPU)
    assert {"LLO", "VLIW bundles", "schedule"} <= set(found.stages)
    assert found.code("VLIW bundles", PROGRAM)
    assert any("MXU" in str(code.text) for code in found)


@needs_tpu
def test_stages_of_a_pallas_kernel() -> None:
    def double(x_ref: jax.Ref, o_ref: jax.Ref) -> None:
        o_ref[...] = x_ref[...] * 2

    call = pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32), name="doubling")
    for _ in range(2):  # the second in the same worker
        found = inspector.lower(call, F32, platform="tpu").compile(target=TPU, products=("assembly",)).assembly
        assert not isinstance(found, Unavailable)
        mosaic = [code for code in found if code.stage.startswith("Mosaic")]
        assert len(mosaic) > 10
        (kernel,) = {code.kernel for code in mosaic}
        assert kernel.startswith("doubling.")
        assert found.code("LLO", kernel).language == "llo"
        assert "func.func" in str(found.code("Mosaic", kernel).text)
        assert [code.stage for code in mosaic].index("Mosaic lower-to-llo") > 5
        assert found.stages.index("LLO") > found.stages.index("Mosaic lower-to-llo")


@needs_tpu
def test_stages_of_several_pallas_kernels_of_one_name() -> None:
    def scaled(x: jax.Array, by: int) -> jax.Array:
        def scale(x_ref: jax.Ref, o_ref: jax.Ref) -> None:
            o_ref[...] = x_ref[...] * by

        return pl.pallas_call(scale, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), name="scaling")(x)

    lowered = inspector.lower(lambda x: scaled(scaled(scaled(x, 3), 5), 7), F32, platform="tpu")
    compiled = lowered.compile(target=TPU, products=("assembly",))
    found = compiled.assembly
    assert not isinstance(found, Unavailable)
    calls = [i for i in compiled.module().instructions() if i.custom_call_target == "tpu_custom_call"]
    mosaic = {code.kernel: str(code.text) for code in found if code.stage == "Mosaic"}
    assert len(mosaic) == 3
    factors = [next(by for by in ("3", "5", "7") if f" {by}.000000e+00" in text) for text in mosaic.values()]
    assert sorted(factors) == ["3", "5", "7"]
    if not any("#" in kernel for kernel in mosaic):  # libtpu compiles kernels side by side where there are cores for it
        assert set(mosaic) == {call.name for call in calls}
        in_order = sorted(calls, key=lambda call: len(_before(call)))
        assert all(f" {by}.000000e+00" in mosaic[call.name] for by, call in zip("357", in_order, strict=True))


def _before(call: Instruction) -> set[str]:
    """The kernel calls that a call needs the results of."""
    found = {name for operand in call.operands for name in _before(operand)}
    return found | ({call.name} if call.custom_call_target == "tpu_custom_call" else set())


@needs_tpu
def test_a_dump_of_the_users_own_is_refused_beside_it() -> None:
    lowered = inspector.lower(step, F32, platform="tpu")
    with pytest.raises(OptionError, match=r"products=\('assembly',\).* xla_jf_dump_to redirects them"):
        lowered.compile({"xla_jf_dump_to": "/nowhere"}, target=TPU, products=("assembly",))


@on_both
def test_buffers_are_recorded_with_heap_traces(target: str) -> None:
    from inspector._jax.compiling.final_hlo import split_hlo_proto
    from inspector.toolchain.schema import installed_schema

    found = compiled(target).buffers
    assert not isinstance(found, Unavailable)
    message = installed_schema().message("xla.BufferAssignmentProto")
    assignment = message.FromString(split_hlo_proto(found.hlo_proto)[1])
    assert assignment.buffer_allocations  # type: ignore[attr-defined]
    assert assignment.heap_simulator_traces  # type: ignore[attr-defined]


@on_both
def test_nothing_is_left_behind(target: str) -> None:
    assert compiled(target)
    assert temporary() == set()
