"""Optax: optimizers with schedules and chains, as pytrees of state."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from tests.libraries.program import Program

PARAMS = {"w": jnp.linspace(-1.0, 1.0, 6).reshape(3, 2), "b": jnp.zeros(2)}
X = jnp.linspace(0.0, 1.0, 12).reshape(4, 3)
SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 100)
CHAIN = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(SCHEDULE, weight_decay=1e-4))
ACCUMULATED = optax.MultiSteps(optax.sgd(0.1, momentum=0.9, nesterov=True), every_k_schedule=2)


def loss(params: dict, x: jax.Array) -> jax.Array:
    return jnp.sum(optax.huber_loss(x @ params["w"] + params["b"], jnp.ones(2)))


def step(params: dict, state: optax.OptState, x: jax.Array) -> tuple:
    value, gradients = jax.value_and_grad(loss)(params, x)
    updates, state = CHAIN.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value


@jax.jit
def accumulate(params: dict, state: optax.MultiStepsState, x: jax.Array) -> tuple:
    updates, state = ACCUMULATED.update(jax.grad(loss)(params, x), state, params)
    return optax.apply_updates(params, updates), state  # accumulated


def minimize(params: jax.Array) -> jax.Array:
    solver = optax.lbfgs(memory_size=3)
    rosenbrock = lambda p: jnp.sum(100.0 * (p[1:] - p[:-1] ** 2) ** 2 + (1.0 - p[:-1]) ** 2)  # noqa: E731
    value_and_grad = optax.value_and_grad_from_state(rosenbrock)

    def body(_: int, carry: tuple) -> tuple:
        params, state = carry
        value, grad = value_and_grad(params, state=state)
        updates, state = solver.update(grad, state, params, value=value, grad=grad, value_fn=rosenbrock)
        return optax.apply_updates(params, updates), state

    return jax.lax.fori_loop(0, 3, body, (params, solver.init(params)))[0]


PROGRAMS = (
    Program(
        "a clipped AdamW step, arguments donated",
        step,
        (PARAMS, CHAIN.init(PARAMS), X),
        jit={"donate_argnums": (0, 1)},
        line="return jnp.sum(optax.huber_loss(",
    ),
    Program(
        "gradients accumulated over steps",
        accumulate,
        (jax.tree.map(jnp.copy, PARAMS), ACCUMULATED.init(PARAMS), X),
        line="return optax.apply_updates(params, updates), state  # accumulated",
    ),
    Program("L-BFGS in a loop", minimize, (jnp.zeros(3),), line="rosenbrock = lambda p: jnp.sum("),
)
