"""Callbacks that leave the device in every iteration of a loop, and those that do not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.findings.examined import all_found, found

KIND = "callback-in-loop"
X = jax.ShapeDtypeStruct((64,), jnp.float32)
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


def counted(x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        jax.debug.callback(lambda _: None, x[0])
        return x * 0.5

    return jax.lax.fori_loop(0, 100, body, x)


def ordered(x: Any) -> Any:
    def body(x: Any, _: Any) -> Any:
        jax.debug.callback(lambda _: None, x[0], ordered=True)
        return x * 0.5, None

    return jax.lax.scan(body, x, None, length=100)[0]


def in_a_function(x: Any) -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        jax.debug.callback(lambda _: None, x[0])
        return x * 0.5

    return jax.lax.scan(lambda x, _: (step(x), None), x, None, length=100)[0]


def nested(x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 20, lambda _, x: x + jax.pure_callback(np.sin, SCALAR, x[0]), x)

    return jax.lax.fori_loop(0, 5, body, x)


@pytest.mark.parametrize("fun", [counted, ordered, in_a_function, nested])
def test_callbacks_in_loops(fun: Any) -> None:
    (finding,) = found(KIND, fun, X)
    assert "each of 100 iterations" in finding.title
    assert finding.frames[0].file == __file__
    assert finding.gain_s == pytest.approx(100 * 500e-6)
    assert ("pure_callback" in finding.title) == (fun is nested)


def test_a_loop_of_unknown_length() -> None:
    def until(x: Any) -> Any:
        def body(x: Any) -> Any:
            jax.debug.print("{}", x[0])
            return x * 0.5

        return jax.lax.while_loop(lambda x: x[0] > 1, body, x)

    (finding,) = found(KIND, until, X)
    assert "`jax.debug.print` in a loop calls Python on the host in each iteration" in finding.title
    assert finding.caution.endswith(" The gain is that of one iteration, because their number is unknown.")


def after_the_loop(x: Any) -> Any:
    x = jax.lax.fori_loop(0, 100, lambda _, x: x * 0.5, x)
    jax.debug.callback(lambda _: None, x[0])
    return x


def sometimes(x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        jax.lax.cond(i % 50 == 0, lambda: jax.debug.callback(lambda _: None, x[0]), lambda: None)
        return x * 0.5

    return jax.lax.fori_loop(0, 100, body, x)


def once(x: Any) -> Any:
    return jax.lax.scan(lambda x, _: (x + jax.pure_callback(np.sin, SCALAR, x[0]), None), x, None, length=1)[0]


def without(x: Any) -> Any:
    return jax.lax.fori_loop(0, 100, lambda _, x: jnp.linalg.qr(jnp.outer(x, x))[0][0], x)


@pytest.mark.parametrize("fun", [after_the_loop, sometimes, once, without])
def test_callbacks_elsewhere(fun: Any) -> None:
    assert not all_found(KIND, fun, X)


@pytest.mark.parametrize("fun", [counted, ordered, in_a_function])
def test_the_proof_removes_the_callbacks(fun: Any) -> None:
    proof = found(KIND, fun, X)[0].prove(run=True)
    assert proof.verdict == "proven"
    assert proof.is_measured
    assert proof.gain_s > 0
    assert proof.values == "equal results"
    assert proof.compiled is not None
    assert " custom-call(" not in proof.compiled.hlo


def test_a_proof_does_not_call_back_unless_asked_to() -> None:
    proof = found(KIND, counted, X)[0].prove()
    assert proof.verdict == "cannot be tried"
    assert "prove(run=True)" in proof.reason


def test_a_callback_below_a_checkpoint_is_reported_once() -> None:
    def step(x: Any) -> Any:
        jax.debug.callback(lambda x: None, x.sum())
        return jnp.sin(x)

    def loss(x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, x: jax.checkpoint(step)(x), x, unroll=False).sum()

    scanned = lambda x: jax.lax.scan(lambda x, _: (jax.checkpoint(step)(x), None), x, length=10)[0].sum()  # noqa: E731
    assert len(all_found(KIND, loss, X)) == 1
    assert len(all_found(KIND, jax.grad(scanned), X)) == 1


def test_results_cannot_be_dropped() -> None:
    assert found(KIND, nested, X)[0].prove().verdict == "cannot be tried"
