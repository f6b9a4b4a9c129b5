"""Donated arguments: which outputs reuse them, and the reasons of the others, against executions of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.memory.donations import Donation, Donations
from inspector.api.opened_program import OpenedProgram
from tests.absent import needs_tpu

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers:UserWarning")


def step(params: Any, opt: Any, x: jax.Array) -> Any:
    grads = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p["w"]) @ p["v"]))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), opt["m"].astype(jnp.bfloat16), jnp.sum(x)


def arguments() -> tuple[Any, ...]:
    params = {"w": jnp.ones((64, 64)), "v": jnp.ones((64, 16))}
    return params, {"m": jnp.ones((8, 8)), "n": jnp.ones(3)}, jnp.ones((32, 64))


def by_path(donations: Donations) -> dict[str, Donation]:
    return {each.argument.path: each for each in donations}


def test_reasons_of_arguments_that_no_output_reuses() -> None:
    donations = inspector.lower(step, *arguments(), donate_argnums=(0, 1, 2)).compile().donations()
    found = by_path(donations)
    assert {path: each.output for path, each in found.items()} == {
        "params['w']": "result[0]['w']",
        "params['v']": "result[0]['v']",
        "opt['m']": None,
        "opt['n']": None,
        "x": None,
    }
    assert found["opt['m']"].reason == "result[1] of its shape is bf16, the argument is f32"
    assert found["opt['n']"].reason == "the program does not use it"
    assert found["x"].reason == "no output has its shape and type"
    assert [each.argument.path for each in donations.unused] == ["x", "opt['m']", "opt['n']"]
    assert [each.byte_size for each in donations.unused] == [32 * 64 * 4, 8 * 8 * 4, 0]
    assert "5 of 5 arguments donated, 3 of them not reused (8.25 KiB)" in repr(donations)
    table = donations.table()
    assert list(table["argument"]) == ["x", "opt['m']", "opt['n']", "params['w']", "params['v']"]
    assert table["argument_bytes"].sum() == (32 * 64 + 8 * 8 + 64 * 64 + 64 * 16) * 4


def test_the_buffers_that_a_run_deletes_are_those_reused() -> None:
    """XLA's run is the reference: it invalidates the donated arrays that outputs reuse."""

    def f(a: jax.Array, b: jax.Array, c: jax.Array) -> Any:
        return a + 1, b[:2], c * c.sum()

    arrays = [jnp.ones((4, 4)), jnp.ones((4, 4)), jnp.ones(7)]
    found = by_path(inspector.lower(f, *arrays, donate_argnums=(0, 2)).compile().donations())
    outputs = jax.jit(f, donate_argnums=(0, 2))(*arrays)
    assert len(outputs) == 3
    deleted = {name: array.is_deleted() for name, array in zip("abc", arrays, strict=True)}
    assert {name: found[name].output is not None for name in "abc"} == deleted == {"a": True, "b": False, "c": True}


def test_arguments_that_could_be_donated() -> None:
    found = by_path(inspector.lower(step, *arguments()).compile().donations())
    assert found["params['w']"].candidate == "result[0]['w']"
    assert found["x"].candidate is None
    assert not found["params['w']"].is_unused
    assert found["params['w']"].status == "not donated"


def test_two_arguments_for_one_output() -> None:
    x = jnp.ones((4, 4))
    found = by_path(inspector.lower(lambda a, b: a + b, x, x, donate_argnums=(0, 1)).compile().donations())
    (unused,) = [each for each in found.values() if each.is_unused]
    assert unused.reason == "result of its shape already reuses another argument"


@pytest.mark.parametrize(("result", "reason"), [
    (P("x", None), "result is split as (x, -), the argument is split as (-, y)"),
    (P(), "result is whole on every device, the argument is split as (-, y)"),
])  # fmt: skip
def test_shardings_that_differ(result: P, reason: str) -> None:
    if len(jax.devices()) < 8:
        pytest.skip("needs 8 devices")
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    a = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=NamedSharding(mesh, P(None, "y")))
    f: Callable[..., Any] = jax.jit(lambda a: a + 1, donate_argnums=0, out_shardings=NamedSharding(mesh, result))
    (only,) = inspector.lower(f, a).compile().donations()
    assert (only.output, only.reason, only.byte_size) == (None, reason, 16 * 8 * 4)


def placed(kind: str) -> NamedSharding:
    return NamedSharding(jax.make_mesh((1,), ("x",), devices=jax.devices()[:1]), P(), memory_kind=kind)


def in_memories(kinds: tuple[str, str], results: tuple[str, ...], donated: tuple[int, ...] = (0, 1)) -> Any:
    """Returns the lowered sum of two arrays of one shape in two kinds of memory, once for each kind of `results`."""
    a, b = (jax.ShapeDtypeStruct((8, 128), jnp.float32, sharding=placed(kind)) for kind in kinds)
    outside = tuple(map(placed, results))

    def f(a: jax.Array, b: jax.Array) -> Any:
        total = sum(jax.device_put(each, jax.memory.Space.Device) for each in (a, b))
        return tuple(jax.device_put(total + i, sharding) for i, sharding in enumerate(outside))

    return inspector.lower(jax.jit(f, donate_argnums=donated, out_shardings=outside), a, b)


MEMORIES = pytest.mark.parametrize(
    ("target", "host", "device"),
    [("attached", "RAM (pinned_host)", "RAM"), pytest.param("tpu:v5e:1x1", "host", "HBM", marks=needs_tpu)],
)


@MEMORIES
def test_an_argument_is_reused_only_in_its_own_memory(target: str, host: str, device: str) -> None:
    lowered = in_memories(("pinned_host", "device"), ("device", "pinned_host"))
    found = by_path(lowered.compile(target=target).donations())
    assert {path: (each.memory, each.output) for path, each in found.items()} == {
        "a": (host, "result[1]"),
        "b": (device, "result[0]"),
    }


@MEMORIES
@pytest.mark.parametrize("is_on_host", [False, True])
def test_an_argument_in_another_memory_than_all_outputs_of_its_shape(
    target: str, host: str, device: str, *, is_on_host: bool
) -> None:
    kind, other = ("pinned_host", "device") if is_on_host else ("device", "pinned_host")
    found = by_path(in_memories((kind, other), (other, other)).compile(target=target).donations())
    own, others = (host, device) if is_on_host else (device, host)
    assert found["a"].reason == f"result[0], result[1] of its shape are in {others}, the argument in {own}"
    assert found["b"].output is not None


@MEMORIES
def test_an_output_in_another_memory_is_no_candidate(target: str, host: str, device: str) -> None:
    lowered = in_memories(("pinned_host", "device"), ("device",), donated=())
    found = by_path(lowered.compile(target=target).donations())
    assert (found["a"].memory, found["a"].candidate) == (host, None)
    assert (found["b"].memory, found["b"].candidate) == (device, "result[0]")


def test_opened_stablehlo_has_the_memories_of_its_arguments() -> None:
    text = in_memories(("pinned_host", "device"), ("device", "device")).stablehlo
    opened = inspector.lower(text).program
    assert [each.memory_kind for each in opened.arguments] == ["pinned_host", "device"]
    assert [each.memory_kind for each in opened.results] == ["device", "device"]


def test_memory_kinds_and_layouts_that_differ() -> None:
    text = """HloModule m, is_scheduled=true, buffer_donor={ (0, {}), (1, {}) }, entry_computation_layout={(f32[8,4]{1,0:S(5)}, f32[4,2]{1,0})->(f32[8,4]{1,0}, f32[4,2]{0,1})}

ENTRY e {
  a = f32[8,4]{1,0:S(5)} parameter(0)
  b = f32[4,2]{1,0} parameter(1)
  c = f32[8,4]{1,0} copy(a)
  d = f32[4,2]{0,1} copy(b)
  ROOT t = (f32[8,4]{1,0}, f32[4,2]{0,1}) tuple(c, d)
}
"""
    program = OpenedProgram.of(text, platform="tpu", target="tpu:v5e:1x1").compiled
    first, second = sorted(program.donations(), key=lambda each: -each.byte_size)
    assert first.memory == "host"
    assert first.reason == "result[0] of its shape is in HBM, the argument in host"
    assert second.reason == "result[1] of its shape is stored in another order of dimensions"
