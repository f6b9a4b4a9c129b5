"""State that is returned updated and not donated, and programs in which an argument only has the shape of a result."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.findings.argument_names import donation_code
from inspector.compilation.program import Argument
from inspector.stages.findings import Findings
from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import CPU, GPU, TPU
from tests.findings.corpus.record import recorded
from tests.findings.examined import peak
from tests.findings.sharded import D, array, manual
from tests.modules import module_of

W = jax.ShapeDtypeStruct((256, 256), jnp.float32)
X = jax.ShapeDtypeStruct((32, 256), jnp.float32)
PARAMS = {"v": W, "w": W}


def loss(params: Any, x: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"]) ** 2)


def sgd(params: Any, x: jax.Array) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))


def momentum(state: Any, x: jax.Array) -> Any:
    m = jax.tree.map(lambda m, g: 0.9 * m + g, state["m"], jax.grad(loss)(state["params"], x))
    return {"params": jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], m), "m": m}, x.sum()


def scanned(w: jax.Array, xs: jax.Array) -> Any:
    def body(w: jax.Array, x: jax.Array) -> Any:
        return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), None

    return jax.lax.scan(body, w, xs)[0]


def cached(cache: jax.Array, k: jax.Array, i: jax.Array) -> Any:
    cache = jax.lax.dynamic_update_slice(cache, k, (i, 0))
    return {"out": (cache @ k[0]).sum(), "cache": cache}


def jitted_inside(params: Any, x: jax.Array) -> Any:
    return jax.jit(sgd)(params, x), 1.0


def found(fun: Any, *args: Any, target: str = "cpu", **keywords: Any) -> Findings:
    lowered = inspector.lower(fun, *args, target=target, **keywords)
    return lowered.compile(target=target).findings(kinds=["undonated"])


@pytest.mark.parametrize(
    ("fun", "args", "name", "size"),
    [  # the results of `sgd` and `momentum` have room for a gradient, and the hidden layer's is in the memory of a result
        (sgd, (PARAMS, X), "params", 256 * 256 * 4 - 32 * 256 * 4),
        (momentum, ({"params": PARAMS, "m": PARAMS}, X), "state", 3 * 256 * 256 * 4 - 2 * 32 * 256 * 4),
        (scanned, (W, jax.ShapeDtypeStruct((4, 32, 256), jnp.float32)), "w", 256 * 256 * 4),
        (cached, (W, jax.ShapeDtypeStruct((1, 256), jnp.float32), 3), "cache", 256 * 256 * 4),
        (jitted_inside, (PARAMS, X), "params", 256 * 256 * 4 - 32 * 256 * 4),
    ],
)
def test_updated_state(fun: Any, args: tuple[Any, ...], name: str, size: int) -> None:
    (finding,) = found(fun, *args)
    assert finding.title.startswith(f"`{name}` (")
    assert finding.remedy == f"jax.jit(fun, donate_argnames=('{name}',))"
    assert finding.gain_bytes == size


def test_state_with_out_shardings() -> None:
    params = {name: array((256, 256), "d") for name in PARAMS}
    shardings = jax.tree.map(lambda each: each.sharding, params)
    findings = found(jax.jit(sgd, out_shardings=shardings), params, array((32, 256), "d"), target="cpu:8")
    assert [finding.gain_bytes for finding in findings] == [256 * 256 * 4 // 8]
    split = array((256, 256), "d").sharding
    cache, k = array((256, 256), "d"), array((1, 256), dtype=jnp.float32)
    findings = found(jax.jit(cached, out_shardings={"out": None, "cache": split}), cache, k, 3, target="cpu:8")
    assert [finding.title.split("`")[1] for finding in findings] == ["cache"]
    whole = NamedSharding(D, P())  # each device would need another buffer
    step = jax.jit(sgd, out_shardings=dict.fromkeys(PARAMS, whole))
    assert not found(step, params, array((32, 256), "d"), target="cpu:8")


def test_state_in_a_shard_map() -> None:
    def local(params: Any, trace: Any, x: jax.Array) -> Any:
        gradients = jax.lax.pmean(jax.grad(loss)(params, x), "d")
        mine = jax.tree.map(lambda t: jax.lax.dynamic_slice_in_dim(t, 0, 32), gradients)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), jax.tree.map(lambda t, g: t + g, trace, mine)

    params, trace = ({name: array((256, 256), *spec) for name in PARAMS} for spec in ((), ("d",)))
    step = manual(local, (P(), P("d"), P("d")), (P(), P("d")))
    findings = found(step, params, trace, array((32, 256), "d"), target="cpu:8")
    assert {f.title.split("`")[1]: f.gain_bytes for f in [*findings, *findings.folded]} == {
        "trace": 2 * 256 * 256 * 4 // 8
    }  # the gradients need the memory of the new parameters, so that a donation of `params` saves nothing


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda params, x: jax.grad(loss)(params, x), (PARAMS, X)),  # gradients have the parameters' names and shapes
        (lambda x, y: x + y, (X, X)),
        (lambda x: jax.lax.fori_loop(0, 7, lambda _, c: (jnp.roll(c[0], 1), c[1] + c[0]), (x, x))[1], (X,)),  # a sum
        (lambda x, w: x + jnp.tanh(x @ w), (X, W)),  # a residual block: the caller may need x
        (lambda params, x: (params["w"] @ params["v"], x), (PARAMS, X)),
        (lambda w: w.T, (W,)),
        (
            lambda x, ws: jax.lax.scan(lambda x, w: (x + jnp.tanh(x @ w), None), x, ws)[0],
            (X, jax.ShapeDtypeStruct((4, 256, 256), jnp.float32)),
        ),
        (lambda params: jax.grad(lambda p: -sum(jnp.sum(x**2) for x in p.values()))(params), (PARAMS,)),  # of a prior
        (lambda params: jax.value_and_grad(lambda p: -(p["w"] ** 2 + jnp.cosh(p["v"])).sum())(params), (PARAMS,)),
    ],
)
def test_an_argument_of_the_shape_of_a_result_is_no_state(fun: Any, args: tuple[Any, ...]) -> None:
    assert not [*found(fun, *args), *found(fun, *args).folded]


def adam(params: Any, v: Any, m: Any, x: jax.Array) -> Any:
    g = jax.grad(loss)(params, x)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
    return jax.tree.map(lambda p, m, v: p - 0.1 * m / (jnp.sqrt(v) + 1e-8), params, m, v), m, v


def renamed(state: Any, x: Any) -> Any:
    grads = jax.grad(loss)(state["params"], x)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, state["m"], grads)
    return {"new_params": jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], m), "new_m": m}


def two_caches(k: jax.Array, v: jax.Array, row: jax.Array) -> Any:
    return k.at[0].set(row), v.at[1].set(row)


def variadic(*args: Any) -> Any:
    params, x = args
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))


def test_state_that_is_returned_under_other_names() -> None:
    (finding,) = found(renamed, {"params": PARAMS, "m": PARAMS}, X)
    assert finding.title.startswith("`state` (4 arrays, 1 MiB) is returned updated")


def test_the_remedy_names_variadic_arguments_by_number_and_keeps_donations() -> None:
    (finding,) = found(variadic, PARAMS, X)
    assert finding.title.startswith("`args[0]` (2 arrays, 512 KiB)")
    assert finding.remedy == "jax.jit(fun, donate_argnums=(0,))"
    jax.jit(variadic, donate_argnums=(0,)).lower(PARAMS, X)
    (finding,) = found(jax.jit(two_caches, donate_argnames=("k",)), W, W, jax.ShapeDtypeStruct((256,), jnp.float32))
    assert finding.remedy == "jax.jit(fun, donate_argnames=('k', 'v'))"


@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("gpu:h100", marks=needs_gpu), pytest.param("tpu:v5e:1x1", marks=needs_tpu)]
)
def test_the_copies_of_arrays_of_which_a_slice_changes(target: str) -> None:
    """XLA copies a cache to update a row of the copy: without the copy it takes almost no time."""
    cache, row = (jax.ShapeDtypeStruct((rows, 512), jnp.float32) for rows in (65536, 1))
    roofs = peak("gpu:h100") if target == "cpu" else None

    def write(cache: Any, row: Any, i: Any) -> Any:
        return jax.lax.dynamic_update_slice(cache, row, (i, 0))

    index = jax.ShapeDtypeStruct((), jnp.int32)
    before, after = (
        inspector.lower(write, cache, row, index, target=target, donate_argnums=numbers).compile(target=target)
        for numbers in ((), (0,))
    )
    (finding,) = before.findings(roofs, kinds=["undonated"])
    assert finding.title.endswith(
        "so the old and the new version are in memory at the same time, and XLA copies the argument in each execution."
    )
    by_hand = before.roofline(roofs).total.least_s - after.roofline(roofs).total.least_s
    assert finding.gain_s == pytest.approx(by_hand, rel=0.02)
    assert finding.prove(run=False).gain_s == pytest.approx(by_hand, rel=0.02)
    assert finding.share > 0.9


def later(target: Any, online: Any, x: jax.Array) -> Any:
    """The CPU compiler reads the old target after it has made the new one."""
    out = jnp.tanh(x @ target["w"]) @ target["v"]
    return jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, target, online), out.sum()


def partly_later(target: Any, online: Any, x: jax.Array) -> Any:
    new, out = later(target, online, x)
    return {**new, "count": target["count"] + 1}, out


def test_state_that_would_be_copied() -> None:
    """XLA copies a donated argument that it reads after its new version is written."""
    assert not [*(findings := found(later, PARAMS, PARAMS, X)), *findings.folded]
    donated = [inspector.lower(later, PARAMS, PARAMS, X, donate_argnums=d).compile(target="cpu") for d in ((), (0,))]
    assert donated[0].memory.peak_bytes <= donated[1].memory.peak_bytes
    state = {**PARAMS, "count": jax.ShapeDtypeStruct((512, 512), jnp.float32)}
    (finding,) = found(partly_later, state, state, X)
    proof = finding.prove()
    assert "reads 512 KiB of it after" in finding.caution
    assert proof.gain_bytes == finding.gain_bytes == 2 * (512 << 10)


def in_order(params: Any, m: Any, v: Any, x: jax.Array) -> Any:
    return adam(params, v, m, x)


def test_each_result_is_the_new_version_of_its_own_argument() -> None:
    """The new parameters are computed from the state too, which has their names."""
    titles = [finding.title for finding in found(in_order, PARAMS, PARAMS, PARAMS, X)]
    pairs = {title.split("`")[1]: title.partition("updated as ")[2].partition(" but")[0] for title in titles}
    assert pairs == {"params": "result[0]", "m": "result[1]", "v": "result[2]"}
    donated = found(in_order, PARAMS, PARAMS, PARAMS, X, donate_argnums=0)
    assert sorted(finding.title.split("`")[1] for finding in donated) == ["m", "v"]


def test_results_in_another_order_than_the_arguments() -> None:
    """JAX would reuse the old `v` for the new `m`, and XLA would copy it: that needs more memory than a donation of the others."""
    findings = found(adam, PARAMS, PARAMS, PARAMS, X)
    assert sorted(finding.title.split("`")[1] for finding in findings) == ["m", "params"]
    assert all("in the order of the arguments" in finding.caution for finding in findings)
    before, donated, every = (
        inspector.lower(adam, PARAMS, PARAMS, PARAMS, X, donate_argnums=numbers).compile(target="cpu").memory.peak_bytes
        for numbers in ((), (0, 2), (0, 1, 2))
    )
    assert donated < every < before
    for finding in findings:
        assert finding.prove(run=False).gain_bytes == pytest.approx((before - donated) / 2, rel=0.01)


def test_each_remedy_donates_all_arguments() -> None:
    """One call of `jit` has one list of donated arguments: the remedies of two findings must not contradict each other."""
    findings = found(in_order, PARAMS, PARAMS, PARAMS, X)
    assert {finding.remedy for finding in findings} == {"jax.jit(fun, donate_argnames=('params', 'm', 'v'))"}
    donated = found(in_order, PARAMS, PARAMS, PARAMS, X, donate_argnums=0)
    assert {finding.remedy for finding in donated} == {"jax.jit(fun, donate_argnames=('params', 'm', 'v'))"}


def test_donated_state_is_no_finding() -> None:
    assert not found(sgd, PARAMS, X, donate_argnums=0)
    partly = found(lambda a, b, x: (sgd(a, x), sgd(b, x)), PARAMS, PARAMS, X, donate_argnums=1)
    assert [finding.title.partition("`")[2].partition("`")[0] for finding in partly] == ["a"]


def test_small_state_is_folded_away() -> None:
    def step(count: jax.Array, w: jax.Array, x: jax.Array) -> Any:
        return {"count": count + 1}, jnp.tanh(x @ w).sum()

    findings = found(step, jax.ShapeDtypeStruct((), jnp.int32), W, X)
    assert not findings
    assert [finding.kind for finding in findings.folded] == ["undonated"]
    assert "1 with a gain below 1 %" in repr(findings)


def averaged(average: Any, weights: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ weights["in"])
    error = jnp.mean((hidden @ weights["out"] - y) ** 2)
    return {name: 0.99 * average[name] + 0.01 * weights[name] for name in weights}, error


@pytest.mark.parametrize("target", ["cpu", pytest.param("gpu:h100:8", marks=needs_gpu)])
def test_temporaries_in_the_memory_of_results_are_no_gain(target: str) -> None:
    """On the GPU, the hidden layer is in the memory of the new average until this is written."""
    weights = {
        "in": jax.ShapeDtypeStruct((512, 1024), jnp.float32),
        "out": jax.ShapeDtypeStruct((1024, 512), jnp.float32),
    }
    batch = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    (finding,) = found(averaged, weights, weights, batch, batch, target=target)
    donated, kept = (
        inspector.lower(averaged, weights, weights, batch, batch, target=target, donate_argnums=argnums).compile(
            target=target
        )
        for argnums in (0, ())
    )
    assert finding.gain_bytes == pytest.approx(kept.memory.peak_bytes - donated.memory.peak_bytes, rel=0.02)
    assert finding.gain == ("about 2 MiB" if target != "cpu" else "about 4 MiB")


@pytest.mark.parametrize(
    ("name", "target", "proven"),
    [
        ("adam_step_of_a_decoder", GPU, 7.59), ("target_network_of_q_learning", GPU, 0.633), ("insertion_into_a_replay_buffer", CPU, 27.8),
        ("decode_step_that_copies_its_cache", TPU, 32.3), ("target_network_of_q_learning", TPU, 4.91),
    ],
)  # fmt: skip
def test_the_gain_is_near_that_of_a_compile_with_the_donation(name: str, target: str, proven: float) -> None:
    findings = recorded(name, target).findings(kinds=["undonated"])
    assert sum(finding.gain_bytes for finding in findings) / 2**20 == pytest.approx(proven, rel=0.2)


def test_the_proof_equals_the_compile_by_hand() -> None:
    findings = found(momentum, {"params": PARAMS, "m": PARAMS}, X)
    assert findings[0].proof is None
    assert list(findings.table()["verdict"]) == ["not tried"]
    proof = findings[0].prove()
    donated, kept = (
        inspector.lower(momentum, {"params": PARAMS, "m": PARAMS}, X, donate_argnums=argnums).compile(target="cpu")
        for argnums in (0, ())
    )
    assert proof.verdict == "proven"
    assert proof.gain_bytes == kept.memory.peak_bytes - donated.memory.peak_bytes > 0
    assert proof.values == "equal results"
    assert findings.prove()[0].proof is proof
    assert str(findings.table()["verdict"][0]).startswith("proven: ")


@pytest.mark.parametrize(("path", "donate"), [("state.mu", "all-except-first"), ("model.w", "all")])
@pytest.mark.parametrize("name", ["dynamic_nodonate__rest___0_", "dynamic_donate__first___0_"])
def test_equinox_donates_all_arguments_or_all_except_the_first(path: str, donate: str, name: str) -> None:
    text = f"HloModule m\nENTRY e {{ ROOT {name} = f32[2]{{0}} parameter(0) }}"
    arguments = [Argument(each, (2,), "float32", None) for each in ("model.w", "model.b", "state.mu", "x")]
    assert (
        donation_code(arguments, [path], module_of(text).entry.parameters)
        == f'equinox.filter_jit(fun, donate="{donate}")'
    )
    assert donation_code(arguments, [path], ()).startswith("jax.jit(fun, donate_argnames=(")


@pytest.mark.libraries
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")  # of the batch
def test_the_remedy_of_an_equinox_step_can_be_written() -> None:
    eqx = pytest.importorskip("equinox")

    def step(model: Any, state: Any, x: jax.Array) -> Any:
        value, gradient = eqx.filter_value_and_grad(lambda model: jnp.mean(jax.vmap(model)(x) ** 2))(model)
        state = jax.tree.map(lambda s, g: 0.9 * s + g, state, gradient)
        return eqx.apply_updates(model, jax.tree.map(lambda s: -0.1 * s, state)), state, value

    model = eqx.nn.MLP(64, 64, 128, 2, key=jax.random.key(0))
    state = jax.tree.map(jnp.zeros_like, eqx.filter(model, eqx.is_inexact_array))
    x = jnp.ones((8, 64))
    remedies = {
        f.title.split("`")[1].partition(".")[0].partition("[")[0]: f.remedy
        for f in inspector.lower(eqx.filter_jit(step), model, state, x).compile().findings(kinds=["undonated"])
    }
    assert remedies == dict.fromkeys(("model", "state"), 'equinox.filter_jit(fun, donate="all")')  # of both findings
    donating = eqx.filter_jit(step, donate="all")
    assert not inspector.lower(donating, model, state, x).compile().findings(kinds=["undonated"])


def test_the_remedy_for_nnx() -> None:
    for finding in recorded("nnx_jit_of_a_training_step", "cpu").findings():
        assert finding.remedy == "nnx.jit(fun, donate_argnames=('model', 'optimizer'))"


def test_the_wrapper_of_a_library_is_known_although_the_partitioner_renames_parameters() -> None:
    def step(dynamic_nodonate: Any, x: Any) -> Any:  # as `equinox.filter_jit` calls its argument
        new = dynamic_nodonate - 0.1 * jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(dynamic_nodonate)
        return new, jnp.tanh(x @ new).sum()

    args = array((1024, 512), "d"), array((64, 1024))
    (finding,) = inspector.lower(step, *args).compile(target="cpu:8").findings(kinds=["undonated"])
    assert finding.remedy == 'equinox.filter_jit(fun, donate="all")'
