"""Features of worker processes only: they crash, are killed and are replaced, and leave no files."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector import settings
from inspector.compilation import machine_code
from inspector.compilation.compiled import CompiledProgram, build_options_of
from inspector.compilation.options.options import Options
from inspector.compilation.preview import NOT_COUNTED
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.compilation.target import Target
from inspector.engines.assemble import Shower
from inspector.engines.workers import fork_server, messages, process, worker_lane, worker_main
from inspector.engines.workers.messages import read_error, write_error
from inspector.engines.workers.worker_engine import WorkerEngine, WorkerSettings
from inspector.errors import (
    CancelledError,
    CompilationError,
    ExecutionError,
    InspectorError,
    StartLimitError,
    TargetError,
    TimeLimitError,
    WorkerDiedError,
    WorkerLostError,
)
from tests.conftest import ROOT, RunPython
from tests.engines import programs

CPU = Target.parse("cpu")
# Measured on jaxlib 0.10.2 and 0.12.0: the first always takes the process down, the second aborts on 0.10.2 and is an
# error on 0.12.
KILLER = {"xla_unsupported_crash_on_hlo_pass_noop_change": True}
LENGTH_ERROR = {"xla_cpu_parallel_codegen_split_count": -5}

linux = pytest.mark.skipif(not fork_server.ForkServer.supported(), reason="reads /proc, and forks")


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


def request(fun: Any = jnp.sin, *shape: int, flags: Any = None, target: Target = CPU) -> CompileRequest:
    args = jax.ShapeDtypeStruct(shape or (4,), jnp.float32)
    return CompileRequest(programs.lower(fun, args), Options(flags=flags or {}), target)


def slow(x: jax.Array) -> jax.Array:
    """Seconds to compile: many small fusions that differ."""
    for i in range(400):
        x = jnp.sin(x * (i + 1.5)) @ jnp.ones((4, 4)) + i
    return x


def product(x: jax.Array) -> jax.Array:
    """Has a dot, so that layout assignment has something to do."""
    return jnp.sin(x) @ x


def served_pids(parent: int) -> dict[int, int]:
    """The processes that serve engines of `parent`, with the parent of each: fork servers and workers."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if words[0] != "Z" and b"worker_main" in command:
                found[int(entry.name)] = int(words[1])
    return {pid: above for pid, above in found.items() if above == parent or found.get(above) == parent}


def all_pids(parent: int) -> list[int]:
    """Fork servers and workers."""
    return sorted(served_pids(parent))


def worker_pids(parent: int) -> list[int]:
    """The workers that fork servers made."""
    return sorted(pid for pid, above in served_pids(parent).items() if above != parent)


def wait_gone(pids: list[int], limit_s: float = 5.0) -> list[int]:
    """Waits until none of the processes is left; those that are."""
    until = time.monotonic() + limit_s
    left = pids
    while left and time.monotonic() < until:
        left = [p for p in left if _running(p)]
        time.sleep(0.02)
    return left


def _running(pid: int) -> bool:
    """Reports whether any thread of a process is left: until then its files are open, even if its first thread is a zombie."""
    try:
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        return threads > 1 or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@linux
@pytest.mark.parametrize("flags", [KILLER, LENGTH_ERROR], ids=lambda flags: next(iter(flags)))
def test_a_killer_flag_costs_one_worker_and_is_named(engine: WorkerEngine, flags: dict[str, Any]) -> None:
    before = engine.submit(request(product)).result(120)
    workers = set(worker_pids(os.getpid()))
    queued = [engine.submit(request(product, flags=flags)), engine.submit(request(jnp.tanh))]
    with pytest.raises((WorkerDiedError, CompilationError)) as caught:
        queued[0].result(120)
    ((name, value),) = flags.items()
    assert f"{name}={str(value).lower()}" in str(caught.value)  # as XLA_FLAGS has it
    assert "tanh" in queued[1].result(120).hlo
    assert engine.submit(request(product)).result(120).hlo == before.hlo
    # jaxlib 0.12 refuses what took 0.10 down; such a process may hold XLA's locks, so it is replaced as well.
    assert len(workers - set(worker_pids(os.getpid()))) == 1
    assert isinstance(caught.value, WorkerDiedError) or flags is LENGTH_ERROR


@linux
def test_the_fatal_line_is_quoted(engine: WorkerEngine) -> None:
    error = engine.submit(request(product, flags=KILLER)).exception(120)
    assert "(SIGABRT)" in str(error)
    assert "hash of HLO was not updated" in str(error)
    assert "while compiling 'jit_product' for cpu" in str(error)


@linux
def test_a_variable_that_changes_is_read_by_the_next_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA reads it once in a process, and what a cache keeps is found by the value at the request."""
    engine = WorkerEngine()
    program = programs.lower(lambda x: jax.nn.softmax(x) / (1 + jnp.exp(-x)), jax.ShapeDtypeStruct((64, 64), "float32"))

    def compiled(**flags: bool) -> CompiledProgram:
        return engine.submit(CompileRequest(program, Options(flags=flags), CPU)).result(120)

    plain, fast = compiled(), compiled(xla_cpu_enable_fast_math=True)
    assert machine_code.differ(plain, fast) is True
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", f"{os.environ['XLA_FLAGS']} --xla_cpu_enable_fast_math=true")
        assert machine_code.differ(compiled(), fast) is False
    assert machine_code.differ(compiled(), plain) is False
    engine.close()


def test_a_killed_worker_is_replaced(engine: WorkerEngine) -> None:
    engine.warm(CPU).result(120)
    before = worker_pids(os.getpid())
    job = engine.submit(request(slow, 4, 4))
    queued = engine.submit(request(jnp.cos))
    _wait_stage(job, "compiling")
    assert queued.stage == "queued behind compiling 'jit_slow' for cpu"
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(
        WorkerDiedError,
        match=r"ended the worker \(SIGKILL\) while compiling 'jit_slow' for cpu with default flags",
    ):
        job.result(60)
    assert queued.result(60).hlo


@linux
def test_an_idle_worker_that_died_is_not_noticed(engine: WorkerEngine) -> None:
    engine.submit(request(jnp.cos)).result(120)
    for pause_s in (0.2, 0.0):  # without a pause the request may be on its way to the dead
        for pid in worker_pids(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        time.sleep(pause_s)
        assert engine.submit(request(jnp.cos)).result(60).hlo


@pytest.mark.slow
@linux
def test_a_request_whose_fork_server_died_moves_to_another_worker() -> None:
    mine = {*all_pids(os.getpid())}
    engine = WorkerEngine(WorkerSettings(start="fork"))
    try:
        engine.warm(CPU).result(120)
        (server,) = served_pids(os.getpid()).keys() - mine - set(worker_pids(os.getpid()))
        job = engine.submit(request(slow, 4, 4))
        queued = engine.submit(request(jnp.cos))
        elsewhere = engine.submit(request(product, 4, 4, target=Target.parse("cpu:2")))
        _wait_stage(job, "compiling")
        os.kill(server, signal.SIGKILL)
        assert [bool(each.result(120).hlo) for each in (job, queued, elsewhere)] == [True] * 3
        assert server not in served_pids(os.getpid())
    finally:
        engine.close()


@pytest.mark.slow
@linux
def test_a_fork_server_that_keeps_dying_costs_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WorkerEngine(WorkerSettings(start="fork"))
    deaths = []
    began = fork_server._Forked.receive

    def dies(self: fork_server._Forked) -> Any:
        header, blobs = began(self)
        if header.get("stage") == "compiling":
            deaths.append(engine._starter._fork_server._popen)
            os.kill(deaths[-1].pid, signal.SIGKILL)
        return header, blobs

    monkeypatch.setattr(fork_server._Forked, "receive", dies)
    try:
        with pytest.raises(WorkerDiedError, match="while compiling 'jit_slow'"):
            engine.submit(request(slow, 4, 4)).result(120)
        assert len(deaths) == 2
    finally:
        engine.close()


@linux
@pytest.mark.slow
def test_a_fork_server_killed_between_requests_is_started_again() -> None:
    engine = WorkerEngine(WorkerSettings(start="fork"))
    try:
        engine.warm(CPU).result(120)
        server = engine._starter._fork_server._popen
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        assert engine.submit(request(jnp.cos, target=Target.parse("cpu:2"))).result(120).hlo
    finally:
        engine.close()


@linux
@pytest.mark.slow
def test_no_room_for_a_worker_costs_the_others_nothing(tmp_path: Path) -> None:
    engine = WorkerEngine(WorkerSettings(start="fork"))
    try:
        engine.warm(CPU).result(120)
        server = engine._starter._fork_server._popen
        assert server is not None
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, 4096))
        with pytest.raises(WorkerDiedError, match=r"could not fork a worker: .*Too many open files"):
            engine.warm(Target.parse("cpu:2")).result(120)
        assert engine.submit(request(jnp.cos)).result(120).hlo
    finally:
        engine.close()


@linux
@pytest.mark.slow
def test_nothing_is_left_when_a_kernel_goes_before_it_reads_a_reply() -> None:
    server = fork_server.ForkServer()
    control = server._start()
    assert server._popen is not None
    ours, theirs = socket.socketpair()
    with ours, theirs, process.Log().file as log:
        order = {"do": "fork", "environment": {"platform": "cpu", "device_count": 1, "max_executables": 1}}
        socket.send_fds(control, [json.dumps(order).encode()], [theirs.fileno(), log.fileno()])
        assert "scratch" not in json.loads(control.recv(1 << 16))  # it says first that it has started
        scratch = Path(json.loads(control.recv(1 << 16, socket.MSG_PEEK))["scratch"])
        assert scratch.is_dir()
        control.close()  # with a reply in it, which makes the other end's next read an error
        assert server._popen.wait(60) == 0
    assert not scratch.exists()
    server.close()


@linux
def test_cancel_stops_the_compile(engine: WorkerEngine) -> None:
    engine.warm(CPU).result(120)
    before = worker_pids(os.getpid())
    job = engine.submit(request(slow, 4, 4))
    _wait_stage(job, "compiling")
    assert job.cancel()
    with pytest.raises(CancelledError):
        job.result(0)
    until = time.monotonic() + 60
    while not (gone := [p for p in before if not _running(p)]) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(gone) == 1  # one that has only ended its compile would wait for the next
    assert engine.submit(request(jnp.cos)).result(60).hlo


@linux
def test_time_limit() -> None:
    hang = {"xla_cpu_parallel_codegen_split_count": 2**31 - 1}
    engine = WorkerEngine(WorkerSettings(time_limit_s=4))
    try:
        engine.warm(CPU).result(120)
        with pytest.raises(TimeLimitError, match=r"split_count=2147483647 took longer than the limit of 4 s"):
            engine.submit(request(product, flags=hang)).result(120)
        assert engine.submit(request(jnp.cos)).result(60).hlo
    finally:
        engine.close()


@pytest.mark.slow
def test_time_limit_of_the_settings() -> None:
    hang = {"xla_cpu_parallel_codegen_split_count": 2**31 - 1}
    engine = WorkerEngine()
    try:
        engine.warm(CPU).result(120)
        with inspector.settings.scope(time_limit_s=4):
            limited = engine.submit(request(product, flags=hang))
        with pytest.raises(TimeLimitError, match=r"took longer than the limit of 4 s"):
            limited.result(120)
        assert engine.submit(request(jnp.cos)).result(60).hlo
    finally:
        engine.close()


@linux
@pytest.mark.slow
def test_workers_are_replaced_after_enough_requests() -> None:
    engine = WorkerEngine(WorkerSettings(max_requests=2))
    try:
        pids = set()
        compiled = [engine.submit(request(jnp.cos, n)).result(120) for n in (1, 2, 3)]
        for c in compiled:
            pids |= set(worker_pids(os.getpid()))
            reply = engine.run(RunRequest(c, (np.zeros(c.program.arguments[0].shape, np.float32),), (False,), 1, 0))
            np.testing.assert_array_equal(reply.result(60).outputs[0], 1)
        assert len(pids) >= 2
    finally:
        engine.close()


@linux
def test_workers_are_replaced_when_they_grow() -> None:
    engine = WorkerEngine(WorkerSettings(memory_limit_bytes=1))
    try:
        engine.submit(request(jnp.cos)).result(120)
        engine.warm(CPU).result(60)
        first = worker_pids(os.getpid())
        engine.submit(request(jnp.cos)).result(120)
        engine.warm(CPU).result(60)
        assert len(set(first) ^ set(worker_pids(os.getpid()))) == 2
    finally:
        engine.close()


@pytest.mark.slow
@linux
def test_the_longest_unused_workers_end() -> None:
    targets = [Target.parse(f"cpu:{n}") for n in (1, 2, 3, 4)]
    engine = WorkerEngine(WorkerSettings(max_workers=2))
    mine = {*worker_pids(os.getpid())}
    try:
        for target in (*targets, *targets):  # each is asked again after its worker ended
            assert engine.submit(request(jnp.cos, target=target)).result(120).hlo
        until = time.monotonic() + 60
        while len(left := {*worker_pids(os.getpid())} - mine) > 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(left) == 2
        job = engine.submit(request(slow, 4, 4, target=targets[0]))
        for target in targets[1:]:  # at work, though the longest unused
            engine.warm(target).result(120)
        assert job.result(120).hlo
    finally:
        engine.close()


@linux
def test_close_ends_every_process() -> None:
    mine = set(all_pids(os.getpid()))
    engine = WorkerEngine()
    job = engine.submit(request(slow, 4, 4))
    engine.warm(Target.parse("cpu:2")).result(120)
    _wait_stage(job, "compiling")
    pids = sorted(set(all_pids(os.getpid())) - mine)
    assert len(pids) == 3
    engine.close()
    assert wait_gone(pids) == []
    with pytest.raises(CancelledError, match="closed"):
        job.result(0)


KERNEL = """
import sys, time
import jax.numpy as jnp, jax
from tests.engines import programs
from tests.engines.workers.test_worker_engine import all_pids, slow
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.shared_engines import worker_engine
import os

if __name__ == "__main__":
    engine = worker_engine()
    program = programs.lower(slow, jax.ShapeDtypeStruct((4, 4), jnp.float32))
    engine.warm(Target.parse("cpu:2")).result(120)
    job = engine.submit(CompileRequest(program, Options(), Target.parse("cpu")))
    while job.stage != "compiling":
        time.sleep(0.01)
    print(*all_pids(os.getpid()), flush=True)
    {then}
"""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("then", ["time.sleep(60)", "sys.exit(0)", "raise SystemError('on purpose')"])
def test_no_orphans(then: str) -> None:
    script = textwrap.dedent(KERNEL).replace("{then}", then)
    kernel = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    with kernel:
        assert kernel.stdout is not None
        pids = [int(p) for p in kernel.stdout.readline().split()]
        assert len(pids) == 3
        if "sleep" in then:
            kernel.kill()
        kernel.wait(30)
    assert wait_gone(pids) == []


@linux
def test_ctrl_c_does_not_reach_workers(engine: WorkerEngine) -> None:
    engine.warm(CPU).result(120)
    for pid in all_pids(os.getpid()):
        assert os.getpgid(pid) != os.getpgid(0)
        assert os.getsid(pid) != os.getsid(0)
        assert "fork-server" in Path(f"/proc/{pid}/cmdline").read_text()


def test_eight_devices_from_a_kernel_with_one(one_device_python: RunPython) -> None:
    script = """
        import jax, numpy as np
        from tests.engines import programs
        from inspector.compilation.options.options import Options
        from inspector.compilation.request import CompileRequest, RunRequest
        from inspector.compilation.target import Target
        from inspector.engines.shared_engines import default_engine
        assert len(jax.devices()) == 1
        fun, args, numpy_fun = programs.sharded_step()
        program, target = programs.lower(fun, *args), Target.parse("cpu:8")
        engine = default_engine(program, target)
        compiled = engine.submit(CompileRequest(program, Options(), target)).result(120)
        assert "all-reduce" in compiled.hlo and "collective-permute" in compiled.hlo
        x, w = programs.random_inputs(args)
        reply = engine.run(RunRequest(compiled, (x, w), (False, False))).result(120)
        for got, wanted in zip(reply.outputs, numpy_fun(x, w), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        assert len(jax.devices()) == 1
        print(engine.name)
    """
    assert one_device_python(textwrap.dedent(script)).stdout.strip() == "worker"


def test_spawned_worker() -> None:
    engine = WorkerEngine(WorkerSettings(start="spawn"))
    try:
        compiled = engine.submit(request(jnp.cos, 3)).result(120)
        reply = engine.run(RunRequest(compiled, (np.zeros(3, np.float32),), (False,), 1, 0)).result(60)
        np.testing.assert_array_equal(reply.outputs[0], 1)
        error = engine.submit(request(product, flags=KILLER)).exception(120)
        assert isinstance(error, WorkerDiedError)
        assert next(iter(KILLER)) in str(error)
    finally:
        engine.close()


@linux
def test_a_broken_fork_server_falls_back_to_spawning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: fork_server.ForkServer, environment: Any, limit_s: float) -> process.Process:
        raise process.StartError("on purpose")

    monkeypatch.setattr(fork_server.ForkServer, "fork", broken)
    engine = WorkerEngine()
    try:
        assert engine.submit(request(jnp.cos, 3)).result(120).hlo
    finally:
        engine.close()


def test_host_callbacks_are_refused(engine: WorkerEngine) -> None:
    program = programs.lower(_prints, jax.ShapeDtypeStruct((2,), jnp.float32))
    assert program.host_callbacks
    with pytest.raises(TargetError, match="engine='inline'"):
        engine.submit(CompileRequest(program, Options(), CPU)).result(60)


@linux
def test_messages_of_xla_become_warnings(engine: WorkerEngine) -> None:
    flags = {"xla_disable_hlo_passes": "no-such-pass", "xla_dump_to": "/dev/null/nowhere"}
    compiled = engine.submit(request(jnp.sin, 5, flags=flags)).result(120)
    assert any("/dev/null/nowhere" in line for line in compiled.warnings)
    assert engine.submit(request(jnp.sin, 6)).result(120).warnings == ()


def test_a_corrupt_executable_is_an_error(engine: WorkerEngine) -> None:
    compiled = engine.submit(request(lambda x: x * 7, 3)).result(120)
    engine.submit(request(jnp.cos, 3)).result(120)
    broken = dataclasses.replace(
        compiled, _executable=b"junk", options=Options(flags={"xla_llvm_disable_expensive_passes": True})
    )
    job = engine.run(RunRequest(broken, (np.zeros(3, np.float32),), (False,)))
    assert isinstance(job.exception(60), (ExecutionError, WorkerDiedError))


def _prints(x: jax.Array) -> jax.Array:
    jax.debug.print("x is {}", x)
    return x + 1


def _wait_stage(job: Any, stage: str) -> None:
    until = time.monotonic() + 60
    while job.stage != stage:
        assert time.monotonic() < until
        assert not job.done(), job.exception()
        time.sleep(0.005)


def scratch_directories(kernel: int) -> set[Path]:
    return set(Path("/dev/shm").glob(f"inspector-{kernel}-*"))


@linux
def test_a_users_own_dump_works_and_the_preview_comes_with_the_result(engine: WorkerEngine, tmp_path: Path) -> None:
    flags = {"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_text": True}
    job = engine.submit(request(product, flags=flags))
    preview, compiled = job.preview(120), job.result(120)
    assert not preview.before_code
    assert preview.hlo == compiled.hlo
    assert list(tmp_path.glob("*before_optimizations.txt"))
    assert not list(tmp_path.glob("*.hlo.pb"))


@linux
def test_the_internal_dump_is_not_a_user_option(engine: WorkerEngine) -> None:
    asked = request(product)
    job = engine.submit(asked)
    assert job.preview(120).before_code
    compiled = job.result(120)
    assert compiled.options == Options()
    assert build_options_of(compiled) == build_options_of(asked)
    assert compiled.warnings == ()
    plain = engine.submit(request(product, flags={"xla_dump_hlo_pass_re": "^$", "xla_enable_dumping": False}))
    assert plain.result(120).hlo == compiled.hlo
    assert not plain.preview().before_code


@linux
def test_a_reader_does_not_wait_for_code(engine: WorkerEngine) -> None:
    job = engine.submit(request(slow))
    preview = job.preview(120)
    assert not job.done()
    assert "sine" in preview.hlo
    assert job.cancel()
    assert job.preview().hlo is preview.hlo
    assert job.preview().is_counted
    assert engine.submit(request(product)).result(120).hlo


@linux
def test_a_worker_that_dies_before_it_has_counted_leaves_the_hlo(
    engine: WorkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear = Shower.hear

    def die_next(shower: Shower, header: dict[str, Any], blobs: list[bytes]) -> None:
        if "preview" in header:
            hear(shower, header, blobs)
            for pid in worker_pids(os.getpid()):
                os.kill(pid, signal.SIGKILL)

    engine.submit(request(product)).result(120)
    with monkeypatch.context() as patched:
        patched.setattr(Shower, "hear", die_next)
        job = engine.submit(request(slow))
        assert isinstance(job.exception(120), WorkerDiedError)
    assert "sine" in job.preview().hlo
    assert job.preview(counted=True).cost == NOT_COUNTED
    assert engine.submit(request(product)).result(120).hlo


@linux
def test_the_early_report_is_not_sent_stored_or_read_again(engine: WorkerEngine) -> None:
    job = engine.submit(request(product))
    preview, compiled = job.preview(120, counted=True), job.result(120)
    assert compiled.hlo is preview.hlo
    assert compiled.hlo_proto is preview.hlo_proto
    assert compiled.cost == preview.cost
    assert compiled.module() is preview.module()


@linux
@pytest.mark.slow
def test_nothing_is_left_in_memory_of_a_worker_that_was_killed() -> None:
    before = scratch_directories(os.getpid())
    engine = WorkerEngine()
    try:
        job = engine.submit(request(slow))
        job.preview(120)
        assert len(scratch_directories(os.getpid()) - before) == 1
        job.cancel()
        engine.submit(request(product)).result(120)
        assert len(scratch_directories(os.getpid()) - before) == 1
    finally:
        engine.close()
    assert scratch_directories(os.getpid()) == before


@linux
@pytest.mark.slow
def test_nothing_is_left_in_memory_of_a_kernel_that_was_killed() -> None:
    script = """
        import os, signal
        from pathlib import Path
        import jax.numpy as jnp
        from tests.engines.workers.test_worker_engine import request, slow
        from inspector.engines.shared_engines import worker_engine
        worker_engine().submit(request(slow)).preview(120)
        print(os.getpid(), len(list(Path("/dev/shm").glob(f"inspector-{os.getpid()}-*"))), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert len(done.stdout.split()) == 2, done.stderr
    kernel, count = map(int, done.stdout.split())
    assert count == 1
    until = time.monotonic() + 60
    while scratch_directories(kernel) and time.monotonic() < until:
        time.sleep(0.05)
    assert scratch_directories(kernel) == set()


@linux
@pytest.mark.slow
def test_folders_of_a_killed_kernel_and_fork_server_are_deleted_by_the_next() -> None:
    script = """
        import os, signal
        from tests.engines.workers.test_worker_engine import all_pids, request, slow, worker_pids
        from inspector.engines.shared_engines import worker_engine
        worker_engine().submit(request(slow)).preview(120)
        (server,) = set(all_pids(os.getpid())) - set(worker_pids(os.getpid()))
        print(os.getpid(), *all_pids(os.getpid()), flush=True)
        os.kill(server, signal.SIGSTOP)
        os.kill(server, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    kernel, *pids = map(int, done.stdout.split())
    assert wait_gone(pids) == []
    assert scratch_directories(kernel)
    engine = WorkerEngine()
    try:
        engine.warm(CPU).result(120)
        until = time.monotonic() + 60
        while scratch_directories(kernel) and time.monotonic() < until:
            time.sleep(0.05)
        assert scratch_directories(kernel) == set()
    finally:
        engine.close()


def test_results_go_with_the_last_reference(engine: WorkerEngine) -> None:
    """Else a kernel that toggles grows until the garbage collector comes by."""
    engine.submit(request(product)).result(120)
    gc.collect()
    gc.disable()
    try:
        job = engine.submit(request(product))
        job.result(120)
        held = weakref.ref(job)
        engine.submit(request(jnp.cos)).result(120)  # the lane's thread is done with the first
        del job
        assert held() is None
    finally:
        gc.enable()


@linux
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_fork_server_that_is_stopped_is_replaced() -> None:
    engine = WorkerEngine(WorkerSettings(start="fork"))
    try:
        engine.submit(request(target=Target.parse("cpu"))).result(60)
        before = engine._starter._fork_server._popen
        assert before is not None
        os.kill(before.pid, signal.SIGSTOP)
        assert (
            engine.submit(request(target=Target.parse("cpu:2"))).result(60).hlo
        )  # another environment, so another worker
        assert before.poll() is not None
        assert engine.submit(request(target=Target.parse("cpu"))).result(60).hlo  # whose worker went with its server
    finally:
        engine.close()


@linux
@pytest.mark.timeout(120)
def test_the_time_limit_covers_the_start_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the way of starting may outlast the limit: a server that does not come up, a worker that does not."""
    engine = WorkerEngine(WorkerSettings(start="fork", time_limit_s=2.0))
    never = "import time; time.sleep(1000)"
    try:
        with monkeypatch.context() as patch:
            patch.setattr(fork_server, "command", lambda *_: [sys.executable, "-c", never])
            with pytest.raises(StartLimitError, match=r"No worker started for .* within the limit of 2 s"):
                engine.submit(request()).result(60)
            assert engine._starter._fork_server._popen is not None  # it still starts, for the next
    finally:
        engine.close()


@linux
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_the_time_limit_covers_a_stopped_worker(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WorkerEngine(WorkerSettings(start=start))
    kind = fork_server._Forked if start == "fork" else process._Spawned
    receive, stopped = kind.receive, list[int]()

    def stop_first(self: Any) -> Any:
        if not stopped:
            stopped.append(self.pid)
            os.kill(self.pid, signal.SIGSTOP)
        return receive(self)

    try:
        first = engine.submit(request(target=Target.parse("cpu:2"))).result(120)  # the fork server is there
        assert first._executable  # the last that this worker sends: the next to send is the one that starts
        monkeypatch.setattr(kind, "receive", stop_first)
        with (
            settings.scope(time_limit_s=5.0),
            pytest.raises(TimeLimitError, match=r"No worker started for .* within the limit of 5 s"),
        ):
            engine.submit(request()).result(100)
        assert engine.submit(request()).result(100).hlo
    finally:
        engine.close()


@linux
@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_noticed", [True, False])
def test_an_idle_worker_that_was_stopped_is_replaced(is_noticed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_lane, "_TAKEN_LIMIT_S", 2.0)
    if not is_noticed:  # it is stopped between the look and the request
        monkeypatch.setattr(worker_lane, "is_stopped", lambda _: False)
    engine = WorkerEngine()
    try:
        compiled = engine.submit(request()).result(120)
        if not is_noticed:
            assert compiled._executable  # the last that it sends; it is idle
        (lane,) = engine._lanes.values()
        assert lane._worker is not None
        os.kill(stopped := lane._worker.pid, signal.SIGSTOP)
        assert engine.submit(request()).result(120).hlo
        assert lane._worker.pid != stopped
    finally:
        engine.close()


@linux
def test_a_server_that_was_begun_is_the_one_that_forks() -> None:
    starter = fork_server.Starter("fork")
    starter.begin()
    begun = starter._fork_server._popen
    assert begun is not None
    engine = WorkerEngine(starter=starter)
    try:
        starter.begin()
        engine.warm(CPU).result(120)
        starter.begin()
        assert starter._fork_server._popen is begun
    finally:
        engine.close()
    assert begun.poll() is not None
    starter.begin()
    assert starter._fork_server._popen is None  # closed for good


@linux
def test_a_server_that_cannot_start_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "command", lambda *_: ["/no/such/program"])
    starter = fork_server.Starter("fork")
    starter.begin()
    engine = WorkerEngine(starter=starter)
    try:
        with pytest.raises(WorkerLostError, match="No such file or directory"):
            engine.submit(request()).result(100)
    finally:
        engine.close()


@pytest.mark.slow
@linux
def test_the_server_is_ready_before_it_has_imported_all_that_workers_may_need(one_device_python: RunPython) -> None:
    """SciPy is imported while the server is idle, so that later workers need not."""
    starter = fork_server.Starter("fork")
    mine = WorkerEngine(starter=starter)
    try:
        mine.warm(CPU).result(120)
        assert starter._fork_server._popen is not None
        maps, until = Path(f"/proc/{starter._fork_server._popen.pid}/maps"), time.monotonic() + 60
        while "_flapack" not in maps.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        mine.close()
    first = "import sys, inspector.engines.workers.worker_main as main; [main._import(name) for name in main._FIRST]"
    later = ("scipy", "google.protobuf", "inspector.compilation.compiled", "inspector.hlo.reading.columns")
    fresh = one_device_python(f"{first}; print([name for name in {later} if name in sys.modules])")
    assert fresh.stdout == "[]\n"


def test_a_package_that_fails_to_import_does_not_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_extra.py").write_text("raise AttributeError('built for another NumPy')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker_main, "_LATER", ("broken_extra", "colorsys"))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(worker_main, "delete_orphans", lambda: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    list(worker_main._chores())
    assert "colorsys" in sys.modules


@linux
@pytest.mark.slow
def test_closing_does_not_wait_for_a_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WorkerEngine(WorkerSettings(start="fork"))
    monkeypatch.setattr(fork_server, "command", lambda *_: [sys.executable, "-c", "import time; time.sleep(1000)"])
    job = engine.submit(request())
    server = engine._starter._fork_server
    while server._popen is None:
        time.sleep(0.01)
    popen = server._popen
    engine.close()
    assert popen.poll() is not None
    with pytest.raises(InspectorError):
        job.result(10)


@pytest.mark.parametrize("error", [MemoryError(), KeyError("module")], ids=repr)
def test_an_error_in_a_worker_names_the_compile(error: Exception) -> None:
    header, _ = write_error(error)
    read = read_error(header, "compiling 'jit_f' for cpu:8")
    assert isinstance(read, CompilationError)
    assert str(read).startswith(f"The worker failed while compiling 'jit_f' for cpu:8: {type(error).__name__}")


def test_a_request_that_the_worker_cannot_read_is_named(engine: WorkerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = messages.write_compile
    monkeypatch.setattr(messages, "write_compile", lambda *args: ({"do": "compile"}, real(*args)[1]))
    with pytest.raises(CompilationError, match=r"The worker failed while compiling 'jit_product' for cpu:?\d*: "):
        engine.submit(request(product)).result(120)


@linux
def test_stopped_running_and_exited_processes_are_distinguished() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert not fork_server.is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        until = time.monotonic() + 10
        while not fork_server.is_stopped(child.pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert fork_server.is_stopped(child.pid)
    finally:
        child.kill()
        child.wait()
    assert not fork_server.is_stopped(child.pid)


@linux
def test_checking_a_worker_does_not_wait(engine: WorkerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.submit(request(product)).result(120)._executable  # behind which nothing more is waited for
    waits: list[float] = []
    real = fork_server.select.select

    def look(*given: Any) -> Any:
        waits.append(given[3])
        return real(*given)

    monkeypatch.setattr(fork_server.select, "select", look)
    (worker,) = {lane._worker for lane in engine._lanes.values()}
    assert worker is not None
    assert worker.alive()
    assert waits == [0]
