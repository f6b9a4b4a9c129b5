"""Kernels and libraries that programs run, read from executables that XLA wrote here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import inspector
from inspector.analysis.assembly_kernels import instructions_of_kernels, library_calls, steps_of
from inspector.compilation.records.debug_lines import source_frames
from inspector.compilation.records.thunks import Step, steps
from inspector.errors import Unavailable
from tests.absent import needs_gpu

pytestmark = pytest.mark.slow

F32 = jax.ShapeDtypeStruct((128, 128), jnp.float32)


def test_libraries_and_kernels_of_a_cpu_program() -> None:
    def program(x: jax.Array, count: jax.Array) -> tuple[jax.Array, ...]:
        looped = jax.lax.fori_loop(0, count, lambda _, y: jnp.fft.fft(y).real + 1, x)
        factor = jax.lax.linalg.cholesky(x)
        return looped, factor, jnp.sort(x), x @ x

    compiled = inspector.lower(program, F32, jax.ShapeDtypeStruct((), jnp.int32)).compile(
        target="cpu", products=("assembly",)
    )
    run = steps_of(compiled)
    assert not isinstance(run, Unavailable)
    assert {"DUCC (FFT)", "lapack_spotrf_ffi"} <= {step.callee for step in run}  # the FFT is inside of the loop
    module, names = compiled.module(), {i.name for i in compiled.module().instructions()}
    assert {step.instruction for step in run if step.kernel} <= names
    (sort,) = (i for i in module.instructions() if i.opcode == "sort")
    kernels = instructions_of_kernels(compiled.assembly, module, run)
    assert any(sort.name in instructions for instructions in kernels.values())  # the kernel is its comparison
    calls = library_calls(module, run, {name for each in kernels.values() for name in each})
    (cholesky,) = (i.name for i in module.instructions() if i.opcode == "custom-call")
    assert calls[cholesky].callee == "lapack_spotrf_ffi"
    (dot,) = (i.name for i in module.instructions() if i.opcode == "dot")
    holders = [call.callee for call in calls.values() if dot in call.instructions]
    assert holders in (["YNNPACK"], ["XNNPACK"], ["Eigen (matrix multiplication)"])


@pytest.mark.parametrize("executable", [b"", b"\x05meta", b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f" * 9])
def test_other_bytes_have_no_steps(executable: bytes) -> None:
    assert isinstance(steps(executable), Unavailable)
    assert steps(Unavailable("not here")) == Unavailable("not here")


@needs_gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # JAX renames the parameters of `mosaic_gpu.kernel`
def test_a_pallas_kernel_of_a_gpu_is_found_by_its_launch_and_has_source_lines() -> None:
    from jax.experimental.pallas import mosaic_gpu

    def double(x_ref: jax.Ref, o_ref: jax.Ref) -> None:
        o_ref[...] = x_ref[...] * 2

    def program(x: jax.Array) -> jax.Array:
        block = pl.BlockSpec((128,), lambda i: (i,))
        return pl.pallas_call(
            double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4,), in_specs=[block], out_specs=block,
            compiler_params=mosaic_gpu.CompilerParams(),
        )(x)  # fmt: skip

    lowered = inspector.lower(program, jax.ShapeDtypeStruct((512,), jnp.float32), platform="gpu")
    compiled = lowered.compile(target="gpu:h100:1", products=("assembly",))
    run = steps_of(compiled)
    assert isinstance(run, tuple)
    (call,) = (i.name for i in compiled.module().instructions() if i.opcode == "custom-call")
    assert Step(call, kernel="double_mosaic_gpu_kernel") in run
    assert library_calls(compiled.module(), run, ()) == {}
    kernels = instructions_of_kernels(compiled.assembly, compiled.module(), run)
    assert kernels["double_mosaic_gpu_kernel"] == (call,)
    code = compiled.assembly.code("SASS", "double_mosaic_gpu_kernel")
    frames = source_frames(code.language, str(code.text))
    assert frames is not None
    first = double.__code__.co_firstlineno
    assert {file for each in frames for file, _ in each} == {__file__}
    assert (__file__, first + 1) in {place for each in frames for place in each}


@needs_gpu
def test_facts_agree_with_the_disassembler_and_kernels_of_xla_have_no_source_lines() -> None:
    lowered = inspector.lower(lambda x: jax.nn.softmax(x) @ x, F32, platform="gpu")
    assembly = lowered.compile(target="gpu:h100:1", products=("assembly",)).assembly
    for code in assembly:
        assert source_frames(code.language, str(code.text)) is None  # as the docstring of debug_lines says
        if code.form != "cubin":
            continue
        instructions = [line for line in str(code.text).split("\n") if line.lstrip().startswith("/*")]
        while instructions[-1].split("*/")[1].strip().startswith("NOP"):
            instructions.pop()
        facts = assembly.kernel_facts(code.kernel)
        assert facts.machine_instructions == len(instructions)
        assert isinstance(facts.registers, int)
        assert 8 <= facts.registers <= 255
        (threads,) = (
            line.removeprefix(".reqntid ").replace(" ", "").split(",")
            for line in str(assembly.code("PTX", code.kernel).text).split("\n")
            if line.startswith(".reqntid")
        )
        assert facts.threads == int(threads[0]) * int(threads[1] if len(threads) > 1 else 1)
