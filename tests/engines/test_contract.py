"""The contract of every engine. Each test runs on each engine."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo

from inspector import settings
from inspector._jax.compiling import final_hlo
from inspector._jax.compiling.configuration import read_config
from inspector.compilation.compiled import engine_of, is_from_cache
from inspector.compilation.cost import Cost
from inspector.compilation.engine import Engine
from inspector.compilation.memory import Memory
from inspector.compilation.options import options_proto
from inspector.compilation.options.options import Options
from inspector.compilation.preview import NO_CODE, Preview
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.compilation.target import Target
from inspector.engines.cached import CachedEngine
from inspector.engines.dask import DaskEngine
from inspector.engines.inline import InlineEngine
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import (
    CancelledError,
    CompilationError,
    ExecutionError,
    FlagTypeError,
    InspectorError,
    ModuleError,
    OptionError,
    TargetError,
    UnknownFlagError,
)
from inspector.stages.compiled import Compiled, as_compiled
from tests.engines import programs

CPU = Target.parse("cpu")
ATTACHED = Target.parse("attached")
F32 = jnp.float32


NAMES = ["inline", "worker", "cached", pytest.param("dask", marks=pytest.mark.slow)]  # a cluster takes seconds to start


@pytest.fixture(scope="module", params=NAMES)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Engine]]:
    """Makes an engine of one kind; the caller closes it."""
    if request.param == "dask":
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
            distributed.Client(cluster) as client,
        ):
            yield lambda: DaskEngine(client)
        return
    kinds: dict[str, Callable[[], Engine]] = {
        "inline": InlineEngine, "worker": WorkerEngine, "cached": lambda: CachedEngine(InlineEngine(), compiler),
    }  # fmt: skip
    yield kinds[request.param]


def compiler(_: CompileRequest) -> str:
    """Another compiler in the view of the cache: only the configuration changes here."""
    return json.dumps(read_config(), sort_keys=True, default=str)


@pytest.fixture(scope="module")
def shared(make: Callable[[], Engine]) -> Iterator[Engine]:
    made = make()
    yield made
    made.close()


@pytest.fixture
def engine(make: Callable[[], Engine], shared: Engine) -> Iterator[Engine]:
    """One for all tests, but a cache that is empty: the first answer is the other engine's."""
    if not isinstance(shared, CachedEngine):
        yield shared
        return
    with settings.scope(cache=True, cache_directory=""):
        made = make()
        yield made
        made.close()


def spec(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def compile_(engine: Engine, program: Program, target: Target = ATTACHED, **options: Any) -> Compiled:
    return as_compiled(engine.submit(CompileRequest(program, Options(**options), target)).result(120))


def run(engine: Engine, compiled: Compiled, *inputs: Any, per_replica: bool = False, repeat: int = 2) -> Any:
    arrays = tuple(inputs)
    return engine.run(RunRequest(compiled, arrays, (per_replica,) * len(arrays), repeat, warmup=1)).result(120)


def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)
    return loss, w - 0.1 * gradient


def test_result_is_the_one_of_jax(engine: Engine) -> None:
    lowered = jax.jit(step).lower(spec(16, 8), spec(4, 16))
    compiled = compile_(engine, programs.as_program(lowered))
    theirs = lowered.compile()
    assert compiled.hlo == programs.theirs(theirs)
    stats = theirs.memory_analysis()
    assert isinstance(compiled.memory, Memory)
    assert compiled.memory.argument_bytes == stats.argument_size_in_bytes == 4 * (16 * 8 + 4 * 16)
    assert compiled.memory.temp_bytes == stats.temp_size_in_bytes
    assert isinstance(compiled.cost, Cost)
    assert compiled.cost.flops == theirs.cost_analysis()["flops"]
    assert isinstance(compiled._executable, bytes)
    assert compiled.versions["jax"] == jax.__version__
    assert engine_of(compiled) == engine.name
    assert set(compiled.timings) == {"queue_s", "parse_s", "compile_s", "compile_cpu_s", "read_s", "total_s"}
    assert (
        sum(s for n, s in compiled.timings.items() if n not in ("total_s", "compile_cpu_s"))
        <= compiled.timings["total_s"]
    )


def test_flags_reach_the_compiler(engine: Engine) -> None:
    lowered = jax.jit(step).lower(spec(16, 8), spec(4, 16))
    flags = {"xla_disable_hlo_passes": "fusion", "xla_llvm_disable_expensive_passes": True}
    compiled = compile_(engine, programs.as_program(lowered), flags=flags)
    assert compiled.hlo == programs.theirs(lowered.compile(compiler_options=flags))
    assert compiled.hlo != programs.theirs(lowered.compile())


def test_jax_configuration_reaches_the_compiler(engine: Engine) -> None:
    lowered = jax.jit(step).lower(spec(16, 8), spec(4, 16))
    default = compile_(engine, programs.as_program(lowered))
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        plain = compile_(engine, programs.as_program(lowered))
        theirs = programs.theirs(lowered.compile())
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    assert plain.hlo == theirs
    assert compile_(engine, programs.as_program(lowered)).hlo == default.hlo


def test_stages_and_callbacks(engine: Engine) -> None:
    stages: list[str] = []
    done = threading.Event()
    blocker = engine.submit(CompileRequest(programs.lower(step, spec(64, 64), spec(64, 64)), Options(), CPU))
    job = engine.submit(CompileRequest(programs.lower(step, spec(16, 8), spec(4, 16)), Options(), CPU))
    job.add_progress_callback(lambda j: stages.append(j.stage))
    job.add_done_callback(lambda j: done.set())
    job.result(120)
    assert done.wait(10)
    assert blocker.done()
    assert stages[-2:] == ([] if engine.name == "dask" else ["compiling", "reading"])  # a cluster tells no stages
    assert job.stage == "done"
    late: list[bool] = []
    job.add_done_callback(lambda j: late.append(j.done()))
    assert late == [True]


def without_metadata(hlo_proto: bytes) -> str:
    options = _hlo.HloPrintOptions()
    options.print_metadata = False
    return str(_hlo.HloModule.from_serialized_hlo_module_proto(hlo_proto).to_string(options))


@pytest.mark.parametrize("name", ["step", "donated", "partitions", "replicas"])
def test_the_preview_comes_first_and_equals_the_result(engine: Engine, name: str) -> None:
    fun, args, _ = programs.sharded_step()
    program, target = {
        "step": lambda: (programs.lower(step, spec(16, 8), spec(4, 16)), CPU),
        "donated": lambda: (programs.lower(lambda x, y: (x + 1, y.sum()), spec(99), spec(7), donate_argnums=(0,)), CPU),
        "partitions": lambda: (programs.lower(fun, *args), Target.parse("cpu:8")),
        "replicas": lambda: (programs.replicas(4), Target.parse("cpu:4")),
    }[name]()
    job = engine.submit(CompileRequest(program, Options(), target))
    told: list[tuple[Preview, bool]] = []
    job.add_preview_callback(lambda preview: told.append((preview, job.done())))
    preview, compiled = job.preview(120, counted=True), job.result(120)
    assert [p for p, _ in told][-1:] == [preview]
    assert all(not p.is_counted and p.before_code for p, _ in told[:-1])  # HLO first, its cost with no further asking
    assert {p.hlo for p, _ in told} == {preview.hlo}
    assert preview.is_counted
    assert job.preview() is preview
    assert preview.before_code is (engine.name == "worker" and final_hlo.can_watch({}, DebugOptions))
    assert without_metadata(preview.hlo_proto) == without_metadata(compiled.hlo_proto)
    assert list(hlo_lines(preview.hlo)) == list(hlo_lines(compiled.hlo))
    assert preview.cost == compiled.cost
    assert isinstance(preview.memory, Memory)
    assert isinstance(compiled.memory, Memory)
    code: Any = {"generated_code_bytes": 0, "host_generated_code_bytes": 0, "reported": {}}
    assert dataclasses.replace(preview.memory, **code) == dataclasses.replace(compiled.memory, **code)
    assert bool(preview.memory.generated_code_bytes == NO_CODE) is preview.before_code
    assert preview.elapsed_s <= compiled.timings["total_s"] or not preview.before_code


class DebugOptions:
    xla_dump_to = ""


def hlo_lines(text: str) -> Iterator[str]:
    """All but metadata and the stack frames' tables."""
    for line in text.splitlines():
        if line.startswith(("HloModule", "  ", "%", "ENTRY", "ROOT", "}")):
            head, found, _ = line.partition(", metadata={")
            yield head if found else line


def test_a_compile_that_fails_before_the_preview_has_none(engine: Engine) -> None:
    program = dataclasses.replace(programs.lower(jnp.sin, spec(3)), module=b"garbage")
    job = engine.submit(CompileRequest(program, Options(), CPU))
    called: list[Preview] = []
    job.add_preview_callback(called.append)
    with pytest.raises((ModuleError, CompilationError)):
        job.preview(120)
    assert called == []


def test_a_run_has_no_preview(engine: Engine) -> None:
    compiled = compile_(engine, programs.lower(lambda x: x * 3, spec(3)))
    job = engine.run(RunRequest(compiled, (np.zeros(3, np.float32),), (False,)))
    with pytest.raises(InspectorError, match="no preview"):
        job.preview(120)


def test_a_failing_callback_does_no_harm(engine: Engine) -> None:
    job = engine.submit(CompileRequest(programs.lower(jnp.sin, spec(3)), Options(), CPU))
    job.add_progress_callback(lambda j: 1 / 0)
    assert job.result(120).hlo


def test_many_jobs(engine: Engine) -> None:
    requests = [CompileRequest(programs.lower(lambda x, n=n: x * n, spec(n)), Options(), CPU) for n in range(1, 13)]
    jobs = [engine.submit(r) for r in requests]
    for n, job in enumerate(jobs, start=1):
        assert f"f32[{n}]" in job.result(120).hlo


def test_cancel_queued_and_running(engine: Engine) -> None:
    slow = programs.lower(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jnp.linalg.eigh(x)[1] @ x, x), spec(64, 64))
    running, queued = (engine.submit(CompileRequest(slow, Options(), CPU)) for _ in range(2))
    started = threading.Event()
    running.add_progress_callback(lambda j: started.set())
    if running.stage == "queued":
        started.wait(60)
    assert queued.cancel()
    assert running.cancel()
    assert not running.cancel()
    for job in (queued, running):
        assert job.stage == "cancelled"
        with pytest.raises(CancelledError):
            job.result(1)
    after = compile_(engine, programs.lower(jnp.cos, spec(3)), CPU)
    assert "cosine" in after.hlo


def test_unknown_flag(engine: Engine) -> None:
    with pytest.raises(UnknownFlagError, match="xla_cpu_enable_fast_math"):
        compile_(engine, programs.lower(jnp.sin, spec(3)), flags={"xla_cpu_enable_fast_mat": True})


def test_wrong_type(engine: Engine) -> None:
    with pytest.raises(FlagTypeError, match=r"xla_cpu_enable_fast_math.*'yes'.*True or False"):
        compile_(engine, programs.lower(jnp.sin, spec(3)), flags={"xla_cpu_enable_fast_math": "yes"})


def test_unchecked_flags_are_refused_by_xla_with_our_errors(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a worker's compiler is older than the schema that the flags were checked with."""
    if isinstance(engine, DaskEngine):
        pytest.skip("the cluster's own processes write the options, where this test replaces nothing")
    program = programs.lower(jnp.sin, spec(3))
    for flags, error in (({"xla_nonsense": 1}, UnknownFlagError), ({"xla_cpu_enable_fast_math": 1}, FlagTypeError)):
        monkeypatch.setattr(options_proto, "overrides", lambda said, flags=flags: flags)
        with pytest.raises(error, match=f"^XLA: .*{next(iter(flags))}"):
            compile_(engine, program)


@pytest.mark.parametrize("module", [b"", b"garbage", b"ML\xefR broken", b"func.func @f() { return }"])
def test_malformed_module(engine: Engine, module: bytes) -> None:
    program = dataclasses.replace(programs.lower(jnp.sin, spec(3)), module=module)
    with pytest.raises((ModuleError, CompilationError)):
        compile_(engine, program)


def test_truncated_module(engine: Engine) -> None:
    program = programs.lower(step, spec(16, 8), spec(4, 16))
    with pytest.raises(ModuleError, match="not StableHLO"):
        compile_(engine, dataclasses.replace(program, module=program.module[: len(program.module) // 2]))


def test_other_partitioner_is_refused(engine: Engine) -> None:
    with pytest.raises(OptionError, match="lowered for Shardy"):
        compile_(engine, programs.lower(jnp.sin, spec(3)), use_shardy_partitioner=False)


def test_other_platform_is_refused(engine: Engine) -> None:
    program = dataclasses.replace(programs.lower(jnp.sin, spec(3)), platform="tpu")
    with pytest.raises(TargetError, match="lowered for tpu"):
        compile_(engine, program)


def test_too_few_devices(engine: Engine) -> None:
    with pytest.raises(TargetError, match=r"takes 4 devices.*1 CPU device.*cpu:4"):
        compile_(engine, programs.lower(jnp.sin, spec(3)), CPU, num_replicas=4)


@pytest.mark.parametrize(
    ("assignment", "error"), [(((0,), (0,)), OptionError), (((0, 1),), OptionError), (((0,), (99,)), TargetError)]
)
def test_device_assignment_is_checked(engine: Engine, assignment: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="device_assignment"):
        compile_(
            engine,
            programs.lower(jnp.sin, spec(3)),
            Target.parse("cpu:2"),
            num_replicas=2,
            device_assignment=assignment,
        )


def test_run(engine: Engine) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    compiled = compile_(engine, programs.lower(lambda x: (jnp.tanh(x), x.sum()), spec(3, 4)))
    reply = run(engine, compiled, x, repeat=5)
    np.testing.assert_allclose(reply.outputs[0], np.tanh(x), rtol=1e-5)
    np.testing.assert_allclose(reply.outputs[1], x.sum(), atol=1e-5)
    assert reply.outputs[1].shape == ()
    assert len(reply.durations_s) == 5
    assert all(s > 0 for s in reply.durations_s)
    assert reply.device_kind == "cpu"


@pytest.mark.slow
def test_run_from_the_serialized_executable(engine: Engine, make: Callable[[], Engine]) -> None:
    compiled = compile_(engine, programs.lower(lambda x: x * 2, spec(3)))
    other = make()  # has never seen it
    try:
        np.testing.assert_array_equal(run(other, compiled, np.float32([1, 2, 3])).outputs[0], [2, 4, 6])
    finally:
        other.close()


@pytest.mark.slow
def test_run_of_another_jaxlib_is_refused(engine: Engine, make: Callable[[], Engine]) -> None:
    if engine.name == "dask":
        pytest.skip("every engine of a cluster asks the same workers, who have it")
    compiled = compile_(engine, programs.lower(lambda x: x * 5, spec(3)))
    compiled = dataclasses.replace(compiled, versions={**compiled.versions, "jaxlib": "0.0.1"})
    other = make()
    try:
        with pytest.raises(ExecutionError, match=r"jaxlib 0\.0\.1"):
            run(other, compiled, np.zeros(3, np.float32))
    finally:
        other.close()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), r"takes 2 arrays \(x0: float32\[3,4\], x1: int32\[4\]\), got 0"),
        ((np.zeros((3, 4), np.float32),), "got 1"),
        ((np.zeros((4, 3), np.float32), np.zeros(4, np.int32)), r"x0 must be float32\[3,4\], got float32\[4,3\]"),
        ((np.zeros((3, 4), np.float32), np.zeros(4, np.float32)), r"x1 must be int32\[4\], got float32\[4\]"),
        ((np.zeros((3, 4), np.float64), np.zeros(4, np.int32)), r"x0 must be float32\[3,4\], got float64\[3,4\]"),
    ],
)
def test_run_checks_its_inputs(engine: Engine, inputs: Any, message: str) -> None:
    compiled = compile_(engine, programs.lower(lambda x, y: x + y, spec(3, 4), spec(4, dtype=jnp.int32)))
    with pytest.raises(ExecutionError, match=message):
        run(engine, compiled, *inputs)


def test_run_without_unused_arguments(engine: Engine) -> None:
    program = programs.lower(lambda x, unused, y: x - y, spec(2), spec(9), spec(2))
    assert [a.parameter for a in program.arguments] == [0, None, 1]
    reply = run(engine, compile_(engine, program), np.float32([5, 6]), np.float32([1, 1]))
    np.testing.assert_array_equal(reply.outputs[0], [4, 5])


def test_run_with_donated_inputs(engine: Engine) -> None:
    program = programs.lower(lambda x, y: (x + y, y.sum()), spec(1000), spec(1000), donate_argnums=(0,))
    compiled = compile_(engine, program)
    assert isinstance(compiled.memory, Memory)
    assert compiled.memory.alias_bytes == 4000
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    reply = run(engine, compiled, x, y, repeat=4)
    np.testing.assert_array_equal(reply.outputs[0], np.arange(1000) + 1)
    np.testing.assert_array_equal(x, np.arange(1000))


@pytest.mark.parametrize(
    "name", ["bool", "int4", "uint8", "int16", "bfloat16", "float16", "float8_e4m3fn", "complex64"]
)
def test_run_dtypes(engine: Engine, name: str) -> None:
    dtype = np.dtype(getattr(jnp, name).dtype)
    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    compiled = compile_(engine, programs.lower(lambda x: x[::-1], spec(5, dtype=dtype)))
    (out,) = run(engine, compiled, x).outputs
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(np.complex64), x[::-1].astype(np.complex64))


def test_run_64_bit(engine: Engine) -> None:
    with jax.enable_x64(True):
        program = programs.lower(lambda x, n: (x / 3, n + 1), spec(2, dtype=jnp.float64), spec(dtype=jnp.int64))
    reply = run(engine, compile_(engine, program), np.array([1.0, 2.0]), np.array(2**40))
    np.testing.assert_array_equal(reply.outputs[0], np.array([1.0, 2.0]) / 3)
    assert reply.outputs[0].dtype == np.float64
    assert reply.outputs[1] == 2**40 + 1


def test_run_random_keys(engine: Engine) -> None:
    key = jax.random.key(3)
    program = programs.lower(lambda k: (jax.random.split(k), jax.random.normal(k, (4,))), key)
    data = np.asarray(jax.random.key_data(key))
    reply = run(engine, compile_(engine, program), data)
    np.testing.assert_array_equal(reply.outputs[0], np.asarray(jax.random.key_data(jax.random.split(key))))
    np.testing.assert_allclose(reply.outputs[1], np.asarray(jax.random.normal(key, (4,))), rtol=1e-6)


CUSTOM_CALLS = {
    "fft": jnp.fft.fft,
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(8)),
    "eigh": lambda x: jnp.linalg.eigh(x + x.T)[0],
    "qr": lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
    "svd": lambda x: jnp.linalg.svd(x)[1],
    "triangular_solve": lambda x: jax.scipy.linalg.solve_triangular(x + 9 * jnp.eye(8), x),
    "sort": lambda x: jnp.sort(x, axis=0),
    "top_k": lambda x: jax.lax.top_k(x, 3)[0],
}


@pytest.mark.parametrize("name", list(CUSTOM_CALLS))
def test_run_custom_calls(engine: Engine, name: str) -> None:
    x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    compiled = compile_(engine, programs.lower(CUSTOM_CALLS[name], spec(8, 8)))
    (out,) = run(engine, compiled, x).outputs
    np.testing.assert_allclose(out, np.asarray(CUSTOM_CALLS[name](x)), rtol=1e-3, atol=1e-3)


def test_run_without_results(engine: Engine) -> None:
    assert (
        run(
            engine, compile_(engine, programs.lower(lambda x: (), spec(2), keep_unused=True)), np.zeros(2, np.float32)
        ).outputs
        == ()
    )


def test_replicas(engine: Engine) -> None:
    compiled = compile_(engine, programs.replicas(4), Target.parse("cpu:4"))
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    y = np.float32([10, 20])
    request = RunRequest(compiled, (x, y), (True, False), 2, 1)
    total, scaled, ids = engine.run(request).result(120).outputs
    np.testing.assert_array_equal(total, np.tile((x * y).sum(0), (4, 1)))
    np.testing.assert_array_equal(scaled, x * y)
    np.testing.assert_array_equal(ids, np.arange(4))


def test_replicas_check_the_leading_axis(engine: Engine) -> None:
    compiled = compile_(engine, programs.replicas(4), Target.parse("cpu:4"))
    with pytest.raises(ExecutionError, match=r"float32\[4,2\] \(one row per replica, 4 replicas\), got float32\[3,2\]"):
        engine.run(RunRequest(compiled, (np.zeros((3, 2), np.float32), np.zeros(2, np.float32)), (True, False))).result(
            60
        )


def test_device_assignment_moves_replicas(engine: Engine) -> None:
    assignment = ((3,), (1,), (0,), (2,))
    compiled = compile_(engine, programs.replicas(4), Target.parse("cpu:4"), device_assignment=assignment)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    _, scaled, ids = engine.run(RunRequest(compiled, (x, np.float32([1, 1])), (True, False))).result(60).outputs
    np.testing.assert_array_equal(scaled, x)
    np.testing.assert_array_equal(ids, np.arange(4))


@pytest.mark.parametrize("shardings", ["given", "left to the partitioner"])
def test_partitions(engine: Engine, shardings: str) -> None:
    fun, args, numpy_fun = programs.sharded_step()
    x, w = programs.random_inputs(args)
    if shardings != "given":
        args = (args[0], jax.ShapeDtypeStruct(args[1].shape, args[1].dtype))
    compiled = compile_(engine, programs.lower(fun, *args), Target.parse("cpu:8"))
    assert compiled.program.device_count == 8
    outputs = run(engine, compiled, x, w).outputs
    for got, wanted in zip(outputs, numpy_fun(x, w), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_an_equal_request_has_an_equal_answer(engine: Engine) -> None:
    """Compiled or cached: there is a preview before the result, and the result runs."""
    program = programs.lower(lambda x: x * 7, spec(3))
    first = compile_(engine, program)
    job = engine.submit(CompileRequest(program, Options(), ATTACHED))
    preview, again = job.preview(120), as_compiled(job.result(120))
    assert list(hlo_lines(preview.hlo)) == list(hlo_lines(again.hlo)) == list(hlo_lines(first.hlo))
    assert (again.memory, again.cost, engine_of(again)) == (first.memory, first.cost, engine_of(first))
    assert is_from_cache(again) is isinstance(engine, CachedEngine)
    np.testing.assert_array_equal(run(engine, again, np.float32([1, 2, 3])).outputs[0], [7, 14, 21])


def test_close_twice_and_after(make: Callable[[], Engine]) -> None:
    engine = make()
    request = CompileRequest(programs.lower(jnp.sin, spec(3)), Options(), CPU)
    engine.submit(request).result(120)
    engine.close()
    engine.close()
    with pytest.raises(CancelledError, match="closed"):
        engine.submit(request).result(10)


def test_closing_ends_running_jobs(make: Callable[[], Engine]) -> None:
    engine = make()
    slow = programs.lower(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jnp.linalg.eigh(x)[1] @ x, x), spec(64, 64))
    jobs = [engine.submit(CompileRequest(slow, Options(), CPU)) for _ in range(3)]
    engine.close()
    assert isinstance(jobs[-1].exception(60), CancelledError)
    assert all(job.exception(60) is None or isinstance(job.exception(), CancelledError) for job in jobs)
