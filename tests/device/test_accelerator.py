"""An attached accelerator: compiled inline as it will run, or apart from this process for that very chip.

On a machine that has one: `JAX_PLATFORMS=cuda pytest -m device` (or `tpu`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.compiled import engine_of
from inspector.errors import CompilationError, InspectorError, Unavailable

pytestmark = pytest.mark.device


def step(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w).sum(axis=0)


@pytest.fixture
def arguments() -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0))
    return jax.random.normal(keys[0], (256, 256)), jax.random.normal(keys[1], (64, 256))


def test_the_optimized_hlo_is_the_one_of_jax(arguments: tuple[jax.Array, jax.Array]) -> None:
    compiled = inspector.lower(step, *arguments).compile()
    assert engine_of(compiled) == "inline"
    assert compiled.hlo == jax.jit(step).lower(*arguments).compile().as_text()
    assert compiled.devices[0].startswith(jax.local_devices()[0].device_kind)
    assert not isinstance(compiled.memory, Unavailable)


@pytest.mark.parametrize("isolate", [False, True])
def test_a_run_equals_jax(arguments: tuple[jax.Array, jax.Array], isolate: bool) -> None:
    compiled = inspector.lower(step, *arguments).compile(isolate=isolate)
    assert engine_of(compiled) == ("worker" if isolate else "inline")
    run = compiled.run(*arguments, repeat=3)
    assert run.device_kind == jax.local_devices()[0].device_kind
    np.testing.assert_allclose(run.outputs[0], jax.jit(step)(*arguments), rtol=2e-2, atol=2e-2)


def test_isolated_compiling_is_for_this_very_chip(arguments: tuple[jax.Array, jax.Array]) -> None:
    compiled = inspector.lower(step, *arguments).compile(isolate=True)
    assert compiled.devices[0].startswith(jax.local_devices()[0].device_kind)
    assert isinstance(compiled._executable, bytes)


def test_a_crash_costs_the_worker_only(arguments: tuple[jax.Array, jax.Array]) -> None:
    lowered = inspector.lower(step, *arguments)
    with pytest.raises(InspectorError) as caught:
        lowered.compile({"xla_enable_hlo_passes_only": "no-such-pass"}, isolate=True)
    assert isinstance(caught.value, CompilationError)
    assert lowered.compile(isolate=True).run(*arguments, repeat=1).outputs[0].shape == (256,)


def test_targets_list_the_accelerator() -> None:
    attached = inspector.targets().iloc[0]
    assert (attached.target, attached.can_run) == ("attached", True)
    assert attached.device_kind == jax.local_devices()[0].device_kind


def test_host_callbacks_go_inline(arguments: tuple[jax.Array, jax.Array], capfd: pytest.CaptureFixture[str]) -> None:
    def talks(x: jax.Array) -> jax.Array:
        jax.debug.print("sum {}", x.sum())
        return x

    compiled = inspector.lower(talks, arguments[0]).compile()
    assert engine_of(compiled) == "inline"
    compiled.run(arguments[0], repeat=1, warmup=0)
    assert "sum" in capfd.readouterr().out
