"""Parts of arrays by device, compared with those that JAX puts on virtual devices."""

from __future__ import annotations

import math
import subprocess

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import ParameterError
from inspector.support import subprocesses

AXES = {"data": 4, "model": 2}

AGAINST_JAX = """
import itertools, random
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import inspector

draw = random.Random(5)
for _ in range(300):
    names, sizes = draw.choice([("abc", (2, 2, 2)), ("ab", (4, 2)), ("ab", (2, 4)), ("a", (8,)), ("abc", (2, 1, 4))])
    devices = draw.sample(jax.devices(), 8)
    mesh = Mesh(np.array(devices).reshape(sizes), tuple(names))
    rank, free = draw.randint(0, 4), draw.sample(names, len(names))
    entries = []
    for _ in range(draw.randint(0, rank)):
        taken = tuple(free.pop() for _ in range(min(len(free), draw.choice([0, 0, 1, 1, 2]))))
        entries.append(taken if len(taken) > 1 else taken[0] if taken else None)
    shape = tuple(draw.choice([8, 16, 24]) for _ in range(rank))
    sharding = NamedSharding(mesh, P(*entries))
    found = inspector.sharding(sharding, shape=shape)
    expected = {d.id: tuple(s.indices(n)[:2] for s, n in zip(i, shape)) for d, i in sharding.devices_indices_map(shape).items()}
    assert {d: found.part_of(d) for d in expected} == expected, (sharding, shape)
    assert found.part_shape == sharding.shard_shape(shape)
    assert len(found.parts) == len(set(expected.values()))
    assert (len(found.replicated_over) == 0) == (len(found.parts) == 8)
x = jax.device_put(np.zeros((8, 16)), NamedSharding(Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b")), P("b", "a")))
assert inspector.sharding(x).parts == {
    tuple(s.indices(n)[:2] for s, n in zip(shard.index, x.shape)): (shard.device.id,) for shard in x.addressable_shards
}
print("agrees")
"""


@pytest.mark.slow
def test_parts_on_devices_equal_those_of_jax() -> None:
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        subprocesses.python(AGAINST_JAX),
        env=subprocesses.environ() | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "agrees", done.stderr


def test_axes_of_one_dimension_go_slowest_first() -> None:
    found = inspector.sharding(P(("model", "data")), AXES, shape=(16, 3))
    assert found.axes == (("model", "data"), ())
    assert [found.part_of(device)[0] for device in range(8)] == [
        (0, 2), (8, 10), (2, 4), (10, 12), (4, 6), (12, 14), (6, 8), (14, 16),
    ]  # fmt: skip
    assert repr(found) == ("<[16, 3] split by (model+data, -) on the partition mesh (data=4, model=2): 8 parts of 2x3>")


def test_copies_and_short_parts_are_reported() -> None:
    found = inspector.sharding(P("data"), AbstractMesh((4, 2), ("data", "model")), shape=(9, 2))
    assert found.replicated_over == ("model",)
    assert found.parts == {
        ((0, 3), (0, 2)): (0, 1),
        ((3, 6), (0, 2)): (2, 3),
        ((6, 9), (0, 2)): (4, 5),
        ((9, 9), (0, 2)): (6, 7),
    }
    assert "each on 2 devices (model), the last smaller>" in repr(found)
    table = found.table()
    assert table["elements"].tolist() == [6] * 6 + [0] * 2
    assert table["is_short"].tolist() == [False] * 6 + [True] * 2
    assert table["coordinates"].tolist()[3] == (1, 1)
    assert sum(table["elements"]) == 2 * math.prod(found.shape)


def test_shardings_of_arrays_and_their_descriptions() -> None:
    mesh = AbstractMesh((4, 2), ("data", "model"))
    described = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P(None, "data")))
    assert inspector.sharding(described).part_shape == (8, 1)
    device = jax.devices()[0]
    one = jax.device_put(jnp.ones(3), SingleDeviceSharding(device))
    assert repr(inspector.sharding(one)) == f"<[3] whole on device {device.id}>"
    assert inspector.sharding(P(), AXES, shape=()).parts == {(): tuple(range(8))}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((P("rows"), AXES, (8,)), "No axis 'rows' in the partition mesh .data=4, model=2.. Its axes are data, model"),
        ((P("data", "data"), AXES, (8, 8)), "The axis 'data' occurs twice"),
        ((P("data", None), AXES, (8,)), "has 2 entries, but the shape .8,. has only 1"),
        ((P("data"), AXES, None), "The shape of the array is missing"),
        ((P("data"), None, (8,)), "Got the mesh None; expected a Mesh, an AbstractMesh, or axes"),
        ((P("data"), {"data": "4"}, (8,)), "Got the size '4'; expected an integer"),
        ((P("data"), {"data": 0}, (8,)), "expected sizes of 1 or more"),
        ((P("data"), AXES, (-8,)), "expected sizes of 0 or more"),
        ((P(P.UNCONSTRAINED), AXES, (8,)), "XLA chooses the sharding"),
        ((3, AXES, (8,)), "Got int; expected an array"),
        ((P("data"), {"data": 1 << 20}, (8,)), "too many to list"),
    ],
)
def test_inconsistent_arguments_are_refused(
    arguments: tuple[object, object, tuple[int, ...] | None], message: str
) -> None:
    what, mesh, shape = arguments
    with pytest.raises(ParameterError, match=message):
        inspector.sharding(what, mesh, shape=shape)


def test_pictures_of_any_rank() -> None:
    found = inspector.sharding(P(None, ("model", "data"), None), AXES, shape=(3, 21, 5))
    figure = found.plot()
    (panel,) = figure.axes
    assert [text.get_text() for text in panel.texts] == ["0", "2", "4", "6", "1", "3", "5"]
    assert panel.yaxis.get_label_text() == "dimension 1: model, data"
    assert figure.get_suptitle() == "dimension 0 at 0, nothing on 7"
    short = inspector.sharding(P("data"), AXES, shape=(7, 2)).plot()
    assert [patch.get_hatch() for patch in short.axes[0].patches] == ["", "", "", "///"]
    line = found.plot(dimensions=(1,), at={0: 2, 2: 4})
    assert line.get_suptitle() == "dimension 0 at 2, dimension 2 at 4, nothing on 7"
    of_another = inspector.sharding(P("data", "model"), AXES, shape=(8, 4)).plot(dimensions=(1,), at={0: 5})
    assert [text.get_text() for text in of_another.axes[0].texts] == ["4", "5"]
    for wrong in ({"dimensions": (1, 1)}, {"dimensions": (3,)}, {"at": {0: 3}}, {"dimensions": (0, 1), "at": {1: 0}}):
        with pytest.raises(ParameterError, match="expected"):
            found.plot(**wrong)  # type: ignore[arg-type]


def test_a_scalar_is_one_part() -> None:
    (panel,) = inspector.sharding(P(), AXES, shape=()).plot().axes
    assert [text.get_text() for text in panel.texts] == ["0, 1, 2, 3 and 4 more"]
