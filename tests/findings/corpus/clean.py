"""Programs without mistakes: training steps, decoders, solvers and kernels as their authors would like them."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.sharding import PartitionSpec as P

from tests.findings.corpus.cases import (
    BF16,
    CPU,
    CPUS,
    DATA,
    EIGHT,
    F32,
    GPU,
    GPUS,
    I32,
    ONE,
    TPU,
    clean,
    constrained,
    narrow,
    split,
    struct,
)  # fmt: skip
from tests.findings.corpus.models import (
    adam,
    attention,
    cross_entropy,
    decoder_loss,
    decoder_params,
    mlp,
    mlp_params,
    normed,
    sgd,
)  # fmt: skip
from tests.findings.sharded import Program, manual

SAVED = jax.checkpoint_policies.dots_saveable


@clean(CPU, GPU)
def decoder_of_two_layers() -> Program:
    """Trained with Adam; all state is donated."""

    def train_step(params: Any, m: Any, v: Any, tokens: Any) -> Any:
        loss, gradients = jax.value_and_grad(decoder_loss)(params, tokens)
        return loss, *adam(params, gradients, m, v)

    params = decoder_params(2, 256)
    return jax.jit(train_step, donate_argnums=(0, 1, 2)), (params, params, params, struct(8, 128, dtype=I32))


@clean(CPU, GPU)
def scanned_perceptrons() -> Program:
    """The products of the layers are saved, and all else is computed again."""

    def train_step(params: Any, x: Any, y: Any) -> Any:
        def layer(x: Any, p: Any) -> Any:
            return x + jax.nn.gelu(normed(x, p["norm"]) @ p["up"]) @ p["down"], None

        def loss(params: Any) -> Any:
            return jnp.mean((lax.scan(jax.checkpoint(layer, policy=SAVED), x, params)[0] - y) ** 2)

        return sgd(params, jax.grad(loss)(params))

    params = {"norm": struct(12, 512), "up": struct(12, 512, 2048), "down": struct(12, 2048, 512)}
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(1024, 512), struct(1024, 512))


@clean(CPU)
def residual_network() -> Program:
    """Convolutions with three widths, trained with momentum."""

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(x: Any, scale: Any) -> Any:
        mean = x.mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(jnp.mean((x - mean) ** 2, (0, 1, 2)) + 1e-5) * scale

    def logits(params: Any, x: Any) -> Any:
        x = conv(x, params["stem"])
        for p in params["stages"]:
            y = jax.nn.relu(norm(conv(x, p["a"], 2), p["scale"]))
            x = jax.nn.relu(conv(x, p["short"], 2) + norm(conv(y, p["b"]), p["scale"]))
        return x.mean((1, 2)) @ params["head"]

    def train_step(params: Any, momentum: Any, x: Any, labels: Any) -> Any:
        gradients = jax.grad(lambda params: cross_entropy(logits(params, x), labels))(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return sgd(params, momentum), momentum

    widths = (32, 64, 128, 256)
    stages = [
        {"a": struct(3, 3, n, m), "b": struct(3, 3, m, m), "short": struct(1, 1, n, m), "scale": struct(m)}
        for n, m in itertools.pairwise(widths)
    ]
    params = {"stem": struct(3, 3, 3, 32), "stages": stages, "head": struct(256, 10)}
    args = params, params, struct(32, 64, 64, 3), struct(32, dtype=I32)
    return jax.jit(train_step, donate_argnums=(0, 1)), args


# CPUs and GPUs write queries, keys and values in the order of their products first.
@clean(*ONE, also={"transposed-argument": (CPU, GPU)})
def attention_of_jax() -> Program:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return attend, (struct(4, 1024, 16, 128, dtype=BF16),) * 3


@clean(TPU)
def flash_attention_of_pallas() -> Program:
    sizes = flash.BlockSizes(block_q=512, block_k_major=512, block_k=512, block_b=1)
    return (lambda q, k, v: flash.flash_attention(q, k, v, causal=True, block_sizes=sizes)), (
        struct(2, 8, 4096, 128, dtype=BF16),
    ) * 3


@clean(*ONE)
def generation_with_a_cache() -> Program:
    """Sixty-four tokens, with a cache that the loop carries."""

    def generate(params: Any, cache: Any, token: Any, start: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            cache, token = carry
            x = params["embedding"][token]
            q, k, v = (x @ params[name] for name in "qkv")
            cache = {
                name: lax.dynamic_update_slice_in_dim(cache[name], new[:, None], start + i, 1)
                for name, new in (("k", k), ("v", v))
            }
            scores = jnp.einsum("bd,btd->bt", q, cache["k"], preferred_element_type=F32) / 16
            scores = jnp.where(jnp.arange(1024) <= start + i, scores, -1e9)
            y = jnp.einsum("bt,btd->bd", jax.nn.softmax(scores, -1).astype(BF16), cache["v"])
            logits = (x + y @ params["o"]) @ params["embedding"].T
            return cache, jnp.argmax(logits, -1).astype(I32)

        return lax.fori_loop(0, 64, step, (cache, token))

    params = {"embedding": struct(8192, 256, dtype=BF16), **{name: struct(256, 256, dtype=BF16) for name in "qkvo"}}
    cache = {name: struct(32, 1024, 256, dtype=BF16) for name in "kv"}
    args = params, cache, struct(32, dtype=I32), struct(dtype=I32)
    return jax.jit(generate, donate_argnums=(1, 2)), args


@clean(CPU, GPU)
def poisson_equation_by_fourier_transforms() -> Program:
    def solve(density: Any) -> Any:
        k = jnp.fft.fftfreq(512)
        squares = k[:, None] ** 2 + k[:257] ** 2
        transformed = jnp.fft.rfft2(density) / jnp.where(squares == 0, 1, squares)
        return jnp.fft.irfft2(transformed, density.shape)

    return jax.jit(solve, donate_argnums=(0,)), (struct(512, 512),)


@clean(CPU, GPU)
def centers_of_clusters() -> Program:
    """Ten iterations of Lloyd's algorithm."""

    def fit(points: Any, centers: Any) -> Any:
        def step(centers: Any, _: Any) -> Any:
            distances = jnp.sum(centers**2, -1) - 2 * points @ centers.T
            nearest = jax.nn.one_hot(jnp.argmin(distances, -1), 64)
            return (nearest.T @ points) / jnp.maximum(nearest.sum(0), 1)[:, None], distances.min(-1).mean()

        return lax.scan(step, centers, None, length=10)

    return jax.jit(fit, donate_argnums=(1,)), (struct(65_536, 32), struct(64, 32))


@clean(*ONE)
def conjugate_gradients() -> Program:
    """A matrix that is given by a function."""

    def solve(b: Any) -> Any:
        def laplace(u: Any) -> Any:
            return 4.1 * u - jnp.roll(u, 1, 0) - jnp.roll(u, -1, 0) - jnp.roll(u, 1, 1) - jnp.roll(u, -1, 1)

        return jax.scipy.sparse.linalg.cg(laplace, b, maxiter=50)[0]

    return jax.jit(solve, donate_argnums=(0,)), (struct(512, 512),)


@clean(CPU, GPU)
def proximal_policy_step() -> Program:
    """Advantages by a loop that runs backwards, and the clipped loss."""

    def train_step(params: Any, batch: Any) -> Any:
        def advantage(total: Any, step: Any) -> Any:
            total = step["reward"] + 0.95 * step["going"] * total
            return total, total

        steps = {name: batch[name] for name in ("reward", "going")}
        _, advantages = lax.scan(advantage, jnp.zeros(64), steps, reverse=True)

        def loss(params: Any) -> Any:
            policy = jax.nn.log_softmax(mlp(params, batch["observation"]))
            chosen = jnp.take_along_axis(policy, batch["action"][..., None], -1)[..., 0]
            ratio = jnp.exp(chosen - batch["log_probability"])
            return -jnp.mean(jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.2) * advantages))

        return sgd(params, jax.grad(loss)(params))

    each = struct(128, 64)
    batch = {
        "observation": struct(128, 64, 128), "action": struct(128, 64, dtype=I32), "reward": each, "going": each,
        "log_probability": each,
    }  # fmt: skip
    return jax.jit(train_step, donate_argnums=(0,)), (mlp_params(128, 512, 512, 16), batch)


@clean(CPU, GPU)
def state_space_model() -> Program:
    """A linear recurrence by an associative scan."""

    def layer(params: Any, x: Any) -> Any:
        gate = jax.nn.sigmoid(x @ params["gate"])

        def joined(a: Any, b: Any) -> Any:
            return a[0] * b[0], b[0] * a[1] + b[1]

        _, h = lax.associative_scan(joined, (gate, (1 - gate) * (x @ params["in"])), axis=1)
        return jax.nn.silu(h) @ params["out"]

    params = {name: struct(256, 256) for name in ("gate", "in", "out")}
    return layer, (params, struct(8, 256, 256))


@clean(*ONE)
def preprocessed_images() -> Program:
    """Crops, mirrors and normalizes images of 8 bits."""

    def augment(images: Any, key: Any) -> Any:
        a, b = jax.random.split(key)
        corners = jax.random.randint(a, (64, 2), 0, 32)
        crop = jax.vmap(lambda image, at: lax.dynamic_slice(image, (at[0], at[1], 0), (96, 96, 3)))
        x = crop(images, corners)
        x = jnp.where(jax.random.bernoulli(b, shape=(64, 1, 1, 1)), x[:, :, ::-1], x)
        return x.astype(BF16) / 127.5 - 1

    return augment, (struct(64, 128, 128, 3, dtype=jnp.uint8), struct(2, dtype=jnp.uint32))


# On eight devices


@clean(*EIGHT)
def data_parallel_perceptron() -> Program:
    def train_step(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params)
        return sgd(params, gradients), loss

    batch = split(16_384, 512, spec=("data",), mesh=DATA)
    params = [(split(n, m, mesh=DATA), split(m, mesh=DATA)) for n, m in ((512, 2048), (2048, 512))]
    return jax.jit(train_step, donate_argnums=(0,)), (params, batch, batch)


@clean(CPUS, GPUS)
def decoder_as_of_maxtext() -> Program:
    """Fully sharded over `data` and tensor parallel over `model`; a scan over layers with saved products."""
    heads = ("data", "model", None)
    specs: dict[str, tuple[Any, ...]] = {
        "q": heads, "k": heads, "v": heads, "out": ("model", None, "data"), "up": ("data", "model"),
        "down": ("model", "data"), "norm1": (None,), "norm2": (None,),
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        "q": (1024, 8, 128), "k": (1024, 8, 128), "v": (1024, 8, 128), "out": (8, 128, 1024), "up": (1024, 4096),
        "down": (4096, 1024), "norm1": (1024,), "norm2": (1024,),
    }  # fmt: skip

    def layer(x: Any, p: Any) -> Any:
        p = narrow_values(p)
        y = normed(x, p["norm1"])
        q, k, v = (constrained(jnp.einsum("btd,dhk->bthk", y, p[name]), "data", None, "model") for name in "qkv")
        x = x + constrained(jnp.einsum("bthk,hkd->btd", attention(q, k, v), p["out"]), "data")
        h = constrained(jax.nn.gelu(normed(x, p["norm2"]) @ p["up"]), "data", None, "model")
        return x + constrained(h @ p["down"], "data"), None

    def train_step(state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            predicted, _ = lax.scan(jax.checkpoint(layer, policy=SAVED), x, params)
            return jnp.mean((predicted - y).astype(F32) ** 2)

        value, gradients = jax.value_and_grad(loss)(state["params"])
        params, m, v = adam(state["params"], gradients, state["m"], state["v"])
        return {"params": params, "m": m, "v": v}, value

    params = {name: split(6, *shape, spec=(None, *specs[name])) for name, shape in shapes.items()}
    batch = split(32, 1024, 1024, spec=("data",), dtype=BF16)
    return jax.jit(train_step, donate_argnums=(0,)), ({"params": params, "m": params, "v": params}, batch, batch)


def narrow_values(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(BF16), tree)


@clean(*EIGHT)
def experts_with_exchanged_tokens() -> Program:
    """Each device has one expert, and sends the tokens of the others in one exchange each way."""

    def body(up: Any, down: Any, x: Any) -> Any:
        x = x.reshape(8, 512, 512)
        x = lax.all_to_all(x, "data", 0, 0, tiled=True)
        h = jax.nn.relu(jnp.einsum("ctd,df->ctf", x, up[0]))
        y = jnp.einsum("ctf,fd->ctd", h, down[0])
        return lax.all_to_all(y, "data", 0, 0, tiled=True).reshape(4096, 512)

    fun = manual(body, (P("data"), P("data"), P("data")), P("data"), DATA)
    return fun, (
        split(8, 512, 2048, spec=("data",), mesh=DATA, dtype=BF16),
        split(8, 2048, 512, spec=("data",), mesh=DATA, dtype=BF16),
        split(8 * 4096, 512, spec=("data",), mesh=DATA, dtype=BF16),
    )


@clean(*EIGHT)
def pipeline_of_stages() -> Program:
    """Each device has one stage, and passes its results on while it computes the next ones."""
    right = [(i, (i + 1) % 8) for i in range(8)]

    def body(w: Any, xs: Any) -> Any:
        def step(y: Any, x: Any) -> Any:
            y = jnp.where(lax.axis_index("data") == 0, x, y)
            y = jax.nn.relu(y @ w[0])
            return lax.ppermute(y, "data", right), y

        return lax.scan(step, jnp.zeros((256, 1024), BF16), xs)[1]

    fun = manual(body, (P("data"), P()), P(None, "data"), DATA)
    return fun, (
        split(8, 1024, 1024, spec=("data",), mesh=DATA, dtype=BF16),
        split(16, 256, 1024, mesh=DATA, dtype=BF16),
    )


@clean(*EIGHT)
def stencil_with_halos() -> Program:
    def body(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            above = lax.ppermute(u[-1:], "data", [(i, (i + 1) % 8) for i in range(8)])
            below = lax.ppermute(u[:1], "data", [((i + 1) % 8, i) for i in range(8)])
            padded = jnp.concatenate([above, u, below])
            return u + 0.1 * (padded[2:] + padded[:-2] + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)

        return lax.fori_loop(0, 20, step, u)

    fun = jax.jit(manual(body, P("data"), P("data"), DATA), donate_argnums=(0,))
    return fun, (split(8192, 2048, spec=("data",), mesh=DATA),)


@clean(CPU, GPU)
def mixed_precision_step() -> Program:
    """Master weights in float32, products in bfloat16."""

    def train_step(state: Any, x: Any, labels: Any) -> Any:
        def loss(params: Any) -> Any:
            return cross_entropy(mlp(narrow_values(params), x).astype(F32), labels)

        gradients = jax.grad(loss)(state["params"])
        params, m, v = adam(state["params"], gradients, state["m"], state["v"])
        return {"params": params, "m": m, "v": v}

    params = mlp_params(1024, 4096, 4096, 1024)
    args = {"params": params, "m": params, "v": params}, struct(4096, 1024, dtype=BF16), struct(4096, dtype=I32)
    return jax.jit(train_step, donate_argnums=(0,)), args


@clean(*ONE)
def served_perceptron() -> Program:
    return mlp, (narrow(mlp_params(1024, 4096, 4096, 1024)), struct(64, 1024, dtype=BF16))
