"""Sixty programs run on this CPU: no number that is called a lower bound is beaten by the run.

Operations and bytes are held against counts by hand of what the run does, for these very arguments. The time at the
roofs is an estimate and is never called a bound; here the roofs are so high that no CPU reaches them, so a run that is
faster shows that more is counted than it does.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.analysis.cost.schedule import Schedule
from inspector.compilation.cost import Cost
from inspector.engines.inline import InlineEngine
from inspector.errors import About, AtLeast, Unavailable
from inspector.platforms import Peak

UNKNOWN = Unavailable("not needed")
ROOFS = Peak("toy", {"f32": 1e14, "f64": 1e14, "bf16": 1e14}, 1e12, UNKNOWN, UNKNOWN, UNKNOWN, "no CPU's")
N = 128
ROWS, WIDTH, TAKEN = 200_000, 64, 16
F4 = 4


def of(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).random(shape).astype(dtype)


def eye() -> np.ndarray:
    return np.eye(N, dtype=np.float32)


TABLE = of(ROWS, WIDTH)
SOME = np.arange(TAKEN, dtype=np.int32) * 7
SAME = np.zeros(TAKEN, np.int32)
BEYOND = np.full(TAKEN, ROWS + 5, np.int32)
UPDATES = of(TAKEN, WIDTH)
COMPLEX = of(N, N).astype(np.complex64)
GRID = of(8, 32, 32)
INTS = np.arange(N * N, dtype=np.int32).reshape(N, N)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with the arguments of a run.

    Attributes:
      fun, args: what runs.
      flops: the floating-point operations of this run by hand; None where only an upper limit is known to the library.
      is_exact: whether these are all, and not only the most that they are.
      touched: the bytes of this run that are read and written at least once, by hand; None for those not counted.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    flops: float | None = None
    is_exact: bool = False
    touched: float | None = None


def exact(flops: float, fun: Callable[..., Any], *args: Any) -> Case:
    return Case(fun, args, flops, is_exact=True)


def most(flops: float, touched: float | None, fun: Callable[..., Any], *args: Any) -> Case:
    return Case(fun, args, flops, touched=touched)


def timed(fun: Callable[..., Any], *args: Any) -> Case:
    return Case(fun, args)


def rows(count: int) -> float:
    return float(count * WIDTH * F4)


def repeated(x: Any, count: Any) -> Any:
    return lax.fori_loop(0, count, lambda _, v: v @ v, x)


def until(x: Any, limit: Any) -> Any:
    return lax.while_loop(lambda s: s[1] < limit, lambda s: (jnp.sin(s[0]) @ s[0], s[1] + 1), (x, jnp.int32(0)))[0]


def nested(x: Any, outer: Any, inner: Any) -> Any:
    return lax.fori_loop(0, outer, lambda _, v: repeated(v, inner), x)


def either(which: Any, x: Any) -> Any:
    return lax.cond(which, lambda v: v @ v, lambda v: v + 1, x)


def one_of(which: Any, x: Any) -> Any:
    return lax.switch(which, [lambda v: v @ v, lambda v: v * 2, lambda v: v @ v @ v], x)


def looped_branch(count: Any, which: Any, x: Any) -> Any:
    return lax.fori_loop(0, count, lambda _, v: either(which, v), x)


def scanned(x: Any, xs: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.tanh(c @ x) + row, c.sum()), xs[0], xs)


PRODUCT, SQUARE = 2 * N**3, N * N
SMALL = 0.01 * PRODUCT  # counters and conversions
CASES: dict[str, Case] = {
    # element-wise
    "add": exact(SQUARE, lambda x: x + 1, of(N, N)),
    "axpy": exact(2 * SQUARE, lambda x, y: 2 * x + y, of(N, N), of(N, N)),
    "polynomial": exact(4 * SQUARE, lambda x: (x * x + 1) * x + 2, of(N, N)),
    "sine": exact(0, jnp.sin, of(N, N)),
    "cast": timed(lambda x: x.astype(jnp.bfloat16), of(1024, 1024)),
    "transpose": timed(lambda x: x.T.copy(), of(1024, 1024)),
    "select": timed(lambda x: jnp.where(x > 0.5, x, 0), of(1024, 1024)),
    "integers": timed(lambda x: x * 3 + 1, INTS),
    "concatenate": timed(lambda x: jnp.concatenate([x, x], 1), of(512, 512)),
    "pad": timed(lambda x: jnp.pad(x, 3), of(512, 512)),
    "reverse": timed(lambda x: x[::-1], of(512, 512)),
    "static slice": timed(lambda x: x[5:9] + 1, TABLE),
    "strided slice": timed(lambda x: x[::1000] * 2, TABLE),
    # products
    "product": exact(PRODUCT, jnp.matmul, of(N, N), of(N, N)),
    "product and bias": exact(PRODUCT + SQUARE, lambda x, y, b: x @ y + b, of(N, N), of(N, N), of(N)),
    "vector": exact(2 * SQUARE, lambda x, v: x @ v, of(N, N), of(N)),
    "batched": exact(8 * 2 * 32**3, jnp.matmul, GRID, GRID),
    "outer": timed(jnp.outer, of(512), of(512)),
    "einsum": exact(8 * 2 * 32**3, lambda x: jnp.einsum("bij,bkj->bik", x, x), GRID),
    "convolution": timed(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), of(1, 4, 64, 64), of(8, 4, 3, 3)),
    # reductions
    "sum": most(SQUARE, None, jnp.sum, of(N, N)),
    "mean of rows": most(2 * SQUARE, None, lambda x: x.mean(1), of(N, N)),
    "largest": timed(jnp.max, of(1024, 1024)),
    "argmax": timed(lambda x: jnp.argmax(x, 1), of(512, 512)),
    "softmax": timed(jax.nn.softmax, of(512, 512)),
    "norm": timed(lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), of(512, 512)),
    "cumulative sum": timed(lambda x: jnp.cumsum(x, 1), of(256, 256)),
    "pooling": timed(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), of(512, 512)),
    # parts of tables, chosen at run time
    "take": Case(lambda t, i: t[i], (TABLE, SOME), touched=2 * rows(TAKEN) + TAKEN * F4),
    "take and scale": Case(lambda t, i: t[i] * 2 + 1, (TABLE, SOME), touched=2 * rows(TAKEN) + TAKEN * F4),
    "take one row only": Case(lambda t, i: t[i] * 2 + 1, (TABLE, SAME), touched=2 * rows(TAKEN) + TAKEN * F4),
    "take beyond the end": Case(lambda t, i: jnp.take(t, i, axis=0), (TABLE, BEYOND)),
    "take and sum": timed(lambda t, i: t[i].sum(0), TABLE, SOME),
    "take a scaled table": timed(lambda t, i: (t * 2)[i], TABLE, SOME),
    "take columns": timed(lambda t, i: t[:, i], of(1000, 1000), np.arange(5, dtype=np.int32)),
    "take along": timed(lambda t, i: jnp.take_along_axis(t, i[:, None], 1), of(4096, 1024), np.zeros(4096, np.int32)),
    "dynamic slice": timed(lambda t, i: lax.dynamic_slice(t, (i, 0), (4, WIDTH)) + 1, TABLE, np.int32(9)),
    "dynamic row": timed(lambda t, i: lax.dynamic_index_in_dim(t, i, keepdims=False).sum(), TABLE, np.int32(9)),
    "add to rows": timed(lambda t, i, u: t.at[i].add(u), of(2000, WIDTH), SOME, UPDATES),
    "set rows": timed(lambda t, i, u: t.at[i].set(u), of(2000, WIDTH), SOME, UPDATES),
    "add beyond the end": timed(lambda t, i, u: t.at[i].add(u), of(2000, WIDTH), BEYOND, UPDATES),
    "update a slice": timed(
        lambda t, u, i: lax.dynamic_update_slice(t, u, (i, 0)), of(2000, WIDTH), UPDATES, np.int32(3)
    ),
    "segment sum": timed(lambda x, i: jax.ops.segment_sum(x, i, 8), UPDATES, SAME),
    "histogram": timed(lambda i: jnp.zeros(64).at[i].add(1), np.arange(4096, dtype=np.int32) % 64),
    "gradient of take": timed(jax.grad(lambda t, i: (t[i] ** 2).sum()), of(2000, WIDTH), SOME),
    # sorts
    "sort": timed(lambda x: jnp.sort(x), np.arange(4096, dtype=np.float32)),
    "argsort": timed(lambda x: jnp.argsort(x), of(4096)),
    "top k": timed(lambda x: lax.top_k(x, 5), of(4096)),
    # loops
    "known loop": exact(5 * PRODUCT, lambda x: lax.fori_loop(0, 5, lambda _, v: v @ v, x), eye()),
    "no round": most(SMALL, None, repeated, eye(), np.int32(0)),
    "three rounds": most(3 * PRODUCT + SMALL, None, repeated, eye(), np.int32(3)),
    "while without a round": most(SMALL, None, until, eye(), np.int32(0)),
    "while with two": most(2 * PRODUCT + SMALL, None, until, eye(), np.int32(2)),
    "nested without an inner round": most(SMALL, None, nested, eye(), np.int32(3), np.int32(0)),
    "scan": timed(scanned, of(64, 64), of(16, 64, 64)),
    "scan over a table": timed(lambda t: lax.scan(lambda c, r: (c + r, None), t[0], t)[0], of(64, WIDTH)),
    # conditionals
    "the cheap branch": most(SQUARE + SMALL, None, either, np.bool_(False), eye()),
    "the dear branch": most(PRODUCT + SMALL, None, either, np.bool_(True), eye()),
    "a cheap one of three": most(SQUARE + SMALL, None, one_of, np.int32(1), eye()),
    "branches in no round": most(SMALL, None, looped_branch, np.int32(0), np.bool_(True), eye()),
    # complex numbers and transforms
    "complex product": exact(4 * PRODUCT, jnp.matmul, COMPLEX, COMPLEX),
    "complex multiply-add": exact(8 * SQUARE, lambda x, y: x * y + x, COMPLEX, COMPLEX),
    "fft": Case(jnp.fft.fft, (COMPLEX,), 5 * N * math.log2(N) * N),
    "fft in two dimensions": Case(jnp.fft.fft2, (COMPLEX,), 5 * SQUARE * math.log2(SQUARE)),
    # libraries
    "cholesky": timed(jnp.linalg.cholesky, eye()),
    "solve": timed(jnp.linalg.solve, eye(), of(N)),
    "eigenvalues": timed(jnp.linalg.eigvalsh, eye()),
}


def test_there_are_sixty_programs() -> None:
    assert len(CASES) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_bound_is_beaten(name: str) -> None:
    case = CASES[name]
    compiled = inspector.lower(case.fun, *case.args).compile(engine=InlineEngine())
    cost = compiled.cost
    if isinstance(cost, Cost):
        if case.flops is not None and isinstance(cost.flops, AtLeast):
            assert cost.flops <= case.flops
        if case.is_exact:
            assert type(cost.flops) is float
            assert cost.flops == pytest.approx(case.flops, rel=0.005, abs=8)
        if isinstance(cost.flops, About):
            assert cost.flops == pytest.approx(case.flops, rel=0.005)
        if case.touched is not None:
            assert cost.bytes_accessed == pytest.approx(case.touched, rel=0.05, abs=256)
    roof, course = compiled.roofline(ROOFS), compiled.schedule(ROOFS)
    assert isinstance(course, Schedule)
    assert "at least" not in repr(roof)
    assert "at least" not in repr(course)
    if not isinstance(roof.total.least_s, Unavailable):
        assert float(roof.total.least_s) <= measured(case)
    assert course.seconds <= measured(case)


def measured(case: Case) -> float:
    """The seconds of the fastest of some runs."""
    run = jax.jit(case.fun)
    args = jax.device_put(case.args)
    jax.block_until_ready(run(*args))
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        jax.block_until_ready(run(*args))
        seconds.append(time.perf_counter() - started)
    return min(seconds)
