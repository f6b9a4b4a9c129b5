"""Meshes whose collectives are slow in the order of their devices, and those that no other order makes faster."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.findings.detectors.sharding.axis_order import orders_of, saved_s, shortest
from inspector.analysis.findings.edits import PlaceDevices
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_tpu
from tests.findings import meshes, sharded
from tests.findings.recorded import GPU, TPU, recorded

KIND = "axis-order"


def found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize(
    ("program", "axis", "mesh"),
    [
        (meshes.sums_over_data, "data", "data=2, model=4"),
        (meshes.sums_over_the_longer_axis, "d", "d=4, m=2"),
        (meshes.weights_gathered_in_layers, "data", "data=2, model=4"),
        (meshes.step_of_a_partitioned_model, "data", "data=2, model=4"),
    ],
)
def test_slow_orders(program: Callable[[], sharded.Program], axis: str, mesh: str) -> None:
    (finding,) = found(recorded(program, TPU))
    assert (
        f"for collectives, most of it over {axis}. With the devices of the mesh {mesh} in another order on the"
        in finding.title
    )
    assert finding.share > 0.05
    assert finding.frames[0].file.endswith("meshes.py")


@pytest.mark.parametrize("program", meshes.SILENT)
def test_silent(program: Callable[[], sharded.Program]) -> None:
    assert not found(recorded(program, TPU))


def test_a_small_part_of_the_time_is_folded() -> None:
    findings = recorded(meshes.sums_behind_products, TPU).findings(kinds=[KIND])
    assert not len(findings)


def test_switches_have_no_order() -> None:
    assert not found(recorded(meshes.sums_over_data, GPU))


@pytest.mark.parametrize("program", [meshes.sums_over_data, meshes.sums_over_the_longer_axis])
def test_the_remedy_makes_the_order(program: Callable[[], sharded.Program]) -> None:
    (finding,) = found(recorded(program, TPU))
    names: dict[str, Any] = {"np": np, "jax": jax}
    exec(finding.remedy, names)
    edit = placed(finding)
    assert tuple(device.id for device in names["mesh"].devices.flat) == edit.device_ids
    assert str(dict(names["mesh"].shape)).strip("{}").replace("'", "").replace(": ", "=") in finding.title


def test_orders_of_a_slice() -> None:
    orders = orders_of(Torus((2, 4), (False, False)), (2, 4))
    assert orders[0, 1, 2, 3, 4, 5, 6, 7] == ".reshape(2, 4)"
    assert orders[0, 2, 4, 6, 1, 3, 5, 7] == ".reshape(4, 2).transpose(1, 0)"
    assert len(orders) == 3  # of four, two are equal
    for order, code in orders.items():
        assert eval(f"np.arange(8){code}", {"np": np}).tolist() == np.reshape(order, (2, 4)).tolist()


@pytest.mark.parametrize("sizes", [(2, 3, 4), (4, 2, 3), (6, 4), (3, 8)])
def test_all_orders_of_the_axes_of_a_slice(sizes: tuple[int, ...]) -> None:
    torus = Torus((2, 3, 4), (False,) * 3)
    orders = orders_of(torus, sizes)
    for axes in itertools.permutations(range(3)):
        places = sorted((*(torus.place(device)[axis] for axis in axes), device) for device in range(24))
        assert tuple(device for *_, device in places) in orders
    for order, code in orders.items():
        assert eval(f"np.arange(24){code}", {"np": np}).tolist() == np.reshape(order, sizes).tolist()


def test_hidden_communication_and_latency_gain_nothing_but_may_lose() -> None:
    def exchange(exposed_s: float, latency_s: float = 0.1) -> Any:
        price = types.SimpleNamespace(known_s=1.0)
        return types.SimpleNamespace(exposed_s=exposed_s, executions=2, latency_s=latency_s, price=price)

    assert saved_s([exchange(0.0)], [1.0], [0.5]) == 0.0
    assert saved_s([exchange(0.0)], [1.0], [1.5]) == -1.0
    assert saved_s([exchange(2.0, latency_s=0.6)], [1.0], [0.5]) == 0.0
    assert saved_s([exchange(2.0), exchange(1.0)], [1.0, 1.0], [0.25, 1.0]) == 1.5


@needs_tpu
@pytest.mark.parametrize("program", [meshes.sums_over_data, meshes.step_of_a_partitioned_model])
def test_the_proof_compiles_for_the_other_order(program: Callable[[], sharded.Program]) -> None:
    fun, args = program()
    before = inspector.lower(fun, *args).compile(target=TPU)
    (finding,) = found(before)
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.3)
    assert not isinstance(proof.compiled, (Unavailable, type(None)))
    edit = placed(finding)
    assert [int(each.partition(" at ")[0].rpartition(" ")[2]) for each in proof.compiled.devices] == [*edit.device_ids]


@needs_tpu
def test_the_proof_equals_the_compile_by_hand() -> None:
    (finding,) = found(recorded(meshes.sums_over_data, TPU))
    fun, args = meshes.sums_over_data_in_the_other_order()
    by_hand = inspector.lower(fun, *args).compile(target=TPU)
    proof = finding.prove()
    assert proof.gain_s == pytest.approx(_seconds(recorded(meshes.sums_over_data, TPU)) - _seconds(by_hand), rel=0.01)


@needs_tpu
def test_three_axes_on_a_cube() -> None:
    mesh = sharded.mesh_of((2, 2, 4), ("a", "b", "c"))
    fun = sharded.manual(lambda x: lax.psum(x, ("a", "b")), P(("a", "b", "c")), P("c"), mesh)
    x = sharded.array((1 << 14, 512), ("a", "b", "c"), mesh=mesh, dtype=jnp.float32)
    compiled = inspector.lower(fun, x).compile(target="tpu:v5p:2x2x4")
    (finding,) = found(compiled)
    assert finding.prove().verdict == "proven"


def placed(finding: Finding) -> PlaceDevices:
    assert not isinstance(finding.edits, Unavailable)
    (edit,) = finding.edits
    assert isinstance(edit, PlaceDevices)
    return edit


def _seconds(compiled: inspector.Compiled) -> float:
    seconds = compiled.roofline().total.least_s
    assert not isinstance(seconds, Unavailable)
    return float(seconds)


def test_the_shortest_code_with_nearly_the_best_gain() -> None:
    orders = {(0, 1): ".reshape(1, 2)", (1, 0): ".reshape(1, 2).transpose(1, 0)", (2, 3): ""}
    assert shortest({(0, 1): 0.985, (1, 0): 1.0, (2, 3): 0.5}, orders) == (0, 1)
    assert shortest({(0, 1): 0.97, (1, 0): 1.0, (2, 3): 0.5}, orders) == (1, 0)
    assert shortest({(0, 1): 0.0, (1, 0): -1.0}, orders) == ()
