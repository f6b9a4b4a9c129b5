"""Programs with matrix products that take longer than they must: types, precision, padding, and sums of products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from tests.findings.corpus.cases import BF16, CPU, F32, GPU, I32, ONE, TPU, planted, silent, struct
from tests.findings.corpus.models import attention, cross_entropy, mlp, mlp_params, sgd
from tests.findings.sharded import Program

HIGHEST = lax.Precision.HIGHEST

# upcast-product. TPUs compute float32 products in one pass of bfloat16, and CPUs are not faster with bfloat16.


@planted("upcast-product", *ONE, on=(GPU,))
def logits_in_float32() -> Program:
    def loss(embedding: Any, x: Any, labels: Any) -> Any:
        return cross_entropy(x.astype(F32) @ embedding.astype(F32).T, labels)

    return loss, (struct(32_768, 2048, dtype=BF16), struct(4096, 2048, dtype=BF16), struct(4096, dtype=I32))


@planted("upcast-product", TPU, GPU, on=(GPU,))
def master_weights_that_are_not_cast() -> Program:
    """The activations are bfloat16, so that the products are of mixed types."""

    def train_step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            h = jax.nn.relu(x @ params["up"]).astype(BF16)
            return jnp.mean((h @ params["down"] - y) ** 2)

        return sgd(params, jax.grad(loss)(params))

    params = {"up": struct(2048, 8192), "down": struct(8192, 2048)}
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(8192, 2048, dtype=BF16), struct(8192, 2048))


@planted("upcast-product", GPU)
def experts_in_float32() -> Program:
    def experts(x: Any, w: Any) -> Any:
        return jax.nn.silu(jnp.einsum("ecd,edf->ecf", x.astype(F32), w.astype(F32))).astype(BF16)

    return experts, (struct(8, 2048, 1024, dtype=BF16), struct(8, 1024, 4096, dtype=BF16))


@planted("upcast-product", GPU)
def low_rank_update_of_a_weight() -> Program:
    """The factors are float32, and so become the weight and the product."""

    def apply(w: Any, a: Any, b: Any, x: Any) -> Any:
        return (x.astype(F32) @ (w + a @ b)).astype(BF16)

    args = struct(4096, 4096, dtype=BF16), struct(4096, 16), struct(16, 4096), struct(8192, 4096, dtype=BF16)
    return apply, args


@planted("upcast-product", GPU)
def gram_matrix_in_float32() -> Program:
    def gram(x: Any) -> Any:
        wide = x.astype(F32)
        return wide.T @ wide / x.shape[0]

    return gram, (struct(32_768, 4096, dtype=BF16),)


@silent("upcast-product", *ONE)
def logits_with_sums_in_float32() -> Program:
    def loss(embedding: Any, x: Any, labels: Any) -> Any:
        return cross_entropy(jnp.einsum("td,vd->tv", x, embedding, preferred_element_type=F32), labels)

    return loss, (struct(32_768, 2048, dtype=BF16), struct(4096, 2048, dtype=BF16), struct(4096, dtype=I32))


@silent("upcast-product", *ONE)
def weights_of_eight_bits() -> Program:
    """Integers have to be converted to a float type."""

    def apply(w: Any, scale: Any, x: Any) -> Any:
        return x @ (w.astype(BF16) * scale)

    return apply, (struct(4096, 4096, dtype=jnp.int8), struct(4096, dtype=BF16), struct(256, 4096, dtype=BF16))


# GPUs write queries, keys and values in the order of their products first.
@silent("upcast-product", TPU, GPU, also={"transposed-argument": (GPU,)})
def activations_in_float32() -> Program:
    """The softmax is wide and the products are not."""
    return attention, (struct(4, 1024, 16, 128, dtype=BF16),) * 3


@silent("upcast-product", *ONE)
def product_of_normalized_values() -> Program:
    """Its operands are float32 values that were computed in float32."""

    def similarity(x: Any) -> Any:
        wide = x.astype(F32)
        unit = wide / jnp.sqrt(jnp.sum(wide**2, -1, keepdims=True))
        return unit @ unit.T

    return similarity, (struct(4096, 1024, dtype=BF16),)


# product-as-sum. CPUs compute these sums as products.


# The sum on a GPU reads the weight in another order, which a kernel writes first.
@planted("product-as-sum", *ONE, on=(TPU, GPU), also={"transposed-argument": (GPU,)})
def layer_by_broadcasting() -> Program:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return jax.nn.relu((x[:, :, None] * w).sum(1) + b)

    return layer, (struct(2048, 512), struct(512, 1024), struct(1024))


@planted("product-as-sum", *ONE, on=(TPU, GPU))
def gram_matrix_by_vmap() -> Program:
    """A kernel of pairs, mapped over both sides."""

    def kernel(a: Any, b: Any) -> Any:
        return jnp.exp(jnp.sum(a * b) / 16)

    return jax.vmap(jax.vmap(kernel, (None, 0)), (0, None)), (struct(2048, 256), struct(2048, 256))


@planted("product-as-sum", TPU, GPU)
def scores_by_broadcasting() -> Program:
    def scores(q: Any, k: Any) -> Any:
        return jax.nn.softmax((q[:, :, None, :] * k[:, None, :, :]).sum(-1) / 8, -1)

    return scores, (struct(16, 1024, 64, dtype=BF16), struct(16, 1024, 64, dtype=BF16))


@planted("product-as-sum", TPU, GPU)
def covariance_by_broadcasting() -> Program:
    def covariance(x: Any) -> Any:
        x = x - x.mean(0)
        return (x[:, :, None] * x[:, None, :]).mean(0)

    return covariance, (struct(4096, 512),)


@planted("product-as-sum", TPU, GPU)
def state_space_output() -> Program:
    """The states of each channel, weighted with one matrix for each head."""

    def output(states: Any, c: Any) -> Any:
        return jnp.sum(states[:, :, None, :] * c[None, None, :, :], axis=3)

    return output, (struct(32, 1024, 128), struct(512, 128))


@silent("product-as-sum", *ONE)
def distances_of_pairs() -> Program:
    """Absolute differences are no product."""
    return (lambda x, y: jnp.abs(x[:, None] - y[None]).sum(-1)), (struct(512, 64), struct(512, 64))


@silent("product-as-sum", *ONE)
def mixture_of_few_experts() -> Program:
    """Four terms for each value."""
    return (lambda gates, y: (gates[:, :, None] * y).sum(1)), (struct(8192, 4), struct(8192, 4, 512))


@silent("product-as-sum", TPU, GPU)
def products_of_three() -> Program:
    return (lambda x, y, w: (jnp.tanh(x * y) * w).sum(-1)), (struct(8192, 512), struct(8192, 512), struct(8192, 512))


@silent("product-as-sum", TPU, GPU)
def weighted_mean_of_values() -> Program:
    """One vector for each example: memory bounds it."""
    return (lambda weights, values: (weights[:, :, None] * values).sum(1)), (struct(256, 1024), struct(256, 1024, 128))


@silent("product-as-sum", *ONE)
def layer_by_einsum() -> Program:
    return (lambda x, w: jnp.einsum("ab,bc->ac", x, w)), (struct(2048, 512), struct(512, 1024))


# padding. Of the matrix unit of TPUs.


@planted("padding", *ONE, on=(TPU,))
def features_with_a_bias() -> Program:
    """A column of ones makes 1,025 features."""

    def layer(x: Any, w: Any) -> Any:
        x = jnp.concatenate([x, jnp.ones((x.shape[0], 1), x.dtype)], 1)
        return jax.nn.relu(x @ w)

    return layer, (struct(16_384, 1024, dtype=BF16), struct(1025, 4096, dtype=BF16))


@planted("padding", TPU)
def hidden_layer_of_2049() -> Program:
    def model(params: Any, x: Any) -> Any:
        return jax.nn.gelu(x @ params["up"]) @ params["down"]

    params = {"up": struct(1024, 2049, dtype=BF16), "down": struct(2049, 1024, dtype=BF16)}
    return model, (params, struct(16_384, 1024, dtype=BF16))


# The unit needs few more steps for 513 rows, but libtpu chooses worse blocks, and takes 2.7 times as long as for 512.
@planted("padding", TPU)
def experts_with_a_capacity_of_513() -> Program:
    return (lambda x, w: jax.nn.relu(jnp.einsum("ecd,edf->ecf", x, w))), (
        struct(16, 513, 2048, dtype=BF16),
        struct(16, 2048, 4096, dtype=BF16),
    )


@planted("padding", TPU)
def recurrent_state_of_520() -> Program:
    def run(w: Any, u: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x @ u), None), jnp.zeros((4096, 520), BF16), xs)[0]

    return run, (struct(520, 520, dtype=BF16), struct(1024, 520, dtype=BF16), struct(16, 4096, 1024, dtype=BF16))


@silent("padding", TPU, GPU)
def classes_with_a_null_class() -> Program:
    """The unit keeps the rows, and libtpu takes as long for 256 columns."""

    def step(w: Any, x: Any, labels: Any) -> Any:
        return jax.grad(lambda w: cross_entropy((x @ w).astype(F32), labels))(w)

    return step, (struct(8192, 257, dtype=BF16), struct(16_384, 8192, dtype=BF16), struct(16_384, dtype=I32))


@silent("padding", TPU)
def aligned_layers() -> Program:
    return mlp, (mlp_params(1024, 4096, 1024, dtype=BF16), struct(16_384, 1024, dtype=BF16))


@silent("padding", TPU)
def one_token_and_1025_features() -> Program:
    """Reading the weight takes longer than the product."""
    return (lambda x, w: x @ w), (struct(8, 1025, dtype=BF16), struct(1025, 8192, dtype=BF16))


@silent("padding", TPU)
def thousand_classes() -> Program:
    """24 more than 1,000 make a multiple, and no smaller one is near."""
    return (lambda x, w: jax.nn.softmax(x @ w, -1)), (struct(16_384, 2048, dtype=BF16), struct(2048, 1000, dtype=BF16))


@silent("padding", TPU)
def heads_of_80() -> Program:
    return attention, (struct(4, 1024, 16, 80, dtype=BF16),) * 3


# highest-precision


@planted("highest-precision", *ONE, on=(TPU, GPU))
def model_at_the_highest_precision() -> Program:
    """As a setting for the whole model."""

    def train_step(params: Any, x: Any, y: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return sgd(params, jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params))

    params = mlp_params(1024, 4096, 1024)
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(8192, 1024), struct(8192, 1024))


@planted("highest-precision", *ONE, on=(TPU, GPU))
def scores_at_the_highest_precision() -> Program:
    """One of several products."""

    def attend(params: Any, x: Any) -> Any:
        q, k, v = (x @ params[name] for name in "qkv")
        scores = jnp.einsum("bqd,bkd->bqk", q, k, precision=HIGHEST) / 32
        return jax.nn.softmax(scores, -1) @ v

    return attend, ({name: struct(1024, 1024) for name in "qkv"}, struct(4, 2048, 1024))


@planted("highest-precision", TPU, GPU)
def kernel_of_a_gaussian_process() -> Program:
    def kernel(x: Any, y: Any) -> Any:
        squares = jnp.sum(x**2, -1)[:, None] + jnp.sum(y**2, -1) - 2 * jnp.matmul(x, y.T, precision="float32")
        return jnp.exp(-0.5 * squares)

    return kernel, (struct(4096, 4096), struct(4096, 4096))


@planted("highest-precision", TPU)
def convolution_at_the_highest_precision() -> Program:
    def layer(x: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers, precision=HIGHEST))

    return layer, (struct(8, 28, 28, 128), struct(3, 3, 128, 128))


@planted("highest-precision", TPU)
def products_of_three_passes() -> Program:
    def layers(ws: Any, x: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(jnp.matmul(x, w, precision="high")), None), x, ws)[0]

    return layers, (struct(4, 1024, 1024), struct(2048, 1024))


@silent("highest-precision", CPU, GPU)
def model_at_the_default_precision() -> Program:
    def train_step(params: Any, x: Any, y: Any) -> Any:
        return sgd(params, jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params))

    params = mlp_params(1024, 4096, 1024)
    return jax.jit(train_step, donate_argnums=(0,)), (params, struct(8192, 1024), struct(8192, 1024))


@silent("highest-precision", TPU)
def decomposition_of_a_matrix() -> Program:
    """JAX's own products of a QR decomposition."""

    def solve(a: Any, b: Any) -> Any:
        q, r = jnp.linalg.qr(a)
        return solve_triangular(r, q.T @ b)

    return solve, (struct(128, 128), struct(128, 128))


@silent("highest-precision", TPU, GPU)
def narrow_operands_at_the_highest_precision() -> Program:
    """bfloat16 takes one pass at any precision."""
    return (lambda x, w: jnp.matmul(x, w, precision=HIGHEST)), (
        struct(8192, 2048, dtype=BF16),
        struct(2048, 2048, dtype=BF16),
    )


# Silent on TPUs too at first; but libtpu estimates that the passes take longer than the memory, because most of the unit is padding.
@planted("highest-precision", TPU, GPU, on=(TPU,))
def small_product_at_the_highest_precision() -> Program:
    """A rotation of points: memory bounds it on GPUs."""
    return (lambda points, matrix: jnp.matmul(points, matrix, precision=HIGHEST)), (struct(1 << 20, 3), struct(3, 3))
