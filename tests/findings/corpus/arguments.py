"""Programs with mistakes in what goes in and comes out: constants, unused arguments, copies, layouts and types."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.findings.corpus.cases import BF16, CPU, F16, F32, GPU, I32, ONE, TPU, U8, planted, silent, struct
from tests.findings.corpus.models import attention, mlp, mlp_params, normed, sgd
from tests.findings.sharded import Program

# large-constant. The values repeat, so that the recordings are small.


# CPUs and GPUs write queries, keys and values in the order of their products first.
@planted("large-constant", *ONE, also={"transposed-argument": (CPU, GPU)})
def bias_of_relative_positions() -> Program:
    distance = np.abs(np.arange(512)[:, None] - np.arange(512)).astype(np.float32)
    bias = -distance * (2.0 ** -np.arange(1, 9, dtype=np.float32))[:, None, None]

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8 + bias
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    return attend, (struct(2, 512, 8, 64),) * 3


@planted("large-constant", *ONE)
def mask_of_numpy() -> Program:
    mask = np.where(np.tril(np.ones((1024, 1024), bool)), 0.0, -1e9).astype(np.float32)

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("qd,kd->qk", q, k) / 8 + mask
        return jax.nn.softmax(scores, -1) @ v

    return attend, (struct(1024, 64),) * 3


@planted("large-constant", *ONE)
def frozen_features() -> Program:
    """A pretrained layer that the loss closes over."""
    frozen = jnp.asarray(np.tile(np.linspace(-1, 1, 64, dtype=np.float32), (1024, 16)))

    def train_step(head: Any, x: Any, y: Any) -> Any:
        def loss(head: Any) -> Any:
            return jnp.mean((jax.nn.relu(x @ frozen) @ head - y) ** 2)

        return sgd(head, jax.grad(loss)(head))

    return jax.jit(train_step, donate_argnums=(0,)), (struct(1024, 16), struct(128, 1024), struct(128, 16))


@planted("large-constant", *ONE)
def data_set_in_the_closure() -> Program:
    images = np.tile(np.arange(256, dtype=np.uint8), (2048, 8))

    def batch_loss(params: Any, rows: Any) -> Any:
        x = jnp.asarray(images)[rows].astype(F32) / 255
        return jnp.mean(mlp(params, x) ** 2)

    return jax.grad(batch_loss), (mlp_params(2048, 128, 10), struct(128, dtype=I32))


@planted("large-constant", *ONE)
def mel_filters() -> Program:
    centers = np.linspace(0, 1024, 514)
    bins = np.arange(1025)[:, None]
    rising = (bins - centers[:-2]) / (centers[1:-1] - centers[:-2])
    falling = (centers[2:] - bins) / (centers[2:] - centers[1:-1])
    filters = np.round(np.maximum(0, np.minimum(rising, falling)), 2).astype(np.float32)
    return lambda spectrum: jnp.log(spectrum @ filters + 1e-6), (struct(64, 1025),)


@silent("large-constant", *ONE)
def mask_made_in_the_program() -> Program:
    def attend(q: Any, k: Any, v: Any) -> Any:
        mask = jnp.where(jnp.tri(1024, dtype=bool), 0.0, -1e9)
        return jax.nn.softmax(jnp.einsum("qd,kd->qk", q, k) / 8 + mask, -1) @ v

    return attend, (struct(1024, 64),) * 3


@silent("large-constant", *ONE)
def table_as_argument() -> Program:
    return lambda spectrum, filters: jnp.log(spectrum @ filters + 1e-6), (struct(64, 1025), struct(1025, 512))


@silent("large-constant", *ONE)
def small_filter() -> Program:
    kernel = np.outer(np.hanning(11), np.hanning(11)).astype(np.float32)

    def blur(images: Any) -> Any:
        return lax.reduce_window(images, 0.0, lax.add, (1, 11, 11), (1, 1, 1), "SAME") * float(kernel.sum())

    return blur, (struct(8, 256, 256),)


@silent("large-constant", *ONE)
def zeros_of_numpy() -> Program:
    """One value, which XLA broadcasts."""
    zeros = np.zeros((1024, 1024), np.float32)
    return lambda x: jnp.maximum(x, zeros) + jnp.arange(1024, dtype=F32), (struct(1024, 1024),)


# copied-result


def frozen_backbone(frozen: bool = True, donate: tuple[int, ...] = (1,)) -> Program:
    def train_step(backbone: Any, head: Any, x: Any, y: Any) -> Any:
        features = lax.stop_gradient(mlp(backbone, x))

        def loss(head: Any) -> Any:
            return jnp.mean((features @ head - y) ** 2)

        head = sgd(head, jax.grad(loss)(head))
        return (backbone, head) if frozen else head

    args = mlp_params(512, 2048, 2048, 512), struct(512, 16), struct(64, 512), struct(64, 16)
    return jax.jit(train_step, donate_argnums=donate), args


@planted("copied-result", *ONE)
def frozen_backbone_returned() -> Program:
    return frozen_backbone()


@planted("copied-result", *ONE)
def batch_returned_with_predictions() -> Program:
    def predict(params: Any, batch: Any) -> Any:
        return {**batch, "logits": batch["image"] @ params}

    return predict, (struct(3072, 100), {"image": struct(4096, 3072), "label": struct(4096, dtype=I32)})


@planted("copied-result", *ONE)
def parameters_returned_twice() -> Program:
    """As the new parameters, and as a snapshot."""

    def train_step(params: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params)
        params = sgd(params, gradients)
        return {"params": params, "snapshot": params}

    params = mlp_params(512, 2048, 512)
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(128, 512), struct(128, 512))


@planted("copied-result", *ONE)
def encoded_input_returned_by_a_decoder() -> Program:
    def step(params: Any, caches: Any, x: Any) -> Any:
        q = (x @ params).reshape(4, 1, 8, 64)
        y = attention(q, caches["encoded_k"], caches["encoded_v"], causal=False)
        return y.reshape(4, 512), caches

    encoded = struct(4, 2048, 8, 64)
    return step, (struct(512, 512), {"encoded_k": encoded, "encoded_v": encoded}, struct(4, 512))


@silent("copied-result", *ONE)
def frozen_backbone_donated() -> Program:
    return frozen_backbone(donate=(0, 1))


@silent("copied-result", *ONE)
def frozen_backbone_not_returned() -> Program:
    return frozen_backbone(frozen=False)


@silent("copied-result", *ONE)
def normalized_batch_returned() -> Program:
    def predict(params: Any, images: Any) -> Any:
        images = (images - 0.5) / 0.25
        return {"inputs": images, "logits": images @ params}

    return predict, (struct(3072, 100), struct(4096, 3072))


@silent("copied-result", *ONE)
def counter_returned() -> Program:
    """Only a number and a key are as they came in."""

    def evaluate(params: Any, x: Any, step: Any, key: Any) -> Any:
        return mlp(params, x), step, key

    return evaluate, (mlp_params(512, 1024, 512), struct(256, 512), struct(dtype=I32), struct(2, dtype=jnp.uint32))


# unused-argument


@planted("unused-argument", *ONE)
def encoder_of_an_autoencoder() -> Program:
    """The decoder is not needed to encode."""
    params = {"encoder": mlp_params(1024, 1024, 64), "decoder": mlp_params(64, 1024, 1024)}
    return (lambda params, x: mlp(params["encoder"], x)), (params, struct(256, 1024))


@planted("unused-argument", *ONE)
def evaluation_with_optimizer_state() -> Program:
    def evaluate(state: Any, x: Any, y: Any) -> Any:
        return jnp.mean((mlp(state["params"], x) - y) ** 2)

    params = mlp_params(512, 2048, 512)
    return evaluate, ({"params": params, "m": params, "v": params}, struct(256, 512), struct(256, 512))


@planted("unused-argument", *ONE)
def unused_but_kept() -> Program:
    def step(params: Any, old: Any, x: Any) -> Any:
        return x @ params

    args = struct(1024, 1024), struct(1024, 1024), struct(512, 1024)
    return jax.jit(step, keep_unused=True), args


@planted("unused-argument", *ONE)
def buffer_of_which_only_the_shape_is_used() -> Program:
    def histogram(counts: Any, values: Any) -> Any:
        return jnp.zeros_like(counts).at[values].add(1.0)

    return histogram, (struct(1_000_000), struct(65_536, dtype=I32))


@planted("unused-argument", *ONE)
def images_for_a_loss_without_them() -> Program:
    """The reconstruction term is switched off."""

    def loss(params: Any, batch: Any, weight: float = 0.0) -> Any:
        z = mlp(params, batch["latent"])
        penalty = jnp.mean(z**2)
        return penalty + weight * jnp.mean((z - batch["image"]) ** 2) if weight else penalty

    batch = {"latent": struct(512, 256), "image": struct(512, 4096)}
    return jax.value_and_grad(loss), (mlp_params(256, 1024, 1024), batch)


@silent("unused-argument", *ONE)
def small_unused_arguments() -> Program:
    def predict(params: Any, x: Any, labels: Any, key: Any) -> Any:
        return mlp(params, x)

    args = mlp_params(512, 1024, 10), struct(256, 512), struct(256, dtype=I32), struct(2, dtype=jnp.uint32)
    return predict, args


@silent("unused-argument", *ONE)
def first_rows_of_an_argument() -> Program:
    return (lambda table, x: x @ table[:256]), (struct(8192, 256), struct(512, 256))


@silent("unused-argument", *ONE)
def argument_of_one_branch() -> Program:
    def step(small: Any, large: Any, x: Any, training: Any) -> Any:
        return lax.cond(training, lambda: x @ large, lambda: jnp.tanh(x) * small)

    return step, (struct(1024), struct(1024, 1024), struct(256, 1024), struct(dtype=jnp.bool_))


@silent("unused-argument", *ONE)
def argument_without_gradient() -> Program:
    def loss(params: Any, teacher: Any, x: Any) -> Any:
        return jnp.mean((mlp(params, x) - lax.stop_gradient(mlp(teacher, x))) ** 2)

    params = mlp_params(256, 1024, 256)
    return jax.grad(loss), (params, params, struct(256, 256))


# transposed-argument


def heads_first(transposed: bool = True) -> Program:
    """The weight is stored as (heads, features, features of a head)."""

    def project(w: Any, x: Any) -> Any:
        w = w.transpose(1, 0, 2).reshape(1024, 1024) if transposed else w
        return jax.nn.relu(x @ w)

    return project, (struct(16, 1024, 64) if transposed else struct(1024, 1024), struct(32, 1024))


@planted("transposed-argument", CPU, GPU)
def projection_with_heads_first() -> Program:
    return heads_first()


@planted("transposed-argument", CPU, GPU)
def contraction_of_the_middle_dimension() -> Program:
    """Queries, keys and values of a few tokens from one weight (3, features, features)."""
    return (lambda w, x: jnp.einsum("be,keh->bkh", x, w)), (struct(3, 1024, 1024), struct(16, 1024))


# TPUs were planted at first; but they store arguments in an order of their choice.
@planted("transposed-argument", CPU, TPU, on=(CPU,))
def convolution_with_kernels_of_pytorch() -> Program:
    """Kernels (out, in, height, width) that are large for the few pixels of a deep layer."""

    def layer(kernel: Any, x: Any) -> Any:
        return jax.nn.relu(
            lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC"))
        )

    return layer, (struct(512, 512, 3, 3), struct(2, 7, 7, 512))


@planted(
    "transposed-argument", *ONE, on=(CPU, TPU)
)  # CPUs were left out at first; their products take a sum, in one order only
def bias_with_heads_last() -> Program:
    """GPUs read the bias in any order in the kernel that adds it."""

    def scores(bias: Any, q: Any, k: Any) -> Any:
        return jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k) + bias.transpose(2, 0, 1), -1)

    return scores, (struct(1024, 1024, 8), struct(1024, 8, 64), struct(1024, 8, 64))


@planted("transposed-argument", CPU, GPU, on=(CPU,))  # GPUs were planted too, whose products read any stride of a batch
def experts_stored_by_output() -> Program:
    """Weights (features, experts, hidden); each expert needs its own matrix."""

    def experts(w: Any, x: Any) -> Any:
        return jnp.einsum("ebd,edf->ebf", x, w.transpose(1, 0, 2))

    return experts, (struct(512, 16, 1024), struct(16, 8, 512))


@silent("transposed-argument", *ONE)
def linear_layers_of_pytorch() -> Program:
    """Products take either order of the dimensions of a matrix."""

    def model(ws: Any, x: Any) -> Any:
        for w in ws:
            x = jax.nn.relu(x @ w.T)
        return x

    return model, ([struct(2048, 1024), struct(1024, 2048)], struct(64, 1024))


@silent("transposed-argument", *ONE)
def projection_in_the_right_order() -> Program:
    return heads_first(transposed=False)


@silent("transposed-argument", *ONE)
def transposed_activations() -> Program:
    """The heads of the activations change places, not those of an argument."""

    def mix(w: Any, x: Any) -> Any:
        heads = jnp.tanh(x @ w).reshape(64, 128, 8, 64).transpose(0, 2, 1, 3)
        return heads @ heads.swapaxes(-1, -2)

    return mix, (struct(512, 512), struct(64, 128, 512))


@silent("transposed-argument", *ONE)
def weight_in_both_orders() -> Program:
    """Tied embeddings: rows by index, and a product with all of them."""

    def predict(embedding: Any, w: Any, tokens: Any) -> Any:
        return jnp.tanh(embedding[tokens] @ w) @ embedding.T

    return predict, (struct(8192, 512), struct(512, 512), struct(64, dtype=I32))


# float64


@planted("float64", *ONE, x64=True)
def grid_of_numpy() -> Program:
    """`np.linspace` has 64 bits."""
    x = np.linspace(0, 1, 1024)

    def potential(u: Any) -> Any:
        return jnp.gradient(u, axis=1) * (1 + x**2) + u * jnp.sin(2 * np.pi * x)

    return potential, (struct(1024, 1024),)


@planted("float64", *ONE, x64=True)
def noise_of_the_default_type() -> Program:
    def augment(images: Any, key: Any) -> Any:
        return jnp.clip(images + 0.1 * jax.random.normal(key, images.shape), 0, 1)

    return augment, (struct(64, 64, 64, 3), struct(2, dtype=jnp.uint32))


@planted("float64", *ONE, x64=True)
def scale_of_numpy() -> Program:
    """`np.sqrt` returns a NumPy scalar, which is not a Python number."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(64)
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, -1), v)

    return attend, (struct(16, 512, 64),) * 3


@planted("float64", *ONE, x64=True)
def accumulator_of_the_default_type() -> Program:
    def mean_field(xs: Any) -> Any:
        total, _ = lax.scan(lambda total, x: (total + jnp.tanh(x), None), jnp.zeros((512, 512)), xs)
        return (total / xs.shape[0]).astype(F32)

    return mean_field, (struct(16, 512, 512),)


@planted("float64", *ONE, x64=True)
def mean_and_deviation_of_numpy() -> Program:
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])

    def preprocess(images: Any, w: Any) -> Any:
        x = (images.astype(F32) / 255 - mean) / deviation
        return jnp.tanh(x.reshape(64, -1) @ w)

    return preprocess, (struct(64, 64, 64, 3, dtype=U8), struct(64 * 64 * 3, 64))


@silent("float64", *ONE, x64=True)
def solver_in_64_bits() -> Program:
    """The arguments have 64 bits, so the program should."""

    def newton(x: Any, b: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, x: x - (x**3 - b) / (3 * x**2 + 1), x)

    wide = struct(512, 512, dtype=jnp.float64)
    return jax.jit(newton, donate_argnums=(0,)), (wide, wide)


@silent("float64", *ONE, x64=True)
def indices_in_64_bits() -> Program:
    def gather(table: Any, rows: Any) -> Any:
        return table[(rows * 7919 + jnp.arange(65_536)) % 8192] * 2.0

    return gather, (struct(8192, 64), struct(65_536, dtype=jnp.int64))


@silent("float64", *ONE, x64=True)
def numbers_of_python() -> Program:
    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    return gelu, (struct(1024, 1024),)


@silent("float64", *ONE, x64=True)
def rate_in_64_bits() -> Program:
    """A scalar schedule, which is cast before it meets the arrays."""

    def step(w: Any, g: Any, count: Any) -> Any:
        rate = 1e-3 * jnp.minimum(1.0, count / np.float64(1000)) * np.exp(-0.1)
        return w - rate.astype(w.dtype) * g

    return jax.jit(step, donate_argnums=(0,)), (struct(1024, 1024), struct(1024, 1024), struct(dtype=I32))


# wide-storage


def layers_of_a_scan(dtype: Any = F32, narrowed: bool = True) -> Program:
    def infer(ws: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return jax.nn.relu(x @ (w.astype(BF16) if narrowed else w)), None

        return lax.scan(layer, x, ws)[0]

    return infer, (struct(12, 1024, 1024, dtype=dtype), struct(16, 1024, dtype=BF16 if narrowed else dtype))


@planted("wide-storage", *ONE, on=(TPU, GPU))
def weights_narrowed_in_a_scan() -> Program:
    """CPUs convert bfloat16 to float32 first, so nothing would be gained there."""
    return layers_of_a_scan()


# TPUs were planted at first; but libtpu stacks bfloat16 by itself.
@planted("wide-storage", TPU, GPU, on=(GPU,))
def outputs_narrowed_behind_the_scan() -> Program:
    def encode(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h + x)
            return h, h * 2.0

        _, ys = lax.scan(step, jnp.zeros((4096, 512)), xs)
        return jnp.einsum("tbd,df->tbf", ys.astype(BF16), w)

    return encode, (struct(512, 16, dtype=BF16), struct(64, 4096, 512))


@planted("wide-storage", TPU, GPU, on=(GPU,))  # as the program above
def cache_in_float32() -> Program:
    """Keys of bfloat16 go into a float32 cache that a loop carries, and are read as bfloat16."""

    def generate(w: Any, x: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            cache, x = carry
            k = x @ w
            cache = lax.dynamic_update_slice_in_dim(cache, k[:, None].astype(F32), i, 1)
            keys = cache.astype(BF16)
            weights = jax.nn.softmax(jnp.einsum("bd,btd->bt", x, keys), -1)
            return cache, jnp.einsum("bt,btd->bd", weights, keys)

        return lax.fori_loop(0, 64, step, (jnp.zeros((64, 2048, 256), F32), x))[1]

    return generate, (struct(256, 256, dtype=BF16), struct(64, 256, dtype=BF16))


@planted("wide-storage", *ONE, on=(TPU, GPU))
def serving_with_weights_in_float32() -> Program:
    def serve(params: Any, x: Any) -> Any:
        params = jax.tree.map(lambda p: p.astype(BF16), params)
        return mlp(params, x)

    return serve, (mlp_params(2048, 8192, 2048), struct(8, 2048, dtype=BF16))


@planted("wide-storage", *ONE, on=(TPU, GPU))
def table_of_embeddings_in_float32() -> Program:
    def pooled(table: Any, tokens: Any) -> Any:
        return table.astype(BF16)[tokens].sum(1)

    return pooled, (struct(262_144, 128), struct(4096, 16, dtype=I32))


@silent("wide-storage", *ONE)
def master_weights() -> Program:
    def train_step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((mlp(jax.tree.map(lambda p: p.astype(BF16), params), x) - y).astype(F32) ** 2)

        return sgd(params, jax.grad(loss)(params))

    batch = struct(256, 1024, dtype=BF16)
    return jax.jit(train_step, donate_argnums=(0,)), (mlp_params(1024, 4096, 1024), batch, batch)


@silent("wide-storage", *ONE)
def residual_stream_in_float32() -> Program:
    def infer(ws: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            y = normed(x, jnp.float32(1.0)).astype(BF16)
            return x + jax.nn.relu(y @ w).astype(F32), None

        return lax.scan(layer, x, ws)[0]

    return infer, (struct(12, 1024, 1024, dtype=BF16), struct(256, 1024))


@silent("wide-storage", *ONE)
def table_in_both_types() -> Program:
    """The norm of the rows needs float32."""

    def similar(table: Any, x: Any) -> Any:
        norms = jnp.sqrt(jnp.sum(table**2, -1))
        return (x @ table.astype(BF16).T).astype(F32) / norms

    return similar, (struct(65_536, 256), struct(16, 256, dtype=BF16))


@silent("wide-storage", *ONE)
def sum_in_float32() -> Program:
    """Many small terms; the result is rounded once."""

    def total(xs: Any) -> Any:
        zeros = jnp.zeros((1024, 1024), F32)
        return lax.scan(lambda t, x: (t + x.astype(F32), None), zeros, xs)[0].astype(BF16)

    return total, (struct(32, 1024, 1024, dtype=BF16),)


@planted("wide-storage", *ONE, on=(GPU,))  # silent at first; float16 holds the same values, and GPUs compute in it
def simulated_rounding() -> Program:
    """The weights are rounded to the values of float16 in each execution, and are used in float32."""

    def infer(ws: Any, x: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w.astype(F16).astype(F32)), None), x, ws)[0]

    return infer, (struct(8, 512, 512), struct(256, 512))
