"""Devices that a compile does not use, or uses instead of others, are reported."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.compilation.placement import device_ids, device_kind
from tests.absent import needs_tpu


def split(count: int, mesh: Mesh | AbstractMesh | None = None) -> jax.ShapeDtypeStruct:
    """An array over so many devices."""
    over = mesh or AbstractMesh((count,), ("x",), axis_types=(AxisType.Auto,))
    return jax.ShapeDtypeStruct((8 * count,), jnp.float32, sharding=NamedSharding(over, P("x")))


@needs_tpu
def test_idle_devices_of_a_slice_are_reported() -> None:
    (said,) = inspector.lower(jnp.sin, split(8), target="tpu:v5e:4x4").compile(target="tpu:v5e:4x4").warnings
    assert said == (
        "The program uses 8 of the 16 devices of tpu:v5e:4x4; the others are idle. Shard it over a mesh of 16 devices or"
        " compile for tpu:v5e:2x4."
    )
    assert inspector.lower(jnp.sin, split(16), target="tpu:v5e:4x4").compile(target="tpu:v5e:4x4").warnings == ()


@pytest.mark.parametrize(("count", "target", "is_reported"), [(1, "cpu:8", True), (4, "cpu:8", True), (8, "cpu:8", False), (1, "cpu", False)])  # fmt: skip
def test_idle_virtual_devices_are_reported(count: int, target: str, is_reported: bool) -> None:
    given = jnp.arange(8.0) if count == 1 else split(count)
    warnings = inspector.lower(jnp.sin, given, target=target).compile(target=target).warnings
    assert [w.startswith(f"The program uses {count} of the 8 devices of cpu:8;") for w in warnings] == [
        True
    ] * is_reported


def test_attached_devices_may_be_idle() -> None:
    assert inspector.lower(jnp.sin, jnp.arange(8.0)).compile().warnings == ()


def test_devices_that_the_target_lacks_are_replaced_in_the_same_order() -> None:
    devices = np.array(jax.devices())
    lowered = inspector.lower(jnp.sin, split(4, Mesh(devices[[6, 2, 7, 1]], ("x",))))
    smaller, whole = lowered.compile(target="cpu:4"), lowered.compile(target="cpu:8")
    (said,) = smaller.warnings
    assert said == (
        "The function's mesh names the devices 6, 2, 7, 1, but cpu:4 does not have all of them. The program is"
        " compiled for the devices 2, 1, 3, 0, in the same order."
    )
    assert device_ids(smaller.devices) == (2, 1, 3, 0)
    assert device_ids(whole.devices) == (6, 2, 7, 1)
    given = lowered.compile(inspector.Options(device_assignment=[[0, 3, 1, 2]]), target="cpu:4")
    assert (device_ids(given.devices), given.warnings) == ((0, 3, 1, 2), ())


def test_ids_and_kinds_are_read_from_texts() -> None:
    assert device_ids(("TPU v5 lite 3 at (1, 1, 0)", "cpu 0")) == (3, 0)
    assert device_kind("TPU v5 lite 3 at (1, 1, 0) core 1") == "TPU v5 lite"
    assert (
        device_ids(()) == device_ids(("cpu",)) == device_ids(("cpu 0", "cpu x")) == device_ids((f"cpu {10**30}",)) == ()
    )
