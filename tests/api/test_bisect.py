"""Searches, sides, judges and the job of a bisection."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.api.bisection.judges import MeasuredTimeJudge, NumberJudge, Trial
from inspector.api.bisection.search import Memory, minimal_subset, shortest_prefix
from inspector.compilation.request import RunReply, RunRequest
from inspector.errors import (
    CancelledError,
    CompilationError,
    ExecutionError,
    OptionError,
    ParameterError,
    TargetError,
    UnavailableError,
    UnknownFlagError,
)
from inspector.execution.run import choose_inputs
from inspector.stages.bisection.sides import Side, changed, changes_between

X = np.array([1.0, -2.0, 3.0], np.float32)


def guarded(x: jax.Array) -> jax.Array:
    y = jnp.log(x)
    return jnp.where(jnp.isnan(y), 0.0, y) * 2


NANS = {"xla_cpu_enable_fast_math": True, "xla_cpu_fast_math_honor_nans": False}


@pytest.fixture(scope="module")
def lowered() -> inspector.Lowered:
    return inspector.lower(guarded, X)


# ------------------------------------------------------------------ searches


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000])
def test_the_shortest_prefix_is_found_in_log2_trials(count: int) -> None:
    for first in {1, count, (count + 1) // 2, 1 + count // 3}:
        trials: list[int] = []
        assert shortest_prefix(count, lambda n, first=first, trials=trials: trials.append(n) or n >= first) == first  # type: ignore[func-returns-value]
        assert len(trials) <= math.ceil(math.log2(count)) if count > 1 else not trials


def test_minimal_subsets_of_any_size_are_found_with_few_trials() -> None:
    rng = random.Random(0)
    for _ in range(200):
        count = rng.randint(1, 40)
        wanted = frozenset(rng.sample(range(count), rng.randint(1, min(4, count))))
        trials: list[tuple[int, ...]] = []

        def is_bad(chosen: tuple[int, ...], wanted: frozenset[int] = wanted, trials: list[Any] = trials) -> bool:
            trials.append(chosen)
            return wanted <= {*chosen}

        assert minimal_subset(range(count), is_bad) == tuple(sorted(wanted))
        assert len(trials) <= len(wanted) * (math.ceil(math.log2(count)) + 1)


def test_a_result_without_its_last_element_was_good_even_if_outcomes_are_not_monotone() -> None:
    memory = Memory()
    outcome = {(): False, (0,): False, (0, 1): True, (0, 1, 2): False}

    def is_bad(chosen: tuple[int, ...]) -> bool:
        return memory.outcome(chosen, lambda: outcome.get(chosen, True))

    assert is_bad(minimal_subset(range(4), is_bad))
    is_bad((0, 1))
    is_bad((0, 1, 2))
    assert not memory.is_monotone


# ------------------------------------------------------------------ sides


@pytest.mark.parametrize(
    "form",
    [
        NANS,
        inspector.Options.of(NANS),
        "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false",
        ("cpu:2", NANS),
    ],
)
def test_a_side_has_the_forms_of_options(form: Any) -> None:
    side = Side.of(form, "cpu:2")
    assert side == Side(inspector.Target("cpu:2"), inspector.Options.of(NANS))
    assert pickle.loads(pickle.dumps(side)) == side


def test_changes_lead_from_one_side_to_the_other() -> None:
    good = Side.of({"xla_disable_hlo_passes": "dce,cse", "xla_gpu_ftz": True}, "cpu")
    bad = Side.of(("cpu:2", {"xla_disable_hlo_passes": "cse,algsimp", "xla_backend_optimization_level": 1}), "cpu")
    changes = changes_between(good, bad)
    assert {str(each) for each in changes} == {
        "target=cpu:2 (good: cpu)",
        "xla_backend_optimization_level=1",
        "xla_disable_hlo_passes with algsimp",
        "xla_disable_hlo_passes without dce",
        "xla_gpu_ftz not set (good: true)",
    }
    assert changed(good, changes) == bad
    assert changed(good, ()) == good


# ------------------------------------------------------------------ bad input


def test_invalid_parameters_are_refused(lowered: inspector.Lowered) -> None:
    other = inspector.lower(lambda x: x + 1, X).compile({}, "cpu")
    missing = lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((3,), jnp.float32))(x)  # noqa: E731
    cases: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = {
        "Expected a Lowered": ((guarded, {}, {}), {}, ParameterError),
        "by must be 'values', 'memory'": ((lowered, {}, NANS), {"by": "speed"}, ParameterError),
        "rtol and atol are tolerances of values": ((lowered, {}, NANS), {"by": "memory", "rtol": 1}, ParameterError),
        r"rtol is -1\. Expected a number that is not negative": ((lowered, {}, NANS), {"rtol": -1}, ParameterError),
        r"atol is nan\. Expected a number": ((lowered, {}, NANS), {"atol": math.nan}, ParameterError),
        "xla_nonsense": ((lowered, {}, {"xla_nonsense": 1}), {}, UnknownFlagError),
        "pair of a target and options": ((lowered, {}, ("cpu", {}, 3)), {}, ParameterError),
        "Unknown target 'cpu@jax=0.12.0.1'.*'cpu@jax==0.12.0.1'": ((lowered, {}, "cpu@jax=0.12.0.1"), {}, TargetError),
        "A side is options, a target such as 'cpu'.* got 5": ((lowered, {}, 5), {}, ParameterError),
        "runs the program, but tpu:v5e:2x2": ((lowered, {}, "tpu:v5e:2x2"), {}, TargetError),
        "was compiled from another program": ((lowered, {}, other), {}, ParameterError),
        "wait must be True or False": ((lowered, {}, NANS), {"wait": 1}, OptionError),
        "time_limit_s": ((lowered, {}, NANS), {"time_limit_s": -1}, ParameterError),
        "kwargs must be a mapping": ((lowered, {}, NANS), {"kwargs": 3}, ParameterError),
        r"takes 1 array": ((lowered, {}, NANS, X, X), {}, ExecutionError),
        "cannot be compiled, so nothing": (
            (inspector.lower(missing, X), {}, {}),
            {}, CompilationError,
        ),
    }  # fmt: skip
    for message, (args, kwargs, error) in cases.items():
        with pytest.raises(error, match=message):
            inspector.bisect(*args, **{"target": "cpu", **kwargs})


def test_a_predicate_that_fails_is_reported(lowered: inspector.Lowered) -> None:
    with pytest.raises(ParameterError, match=r"The predicate <lambda> failed for .*ZeroDivisionError"):
        inspector.bisect(lowered, {}, NANS, X, target="cpu", by=lambda compiled: 1 / 0 > 0)
    with pytest.raises(ParameterError, match="must return True or False, got 'yes'"):
        inspector.bisect(lowered, {}, NANS, X, target="cpu", by=lambda compiled: "yes")  # type: ignore[return-value,arg-type]


# ------------------------------------------------------------------ results


def test_equal_sides_have_no_difference(lowered: inspector.Lowered) -> None:
    found = inspector.bisect(lowered, {}, {"xla_gpu_ftz": True}, X, target="cpu")
    assert (found.verdict, found.culprits, found.compiles()) == ("no difference", (), 2)
    with pytest.raises(UnavailableError, match="there is no difference to search for"):
        found.save_reproduction("nowhere")
    with pytest.raises(UnavailableError):
        found.changes_table()


def test_a_predicate_that_is_true_for_both_sides_has_no_difference(lowered: inspector.Lowered) -> None:
    found = inspector.bisect(lowered, {}, NANS, X, target="cpu", by=lambda compiled: True)
    assert (found.verdict, found.difference) == ("no difference", "True, good True")


def test_a_side_that_differs_from_itself_is_flaky(lowered: inspector.Lowered) -> None:
    answers = iter([True, False, False, False])
    found = inspector.bisect(lowered, {}, NANS, X, target="cpu", by=lambda compiled, run: next(answers))
    assert found.verdict == "flaky"
    assert not found.culprits
    assert "does not always give the same result" in found.notes[0]


@pytest.mark.slow
def test_from_a_nan_to_files_that_show_it_with_jax_alone(lowered: inspector.Lowered, tmp_path: Path) -> None:
    found = inspector.bisect(lowered, {}, {**NANS, "xla_gpu_ftz": True}, X, target="cpu")
    assert {each.name for each in found.culprits} == {*NANS}
    assert "optimized HLO of both is the same" in str(found.compiler_pass)
    assert pickle.loads(pickle.dumps(found)).words == found.words
    table = found.table()
    assert list(table.columns) == ["step", "phase", "tried", "outcome", "observed", "compiles", "seconds"]
    assert table["compiles"].sum() == found.compiles()
    found.save_reproduction(tmp_path / "issue")
    assert sorted(each.name for each in (tmp_path / "issue").iterdir()) == [
        "inputs.npz", "module.mlir", "module.mlirbc", "run.py",
    ]  # fmt: skip
    shown = subprocess.run([sys.executable, tmp_path / "issue" / "run.py"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "good 0.0, bad nan" in shown.stdout
    assert "inspector" not in (tmp_path / "issue" / "run.py").read_text().replace("without inspector", "")


@pytest.mark.slow
def test_the_script_sets_flags_that_jax_does_not_take_from_xla_flags(tmp_path: Path) -> None:
    x = np.array([1, np.nan, 3, 4, 5], np.float32)
    flags = {"xla_cpu_enable_fast_min_max": True}
    found = inspector.bisect(inspector.lower(jnp.max, x), {}, flags, x, target="cpu")
    found.save_reproduction(tmp_path)
    shown = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "good nan, bad 5.0" in shown.stdout


@pytest.mark.slow
def test_the_script_reports_a_difference_that_is_gone(lowered: inspector.Lowered, tmp_path: Path) -> None:
    found = inspector.bisect(lowered, {}, NANS, X, target="cpu")
    found.save_reproduction(tmp_path)
    script = tmp_path / "run.py"
    script.write_text(script.read_text().replace("--xla_cpu_fast_math_honor_nans=false", ""))
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (1, "No difference.")


def test_a_job_can_be_canceled_and_keeps_its_steps(lowered: inspector.Lowered) -> None:
    seen = []
    job = inspector.bisect(lowered, {}, NANS, X, target="cpu", wait=False)

    def stop(job: Any) -> None:
        seen.append(job.stage)
        if len(job.steps) >= 2:
            job.cancel()

    job.add_progress_callback(stop)
    with pytest.raises(CancelledError):
        job.result()
    assert len(job.steps) >= 2
    assert seen
    assert [each.number for each in job.steps] == [*range(1, len(job.steps) + 1)]


def test_no_time_is_a_result_too(lowered: inspector.Lowered) -> None:
    found = inspector.bisect(lowered, {}, NANS, X, target="cpu", time_limit_s=0.01)
    assert found.verdict == "not finished"
    assert "the time limit ended" in found.difference


def test_compile_times_are_compared_by_ratio() -> None:
    judge = NumberJudge("compile_time", lambda compiled: compiled.timings["compile_s"], "{:.3f} s".format)
    assert judge.calibrate(0.3, 1.5).differs
    assert judge.compare(0.03, 0.15).differs  # a small part of the program
    assert not judge.compare(0.3, 0.4).differs
    assert not judge.compare(0.001, 0.005).differs  # noise
    assert not judge.calibrate(1.0, 1.1).differs


@pytest.mark.slow
def test_the_measured_time_is_that_of_the_bad_side() -> None:
    def chain(x: Any) -> Any:
        return jax.lax.fori_loop(0, 40, lambda _, x: jnp.sin(x) + jnp.cos(x), x)

    lowered = inspector.lower(chain, np.ones(20_000, np.float32))
    found = inspector.bisect(
        lowered, {}, {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 2}, by="time", target="cpu",
        reproduce=False,
    )  # fmt: skip
    assert [each.name for each in found.culprits] == ["xla_backend_optimization_level"]
    assert found.difference.startswith("slower, the other is ")


def test_times_are_measured_with_the_arguments_and_in_the_engines_of_the_bisection() -> None:
    asked: list[RunRequest] = []

    class Pool:
        """Stands for the engines of a bisection; the bad side, which comes first, takes twice as long."""

        def work(self, start: Any, limit_s: float | None) -> RunReply:
            reply: RunReply = start(self)
            return reply

        def run(self, request: RunRequest) -> RunReply:
            asked.append(request)
            seconds = 2.0 if request.compiled is bad.compiled else 1.0
            return RunReply((), (seconds,) * request.repeat, "cpu")

    compiled = [inspector.lower(jnp.sin, np.ones(4, np.float32)).compile(target="cpu") for _ in range(2)]
    inputs = choose_inputs(compiled[0], (np.full(4, 7, np.float32),), {})
    good, bad = (Trial(each, inputs, Pool()) for each in compiled)  # type: ignore[arg-type]
    judge = MeasuredTimeJudge()
    compared = judge.calibrate(judge.observe(good), judge.observe(bad))
    assert compared.differs
    assert compared.words.startswith("slower")
    assert len(asked) == 2 + 20
    assert all(request.inputs[0].tolist() == [7, 7, 7, 7] for request in asked)


@pytest.mark.slow
def test_the_measured_time_depends_on_the_arguments() -> None:
    def chain(count: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, x: jnp.sin(x) + jnp.cos(x), x)

    x = np.ones(20_000, np.float32)
    lowered = inspector.lower(chain, 0, x)
    sides: Any = {}, {"xla_backend_optimization_level": 0}
    found = inspector.bisect(lowered, *sides, 40, x, by="time", target="cpu", reproduce=False)
    assert found.verdict == "found"


@pytest.mark.slow
def test_equal_programs_have_no_measured_difference() -> None:
    def chain(x: Any) -> Any:
        return jax.lax.fori_loop(0, 40, lambda _, x: jnp.sin(x) + jnp.cos(x), x)

    lowered = inspector.lower(chain, np.ones(20_000, np.float32))
    same = inspector.bisect(lowered, {}, {"xla_cpu_parallel_codegen_split_count": 2}, by="time", target="cpu")
    assert same.verdict == "no difference"
