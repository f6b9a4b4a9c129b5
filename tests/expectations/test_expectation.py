"""Checks of real programs: what passes, what fails, and what the reader of a failure gets."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.profile.profile import Profile
from inspector.analysis.profile.rows import ProfileRow
from inspector.compilation.request import products_of
from inspector.errors import ExpectationError, ParameterError, TargetError, Unavailable
from inspector.expectations import time_checks
from inspector.expectations.baseline_context import Keeping
from inspector.expectations.limits import Limit
from inspector.stages.compiled import load_compiled
from tests.absent import needs_tpu
from tests.expectations.programs import (
    S,
    called_back,
    dense,
    looped,
    over_both,
    replicated_on_the_way,
    sharded,
    two_sums,
)  # fmt: skip

X = S((8, 8), jnp.float32)
DENSE = (S((256, 256), jnp.float32), S((32, 256), jnp.float32))


@pytest.fixture(scope="module")
def expected() -> Any:
    """Expectations of programs by name, compiled once."""
    made = {
        "two_sums": inspector.lower(two_sums, X).compile(target="cpu:8", products=products_of(("buffers",))),
        "looped": inspector.lower(looped, X).compile(target="cpu:8"),
        "dense": inspector.lower(dense, *DENSE).compile(target="cpu", products=("buffers",)),
        "wide": inspector.lower(lambda x: jnp.sum(x * 2.0), np.ones(8)).compile(target="cpu"),
    }
    return lambda name: inspector.expect(made[name])


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def failure(check: Any) -> str:
    with pytest.raises(ExpectationError) as caught:
        check()
    return str(caught.value)


# ------------------------------------------------------------------ collectives


def test_collectives_that_are_as_expected(expected: Any) -> None:
    step = expected("two_sums").collectives("all-reduce", axes="data", exactly=1).collectives("all-gather", at_most=1)
    step.no_other_collectives().no_collectives("all-to-all").no_collectives(axes=("data", "model"))
    step.collectives(exactly=2).collectives("all-reduce", "all-gather", at_least=2)
    step.collectives("all-reduce", bytes_at_most="64 B")
    assert [finding.is_met for finding in step.findings] == [True] * len(step.findings)
    assert repr(step) == "<Expectation of jit_two_sums for cpu:8: 8 of 8 checks met>"


def test_a_collective_too_many(expected: Any) -> None:
    text = failure(lambda: expected("two_sums").collectives("all-reduce", at_most=1).no_collectives("all-gather"))
    assert text.startswith("jit_two_sums for cpu:8 (jax ")
    assert "ok    all-reduce: expected at most 1, got 1" in text
    assert "FAIL  all-gather: expected none, got 1" in text
    assert re.search(r"^  > \S+ +all-gather +model +32 B +64 B +1 +user .*programs.py:\d+$", text, re.MULTILINE), text
    assert re.search(r"^    \S+ +all-reduce +data", text, re.MULTILINE)
    assert re.search(r'^  > \d+ \|         return lax.all_gather\(summed \* 2, "model"', text, re.MULTILINE)


def test_axes_are_exactly_those_that_are_named() -> None:
    step = inspector.expect(over_both, X, target="cpu:8").collectives("all-reduce", axes="model, data", exactly=1)
    step.no_collectives(axes="data").no_collectives(axes="model")
    text = failure(lambda: step.collectives("all-reduce", axes="data", exactly=1))
    assert "nearest: 1 all-reduce over data, model" in text


def test_the_nearest_miss_is_reported(expected: Any) -> None:
    assert "nearest: 1 all-reduce over data" in failure(
        lambda: expected("two_sums").collectives("all-reduce", axes="model", at_least=1)
    )
    assert "nearest: 1 all-gather over model" in failure(
        lambda: expected("two_sums").collectives("reduce-scatter", axes="model", at_least=1)
    )


def test_others_than_those_that_are_named(expected: Any) -> None:
    text = failure(
        lambda: expected("two_sums").collectives("all-reduce", axes="data", at_most=1).no_other_collectives()
    )
    assert "other collectives: expected none, got 1 all-gather over model" in text
    expected("dense").no_other_collectives()


def test_bytes_count_as_often_as_they_are_exchanged(expected: Any) -> None:
    expected("looped").collectives("all-reduce", exactly=1, bytes_at_most=3 * 64)
    text = failure(lambda: expected("looped").collectives(bytes_at_most="100 B"))
    assert "bytes into collectives: expected at most 100 B, got 192 B" in text
    assert re.search(r"nearest: the largest is \S+, 192 B", text)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: e.collectives("allreduce", at_most=1), "Unknown collective 'allreduce'. Expected .*all-reduce"),
        (lambda e: e.collectives("all-reduce"), "Give a limit"),
        (lambda e: e.collectives(axes=[1], at_most=1), "Expected names of mesh axes"),
        (lambda e: e.number("peek_bytes", at_most=1), "no number 'peek_bytes'. Did you mean peak_bytes?"),
        (lambda e: e.no_dtypes("float65"), "Unknown element type 'float65'"),
        (lambda e: e.no_dtypes(), "No dtypes given"),
        (lambda e: e.donation_honored("z"), "no argument 'z'. It has x"),
        (lambda e: e.no_recompile(1), "needs the function"),
        (lambda e: e.baseline(), "needs a file"),
        (lambda e: e.baseline("x.json", above={"peek": 1}), "A baseline has no number 'peek'"),
    ],
)
def test_invalid_expectations_are_refused(expected: Any, call: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=words):
        call(expected("two_sums"))


# ------------------------------------------------------------------ numbers


def test_numbers_within_limits(expected: Any) -> None:
    compiled = expected("dense").compiled
    step = expected("dense").peak_bytes(at_most="1 MiB").temp_bytes(at_least=1).flops(at_most="10 Mflop", at_least="8M")
    step.number("argument_bytes", exactly=4 * (256 * 256 + 32 * 256)).kernels(at_least=2).fusions(at_least=0)
    step.bytes_accessed(at_most=compiled.cost.bytes_accessed)


def test_too_much_memory_shows_the_buffers_at_the_peak(expected: Any) -> None:
    text = failure(lambda: expected("dense").peak_bytes(at_most="300 KiB"))
    assert re.search(r"peak memory: expected at most 300 KiB, got 3\d\d KiB", text)
    assert re.search(r"nearest: [\d.]+ KiB above the limit \(\+[\d.]+%\)", text)
    assert re.search(r"^ +256 KiB +argument +argument w", text, re.MULTILINE), text


def test_too_many_flops_show_where_they_are(expected: Any) -> None:
    text = failure(lambda: expected("dense").flops(at_most="1 Mflop"))
    assert re.search(r"expected at most 1 Mflop, got 8\.\d+ Mflop", text)
    assert re.search(r"> \d+ \|     return jnp.tanh\(x @ w\) @ w.T", text)


def test_unknown_values_fail_with_the_reason(expected: Any) -> None:
    compiled = inspector.lower(dense, *DENSE).compile(target="cpu")
    unknown = Unavailable("this compiler counts nothing", "ask another")
    text = failure(lambda: inspector.expect(dataclasses.replace(compiled, cost=unknown)).flops(at_most="1 Tflop"))
    assert (
        "?     floating-point operations: expected at most 1 Tflop, got unavailable: this compiler counts nothing"
        in text
    )


# ------------------------------------------------------------------ contents


def test_float64(expected: Any) -> None:
    expected("dense").no_float64().only_dtypes("float32", "pred", "s32", "int64")
    with jax.enable_x64(True):
        wide = inspector.lower(lambda x: jnp.sum(x * 2.0), np.ones(8)).compile(target="cpu")
    text = failure(lambda: inspector.expect(wide).no_float64())
    assert re.search(r"element types c128, f64: expected none, got f64 in \d+ instructions", text)
    assert "argument x" in text
    assert "test_expectation.py" in text
    assert "got f64" in failure(lambda: inspector.expect(wide).only_dtypes("float32", "s32"))
    assert "got f32" in failure(lambda: expected("dense").no_dtypes("float32"))


def test_callbacks_go_to_the_host(expected: Any) -> None:
    expected("dense").no_host_transfers()
    text = failure(lambda: inspector.expect(called_back, X).no_host_transfers())
    assert re.search(r"host transfers: expected none, got 1: xla_\w*callback", text)
    assert "return jax.pure_callback" in text


@needs_tpu
def test_memory_of_the_host_is_the_hosts() -> None:
    def offloaded(x: jax.Array) -> jax.Array:
        kept = jax.device_put(jnp.sin(x), jax.memory.Space.Host)
        return jnp.cos(x @ x) + jax.device_put(kept, jax.memory.Space.Device)

    x = S((512, 512), jnp.float32)
    inspector.expect(lambda x: x @ x, x, target="tpu:v5e:1x1").no_host_transfers()
    text = failure(lambda: inspector.expect(offloaded, x, target="tpu:v5e:1x1").no_host_transfers())
    assert "between device and host memory" in text


@pytest.mark.filterwarnings("ignore:Some donated buffers:UserWarning")
def test_donations() -> None:
    def step(state: Any, unused: Any, batch: Any) -> Any:
        return jax.tree.map(lambda s: s + batch.sum(), state)

    state = {"w": X, "b": S((8,), jnp.float32)}
    batch = S((3, 5), jnp.float32)
    good = inspector.expect(step, state, X, batch, donate_argnums=0).donation_honored().donation_honored("state['w']")
    good.donation_honored("state")
    wasted = inspector.expect(step, state, X, batch, donate_argnums=(0, 1, 2))
    text = failure(wasted.donation_honored)
    assert "donated arguments: expected all reused by outputs, got 2 of 4 reused" in text
    assert re.search(r"> unused: float32\[8, 8\] +the program does not use it", text)
    assert re.search(r"> batch: float32\[3, 5\] +no output has its shape", text)
    text = failure(lambda: inspector.expect(step, state, X, batch).donation_honored())
    assert "no argument is donated" in text
    assert "donate_argnums" in text
    assert "is not donated" in failure(lambda: inspector.expect(step, state, X, batch).donation_honored("batch"))


@pytest.mark.parametrize("target", ["cpu:8", pytest.param("tpu:v5e:2x4", marks=needs_tpu)])
def test_full_rematerialization(target: str) -> None:
    x = S((8, 8, 8), jnp.float32)
    text = failure(lambda: inspector.expect(replicated_on_the_way, x, target=target).no_full_rematerialization())
    assert "full rematerializations by the partitioner: expected none, got 1" in text
    assert "sharding_constraint" in text
    assert re.search(r"> \d+ \|     y = lax.with_sharding_constraint\(x \* 2", text), text
    inspector.expect(two_sums, X, target=target).no_full_rematerialization()


def test_uncaptured_warnings_are_unknown() -> None:
    compiled = inspector.lower(replicated_on_the_way, S((8, 8, 8), jnp.float32)).compile(engine="inline")
    text = failure(lambda: inspector.expect(compiled).no_full_rematerialization())
    assert "?     full rematerializations" in text
    assert "a compile in this process does not capture XLA's warnings" in text


def test_a_second_trace() -> None:
    @jax.jit
    def step(x: Any, scale: Any) -> Any:
        return x * scale

    same = inspector.expect(step, X, jnp.float32(2)).no_recompile(jnp.ones((8, 8)), jnp.float32(3))
    assert same.findings[-1].is_met
    text = failure(lambda: inspector.expect(step, X, 2.0).no_recompile(S((4, 8), jnp.float32), np.float32(2)))
    assert "traces for another call: expected none, got 1: arguments" in text
    assert re.search(r"> step +shape +x +f32\[4,8\] +f32\[8,8\]", text)
    plain = inspector.expect(dense, *DENSE)
    plain.no_recompile(*(np.zeros(a.shape, a.dtype) for a in DENSE))
    assert "got" in failure(lambda: plain.no_recompile(DENSE[0], S((64, 256), jnp.float32)))


# ------------------------------------------------------------------ what is checked, and how it fails


def test_whatever_can_be_lowered_can_be_checked() -> None:
    lowered = inspector.lower(dense, *DENSE)
    forms = [
        inspector.expect(lowered), inspector.expect(jax.jit(dense).lower(*DENSE)), inspector.expect(lowered.stablehlo),
        inspector.expect(lowered.compile()), inspector.expect(jax.jit(dense), *DENSE), inspector.expect(dense, w=DENSE[0], x=DENSE[1]),
    ]  # fmt: skip
    assert {form.compiled.cost.flops for form in forms} == {forms[0].compiled.cost.flops}
    with pytest.raises(ParameterError, match="is checked without arguments"):
        inspector.expect(lowered.compile(), X)
    with pytest.raises(ParameterError, match="no keyword 'traget'"):
        inspector.expect(dense, *DENSE, traget="cpu")


def test_a_block_gathers_all_failures(expected: Any) -> None:
    def block() -> None:
        with expected("two_sums") as step:
            step.no_collectives("all-gather")
            step.no_collectives("all-gather", axes="model")
            step.no_float64()

    text = failure(block)
    assert text.count("FAIL") == 2
    blocks = text.split("\n\n")
    assert len(blocks) == len(set(blocks)), "a source line is shown once"
    assert "ok    element types" in text
    with pytest.raises(ZeroDivisionError), expected("two_sums") as step:
        step.no_collectives("all-gather").flops(at_most=1 / 0)


def test_a_failure_names_the_file_that_shows_more(expected: Any, tmp_path: Path) -> None:
    text = failure(lambda: expected("two_sums").no_collectives())
    path = re.search(r"see it:  inspector explore (\S+)$", text)
    assert path is not None
    assert path[1].startswith(str(tmp_path))
    assert load_compiled(path[1]).program.name == "jit_two_sums"
    assert isinstance(ExpectationError("x"), AssertionError)


def test_only_the_last_failures_are_stored(expected: Any, tmp_path: Path) -> None:
    compiled = expected("two_sums").compiled
    folder = None
    for number in range(25):
        path = Keeping(name=f"test_{number}").save(compiled)
        assert path is not None
        folder = path.parent
    assert folder is not None
    assert len(list(folder.iterdir())) == 20


def test_names_of_programs_are_not_paths(expected: Any, tmp_path: Path) -> None:
    for name in ("../../etc/x", "a/b", "..", "x\0y", "ü" * 300, "$(rm -rf)"):
        path = Keeping(name=name, failed=tmp_path / "failed").save(expected("two_sums").compiled)
        assert path is not None
        assert path.parent == tmp_path / "failed"


def test_shards_of_an_argument_are_seen_as_jax_lays_them() -> None:
    step = inspector.expect(
        lambda w, x: x @ w, sharded((64, 64), None, "model"), sharded((32, 64), "data"), target="cpu:8"
    )
    step.no_collectives().number("argument_bytes", exactly=64 * 64 * 4 // 2 + 32 * 64 * 4 // 4)


# ------------------------------------------------------------------ measured time


def test_time_is_measured_by_a_profile() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jnp.sort(jnp.tanh(x @ x), axis=0)

    x = jnp.ones((64, 64))
    checks = inspector.expect(step, x, target="cpu").time(at_most="60 s", at_least=1e-9, runs=3)
    assert [finding.what for finding in checks.findings] == ["time of an execution"]
    assert "(median of 3 executions)" in checks.findings[0].got
    kernel = next(row.name for row in checks.compiled.profile(x, repeat=1).rows)
    checks.time(at_most="60 s", runs=2, kernel=kernel)
    with pytest.raises(
        ExpectationError, match=rf"(?s)expected at most 1 ns, got .*{kernel}.*more than the limit.*idle machine"
    ):
        checks.time(at_most="1 ns", runs=2)
    with pytest.raises(ParameterError, match=r"ran no kernel 'tanh.99'"):
        checks.time(at_most="1 s", runs=1, kernel="tanh.99")
    with pytest.raises(ParameterError, match="Give a limit"):
        checks.time()
    with pytest.raises(ParameterError, match="Expected a duration"):
        checks.time(at_most="fast")


@needs_tpu
def test_time_of_a_device_that_is_not_attached_is_an_error() -> None:
    checks = inspector.expect(jnp.sin, jnp.ones(8), target="tpu:v5e:2x2")
    with pytest.raises(TargetError, match="not attached"):
        checks.time(at_most="1 s")


def test_time_of_a_kernel_is_that_of_its_slowest_device() -> None:
    unknown = Unavailable("unknown")
    rows = tuple(
        ProfileRow("sine", "sine", "main", f"GPU:{n}", 2, 3.0 + n, 1.0, 2.0, (1.0 + n, 2.0), unknown) for n in range(2)
    )
    profile = Profile("f", ("GPU:0", "GPU:1"), rows, 2, unknown, (3.0, 4.0))
    result = time_checks.check(profile, Limit(None, 1.9), "%sine")
    assert (result.is_met, result.got) == (False, "2 s (median of 2 executions)")
    assert result.nearest == "100 ms more than the limit"
    assert time_checks.check(profile, Limit(None, 2.0), "sine").is_met is True
    assert time_checks.check(profile, Limit(1.6, None), "sine").is_met is True
    assert isinstance(time_checks.check(profile, Limit(None, 9.0), None).is_met, Unavailable)
