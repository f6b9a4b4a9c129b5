"""Compiling for TPUs and GPUs that are not here: the programs, placements and errors of both platforms."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import re
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

import inspector
from inspector._jax.compiling.slices import Slice
from inspector.compilation.compiled import engine_of
from inspector.engines.executable import load_executable
from inspector.engines.shared_engines import worker_engine
from inspector.errors import CompilationError, LoweringError, OptionError, TargetError, Unavailable, WorkerDiedError
from inspector.hlo.devices.mesh import Mesh as OurMesh
from inspector.stages.compiled import load_compiled
from inspector.stages.lowered import compile_request
from inspector.support.install_commands import install_command
from tests.absent import needs_gpu, needs_tpu
from tests.conftest import RunPython

TARGETS = [
    pytest.param("tpu:v5e:2x4", marks=needs_tpu),
    pytest.param("tpu:v4:2x2x2", marks=needs_tpu),
    pytest.param("tpu:tpu7x:2x2x1", marks=needs_tpu),
    pytest.param("gpu:h100:8", marks=needs_gpu),
    pytest.param("gpu:b200:2x4", marks=needs_gpu),
]
F32 = jax.ShapeDtypeStruct((256, 256), jnp.float32)


def step(x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ x).sum()


def lower(fun: object, *args: object, target: str, **given: object) -> inspector.Lowered:
    return inspector.lower(fun, *args, platform=inspector.Target.parse(target).platform, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_of_one_device(target: str) -> None:
    compiled = lower(step, F32, target=target).compile(target=target)
    assert str(compiled.target) == target
    assert "HloModule jit_step" in compiled.hlo
    assert compiled.module().entry.instructions
    assert not isinstance(compiled.memory, Unavailable)
    assert compiled.memory.argument_bytes == 4 * 256 * 256
    assert len(compiled.devices) == 1
    (idle,) = compiled.warnings
    assert idle.startswith(f"The program uses 1 of the {compiled.target.device_count} devices of {target}; ")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mesh_kind", ["abstract", "concrete"])
def test_shardings_are_partitioned_over_the_slice(target: str, mesh_kind: str) -> None:
    names, sizes = ("data", "model"), (4, 2)
    mesh = (
        AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * 2)
        if mesh_kind == "abstract"
        else Mesh(np.array(jax.devices()).reshape(sizes), names)
    )
    x = jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("data", "model")))
    compiled = lower(jax.jit(lambda x: jnp.tanh(x).sum(0)), x, target=target).compile(target=target)
    assert len(set(compiled.devices)) == 8
    assert compiled.program.mesh == OurMesh(names, sizes, "partition")
    (reduced,) = compiled.collectives()
    assert (reduced.axes, [list(g) for g in reduced.groups]) == (("data",), [[0, 2, 4, 6], [1, 3, 5, 7]])


@pytest.mark.parametrize("target", TARGETS)
def test_shard_map_and_axis_environment_have_the_same_groups(target: str) -> None:
    mesh = AbstractMesh((8,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec(), check_vma=False
    )  # fmt: skip
    by_partition = lower(jax.jit(mapped), F32, target=target).compile(target=target)
    by_replica = lower(lambda x: jax.lax.psum(x, "i"), F32, axis_env=[("i", 8)], target=target).compile(target=target)
    for compiled in (by_partition, by_replica):
        (reduced,) = compiled.collectives()
        assert [sorted(g) for g in reduced.groups] == [list(range(8))]
        assert len(set(compiled.devices)) == 8


@needs_tpu
def test_a_mesh_is_laid_over_a_slice_as_jax_does() -> None:
    target = "tpu:v5e:4x4"
    mesh = AbstractMesh((16,), ("ring",), axis_types=(AxisType.Auto,))
    x = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("ring")))
    compiled = lower(jax.jit(lambda x: x.sum(0)), x, target=target).compile(target=target)
    places = [tuple(map(int, d.rpartition("(")[2][:-1].split(", "))) for d in compiled.devices]
    assert len(set(places)) == 16
    distances = [sum(abs(a - b) for a, b in zip(p, q, strict=True)) for p, q in itertools.pairwise(places)]
    assert max(distances) == 1  # a ring over neighbors, which the order of ids is not


@needs_tpu
def test_devices_of_the_program_are_preserved() -> None:
    lowered = lower(lambda x: jax.lax.psum(x, "i"), F32, axis_env=[("i", 2)], target="tpu:v5e:2x4")
    options = inspector.Options(device_assignment=[[5], [2]])
    compiled = lowered.compile(options, target="tpu:v5e:2x4")
    assert [d.split(" at ")[0] for d in compiled.devices] == ["TPU v5 lite 5", "TPU v5 lite 2"]


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[3]])
def test_a_compiled_program_is_saved_and_loaded(target: str, tmp_path: object) -> None:
    compiled = lower(step, F32, target=target).compile(target=target)
    path = f"{tmp_path}/step.inspector"
    compiled.save(path)
    assert load_compiled(path) == compiled


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[3]])
def test_a_program_for_an_absent_target_cannot_run(target: str) -> None:
    compiled = lower(step, F32, target=target).compile(target=target)
    with pytest.raises(TargetError, match="is not attached: inspector compiles for it ahead of time"):
        compiled.run(np.ones((256, 256), np.float32))
    with pytest.raises(TargetError, match="is not attached"):
        load_executable(compiled)


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[3]])
def test_requests_that_do_not_fit(target: str) -> None:
    with pytest.raises(TargetError, match=r"was lowered for cpu, but .* needs programs for"):
        inspector.lower(inspector.lower(step, F32).stablehlo).compile(target=target)
    nine = lower(lambda x: jax.lax.psum(x, "i"), F32, axis_env=[("i", 9)], target=target)
    with pytest.raises(
        TargetError, match=r"needs 9 devices \(num_replicas 9 x num_partitions 1\).* Use (tpu:v5e:2x6|gpu:h100:2x8)"
    ):
        nine.compile(target=target)

    def talks(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x.sum())
        return x

    with pytest.raises(LoweringError, match="talks calls back into this process"):
        lower(talks, F32, target=target)


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[3]])
def test_an_operation_without_a_rule_for_the_platform(target: str) -> None:
    with pytest.raises(
        LoweringError, match=r"cannot lower for this platform.* primitive 'schur' not found for platform"
    ):
        lower(lambda x: jax.scipy.linalg.schur(x)[0], F32, target=target)


@needs_tpu
@needs_gpu
def test_several_targets_at_once() -> None:
    from inspector.engines.shared_engines import default_engine

    targets = ("cpu:2", "tpu:v5e:2x2", "tpu:v6e:2x2", "gpu:h100:2")
    lowered = {t: lower(step, F32, target=t) for t in targets}
    jobs = {
        t: default_engine(low.program, inspector.Target.parse(t)).submit(compile_request(low, None, t))
        for t, low in lowered.items()
    }
    for target, job in jobs.items():
        assert str(job.result(120).target) == target


@needs_gpu
def test_the_compiler_for_gpus_is_quiet_where_there_is_none(one_device_python: RunPython) -> None:
    said = one_device_python("import jax; print(jax.devices())", {"JAX_PLATFORMS": "cpu"})
    assert said.stdout == "[CpuDevice(id=0)]\n"
    assert said.stderr == ""


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("libtpu", "jax_plugins") else real(name, *a)
    )
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    with pytest.raises(
        TargetError,
        match=f"libtpu, .* is not installed. Install it with: {re.escape(install_command('jax-inspector[tpu]'))}",
    ):
        lower(step, F32, target="tpu:v5e:2x4").compile(target="tpu:v5e:2x4")
    with pytest.raises(
        TargetError,
        match=f"CUDA plugin is not installed. Install it with: {re.escape(install_command('jax-inspector[cuda]'))}",
    ):
        lower(step, F32, target="gpu:h100:8").compile(target="gpu:h100:8")


@needs_gpu
def test_isolated_compiling_for_the_attached_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with an H100, whose client must stay unused; `tests/device` has the real one."""
    attached = Slice("gpu", "NVIDIA H100 80GB HBM3", (1, 1))
    monkeypatch.setattr("inspector._jax.compiling.attached_devices.attached_platform", lambda: "gpu")
    monkeypatch.setattr("inspector._jax.compiling.ahead_of_time.attached_slice", lambda: attached)
    compiled = inspector.lower(step, F32, platform="gpu").compile(isolate=True)
    assert (engine_of(compiled), str(compiled.target), compiled.devices) == (
        "worker",
        "attached",
        ("NVIDIA H100 80GB HBM3 0",),
    )
    assert isinstance(compiled._executable, bytes)
    with pytest.raises(TargetError, match="belongs to this process, so a worker cannot run on it"):
        compiled.run(np.ones((256, 256), np.float32), engine=worker_engine())


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[3]])
def test_described_devices_are_the_same(target: str, one_device_python: RunPython) -> None:
    """Another process gets this description of attached devices, as jaxlib 0.12 writes it."""
    script = textwrap.dedent(f"""
        import base64, sys
        from jaxlib import _jax
        if not hasattr(_jax.DeviceTopology, "serialize"):
            print("older"); sys.exit()
        from inspector._jax.compiling import ahead_of_time
        from inspector._jax.compiling.slices import Slice
        from inspector.compilation.target import Target
        from inspector.engines.workers.environment import slice_of
        ahead_of_time.prepare_process(Target.parse({target!r}).platform, ())
        devices = ahead_of_time._devices(slice_of(Target.parse({target!r})))
        described = base64.b64encode(_jax.get_topology_for_devices(devices).serialize()).decode()
        again = ahead_of_time._devices(Slice("", "", (), serialized=described))
        print([str(d) for d in again] == [str(d) for d in devices], len(again))
    """)
    said = one_device_python(script).stdout
    assert said.split()[-2:] == ["True", "8"] or said.split()[-1] == "older"


@pytest.mark.slow
@needs_gpu
def test_an_installed_toolkit_is_not_used(one_device_python: RunPython, tmp_path: Path) -> None:
    marker, fake = tmp_path / "asked", tmp_path / "cuda" / "bin" / "ptxas"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    fake.chmod(0o755)
    script = textwrap.dedent("""
        import hashlib, inspector, jax, jax.numpy as jnp
        x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
        compiled = inspector.lower(lambda x: jnp.tanh(x @ x), x, platform="gpu").compile(target="gpu:h100:1")
        assert isinstance(compiled._executable, bytes)
        print(hashlib.sha256(compiled.hlo.encode()).hexdigest())
    """)
    alone = one_device_python(script, {"INSPECTOR_CACHE": "off"}).stdout
    beside = one_device_python(
        script,
        {
            "INSPECTOR_CACHE": "off",
            "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}",
            "CUDA_HOME": str(fake.parents[1]),
            "TF_CUDA_TOOLKIT_PATH": str(fake.parents[1]),
        },
    ).stdout
    assert alone == beside
    assert not marker.exists()


@pytest.mark.slow
@needs_gpu
def test_without_the_assembler_there_is_all_but_code(one_device_python: RunPython) -> None:
    script = textwrap.dedent("""
        import json, jax, jax.numpy as jnp, tempfile
        from inspector._jax.compiling import ahead_of_time, cuda_plugin
        from inspector._jax.compiling.compiler import Watch
        from inspector._jax.compiling.slices import Slice
        from inspector.engines.workers.messages import plain_compile
        from inspector.errors import Unavailable
        from inspector.stages.lowered import compile_request
        import inspector
        x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
        lowered = inspector.lower(lambda x: jnp.tanh(x @ x), x, platform="gpu")
        whole = lowered.compile(target="gpu:h100:1")
        cuda_plugin.toolkit = lambda: Unavailable("no assembler", "install it")
        ahead_of_time.prepare_process("gpu", ())
        compiler = ahead_of_time.AbsentCompiler(Slice("gpu", "NVIDIA H100 80GB HBM3", (1, 1)))
        plain = plain_compile(compile_request(lowered, None, "gpu:h100:1"), {})
        directory = tempfile.mkdtemp() + "/hlo"
        watch = Watch(directory, take=lambda early: None)
        _, report = compiler.compile(plain.module, plain.build_options, platform="gpu", watch=watch)
        print(json.dumps([report.hlo == whole.hlo, str(report.executable.reason)]))
    """)
    said = one_device_python(script, {"INSPECTOR_CACHE": "off"}).stdout
    assert json.loads(said.splitlines()[-1]) == [True, "no assembler"]


@needs_tpu
@pytest.mark.parametrize("flag", ["xla_vlp_verify_device_assignment", "xla_tpu_skip_llo_late_decomposer"])
def test_a_crash_of_libtpu_ends_only_its_worker(flag: str) -> None:
    lowered = lower(step, F32, target="tpu:v5e:2x2")
    with pytest.raises(WorkerDiedError, match=rf"SIGABRT.* with the flags {flag}=true"):
        lowered.compile({flag: True}, target="tpu:v5e:2x2")
    with inspector.settings.scope(cache=False):
        assert engine_of(lowered.compile(target="tpu:v5e:2x2")) == "worker"


@needs_tpu
def test_a_part_of_a_large_slice_is_refused_with_the_reason() -> None:
    mesh = AbstractMesh((16,), ("i",), axis_types=(AxisType.Auto,))
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("i")))
    lowered = lower(jax.jit(lambda x: x.sum(0)), x, target="tpu:v5e:4x8")
    with pytest.raises(
        CompilationError, match=r"must use one device or all 32\. Compile it for a slice that has as many"
    ):
        lowered.compile(target="tpu:v5e:4x8")


@needs_tpu
def test_init_args_choose_a_worker(tmp_path: Path) -> None:
    lowered = lower(step, F32, target="tpu:v5e:2x2")
    dumping = {"xla_jf_dump_to": str(tmp_path), "xla_jf_dump_llo_text": True}
    compiled = lowered.compile(dumping, target="tpu:v5e:2x2")
    assert any(tmp_path.rglob("*")), "libtpu read the flags when it started"
    assert compiled.hlo == lowered.compile(target="tpu:v5e:2x2").hlo


@needs_tpu
def test_a_flag_of_another_compiler_is_refused_or_warned_of() -> None:
    with pytest.raises(OptionError, match="xla_tpu_enable_latency_hiding_scheduler"):
        inspector.lower(step, F32).compile({"xla_tpu_enable_latency_hiding_scheduler": True}, target="cpu")
    lowered = lower(step, F32, target="tpu:v5e:2x2")
    _, warning = lowered.compile({"xla_cpu_enable_fast_math": True}, target="tpu:v5e:2x2").warnings
    assert "xla_cpu_enable_fast_math is for XLA's CPU compiler" in warning


@needs_gpu
def test_a_missing_library_of_nvidia_is_named() -> None:
    with pytest.raises(CompilationError, match=r"one of NVIDIA's libraries .* for the target 'attached'"):
        lower(jnp.linalg.cholesky, F32, target="gpu:h100:1").compile(target="gpu:h100:1")


@pytest.mark.slow
@needs_tpu
def test_libtpu_leaves_no_logs(one_device_python: RunPython) -> None:
    script = textwrap.dedent("""
        import inspector, jax, jax.numpy as jnp, pathlib
        from inspector.engines.shared_engines import worker_engine
        x = jax.ShapeDtypeStruct((8,), jnp.float32)
        inspector.lower(jnp.sin, x, platform="tpu").compile(target="tpu:v5e:2x2")
        (lane,) = worker_engine()._lanes.values()
        pid = lane._worker.pid
        print([path.name for path in pathlib.Path("/tmp/tpu_logs").glob(f"*.{pid}")])
    """)
    assert one_device_python(script, {"INSPECTOR_CACHE": "off"}).stdout.splitlines()[-1] == "[]"


@needs_gpu
def test_a_long_sort_for_a_gpu_names_the_flag_that_it_needs() -> None:
    """XLA asks the CUDA runtime for the memory of a radix sort."""
    lowered = lower(jnp.sort, jax.ShapeDtypeStruct((64, 32768), jnp.float32), target="gpu:h100")
    with pytest.raises(CompilationError, match="radix sort") as caught:
        lowered.compile(target="gpu:h100")
    flag = re.search(r"options=(\{[^}]*\})", str(caught.value))
    assert flag is not None
    assert "sort" in lowered.compile(target="gpu:h100", options=ast.literal_eval(flag[1])).hlo
