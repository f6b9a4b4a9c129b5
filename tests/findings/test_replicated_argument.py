"""Arguments that are whole on every device, by mistake and on purpose."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.findings.edits import KeepResult, SplitParameter, TakeParts
from inspector.stages.findings import Finding, Findings
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import peak
from tests.findings.sharded import DM, D, Program, array, mesh_of

SHAPES = {"v": (128, 64), "w": (64, 128)}
TWO_AXES = {"v": ("m",), "w": (None, "m")}


def weights(*spec: Any, mesh: Any = D) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: array(shape, *spec, mesh=mesh) for name, shape in SHAPES.items()}


def gradients(params: Any, x: jax.Array) -> Any:
    return jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"]) ** 2))(params)


def adam(state: Any, x: jax.Array) -> Any:
    g = gradients(state["p"], x)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], g)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], g)
    p = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["p"], m, v)
    return {"p": p, "m": m, "v": v}


def momentum(params: Any, trace: Any, x: jax.Array) -> Any:
    trace = jax.tree.map(lambda m, g: 0.9 * m + g, trace, gradients(params, x))
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, trace), {"trace": trace}


def clipped(params: Any, trace: Any, x: jax.Array) -> Any:
    trace = jax.tree.map(lambda m, g: 0.9 * m + g, trace, gradients(params, x))
    scale = 1 / jnp.maximum(1.0, jnp.sqrt(sum(jnp.sum(m * m) for m in trace.values())))
    return jax.tree.map(lambda p, m: p - 0.1 * scale * m, params, trace), trace


def embedded(params: Any, tokens: jax.Array) -> jax.Array:
    x = params["embedding"][tokens]
    for w in params["layers"]:
        x = jnp.tanh(x @ w)
    return x @ params["embedding"].T


X = array((64, 64), "d")
STATE = {"p": weights(), "m": weights(), "v": weights()}
BY_MODEL = {name: array(shape, *TWO_AXES[name], mesh=DM) for name, shape in SHAPES.items()}
TOKENS = array((64, 8), "d", dtype=jnp.int32)


def found(program: Program, target: str = "cpu:8") -> list[Finding]:
    findings: Findings = (
        inspector.lower(program[0], *program[1]).compile(target=target).findings(kinds=["replicated-argument"])
    )
    assert not findings.unknown
    return [*findings]


@pytest.mark.parametrize(
    ("program", "names", "axis", "saved"),
    [
        ((adam, (STATE, X)), "`state['m']['v']`, `state['m']['w']`, `state['v']['v']`, ... 1 more", "8 devices of axis d", 2 * 7 / 8 * 131072),
        ((jax.jit(momentum), (weights(), weights(), X)), "`trace['v']`, `trace['w']`", "8 devices of axis d", 2 * 7 / 8 * 65536),
        ((clipped, (weights(), weights(), X)), "`trace['v']`, `trace['w']`", "8 devices of axis d", 2 * 7 / 8 * 65536),
        (
            (momentum, (BY_MODEL, BY_MODEL, array((64, 64), "d", mesh=DM))),
            "`trace['v']`, `trace['w']`", "4 devices of axis d", 2 * 3 / 4 * 32768,
        ),
    ],
)  # fmt: skip
def test_state_that_is_whole(program: Program, names: str, axis: str, saved: float) -> None:
    (finding,) = found(program)
    assert finding.title.startswith(f"{names} (")
    assert f"whole on each of the {axis}, although the program only combines them" in finding.title
    assert finding.gain_bytes == saved  # of the old and of the new state
    assert "(ZeRO)" in finding.caution


def test_a_large_array_beside_split_ones() -> None:
    layers = [array((64, 64), None, "d")] * 2
    (finding,) = found((embedded, ({"embedding": array((1024, 64)), "layers": layers}, TOKENS)))
    assert finding.title == (
        "`params['embedding']` (256 KiB per device) is whole on each of the 8 devices of axis d, although other arrays of"
        " `params` are split."
    )
    assert "\n    \"['embedding']\": P('d'),\n}" in finding.remedy
    assert finding.edits == (SplitParameter(0, 0, "d"),)


@pytest.mark.parametrize(
    "program",
    [
        (lambda params, x: jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients(params, x)), (weights(), X)),
        (adam, ({"p": weights(), "m": weights("d"), "v": weights("d")}, X)),
        (gradients, (BY_MODEL, array((64, 64), "d", mesh=DM))),  # data and tensor parallel
        (embedded, ({"embedding": array((1024, 64), "d"), "layers": [array((64, 64))] * 2}, TOKENS)),  # small
        (lambda x, y: (x * 2 + y).sum(), (array((63, 63)), array((64, 63, 63), "d"))),  # no dimension can be split
        (momentum, (weights(), weights(), array((64, 64)))),  # nothing is split
        (lambda *arrays: arrays[0] @ arrays[1], (array((64, 64), "d"), array((64, 64)))),  # independent arguments
        (embedded, ({"embedding": array((1024, 64)), "layers": [array((64, 64))] * 2}, TOKENS)),  # data parallel
    ],
)
def test_silent(program: Program) -> None:
    assert not found(program)


THREE = mesh_of((2, 2, 2), ("x", "y", "z"))


def attended(q: jax.Array, k: jax.Array, v: jax.Array, spec: P) -> jax.Array:
    scores = jax.nn.softmax(jnp.einsum("bhd,bkhd->bhk", jax.lax.with_sharding_constraint(q, spec), k))
    return jnp.einsum("bhk,bkhd->bhd", scores, v)


def caches(mesh: Any, *spec: Any, layers: int = 0) -> dict[str, jax.ShapeDtypeStruct]:
    shape, axes = ((layers, 8, 64, 8, 16), (None, *spec)) if layers else ((8, 64, 8, 16), spec)
    return {name: array(shape, *axes, mesh=mesh) for name in ("k", "v")}


def decoded(cache: Any, q: jax.Array) -> jax.Array:
    return attended(q, cache["k"], cache["v"], NamedSharding(DM, P("d", "m")))


def decoded_in_layers(cache: Any, q: jax.Array) -> jax.Array:
    def layer(q: jax.Array, kv: Any) -> tuple[jax.Array, None]:
        return q + attended(q, kv["k"], kv["v"], NamedSharding(DM, P("d", "m"))), None

    return jax.lax.scan(layer, q, cache)[0]


def decoded_on_three_axes(cache: Any, q: jax.Array) -> jax.Array:
    return attended(q, cache["k"], cache["v"], NamedSharding(THREE, P("x", "z")))


def decoded_on_two_axes(cache: Any, q: jax.Array) -> jax.Array:
    return attended(q, cache["k"], cache["v"], NamedSharding(THREE, P("x", ("z", "y"))))


def decoded_and_measured(cache: Any, q: jax.Array) -> Any:
    """The norm over the heads needs all of them on each device."""
    norm = jax.lax.rsqrt(jnp.sum(cache["k"] ** 2 + cache["v"] ** 2, (2, 3), keepdims=True))
    return decoded(cache, q), jax.lax.with_sharding_constraint(norm, NamedSharding(DM, P("d")))


@pytest.mark.parametrize("target", ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu)])
@pytest.mark.parametrize(
    ("fun", "cache", "q", "axes", "spec"),
    [
        (decoded, caches(DM, "d"), array((8, 8, 16), "d", mesh=DM), ("m",), "P('d', None, 'm')"),
        (decoded_in_layers, caches(DM, "d", layers=4), array((8, 8, 16), "d", mesh=DM), ("m",), "P(None, 'd', None, 'm')"),
        (decoded_on_three_axes, caches(THREE, "x"), array((8, 8, 16), "x", mesh=THREE), ("z",), "P('x', None, 'z')"),
        (decoded_on_two_axes, caches(THREE, "x"), array((8, 8, 16), "x", mesh=THREE), ("z", "y"), "P('x', None, ('z', 'y'))"),
    ],
)  # fmt: skip
def test_each_device_reads_a_part(fun: Any, cache: Any, q: Any, axes: tuple[str, ...], spec: str, target: str) -> None:
    before = inspector.lower(fun, cache, q).compile(target=target)
    (finding,) = before.findings(kinds=["replicated-argument"])
    assert finding.title.startswith("`cache['k']`, `cache['v']` (")
    assert finding.title.endswith("although each device reads only a part of them.")
    assert finding.remedy.startswith(f"specs = {{\n    \"['k']\": {spec},\n    \"['v']\": {spec},\n}}\n")
    dimension = len(cache["k"].shape) - 2
    assert finding.edits == tuple(SplitParameter(n, dimension, axis) for n in (0, 1) for axis in axes)
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert abs(proof.gain_bytes - finding.gain_bytes) <= 0.1 * finding.gain_bytes


def shared_expert(p: Any, x: jax.Array) -> jax.Array:
    """The batch is split over the axis of the experts, so that the shared expert is data parallel."""
    routed = jax.lax.all_to_all(x.reshape(8, -1, 64), "d", 0, 0, tiled=True)
    back = jax.lax.all_to_all(jnp.tanh(routed @ p["expert"][0]), "d", 0, 0, tiled=True).reshape(x.shape)
    return back + jnp.tanh(x @ p["shared"])


def own_rows(x: jax.Array, axis: str, width: int = 0) -> jax.Array:
    """The rows of a device, and further ones behind them."""
    count = x.shape[0] // jax.lax.axis_size(axis)
    return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(axis) * count, count + width)


@jax.shard_map(mesh=D, in_specs=P(), out_specs=P("d"))
def all_pairs(x: jax.Array) -> jax.Array:
    """Each device has its own targets, and all rows as sources."""
    return jax.nn.softmax(own_rows(x, "d") @ x.T) @ x


@jax.shard_map(mesh=D, in_specs=(P(), P("d")), out_specs=P("d"), check_vma=False)
def every_turn(x: jax.Array, y: jax.Array) -> jax.Array:
    """In each turn a device takes the next rows."""
    rank = jax.lax.axis_index("d")
    return jax.lax.fori_loop(
        0, 8, lambda i, y: jnp.tanh(y + jax.lax.dynamic_slice_in_dim(x, (rank + i) % 8 * 32, 32)), y
    )


@jax.shard_map(mesh=D, in_specs=P(), out_specs=P("d"))
def wider_windows(x: jax.Array) -> jax.Array:
    """The windows of two devices overlap."""
    window = own_rows(x, "d", 8)
    return jnp.tanh(window[:32] - window[8:])


SPECS = {"expert": P("d"), "shared": P()}
EXPERTS = {"expert": array((8, 64, 64), "d"), "shared": array((64, 64))}


@pytest.mark.parametrize(
    "program",
    [
        (decoded_and_measured, (caches(DM, "d"), array((8, 8, 16), "d", mesh=DM))),
        (all_pairs, (array((256, 64)),)),
        (every_turn, (array((256, 64)), array((256, 64), "d"))),
        (wider_windows, (array((256, 64)),)),
        (jax.shard_map(shared_expert, mesh=D, in_specs=(SPECS, P("d")), out_specs=P("d")), (EXPERTS, array((512, 64), "d"))),
        (
            lambda p, x: (jnp.einsum("ecd,edf->ecf", x, p["expert"]), x @ p["shared"]),
            (EXPERTS, array((8, 64, 64), "d")),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu)])
def test_silent_where_devices_need_it_whole(program: Program, target: str) -> None:
    assert not found(program, target)


SPELLINGS: dict[str, Any] = {
    "slice": lambda w: own_rows(w, "d"),
    "index": lambda w: jax.lax.dynamic_index_in_dim(w.reshape(8, -1, 64), jax.lax.axis_index("d"), keepdims=False),
    "brackets": lambda w: w.reshape(8, -1, 64)[jax.lax.axis_index("d")],
    "wider type": lambda w: jax.lax.dynamic_slice(w.astype(jnp.bfloat16), (jax.lax.axis_index("d") * 256, 0), (256, 64)).astype(w.dtype),
}  # fmt: skip


def centers(spelling: str, is_split: bool = False) -> Program:
    """Each device sums its own points."""

    def summed(points: jax.Array, c: jax.Array) -> jax.Array:
        own = points if is_split else SPELLINGS[spelling](points)
        return jax.lax.psum(jax.nn.softmax(own @ c.T).T @ own, "d")

    spec = P("d") if is_split else P()
    return jax.shard_map(summed, mesh=D, in_specs=(spec, P()), out_specs=P()), (
        array((2048, 64), *spec),
        array((16, 64)),
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_part_that_is_sliced_by_hand(spelling: str) -> None:
    """By the device's position along an axis: the proof passes the part to the body of the `shard_map`."""
    (finding,) = found(centers(spelling))
    assert finding.title.endswith("although each device reads only a part of it and slices it by hand.")
    assert "no slice at axis_index('d')" in finding.remedy
    assert "P('d')" in finding.remedy
    proof = finding.prove(run=True)
    assert proof.verdict == "proven", proof
    assert proof.values == "equal results" or "agree" in str(proof.values)
    if spelling == "slice":
        before, after = (
            inspector.lower(f, *a).compile(target="cpu:8") for f, a in (centers(spelling), centers("", True))
        )
        assert proof.gain_bytes == before.memory.peak_bytes - after.memory.peak_bytes
        assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.1)


def experts(w: Any, x: jax.Array) -> jax.Array:
    """Over one axis of two, in a function of the body, from a tree."""

    @jax.jit
    def down(w: jax.Array) -> jax.Array:
        return own_rows(w, "d")

    @jax.shard_map(mesh=DM, in_specs=({"up": P("d"), "down": P()}, P("d", "m")), out_specs=P("d", "m"))
    def layer(w: Any, x: jax.Array) -> jax.Array:
        return jnp.einsum("etf,efd->etd", jnp.tanh(jnp.einsum("etd,edf->etf", x, w["up"])), down(w["down"]))

    return layer(w, x)


@pytest.mark.parametrize("target", ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu)])
def test_weights_that_are_sliced_by_hand(target: str) -> None:
    w = {"up": array((8, 64, 128), "d", mesh=DM), "down": array((8, 128, 64), mesh=DM)}
    (finding,) = found((experts, (w, array((8, 64, 64), "d", "m", mesh=DM))), target)
    assert "\n    \"['down']\": P('d'),\n" in finding.remedy
    assert finding.edits == (TakeParts((0,), (0,), (("d",),)),)
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.1)


def by_hand(state: Any) -> inspector.Compiled:
    """With results that are split as the arguments."""
    shardings = jax.tree.map(lambda each: each.sharding, state)
    step = jax.jit(adam, donate_argnums=0, out_shardings=shardings)
    return inspector.lower(step, state, X).compile(target="cpu:8")


def test_the_proof_equals_the_compile_by_hand() -> None:
    split = {"v": array(SHAPES["v"], "d"), "w": array(SHAPES["w"], None, "d")}
    before = inspector.lower(adam, STATE, X, donate_argnums=0).compile(target="cpu:8")
    after = by_hand({"p": weights(), "m": split, "v": split})
    (finding,) = before.findings(kinds=["replicated-argument"])
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert (
        sum(isinstance(each, KeepResult) for each in finding.edits or ()) == 2
    )  # the parameters stay whole, and donated
    assert finding.gain_bytes >= proof.gain_bytes == before.memory.peak_bytes - after.memory.peak_bytes > 0


def test_the_remedy_can_be_pasted() -> None:
    """Into a program whose state has tuples: all arrays of the state are split, and the others are as they were."""
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("d"))
    params = [jax.device_put(jnp.ones((64, 64)), split) for _ in range(8)]
    state = {
        "p": tuple(params),
        "m": tuple(jax.device_put(jnp.ones((64, 64)), whole) for _ in range(8)),
        "s": jax.device_put(jnp.ones(64), whole),
    }

    def step(state: Any) -> Any:
        m = tuple(0.9 * m + 0.1 * p for m, p in zip(state["m"], state["p"], strict=True))
        return {
            "p": tuple(p - 0.1 * (m @ m) for p, m in zip(state["p"], m, strict=True)),
            "m": m,
            "s": jnp.cumsum(state["s"]),
        }

    (finding, *_) = found((step, (state,)))
    assert "more array" not in finding.remedy
    names = {"jax": jax, "mesh": mesh, "NamedSharding": NamedSharding, "P": P, "state": state}
    exec(finding.remedy, names)
    changed = names["state"]
    assert isinstance(changed, dict)
    assert [each.sharding.spec for each in changed["m"]] == [P("d")] * 8
    assert changed["s"] is state["s"]


def adam_in_lists(p: Any, m: Any, v: Any, x: jax.Array) -> Any:
    """All results have the same names below them."""
    state = adam({name: dict(zip("vw", leaves, strict=True)) for name, leaves in (("p", p), ("m", m), ("v", v))}, x)
    return tuple([state[name]["v"], state[name]["w"]] for name in "pmv")


def test_new_parameters_of_the_same_names_stay_whole() -> None:
    leaves = [array((1024, 1024)), array((1024, 1024))]
    args = leaves, leaves, leaves, array((64, 1024), "d")
    (finding,) = (
        inspector.lower(adam_in_lists, *args, donate_argnums=(0, 1, 2))
        .compile(target="cpu:8")
        .findings(kinds=["replicated-argument"])
    )
    assert finding.title.startswith("`m[0]`, `m[1]`, `v[0]`, ... 1 more")
    assert "\nm = jax.tree_util" in finding.remedy
    assert "\nv = jax.tree_util" in finding.remedy
    kept = [each for each in finding.edits or () if isinstance(each, KeepResult)]
    assert [each.result for each in kept] == [0, 1]
    assert finding.gain_bytes == pytest.approx(finding.prove(run=False).gain_bytes, rel=0.1)


@pytest.mark.parametrize(
    "target",
    [
        "cpu:8",
        pytest.param("gpu:h100:8", marks=needs_gpu),
        pytest.param("tpu:v5e:2x4", marks=[needs_tpu, pytest.mark.slow]),  # copies all of it to VMEM
    ],
)
def test_the_gain_has_the_copy_of_a_part(target: str) -> None:
    def routed(w: Any, x: jax.Array) -> jax.Array:
        h = jax.nn.silu(jnp.einsum("ecd,edf->ecf", x, w["in"]))
        return jnp.einsum("ecf,efd->ecd", h, w["out"])

    w = {"in": array((8, 256, 1024), "d"), "out": array((8, 1024, 256))}
    program = inspector.lower(routed, w, array((8, 256, 256), "d")).compile(target=target)
    roofs = peak("gpu:h100:8") if target == "cpu:8" else None
    (finding,) = program.findings(roofs, kinds=["replicated-argument"])
    proof = finding.prove(run=False)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)
    assert finding.share > 0.05
    assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.1)


def averaged(params: Any, average: Any) -> Any:
    """The new average is split as the parameters, without a request."""
    return jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, average, params)


@pytest.mark.parametrize("donated", [(), (1,)])
def test_a_new_version_that_is_split_is_not_counted(donated: tuple[int, ...]) -> None:
    average = {"v": array(SHAPES["v"]), "w": array((1024, 128))}
    params = {"v": array(SHAPES["v"], "d"), "w": array((1024, 128), "d")}
    program = inspector.lower(averaged, params, average, donate_argnums=donated).compile(target="cpu:8")
    (finding,) = program.findings(kinds=["replicated-argument"])
    proof = finding.prove(run=False)
    assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.1)
    size = 4 * 128 * (64 + 1024)
    assert finding.gain_bytes == size * (7 / 8 + len(donated) / 8)  # a donated part has room for the new version


def test_the_gain_without_donation_is_an_upper_bound() -> None:
    (finding,) = found((momentum, (weights(), weights(), X)))
    assert finding.gain_bytes / 2 < finding.prove(run=False).gain_bytes <= finding.gain_bytes


OPPOSITE = {"v": (None, "d"), "w": ("d",)}  # of the larger dimension


def constrained(state: Any, x: jax.Array, shardings: Any) -> Any:
    """The new state is constrained inside the step, by a function of its own."""

    @jax.jit
    def kept(state: Any) -> Any:
        return jax.tree.map(jax.lax.with_sharding_constraint, state, shardings)

    return kept(adam(state, x))


def states(is_split: bool) -> Any:
    split = {name: array(shape, *OPPOSITE[name]) for name, shape in SHAPES.items()}
    moments = split if is_split else weights()
    return {"p": split, "m": moments, "v": moments}


def step_of(form: str, is_split: bool) -> inspector.Compiled:
    state = states(is_split)
    shardings = jax.tree.map(lambda each: each.sharding, state)
    step: Any = jax.jit(lambda state, x: constrained(state, x, shardings), donate_argnums=0)
    if form == "out_shardings":
        step = jax.jit(adam, donate_argnums=0, out_shardings=shardings)
    return inspector.lower(step, state, X).compile(target="cpu:8")


def test_state_is_split_like_its_parameter() -> None:
    (finding,) = found((adam, (states(is_split=False), X)))
    assert "\n    \"['m']['v']\": P(None, 'd'),\n    \"['m']['w']\": P('d'),\n" in finding.remedy


@pytest.mark.parametrize("form", ["out_shardings", "constraints"])
def test_the_proof_splits_the_new_versions_too(form: str) -> None:
    """Also those with a requested sharding."""
    before, after = step_of(form, is_split=False), step_of(form, is_split=True)
    (finding,) = before.findings(kinds=["replicated-argument"])
    assert "out_shardings and sharding constraints" in finding.remedy
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert proof.gain_bytes == before.memory.peak_bytes - after.memory.peak_bytes > 0
    assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.1)


def restored(is_split: bool) -> Program:
    """An Adam step whose second moment was restored without a sharding, and is kept so."""
    specs = {"up": P("d", "m"), "down": P("m", "d")}

    def constrained(tree: Any, is_split: bool = True) -> Any:
        return {
            name: jax.lax.with_sharding_constraint(x, NamedSharding(DM, specs[name] if is_split else P()))
            for name, x in tree.items()
        }

    def step(p: Any, mu: Any, nu: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            h = jax.lax.with_sharding_constraint(jax.nn.gelu(x @ p["up"]), NamedSharding(DM, P("d", "m")))
            return jnp.mean(jnp.square(h @ p["down"] - x))

        g = constrained(jax.grad(loss)(p))
        mu = constrained(jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, g))
        nu = constrained(jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, nu, g), is_split)
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), p, mu, nu)
        return constrained(p), mu, nu

    p = {name: array((1024, 1024), *spec, mesh=DM) for name, spec in specs.items()}
    nu = p if is_split else {name: array((1024, 1024), mesh=DM) for name in p}
    return jax.jit(step, donate_argnums=(0, 1, 2)), (p, p, nu, array((256, 1024), "d", mesh=DM))


@needs_gpu
def test_state_is_split_like_its_parameters_over_all_their_axes() -> None:
    (finding,) = found(restored(is_split=False), "gpu:h100:8")
    assert "are whole on each of the 8 devices of axes d+m" in finding.title
    assert "\"['down']\": P('m', 'd')," in finding.remedy
    assert "\"['up']\": P('d', 'm')," in finding.remedy
    merges = jax.version.__version_info__[:2] < (0, 11)  # XLA of JAX 0.12 uses what it gathers for products too
    assert (finding.share > 0.1) == merges  # the kernels that compute it whole, and what is gathered for them
    before, after = (
        inspector.lower(fun, *args).compile(target="gpu:h100:8")
        for fun, args in (restored(is_split=False), restored(is_split=True))
    )
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_bytes == before.memory.peak_bytes - after.memory.peak_bytes
    assert proof.gain_s == pytest.approx(before.roofline().total.least_s - after.roofline().total.least_s, rel=0.01)
    assert finding.gain_bytes <= proof.gain_bytes
    assert (0.2 if merges else 0.0) * proof.gain_s <= finding.gain_s < 1.1 * proof.gain_s


def distilled(student: Any, teacher: Any, x: jax.Array, clean: jax.Array) -> Any:
    def network(params: Any, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ params["w"]) @ params["v"]

    target = network(teacher, clean).mean(0)
    return jax.grad(lambda student: jnp.mean((network(student, x).mean(0) - target) ** 2))(student)


PARTS = {"w": array((64, 128), None, "m", mesh=DM), "v": array((128, 64), "m", mesh=DM)}
WHOLE = {"w": array((64, 128), mesh=DM), "v": array((128, 64), mesh=DM)}
BATCH = array((64, 64), "d", mesh=DM)


@pytest.mark.parametrize(
    "target", ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu), pytest.param("tpu:v5e:2x4", marks=needs_tpu)]
)
def test_a_teacher_beside_its_split_student(target: str) -> None:
    """GPUs join the products of both into one kernel, whose results differ between the devices."""
    (finding,) = found((distilled, (PARTS, WHOLE, BATCH, BATCH)), target)
    assert finding.title == (
        "`teacher['v']`, `teacher['w']` (64 KiB per device) are whole on each of the 2 devices of axis m, although the same arrays of"
        " `student` are split."
    )
    assert finding.gain_bytes == 32768
    assert finding.edits == (SplitParameter(2, 0, "m"), SplitParameter(3, 1, "m"))
    assert target != "cpu:8" or finding.prove(run=False).verdict == "proven"


def test_a_teacher_that_is_split() -> None:
    assert not found((distilled, (PARTS, PARTS, BATCH, BATCH)))


def test_a_teacher_with_inputs_of_its_own() -> None:
    """Each device computes the targets of its own inputs."""
    clean = array((64, 64), ("d", "m"), mesh=DM)
    assert not found((distilled, (PARTS, WHOLE, BATCH, clean)))


def test_state_that_enters_a_shard_map_whole() -> None:
    """Its body gathers an argument that is split: the specs and the gradients have to change too."""

    def local(params: Any, trace: Any, x: jax.Array) -> Any:
        g = jax.tree.map(lambda g: jax.lax.pmean(g, "d"), gradients(params, x))
        trace = jax.tree.map(lambda m, g: 0.9 * m + g, trace, g)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, trace), trace

    step = jax.shard_map(local, mesh=D, in_specs=(P(), P(), P("d")), out_specs=P(), check_vma=False)
    assert not found((step, (weights(), weights(), X)))


def test_experts_are_split_like_those_of_the_array_beside_them() -> None:
    """The largest dimension of both is another one."""

    def experts(p: Any, x: Any) -> Any:
        h = jax.nn.relu(jnp.einsum("ebd,edf->ebf", x, p["up"]))
        return jnp.einsum("ebf,efd->ebd", h, p["down"])

    p = {"up": array((8, 128, 512), "d"), "down": array((8, 512, 128))}
    findings = (
        inspector.lower(experts, p, array((8, 64, 128), "d"))
        .compile(target="cpu:8")
        .findings(kinds=["replicated-argument"])
    )
    (finding,) = [*findings, *findings.folded]
    assert "`p['down']` (2 MiB per device)" in finding.title
    assert "P('d')" in finding.remedy


@needs_gpu
def test_the_gain_has_the_gathers_of_new_versions() -> None:
    """The parameters are split, so that XLA computes the new moments in parts, and gathers them."""

    def step(params: Any, moments: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: (jnp.tanh(x @ w["up"]) @ w["down"]).mean())(params)
        moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, moments), moments

    shapes = {"up": (1024, 4096), "down": (4096, 1024)}
    params, moments = ({name: array(shape, *spec) for name, shape in shapes.items()} for spec in (("d",), ()))
    fun = jax.jit(step, donate_argnums=(0, 1), out_shardings=jax.tree.map(lambda a: a.sharding, (params, moments)))
    lowered = inspector.lower(fun, params, moments, array((2048, 1024), "d"))
    (finding,) = lowered.compile(target="gpu:h100:8").findings(kinds=["replicated-argument"])
    assert finding.title.startswith("`moments['down']`, `moments['up']`")
    assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.2)
