"""Features that only the kernel's own client has, and requests that it must refuse."""

from __future__ import annotations

import dataclasses
import textwrap
import threading
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import inspector
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.compilation.target import Target
from inspector.engines import inline
from inspector.engines.cached import CachedEngine
from inspector.engines.inline import InlineEngine
from inspector.engines.shared_engines import close_engines, default_engine, inline_engine, worker_engine
from inspector.errors import CancelledError, ExecutionError, TargetError
from inspector.stages.compiled import Compiled
from tests.conftest import RunPython
from tests.engines import programs

CPU = Target.parse("cpu")
F32X2 = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.fixture(scope="module")
def engine() -> Iterator[InlineEngine]:
    made = InlineEngine()
    yield made
    made.close()


def test_host_callbacks(engine: InlineEngine) -> None:
    seen: list[list[float]] = []

    def record(x: np.ndarray) -> None:
        seen.append(np.asarray(x).tolist())

    def fun(x: jax.Array) -> jax.Array:
        jax.debug.callback(record, x)
        return x + jax.pure_callback(lambda y: np.asarray(y) * 10, F32X2, x)

    lowered = jax.jit(fun).lower(F32X2)
    compiled = engine.submit(CompileRequest(programs.as_program(lowered), Options(), CPU)).result(120)
    assert compiled.hlo == programs.theirs(lowered.compile())
    assert not compiled._executable
    notice, _ = compiled.warnings
    assert "calls back into this process (jax.debug.print, io_callback, pure_callback), so it is compiled" in notice
    reply = engine.run(RunRequest(compiled, (np.float32([1, 2]),), (False,), repeat=2, warmup=1)).result(60)
    np.testing.assert_array_equal(reply.outputs[0], [11, 22])
    assert seen == [[1.0, 2.0]] * 3


def test_callbacks_of_equal_modules_are_not_mixed_up(engine: InlineEngine) -> None:
    compiled = []
    for factor in (2, 3):

        def fun(x: jax.Array, factor: int = factor) -> jax.Array:
            return jax.pure_callback(lambda y: np.asarray(y) * factor, F32X2, x)

        program = programs.lower(lambda x, f=fun: f(x), F32X2)
        compiled.append(engine.submit(CompileRequest(program, Options(), CPU)).result(120))
    assert compiled[0].program.module == compiled[1].program.module
    for c, factor in zip(compiled, (2, 3), strict=True):
        reply = engine.run(RunRequest(c, (np.float32([1, 1]),), (False,), 1, 0)).result(60)
        np.testing.assert_array_equal(reply.outputs[0], [factor] * 2)


def test_callbacks_that_are_gone(engine: InlineEngine) -> None:
    program = programs.lower(lambda x: jax.pure_callback(np.sin, F32X2, x), F32X2)
    saved = dataclasses.replace(program, callbacks=None)
    with pytest.raises(ExecutionError, match="Lower the function again"):
        engine.submit(CompileRequest(saved, Options(), CPU)).result(60)


def test_ordered_effects(engine: InlineEngine) -> None:
    seen: list[float] = []

    def fun(x: jax.Array) -> jax.Array:
        for value in x:
            io_callback(lambda v: seen.append(float(v)), None, value, ordered=True)
        jax.debug.print("{}", x, ordered=True)
        return x * 2

    compiled = engine.submit(CompileRequest(programs.lower(fun, F32X2), Options(), CPU)).result(120)
    reply = engine.run(RunRequest(compiled, (np.arange(2, dtype=np.float32),), (False,), repeat=2, warmup=0)).result(60)
    assert seen == [0.0, 1.0, 0.0, 1.0]
    np.testing.assert_array_equal(reply.outputs[0], [0.0, 2.0])


def test_more_devices_than_there_are(engine: InlineEngine) -> None:
    with pytest.raises(TargetError, match=r"has 8 CPU device\(s\), but 9 were requested.*worker"):
        engine.submit(CompileRequest(programs.lower(jnp.sin, F32X2), Options(), Target.parse("cpu:9"))).result(60)


def test_cancel_reports_that_the_compile_continues(engine: InlineEngine) -> None:
    job = engine.submit(CompileRequest(programs.lower(jnp.sin, F32X2), Options(), CPU))
    cancelled: list[bool] = []
    stopped = threading.Event()

    def cancel(_: object) -> None:
        cancelled.append(job.cancel())
        stopped.set()

    job.add_progress_callback(cancel)
    assert stopped.wait(60)
    if cancelled[0]:
        with pytest.raises(CancelledError, match="continues in the background"):
            job.result(0)


@pytest.mark.slow
def test_default_engine() -> None:
    plain = programs.lower(jnp.sin, F32X2)
    calling = programs.lower(lambda x: jax.pure_callback(np.sin, F32X2, x), F32X2)
    for target in (CPU, Target.parse("attached")):
        remembering = default_engine(plain, target)
        assert isinstance(remembering, CachedEngine)
        assert remembering.engine is worker_engine()
        assert default_engine(plain, target) is remembering
    assert default_engine(calling, CPU) is inline_engine()
    first = worker_engine()
    close_engines()
    assert worker_engine() is not first
    close_engines()


def test_default_engine_with_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector._jax.compiling.attached_devices.attached_platform", lambda: "gpu")
    program = dataclasses.replace(programs.lower(jnp.sin, F32X2), platform="cuda")
    remembering = default_engine(program, Target.parse("attached"))
    assert isinstance(remembering, CachedEngine)
    assert remembering.engine is inline_engine()
    close_engines()


@pytest.mark.slow
def test_a_fork_of_the_kernel_has_separate_engines(one_device_python: RunPython) -> None:
    script = """
        import os, warnings
        warnings.simplefilter("ignore")
        import jax, jax.numpy as jnp
        from tests.engines import programs
        from inspector.compilation.options.options import Options
        from inspector.compilation.request import CompileRequest
        from inspector.compilation.target import Target
        from inspector.engines import shared_engines as engines
        request = CompileRequest(programs.lower(jnp.sin, jax.ShapeDtypeStruct((2,), jnp.float32)), Options(), Target.parse("cpu"))
        first = engines.worker_engine()
        first.submit(request).result(120)
        pid = os.fork()
        if pid == 0:
            engines.close_engines()
            first.close()  # as an exit handler would
            os._exit(0 if engines.worker_engine() is not first else 1)
        assert os.waitpid(pid, 0)[1] == 0
        first.submit(request).result(10)
        print("alive")
    """
    assert one_device_python(textwrap.dedent(script)).stdout.strip() == "alive"


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_callback_without_end_does_not_block_other_programs(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "PATIENCE_S", 60.0 if is_cancelled else 0.5)
    ended, begun = threading.Event(), threading.Event()

    def endless(x: np.ndarray) -> np.ndarray:
        begun.set()
        ended.wait()
        return x

    def calling(fun: Callable[[np.ndarray], np.ndarray]) -> Compiled:
        shape = jax.ShapeDtypeStruct((8,), jnp.float32)
        return inspector.lower(lambda x: jax.pure_callback(fun, shape, x) + 1, shape).compile(engine=engine)

    def run(compiled: Compiled) -> Job[RunReply]:
        return engine.run(RunRequest(compiled, (np.ones(8, np.float32),), (False,), repeat=1, warmup=0))

    engine = InlineEngine()
    stuck, fine = calling(endless), calling(lambda x: x * 2)
    first = run(stuck)
    assert begun.wait(60)
    second = run(fine)
    if is_cancelled:
        first.cancel()
    np.testing.assert_array_equal(second.result(60).outputs[0], 3)
    assert first.done() == is_cancelled
    np.testing.assert_array_equal(run(fine).result(60).outputs[0], 3)
    ended.set()
    if not is_cancelled:
        np.testing.assert_array_equal(first.result(60).outputs[0], 2)
    engine.close()
