"""Every answer about devices agrees with JAX, on meshes whose devices are in any order."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.compilation.compiled import digest_of, placed_mesh
from inspector.compilation.placement import device_ids
from inspector.hlo.devices.mesh import Mesh as NamedMesh
from inspector.stages.compiled import load_compiled
from inspector.stages.lowered import compile_request
from tests.absent import needs_gpu, needs_tpu
from tests.conftest import RunPython
from tests.stages.permuted_meshes import check, parts_of, parts_on, parts_there, random_case

TARGETS = [
    "attached",
    "cpu:8",
    pytest.param("tpu:v5e:2x4", marks=needs_tpu),
    pytest.param("gpu:h100:8", marks=needs_gpu),
]


def reversed_mesh(count: int = 8) -> Mesh:
    return Mesh(np.array(jax.devices()[:count])[::-1], ("x",))


@pytest.mark.parametrize("target", TARGETS)
def test_a_few_arrays(target: str) -> None:
    source, compared = random.Random(f"few {target}"), 0
    while compared < 12:
        compared += check(random_case(source, is_specified=target.startswith(("tpu", "gpu"))), target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_arrays(target: str) -> None:
    source, compared = random.Random(f"many {target}"), 0
    while compared < 75:
        compared += check(random_case(source, is_specified=target.startswith(("tpu", "gpu"))), target)


@pytest.mark.parametrize("engine", ["worker", "inline"])
def test_arrays_lie_and_run_where_jax_has_them(engine: str) -> None:
    mesh = reversed_mesh()
    x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))

    def roll(v: jax.Array) -> jax.Array:
        def one(v: jax.Array) -> jax.Array:
            index = jax.lax.axis_index("x")
            return jax.lax.ppermute(v, "x", [(i, (i + 1) % 8) for i in range(8)]) + 10.0 * index

        return jax.shard_map(one, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(v)

    lowered = inspector.lower(roll, x)
    compiled = lowered.compile(engine=engine)
    assert compiled.devices == tuple(f"cpu {i}" for i in reversed(range(8)))
    assert {parts_of(each) == parts_there(x) for each in lowered.shardings(compiled)} == {True}
    assert compiled.run(x, repeat=1, warmup=0).outputs[0].tolist() == np.asarray(jax.jit(roll)(x)).tolist()
    theirs = jax.jit(roll).lower(x).compile()
    assert parts_of(compiled.shardings()["v"]) == parts_on(theirs.input_shardings[0][0], (8,))
    rows = compiled.collectives().members(0).set_index("coordinates")
    assert [rows.loc[[(i,)]]["device"].item() for i in range(8)] == [7, 6, 5, 4, 3, 2, 1, 0]
    figure = compiled.collectives().plot(0)
    assert {text.get_text() for text in figure.axes[0].texts} >= {"0\ndevice 7", "7\ndevice 0"}
    observed = lowered.observe(x)
    index = next(one for one in observed if one.primitive == "axis_index")
    assert (index.logical_ids, index.devices) == (tuple(range(8)), tuple(reversed(range(8))))
    assert observed.table().query("primitive == 'axis_index'").set_index("device")["after"].to_dict() == {
        i: 7 - i for i in range(8)
    }


def test_one_device_that_is_not_the_first() -> None:
    third = jax.devices()[3]
    for given in (
        jax.device_put(jnp.arange(8.0), third),
        jax.device_put(jnp.arange(8.0), NamedSharding(Mesh(np.array([third]), ("x",)), P("x"))),
    ):
        compiled = inspector.lower(jnp.sin, given).compile()
        assert compiled.devices == ("cpu 3",)
        assert compiled.run(given, repeat=1, warmup=0).outputs[0].tolist() == np.asarray(jnp.sin(given)).tolist()


def test_two_orders_are_two_programs_of_one_module() -> None:
    found = []
    for mesh in (reversed_mesh(), Mesh(np.array(jax.devices()), ("x",))):
        lowered = inspector.lower(
            jnp.sin, jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(mesh, P("x")))
        )
        found.append((lowered.program, compile_request(lowered), lowered.compile(target="cpu:8")))
    (one, asked, compiled), (other, asked_too, compiled_too) = found
    assert one.digest == other.digest
    assert asked.digest != asked_too.digest
    assert digest_of(compiled) != digest_of(compiled_too)
    assert device_ids(compiled.devices) == tuple(reversed(device_ids(compiled_too.devices)))


def test_devices_are_saved(tmp_path: object) -> None:
    x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(reversed_mesh(), P("x")))
    compiled = inspector.lower(jnp.sin, x).compile(target="cpu:8")
    compiled.save(f"{tmp_path}/one")
    loaded = load_compiled(f"{tmp_path}/one")
    assert loaded.program.device_ids == (7, 6, 5, 4, 3, 2, 1, 0)
    assert [parts_of(each) for each in loaded.shardings()] == [parts_of(each) for each in compiled.shardings()]
    again = inspector.lower(loaded).compile(target="cpu:8")
    assert again.devices == compiled.devices


def test_a_preview_has_the_devices_of_the_result() -> None:
    x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(reversed_mesh(), P("x")))
    lowered = inspector.lower(jnp.sin, x)
    preview = lowered.preview(target="cpu:8")
    assert isinstance(placed_mesh(preview), NamedMesh)
    assert (preview.devices, placed_mesh(preview)) == (
        (compiled := lowered.compile(target="cpu:8")).devices,
        placed_mesh(compiled),
    )
    assert placed_mesh(preview).physical_ids == (7, 6, 5, 4, 3, 2, 1, 0)


@needs_tpu
def test_a_mesh_in_the_usual_order_stands_for_the_mesh_that_jax_would_make() -> None:
    x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x")))
    lowered = inspector.lower(jnp.sin, x, target="tpu:v5e:2x4")
    compiled = lowered.compile(target="tpu:v5e:2x4")
    theirs = [0, 1, 2, 3, 7, 6, 5, 4]  # the device ids of topologies.make_mesh(v5e:2x4, (8,), ("x",))
    assert device_ids(compiled.devices) == tuple(theirs)
    wanted = {device: ((position, position + 1),) for position, device in enumerate(theirs)}
    assert [parts_of(each) for each in lowered.shardings(compiled)] == [wanted, wanted]


@needs_tpu
def test_a_mesh_of_absent_devices_is_taken_as_it_is(one_device_python: RunPython) -> None:
    done = one_device_python(OF_A_TOPOLOGY, {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_SKIP_MDS_QUERY": "1"})
    assert done.stdout.split() == ["0,1,2,3,4,5,6,7", "7,6,5,4,3,2,1,0"], done.stderr


OF_A_TOPOLOGY = """
import inspector, jax, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from inspector.compilation.placement import device_ids

devices = np.array(topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices)
for order in (devices, devices[::-1]):
    x = jax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(Mesh(order, ("x",)), P("x")))
    compiled = inspector.lower(jax.numpy.sin, x, target="tpu:v5e:2x4").compile(target="tpu:v5e:2x4")
    print(*device_ids(compiled.devices), sep=",")
"""
