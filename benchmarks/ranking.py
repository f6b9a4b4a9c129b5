"""Rank correlation of estimated and measured kernel times on this CPU.

    python -m benchmarks.ranking [--repeat 15] [program ...]

The estimates are those of `roofline(inspector.measured_peak())`, the times those of `Compiled.profile`. Each program prints
Spearman's correlation over its kernels of at least 1 % of the measured time whose estimate is known. `CHOSEN` are programs that
were looked at while the rates were chosen; `OTHERS` were not.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pandas as pd

import inspector
from benchmarks.measuring import machine
from benchmarks.workloads import make
from inspector.errors import Unavailable

AIM = 0.8
_LEAST_SHARE = 0.01

Program = Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    """Returns the shape of a float32 array."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape: int) -> jax.ShapeDtypeStruct:
    """Returns the shape of an int32 array."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Normalizes the last axis."""
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def attention(q: Any, k: Any, v: Any) -> Any:
    """Computes attention of heads with 64 features."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def convolution(x: Any, w: Any) -> Any:
    """Convolves images, and drops negative values."""
    return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))


def _workload(name: str) -> Program:
    def program() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        workload = make(name)
        return workload.fun, tuple(workload.args)

    return program


def _recurrent() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def run(w: Any, u: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            carry = jnp.tanh(carry @ w + x @ u)
            return carry, carry

        return jax.lax.scan(step, jnp.zeros((128, 512)), xs)

    return run, (f32(512, 512), f32(256, 512), f32(64, 128, 256))


def _adam() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def update(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    shapes = [f32(1024, 1024), f32(512, 512), f32(2048, 2048)]
    return (lambda *args: [update(*each) for each in zip(*args, strict=True)]), (shapes,) * 4


def _equinox() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    eqx: Any = importlib.import_module("equinox")

    weights, rest = eqx.partition(eqx.nn.MLP(64, 64, 512, 4, key=jax.random.key(0)), eqx.is_array)

    def loss(weights: Any, x: Any) -> Any:
        return (jax.vmap(eqx.combine(weights, rest))(x) ** 2).mean()

    return jax.grad(loss), (jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), weights), f32(512, 64))


def _diffrax() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    diffrax: Any = importlib.import_module("diffrax")

    def solve(y: Any, w: Any) -> Any:
        term = diffrax.ODETerm(lambda _, y, __: jnp.tanh(y @ w))
        constant = diffrax.ConstantStepSize()
        return diffrax.diffeqsolve(
            term, diffrax.Dopri5(), 0.0, 1.0, 0.05, y, max_steps=64, stepsize_controller=constant
        ).ys

    return solve, (f32(256, 256), f32(256, 256))


def _kmeans() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(x: Any, centers: Any) -> Any:
        nearest = ((x[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
        return jax.ops.segment_sum(x, nearest, 64)

    return step, (f32(8192, 64), f32(64, 64))


def _embedding_gradient() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(table: Any, w: Any, rows: Any) -> Any:
        return jnp.tanh(table[rows] @ w).sum()

    return jax.grad(loss, argnums=(0, 1)), (f32(50_000, 128), f32(128, 256), i32(4096))


def _cross_entropy() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(w: Any, x: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), labels[:, None], 1).mean()

    return jax.grad(loss), (f32(256, 8000), f32(512, 256), i32(512))


CHOSEN: Mapping[str, Program] = {
    "mlp": _workload("mlp"),
    "cnn": _workload("cnn"),
    "tf2": _workload("tf2"),
    "layer norm": lambda: (layer_norm, (f32(4096, 1024), f32(1024), f32(1024))),
    "attention": lambda: (attention, (f32(2, 8, 512, 64),) * 3),
    "convolution": lambda: (convolution, (f32(8, 56, 56, 32), f32(3, 3, 32, 64))),
    "recurrent": _recurrent,
    "adam": _adam,
    "embedding gradient": _embedding_gradient,
    "fft": lambda: (
        lambda x, k: jnp.abs(jnp.fft.ifft(jnp.fft.fft(x) * k)) ** 2,
        (f32(256, 1024), f32(1024)),
    ),
    "cumulative sum of sorted": lambda: (lambda x: jnp.cumsum(jnp.sort(x), 1) * jnp.exp(x), (f32(512, 2048),)),
    "cross entropy": _cross_entropy,
    "k-means": _kmeans,
    "equinox": _equinox,
    "diffrax": _diffrax,
}
"""Programs that were looked at while the rates of a CPU were chosen."""


def _lstm() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def run(w: Any, b: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> tuple[Any, Any]:
            h, c = state
            i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w + b, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(step, (jnp.zeros((64, 256)), jnp.zeros((64, 256))), xs)[1]

    def loss(w: Any, b: Any, xs: Any) -> Any:
        return (run(w, b, xs) ** 2).mean()

    return jax.grad(loss, argnums=(0, 1)), (f32(384, 1024), f32(1024), f32(24, 64, 128))


def _flax() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    nn: Any = importlib.import_module("flax.linen")

    class Net(nn.Module):  # type: ignore[misc]
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            for features in (32, 64):
                x = nn.avg_pool(nn.gelu(nn.Conv(features, (3, 3))(x)), (2, 2), (2, 2))
            return nn.Dense(10)(nn.LayerNorm()(x.reshape(x.shape[0], -1)))

    net = Net()
    weights = jax.eval_shape(net.init, jax.random.key(0), f32(16, 32, 32, 8))
    return jax.grad(lambda w, x: (net.apply(w, x) ** 2).mean()), (weights, f32(16, 32, 32, 8))


def _nnx() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    nnx: Any = importlib.import_module("flax.nnx")

    rngs = nnx.Rngs(0)
    layers = (
        nnx.MultiHeadAttention(num_heads=4, in_features=128, decode=False, rngs=rngs),
        nnx.LayerNorm(128, rngs=rngs),
    )
    definition, weights = nnx.split(nnx.Sequential(*layers, nnx.Linear(128, 512, rngs=rngs), jax.nn.gelu))

    def loss(weights: Any, x: Any) -> Any:
        return (nnx.merge(definition, weights)(x) ** 2).mean()

    return jax.grad(loss, allow_int=True), (jax.eval_shape(lambda: weights), f32(8, 128, 128))


def _optax() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    optax: Any = importlib.import_module("optax")

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(1e-3))
    weights = {"a": f32(1024, 512), "b": f32(512, 2048), "c": f32(2048)}
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights: Any, state: Any, gradients: Any) -> Any:
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    return step, (weights, state, weights)


def _numpyro() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    numpyro: Any = importlib.import_module("numpyro")
    dist: Any = importlib.import_module("numpyro.distributions")
    log_density = importlib.import_module("numpyro.infer.util").log_density

    def model(x: Any, y: Any) -> None:
        w = numpyro.sample("w", dist.Normal(jnp.zeros(200), 1.0).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.StudentT(3.0, x @ w, scale), obs=y)

    def potential(w: Any, x: Any, y: Any) -> Any:
        return -log_density(model, (x, y), {}, {"w": w, "scale": 1.5})[0]

    return jax.value_and_grad(potential), (f32(200), f32(20_000, 200), f32(20_000))


def _batch_norm() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def block(x: Any, w: Any, gain: Any) -> Any:
        y = convolution(x, w)
        normal = (y - y.mean((0, 1, 2))) * jax.lax.rsqrt(y.var((0, 1, 2)) + 1e-5) * gain
        return (jax.nn.silu(normal) ** 2).mean()

    return jax.grad(block, argnums=(1, 2)), (f32(8, 32, 32, 16), f32(3, 3, 16, 32), f32(32))


def _rotary() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def rotate(x: Any, positions: Any) -> Any:
        angles = positions[:, None] / 1e4 ** (jnp.arange(32) / 32.0)
        cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
        a, b = x[..., :32], x[..., 32:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def scores(q: Any, k: Any, at: Any) -> Any:
        return jnp.einsum("qhd,khd->hqk", rotate(q, at), rotate(k, at))

    return scores, (f32(1024, 8, 64), f32(1024, 8, 64), f32(1024))


def _mixture() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
        weights, which = jax.lax.top_k(jax.nn.softmax(x @ gate), 2)
        hidden = jax.nn.gelu(jnp.einsum("td,edf->tef", x, up))
        out = jnp.einsum("tef,efd->ted", hidden, down)
        return (jnp.take_along_axis(out, which[..., None], 1) * weights[..., None]).sum(1)

    return experts, (f32(512, 128), f32(128, 8), f32(8, 128, 256), f32(8, 256, 128))


def _graph_network() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def layer(nodes: Any, w: Any, senders: Any, receivers: Any) -> Any:
        messages = jax.nn.relu(nodes[senders] @ w)
        return jnp.tanh(jax.ops.segment_sum(messages, receivers, 4096))

    return layer, (f32(4096, 64), f32(64, 64), i32(20_000), i32(20_000))


def _heat() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(_: Any, u: Any) -> Any:
        around = sum(jnp.roll(u, by, axis) for axis in (0, 1) for by in (1, -1))
        return u + 0.1 * (around - 4 * u)

    return lambda u: jnp.sin(jax.lax.fori_loop(0, 20, step, u)).sum(0), (f32(512, 512),)


def _histogram() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def count(x: Any, edges: Any) -> Any:
        bins = jnp.searchsorted(edges, x)
        return jnp.zeros(257).at[bins].add(jnp.exp(-(x**2)))

    return count, (f32(100_000), f32(256))


def _gaussian_process() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def likelihood(x: Any, y: Any) -> Any:
        distances = ((x[:, None] - x[None]) ** 2).sum(-1)
        factor = jnp.linalg.cholesky(jnp.exp(-distances) + jnp.eye(len(x)))
        return jax.scipy.linalg.solve_triangular(factor, y, lower=True).sum() + jnp.log(jnp.diag(factor)).sum()

    return likelihood, (f32(384, 8), f32(384, 16))


OTHERS: Mapping[str, Program] = {
    "lstm gradient": _lstm,
    "flax gradient": _flax,
    "nnx gradient": _nnx,
    "optax lamb": _optax,
    "numpyro gradient": _numpyro,
    "batch norm gradient": _batch_norm,
    "rotary scores": _rotary,
    "mixture of experts": _mixture,
    "graph network": _graph_network,
    "heat equation": _heat,
    "histogram": _histogram,
    "gaussian process": _gaussian_process,
    "dropout": lambda: (
        lambda key, x: jnp.where(jax.random.bernoulli(key, 0.9, x.shape), jax.nn.gelu(x), 0.0).sum(0),
        (jax.ShapeDtypeStruct((2,), jnp.uint32), f32(1024, 1024)),
    ),
    "2-d fft": lambda: (
        lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.exp(-jnp.arange(129.0))) * jnp.cos(x),
        (f32(16, 256, 256),),
    ),
    "transposes": lambda: (
        lambda x, w: (jnp.einsum("abc,dc->bad", x, w).transpose(2, 0, 1) * x.sum()).max(0),
        (f32(64, 256, 128), f32(96, 128)),
    ),
    "pairwise forces": lambda: (
        jax.grad(lambda x: (1 / jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 1e-3)).sum()),
        (f32(1024, 3),),
    ),
    "sorted rows": lambda: (
        lambda x, w: jnp.take_along_axis(x @ w, jnp.argsort(x, 1), 1).cumsum(0),
        (f32(512, 512), f32(512, 512)),
    ),
}
"""Programs that were not looked at."""


def correlation(program: Program, repeat: int) -> tuple[float, int]:
    """Returns Spearman's correlation of a program, and its number of kernels; NaN for fewer than three."""
    fun, args = program()
    compiled = inspector.lower(fun, *args).compile()
    points = compiled.roofline(inspector.measured_peak()).points
    estimated = {p.name: float(p.least_s) for p in points if not isinstance(p.least_s, Unavailable)}
    rows = [row for row in compiled.profile(repeat=repeat).rows if row.opcode]
    measured = {row.name: row.total_s if isinstance(row.run_s, Unavailable) else row.run_s for row in rows}
    least = _LEAST_SHARE * sum(measured.values())
    names = [name for name, seconds in measured.items() if seconds >= least and name in estimated]
    if len(names) < 3:
        return float("nan"), len(names)
    pairs = pd.DataFrame({"estimated": estimated, "measured": measured}).loc[names]
    return float(pairs["estimated"].rank().corr(pairs["measured"].rank())), len(names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="program", help=", ".join((*CHOSEN, *OTHERS)))
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args(arguments)
    for title, programs in (("chosen", CHOSEN), ("others", OTHERS)):
        found = []
        for name, program in programs.items():
            if options.programs and name not in options.programs:
                continue
            try:
                spearman, count = correlation(program, options.repeat)
            except ImportError as e:
                print(f"{name}: not measured: {e}")
                continue
            print(f"{name}: {spearman:.2f} over {count} kernels", flush=True)
            if spearman == spearman:
                found.append(spearman)
        if found:
            print(f"{title}: median {statistics.median(found):.2f} of {len(found)} programs (aim {AIM}) {machine()}\n")


if __name__ == "__main__":
    main()
