"""Gradients, convolutions, branches and loops for tests: programs whose operations compilers rewrite a lot on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _mse(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.mean(jnp.tanh(x @ w) ** 2)


def _mlp(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2)


def _attention(q: jax.Array, x: jax.Array) -> jax.Array:
    h = x @ q
    return jnp.sum(jax.nn.softmax(h @ h.T) @ x)


def _layers(w: jax.Array, x: jax.Array) -> jax.Array:
    carry, _ = lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, w)
    return (carry**2).sum()


def _norm(g: jax.Array, x: jax.Array) -> jax.Array:
    centered = x - x.mean(-1, keepdims=True)
    return jnp.sum(g * centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6))


def _batched(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.sin(jnp.einsum("bij,bjk->bik", x, w)))


def _conv(
    k: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    ci: int = 16,
    co: int = 32,
    lhs: int = 1,
    size: int = 32,
    padding: Any = "SAME",
) -> Program:
    def fun(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.nn.relu(
            lax.conv_general_dilated(
                x, w, (stride, stride), padding, lhs_dilation=(lhs, lhs), rhs_dilation=(dilation, dilation),
                feature_group_count=groups, dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
        )  # fmt: skip

    return fun, (_f32(8, size, size, ci), _f32(k, k, ci // groups, co))


def _conv_gradient(argnum: int, **keywords: int) -> Program:
    fun, arguments = _conv(**keywords)
    return jax.grad(lambda x, w: (fun(x, w) ** 2).sum(), argnums=argnum), arguments


def _conv1d(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def _cond(x: jax.Array) -> Any:
    return lax.cond(x.sum() > 0, lambda a: jnp.sin(a) * 2, lambda a: jnp.cos(a) * 3, x)


def _large_cond(x: jax.Array) -> Any:
    return lax.cond(x.sum() > 0, lambda a: jnp.sin(a @ a) @ a, lambda a: jnp.cos(a @ a), x)


def _switch(i: jax.Array, x: jax.Array) -> Any:
    return lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x)


def _while(x: jax.Array) -> Any:
    return lax.while_loop(lambda c: c.sum() < 9, lambda c: jnp.sin(c @ c) + 1, x)


def _pool(x: jax.Array) -> jax.Array:
    return jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)


def _embedding(table: jax.Array, ids: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(table[ids]) ** 2)


def _cross_entropy(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()


_W, _X = _f32(256, 256), _f32(64, 256)
_PARAMETERS = {"a": _f32(128, 256), "b": _f32(256, 64)}
_SQUARE = _f32(64, 64)
_IDS = jax.ShapeDtypeStruct((32,), jnp.int32)

PROGRAMS: dict[str, Program] = {
    "gradient of a product": (jax.grad(_mse), (_W, _X)),
    "gradient by both": (jax.grad(_mse, argnums=(0, 1)), (_W, _X)),
    "update": (lambda w, x: w - 0.1 * jax.grad(_mse)(w, x), (_W, _X)),
    "gradient of an MLP": (jax.grad(_mlp), (_PARAMETERS, _f32(32, 128))),
    "value and gradient of an MLP": (jax.value_and_grad(_mlp), (_PARAMETERS, _f32(32, 128))),
    "gradient of attention": (jax.grad(_attention), (_SQUARE, _f32(32, 64))),
    "gradient of layers": (jax.grad(_layers), (_f32(4, 64, 64), _f32(8, 64))),
    "gradient with remat": (jax.grad(jax.checkpoint(_mse)), (_W, _X)),
    "gradient of a norm": (jax.grad(_norm), (_f32(64), _SQUARE)),
    "gradient of batched products": (jax.grad(_batched, argnums=(0, 1)), (_f32(4, 32, 16), _f32(4, 8, 32))),
    "Hessian times vector": (lambda w, x: jax.jvp(jax.grad(lambda w: _mse(w, x)), (w,), (w,))[1], (_SQUARE, _f32(8, 64))),
    "gradients of a batch": (jax.vmap(jax.grad(_mse), (None, 0)), (_SQUARE, _f32(4, 8, 64))),
    "products in bfloat16": (
        jax.grad(lambda w, x: _mse(w.astype(jnp.bfloat16), x.astype(jnp.bfloat16)).astype(jnp.float32)), (_W, _X),
    ),
    "transposed products": (lambda a, b: (a.T @ b.T, (a @ b).T, b.T @ a.T), (_f32(64, 32), _f32(32, 64))),
    "outer product": (lambda a, b: jnp.sin(jnp.outer(a, b)), (_f32(64), _f32(128))),
    "matrix and vector": (jax.grad(lambda w, x: jnp.sum(jnp.tanh(w @ x))), (_W, _f32(256))),
    "gradient of an embedding": (jax.grad(_embedding), (_f32(128, 64), _IDS)),
    "gradient of cross entropy": (jax.grad(_cross_entropy), (_f32(64, 10), _f32(32, 64), _IDS)),
    "convolution": _conv(),
    "strided convolution": _conv(stride=2),
    "dilated convolution": _conv(dilation=2),
    "transposed convolution": _conv(lhs=2, padding=((1, 2), (1, 2))),
    "convolution 1x1": _conv(k=1),
    "convolution 5x5": _conv(k=5),
    "depthwise convolution": _conv(groups=16, co=16),
    "grouped convolution": _conv(groups=4),
    "convolution of many channels": _conv(ci=128, co=128),
    "convolution of few channels": _conv(ci=3, co=64, k=7, stride=2, size=64),
    "convolution in 1D": (_conv1d, (_f32(8, 128, 16), _f32(3, 16, 32))),
    "gradient by a convolution's input": _conv_gradient(0),
    "gradient by a convolution's kernel": _conv_gradient(1),
    "gradient of a strided convolution": _conv_gradient(0, stride=2),
    "gradient of a strided convolution's kernel": _conv_gradient(1, stride=2),
    "gradient of a depthwise convolution": _conv_gradient(0, groups=16, co=16),
    "gradient of a pool": (jax.grad(_pool), (_f32(2, 16, 16, 8),)),
    "Fourier transform": (lambda x: jnp.abs(jnp.fft.fft(x)), (_f32(8, 256),)),
    "real Fourier transform": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2) + 1, (_f32(8, 256),)),
    "condition": (_cond, (_f32(16),)),
    "condition with products": (_large_cond, (_W,)),
    "gradient of a condition": (jax.grad(lambda x: _large_cond(x).sum()), (_SQUARE,)),
    "switch": (_switch, (jax.ShapeDtypeStruct((), jnp.int32), _f32(16))),
    "while loop": (_while, (_SQUARE,)),
    "sort": (lambda x: jnp.sin(jnp.sort(x)), (_SQUARE,)),
    "argsort": (lambda x: jnp.argsort(x, 1), (_SQUARE,)),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, jnp.sin(c)), jnp.zeros(64), x), (_SQUARE,)),
    "random numbers": (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (64, 64)), (jax.ShapeDtypeStruct((2,), jnp.uint32),)),
    "Cholesky decomposition": (jnp.linalg.cholesky, (_SQUARE,)),
}  # fmt: skip
