"""Programs with mistakes in loops and in what a slice, a sort or a callback does."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from tests.findings.corpus.cases import BF16, CPU, F32, GPU, I32, ONE, TPU, planted, silent, struct
from tests.findings.corpus.models import block, block_params, mlp, mlp_params, sgd
from tests.findings.sharded import Program

# callback-in-loop. JAX lowers callbacks for the attached platform only.


def epochs(report: Any) -> Program:
    def train(params: Any, xs: Any, ys: Any) -> Any:
        def step(params: Any, batch: Any) -> Any:
            x, y = batch
            loss, gradients = jax.value_and_grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params)
            report(loss)
            return sgd(params, gradients), loss

        return lax.scan(step, params, (xs, ys))

    params = mlp_params(256, 512, 256)
    return jax.jit(train, donate_argnums=(0,)), (params, struct(50, 128, 256), struct(50, 128, 256))


@planted("callback-in-loop", CPU)
def printed_loss() -> Program:
    return epochs(lambda loss: jax.debug.print("loss {}", loss))


def simulator(action: Any) -> Any:
    return np.cumsum(action, -1, dtype=np.float32)


@planted("callback-in-loop", CPU)
def simulator_on_the_host() -> Program:
    """The environment of a rollout is a function of NumPy."""

    def rollout(policy: Any, observation: Any) -> Any:
        def step(observation: Any, _: Any) -> Any:
            action = jnp.tanh(observation @ policy)
            shape = jax.ShapeDtypeStruct(observation.shape, observation.dtype)
            return jax.pure_callback(simulator, shape, action, vmap_method="expand_dims"), action

        return lax.scan(step, observation, None, length=100)[1]

    return rollout, (struct(64, 64), struct(32, 64))


def logged(count: Any, value: Any) -> None:
    pass


@planted("callback-in-loop", CPU)
def energy_logged_in_each_step() -> Program:
    def simulate(x: Any, v: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            x, v = state
            v = v - 0.01 * jnp.sin(x)
            x = x + 0.01 * v
            io_callback(logged, None, i, jnp.sum(v**2), ordered=False)
            return x, v

        return lax.fori_loop(0, 200, step, (x, v))

    return jax.jit(simulate, donate_argnums=(0, 1)), (struct(512, 512), struct(512, 512))


@planted("callback-in-loop", CPU)
def progress_of_a_sampler() -> Program:
    """In a function that the loop's body calls."""

    @jax.jit
    def accepted(x: Any, proposal: Any, u: Any) -> Any:
        ratio = jnp.exp(jnp.sum(x**2 - proposal**2, -1))
        jax.debug.callback(lambda mean: None, jnp.mean(ratio))
        return jnp.where((u < ratio)[:, None], proposal, x)

    def chain(x: Any, key: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            a, b = jax.random.split(key)
            proposal = carry + 0.1 * jax.random.normal(a, carry.shape)
            return accepted(carry, proposal, jax.random.uniform(b, carry.shape[:1])), None

        return lax.scan(step, x, jax.random.split(key, 100))[0].mean(0)

    return chain, (struct(256, 32), struct(2, dtype=jnp.uint32))


@silent("callback-in-loop", CPU)
def printed_after_the_loop() -> Program:
    def train(params: Any, xs: Any, ys: Any) -> Any:
        fun, _ = epochs(lambda loss: None)
        params, losses = fun(params, xs, ys)
        jax.debug.print("losses {}", losses.mean())
        return params

    _, args = epochs(lambda loss: None)
    return jax.jit(train, donate_argnums=(0,)), args


@silent("callback-in-loop", CPU)
def printed_if_it_diverges() -> Program:
    def report(loss: Any) -> None:
        lax.cond(jnp.isfinite(loss), lambda: None, lambda: jax.debug.print("loss {}", loss))

    return epochs(report)


@silent("callback-in-loop", CPU)
def table_of_the_host_before_the_loop() -> Program:
    def evolve(x: Any) -> Any:
        table = jax.pure_callback(simulator, jax.ShapeDtypeStruct((64, 64), F32), x, vmap_method="expand_dims")
        return lax.scan(lambda x, _: (jnp.tanh(x @ table), None), x, None, length=50)[0]

    return evolve, (struct(64, 64),)


@silent("callback-in-loop", CPU, GPU)
def losses_as_results() -> Program:
    return epochs(lambda loss: None)


# sort-for-top-k. XLA asks an attached GPU how it sorts, so that some of these do not compile for absent ones.


@planted("sort-for-top-k", CPU, TPU)
def best_fifty_tokens() -> Program:
    def candidates(logits: Any) -> Any:
        return jax.nn.softmax(jnp.sort(logits, axis=-1)[:, -50:], -1)

    return candidates, (struct(64, 32_768),)


@planted("sort-for-top-k", CPU)
def nearest_neighbors() -> Program:
    def nearest(queries: Any, points: Any) -> Any:
        distances = jnp.sum(queries**2, -1)[:, None] - 2 * queries @ points.T + jnp.sum(points**2, -1)
        return jnp.argsort(distances, axis=-1)[:, :10]

    return nearest, (struct(256, 64), struct(16_384, 64))


@planted("sort-for-top-k", CPU, TPU)
def threshold_of_sparse_gradients() -> Program:
    """The hundredth part of the gradient with the largest magnitude."""

    def sparse(gradient: Any) -> Any:
        magnitude = jnp.abs(gradient)
        threshold = jnp.sort(magnitude.ravel())[-10_000]
        return jnp.where(magnitude >= threshold, gradient, 0)

    return sparse, (struct(1000, 1000),)


@planted("sort-for-top-k", *ONE)  # for more than 16 values GPUs sort in any case, but without reading the positions
def boxes_with_the_best_scores() -> Program:
    def select(scores: Any, boxes: Any) -> Any:
        rows = jnp.broadcast_to(jnp.arange(scores.shape[1]), scores.shape)
        keys, rows = lax.sort((-scores, rows), num_keys=1)
        return -keys[:, :100], jnp.take_along_axis(boxes, rows[:, :100, None], 1)

    return select, (struct(16, 20_000), struct(16, 20_000, 4))


@planted("sort-for-top-k", TPU)
def best_of_bfloat16_scores() -> Program:
    """The order is reversed behind the sort."""

    def best(x: Any, keys: Any) -> Any:
        scores = x @ keys
        return jnp.sort(scores, axis=-1)[:, ::-1][:, :8]

    return best, (struct(512, 128, dtype=BF16), struct(128, 8192, dtype=BF16))


@silent("sort-for-top-k", CPU, GPU)
def median_of_values() -> Program:
    return (lambda x: jnp.sort(x, axis=-1)[:, x.shape[-1] // 2]), (struct(256, 4096),)


@silent("sort-for-top-k", CPU)
def nucleus_of_tokens() -> Program:
    """The number of tokens is unknown, so that all of them are sorted."""

    def nucleus(logits: Any) -> Any:
        ordered = jnp.sort(jax.nn.softmax(logits, -1), axis=-1)[:, ::-1]
        inside = jnp.cumsum(ordered, -1) < 0.9
        least = jnp.min(jnp.where(inside, ordered, 1.0), -1, keepdims=True)
        return jnp.where(jax.nn.softmax(logits, -1) >= least, logits, -1e9)

    return nucleus, (struct(64, 32_768),)


@silent("sort-for-top-k", CPU, GPU)
def tokens_by_expert() -> Program:
    """A permutation of all tokens."""

    def dispatch(x: Any, experts: Any) -> Any:
        order = jnp.argsort(experts)
        return x[order], order

    return dispatch, (struct(8192, 256), struct(8192, dtype=I32))


@silent("sort-for-top-k", CPU)
def chosen_with_top_k() -> Program:
    return (lambda logits: lax.top_k(logits, 50)), (struct(64, 32_768),)


@silent("sort-for-top-k", CPU, GPU)
def upper_half() -> Program:
    return (lambda x: jnp.sort(x, axis=-1)[:, 2048:].mean(-1)), (struct(256, 4096),)


# full-rewrite


@planted("full-rewrite", *ONE)
def cache_written_by_a_mask() -> Program:
    def step(cache: Any, k: Any, q: Any, position: Any) -> Any:
        cache = jnp.where((jnp.arange(4096) == position)[None, :, None], k[:, None], cache)
        weights = jax.nn.softmax(jnp.einsum("bd,btd->bt", q, cache) / 16, -1)
        return cache, jnp.einsum("bt,btd->bd", weights, cache)

    args = struct(32, 4096, 256), struct(32, 256), struct(32, 256), struct(dtype=I32)
    return jax.jit(step, donate_argnums=(0,)), args


@planted("full-rewrite", *ONE)
def row_blended_with_one_hot() -> Program:
    """A memory of slots, of which one changes."""

    def write(memory: Any, value: Any, slot: Any) -> Any:
        chosen = jax.nn.one_hot(slot, 65_536)[:, None]
        return memory * (1 - chosen) + value * chosen

    return jax.jit(write, donate_argnums=(0,)), (struct(65_536, 128), struct(128), struct(dtype=I32))


@planted("full-rewrite", *ONE)
def history_put_together() -> Program:
    """The first entry is replaced."""

    def replace(history: Any, entry: Any) -> Any:
        return jnp.concatenate([entry[None], history[1:]])

    return jax.jit(replace, donate_argnums=(0,)), (struct(8192, 1024), struct(1024))


@planted("full-rewrite", CPU, GPU)
def trajectory_written_in_a_loop() -> Program:
    def simulate(x: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            x, saved = carry
            x = x + 0.1 * jnp.sin(x)
            return x, jnp.where((jnp.arange(200) == i)[:, None], x, saved)

        return lax.fori_loop(0, 200, step, (x, jnp.zeros((200, 8192), F32)))[1]

    return simulate, (struct(8192),)


@silent("full-rewrite", *ONE)
def cache_updated_by_slice() -> Program:
    def step(cache: Any, k: Any, q: Any, position: Any) -> Any:
        cache = lax.dynamic_update_slice_in_dim(cache, k[:, None], position, 1)
        weights = jax.nn.softmax(jnp.einsum("bd,btd->bt", q, cache) / 16, -1)
        return cache, jnp.einsum("bt,btd->bd", weights, cache)

    args = struct(32, 4096, 256), struct(32, 256), struct(32, 256), struct(dtype=I32)
    return jax.jit(step, donate_argnums=(0,)), args


# Each entry moves, but a ring with an index would change one. The detector reports it on purpose.
@silent("full-rewrite", CPU, GPU, also={"full-rewrite": (CPU, GPU)})
def shift_register() -> Program:
    """Each entry moves, so that all of the array changes."""

    def push(window: Any, sample: Any) -> Any:
        return jnp.concatenate([window[1:], sample[None]])

    return jax.jit(push, donate_argnums=(0,)), (struct(8192, 1024), struct(1024))


@silent("full-rewrite", CPU, GPU)
def values_replaced_where_they_are_invalid() -> Program:
    """The mask depends on the values: any of them can change."""

    def repair(field: Any, mean: Any) -> Any:
        return jnp.where(jnp.isnan(field), mean, field)

    return jax.jit(repair, donate_argnums=(0,)), (struct(4096, 4096), struct(4096))


@silent("full-rewrite", *ONE)
def decayed_memory() -> Program:
    """All slots decay, and one of them changes too."""

    def write(memory: Any, value: Any, slot: Any) -> Any:
        chosen = jax.nn.one_hot(slot, 65_536)[:, None]
        return 0.99 * memory + value * chosen

    return jax.jit(write, donate_argnums=(0,)), (struct(65_536, 128), struct(128), struct(dtype=I32))


# unrolled-blocks. Programs that compile in less than a second are left out: the first two do on CPUs too.


@planted("unrolled-blocks", CPU, GPU)
def twelve_blocks() -> Program:
    def encode(params: Any, x: Any) -> Any:
        for p in params:
            x = block(p, x)
        return x

    return encode, ([block_params(256) for _ in range(12)], struct(4, 128, 256))


@planted("unrolled-blocks", CPU, GPU)
def gradient_of_eight_blocks() -> Program:
    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = block(p, x)
        return jnp.mean(x**2)

    return jax.grad(loss), ([block_params(256) for _ in range(8)], struct(4, 128, 256))


@planted("unrolled-blocks", CPU, GPU, on=(GPU,))  # was planted on CPUs too, which compile it in 0.6 s
def unrolled_recurrence() -> Program:
    """Twenty-four steps of a GRU in a Python loop."""

    def run(params: Any, xs: Any) -> Any:
        h = jnp.zeros((64, 256))
        for i in range(24):
            z, r = jnp.split(jax.nn.sigmoid(xs[i] @ params["x"] + h @ params["h"]), 2, -1)
            h = (1 - z) * h + z * jnp.tanh(xs[i] @ params["in"] + (r * h) @ params["out"])
        return h

    params = {"x": struct(128, 512), "h": struct(256, 512), "in": struct(128, 256), "out": struct(256, 256)}
    return run, (params, struct(24, 64, 128))


@planted("unrolled-blocks", CPU, GPU, on=(GPU,))  # was planted on CPUs too, which compile it in 0.3 s
def unrolled_steps_of_runge_kutta() -> Program:
    def solve(w: Any, x: Any) -> Any:
        def rate(x: Any) -> Any:
            return jnp.tanh(x @ w[0]) @ w[1]

        for _ in range(32):
            a = rate(x)
            b = rate(x + 0.05 * a)
            c = rate(x + 0.05 * b)
            x = x + 0.1 / 6 * (a + 2 * b + 2 * c + rate(x + 0.1 * c))
        return x

    return solve, ((struct(64, 256), struct(256, 64)), struct(512, 64))


@planted("unrolled-blocks", CPU)
def unrolled_layers_of_a_flow() -> Program:
    """Sixteen layers of a flow, each with a network for the scale and the shift."""

    def flow(layers: Any, x: Any) -> Any:
        for p in layers:
            a, b = jnp.split(x, 2, -1)
            h = jax.nn.gelu(a @ p["in"])
            h = jax.nn.gelu(h @ p["mid"] - jnp.mean(h, -1, keepdims=True))
            scale, shift = jnp.split(h @ p["out"], 2, -1)
            x = jnp.concatenate([b * jnp.exp(jnp.tanh(scale)) + shift, a], -1)
        return x

    layer = {"in": struct(64, 256), "mid": struct(256, 256), "out": struct(256, 128)}
    return jax.grad(lambda layers, x: jnp.mean(flow(layers, x) ** 2)), ([layer] * 16, struct(1024, 128))


@silent("unrolled-blocks", CPU, GPU)
def blocks_in_a_scan() -> Program:
    def encode(params: Any, x: Any) -> Any:
        return lax.scan(lambda x, p: (block(p, x), None), x, params)[0]

    return encode, (block_params(256, layers=(12,)), struct(4, 128, 256))


@silent("unrolled-blocks", CPU, GPU)
def four_blocks() -> Program:
    def encode(params: Any, x: Any) -> Any:
        for p in params:
            x = block(p, x)
        return x

    return encode, ([block_params(256) for _ in range(4)], struct(4, 128, 256))


@silent("unrolled-blocks", CPU, GPU)
def pyramid_of_layers() -> Program:
    """Each layer has another width."""
    return mlp, (mlp_params(2048, 1792, 1536, 1280, 1024, 768, 512, 256, 128), struct(512, 2048))


@silent("unrolled-blocks", CPU, GPU)
def short_chain_of_operations() -> Program:
    """Compiles in less than a second."""

    def series(x: Any) -> Any:
        term = total = x
        for i in range(1, 8):
            term = term * x / i
            total = total + term
        return total

    return series, (struct(1024, 1024),)


@silent("unrolled-blocks", GPU)
def heads_one_by_one() -> Program:
    """They do not depend on each other."""

    def heads(params: Any, x: Any) -> Any:
        return jnp.concatenate([jnp.tanh(x @ w) @ w.T for w in params], -1)

    return heads, ([struct(256, 64) for _ in range(8)], struct(512, 256))
