"""Effects of flags, compared with the known effects of some; and errors that a scan survives."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import inspector
from inspector.analysis.diff.fingerprint import fingerprint
from inspector.api import flag_effects
from inspector.api.flag_effects import OUTCOMES, FlagEffect, ScanJob, boolean_flags, flag_effect, left_out, scan
from inspector.api.flag_effects.effect import DELTAS, EFFECT_COLUMNS, Outcome, rank, with_times
from inspector.api.flag_effects.order import in_order, subjects
from inspector.compilation.engine import Job
from inspector.compilation.preview import Preview
from inspector.compilation.request import CompileRequest
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import (
    CancelledError,
    FlagTypeError,
    OptionError,
    ParameterError,
    TargetError,
    TimeLimitError,
    Unavailable,
    UnknownFlagError,
    WorkerDiedError,
)
from inspector.stages.compiled import Compiled
from inspector.stages.lowered import Lowered
from inspector.toolchain.flags import flag_type, xla_flag_names
from tests.absent import needs_gpu

PASSES, FUSION = "xla_disable_hlo_passes", "fusion"
KILLER = "xla_unsupported_crash_on_hlo_pass_noop_change"


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    x = jax.ShapeDtypeStruct((32, 48), jnp.float32)
    return inspector.lower(lambda x: jnp.sin(x) * jnp.exp(x) - x.mean(), x)


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


def jax_text(lowered: Lowered, **flags: Any) -> str:
    x = jax.ShapeDtypeStruct((32, 48), jnp.float32)
    compiled = jax.jit(lambda x: jnp.sin(x) * jnp.exp(x) - x.mean()).lower(x).compile(compiler_options=flags)
    return str(compiled.as_text())


@pytest.mark.slow
def test_a_flag_that_changes_the_hlo(lowered: Lowered, engine: WorkerEngine) -> None:
    table = flag_effect(lowered, "xla_disable_hlo_passes", ["fusion", ""], target="cpu", engine=engine)
    assert list(table["value"]) == ["fusion", ""]
    fusion, nothing = (table.iloc[n] for n in range(2))
    assert fusion["outcome"] == "hlo"
    assert fusion["hlo"] == True  # noqa: E712  pandas has NumPy's bools
    assert fusion["changed_instructions"] > 0
    assert "fusion" in fusion["instructions"]
    # JAX itself, in this process, agrees that the text is another one.
    assert jax_text(lowered, xla_disable_hlo_passes="fusion") != jax_text(lowered)
    assert nothing["outcome"] == "nothing"
    assert [nothing[aspect] for aspect in ("hlo", "memory", "cost", "code")] == [False] * 4


def test_differences_are_the_compilers(lowered: Lowered, engine: WorkerEngine) -> None:
    table = flag_effect(lowered, "--xla_disable_hlo_passes", ["fusion"], target="cpu", engine=engine)
    base = lowered.compile(target="cpu", engine=engine)
    without = lowered.compile({"xla_disable_hlo_passes": "fusion"}, target="cpu", engine=engine)
    assert not isinstance(base.memory, Unavailable)
    assert not isinstance(without.memory, Unavailable)
    assert not isinstance(base.cost, Unavailable)
    assert not isinstance(without.cost, Unavailable)
    row = table.iloc[0]
    assert row["delta_temp_bytes"] == without.memory.temp_bytes - base.memory.temp_bytes > 0
    assert row["delta_peak_bytes"] == without.memory.peak_bytes - base.memory.peak_bytes
    assert row["delta_flops"] == without.cost.flops - base.cost.flops
    assert row["delta_bytes_accessed"] == without.cost.bytes_accessed - base.cost.bytes_accessed


@pytest.mark.parametrize("flag", ["xla_dump_hlo_as_text", "xla_dump_include_timestamp", "xla_gpu_enable_triton_gemm"])
def test_flags_that_change_nothing(lowered: Lowered, engine: WorkerEngine, flag: str) -> None:
    table = flag_effect(lowered, flag, target="cpu", engine=engine)
    assert len(table) == 1
    assert list(table["outcome"]) == ["nothing"]
    assert list(table["instructions"]) == [""]


def test_only_the_values_beside_the_present_one(lowered: Lowered, engine: WorkerEngine) -> None:
    flag = "xla_dump_hlo_as_text"  # false, unless someone says otherwise
    assert list(flag_effect(lowered, flag, target="cpu", engine=engine)["value"]) == [True]
    table = flag_effect(lowered, flag, target="cpu", engine=engine, options={flag: True})
    assert list(table["value"]) == [False]


def test_the_killer_is_a_row(lowered: Lowered, engine: WorkerEngine) -> None:
    with pytest.raises(WorkerDiedError):
        lowered.compile({KILLER: True}, target="cpu", engine=engine)
    table = flag_effect(lowered, KILLER, [True, False], target="cpu", engine=engine)
    assert list(table["outcome"]) == ["crashed", "nothing"]
    assert KILLER in table["error"][0]
    assert table["hlo"].isna().tolist() == [True, False]
    assert "it could not be compiled" in table["unknown"][0]
    assert table["error"][1] == ""


def test_requests_are_checked_before_anything_runs(lowered: Lowered) -> None:
    with pytest.raises(UnknownFlagError, match="xla_cpu_enable_fast_math"):
        scan(lowered, flags=["xla_cpu_enable_fast_mat"])
    with pytest.raises(FlagTypeError):
        flag_effect(lowered, "xla_cpu_enable_fast_math", [1])
    with pytest.raises(OptionError, match=r"has type list of string. Pass the values .*'xla_disable_"):
        scan(lowered, flags=["xla_disable_hlo_passes"])
    function: Any = jax_text
    for call in (lambda: flag_effect(function, "xla_cpu_enable_fast_math"), lambda: scan(function)):
        with pytest.raises(ParameterError, match=r"Expected a Lowered, got <.*inspector\.lower\(fun, \*args\)"):
            call()
    for values in (True, "true"):
        with pytest.raises(OptionError, match=rf"must be a list, such as \[{values!r}\], got {values!r}"):
            flag_effect(lowered, "xla_cpu_enable_fast_math", values)  # type: ignore[arg-type]


def test_ignored_flag_values_have_a_warning(lowered: Lowered, engine: WorkerEngine) -> None:
    table = flag_effect(lowered, "xla_disable_hlo_passes", ["fusoin", "fusion"], target="cpu", engine=engine)
    assert list(table["outcome"]) == ["nothing", "hlo"]
    assert "has 'fusoin', which is not the name of a known pass" in table["warnings"][0]
    assert table["warnings"][1] == ""
    table = flag_effect(lowered, "xla_gpu_autotune_level", np.arange(2), target="cpu", engine=engine)
    assert list(table["value"]) == [0, 1]
    assert all("but ignores it" in warning for warning in table["warnings"])


def test_no_scan_where_a_crash_would_end_this_process(monkeypatch: pytest.MonkeyPatch, lowered: Lowered) -> None:
    def noisy(x: jax.Array) -> jax.Array:
        jax.debug.print("{x}", x=x)
        return x

    with pytest.raises(TargetError, match="because of its callbacks"):
        scan(inspector.lower(noisy, jax.ShapeDtypeStruct((3,), jnp.float32)))
    monkeypatch.setattr("inspector._jax.compiling.attached_devices.attached_platform", lambda: "gpu")
    with pytest.raises(TargetError, match="has the devices of the target attached"):
        scan(lowered)


def test_boolean_flags() -> None:
    flags = boolean_flags("cpu")
    assert {"xla_cpu_enable_fast_math", KILLER} <= set(flags)
    assert all(flag_type(flag).kind == "bool" for flag in flags)
    assert not any(flag.startswith(("xla_gpu_", "xla_tpu_")) for flag in flags)
    assert "xla_gpu_enable_triton_gemm" in boolean_flags("gpu")
    assert not any("dump" in name for platform in ("cpu", "gpu", "tpu") for name in boolean_flags(platform))


FLAGS = {
    "xla_dump_hlo_as_text": [True],
    KILLER: [True],
    "xla_cpu_enable_fast_min_max": [True],
    "xla_disable_hlo_passes": ["fusion"],
    "xla_early_exit_with_layouts": [False],
}


@pytest.mark.slow
def test_scan_ranks_effects(lowered: Lowered) -> None:
    job = scan(lowered, FLAGS, target="cpu")
    table = job.result(120)
    assert job.stage == "done"
    assert len(table) == len(FLAGS) == job.total
    assert table["flag"][0] == "xla_disable_hlo_passes"
    assert table["flag"].iloc[-1] == KILLER
    changed = ("hlo", "memory", "cost", "code")
    ranks = [0 if outcome in changed else OUTCOMES.index(outcome) for outcome in table["outcome"]]
    assert ranks == sorted(ranks)
    assert "crashed" in repr(job)


def effect(flag: str, outcome: Outcome = "hlo", count: int = 0, **deltas: float | Unavailable) -> FlagEffect:
    return FlagEffect(
        flag, True, outcome, hlo=True, memory=False, cost=False, code=False, changed_instructions=count, deltas=deltas
    )


def test_effects_are_ranked_by_time_then_communication_memory_and_code() -> None:
    unknown = Unavailable("no roofs")
    expected = [
        effect("faster", estimated_s=-3e-6, exposed_s=0.0, peak_bytes=0.0),
        effect("slower", "cost", estimated_s=2e-6, exposed_s=0.0, peak_bytes=9.0),
        effect("hidden", estimated_s=0.0, exposed_s=-1e-6, peak_bytes=0.0),
        effect("memory", "memory", estimated_s=unknown, exposed_s=unknown, peak_bytes=5.0),
        effect("code", "code", estimated_s=0.0, exposed_s=0.0, peak_bytes=0.0, generated_code_bytes=700.0),
        effect("order", count=900, estimated_s=0.0, exposed_s=0.0, peak_bytes=0.0),
        effect("same", "nothing", estimated_s=0.0, exposed_s=0.0, peak_bytes=0.0),
        effect("broken", "crashed"),
    ]
    shuffled = random.Random(1).sample(expected, len(expected))
    assert sorted(shuffled, key=rank) == expected != shuffled


def test_measured_times_rank_first_unless_they_are_noise() -> None:
    base = [1.0 + 0.01 * n for n in range(20)]
    slower, noisy = [each + 0.5 for each in base], [each + 0.001 for each in base]
    ranked = [
        with_times(effect("slower", estimated_s=-1e-6), slower, base),
        with_times(effect("noisy", estimated_s=-5e-6), noisy, base),
        with_times(effect("failed", estimated_s=1e-6), Unavailable("the run failed"), base),
    ]
    shuffled = [ranked[n] for n in (2, 1, 0)]
    assert sorted(shuffled, key=rank) == ranked
    table = EFFECT_COLUMNS.data_frame(ranked)
    assert list(table["delta_measured_s"][:2]) == [pytest.approx(0.5), 0]
    assert table["measured_s"][0] == pytest.approx(1.595)
    assert table["measured_spread_s"][0] == pytest.approx(0.095)
    assert table["measured_s"].isna().tolist() == [False, False, True]
    assert "the run failed" in table["unknown"][2]
    assert EFFECT_COLUMNS.data_frame([effect("a", "nothing")])["measured_s"].isna().all()


def test_programs_that_differ_run_in_turns_with_the_baseline() -> None:
    x = jax.ShapeDtypeStruct((1 << 21,), jnp.float32)
    lowered = inspector.lower(lambda x: ((x * 3 + 1) * x - 2) * (x + 4) * (x - 5) + x * x * 7, x)
    values = {PASSES: ["fusion"], "xla_dump_hlo_as_text": [True]}
    job = scan(lowered, values, target="cpu:1", measure=True, repeat=10, show_progress=False)
    table = job.result(300).set_index("flag")
    unfused, dump = table.loc[PASSES], table.loc["xla_dump_hlo_as_text"]
    assert unfused["measured_s"] > unfused["delta_measured_s"] > 0, (
        "elementwise operations that are not fused are slower"
    )
    assert unfused["measured_spread_s"] >= 0
    assert dump["outcome"] == "nothing"
    assert dump["delta_measured_s"] == 0
    assert "that of the baseline" in dump["unknown"]
    assert job.ranked[0].flag == PASSES


def test_what_cannot_be_measured_is_an_error_before_any_compile(lowered: Lowered) -> None:
    with pytest.raises(TargetError, match="can only be compiled for"):
        flag_effect(lowered, PASSES, [FUSION], target="gpu:h100:1", measure=True)
    with pytest.raises(ParameterError, match="repeat=2: expected a number of executions, at least 6"):
        scan(lowered, [KILLER], target="cpu", measure=True, repeat=2)
    with pytest.raises(OptionError, match="measure"):
        scan(lowered, [KILLER], target="cpu", measure=1)  # type: ignore[arg-type]


@needs_gpu
def test_differences_in_time_are_those_of_the_rooflines() -> None:
    x = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)
    lowered = inspector.lower(lambda x, y: jnp.tanh(x @ y) * y, x, x, target="gpu:h100:1")
    table = flag_effect(lowered, PASSES, [FUSION], target="gpu:h100:1")
    base = lowered.compile(target="gpu:h100:1").roofline().total.least_s
    other = lowered.compile(options={PASSES: FUSION}, target="gpu:h100:1").roofline().total.least_s
    assert table["delta_estimated_s"][0] == pytest.approx(float(other) - float(base), rel=1e-9)  # type: ignore[arg-type]
    assert table["delta_estimated_s"][0] > 0


def test_a_cpu_is_ranked_by_the_roofs_that_are_passed(lowered: Lowered) -> None:
    roofs = inspector.Peak("mine", {"f32": 1e11}, 1e10, Unavailable("-"), Unavailable("-"), Unavailable("-"), "made up")
    table = flag_effect(lowered, PASSES, [FUSION], target="cpu", peak=roofs)
    base, other = (
        lowered.compile(options=options, target="cpu").roofline(roofs).total.least_s
        for options in (None, {PASSES: FUSION})
    )
    assert table["delta_estimated_s"][0] == pytest.approx(float(other) - float(base), rel=1e-9)  # type: ignore[arg-type]


class Scripted:
    """An engine that answers from recorded results, and hangs on one flag."""

    name = "scripted"

    def __init__(self, engine: WorkerEngine, hangs_on: str) -> None:
        self.engine = engine
        self.hangs_on = hangs_on
        self.hanging = threading.Event()
        self.stopped = threading.Event()
        self.flags: list[tuple[str, ...]] = []

    def submit(self, request: CompileRequest) -> Job[Compiled]:
        self.flags.append(tuple(request.options.flags))
        if self.hangs_on in request.options.flags:
            self.hanging.set()
            return Job(cancel=self.stopped.set)
        return self.engine.submit(request)

    def run(self, request: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise AssertionError("an engine that is not the scan's own stays open")


@pytest.mark.slow
def test_a_hang_costs_the_limit(lowered: Lowered, engine: WorkerEngine) -> None:
    scripted = Scripted(engine, "xla_dump_hlo_as_text")
    job = scan(lowered, FLAGS, target="cpu", engine=scripted, time_limit_s=None, trial_limit_s=8)
    scripted.hanging.wait(60)
    table = job.result(120)
    row = table[table["flag"] == "xla_dump_hlo_as_text"].iloc[0]
    assert row["outcome"] == "timed out"
    assert "8 s" in row["error"]
    assert scripted.stopped.is_set()
    assert len(table) == len(FLAGS)


def test_cancel_and_resume(lowered: Lowered, engine: WorkerEngine) -> None:
    scripted = Scripted(engine, KILLER)
    job = scan(lowered, FLAGS, target="cpu", engine=scripted, time_limit_s=None)
    assert scripted.hanging.wait(60)
    with pytest.raises(OptionError, match="still runs"):
        job.resume()
    assert job.stage == f"compiling 2 of {len(FLAGS)}: {KILLER}=True"
    table = job.table()
    assert list(table["flag"]) == ["xla_dump_hlo_as_text"]
    assert [*table.columns] == [
        "flag", "value", "outcome", "hlo", "memory", "cost", "code", "headline", "instructions", "changed_instructions",
        *(f"delta_{name}" for name in DELTAS), "measured_s", "measured_spread_s", "compile_s", "error", "warnings", "unknown",
    ]  # fmt: skip
    assert job.cancel()
    assert scripted.stopped.is_set()
    with pytest.raises(CancelledError):
        job.result(1)
    scripted.hangs_on = "nothing"
    rest = job.resume()
    assert len(rest.result(120)) == len(FLAGS)
    assert scripted.flags.count(("xla_dump_hlo_as_text",)) == 1, "what is known is not compiled again"


def test_a_baseline_that_fails_is_an_error(lowered: Lowered, engine: WorkerEngine) -> None:
    job = scan(lowered, FLAGS, target="cpu", options={KILLER: True}, engine=engine)
    with pytest.raises(WorkerDiedError, match=KILLER):
        job.result(120)
    assert job.stage == "failed"


@pytest.mark.slow
def test_own_engines_end_with_the_work(lowered: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Counted(WorkerEngine):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.ended = threading.Event()
            made.append(self)

        def close(self) -> None:
            super().close()
            self.ended.set()

    monkeypatch.setattr("inspector.engines.workers.worker_engine.WorkerEngine", Counted)
    flag_effect(lowered, "xla_dump_hlo_as_text", target="cpu")
    job = scan(lowered, ["xla_dump_hlo_as_text"], target="cpu")
    job.result(120)
    assert len(made) >= 2
    assert all(engine.ended.wait(20) for engine in made)


def test_progress_is_shown_to_the_end(lowered: Lowered, engine: WorkerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()
    seen: list[tuple[int, str]] = []

    class Recorded:
        def update(self, done: int, text: str) -> None:
            seen.append((done, text))

        def close(self, text: str) -> None:
            seen.append((-1, text))
            closed.set()

    stops: list[Any] = []
    monkeypatch.setattr(
        flag_effects, "background_progress", lambda total, stop: stops.append((total, stop)) or Recorded()
    )
    job = scan(lowered, ["xla_dump_hlo_as_text", "xla_dump_include_timestamp"], target="cpu", engine=engine)
    job.result(120)
    assert closed.wait(20)
    assert stops == [(2, job.cancel)]
    assert [done for done, _ in seen] == [0, 1, 2, -1]
    assert seen[1][1] == f"xla_dump_include_timestamp={job.effects[1].value}"
    assert seen[-1][1] == "done: 2 of 2 tried (2 unknown)"


def test_an_unreliable_aspect_is_ignored(
    lowered: Lowered, engine: WorkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = fingerprint, iter(range(100))

    def unsteady(compiled: Compiled, *same: Any) -> Any:
        return dataclasses.replace(real(compiled, *same), code=str(next(calls)))

    for room in ("effect", "variants"):
        monkeypatch.setattr(f"inspector.api.flag_effects.{room}.fingerprint", unsteady)
    row = flag_effect(lowered, "xla_dump_hlo_as_text", target="cpu", engine=engine).iloc[0]
    assert row["outcome"] == "unknown"
    assert pd.isna(row["code"])
    assert "code: " in row["unknown"]


class Stopping:
    """An engine whose compiles show what there is before machine code, and never end by themselves."""

    name = "stopping"

    def __init__(self, compiled: Compiled, hangs: bool = False) -> None:
        self.compiled = compiled
        self.hangs = hangs
        self.jobs: list[Job[Compiled]] = []

    def submit(self, request: CompileRequest) -> Job[Compiled]:
        job: Job[Compiled] = Job()
        self.jobs.append(job)
        if len(self.jobs) <= 2 or not self.hangs:  # the baseline is compiled twice
            job.show(dataclasses.replace(Preview.of(self.compiled, 0.1), options=request.options))
        return job

    def run(self, request: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise AssertionError("an engine that is not the scan's own stays open")


@pytest.fixture(scope="module")
def compiled(lowered: Lowered, engine: WorkerEngine) -> Compiled:
    return lowered.compile(target="cpu", engine=engine)


def test_no_trial_waits_for_machine_code(lowered: Lowered, compiled: Compiled) -> None:
    stopping = Stopping(compiled)
    job = scan(lowered, FLAGS, target="cpu", engine=stopping, time_limit_s=None)
    table = job.result(60)
    assert list(table["outcome"]) == ["unknown"] * len(FLAGS)
    assert all("code: not known before code generation" in told for told in table["unknown"])
    assert [each.stage for each in stopping.jobs] == ["cancelled"] * (2 + len(FLAGS)), "nothing is left running"
    with_code = scan(lowered, FLAGS, target="cpu", engine=stopping, time_limit_s=1, machine_code=True)
    with pytest.raises(TimeLimitError, match=r"Compiling the baseline of .* took longer than .* Raise the time limit"):
        with_code.result(60)


def test_one_limit_holds_for_all(lowered: Lowered, compiled: Compiled) -> None:
    stopping = Stopping(compiled, hangs=True)
    job = scan(lowered, FLAGS, target="cpu", engine=stopping, time_limit_s=4)
    table = job.result(60)
    assert job.stage == "done"
    assert list(table["outcome"]) == ["not tried"] * len(FLAGS)
    assert list(table["flag"]) == [flag for flag, _ in job.not_tried] == list(FLAGS)
    assert "it was not tried" in table["unknown"][0]
    assert (
        repr(job) == f"<ScanJob done: 0 of 5 tried; {len(FLAGS)} not tried within the time limit, resume() continues>"
    )
    assert {each.stage for each in stopping.jobs} == {"cancelled"}, "nothing is left running"
    stopping.hangs = False
    rest = job.resume()
    assert list(rest.result(60)["outcome"]) == ["unknown"] * len(FLAGS)
    assert rest.not_tried == ()


@pytest.mark.slow
def test_trials_run_side_by_side(lowered: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_effects, "cores", lambda: 3)
    job = scan(lowered, FLAGS, target="cpu", time_limit_s=None)
    told = dict(zip((table := job.result(240))["flag"], table["outcome"], strict=True))
    assert told.pop("xla_disable_hlo_passes") == "hlo"
    assert told.pop(KILLER) == "crashed"
    assert set(told.values()) == {"unknown"}
    row = table.iloc[0]
    assert "fusion" in row["headline"]
    assert row["delta_kernels"] > 0
    assert row["delta_collectives"] == 0
    assert "it was not compiled to machine code" in row["unknown"]


def test_flags_about_collectives_and_the_target_come_first(lowered: Lowered, compiled: Compiled) -> None:
    x = jax.ShapeDtypeStruct((8,), jnp.float32)
    sharded = inspector.lower(lambda x: jax.lax.psum(x, "i"), x, axis_env=[("i", 2)]).module()
    wanted = [
        "xla_gpu_all_reduce_blueconnect_num_devices_per_host", "xla_sdy_export_all_reduce_scatter", "xla_gpu_ftz",
        "xla_allow_excess_precision", "xla_hlo_profile", "xla_gpu_enable_nccl_user_buffers", "xla_cpu_ftz",
    ]  # fmt: skip
    for module, order in ((sharded, (0, 1, 2, 3, 4)), (compiled.module(), (2, 3, 4, 0, 1))):
        given = [(wanted[n], True) for n in sorted(order, reverse=True)]
        assert [flag for flag, _ in in_order([*given, (wanted[6], True)], "gpu", module)] == [
            *(wanted[n] for n in order),
            wanted[6],
        ]


def test_a_part_of_a_longer_word_is_not_a_subject() -> None:
    assert subjects("xla_gpu_enable_all_gather_combiner_by_dim") == {"all-gather"}
    assert subjects("xla_allow_excess_precision") == frozenset()
    assert "all-reduce" in subjects("xla_gpu_enable_nccl_user_buffers")


def test_flags_that_are_not_tried_by_default_are_listed() -> None:
    told = left_out("cpu")
    assert set(told) >= {"for other compilers", "that dump", "with values other than true and false"}
    names = [*boolean_flags("cpu"), *(name for name in xla_flag_names() if name not in boolean_flags("cpu"))]
    assert sum(told.values()) + len(boolean_flags("cpu")) == len(names)


@pytest.mark.slow
def test_every_boolean_flag_of_the_cpu(lowered: Lowered) -> None:
    job: ScanJob = scan(lowered, time_limit_s=None, target="cpu")
    table = job.result(280)
    by_flag = dict(zip(table["flag"], table["outcome"], strict=True))
    assert set(by_flag) == set(boolean_flags("cpu"))
    assert by_flag[KILLER] == "crashed"
    assert by_flag["xla_disable_all_hlo_passes"] in ("hlo", "crashed")  # it aborts now and then
    assert not any("dump" in flag for flag in by_flag)
