"""Another version of JAX compiles, runs for CPUs, and stays for later requests."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.request import RunRequest
from inspector.compilation.target import Target
from inspector.errors import CancelledError, ExecutionError, TargetError
from inspector.execution.run import choose_inputs, finish, start
from inspector.reports import other_jax, other_jax_connection
from inspector.reports.other_jax import OtherJax
from inspector.stages.lowered import compile_request
from tests.reports.recorded import exploration

ARRAY = np.float32([128, 13])


def log_of_power(x: jax.Array) -> jax.Array:
    """2^128 is infinite. The simplifier of XLA in JAX 0.10 and 0.11 drops both operations."""
    return jnp.log2(jnp.exp2(x))


@pytest.fixture
def engine(other: Path) -> Iterator[OtherJax]:
    engine = OtherJax(find=lambda *_: other)
    yield engine
    engine.close()


@pytest.mark.slow
def test_a_target_names_another_jax_that_compiles_for_it(other: Path, other_version: str) -> None:
    asked: list[tuple[str, str]] = []

    def find(version: str, platform: str, tell: Callable[[str], object]) -> Path:
        asked.append((version, platform))
        return other

    lowered = exploration().lowered
    engine = OtherJax(find=find)
    request = compile_request(lowered, {"xla_cpu_enable_fast_math": True}, Target("cpu").by(other_version))
    compiled = engine.submit(dataclasses.replace(request, products=frozenset({"passes"}))).result(250)
    assert asked == [(other_version, "cpu")]
    assert compiled.versions["jax"] == other_version
    assert str(compiled.target) == f"cpu@jax=={other_version}"
    assert compiled.program is lowered.program
    assert compiled.passes
    assert other_version in compiled.warnings[-1]
    with pytest.raises(Exception, match="xla_no_such"):
        engine.submit(compile_request(lowered, {"xla_no_such": 1}, Target("cpu").by(other_version))).result(250)
    engine.close()


@pytest.mark.slow
def test_its_process_stays_and_runs_programs(engine: OtherJax, other_version: str) -> None:
    target = Target("cpu").by(other_version)
    lowered = inspector.lower(log_of_power, ARRAY)
    began = time.monotonic()
    compiled = engine.submit(compile_request(lowered, None, target)).result(250)
    first_s = time.monotonic() - began
    began = time.monotonic()
    engine.submit(compile_request(lowered, {"xla_cpu_enable_fast_math": True}, target)).result(250)
    assert time.monotonic() - began < first_s / 2
    inputs = choose_inputs(compiled, (ARRAY,), {})
    run = finish(compiled, inputs, start(compiled, inputs, engine, repeat=3, warmup=1).result(250))
    is_simplified = int(other_version.split(".")[1]) < 12
    np.testing.assert_allclose(run.outputs[0], [128 if is_simplified else np.inf, 13], rtol=1e-5)
    assert len(run.durations_s) == 3
    assert run.first_s is not None
    wrong = dataclasses.replace(inputs[0], value=np.zeros(3, np.float32))
    with pytest.raises(ExecutionError):
        start(compiled, (wrong,), engine, repeat=1, warmup=0).result(250)


@pytest.mark.slow
def test_replicas_run_with_their_own_inputs(engine: OtherJax, other_version: str) -> None:
    lowered = inspector.lower(lambda x: jax.lax.psum(x, "i"), ARRAY, axis_env=[("i", 2)])
    compiled = engine.submit(compile_request(lowered, None, Target("cpu:2").by(other_version))).result(250)
    inputs = choose_inputs(compiled, (np.stack([ARRAY, 2 * ARRAY]),), {})
    reply = start(compiled, inputs, engine, repeat=1, warmup=0).result(250)
    assert np.array_equal(reply.outputs[0], np.stack([3 * ARRAY] * 2))


@pytest.mark.slow
def test_a_canceled_compile_ends_its_process_and_the_next_one_starts_it_again(
    engine: OtherJax, other_version: str
) -> None:
    request = compile_request(inspector.lower(log_of_power, ARRAY), None, Target("cpu").by(other_version))
    job = engine.submit(request)
    is_asked = threading.Event()
    job.add_progress_callback(lambda job: is_asked.set() if job.stage.startswith("compiling") else None)
    assert is_asked.wait(60)
    time.sleep(0.5)
    assert job.cancel()
    with pytest.raises(CancelledError):
        job.result(5)
    assert engine.submit(request).result(250).versions["jax"] == other_version


@pytest.mark.slow
def test_an_idle_process_ends_and_starts_again(
    engine: OtherJax, other_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = "from inspector.reports import other_jax_process as p; p._IDLE_S = 1; p.serve()"
    main = other_jax_connection._MAIN.rpartition("from inspector")[0] + serve
    monkeypatch.setattr(other_jax_connection, "_MAIN", main)
    request = compile_request(inspector.lower(log_of_power, ARRAY), None, Target("cpu").by(other_version))
    engine.submit(request).result(250)
    [(_, connection)] = engine._lanes.values()
    process: Any = connection._process
    assert process.wait(60) == 0
    assert engine.submit(request).result(250).versions["jax"] == other_version


@pytest.mark.slow
def test_an_installation_is_no_failure_of_a_side(
    other: Path, other_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[str] = []

    def slow(version: str, *_: object) -> Path:
        time.sleep(0 if installed else 16)
        installed.append(version)
        return other

    monkeypatch.setattr(other_jax.OtherJax.__init__, "__defaults__", (None, slow))
    other_jax.shared_other_jax.cache_clear()
    lowered = inspector.lower(jnp.sin, ARRAY)
    sides = "cpu", f"cpu@jax=={other_version}"
    found = inspector.bisect(lowered, *sides, ARRAY, trial_limit_s=15.0, reproduce=False, show_progress=False)
    other_jax.shared_other_jax().close()
    other_jax.shared_other_jax.cache_clear()
    assert found.verdict == "no difference"


def test_a_version_that_cannot_be_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(version: str, *_: object) -> Path:
        raise TargetError(f"JAX {version} does not exist")

    monkeypatch.setattr(other_jax.OtherJax.__init__, "__defaults__", (None, missing))
    other_jax.shared_other_jax.cache_clear()
    lowered = inspector.lower(jnp.sin, ARRAY)
    for sides in (("cpu", "cpu@jax==0.0.1"), ("cpu@jax==0.0.1", "cpu")):
        with pytest.raises(TargetError, match=r"JAX 0\.0\.1 does not exist"):
            inspector.bisect(lowered, *sides, ARRAY, show_progress=False)
    other_jax.shared_other_jax.cache_clear()


@pytest.mark.slow
def test_a_difference_between_two_versions_is_taken_to_the_pass(
    other: Path, other_version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if (int(jax.__version__.split(".")[1]) < 12) == (int(other_version.split(".")[1]) < 12):
        pytest.skip("both versions simplify it, or none")
    monkeypatch.setattr(other_jax.OtherJax.__init__, "__defaults__", (None, lambda *_: other))
    other_jax.shared_other_jax.cache_clear()
    lowered = inspector.lower(log_of_power, ARRAY)
    found = inspector.bisect(lowered, "cpu", f"cpu@jax=={other_version}", ARRAY, show_progress=False)
    other_jax.shared_other_jax().close()
    other_jax.shared_other_jax.cache_clear()
    assert found.verdict == "found"
    assert [str(each) for each in found.culprits] == [f"target=cpu@jax=={other_version} (good: cpu)"]
    assert "algsimp" in str(found.compiler_pass)
    assert "differences in how JAX lowers are not compared" in found.notes[0]
    found.save_reproduction(tmp_path)
    shown = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True)
    assert (shown.returncode, f"a Python that has JAX {other_version}: run.py bad=" in shown.stdout) == (2, True)
    shown = subprocess.run([other, tmp_path / "run.py", f"bad={other}"], capture_output=True, text=True)
    assert (shown.returncode, f"a Python that has JAX {jax.__version__}: run.py good=" in shown.stdout) == (2, True)
    shown = subprocess.run([sys.executable, tmp_path / "run.py", "bad=/no/python"], capture_output=True, text=True)
    assert (shown.returncode, "/no/python cannot be started" in shown.stdout) == (2, True)
    without_jax = tmp_path / "python"
    without_jax.write_text("#!/bin/sh\nexit 1\n")
    without_jax.chmod(0o700)
    shown = subprocess.run([sys.executable, tmp_path / "run.py", f"bad={without_jax}"], capture_output=True, text=True)
    assert (shown.returncode, "The difference shows" in shown.stdout) == (2, False)
    shown = subprocess.run([sys.executable, tmp_path / "run.py", f"bad={other}"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "1 of 2 values differ" in shown.stdout


def test_accelerators_belong_to_this_process() -> None:
    lowered = exploration().variants[3].lowered
    assert lowered is not None
    engine = OtherJax(find=lambda *_: Path("none"))
    error = engine.submit(compile_request(lowered, None, "tpu@jax==0.9.1")).exception(60)
    assert isinstance(error, TargetError)
    assert "Name their kind" in str(error)
    absent = dataclasses.replace(exploration().baseline.compiled, target=Target("tpu:v5e:2x2").by("0.9.1"))
    with pytest.raises(TargetError, match=r"uses JAX 0\.9\.1, which runs programs for CPUs only"):
        engine.run(RunRequest(absent, (), ())).result(60)
    engine.close()


def test_a_failed_process_is_reported_with_its_output(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
    script.chmod(0o700)
    engine = OtherJax(find=lambda *_: script)
    job = engine.submit(compile_request(exploration().lowered, None, "cpu@jax==0.9.1"))
    assert "The process of JAX 0.9.1 ended with exit code 3. Its output: no such thing" in str(job.exception(60))
    engine.close()
