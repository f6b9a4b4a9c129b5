"""How often instructions run: loops in loops, several callers, branches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import inspector
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.hlo.execution_counts import executions, places
from tests.loops import counted_loop
from tests.modules import module_of

CALLED_TWICE = f"""HloModule m

twice {{
  t = f32[4]{{0}} parameter(0)
  ROOT doubled = f32[4]{{0}} add(t, t)
}}

{counted_loop("twice", 5)}
ENTRY main {{
  x = f32[4]{{0}} parameter(0)
  first = f32[4]{{0}} call(x), to_apply=twice
  zero = s32[] constant(0)
  initial = (s32[], f32[4]{{0}}) tuple(zero, first)
  loop = (s32[], f32[4]{{0}}) while(initial), condition=condition, body=body
  ROOT out = f32[4]{{0}} get-tuple-element(loop), index=1
}}
"""


def test_a_computation_runs_for_all_that_call_it() -> None:
    module = module_of(CALLED_TWICE)
    assert executions(module) == {"main": 1, "body": 5, "condition": 6, "twice": 6}
    assert places(module)["twice"].executions == 6
    assert places(module)["main"].counted_in is None


def test_loops_in_loops_multiply() -> None:
    def inner(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.tanh(carry @ carry), None

    def outer(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jax.lax.scan(inner, carry, None, length=3)[0] + 1, None

    def fun(x: jax.Array) -> jax.Array:
        return jax.lax.scan(outer, x, None, length=7)[0]

    module = inspector.lower(fun, np.eye(16, dtype=np.float32)).compile(engine=InlineEngine()).module()
    runs = executions(module)
    tanh = [runs[i.computation.name] for i in module.instructions() if i.opcode == "tanh"]
    assert tanh == [21]


def test_the_number_of_runs_below_a_loop_of_unknown_length_is_unknown() -> None:
    def fun(n: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, n, lambda _, v: jnp.sin(v @ v), x)

    module = inspector.lower(fun, np.int32(3), np.eye(8, dtype=np.float32)).compile(engine=InlineEngine()).module()
    runs = executions(module)
    (sine,) = [runs[i.computation.name] for i in module.instructions() if i.opcode == "sine"]
    assert isinstance(sine, Unavailable)
    assert runs[module.entry.name] == 1
