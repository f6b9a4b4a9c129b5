"""Flags for another compiler: refused, or warned of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.options.flag_targets import (
    check_targets,
    flag_targets,
    start_flags,
    start_warnings,
    target_warnings,
)
from inspector.compilation.options.options import Options
from inspector.compilation.records.assembly import Assembly
from inspector.engines.shared_engines import inline_engine
from inspector.errors import OptionError, UnknownFlagError
from inspector.lowering.lower import lower
from inspector.stages.compiled import Compiled
from inspector.toolchain.flags.types import xla_flag_names
from tests.absent import needs_tpu
from tests.libtpu import compile_with

CPU_FLAG, GPU_FLAG, TPU_FLAG = "xla_cpu_enable_fast_math", "xla_gpu_autotune_level", "xla_tpu_rwb_fusion"


def test_targets_of_flags() -> None:
    assert flag_targets(CPU_FLAG) == ("cpu",)
    assert flag_targets(GPU_FLAG) == ("gpu",)
    assert flag_targets("xla_dump_to") == ("cpu", "gpu", "tpu")


@needs_tpu
@pytest.mark.parametrize(("platform", "named"), [("cpu", "the CPU"), ("gpu", "a GPU")])
def test_libtpus_flags_are_for_the_tpu(platform: str, named: str) -> None:
    assert flag_targets(TPU_FLAG) == ("tpu",)
    options = Options(flags={TPU_FLAG: True})
    message = f"{TPU_FLAG} is a flag of libtpu, for TPU targets only, but the program is compiled for {named}"
    with pytest.raises(OptionError, match=message):
        check_targets(options, platform, is_attached=False)
    check_targets(options, "tpu", is_attached=False)
    check_targets(options, "tpu", is_attached=True)


@needs_tpu
def test_flags_of_the_process_need_a_process() -> None:
    options = Options(flags={"xla_jf_dump_llo_text": False})
    check_targets(options, "tpu", is_attached=False)
    with pytest.raises(
        OptionError, match=r"has started in this process\. Set LIBTPU_INIT_ARGS=--xla_jf_dump_llo_text="
    ):
        check_targets(options, "tpu", is_attached=True)


@needs_tpu
def test_flags_that_libtpu_does_not_have_yet() -> None:
    from inspector.toolchain.libtpu import LibtpuOptions, libtpu_options

    known = libtpu_options()
    assert isinstance(known, LibtpuOptions)
    debug_options = {name for name in xla_flag_names() if name.startswith("xla_")}
    newer = sorted(debug_options - known.xla_flags)
    if not newer:
        pytest.skip("every flag of this jaxlib is in this libtpu")
    (outcome,) = compile_with([{newer[0]: True}])
    assert "No such compile option" in outcome.error
    with pytest.raises(UnknownFlagError, match=f"libtpu .* has no flag named '{newer[0]}'"):
        check_targets(Options(flags={newer[0]: True}), "tpu", is_attached=False)


def test_xlas_own_flags_are_accepted_everywhere_and_warned_of() -> None:
    options = Options(flags={CPU_FLAG: True, GPU_FLAG: 0, "xla_dump_hlo_as_text": True})
    (about_gpu,) = target_warnings(options, "cpu")
    assert about_gpu.startswith(f"{GPU_FLAG} is for XLA's GPU compiler; XLA accepts it for the CPU")
    (about_cpu,) = target_warnings(options, "gpu")
    assert about_cpu.startswith(f"{CPU_FLAG} is for XLA's CPU compiler; XLA accepts it for a GPU")
    assert len(target_warnings(options, "tpu")) == 2


def test_flags_read_at_process_start_need_a_worker() -> None:
    lowered = lower(jax.nn.softmax, jax.ShapeDtypeStruct((256, 256), jnp.float32))
    options = {"xla_cpu_max_isa": "SSE4_2"}
    plain = lowered.compile(target="cpu", products=["assembly"])
    chosen = lowered.compile(options, target="cpu", products=["assembly"])
    late = lowered.compile(options, engine=inline_engine(), products=["assembly"])
    if "ymm" not in assembly_of(plain):
        pytest.skip("on a CPU without AVX the flag changes nothing")
    assert "ymm" not in assembly_of(chosen)
    assert "xmm" in assembly_of(chosen)
    assert assembly_of(late) == assembly_of(plain)
    assert chosen.warnings == ()
    warning, _ = late.warnings
    assert "XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 before Python starts" in warning


def test_words_of_xla_flags() -> None:
    options = Options(flags={"xla_cpu_max_isa": "AVX 2", "xla_cpu_enable_fast_math": True})
    (word,) = start_flags(options)
    assert Options.parse(word).flags == {"xla_cpu_max_isa": "AVX 2"}
    assert len(start_warnings(options, "cpu")) == 1
    assert start_warnings(options, "gpu") == ()


def assembly_of(compiled: Compiled) -> str:
    assert isinstance(compiled.assembly, Assembly)
    return "\n".join(compiled.assembly.code("assembly", kernel).text for kernel in compiled.assembly.kernels)


@pytest.mark.slow
@needs_tpu
def test_obsolete_flags_of_libtpu_are_accepted() -> None:
    (outcome,) = compile_with([{"xla_tpu_log_flags": "@"}])
    assert outcome.error == ""
    assert "xla_tpu_log_flags" not in outcome.environment
