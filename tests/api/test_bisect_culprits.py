"""Planted culprits, and reports from JAX's and XLA's public issues: each is found, with few compiles and a small reproduction."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import Unavailable
from inspector.stages.bisection.sides import changes_between
from tests.absent import needs_tpu

pytestmark = pytest.mark.slow

VERSION = tuple(map(int, jax.__version__.split(".")[:2]))

# Flags that change nothing in these programs.
FILLING: Mapping[str, Any] = {
    "xla_gpu_ftz": True, "xla_gpu_enable_fast_min_max": True, "xla_gpu_deterministic_ops": True,
    "xla_gpu_exclude_nondeterministic_ops": True, "xla_cpu_parallel_codegen_split_count": 4,
}  # fmt: skip
FAST = {"xla_cpu_enable_fast_math": True}
NO_NANS = {"xla_cpu_fast_math_honor_nans": False}
DISABLED = "xla_disable_hlo_passes"
# The names of other passes, and of the one that is the culprit.
PASSES = "cse,tree_reduction_rewriter,algsimp,zero_sized_hlo_elimination,while-loop-simplifier,logistic-expander"

RNG = np.random.default_rng(0)
W = (RNG.normal(size=(8, 8, 8)) / 3).astype(np.float32)
X = RNG.normal(size=(16, 8)).astype(np.float32)


def deep(mark: Callable[[jax.Array], jax.Array]) -> Callable[..., jax.Array]:
    """Returns a program of eight layers with a mark after the fourth."""

    def layers(w: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(8):
            x = jnp.tanh(x @ w[index] + 0.1) * jnp.cos(x)
            x = mark(x) if index == 3 else x
        return x.sum()

    return layers


def nan_guard(h: jax.Array) -> jax.Array:
    logs = jnp.log(h)
    return jnp.where(jnp.isnan(logs), 0.0, logs)


def round_to_eighths(h: jax.Array) -> jax.Array:
    return h + ((h * 100 + 1e8) - 1e8) / 100


def overflow_check(h: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(jnp.sqrt(jnp.abs(jnp.square(h * 1e25)))), h, -h)


def products(x: jax.Array) -> jax.Array:
    return functools.reduce(operator.mul, [np.float32(c) for c in (np.e, np.pi, 2.0) * 3], x)


def flax_loss() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A Flax module whose activations guard against NaN."""
    nn = pytest.importorskip("flax.linen")

    class Mlp(nn.Module):  # type: ignore[misc, name-defined]
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: jax.Array) -> jax.Array:
            for _ in range(6):
                x = nn.gelu(nn.LayerNorm()(nn.Dense(8)(x)))
                x = jnp.nan_to_num(jnp.sqrt(x))
            return x.sum()

    model = Mlp()
    variables = model.init(jax.random.key(0), X)
    return jax.value_and_grad(lambda variables, x: model.apply(variables, x)), (variables, X)


def optax_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """An update of Optax's Adam after `zero_nans`, whose check is what fast math breaks."""
    optax = pytest.importorskip("optax")
    optimizer = optax.chain(optax.zero_nans(), optax.adam(1e-2))
    params = {"w": W[0], "b": X[0]}
    state = optimizer.init(params)

    def step(params: Any, state: Any, x: jax.Array) -> Any:
        grads = jax.grad(lambda p: jnp.sum(jnp.sqrt(x @ p["w"] + p["b"])))(params)
        updates, _ = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates)

    return step, (params, state, X)


def equinox_net() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.MLP(
        8, 8, 16, 5, activation=lambda h: jnp.where(jnp.isnan(jnp.log(h)), 0.1 * h, h), key=jax.random.key(0)
    )
    arrays, static = eqx.partition(net, eqx.is_array)
    return lambda arrays, x: jax.vmap(eqx.combine(arrays, static))(x), (arrays, X)


def narrow(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Layers in bfloat16, whose intermediate values XLA keeps in float32 if it may."""
    for _ in range(3):
        x = jax.nn.gelu(x @ w)
    return jnp.sum(x.astype(jnp.float32)), jax.nn.softmax(x)


def heads(w: jax.Array, x: jax.Array) -> jax.Array:
    """Attention, whose transposed and reshaped results XLA's older CPU emitters copy to wrong places if nothing is fused."""
    q = k = v = x.reshape(4, 64, 4, 32)
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 6)
    return jnp.tanh(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ w)


@dataclasses.dataclass(frozen=True)
class Planted:
    """A program with a culprit."""

    fun: Callable[..., Any] | Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    args: tuple[Any, ...] | None  # None for a function that returns the function and its arguments
    good: Any
    bad: Any
    culprits: frozenset[str]
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    compiler_pass: str = ""
    target: str = "cpu"
    size: int = 0  # operations of the reproduction, at most; 0 for a tenth of the program
    is_fixed: bool = False  # whether the XLA of JAX 0.12 no longer makes the difference


NAN_PAIR = frozenset({*FAST, *NO_NANS})
EMITTERS = "xla_cpu_use_fusion_emitters"
ALGSIMP = frozenset({f"{DISABLED}: algsimp"})
BIG = np.full(4, np.finfo(np.float32).max, np.float32)
TENTH = (np.full(1, 0.1, np.float32),) * 2
BF16 = tuple(jax.ShapeDtypeStruct((rows, 512), jnp.bfloat16) for rows in (512, 256))

PLANTED = {
    "NaN guard, two flags": Planted(deep(nan_guard), (W, X), {}, {**FILLING, **FAST, **NO_NANS}, NAN_PAIR),
    "NaN guard, one flag": Planted(deep(nan_guard), (W, X), FAST, {**FILLING, **FAST, **NO_NANS}, frozenset(NO_NANS)),
    "disabled pass": Planted(
        deep(round_to_eighths), (W, X), {}, {**FILLING, DISABLED: PASSES}, ALGSIMP, compiler_pass="algsimp", is_fixed=True
    ),
    "enabled pass": Planted(
        deep(overflow_check), (W, X), {DISABLED: PASSES}, {**FILLING}, ALGSIMP, compiler_pass="algsimp", is_fixed=True
    ),
    "Flax": Planted(flax_loss, None, {}, {**FILLING, **FAST, **NO_NANS}, NAN_PAIR),
    "Optax": Planted(optax_step, None, FAST, {**FILLING, **FAST, **NO_NANS}, frozenset(NO_NANS)),
    "Equinox": Planted(equinox_net, None, {}, {**FILLING, **FAST, **NO_NANS}, NAN_PAIR),
    # https://github.com/jax-ml/jax/issues/37919: algsimp rewrites sqrt(abs(square(x))) to abs(x)
    "jax#37919": Planted(
        lambda x: jnp.sqrt(jnp.abs(jnp.square(x))), (BIG,), {DISABLED: PASSES}, FILLING, ALGSIMP, {}, "algsimp", size=3, is_fixed=True
    ),
    # https://github.com/jax-ml/jax/issues/38100: log2(exp2(x)) to x
    "jax#38100": Planted(
        lambda x: jnp.log2(jnp.exp2(x)), (np.float32([128, 13]),), {DISABLED: PASSES}, FILLING, ALGSIMP, {}, "algsimp", size=4, is_fixed=True
    ),
    # https://github.com/jax-ml/jax/issues/26147: only one of two products is contracted to a fused multiply-add
    "jax#26147": Planted(
        lambda a, b: a**2 - b**2, TENTH, {"xla_backend_optimization_level": 0}, FILLING,
        frozenset({"xla_backend_optimization_level"}), {"rtol": 0.0, "atol": 0.0}, size=2, is_fixed=True
    ),
    # https://github.com/jax-ml/jax/issues/276: isnan under fast math
    "jax#276": Planted(jnp.isnan, (np.float32([np.nan, 1]),), {}, {**FILLING, **FAST, **NO_NANS}, NAN_PAIR, size=1),
    # https://github.com/jax-ml/jax/issues/2071: products with constants are reassociated
    "jax#2071": Planted(
        products, (X,), {DISABLED: PASSES}, FILLING, ALGSIMP, {"rtol": 0.0, "atol": 0.0}, "algsimp", size=6, is_fixed=True
    ),
    "wrong copies": Planted(
        heads, (np.eye(128, dtype=np.float32), np.random.default_rng(0).normal(size=(4, 64, 128)).astype(np.float32)), {},
        {**FILLING, DISABLED: "cse,fusion,dce", EMITTERS: False}, frozenset({f"{DISABLED}: fusion", EMITTERS}), size=3,
    ),
    "instruction set": Planted(
        lambda x: jnp.exp(x) * jnp.sin(x), (X,), {}, {**FILLING, "xla_cpu_max_isa": "SSE4_2"}, frozenset({"xla_cpu_max_isa"}),
        {"rtol": 0.0, "atol": 0.0}, size=2,
    ),
    "memory of fusions": Planted(
        lambda x: jnp.sin(jnp.cos(jnp.exp(x) * 2) + 1).sum(axis=0), (X,), {}, {**FILLING, DISABLED: "cse,fusion,dce"},
        frozenset({f"{DISABLED}: fusion"}), {"by": "memory"}, "fusion", size=10,
    ),
    "crash of the compiler": Planted(
        lambda x: jax.random.normal(jax.random.key(0, impl="rbg"), (8,)) + jnp.sin(x), (X[0],), {},
        {**FILLING, "xla_disable_all_hlo_passes": True}, frozenset({"xla_disable_all_hlo_passes"}), {"by": "memory"}, size=4,
    ),
    "predicate": Planted(
        lambda x: jnp.sin(x) * 2 + x, (X,), {}, {**FILLING, DISABLED: "cse,fusion,dce"}, frozenset({f"{DISABLED}: fusion"}),
        {"by": lambda compiled: "wrapped_" in compiled.hlo}, "fusion", size=5,
    ),
    "predicate of a run": Planted(
        nan_guard, (X,), {}, {**FILLING, **FAST, **NO_NANS}, NAN_PAIR,
        {"by": lambda compiled, run: bool(np.isnan(run.outputs[0]).any())}, size=6,
    ),
    "compile time": Planted(
        lambda x: [(jnp.sin(x + n) * jnp.cos(x * n) + jnp.exp(jnp.tanh(x) * n)).sum(n % 2) for n in range(40)], (X,),
        {"xla_backend_optimization_level": 0}, {},
        frozenset({"xla_backend_optimization_level"}), {"by": "compile_time", "reproduce": False}, size=1000,
    ),
    "memory and dtypes on v5e": Planted(
        narrow, BF16, {}, {"xla_allow_excess_precision": False, "xla_gpu_ftz": True, "xla_cpu_enable_fast_math": True},
        frozenset({"xla_allow_excess_precision"}), {"by": "memory", "reproduce": False}, target="tpu:v5e:1x1", size=1000,
    ),
    "time on v5e": Planted(
        narrow, BF16, {}, {"xla_allow_excess_precision": False, "xla_gpu_ftz": True, "xla_cpu_enable_fast_math": True},
        frozenset({"xla_allow_excess_precision"}), {"by": "time", "reproduce": False}, target="tpu:v5e:1x1", size=1000,
    ),
}  # fmt: skip


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[needs_tpu] if "v5e" in name else []) for name in PLANTED])
def test_the_culprit_is_found(name: str) -> None:
    planted = PLANTED[name]
    if EMITTERS in planted.bad and VERSION >= (0, 12):
        pytest.skip(f"this jaxlib has no flag {EMITTERS}")
    fun, args = (planted.fun, planted.args) if planted.args is not None else planted.fun()
    lowered = inspector.lower(fun, *args, target=planted.target)
    found = inspector.bisect(
        lowered, planted.good, planted.bad, *args, target=planted.target, **{"trial_limit_s": 120.0, **planted.keywords}
    )
    if planted.is_fixed and VERSION >= (0, 12):
        assert found.verdict == "no difference", found
        return
    assert found.verdict == "found", found
    names = {f"{each.name}: {each.bad or each.good}" if each.is_entry else each.name for each in found.culprits}
    assert names == planted.culprits, found
    count = len(changes_between(found.good, found.bad))
    assert found.compiles("sides", "flags") <= 2 * math.log2(count) + 5, found.table()
    if planted.compiler_pass:
        compiler_pass = found.compiler_pass
        assert not isinstance(compiler_pass, Unavailable), found
        assert planted.compiler_pass in (compiler_pass.name, *compiler_pass.together_with)
    if not planted.keywords.get("reproduce", True):
        return
    reproduction = found.reproduction
    assert not isinstance(reproduction, Unavailable), found
    assert reproduction.operations <= (planted.size or reproduction.whole_operations / 10), found
