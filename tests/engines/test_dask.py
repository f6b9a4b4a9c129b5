"""The Dask engine on a cluster of one process with two threads on this machine."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inspector.analysis.diff.fingerprint import code_digest
from inspector.compilation.compiled import digest_of, engine_of
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.compilation.target import Target
from inspector.engines import dask as dask_engine
from inspector.engines.dask import DaskEngine
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import (
    CancelledError,
    ExecutionError,
    FlagTypeError,
    ModuleError,
    TargetError,
    TimeLimitError,
    UnknownFlagError,
    WorkerDiedError,
)
from inspector.stages.compiled import Compiled, as_compiled
from inspector.support.install_commands import install_command
from tests.engines import programs

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow  # a cluster takes seconds to start

CPU = Target.parse("cpu")
KILLER = "xla_unsupported_crash_on_hlo_pass_noop_change"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture
def engine(client: Any) -> Iterator[DaskEngine]:
    made = DaskEngine(client)
    yield made
    made.close()


def spec(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)
    return loss, w - 0.1 * gradient


@pytest.fixture(scope="module")
def program() -> Program:
    return programs.lower(step, spec(16, 8), spec(4, 16))


def compile_(engine: Any, program: Program, **options: Any) -> Compiled:
    return as_compiled(engine.submit(CompileRequest(program, Options(**options), CPU)).result(120))


def test_the_same_as_a_worker_here(engine: DaskEngine, program: Program) -> None:
    there = compile_(engine, program, flags={"xla_disable_hlo_passes": "fusion"})
    local = WorkerEngine()
    try:
        here = compile_(local, program, flags={"xla_disable_hlo_passes": "fusion"})
    finally:
        local.close()
    assert engine_of(there) == "dask"
    for name in ("program", "options", "target", "hlo", "memory", "cost", "versions"):
        assert getattr(there, name) == getattr(here, name), name
    assert digest_of(there) == digest_of(here)
    assert there.program is program


def test_an_equal_request_is_compiled_again(engine: DaskEngine, program: Program) -> None:
    first, second = (compile_(engine, program) for _ in range(2))
    assert first.hlo == second.hlo
    assert first.timings != second.timings


def test_closing_removes_waiting_jobs_from_the_cluster(
    client: Any, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, futures = DaskEngine(client), list[Any]()
    start = engine._start

    def started(*arguments: Any) -> Any:
        futures.append(start(*arguments))
        return futures[-1]

    monkeypatch.setattr(engine, "_start", started)
    jobs = [engine.submit(CompileRequest(program, Options(), CPU)) for _ in range(4)]
    engine.close()
    assert isinstance(jobs[-1].exception(60), CancelledError)
    assert [future.cancelled() for future in futures][-1]
    assert all(future.cancelled() or job.exception() is None for job, future in zip(jobs, futures, strict=True))


def test_runs(engine: DaskEngine, program: Program) -> None:
    compiled = compile_(engine, program)
    w, x = programs.random_inputs((spec(16, 8), spec(4, 16)))
    reply = engine.run(RunRequest(compiled, (w, x), (False, False), repeat=3, warmup=1)).result(120)
    loss, updated = jax.jit(step)(w, x)
    np.testing.assert_allclose(reply.outputs[0], loss, rtol=1e-5)
    np.testing.assert_allclose(reply.outputs[1], updated, rtol=1e-5)
    assert len(reply.durations_s) == 3


def test_the_configuration_of_this_process_counts(engine: DaskEngine, program: Program) -> None:
    default = code_digest(compile_(engine, program)._executable)
    jax.config.update("jax_disable_most_optimizations", True)  # changes the code, not the HLO
    try:
        plain = code_digest(compile_(engine, program)._executable)
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    local = WorkerEngine()
    try:
        flags = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        assert plain == code_digest(compile_(local, program, flags=flags)._executable) != default
    finally:
        local.close()
    assert [code_digest(compile_(engine, program)._executable) for _ in range(2)] == [default] * 2, (
        "it has its own back"
    )


def test_a_killer_costs_no_dask_worker(engine: DaskEngine, client: Any, program: Program) -> None:
    before = sorted(client.run(lambda: __import__("os").getpid()).values())
    with pytest.raises(WorkerDiedError, match=KILLER):
        compile_(engine, program, flags={KILLER: True})
    assert sorted(client.run(lambda: __import__("os").getpid()).values()) == before
    assert compile_(engine, program).hlo


def test_errors_are_ours(engine: DaskEngine, program: Program) -> None:
    with pytest.raises(UnknownFlagError, match="xla_cpu_enable_fast_math"):
        compile_(engine, program, flags={"xla_cpu_enable_fast_mat": True})
    with pytest.raises(FlagTypeError):
        compile_(engine, program, flags={"xla_cpu_enable_fast_math": "yes"})
    with pytest.raises(ModuleError):
        compile_(engine, dataclasses.replace(program, module=program.module[:100]))


def test_callbacks_stay_here(engine: DaskEngine) -> None:
    def noisy(x: jax.Array) -> jax.Array:
        jax.debug.print("{x}", x=x)
        return x

    with pytest.raises(TargetError, match="calls back into this process"):
        compile_(engine, programs.lower(noisy, spec(3)))


def slow_program() -> Program:
    return programs.lower(lambda x: [jnp.linalg.eigh(x + i)[1] @ jnp.sort(x * i) for i in range(40)], spec(64, 64))


def test_the_time_limit(client: Any, program: Program) -> None:
    limited = DaskEngine(client, time_limit_s=0.001)
    with pytest.raises(TimeLimitError, match=r"longer than the limit of 0\.001 s"):
        compile_(limited, slow_program())
    limited.close()
    assert compile_(DaskEngine(client), program).hlo


def test_cancel_and_close(client: Any, program: Program) -> None:
    engine = DaskEngine(client)
    running = [engine.submit(CompileRequest(slow_program(), Options(), CPU)) for _ in range(4)]
    assert running[3].cancel()
    with pytest.raises(CancelledError):
        running[3].result(1)
    engine.close()
    engine.close()
    for job in running[:3]:
        with pytest.raises(CancelledError):
            job.result(1)
    with pytest.raises(CancelledError):
        compile_(engine, program)
    assert client.status == "running", "the client is the user's"


def test_results_do_not_stay_on_the_cluster(engine: DaskEngine, client: Any, program: Program) -> None:
    jobs = [engine.submit(CompileRequest(program, Options(), CPU)) for _ in range(4)]
    for job in jobs:
        job.result(120)
    deadline = 100
    while any(keys for keys in client.has_what().values()) and deadline:
        deadline -= 1
        __import__("time").sleep(0.05)
    assert not any(keys for keys in client.has_what().values())


def test_a_client_that_is_gone(program: Program) -> None:
    class Gone:
        asynchronous = False

        def submit(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("the client is closed")

    gone: Any = Gone()
    with pytest.raises(RuntimeError, match="closed"):
        compile_(DaskEngine(gone), program)


def test_needs_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", none)
    with pytest.raises(TargetError, match="Connect one first"):
        DaskEngine()


def test_needs_a_synchronous_client() -> None:
    class Asynchronous:
        asynchronous = True

    client: Any = Asynchronous()
    with pytest.raises(TargetError, match="asynchronous"):
        DaskEngine(client)


def test_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ImportError, match=re.escape(install_command("jax-inspector[dask]"))):
        DaskEngine()


def test_serve_runs_the_call_of_dask(program: Program) -> None:
    """In this process, where a failure has a trace."""
    import pickle

    kind, data = dask_engine.serve(pickle.dumps(CompileRequest(program, Options(), CPU)), {}, None)
    assert kind == "value"
    assert pickle.loads(data).program.module == b"", "the other side has it"


class Failing:
    """A future of a cluster that went wrong."""

    released = False

    def cancelled(self) -> bool:
        return False

    def result(self) -> Any:
        raise OSError("the scheduler is gone")

    def release(self) -> None:
        self.released = True


def test_whatever_becomes_of_a_future_its_job_ends() -> None:
    job: Job[Any] = Job()
    future: Any = Failing()
    dask_engine._settle(job, future, lambda value: value)
    with pytest.raises(ExecutionError, match="The Dask cluster failed: OSError: the scheduler is gone"):
        job.result(1)
    assert future.released
