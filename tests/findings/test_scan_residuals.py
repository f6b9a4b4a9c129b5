"""Values that a differentiated loop stacks, against the same program with `jax.checkpoint`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from tests.absent import needs_tpu
from tests.findings.examined import all_found, peak

X = jax.ShapeDtypeStruct((256, 128), jnp.float32)
WS = (jax.ShapeDtypeStruct((8, 128, 512), jnp.float32), jax.ShapeDtypeStruct((8, 512, 128), jnp.float32))
XS = jax.ShapeDtypeStruct((50, 64, 128), jnp.float32)
GATES = {name: jax.ShapeDtypeStruct((128, 128), jnp.float32) for name in "abcd"}


def plain(body: Any) -> Any:
    return body


def layers(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    def body(x: jax.Array, w: Any) -> Any:
        return x + jnp.tanh(jnp.sin(x @ w[0]) @ w[1]), None

    return jax.grad(lambda ws, x: jnp.sum(jax.lax.scan(wrap(body), x, ws)[0] ** 2))


def cell(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(p: Any, xs: jax.Array) -> jax.Array:
        def body(h: jax.Array, x: jax.Array) -> Any:
            z, n = jax.nn.sigmoid(x @ p["a"] + h @ p["b"]), jnp.tanh(x @ p["c"] + h @ p["d"])
            h = (1 - z) * h + z * n
            return h, h

        return jnp.sum(jax.lax.scan(wrap(body), jnp.zeros((64, 128)), xs)[1] ** 2)

    return jax.grad(run)


def in_jit(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda ws, x: jax.jit(layers(wrap))(ws, x)


def named_carry(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    def body(state: Any, w: Any) -> Any:
        x = state["x"] * jnp.tanh(jnp.exp(state["x"] @ w[0]) @ w[1])
        return {"x": x, "step": state["step"] + 1}, x.sum()

    def run(ws: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.scan(wrap(body), {"x": x, "step": 0}, ws)[1])

    return jax.value_and_grad(run)


@pytest.mark.parametrize(
    ("program", "args", "trips"), [(layers, (WS, X), 8), (cell, (GATES, XS), 50), (in_jit, (WS, X), 8), (named_carry, (WS, X), 8)]
)  # fmt: skip
def test_stacked_values(program: Any, args: tuple[Any, ...], trips: int) -> None:
    (finding,) = all_found("scan-residuals", program(plain), *args)
    assert f"of its {trips} iterations for the backward pass" in finding.title
    assert finding.frames
    assert finding.remedy.startswith(
        "body = jax.checkpoint(body)  # the function of the loop at test_scan_residuals.py:"
    )
    saved = _peak(program(plain), args) - _peak(program(jax.checkpoint), args)
    assert finding.gain_bytes == pytest.approx(saved, rel=0.35)  # other arrays use the memory meanwhile
    assert all_found("scan-residuals", program(jax.checkpoint), *args) == []


def simulation(wrap: Callable[[Any], Any], in_segments: bool = False) -> Callable[..., Any]:
    """The carry has two arrays, and an iteration keeps one."""

    def misfit(c: jax.Array, sources: jax.Array) -> jax.Array:
        def body(carry: Any, source: jax.Array) -> Any:
            before, now = carry
            around = jnp.roll(now, 1, 0) + jnp.roll(now, -1, 0) - 2 * now
            after = (2 * now - before + c * around).at[8, 8].add(source)
            return (now, after), after[::16, 3]

        start = (jnp.zeros_like(c), jnp.zeros_like(c))
        if in_segments:
            segment = jax.checkpoint(lambda carry, xs: jax.lax.scan(body, carry, xs))
            return jnp.sum(jax.lax.scan(segment, start, sources.reshape(-1, 16))[1] ** 2)
        return jnp.sum(jax.lax.scan(wrap(body), start, sources)[1] ** 2)

    return jax.grad(misfit)


FIELD = jax.ShapeDtypeStruct((128, 128), jnp.float32), jax.ShapeDtypeStruct((256,), jnp.float32)


def test_segments_of_a_simulation() -> None:
    (finding,) = all_found("scan-residuals", simulation(plain), *FIELD)
    assert "in segments of 16 iterations, about " in finding.title
    assert finding.remedy.startswith("segment = jax.checkpoint(lambda carry, xs: jax.lax.scan(body, carry, xs))")
    saved = _peak(simulation(plain), FIELD) - _peak(simulation(plain, in_segments=True), FIELD)
    assert finding.gain_bytes == pytest.approx(saved, rel=0.1)
    proof = finding.prove(run=True)
    assert proof.gain_bytes == pytest.approx(saved, rel=0.1)
    assert proof.values in ("equal results", "results agree within 1e-04")


@pytest.mark.parametrize("program", [simulation(jax.checkpoint), simulation(plain, in_segments=True)])
def test_checkpoints_in_a_simulation(program: Any) -> None:
    assert not all_found("scan-residuals", program, *FIELD)


@pytest.mark.parametrize(
    ("program", "args"),
    [
        (layers, (WS, X)),
        *(
            pytest.param(program, args, marks=pytest.mark.slow)
            for program, args in ((cell, (GATES, XS)), (in_jit, (WS, X)), (named_carry, (WS, X)))
        ),
    ],
)
def test_the_proof_equals_the_checkpoint_by_hand(program: Any, args: tuple[Any, ...]) -> None:
    (finding,) = all_found("scan-residuals", program(plain), *args)
    proof = finding.prove()
    assert proof.verdict == "proven", proof
    by_hand = _peak(program(plain), args) - _peak(program(jax.checkpoint), args)
    assert proof.gain_bytes == pytest.approx(by_hand, rel=0.02)
    assert "results agree" in str(proof.values) or proof.values == "equal results"


def _peak(fun: Any, args: tuple[Any, ...]) -> int:
    return int(inspector.lower(fun, *args).compile(target="cpu").memory.peak_bytes)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda ws, x: jax.lax.scan(lambda x, w: (jnp.tanh(x @ w[0]) @ w[1], None), x, ws)[0], (WS, X)),  # no gradient
        (lambda ws, x: jax.lax.scan(lambda x, w: (x @ w[0] @ w[1], x), x, ws), (WS, X)),  # stacks its results
        (
            jax.grad(lambda ws, x: jnp.sum(jax.lax.scan(lambda x, w: (x @ w, None), x, ws)[0] ** 2)),  # keeps its carry
            (jax.ShapeDtypeStruct((8, 128, 128), jnp.float32), X),
        ),
        (jax.grad(lambda x: jnp.sum(jax.lax.fori_loop(0, 8, lambda _, x: 0.5 * x, x))), (X,)),
    ],
)
def test_other_loops(fun: Any, args: tuple[Any, ...]) -> None:
    assert all_found("scan-residuals", fun, *args) == []


def keeps_products(body: Any) -> Any:
    return jax.checkpoint(body, policy=jax.checkpoint_policies.dots_saveable)


def checkpoints_a_part(body: Any) -> Any:
    """The other products of the body stay outside of the checkpoint."""
    return lambda x, w: body(x + jax.checkpoint(lambda x: jnp.sin(jnp.tanh(x @ x.T)) @ x)(x), w)


@pytest.mark.parametrize(("program", "args"), [(layers, (WS, X)), (cell, (GATES, XS)), (in_jit, (WS, X))])
def test_a_policy_was_chosen(program: Any, args: tuple[Any, ...]) -> None:
    assert not all_found("scan-residuals", program(keeps_products), *args)


def test_a_part_is_checkpointed() -> None:
    assert all_found("scan-residuals", layers(checkpoints_a_part), WS, X)


def test_a_function_that_cannot_be_traced_again() -> None:
    traces = []

    def once(ws: Any, x: Any) -> Any:
        traces.append(1)
        if len(traces) > 1:
            raise RuntimeError("only once\nplease")
        return layers(plain)(ws, x)

    (finding,) = all_found("scan-residuals", once, WS, X)
    assert str(finding.prove()) == "cannot be tried: tracing the function again failed: RuntimeError: only once"


@pytest.mark.slow
@needs_tpu
def test_values_in_vmem_take_no_main_memory() -> None:
    ws = jax.ShapeDtypeStruct((16, 256, 256), jnp.float32), jax.ShapeDtypeStruct((16, 256, 256), jnp.float32)
    args = ws, jax.ShapeDtypeStruct((1024, 256), jnp.float32)
    assert "f32[16,1024,256]{2,1,0:T(8,128)S(1)}" in _hlo(layers(plain), args)
    assert not all_found("scan-residuals", layers(plain), *args, target="tpu:v5e:1")


def _hlo(fun: Any, args: tuple[Any, ...]) -> str:
    return inspector.lower(fun, *args, target="tpu:v5e:1").compile(target="tpu:v5e:1").hlo


def test_values_for_which_the_device_has_room_may_be_kept_on_purpose() -> None:
    compiled = inspector.lower(layers(plain), WS, X).compile(target="cpu")
    roofs = peak("gpu:h100")
    small = dataclasses.replace(roofs, memory_bytes=int(compiled.memory.peak_bytes))
    known, full, unknown = (
        compiled.findings(each, kinds=["scan-residuals"])[0].caution for each in (roofs, small, None)
    )
    assert "kept on purpose: the program needs" in known
    assert "on purpose" not in full
    assert unknown.endswith("kept on purpose if the memory is free.")


def test_the_loops_of_a_line_are_one_finding() -> None:
    """Layers in a Python loop."""

    def layer(w: Any, x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, x: (jnp.tanh(jnp.sin(x @ w[0]) @ w[1] + h),) * 2, jnp.zeros((64, 128)), x)[1]

    def network(ws: Any, x: jax.Array) -> jax.Array:
        for w in ws:
            x = layer(w, x)
        return jnp.sum(x**2)

    one = jax.ShapeDtypeStruct((128, 256), jnp.float32), jax.ShapeDtypeStruct((256, 128), jnp.float32)
    (finding,) = all_found("scan-residuals", jax.grad(network), [one] * 3, XS)
    assert finding.title.startswith("3 loops keep ")
    assert "of their 50 iterations" in finding.title
    assert len(finding.instructions) == 3
    (single,) = all_found("scan-residuals", jax.grad(network), [one], XS)
    assert finding.gain_bytes == pytest.approx(3 * single.gain_bytes, rel=0.2)
