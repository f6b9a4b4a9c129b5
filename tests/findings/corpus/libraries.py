"""Programs of other libraries without mistakes. The libraries are imported when a program is recorded, and not by tests.

Models of libraries have values. The programs take them as arguments, so that the recordings have the shapes only.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.findings.corpus.cases import CPU, GPU, I32, ONE, clean, planted, struct
from tests.findings.sharded import Program


@clean(CPU, GPU)
def equinox_training_step() -> Program:
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(256, 10, 1024, 3, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)

    @eqx.filter_jit(donate="all-except-first")
    def train_step(batch: Any, model: Any, state: Any) -> Any:
        x, labels = batch

        def loss(model: Any) -> Any:
            logits = jax.vmap(model)(x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradients = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradients, state)
        return eqx.apply_updates(model, updates), state, value

    state = optimizer.init(eqx.filter(model, eqx.is_array))
    return train_step, ((jnp.zeros((512, 256)), jnp.zeros(512, I32)), model, state)


@clean(CPU, GPU)
def equinox_attention() -> Program:
    import equinox as eqx

    heads = eqx.nn.MultiheadAttention(8, 512, key=jax.random.key(0))
    norm = eqx.nn.LayerNorm(512)

    @eqx.filter_jit
    def encode(layers: Any, x: Any) -> Any:
        heads, norm = layers
        y = jax.vmap(jax.vmap(norm))(x)
        return x + jax.vmap(heads)(y, y, y)

    return encode, ((heads, norm), jnp.zeros((16, 256, 512)))


@clean(CPU, GPU)
def nnx_training_step() -> Program:
    import optax
    from flax import nnx

    class Mlp(nnx.Module):  # type: ignore[misc]
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(256, 1024, rngs=rngs)
            self.norm = nnx.LayerNorm(1024, rngs=rngs)
            self.second = nnx.Linear(1024, 256, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.second(jax.nn.gelu(self.norm(self.first(x))))

    model = Mlp(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def train_step(state: Any, x: Any, y: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        value, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return nnx.state((model, optimizer)), value

    return jax.jit(train_step, donate_argnums=(0,)), (state, struct(512, 256), struct(512, 256))


@planted("undonated", CPU, GPU)
def nnx_jit_of_a_training_step() -> Program:
    """It returns the new states of the model and of the optimizer, which the caller does not see."""
    import optax
    from flax import nnx

    model = nnx.Linear(512, 512, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        value, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return value

    return nnx.jit(train_step), (model, optimizer, struct(128, 512), struct(128, 512))


@clean(CPU, GPU)
def linen_transformer() -> Program:
    import flax.linen as nn

    class Encoder(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(4096, 256)(tokens)
            for _ in range(2):
                x = x + nn.SelfAttention(8)(nn.LayerNorm()(x))
                x = x + nn.Dense(256)(nn.gelu(nn.Dense(1024)(nn.LayerNorm()(x))))
            return nn.Dense(16)(x.mean(1))

    model = Encoder()
    tokens = struct(16, 128, dtype=I32)
    params = jax.eval_shape(model.init, jax.random.key(0), tokens)
    return model.apply, (params, tokens)


@clean(CPU)
def linen_convolutions() -> Program:
    import flax.linen as nn
    import optax

    class Cnn(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for features in (32, 64):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3))(x)))
                x = nn.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.mean((1, 2)))

    model, optimizer = Cnn(), optax.sgd(0.1, momentum=0.9)

    def train_step(params: Any, state: Any, x: Any, labels: Any) -> Any:
        def loss(params: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), labels).mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    images = struct(64, 32, 32, 3)
    params = jax.eval_shape(model.init, jax.random.key(0), images)
    args = params, jax.eval_shape(optimizer.init, params), images, struct(64, dtype=I32)
    return jax.jit(train_step, donate_argnums=(0, 1)), args


@clean(*ONE)
def optax_chain() -> Program:
    """Clipped gradients, a schedule and weight decay."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 100, 10_000)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))

    def train_step(params: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return optax.huber_loss(jax.nn.relu(x @ params["up"]) @ params["down"], y).mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    params = {"up": struct(512, 2048), "down": struct(2048, 512)}
    args = params, jax.eval_shape(optimizer.init, params), struct(256, 512), struct(256, 512)
    return jax.jit(train_step, donate_argnums=(0, 1)), args


@clean(CPU)
def diffrax_solution() -> Program:
    """An adaptive solution of a reaction and its diffusion, saved at five times."""
    import diffrax as dfx

    def rate(t: Any, y: Any, args: Any) -> Any:
        u, v = y
        bend = [jnp.roll(w, 1, 0) + jnp.roll(w, -1, 0) + jnp.roll(w, 1, 1) + jnp.roll(w, -1, 1) - 4 * w for w in y]
        return 0.2 * bend[0] - u * v**2 + 0.04 * (1 - u), 0.1 * bend[1] + u * v**2 - 0.1 * v

    def solve(u: Any, v: Any) -> Any:
        solution = dfx.diffeqsolve(
            dfx.ODETerm(rate), dfx.Tsit5(), 0.0, 10.0, 0.1, (u, v), saveat=dfx.SaveAt(ts=jnp.linspace(0.0, 10.0, 5)),
            stepsize_controller=dfx.PIDController(rtol=1e-4, atol=1e-6), max_steps=1000, throw=False,
        )  # fmt: skip
        return solution.ys

    return solve, (struct(256, 256), struct(256, 256))


@clean(*ONE)
def numpyro_density() -> Program:
    """The gradient of a logistic regression."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x: Any, y: Any) -> None:
        w = numpyro.sample("w", dist.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
        with numpyro.plate("data", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)

    def joint(params: Any, x: Any, y: Any) -> Any:
        return -log_density(model, (x, y), {}, params)[0]

    return jax.value_and_grad(joint), ({"w": struct(256)}, struct(16_384, 256), struct(16_384))


@clean(CPU, GPU)
def blackjax_chain() -> Program:
    import blackjax

    def sample(key: Any, position: Any, x: Any) -> Any:
        def density(w: Any) -> Any:
            return -0.5 * jnp.sum((x @ w) ** 2) - 0.5 * jnp.sum(w**2)

        sampler = blackjax.hmc(density, step_size=0.01, inverse_mass_matrix=jnp.ones(256), num_integration_steps=8)

        def step(state: Any, key: Any) -> Any:
            state, info = sampler.step(key, state)
            return state, (state.position, info.acceptance_rate)

        return lax.scan(step, sampler.init(position), jax.random.split(key, 20))[1]

    return sample, (struct(2, dtype=jnp.uint32), struct(256), struct(4096, 256))


@clean(CPU, GPU)
def haiku_recurrence() -> Program:
    import haiku as hk

    def network(xs: Any) -> Any:
        core = hk.GRU(512)
        ys, _ = hk.dynamic_unroll(core, xs, core.initial_state(xs.shape[1]))
        return hk.Linear(32)(ys[-1])

    model = hk.without_apply_rng(hk.transform(network))
    xs = struct(64, 128, 256)
    return model.apply, (jax.eval_shape(model.init, jax.random.PRNGKey(0), xs), xs)


@clean(*ONE)
def lineax_solution() -> Program:
    """Conjugate gradients with a given matrix."""
    import lineax as lx

    def solve(matrix: Any, b: Any) -> Any:
        operator = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
        return lx.linear_solve(operator, b, lx.CG(rtol=1e-5, atol=1e-5), throw=False).value

    return solve, (struct(1024, 1024), struct(1024))


@clean(CPU)
def optimistix_fit() -> Program:
    """A least-squares fit of ten exponentials."""
    import optimistix as optx

    def fit(params: Any, x: Any, y: Any) -> Any:
        def residuals(params: Any, _: Any) -> Any:
            return jnp.exp(-x[:, None] * params["rate"]) @ params["scale"] - y

        solver = optx.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
        return optx.least_squares(residuals, solver, params, max_steps=32, throw=False).value

    params = {"rate": struct(10), "scale": struct(10)}
    return fit, (params, struct(8192), struct(8192))
