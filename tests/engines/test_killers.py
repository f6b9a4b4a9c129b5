"""Options that are known to abort XLA or hang it, on some version or program: none costs more than its own result.

Measured on jaxlib 0.10.2 and 0.12.0. Not each of them kills every time and on both, so the tests hold what is always
true: a result, or an error that names the option; then the next request gives what it always gave.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.workers import fork_server
from inspector.engines.workers.worker_engine import WorkerEngine, WorkerSettings
from inspector.errors import CompilationError, OptionError, WorkerDiedError
from tests.conftest import ROOT
from tests.engines import programs
from tests.engines.workers.test_worker_engine import all_pids, wait_gone, worker_pids

pytestmark = pytest.mark.skipif(
    not fork_server.ForkServer.supported(), reason="many new workers, which a fork makes fast"
)

KILLERS: dict[str, Any] = {
    "xla_unsupported_crash_on_hlo_pass_noop_change": True,
    "xla_disable_all_hlo_passes": True,
    "xla_enable_hlo_passes_only": "junk",
    "xla_run_hlo_passes_starting_from": "junk",
    "xla_cpu_parallel_codegen_split_count": -5,
    "xla_reduce_window_rewrite_base_length": -1,
    "xla_backend_extra_options": "--no-such-flag-of-llvm",
    "xla_dump_emitter_re": ".*",
    "device_ordinal": -2,
}
ALWAYS = ("xla_unsupported_crash_on_hlo_pass_noop_change", "xla_backend_extra_options")


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine(WorkerSettings(time_limit_s=60))
    yield made
    made.close()


def product(x: jax.Array) -> jax.Array:
    return jnp.sin(x) @ x


def windows(x: jax.Array) -> jax.Array:
    sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 3), (1, 1), "SAME")
    return jax.lax.fori_loop(0, 3, lambda i, v: jnp.sort(v) + i, jnp.cumsum(sums, axis=1))


def request(fun: Callable[..., Any], flags: dict[str, Any]) -> CompileRequest:
    program = programs.lower(fun, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    return CompileRequest(program, Options(flags=flags), Target.parse("cpu"))


@pytest.mark.parametrize("fun", [product, windows])
@pytest.mark.parametrize("name", KILLERS)
def test_a_killer_costs_its_own_result_at_most(
    engine: WorkerEngine, name: str, fun: Callable[..., Any], tmp_path: Path
) -> None:
    before = engine.submit(request(fun, {})).result(120)
    dump = {"xla_dump_to": str(tmp_path)} if name.startswith("xla_dump") else {}
    hostile = engine.submit(request(fun, {name: KILLERS[name], **dump}))
    queued = engine.submit(request(fun, {}))
    error = hostile.exception(120)
    assert queued.result(120).hlo == before.hlo
    if error is None:
        assert name not in ALWAYS
        return
    assert isinstance(error, (CompilationError, WorkerDiedError, OptionError))
    assert name in str(error)
    if name in ALWAYS:
        assert isinstance(error, WorkerDiedError)
        assert "took longer" not in str(error)


def test_nothing_of_the_dead_is_left(engine: WorkerEngine) -> None:
    engine.submit(request(product, {})).result(120)
    before = scratch_directories()
    for _ in range(3):
        error = engine.submit(request(product, {ALWAYS[0]: True})).exception(120)
        assert isinstance(error, WorkerDiedError)
    engine.submit(request(product, {})).result(120)
    assert len(scratch_directories()) == len(before)
    assert scratch_directories() != before


@pytest.mark.slow
def test_a_compile_that_takes_too_much_memory_is_stopped() -> None:
    """Tells apart the limit within a request from the one after it, which gives the result first."""
    engine = WorkerEngine(WorkerSettings(max_memory_bytes=1 << 20))
    try:
        with pytest.raises(WorkerDiedError, match=r"while compiling 'jit_slow'.*bytes of memory, the limit is 1048576"):
            engine.submit(request(slow, {})).result(120)
    finally:
        engine.close()


def slow(x: jax.Array) -> jax.Array:
    """Takes longer to compile than a worker takes to look at its memory."""
    for i in range(400):
        x = jnp.sin(x * (i + 1.5)) @ jnp.ones((8, 8)) + i
    return x


def test_a_worker_goes_before_the_kernel_when_memory_ends(engine: WorkerEngine) -> None:
    engine.submit(request(product, {})).result(120)
    scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in worker_pids(os.getpid())]
    assert scores
    assert set(scores) == {1000}


def scratch_directories() -> set[Path]:
    return set(Path("/dev/shm").glob(f"inspector-{os.getpid()}-*"))


@pytest.mark.slow
def test_a_fork_server_that_was_killed_costs_no_worker_of_the_next() -> None:
    """A worker of the old server is reaped with the new one, which does not know it."""
    small, large = Target.parse("cpu"), Target.parse("cpu:2")
    others = set(all_pids(os.getpid()))
    engine = WorkerEngine()
    try:
        for target in (small, large):
            engine.warm(target).result(120)
        (server,) = set(all_pids(os.getpid())) - others - set(worker_pids(os.getpid()))
        dead = set(worker_pids(os.getpid())) - others
        os.kill(server, signal.SIGKILL)
        assert wait_gone(sorted(dead)) == []
        engine.warm(small).result(120)
        workers = set(worker_pids(os.getpid())) - others
        engine.warm(large).result(120)
        assert len(workers) == 1
        assert workers < set(worker_pids(os.getpid())) - others
    finally:
        engine.close()


@pytest.mark.slow
def test_a_directory_of_a_killed_kernel_that_no_worker_has_is_not_left() -> None:
    """As when it is killed while it ends a worker, and its lock is free a while after its sockets are."""
    script = """
        import os, signal, subprocess
        from inspector.compilation.target import Target
        from inspector.engines.shared_engines import worker_engine
        from inspector.engines.workers.scratch import Scratch
        worker_engine().warm(Target.parse("cpu")).result(120)
        scratch = Scratch(os.getpid())
        subprocess.Popen(["sleep", "1"], pass_fds=[scratch._descriptor], stdout=subprocess.DEVNULL)
        print(os.getpid(), scratch.path, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert len(done.stdout.split()) == 2, done.stderr
    kernel, made = done.stdout.split()
    until = time.monotonic() + 60
    while (left := list(Path(made).parent.glob(f"inspector-{kernel}-*"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
