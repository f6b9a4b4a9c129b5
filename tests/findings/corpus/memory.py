"""Programs whose peak memory is larger than it must be: donation, checkpoints, residuals of loops, and arrays that do not fit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.findings.corpus.cases import (
    BF16,
    CPU,
    DATA,
    GPU,
    GPUS,
    I32,
    ONE,
    TPU,
    narrow,
    planted,
    silent,
    split,
    struct,
)
from tests.findings.corpus.models import (
    adam,
    block,
    block_params,
    decoder_loss,
    decoder_params,
    mlp,
    mlp_params,
    normed,
    sgd,
)  # fmt: skip
from tests.findings.sharded import Program

# undonated


def adam_step(donated: bool = False) -> Program:
    def train_step(state: Any, tokens: Any) -> Any:
        loss, gradients = jax.value_and_grad(decoder_loss)(state["params"], tokens)
        params, m, v = adam(state["params"], gradients, state["m"], state["v"])
        return {"params": params, "m": m, "v": v}, loss

    params = decoder_params(1, 256)
    state = {"params": params, "m": params, "v": params}
    return jax.jit(train_step, donate_argnums=(0,) if donated else ()), (state, struct(16, 256, dtype=I32))


@planted("undonated", *ONE)
def adam_step_of_a_decoder() -> Program:
    return adam_step()


def decode(donated: bool = False) -> Program:
    """One token for each sequence; the cache has room for 1,024."""

    def step(params: Any, cache: Any, x: Any, position: Any) -> Any:
        q, k, v = ((x @ params[name]).reshape(16, 1, 8, 64) for name in "qkv")
        cache = {
            "k": lax.dynamic_update_slice_in_dim(cache["k"], k, position, 1),
            "v": lax.dynamic_update_slice_in_dim(cache["v"], v, position, 1),
        }
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, cache["k"], preferred_element_type=jnp.float32) / 8
        weights = jax.nn.softmax(jnp.where(jnp.arange(1024) <= position, scores, -1e9), -1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, cache["v"]).reshape(16, 512)
        return x + y @ params["o"], cache

    params = {name: struct(512, 512, dtype=BF16) for name in "qkvo"}
    cache = {name: struct(16, 1024, 8, 64, dtype=BF16) for name in "kv"}
    args = params, cache, struct(16, 512, dtype=BF16), struct(dtype=I32)
    return jax.jit(step, donate_argnums=(1,) if donated else ()), args


@planted("undonated", *ONE)
def decode_step_that_copies_its_cache() -> Program:
    return decode()


@planted("undonated", *ONE)
def steps_of_the_wave_equation() -> Program:
    def advance(fields: Any, speed: Any) -> Any:
        def step(_: Any, fields: Any) -> Any:
            u, before = fields["u"], fields["before"]
            laplacian = sum(jnp.roll(u, by, axis) for by in (1, -1) for axis in (0, 1)) - 4 * u
            return {"u": 2 * u - before + speed**2 * laplacian, "before": u}

        return lax.fori_loop(0, 20, step, fields)

    field = struct(1024, 1024)
    return advance, ({"u": field, "before": field}, field)


@planted("undonated", *ONE)
def insertion_into_a_replay_buffer() -> Program:
    def insert(buffer: Any, transitions: Any, start: Any) -> Any:
        rows = (start + jnp.arange(256)) % 100_000
        buffer = jax.tree.map(lambda old, new: old.at[rows].set(new), buffer, transitions)
        return buffer, (start + 256) % 100_000

    def entries(n: int) -> Any:
        return {"observation": struct(n, 64), "action": struct(n, 8), "reward": struct(n)}

    return insert, (entries(100_000), entries(256), struct(dtype=I32))


# Planted on CPUs too at first; but the CPU compiler reads the old network after the update, and copies it if it is donated.
@planted("undonated", *ONE, on=(TPU, GPU))
def target_network_of_q_learning() -> Program:
    """Only the target network changes; the online network is updated elsewhere."""

    def step(target: Any, online: Any, observations: Any, rewards: Any) -> Any:
        values = rewards + 0.99 * jnp.max(mlp(target, observations), -1)
        target = jax.tree.map(lambda old, new: 0.995 * old + 0.005 * new, target, online)
        return target, values

    params = mlp_params(256, 1024, 1024, 32)
    return step, (params, params, struct(128, 256), struct(128))


@silent("undonated", *ONE)
def adam_step_with_donated_state() -> Program:
    return adam_step(donated=True)


@silent("undonated", *ONE)
def decode_step_with_donated_cache() -> Program:
    return decode(donated=True)


@silent("undonated", *ONE)
def gradients_of_a_decoder() -> Program:
    return jax.grad(decoder_loss), (decoder_params(1, 256), struct(16, 256, dtype=I32))


@silent("undonated", *ONE)
def images_through_residual_layers() -> Program:
    """The result has the shape of the images, which the caller may need for a comparison."""

    def denoise(params: Any, images: Any) -> Any:
        for w in params:
            images = images + jnp.tanh(images @ w)
        return images

    return denoise, ([struct(256, 256) for _ in range(3)], struct(4096, 256))


@silent("undonated", *ONE)
def metrics_of_a_batch() -> Program:
    def evaluate(params: Any, x: Any, labels: Any) -> Any:
        logits = mlp(params, x)
        return {"correct": jnp.sum(jnp.argmax(logits, -1) == labels), "mean": logits.mean()}

    return evaluate, (mlp_params(512, 1024, 128), struct(2048, 512), struct(2048, dtype=I32))


@silent("undonated", *ONE)
def prefill_of_a_cache() -> Program:
    """The cache is made here, so that there is nothing to donate."""

    def prefill(params: Any, x: Any) -> Any:
        cache = {name: jnp.zeros((8, 1024, 512), BF16) for name in "kv"}
        cache = {name: lax.dynamic_update_slice(cache[name], x @ params[name], (0, 0, 0)) for name in "kv"}
        return cache, x[:, -1] @ params["q"]

    return prefill, ({name: struct(512, 512, dtype=BF16) for name in "qkv"}, struct(8, 256, 512, dtype=BF16))


# over-memory


@planted("over-memory", GPU)
def attention_of_a_long_context() -> Program:
    """Its weights take 64 GiB for each head, and are not computed block by block."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("qhd,khd->hqk", q, k) / 8
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, -1), v)

    return attend, (struct(131_072, 4, 64, dtype=BF16),) * 3


def large_model(layers: int) -> Program:
    """Parameters, two moments and gradients in float32 are 16 bytes for each parameter."""

    def loss(params: Any, x: Any) -> Any:
        def layer(x: Any, p: Any) -> Any:
            return x + jax.nn.gelu(x @ p["up"]) @ p["down"], None

        x, _ = lax.scan(jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_saveable), x, params)
        return jnp.mean(x**2)

    def train_step(params: Any, m: Any, v: Any, x: Any) -> Any:
        return adam(params, jax.grad(loss)(params, x), m, v)

    params = {"up": struct(layers, 4096, 16_384), "down": struct(layers, 16_384, 4096)}
    return jax.jit(train_step, donate_argnums=(0, 1, 2)), (params, params, params, struct(1024, 4096))


@planted("over-memory", GPU)
def adam_step_of_six_billion_parameters() -> Program:
    return large_model(48)


@planted("over-memory", GPU)
def activations_of_a_large_batch() -> Program:
    """Five layers keep 16 GiB each for the backward pass."""

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.mean(x.astype(jnp.float32))

    args = [struct(4096, 4096, dtype=BF16) for _ in range(5)], struct(1 << 21, 4096, dtype=BF16)
    return jax.grad(loss), args


@planted("over-memory", GPU)
def cache_of_many_requests() -> Program:
    """Keys and values of 512 requests of 65,536 tokens take 128 GiB."""

    def step(cache: Any, k: Any, v: Any, q: Any, position: Any) -> Any:
        keys = lax.dynamic_update_slice_in_dim(cache["k"], k, position, 1)
        values = lax.dynamic_update_slice_in_dim(cache["v"], v, position, 1)
        weights = jax.nn.softmax(jnp.einsum("bd,btd->bt", q, keys) / 32, -1)
        return {"k": keys, "v": values}, jnp.einsum("bt,btd->bd", weights, values)

    cache = {name: struct(512, 65_536, 1024, dtype=BF16) for name in "kv"}
    new = struct(512, 1, 1024, dtype=BF16)
    return jax.jit(step, donate_argnums=(0,)), (cache, new, new, struct(512, 1024, dtype=BF16), struct(dtype=I32))


@silent("over-memory", GPU)
def adam_step_that_fits() -> Program:
    return large_model(12)


@silent("over-memory", TPU, GPU)
def weights_that_fit() -> Program:
    """11 GiB of weights."""

    def serve(ws: Any, x: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, ws)[0]

    return serve, (struct(88, 8192, 8192, dtype=BF16), struct(16, 8192, dtype=BF16))


@silent("over-memory", CPU)
def attention_of_a_long_context_on_a_cpu() -> Program:
    """The memory of the machine that will run it is unknown."""
    return attention_of_a_long_context()


@silent("over-memory", GPUS)
def large_batch_on_eight_devices() -> Program:
    """12 GiB for each device."""

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.mean(x.astype(jnp.float32))

    whole = split(4096, 4096, mesh=DATA, dtype=BF16)
    return jax.grad(loss), ([whole] * 4, split(1 << 21, 4096, spec=("data",), mesh=DATA, dtype=BF16))


# recomputed


def checkpointed(policy: Any = None, checkpoint: bool = True) -> Program:
    def loss(params: Any, x: Any) -> Any:
        each = jax.checkpoint(block, policy=policy) if checkpoint else block
        for p in params:
            x = each(p, x)
        return jnp.mean(x.astype(jnp.float32) ** 2)

    return jax.grad(loss), ([block_params(dtype=BF16) for _ in range(2)], struct(8, 512, 512, dtype=BF16))


# TPUs were left out at first: they keep the scores of the attention as long as they compute them, but gain from the other products.
@planted("recomputed", *ONE, on=(TPU, GPU))
def checkpointed_blocks() -> Program:
    return checkpointed()


def scanned(checkpoint: Any, dtype: Any = BF16) -> Program:
    def loss(params: Any, x: Any) -> Any:
        def layer(x: Any, p: Any) -> Any:
            return block(p, x), None

        return jnp.mean(lax.scan(checkpoint(layer), x, params)[0].astype(jnp.float32) ** 2)

    return jax.grad(loss), (block_params(dtype=dtype, layers=(8,)), struct(4, 512, 512, dtype=dtype))


@silent("recomputed", TPU, GPU)  # planted at first; stacked arrays take longer than the products
def checkpointed_layers_of_a_scan() -> Program:
    return scanned(jax.checkpoint)


@planted("recomputed", TPU, GPU)
def checkpointed_perceptron() -> Program:
    """A checkpoint around the whole model, which saves no memory at the peak."""

    def train_step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((jax.checkpoint(mlp)(params, x) - y) ** 2)

        return sgd(params, jax.grad(loss)(params))

    params = mlp_params(1024, 4096, 4096, 1024)
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(8192, 1024), struct(8192, 1024))


@planted("recomputed", TPU, GPU, on=(GPU,))  # 768 features are too few for TPUs too
def checkpointed_mixer() -> Program:
    """A policy that saves nothing."""

    def layer(p: Any, x: Any) -> Any:
        x = x + jnp.einsum("btd,ts->bsd", jax.nn.gelu(x), p["tokens"])
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]

    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = jax.checkpoint(layer, policy=jax.checkpoint_policies.nothing_saveable)(p, x)
        return jnp.mean(x**2)

    params = [{"tokens": struct(256, 256), "up": struct(768, 3072), "down": struct(3072, 768)} for _ in range(4)]
    return jax.grad(loss), (params, struct(32, 256, 768))


def wide_layer(p: Any, x: Any) -> Any:
    """The products of 2,048 terms and more take longer than to write and read their results."""
    return x + jax.nn.silu(x @ p["gate"]) * (x @ p["up"]) @ p["down"]


def wide_layers(*layers: int) -> dict[str, Any]:
    shapes = {"gate": (2048, 8192), "up": (2048, 8192), "down": (8192, 2048)}
    return {name: struct(*layers, *shape, dtype=BF16) for name, shape in shapes.items()}


@planted("recomputed", TPU, GPU)
def checkpointed_wide_layers() -> Program:
    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = jax.checkpoint(wide_layer)(p, x)
        return jnp.mean(x.astype(jnp.float32) ** 2)

    return jax.grad(loss), ([wide_layers() for _ in range(3)], struct(4096, 2048, dtype=BF16))


@planted("recomputed", TPU, GPU)
def checkpointed_wide_layers_of_a_scan() -> Program:
    def loss(params: Any, x: Any) -> Any:
        x, _ = lax.scan(jax.checkpoint(lambda x, p: (wide_layer(p, x), None)), x, params)
        return jnp.mean(x.astype(jnp.float32) ** 2)

    return jax.grad(loss), (wide_layers(4), struct(4096, 2048, dtype=BF16))


@planted("recomputed", TPU, GPU)
def checkpointed_attention_of_long_features() -> Program:
    """A checkpoint around the projections of an attention with 4,096 features."""

    def loss(params: Any, x: Any) -> Any:
        @jax.checkpoint
        def projected(params: Any, x: Any) -> Any:
            return [jnp.tanh(x @ w) for w in params]

        q, k, v = projected(params, x)
        return jnp.mean((q * k + v).astype(jnp.float32) ** 2)

    return jax.grad(loss), ([struct(4096, 4096, dtype=BF16)] * 3, struct(8192, 4096, dtype=BF16))


@silent("recomputed", CPU, GPU)
def blocks_with_saved_products() -> Program:
    return checkpointed(jax.checkpoint_policies.dots_saveable)


@silent("recomputed", GPU)
def blocks_without_checkpoint() -> Program:
    return checkpointed(checkpoint=False)


@silent("recomputed", TPU, GPU)
def checkpointed_activations() -> Program:
    """Only operations by element are repeated."""

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = jax.checkpoint(lambda y: jax.nn.gelu(y) * jax.nn.sigmoid(y))(x @ w)
        return jnp.mean(x**2)

    return jax.grad(loss), ([struct(1024, 1024) for _ in range(4)], struct(8192, 1024))


@silent("recomputed", TPU, GPU)
def checkpoints_that_are_needed() -> Program:
    """Without them the products of the layers take more than the memory: 32 GiB for each of 8 layers."""

    def loss(params: Any, x: Any) -> Any:
        def layer(x: Any, p: Any) -> Any:
            return x + jax.nn.gelu(x @ p["up"]) @ p["down"], None

        return jnp.mean(lax.scan(jax.checkpoint(layer), x, params)[0].astype(jnp.float32))

    params = {"up": struct(8, 1024, 16_384, dtype=BF16), "down": struct(8, 16_384, 1024, dtype=BF16)}
    return jax.grad(loss), (params, struct(1 << 18, 1024, dtype=BF16))


# scan-residuals


@planted("scan-residuals", *ONE)
def gradient_of_scanned_layers() -> Program:
    return scanned(lambda layer: layer, jnp.float32)


def lstm(checkpoint: Any = lambda step: step) -> Program:
    def loss(params: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x @ params["x"] + h @ params["h"] + params["b"], 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), None

        zeros = jnp.zeros((64, 512))
        (h, _), _ = lax.scan(checkpoint(step), (zeros, zeros), xs)
        return jnp.mean(h**2)

    params = {"x": struct(256, 2048), "h": struct(512, 2048), "b": struct(2048)}
    return jax.grad(loss), (params, struct(256, 64, 256))


@planted("scan-residuals", *ONE)
def backpropagation_through_time() -> Program:
    return lstm()


def rollout(checkpoint: Any = lambda step: step) -> Program:
    """The initial state of Burgers' equation that reaches a target."""

    def distance(u: Any, target: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            slope = (jnp.roll(u, -1, 0) - jnp.roll(u, 1, 0)) / 2
            bend = jnp.roll(u, -1, 0) - 2 * u + jnp.roll(u, 1, 0)
            return u - 0.1 * jnp.sin(u) * slope + 0.05 * jnp.exp(-(u**2)) * bend, None

        return jnp.mean((lax.scan(checkpoint(step), u, None, length=200)[0] - target) ** 2)

    return jax.grad(distance), (struct(512, 512), struct(512, 512))


@planted("scan-residuals", *ONE)
def gradient_of_a_rollout() -> Program:
    return rollout()


def neural_ode(checkpoint: Any = lambda step: step) -> Program:
    def loss(params: Any, x: Any, y: Any) -> Any:
        def rate(x: Any) -> Any:
            return jnp.tanh(jnp.tanh(x @ params["in"]) @ params["mid"]) @ params["out"]

        def step(x: Any, _: Any) -> Any:
            a = rate(x)
            b = rate(x + 0.05 * a)
            c = rate(x + 0.05 * b)
            d = rate(x + 0.1 * c)
            return x + 0.1 / 6 * (a + 2 * b + 2 * c + d), None

        return jnp.mean((lax.scan(checkpoint(step), x, None, length=40)[0] - y) ** 2)

    params = {"in": struct(64, 256), "mid": struct(256, 256), "out": struct(256, 64)}
    return jax.grad(loss), (params, struct(4096, 64), struct(4096, 64))


@planted("scan-residuals", *ONE)
def gradient_of_a_neural_ode() -> Program:
    return neural_ode()


@silent("scan-residuals", *ONE)
def checkpointed_rollout() -> Program:
    return rollout(jax.checkpoint)


@silent("scan-residuals", *ONE, also={"recomputed": (TPU, GPU)})
def checkpointed_neural_ode() -> Program:
    """Its products are repeated, which is the price of the memory."""
    return neural_ode(jax.checkpoint)


@silent("scan-residuals", *ONE)
def forward_scan_with_outputs() -> Program:
    """What it stacks is its result."""

    def trajectory(params: Any, x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            x = x + 0.1 * jnp.tanh(x @ params)
            return x, x

        return lax.scan(step, x, None, length=100)[1]

    return trajectory, (struct(256, 256), struct(512, 256))


@planted("scan-residuals", *ONE, on=(CPU, GPU))  # silent at first; segments keep fewer of the carries
def gradient_of_a_linear_recurrence() -> Program:
    """The backward pass needs the carries only, as the gradient of the decay. A TPU has them in its VMEM."""

    def loss(decay: Any, xs: Any) -> Any:
        return jnp.mean(lax.scan(lambda s, x: (decay * s + x, None), jnp.zeros((512, 256)), xs)[0] ** 2)

    return jax.grad(loss), (struct(256), struct(100, 512, 256))


@silent("scan-residuals", TPU, GPU)
def checkpointed_scan_with_norm() -> Program:
    """A layer with a policy that saves the products without batch dimensions."""

    def loss(params: Any, x: Any) -> Any:
        def layer(x: Any, p: Any) -> Any:
            y = normed(x, p["norm1"])
            return x + jax.nn.gelu(y @ p["up"]) @ p["down"], None

        each = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
        return jnp.mean(lax.scan(each, x, params)[0].astype(jnp.float32) ** 2)

    params = {name: p for name, p in block_params(layers=(8,)).items() if name in ("norm1", "up", "down")}
    return jax.grad(loss), (narrow(params), struct(4096, 512, dtype=BF16))
