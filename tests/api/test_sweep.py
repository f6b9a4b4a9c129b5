"""Sweeps: the table, its numbers, failures, the file, interruption."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.api.sweep import NUMBERS, SweepInterrupt, expand, sweep
from inspector.api.sweep_ledger import Ledger, VariantResult
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.engines.dask import DaskEngine
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import (
    FlagTypeError,
    ModuleError,
    ParameterError,
    TargetError,
    Unavailable,
    UnknownFlagError,
    WorkerLostError,
)
from inspector.stages.lowered import Lowered, compile_request
from tests.absent import needs_tpu
from tests.conftest import ROOT

KILLER = "xla_unsupported_crash_on_hlo_pass_noop_change"
FAST, PASSES = "xla_cpu_enable_fast_math", "xla_disable_hlo_passes"
GRID = {FAST: [False, True], PASSES: [None, "fusion"]}


def model(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * jnp.exp(x) - x.mean()


X = jax.ShapeDtypeStruct((32, 48), jnp.float32)


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return inspector.lower(model, X)


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


class Counting:
    """Passes requests on, counts them, and may act before one."""

    name = "counting"

    def __init__(self, engine: Engine, before: Callable[[int], object] = lambda _: None) -> None:
        self.engine = engine
        self.before = before
        self.requests: list[CompileRequest] = []
        self.jobs: list[Job[CompiledProgram]] = []

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        self.requests.append(request)
        job = self.engine.submit(request)
        self.jobs.append(job)
        self.before(len(self.requests))
        return job

    def run(self, request: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise AssertionError("an engine that is the user's stays open")


def test_grid(lowered: Lowered, engine: WorkerEngine) -> None:
    table = sweep(lowered, GRID, ["cpu", "cpu:2"], engine)
    assert list(table.columns) == ["target", FAST, PASSES, *NUMBERS, "error", "warnings", "unknown"]
    assert list(table["target"]) == ["cpu"] * 4 + ["cpu:2"] * 4
    assert list(table[FAST]) == [False, False, True, True] * 2
    assert list(table[PASSES]) == ["default", "fusion"] * 4
    assert list(table["error"]) == [""] * 8


def test_a_function_is_not_a_program() -> None:
    with pytest.raises(ParameterError, match=r"Expected a Lowered, got <function model"):
        sweep(model, targets="cpu")  # type: ignore[arg-type]


def test_arrays_are_axes_and_warnings_are_retained(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    grid = {"xla_backend_optimization_level": np.arange(1, 3), PASSES: "fusoin"}
    table = sweep(lowered, grid, "cpu", engine, path=tmp_path / "sweep")
    assert list(table["xla_backend_optimization_level"]) == [1, 2]
    assert all("has 'fusoin', which is not the name of a known pass" in warning for warning in table["warnings"])
    assert sweep(lowered, grid, "cpu", engine, path=tmp_path / "sweep").equals(table)


def test_numbers_are_those_of_jax(lowered: Lowered, engine: WorkerEngine) -> None:
    row = sweep(lowered, {PASSES: ["fusion"]}, "cpu", engine).iloc[0]
    theirs = jax.jit(model).lower(X).compile(compiler_options={PASSES: "fusion"})
    memory, cost = theirs.memory_analysis(), theirs.cost_analysis()
    assert row["flops"] == cost["flops"]
    assert row["bytes_accessed"] == cost["bytes accessed"]
    assert row["temp_bytes"] == memory.temp_size_in_bytes > 0
    constants = row["peak_bytes"] - memory.temp_size_in_bytes - 2 * 4 * 32 * 48
    assert 0 <= constants <= 64
    assert row["collectives"] == 0
    assert row["compile_s"] > 0


def test_collectives_are_counted(engine: WorkerEngine) -> None:
    spread = inspector.lower(
        lambda x: (lax.psum(x, "i"), lax.ppermute(x, "i", [(0, 1), (1, 0)])), X, axis_env=[("i", 2)]
    )
    table = sweep(spread, targets=["cpu:2", "cpu"], engine=engine)
    assert table["collectives"][0] == 2
    assert table["collectives"].isna()[1]
    assert "TargetError" in table["error"][1]


def test_failures_are_rows(lowered: Lowered, engine: WorkerEngine) -> None:
    table = sweep(lowered, {KILLER: [True, False]}, "cpu", engine)
    assert list(table[KILLER]) == [True, False]
    assert table["error"][0].startswith("WorkerDiedError: ")
    assert KILLER in table["error"][0]
    assert all(table[name].isna()[0] and str(table[name].dtype) == "Float64" for name in NUMBERS)
    assert table["error"][1] == ""
    assert table["flops"][1] > 0


def test_options_that_do_not_fit_a_target_are_a_row(lowered: Lowered, engine: WorkerEngine) -> None:
    devices = "xla_force_host_platform_device_count"
    table = sweep(lowered, {devices: [4, None]}, ["cpu:2"], engine)
    assert "OptionError" in table["error"][0]
    assert table["error"][1] == ""


def test_typing_errors_stop_before_anything_runs(lowered: Lowered, engine: WorkerEngine) -> None:
    counting = Counting(engine)
    with pytest.raises(UnknownFlagError, match=FAST):
        sweep(lowered, {FAST[:-1]: [True]}, "cpu", counting)
    with pytest.raises(FlagTypeError):
        sweep(lowered, [{}, {FAST: 1}], "cpu", counting)
    with pytest.raises(TargetError):
        sweep(lowered, GRID, ["cpu", "cpus"], counting)
    with pytest.raises(ParameterError, match="'dask'"):
        sweep(lowered, GRID, "cpu", "workers")
    with pytest.raises(ParameterError, match="Remove one of the two"):
        sweep(lowered, GRID, "cpu", counting, time_limit_s=1)
    assert counting.requests == []


def test_equal_variants_are_compiled_once(lowered: Lowered, engine: WorkerEngine) -> None:
    counting = Counting(engine)
    table = sweep(
        lowered, [{FAST: True}, f"--{FAST}=true", Options(flags={FAST: True}), None], ["cpu", "cpu:1"], counting
    )
    assert len(counting.requests) == 2
    assert list(table[FAST]) == [True, "default"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, [{}]),
        ("--xla_cpu_enable_fast_math=true", [{FAST: True}]),
        ({}, [{}]),
        ({FAST: True}, [{FAST: True}]),
        ({f"--{FAST}": [None, True]}, [{}, {FAST: True}]),
        ({"num_replicas": [1, 2], FAST: [True]}, [{"num_replicas": 1, FAST: True}, {"num_replicas": 2, FAST: True}]),
        ([{FAST: True}, "", Options(num_partitions=2)], [{FAST: True}, {}, {"num_partitions": 2}]),
        (({FAST: v} for v in (True, False)), [{FAST: True}, {FAST: False}]),
        ({FAST: []}, []),
    ],
)
def test_expand(options: Any, expected: list[dict[str, Any]]) -> None:
    assert [each.as_dict() for each in expand(options)] == expected


def test_an_empty_grid(lowered: Lowered, engine: WorkerEngine) -> None:
    table = sweep(lowered, {FAST: []}, "cpu", engine)
    assert len(table) == 0
    assert list(table.columns) == ["target", *NUMBERS, "error", "warnings", "unknown"]


def test_the_file_has_the_finished_rows(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    grid = {**GRID, KILLER: [False, True]}
    first = sweep(lowered, grid, "cpu", engine, path=path)
    counting = Counting(engine)
    again = sweep(lowered, grid, "cpu", counting, path=path)
    assert counting.requests == []
    assert again.equals(first)
    assert again["compile_s"].equals(first["compile_s"]), "rows of the first sweep, not new ones"
    more = sweep(lowered, grid, ["cpu", "cpu:2"], counting, path=path)
    assert len(counting.requests) == 8
    assert more.iloc[:8].equals(first)


def test_another_program_is_not_in_the_file(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    sweep(lowered, GRID, "cpu", engine, path=path)
    counting = Counting(engine)
    sweep(inspector.lower(lambda x: jnp.cos(x), X), GRID, "cpu", counting, path=path)
    assert len(counting.requests) == 4


def test_another_line_of_code_is_the_same_program(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    """As after a restart of a notebook's kernel, whose cells have other names."""
    path = tmp_path / "rows.jsonl"
    sweep(lowered, GRID, "cpu", engine, path=path)
    scope: dict[str, Any] = {"jnp": jnp}
    exec(compile("\n\ndef model(x):\n  return jnp.sin(x) * jnp.exp(x) - x.mean()", "cell 7", "exec"), scope)
    again = inspector.lower(scope["model"], X)
    assert again.program.digest != lowered.program.digest
    counting = Counting(engine)
    sweep(again, GRID, "cpu", counting, path=path)
    assert counting.requests == []


def test_another_configuration_is_not_in_the_file(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    sweep(lowered, GRID, "cpu", engine, path=path)
    counting = Counting(engine)
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        sweep(lowered, GRID, "cpu", counting, path=path)
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    assert len(counting.requests) == 4


def test_unknown_values_survive_the_file(lowered: Lowered, tmp_path: Path) -> None:

    request = compile_request(lowered)
    finding = VariantResult({"flops": Unavailable("no cost", "use another"), "temp_bytes": 3, "compile_s": 0.1}, "")
    Ledger(tmp_path / "x", lowered).write(request, finding)
    assert Ledger(tmp_path / "x", lowered).read(request) == finding


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_row_that_was_cut_off_is_done_again(lowered: Lowered, engine: WorkerEngine, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    first = sweep(lowered, GRID, "cpu", engine, path=path)
    path.write_bytes(path.read_bytes()[:-cut])
    counting = Counting(engine)
    again = sweep(lowered, GRID, "cpu", counting, path=path)
    assert len(counting.requests) == (0 if cut == 1 else 1)  # the last byte is the line's end
    assert again.drop(columns="compile_s").equals(first.drop(columns="compile_s"))
    untouched = Counting(engine)
    sweep(lowered, GRID, "cpu", untouched, path=path)
    assert untouched.requests == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "is not a file of sweep results"),
        ('{"format": "other"}\n', "is not a file of sweep results"),
        ('{"format": "inspector-sweep", "format_version": 99}\n', "Update inspector"),
    ],
)
def test_other_files_stay_as_they_are(lowered: Lowered, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(ModuleError, match=said):
        sweep(lowered, GRID, "cpu", path=path)
    assert path.read_text() == text


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts, also in a process that a shell has started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_it_and_carries_the_rows_that_there_are(lowered: Lowered, engine: WorkerEngine) -> None:
    class Interrupted(Counting):
        def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
            if len(self.jobs) < 3:
                return super().submit(request)
            self.jobs[1].result(60)
            os.kill(os.getpid(), signal.SIGINT)
            return Job()  # without end: a signal may take until after this call to arrive

    interrupted = Interrupted(engine)
    with pytest.raises(KeyboardInterrupt, match=r"The sweep was stopped after . of 4 variants") as stopped:
        sweep(lowered, GRID, "cpu", interrupted)
    table = stopped.value.rows  # type: ignore[attr-defined]
    assert len(table) < 4
    assert list(table.columns) == ["target", FAST, PASSES, *NUMBERS, "error", "warnings", "unknown"]
    assert all(job.done() for job in interrupted.jobs), "what was under way is cancelled"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_waiting(lowered: Lowered, engine: WorkerEngine) -> None:
    import threading

    class Stuck(Counting):
        def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
            if len(self.jobs) < 2:
                return super().submit(request)
            job: Job[CompiledProgram] = Job()
            self.jobs.append(job)
            return job

    stuck = Stuck(engine)

    def interrupt() -> None:
        for job in stuck.jobs[:2]:
            job.result(60)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    stuck.before = lambda count: threading.Thread(target=interrupt).start() if count == 2 else None
    with pytest.raises(SweepInterrupt, match="after 2 of 4 variants") as stopped:
        sweep(lowered, GRID, "cpu", stuck)
    table = stopped.value.rows
    assert len(table) == 2
    assert list(table["error"]) == ["", ""]
    assert stuck.jobs[3].stage == "cancelled"


@pytest.mark.slow
def test_time_limit(lowered: Lowered) -> None:
    hang = {"xla_cpu_parallel_codegen_split_count": [2**31 - 1, None]}
    table = sweep(lowered, hang, "cpu", time_limit_s=4)
    assert "took longer than the limit of 4 s" in table["error"][0]
    assert table["error"][1] == ""


KILLED = """
import jax, sys
import inspector
from tests.api.test_sweep import GRID, model, X
grid = {**GRID, "xla_backend_optimization_level": [0, 1, 2, 3]}
inspector.sweep(inspector.lower(model, X), grid, "cpu", path=sys.argv[1])
"""


@pytest.mark.slow
def test_resumes_after_a_kill(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not path.exists() or path.read_bytes().count(b"\n") < 4):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert 3 <= len(rows) < 16
    counting = Counting(engine)
    table = sweep(lowered, {**GRID, "xla_backend_optimization_level": [0, 1, 2, 3]}, "cpu", counting, path=path)
    assert len(counting.requests) == 16 - len(rows)
    assert list(table["error"]) == [""] * 16
    known = {row["numbers"]["compile_s"] for row in rows}
    assert known <= set(table["compile_s"])


def test_quiet_in_a_script(lowered: Lowered, engine: WorkerEngine, capfd: pytest.CaptureFixture[str]) -> None:
    sweep(lowered, None, "cpu", engine)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_on_a_dask_cluster(lowered: Lowered, engine: WorkerEngine) -> None:
    distributed = pytest.importorskip("distributed")
    grid = {**GRID, KILLER: [False, True]}
    here = sweep(lowered, grid, ["cpu", "cpu:2"], engine)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        there = sweep(lowered, grid, ["cpu", "cpu:2"], client)
        named = sweep(lowered, GRID, "cpu", "dask")
        assert client.status == "running"
    assert there.drop(columns="compile_s").equals(here.drop(columns="compile_s"))
    assert len(named) == 4


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills processes")
@pytest.mark.timeout(600)
def test_a_worker_of_a_dask_cluster_that_is_killed_costs_no_row(lowered: Lowered, engine: WorkerEngine) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        contextlib.closing(DaskEngine(client)) as there,
    ):
        killed: list[int] = []

        def kill(requests: int) -> None:
            if requests == 2:  # each worker has one of them
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        table = sweep(lowered, GRID, ["cpu", "cpu:2"], Counting(there, kill))
        assert len(killed) == 1
    assert list(table["error"]) == [""] * 8
    assert list(table["flops"]) == list(sweep(lowered, GRID, ["cpu", "cpu:2"], engine)["flops"])


class Losing(Counting):
    """Loses the worker of the first requests, as the system does when memory runs out."""

    def __init__(self, engine: WorkerEngine, losses: int) -> None:
        super().__init__(engine)
        self.losses = losses

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        if len(self.requests) >= self.losses:
            return super().submit(request)
        self.requests.append(request)
        job: Job[CompiledProgram] = Job()
        job.fail(WorkerLostError("Another process ended the worker (SIGKILL)"))
        return job


def test_a_death_from_outside_is_tried_again(lowered: Lowered, engine: WorkerEngine) -> None:
    losing = Losing(engine, 2)
    assert list(sweep(lowered, {FAST: [True]}, "cpu", losing)["error"]) == [""]
    assert len(losing.requests) == 3


def test_a_finished_row_is_not_repeated(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path, losing = tmp_path / "rows.jsonl", Losing(engine, 3)
    table = sweep(lowered, {FAST: [True]}, "cpu", losing, path=path)
    assert table["error"][0].startswith("WorkerLostError: Another process ended the worker")
    again = sweep(lowered, {FAST: [True]}, "cpu", losing, path=path)
    assert list(again["error"]) == [""]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills by /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_a_person_kills_costs_no_row(lowered: Lowered, number: int) -> None:
    engine = WorkerEngine()
    try:
        engine.submit(compile_request(lowered)).result(120)
        (lane,) = engine._lanes.values()

        def kill(requests: int) -> None:
            worker = lane._worker
            if requests == 1 and worker is not None:
                os.kill(worker.pid, signal.SIGSTOP)  # so that it dies in the middle of the request
                time.sleep(0.2)
                os.kill(worker.pid, number)
                os.kill(worker.pid, signal.SIGCONT)

        table = sweep(lowered, GRID, "cpu", Counting(engine, kill))
        assert list(table["error"]) == [""] * 4
    finally:
        engine.close()


@pytest.mark.slow
def test_two_sweeps_of_one_file_write_each_row_once(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    grid = {FAST: [False, True], "xla_backend_optimization_level": [0, 1, 2]}
    tables: list[Any] = []
    with ThreadPoolExecutor(4) as pool:
        tables += pool.map(lambda _: sweep(lowered, grid, "cpu", engine, path=path), range(4))
    keys = [json.loads(line).get("key") for line in path.read_text().splitlines()]
    assert keys[0] is None
    assert len(keys) == len(set(keys)) == 7
    assert all(list(table["error"]) == [""] * 6 for table in tables)


def test_rows_of_a_concurrent_sweep_are_used(lowered: Lowered, engine: WorkerEngine, tmp_path: Path) -> None:
    request, path = compile_request(lowered), tmp_path / "rows.jsonl"
    mine, theirs = Ledger(path, lowered), Ledger(path, lowered)
    theirs.write(request, VariantResult({"flops": 5.0}))
    assert mine.read(request) == VariantResult({"flops": 5.0})
    mine.write(request, VariantResult({"flops": 6.0}))
    assert len(path.read_text().splitlines()) == 2


DAMAGE = {
    "null": b"null", "a number": b"7", "another type": b'{"key": 5}', "no UTF-8": b"\xff\xfe\x00", "deep": b"[" * 100_000,
    "texts for numbers": b'{"key": "K", "target": "", "options": "", "numbers": {"flops": "many"}, "error": ""}',
    "an error that is none": b'{"key": "K", "target": "", "options": "", "numbers": {}, "error": 5}',
    "a nameless reason": b'{"key": "K", "target": "", "options": "", "numbers": {"flops": {"unavailable": 5}}, "error": ""}',
    "a long number": b'{"key": "K", "numbers": ' + b"9" * 10_000 + b"}", "half a pair": b'"\\ud800"',
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_line_is_as_if_it_were_not_there(lowered: Lowered, tmp_path: Path, damage: bytes) -> None:
    path, request, finding = tmp_path / "rows.jsonl", compile_request(lowered), VariantResult({"flops": 5.0})
    ledger = Ledger(path, lowered)
    path.write_bytes(path.read_bytes() + damage.replace(b"K", ledger._key(request).encode()) + b"\n")
    assert Ledger(path, lowered).read(request) is None
    Ledger(path, lowered).write(request, finding)
    _, *rows = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([b'{"form', *rows]))  # without its first line, and cut off at the last
    assert Ledger(path, lowered).read(request) == finding


@pytest.mark.parametrize("length", range(0, 53, 4))
def test_a_first_line_that_was_cut_off_is_written_again(lowered: Lowered, tmp_path: Path, length: int) -> None:
    path, request, finding = tmp_path / "rows.jsonl", compile_request(lowered), VariantResult({"flops": 5.0})
    Ledger(path, lowered)
    path.write_bytes(path.read_bytes()[:length])
    Ledger(path, lowered).write(request, finding)
    assert Ledger(path, lowered).read(request) == finding


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(30)
def test_a_pipe_is_not_a_file_of_rows(lowered: Lowered, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModuleError, match="is a pipe, not a regular file"):
        sweep(lowered, GRID, "cpu", path=tmp_path / "pipe")


def test_a_file_that_cannot_be_written_any_more_ends_no_sweep(
    lowered: Lowered, engine: WorkerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ledger = tmp_path / "rows.jsonl"
    Ledger(ledger, lowered)
    monkeypatch.setattr(os, "fsync", full)
    assert list(sweep(lowered, GRID, "cpu", engine, path=ledger)["error"]) == [""] * 4


@pytest.mark.slow
def test_variants_that_can_run_are_measured_in_turns(tmp_path: Path) -> None:
    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 50, lambda _, c: jnp.tanh(c @ c), x)

    program = inspector.lower(loop, jax.ShapeDtypeStruct((16, 16), jnp.float32))
    grid = {"xla_cpu_enable_fast_math": [None, True]}
    path = tmp_path / "rows.jsonl"
    inspector.sweep(program, grid, ["cpu:1"], path=path)
    table = inspector.sweep(program, grid, ["cpu:1"], path=path, measure=True, repeat=6)
    assert list(table.columns[2:5]) == ["measured_s", "measured_spread_s", "estimated_s"]
    assert (table["measured_s"] > 0).all()
    assert (table["measured_spread_s"] >= 0).all()
    assert "measured_s" not in inspector.sweep(program, grid, ["cpu:1"], path=path)
    with pytest.raises(ParameterError, match="at least 6"):
        inspector.sweep(program, grid, measure=True, repeat=2)
    many = {"xla_cpu_parallel_codegen_split_count": list(range(1, 66))}
    with pytest.raises(ParameterError, match="65 variants can run here, but a sweep measures at most 64"):
        inspector.sweep(program, many, ["cpu:1"], measure=True)


@needs_tpu
def test_variants_that_cannot_run_state_why_they_have_no_measured_time() -> None:
    program = inspector.lower(lambda x: x + 1, jax.ShapeDtypeStruct((16,), jnp.float32), platform="tpu")
    table = inspector.sweep(program, None, ["tpu:v5e:1x1"], measure=True)
    assert table["measured_s"].isna().all()
    assert "measured_s, measured_spread_s: the target is not attached" in table["unknown"].iloc[0]


def test_ctrl_c_while_measuring_keeps_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("inspector.api.sweep.measured_durations", interrupted)
    program = inspector.lower(lambda x: x + 1, jax.ShapeDtypeStruct((16,), jnp.float32))
    with pytest.raises(SweepInterrupt) as caught:
        inspector.sweep(program, None, ["cpu:1"], measure=True)
    assert list(caught.value.rows["target"]) == ["cpu"]
