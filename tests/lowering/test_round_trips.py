"""Programs written in each form, opened again and compiled: the same optimized HLO."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

import inspector
from benchmarks.workloads import make
from inspector._jax.modules import stablehlo
from inspector.lowering.lower import lower
from inspector.stages.lowered import Lowered
from tests.libraries import suite

FORMS: dict[str, Callable[[Lowered], bytes | str]] = {
    "HLO text": lambda lowered: lowered.hlo,
    "proto": lambda lowered: lowered.hlo_proto,
    "StableHLO text": lambda lowered: str(lowered.stablehlo),
    "bytecode": lambda lowered: lowered.program.module,
    "portable artifact": lambda lowered: stablehlo.portable(lowered.program.module),
}
F32 = jnp.float32


def array(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def layers(w: jax.Array, x: jax.Array) -> jax.Array:
    y: jax.Array = jax.lax.scan(lambda y, each: (jnp.tanh(y @ each), None), x, w)[0]
    return y.sum()


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqd,bkd->bqk", q, k, preferred_element_type=F32)
    y: jax.Array = jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores).astype(v.dtype), v)
    return y


def branches(n: jax.Array, x: jax.Array) -> jax.Array:
    y: jax.Array = jax.lax.switch(n, [jnp.sin, jnp.cos, lambda y: y * 2], x)
    return y


def sharded() -> Lowered:
    mesh = jax.sharding.AbstractMesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    w = jax.ShapeDtypeStruct((64, 128), F32, sharding=NamedSharding(mesh, PartitionSpec(None, "model")))
    x = jax.ShapeDtypeStruct((32, 64), F32, sharding=NamedSharding(mesh, PartitionSpec("data", None)))
    return lower(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2), argnums=1), w, x, platform="cpu")


def column_major() -> Lowered:
    chosen = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[0]))
    fun = jax.jit(lambda x: (x.T, x + 1, x * 2), in_shardings=chosen, out_shardings=(None, chosen, None))
    return lower(fun, array(4, 8), platform="cpu")


def rung(name: str) -> Lowered:
    workload = make(name)
    return lower(workload.fun, *workload.args, platform="cpu")


PROGRAMS: dict[str, Callable[[], Lowered]] = {
    "donated": lambda: lower(lambda w, x: w + x, array(8, 8), array(8, 8), donate_argnums=0, platform="cpu"),
    "scan gradient": lambda: lower(jax.grad(layers), array(3, 16, 16), array(4, 16), platform="cpu"),
    "attention": lambda: lower(attention, *[array(2, 8, 16, dtype=jnp.bfloat16)] * 3, platform="cpu"),
    "switch": lambda: lower(branches, array(dtype=jnp.int32), array(8), platform="cpu"),
    "transposed": lambda: lower(lambda x: (x.T, jnp.sum(x.T @ x, 0)), array(4, 8), platform="cpu"),
    "sort": lambda: lower(lambda x: jax.lax.sort_key_val(x, x * 2), array(4, 64), platform="cpu"),
    "convolution": lambda: lower(
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        array(2, 3, 16, 16),
        array(4, 3, 3, 3),
        platform="cpu",
    ),
    "random": lambda: lower(lambda k: jax.random.normal(k, (8,)), array(2, dtype=jnp.uint32), platform="cpu"),
    "sharded": sharded,
    "layouts that the function chooses": column_major,
    **{f"ladder: {name}": functools.partial(rung, name) for name in ("tiny", "mlp", "cnn", "tf1", "tfscan12")},
}
EXACT = ("bytecode", "portable artifact")  # forms with the locations of operations
HLO_FORMS = ("HLO text", "proto")  # these list instructions by their operands, not in the order of the function
# On JAX 0.12, this order decides in which order a loop carries the values that it does not change.
REORDERED = ("scan gradient", "ladder: tfscan12") if jax.__version_info__ >= (0, 12) else ()
QUICK = ("donated", "sharded", "transposed", "layouts that the function chooses")


def comparable(hlo: str) -> str:
    """Returns optimized HLO without names, metadata and the tables behind it, which differ between equal programs."""
    text = re.sub(r", metadata=\{[^}]*\}", "", hlo.partition("\n\n")[2])
    # JAX 0.12 and an opened module write the same unpartitioned values in two ways.
    text = re.sub(r"\{mesh\[\], \[[{}, ]*\]\}", "{replicated}", text).replace(", sharding={replicated}", "")
    text = re.sub(r', frontend_attributes=\{xla\.sdy\.sharding="#sdy\.sharding<@empty_mesh, [^"]*"\}', "", text)
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.-]+", lambda match: names.setdefault(match[0], f"%{len(names)}"), text)
    lines = [line for line in text.split("\n") if line.startswith(("  ", "%", "ENTRY", "}"))]
    return re.sub(r"\(\w[\w.\[\]'-]*: |, \w[\w.\[\]'-]*: ", "(", "\n".join(lines))


def kinds(compiled: inspector.Compiled) -> collections.Counter[tuple[str, ...]]:
    """Returns the opcodes and element shapes of all instructions, in any order."""
    return collections.Counter((i.opcode, *sorted(map(str, i.shape.leaves))) for i in compiled.module().instructions())


def arrays(lowered: Lowered) -> list[tuple[tuple[int, ...], str, bool]]:
    """Returns the shape, dtype and donation of each argument. A module has random keys as their words."""
    return [
        ((*a.shape, 2), "uint32", a.donated) if a.dtype == "key<fry>" else (a.shape, a.dtype, a.donated)
        for a in lowered.inputs
    ]


def check(lowered: Lowered, form: str, *, is_large: bool = False, is_reordered: bool = False) -> None:
    target = f"cpu:{lowered.program.device_count}"
    again = inspector.lower(FORMS[form](lowered), platform="cpu")
    assert arrays(again) == arrays(lowered)
    assert again.program.device_count == lowered.program.device_count
    ours, theirs = lowered.compile(target=target), again.compile(target=target)
    if is_reordered and form in HLO_FORMS:
        assert kinds(theirs) == kinds(ours)
        assert theirs.cost == ours.cost
    elif form in EXACT or not is_large:
        assert comparable(theirs.hlo) == comparable(ours.hlo)
    else:
        assert theirs.diff(ours).headline.startswith(("the same program", "the same optimized HLO"))
    assert [c.axes for c in theirs.collectives()] == [c.axes for c in ours.collectives()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in PROGRAMS])
def test_every_form_compiles_to_the_same(name: str, form: str) -> None:
    check(PROGRAMS[name](), form, is_large=name.startswith("ladder"), is_reordered=name in REORDERED)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x - x.mean(-1, keepdims=True),
        lambda x: x - x.mean(0, keepdims=True),
        lambda x: x + jnp.broadcast_to(x[:1, :, None], (4, 8, 3)).sum(2),
        lambda x: x[:, None, :1] * jnp.ones((3, 8)) + x.sum(keepdims=True)[None],
    ],
)
def test_stretched_dimensions_are_stretched_again(fun: Callable[..., Any]) -> None:
    """XLA removes one of the operations of such a broadcast from a converted module, which then compiles differently."""
    lowered = lower(fun, array(4, 8), platform="cpu")
    assert "broadcast(" in lowered.hlo
    again = inspector.lower(lowered.hlo, platform="cpu")
    assert comparable(again.hlo) == comparable(lowered.hlo)


def test_reshapes_and_broadcasts_that_stretch_nothing_stay() -> None:
    hlo = """HloModule m
ENTRY e {
  x = f32[4,1] parameter(0)
  same = f32[4,1] broadcast(x), dimensions={0,1}
  flat = f32[4] reshape(same)
  other = f32[4,4] broadcast(flat), dimensions={1}
  larger = f32[4,1,8] broadcast(flat), dimensions={0}
  new = f32[4,1] broadcast(flat), dimensions={0}
  flat_again = f32[4] reshape(new)
  new_again = f32[4,8] broadcast(flat_again), dimensions={0}
  ROOT all = (f32[4,4], f32[4,1,8], f32[4,8]) tuple(other, larger, new_again)
}
"""
    text = str(inspector.lower(hlo, platform="cpu").stablehlo)
    assert text.count("stablehlo.reshape") == 2
    assert text.count("stablehlo.broadcast_in_dim") == 5


@pytest.mark.slow
@pytest.mark.libraries
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["equinox", "flax_linen", "optax"])
def test_every_form_of_a_library_program_compiles_to_the_same(name: str, form: str) -> None:
    library = suite.load(name)
    if library.reason:
        pytest.skip(library.reason)
    program = library.programs[0]
    check(lower(program.function, *program.args, platform="cpu", **program.kwargs), form, is_large=True)
