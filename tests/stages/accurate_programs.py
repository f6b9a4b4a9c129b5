"""Programs with their exact results, computed by hand: NumPy's long double, Python's fractions, or a closed form.

Each has the verdict that the result of the program in its own precision deserves. mpmath is not a dependency; long double has 64
bits of significand where the tests run, 2048 times as precise as float64.
"""

from __future__ import annotations

import dataclasses
import fractions
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

LONG = np.longdouble


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> np.ndarray:
    """Returns random values, the same for each call with the same arguments: tests may run in any order."""
    rng = np.random.default_rng(zlib.crc32(repr((shape, scale, shift)).encode()))
    return (rng.normal(size=shape) * scale + shift).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
      fun: the function.
      args: its arguments.
      exact: returns the exact results for these arguments, as a list.
      is_wrong: whether the program's own precision gives a wrong result.
      agreement: relative difference between the exact results and the reference that rounding at 64 bits explains.
    """

    fun: Callable[..., Any]
    args: Sequence[Any]
    exact: Callable[..., Sequence[Any]]
    is_wrong: bool = False
    agreement: float = 1e-9


def naive_softmax(x: Any) -> Any:
    e = jnp.exp(x)
    return e / jnp.sum(e)


def exact_softmax(x: np.ndarray) -> list[Any]:
    e = np.exp(x.astype(LONG) - x.max())
    return [e / e.sum()]


def exact_logsumexp(x: np.ndarray) -> list[Any]:
    wide = x.astype(LONG)
    return [wide.max() + np.log(np.sum(np.exp(wide - wide.max())))]


def naive_variance(x: Any) -> Any:
    return jnp.mean(x * x) - jnp.mean(x) ** 2


def exact_variance(x: np.ndarray) -> list[Any]:
    values = [fractions.Fraction(float(each)) for each in x]
    mean = sum(values) / len(values)
    return [float(sum((each - mean) ** 2 for each in values) / len(values))]


def kahan(x: Any) -> Any:
    def step(carry: Any, value: Any) -> Any:
        total, lost = carry
        added = value - lost
        new = total + added
        return (new, (new - total) - added), None

    return lax.scan(step, (jnp.zeros((), x.dtype), jnp.zeros((), x.dtype)), x)[0][0]


def naive_sum(x: Any) -> Any:
    return lax.scan(lambda total, value: (total + value, None), jnp.zeros((), x.dtype), x)[0]


def exact_sum(x: np.ndarray) -> list[Any]:
    return [float(sum(fractions.Fraction(float(each)) for each in x))]


def layer_norm(x: Any) -> Any:
    centered = x - jnp.mean(x, -1, keepdims=True)
    return centered * lax.rsqrt(jnp.mean(centered**2, -1, keepdims=True) + 1e-5)


def exact_layer_norm(x: np.ndarray) -> list[Any]:
    centered = x.astype(LONG) - x.astype(LONG).mean(-1, keepdims=True)
    return [centered / np.sqrt((centered**2).mean(-1, keepdims=True) + LONG(np.float32(1e-5)))]


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T / np.sqrt(np.float32(q.shape[-1]))) @ v


def exact_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[Any]:
    scores = q.astype(LONG) @ k.astype(LONG).T / LONG(np.sqrt(np.float32(q.shape[-1])))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return [e / e.sum(-1, keepdims=True) @ v.astype(LONG)]


def rnn(w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(xs.shape[1]), xs)[0]


def exact_rnn(w: np.ndarray, xs: np.ndarray) -> list[Any]:
    h = np.zeros(xs.shape[1], LONG)
    for x in xs.astype(LONG):
        h = np.tanh(h @ w.astype(LONG) + x)
    return [h]


def newton(x: Any) -> Any:
    return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-6 * x, lambda s: (s + x / s) / 2, x)


def momentum(w: Any, velocity: Any, x: Any, y: Any) -> Any:
    gradient = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    velocity = 0.5 * velocity + gradient
    return w - 0.25 * velocity, velocity


def exact_momentum(w: np.ndarray, velocity: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[Any]:
    w, velocity, x, y = (each.astype(LONG) for each in (w, velocity, x, y))
    velocity = velocity / 2 + 2 * x.T @ (x @ w - y) / len(y)
    return [w - velocity / 4, velocity]


def smaller_root(a: Any, b: Any, c: Any) -> Any:
    return (-b + jnp.sqrt(b * b - 4 * a * c)) / (2 * a)


def exact_root(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[Any]:
    a, b, c = (each.astype(LONG) for each in (a, b, c))
    return [2 * c / (-b - np.sqrt(b * b - 4 * a * c))]


def hilbert(n: int) -> np.ndarray:
    return (1 / (np.arange(n)[:, None] + np.arange(n) + 1)).astype(np.float32)


def bfloat16_product(a: Any, b: Any) -> Any:
    return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)


def product(a: np.ndarray, b: np.ndarray) -> list[Any]:
    return [a.astype(LONG) @ b.astype(LONG)]


SQUARE = normal(8, 8)
POSITIVE = SQUARE @ SQUARE.T + np.eye(8, dtype=np.float32)
A, B = normal(32, 48), normal(48, 32)
LARGE = normal(64, scale=100)
SHIFTED = normal(256, shift=1000)
TINY = np.asarray([1e-9, 3e-8, 2e-10, 5e-9], np.float32)
ERF = np.vectorize(math.erf)

CASES: dict[str, Case] = {
    "softmax without the maximum": Case(naive_softmax, [LARGE], exact_softmax, is_wrong=True),
    "softmax": Case(jax.nn.softmax, [LARGE], exact_softmax),
    "logarithm of summed exponentials": Case(
        lambda x: jnp.log(jnp.sum(jnp.exp(x))), [LARGE], exact_logsumexp, is_wrong=True
    ),
    "logsumexp": Case(jax.nn.logsumexp, [LARGE], exact_logsumexp),
    "variance from squares": Case(naive_variance, [SHIFTED], exact_variance, is_wrong=True, agreement=1e-8),
    "variance": Case(jnp.var, [SHIFTED], exact_variance),
    "Kahan sum": Case(kahan, [np.full(20_000, 0.1, np.float32)], exact_sum),
    "sum in a loop": Case(naive_sum, [np.full(200_000, 0.1, np.float32)], exact_sum, is_wrong=True),
    "log of 1 + x": Case(lambda x: jnp.log(1 + x), [TINY], lambda x: [np.log1p(x.astype(LONG))], True, 1e-6),
    "log1p": Case(jnp.log1p, [TINY], lambda x: [np.log1p(x.astype(LONG))]),
    "exp - 1": Case(lambda x: jnp.exp(x) - 1, [TINY], lambda x: [np.expm1(x.astype(LONG))], True, 1e-6),
    "expm1": Case(jnp.expm1, [TINY], lambda x: [np.expm1(x.astype(LONG))]),
    "norm of large values": Case(
        lambda x: jnp.sqrt(jnp.sum(x * x)), [np.full(4, 1e25, np.float32)], lambda x: [2 * LONG(x[0])], True
    ),
    "norm": Case(jnp.linalg.norm, [normal(64)], lambda x: [np.sqrt(np.sum(x.astype(LONG) ** 2))]),
    "product in bfloat16": Case(bfloat16_product, [A, B], product, is_wrong=True),
    "product": Case(jnp.matmul, [A, B], product),
    "product with the highest precision": Case(lambda a, b: jnp.matmul(a, b, precision="highest"), [A, B], product),
    "product of bfloat16": Case(jnp.matmul, [A.astype(jnp.bfloat16), B.astype(jnp.bfloat16)], product),
    "cumulative sum": Case(jnp.cumsum, [normal(500)], lambda x: [np.cumsum(x.astype(LONG))]),
    "mean of many": Case(jnp.mean, [normal(50_000, shift=3)], lambda x: [x.astype(LONG).mean()]),
    "sum in float16": Case(
        lambda x: lax.reduce(x, np.float16(0), lax.add, (0,)) / 5000, [np.full(5000, 30, np.float16)], lambda x: [30.0], True
    ),
    "layer norm": Case(layer_norm, [normal(4, 64)], exact_layer_norm),
    "attention": Case(attention, [normal(8, 16), normal(8, 16), normal(8, 16)], exact_attention),
    "erf": Case(jax.scipy.special.erf, [normal(50)], lambda x: [ERF(x.astype(np.float64))]),
    "log gamma": Case(
        jax.scipy.special.gammaln, [np.linspace(3, 40, 50, dtype=np.float32)], lambda x: [special.gammaln(x.astype(float))]
    ),
    "Cholesky": Case(jnp.linalg.cholesky, [POSITIVE], lambda a: [np.linalg.cholesky(a.astype(float))]),
    "solve": Case(
        jnp.linalg.solve, [POSITIVE, normal(8)], lambda a, b: [np.linalg.solve(a.astype(float), b.astype(float))]
    ),
    "solve a Hilbert matrix": Case(
        jnp.linalg.solve, [hilbert(7), np.ones(7, np.float32)],
        lambda a, b: [np.linalg.solve(a.astype(float), b.astype(float))], is_wrong=True, agreement=1e-5,
    ),
    "QR": Case(lambda a: jnp.linalg.qr(a).R, [normal(8, 8)], lambda a: [np.linalg.qr(a.astype(float)).R]),
    "eigenvalues": Case(jnp.linalg.eigvalsh, [POSITIVE], lambda a: [np.linalg.eigvalsh(a.astype(float))]),
    "FFT": Case(jnp.fft.fft, [normal(128)], lambda x: [np.fft.fft(x.astype(float))]),
    "recurrent network": Case(rnn, [normal(8, 8, scale=0.3), normal(30, 8)], exact_rnn),
    "Newton's method": Case(newton, [np.float32(2)], lambda x: [np.sqrt(LONG(x))], agreement=1e-6),
    "optimizer step": Case(momentum, [normal(8), normal(8), normal(32, 8), normal(32)], exact_momentum),
    "cosine of large arguments": Case(
        lambda x: jnp.cos(x * np.float32(np.pi)), [np.linspace(1e5, 2e5, 9, dtype=np.float32)],
        lambda x: [np.cos(x.astype(LONG) * LONG(np.float32(np.pi)))], is_wrong=True,
    ),
    "root with cancellation": Case(
        smaller_root, [np.float32([1, 1]), np.float32([1e4, 3e4]), np.float32([1, 1])], exact_root, True, 1e-6
    ),
    "integers": Case(lambda x: x * x + 1, [np.arange(9)], lambda x: [x * x + 1]),
    "comparison": Case(lambda x: x * 2 > 1, [normal(20)], lambda x: [x > 0.5]),
    "index of a maximum": Case(lambda x: jnp.argmax(1 + x), [np.float32([1e-9, 3e-9, 2e-9])], lambda x: [1], True),
    "complex product": Case(
        lambda a, b: a * b, [(normal(9) + 1j * normal(9)).astype(np.complex64)] * 2,
        lambda a, b: [a.astype(complex) * b.astype(complex)],
    ),
}  # fmt: skip
