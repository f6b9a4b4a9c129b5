"""Options of libtpu on their way through an engine: to the compile, to the worker's start, or refused."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from inspector.api.flag_effects import boolean_flags, flag_effect
from inspector.compilation.options.options import Options
from inspector.engines.workers import fork_server
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import OptionError, WorkerDiedError
from inspector.lowering.lower import lower
from inspector.stages.lowered import Lowered
from tests.absent import needs_tpu

pytestmark = needs_tpu

TARGET = "tpu:v5e:1x1"


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return lower(lambda x: jnp.tanh(x @ x).sum(), jax.ShapeDtypeStruct((256, 256), jnp.float32), platform="tpu")


def test_a_compile_takes_them(lowered: Lowered, tmp_path: Path) -> None:
    options = Options(flags={"xla_memory_scheduler": "LIST", "xla_tpu_rwb_fusion": False, "xla_dump_to": str(tmp_path)})
    assert lowered.compile(options, TARGET).warnings == ()
    (environment,) = tmp_path.glob("*tpu_comp_env.txt")
    lines = environment.read_text().splitlines()
    assert "xla_memory_scheduler: LIST" in lines
    assert "xla_tpu_rwb_fusion: false" in lines


def test_those_of_the_process_choose_a_worker(lowered: Lowered, tmp_path: Path) -> None:
    plain = lowered.compile(target=TARGET)
    dumping = lowered.compile({"xla_jf_dump_to": str(tmp_path), "xla_jf_dump_llo_text": True}, TARGET)
    assert dumping.hlo == plain.hlo
    assert any("llo" in path.name for path in tmp_path.rglob("*.txt"))


@pytest.mark.slow
def test_one_that_keeps_a_worker_from_starting_is_named(lowered: Lowered) -> None:
    engine = WorkerEngine()
    try:
        with pytest.raises(
            WorkerDiedError,
            match=r"Could not start a worker process: .*Argument list too long.* Flags read at its start: --xla_jf_dump_to=.*\. Remove or change a flag",
        ):
            lowered.compile(
                {"xla_jf_dump_to": "x" * 2**20}, TARGET, engine
            )  # more than Linux lets a process be started with
        assert lowered.compile(target=TARGET, engine=engine).hlo
        assert engine._starter._fork is fork_server.ForkServer.supported(), "not the fork server's fault"
    finally:
        engine.close()


def test_for_the_cpu_they_are_refused() -> None:
    for_cpu = lower(lambda x: x + 1, jax.ShapeDtypeStruct((2,), jnp.float32))
    with pytest.raises(OptionError, match="xla_tpu_rwb_fusion is a flag of libtpu, for TPU targets only"):
        for_cpu.compile({"xla_tpu_rwb_fusion": False}, "cpu")


def test_those_of_the_cpu_are_warned_of(lowered: Lowered) -> None:
    (warning,) = lowered.compile({"xla_cpu_enable_fast_math": True}, TARGET).warnings
    assert "but ignores it" in warning


@pytest.mark.slow
def test_effects_of_tpu_flags(lowered: Lowered) -> None:
    tpu = boolean_flags("tpu")
    assert {"xla_tpu_rwb_fusion", "xla_allow_excess_precision"} <= set(tpu)
    assert not {"xla_jf_dump_llo_text", "xla_gpu_enable_triton_gemm"} & set(tpu)
    assert not any(name.startswith("xla_jf_") for name in boolean_flags("cpu"))
    table = flag_effect(lowered, "xla_memory_scheduler", target=TARGET)
    assert "default" not in set(table["value"])
    assert {"list", "dfs"} <= set(table["value"])
    assert set(table["outcome"]) <= {"nothing", "hlo", "memory", "cost", "code", "refused", "crashed"}
    assert "refused" not in set(table[table["value"] == "list"]["outcome"])


def test_names_of_passes_reach_libtpu(lowered: Lowered) -> None:
    plain = lowered.compile(target=TARGET)
    without = lowered.compile({"xla_disable_hlo_passes": "tpu_fusion"}, TARGET)
    assert (without.warnings, without.hlo == plain.hlo) == ((), False)
    unknown = lowered.compile({"xla_disable_hlo_passes": "tpu_fuson"}, TARGET)
    assert "Did you mean tpu_fusion" in unknown.warnings[0]
    assert unknown.hlo == plain.hlo
