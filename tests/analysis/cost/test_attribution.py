"""The lines that a kernel's cost belongs to: the same in every view, and the user's own."""

from __future__ import annotations

import collections
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.cost.attribution import _moved
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.hlo.fusion_traffic import touched
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.stages.lowered import Lowered
from inspector.support.packages import is_library_file
from tests.absent import needs_gpu, needs_tpu
from tests.analysis.cost.test_line_costs import line_of

ROOFS = Peak("toy", {"f32": 1e9}, 1e9, Unavailable("no"), Unavailable("no"), Unavailable("no"), "this test")
TARGETS = [
    "cpu",
    pytest.param("gpu:h100:1", marks=needs_gpu),
    pytest.param("tpu:v5e:1x1", marks=needs_tpu),
]
NUMBERS = ("flops", "main_memory_bytes", "least_s")


def of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def dense(w: Any, x: Any) -> Any:
    h = jax.nn.gelu(x @ w)
    return jax.nn.softmax(h)


def norm(g: Any, b: Any, w: Any, x: Any) -> Any:
    y = x @ w
    m = y.mean(-1, keepdims=True)
    v = ((y - m) ** 2).mean(-1, keepdims=True)
    return (y - m) * jax.lax.rsqrt(v + 1e-5) * g + b


def embedding(table: Any, rows: Any) -> Any:
    found = table[rows]
    return found * 2.0 + 1.0


CASES: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dense": (dense, (of(64, 64), of(64, 64))),
    "norm": (norm, (of(256), of(256), of(256, 256), of(64, 256))),
    "embedding": (embedding, (of(10_000, 64), jax.ShapeDtypeStruct((32,), jnp.int32))),
    "gradient": (jax.grad(lambda w, x: jnp.sum(norm(x[0], x[1], w, x) ** 2)), (of(256, 256), of(64, 256))),
}


def compiled(target: str, fun: Callable[..., Any], *args: Any) -> tuple[Lowered, Compiled]:
    lowered = inspector.lower(fun, *args, target=target)
    engine = InlineEngine() if target == "cpu" else None
    return lowered, lowered.compile(target=target, engine=engine)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_sums_by_line_and_the_costs_of_lines_agree(target: str, name: str) -> None:
    fun, args = CASES[name]
    lowered, program = compiled(target, fun, *args)
    peak = ROOFS if target == "cpu" else peak_of(Target.parse(target))
    roof = program.roofline(peak)
    by_line = {
        group.name: [float(getattr(group, number)) for number in NUMBERS]
        for group in roof.groups("line")
        if group.name is not None and __file__ in group.name
    }
    table = lowered.line_costs(program, peak).table("source").dropna(subset=["line"])
    lines = table.groupby("line")[list(NUMBERS)].sum()
    assert {int(key.rpartition(":")[2]) for key in by_line} == set(lines.index)
    for key, amounts in by_line.items():
        assert amounts == pytest.approx(lines.loc[int(key.rpartition(":")[2])].tolist()), key


@pytest.mark.parametrize("target", TARGETS)
def test_a_dot_is_not_attributed_to_later_instructions_of_its_fusion(target: str) -> None:
    _, program = compiled(target, dense, *CASES["dense"][1])
    flops: collections.Counter[int] = collections.Counter()
    for group in program.roofline(ROOFS).groups("line"):
        if group.name is not None:
            flops[int(group.name.rpartition(":")[2])] += int(group.flops)
    assert flops[line_of(dense, "x @ w")] >= 2 * 64**3
    assert 0 < flops[line_of(dense, "softmax(h)")] < 2 * 64**3 / 10
    table = program.roofline(ROOFS).table()
    dearest = table.iloc[:-1].sort_values("flops").iloc[-1]
    assert dearest["source_line"] == line_of(dense, "x @ w")


def test_rows_of_a_table_are_read_where_they_are_taken() -> None:
    _, program = compiled("cpu", embedding, *CASES["embedding"][1])
    taken, scaled = line_of(embedding, "table[rows]"), line_of(embedding, "found * 2.0")
    groups = {int(g.name.rpartition(":")[2]): g for g in program.roofline(ROOFS).groups("line") if g.name}
    rows = 32 * 64 * 4
    assert groups[taken].main_memory_bytes == pytest.approx(rows + 32 * 4)
    assert groups[scaled].main_memory_bytes == pytest.approx(rows)


def test_equal_fusions_of_layers_move_their_own_rows() -> None:
    def layers(x: Any, table: Any, rows: Any) -> Any:
        for _ in range(3):
            x = x + table[rows] * jnp.tanh(x @ x)
            x = x - x.mean(0, keepdims=True)
        return x

    _, program = compiled("cpu", layers, of(64, 64), of(5_000, 64), jax.ShapeDtypeStruct((64,), jnp.int32))
    fusions = [each for each in program.module().entry.instructions if each.opcode == "fusion"]
    bodies = [program.module().alike.bodies[c.number] for each in fusions for c in each.called_computations]
    assert len(set(bodies)) < len(bodies), "some fusions are equal"
    for fusion in fusions:
        assert _moved(fusion) == {row: size for row, size in touched(fusion).by_row.items() if size}


def equinox_program() -> tuple[Any, tuple[Any, ...]]:
    import equinox as eqx

    model = eqx.nn.MLP(64, 64, 64, 2, key=jax.random.key(0))

    def loss(model: Any, x: Any) -> Any:
        y = jax.vmap(model)(x)
        return (y**2).mean()

    return eqx.filter_grad(loss), (model, jnp.ones((32, 64)))


def linen_program() -> tuple[Any, tuple[Any, ...]]:
    import flax.linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Dense(64)(x)
            x = nn.LayerNorm()(x)
            return nn.Dense(8)(x)

    model = Model()
    params = model.init(jax.random.key(0), jnp.ones((4, 64)))
    return jax.grad(lambda params, x: (model.apply(params, x) ** 2).mean()), (params, jnp.ones((32, 64)))


def nnx_program() -> tuple[Any, tuple[Any, ...]]:
    from flax import nnx

    layer, norm = nnx.Linear(64, 64, rngs=nnx.Rngs(0)), nnx.LayerNorm(64, rngs=nnx.Rngs(1))
    graph, state = nnx.split((layer, norm))

    def loss(state: Any, x: Any) -> Any:
        layer, norm = nnx.merge(graph, state)
        x = layer(x)
        return (norm(x) ** 2).mean()

    return jax.grad(loss), (state, jnp.ones((32, 64)))


def haiku_program() -> tuple[Any, tuple[Any, ...]]:
    import haiku as hk

    def forward(x: Any) -> Any:
        x = hk.Linear(64)(x)
        x = hk.LayerNorm(-1, True, True)(x)
        return hk.nets.MLP([64, 8])(x)

    transformed = hk.without_apply_rng(hk.transform(forward))
    params = transformed.init(jax.random.key(0), jnp.ones((4, 64)))
    return jax.grad(lambda params, x: (transformed.apply(params, x) ** 2).mean()), (params, jnp.ones((32, 64)))


def optax_program() -> tuple[Any, tuple[Any, ...]]:
    import optax

    optimizer = optax.adamw(1e-3)
    params = {"w": jnp.ones((64, 64))}

    def step(params: Any, state: Any, x: Any) -> Any:
        grads = jax.grad(lambda params: (x @ params["w"]).mean())(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return step, (params, optimizer.init(params), jnp.ones((32, 64)))


LIBRARIES = {
    "equinox": equinox_program,
    "flax.linen": linen_program,
    "flax.nnx": nnx_program,
    "haiku": haiku_program,
    "optax": optax_program,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_programs_of_libraries_have_the_users_own_lines(library: str, target: str) -> None:
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not installed")
    fun, args = LIBRARIES[library]()
    lowered, program = compiled(target, fun, *args)
    named = {i.name: i.frames for i in program.module().instructions() if i.frames}
    assert any(is_library_file(frames[0].file) for frames in named.values())  # or nothing is tried here
    table = program.instructions().set_index("name")
    for name, frames in named.items():
        own = next(frame for frame in frames if not is_library_file(frame.file))
        assert (table.loc[name, "source_file"], table.loc[name, "source_line"]) == (own.file, own.line)
        expected = None if own == frames[0] else f"{frames[0].file.rpartition('site-packages/')[2]}:{frames[0].line}"
        found = table.loc[name, "library_line"]
        assert (found if isinstance(found, str) else None) == expected
    roof = program.roofline(ROOFS)
    lines = [group.name for group in roof.groups("line") if group.name]
    assert lines
    assert not [line for line in lines if is_library_file(line)]
    assert not [file for file in roof.table()["source_file"].dropna() if is_library_file(file)]
    costs = lowered.line_costs(program, ROOFS)
    spent = [cost for cost in costs.on("source") if cost.line is not None]
    listing = costs.listings["source"]
    for cost in spent:
        (origin,) = listing.origins_of(cost.line)
        assert not is_library_file(origin.frames[0].file), origin
