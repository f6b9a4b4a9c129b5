"""Findings of a watch: what JAX traced again and again, and what it traced a few times as programs do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.findings.finding import Finding
from inspector.errors import Unavailable
from inspector.stages.findings import Findings


def step(x: Any, lr: Any) -> Any:
    return (x * lr).sum()


def found(calls: Callable[[], object], fun_name: str = "") -> tuple[Finding, ...]:
    with inspector.watch_retraces() as retraces:
        calls()
    findings = retraces.findings(fun_name)
    return (*findings.items, *findings.folded)


def lambdas_in_a_loop() -> None:
    for _ in range(4):
        jax.jit(lambda x: jnp.cos(x) + 1)(jnp.ones(3))


def _made(scale: float) -> Callable[..., Any]:
    def scaled(x: Any) -> Any:
        return x * scale

    return jax.jit(scaled)


def factory_in_a_loop() -> None:
    for n in range(5):
        _made(float(n))(jnp.ones(3))


def methods_of_new_objects() -> None:
    class Model:
        @functools.partial(jax.jit, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x + 1

    for _ in range(5):
        Model().apply(jnp.ones(3))


def test_they_are_findings_like_those_of_a_program() -> None:
    with inspector.watch_retraces() as retraces:
        for _ in range(4):
            jax.jit(lambda x: jnp.sinh(x) + 1)(jnp.ones(3))
    findings = retraces.findings()
    assert isinstance(findings, Findings)
    assert findings.kinds == ("jit-in-loop", "weak-type", "retraced")
    assert repr(findings).startswith("<Findings: ")
    (finding,) = (*findings.items, *findings.folded)
    assert len(findings.table()) == len(findings)
    assert finding.proof is None
    assert str(finding.prove()) == "cannot be tried: this change cannot be made automatically"
    assert findings.prove(time_limit_s=1) is findings


@pytest.mark.parametrize(
    ("calls", "name", "count"), [(lambdas_in_a_loop, "<lambda>", 4), (factory_in_a_loop, "scaled", 5)]
)
def test_jit_in_a_loop(calls: Callable[[], None], name: str, count: int) -> None:
    (finding,) = found(calls)
    assert finding.kind == "jit-in-loop"
    assert finding.title.startswith(f"`{name}` is a new function in each of {count} calls")
    assert finding.frames[0].file == __file__
    assert finding.compile_s > 0
    assert "of the traces and compiles" in finding.gain
    assert isinstance(finding.edits, Unavailable)


def test_numbers_and_arrays() -> None:
    def calls() -> None:
        jitted = jax.jit(lambda x, lr: x * lr)
        jitted(jnp.ones(3), 0.1)
        jitted(jnp.ones(3), jnp.float32(0.1))

    (finding,) = found(calls)
    assert finding.kind == "weak-type"
    assert finding.title.startswith("`lr` of `<lambda>` is a Python number in some calls and an array in others")
    assert finding.remedy.startswith("lr = jnp.asarray(lr, jnp.float32)")


def test_several_numbers() -> None:
    def calls() -> None:
        jitted = jax.jit(lambda x, lr, momentum: x * lr + momentum)
        jitted(jnp.ones(3), 0.1, 0.9)
        jitted(jnp.ones(3), jnp.float32(0.1), jnp.float32(0.9))

    (finding,) = found(calls)
    assert finding.title.startswith("`lr`, `momentum` of `<lambda>` are Python numbers in some calls and arrays in")
    assert finding.remedy.splitlines()[1] == "momentum = jnp.asarray(momentum, jnp.float32)"


def test_shapes() -> None:
    def calls() -> None:
        jitted = jax.jit(step)
        for n in range(2, 9):
            jitted(jnp.ones(n), 0.5)

    (finding,) = found(calls)
    assert finding.kind == "retraced"
    assert finding.title == (
        "`step` was traced and compiled 6 more times, because the shape of `x` changed: f32[2], f32[3], f32[4], ... 4 more."
    )
    assert finding.remedy.startswith("x = jnp.pad(x, ...)  # to a few sizes")


def test_static_values() -> None:
    def calls() -> None:
        jitted = jax.jit(lambda x, n: x * n, static_argnames="n")
        for n in range(6):
            jitted(jnp.ones(3), n=n)

    (finding,) = found(calls)
    assert (finding.kind, "the static value of `n`" in finding.title) == ("retraced", True)
    assert finding.remedy.startswith("jax.jit(f)  # without n in static_argnums")


def test_long_static_values() -> None:
    """Equinox passes everything that is not an array as one static argument."""

    def calls() -> None:
        jitted = jax.jit(lambda config, x: x * config[1][0], static_argnums=0)
        for n in range(6):
            jitted((("a long description of the model " * 4, f"run{n}"), (2.0, None)), jnp.ones(3))

    (finding,) = found(calls)
    assert finding.title.endswith(": 'run0', 'run1', 'run2', ... 3 more.")


def test_static_objects() -> None:
    (finding,) = found(methods_of_new_objects)
    assert finding.kind == "retraced"
    assert "static value" in finding.title


def test_dtypes() -> None:
    def calls() -> None:
        jitted = jax.jit(lambda x, lr: (x * lr).sum())
        for dtype in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32):
            jitted(jnp.ones(3, dtype), jnp.ones((), dtype))

    (finding,) = found(calls)
    assert (finding.kind, finding.remedy.startswith("x = x.astype(dtype)")) == ("retraced", True)


def one_call() -> None:
    jax.jit(step)(jnp.ones(3), 0.1)


def a_last_smaller_batch() -> None:
    jitted = jax.jit(step)
    for n in (8, 8, 8, 5):
        jitted(jnp.ones(n), 0.1)


def training_and_evaluation() -> None:
    jitted = jax.jit(lambda x, is_training: x * (2 if is_training else 1), static_argnames="is_training")
    for flag in (True, False, True):
        jitted(jnp.ones(3), is_training=flag)


def many_calls_of_one_trace() -> None:
    jitted = jax.jit(step)
    for n in range(20):
        jitted(jnp.full(3, n), jnp.float32(n))


@pytest.mark.parametrize("calls", [one_call, a_last_smaller_batch, training_and_evaluation, many_calls_of_one_trace])
def test_silent(calls: Callable[[], None]) -> None:
    assert not found(calls)


def test_of_one_function_and_the_most_expensive_first() -> None:
    def calls() -> None:
        lambdas_in_a_loop()
        factory_in_a_loop()

    both = found(calls)
    assert {each.title.split("`")[1] for each in both} == {"<lambda>", "scaled"}
    assert both[0].compile_s >= both[1].compile_s
    (one,) = found(calls, "scaled")
    assert one.title.startswith("`scaled`")
    (other,) = found(calls, "jit__lambda")  # the name of its module
    assert other.title.startswith("`<lambda>`")


def test_the_gain_is_a_part_of_what_jax_reported() -> None:
    seconds: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(add := lambda event, duration, **_: seconds.append(duration) if "/compile/" in event else None)  # fmt: skip
    try:
        (finding,) = found(factory_in_a_loop, "scaled")
    finally:
        jax.monitoring.unregister_event_duration_listener(add)
    assert 0 < finding.compile_s <= sum(seconds)
    assert 0 < finding.compile_share <= 1


def test_in_an_explorer() -> None:
    jitted = jax.jit(step)
    explorer = inspector.explore(jitted, jnp.ones(3), 0.5, target="cpu")
    try:
        assert not [each for each in explorer.findings() if each.is_watched]
        explorer.watch_retraces()
        for n in range(4, 40):
            jitted(jnp.ones(n), 0.5)
        findings = explorer.findings()
        (finding,) = [each for each in (*findings, *findings.folded) if each.kind == "retraced"]
        assert "`x`" in finding.title
        assert finding in [*findings]  # not folded: it took more than a tenth of a second
        assert finding.prove().verdict == "cannot be tried"
        assert findings.table().kind.tolist()[-1] == "retraced"
    finally:
        explorer.close()
