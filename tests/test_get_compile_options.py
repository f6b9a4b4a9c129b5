"""`get_compile_options` against JAX's own function, byte for byte, and against what XLA does with it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compiler
from jaxlib import xla_client

import inspector
from inspector.errors import FlagTypeError, OptionError, UnknownFlagError
from inspector.toolchain.xla import options_message

PARAMETERS = [
    "num_replicas",
    "num_partitions",
    "device_assignment",
    "use_spmd_partitioning",
    "use_shardy_partitioner",
    "use_auto_spmd_partitioning",
    "auto_spmd_partitioning_mesh_shape",
    "auto_spmd_partitioning_mesh_ids",
    "env_options_overrides",
    "fdo_profile",
    "detailed_logging",
    "backend",
]


def proto(options: xla_client.CompileOptions) -> Any:
    return type(options_message()).FromString(options.SerializeAsString())


def build(**parameters: Any) -> Any:
    """`executable_build_options` of what is returned, through jaxlib's own serialization."""
    return proto(inspector.get_compile_options(**{"num_replicas": 1, "num_partitions": 1, **parameters})).executable_build_options  # fmt: skip


def test_get_compile_options_has_the_documented_parameters() -> None:
    assert list(inspect.signature(inspector.get_compile_options).parameters) == PARAMETERS


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"num_replicas": 2, "num_partitions": 4},
        {"num_replicas": np.int64(3)},
        {"num_replicas": 2, "num_partitions": 2, "device_assignment": np.arange(4).reshape(2, 2)},
        {"num_replicas": 3, "device_assignment": [5, 0, 2]},
        {"env_options_overrides": {"xla_cpu_enable_fast_math": True, "xla_dump_to": "/tmp/a"}},
        {"env_options_overrides": {"xla_backend_optimization_level": 1, "xla_cpu_scheduler_type": 1}},
        {"fdo_profile": b"\x00profile"},
        {"detailed_logging": False},
    ],
)
@pytest.mark.parametrize("with_backend", [False, True])
def test_get_compile_options_equals_the_function_of_jax(parameters: dict[str, Any], with_backend: bool) -> None:
    said = {"num_replicas": 1, "num_partitions": 1, **parameters}
    if with_backend:
        said["backend"] = jax.devices()[0].client
    ours = inspector.get_compile_options(**said)
    assert isinstance(ours, xla_client.CompileOptions)
    assert ours.SerializeAsString() == compiler.get_compile_options(**said).SerializeAsString()


def test_devices_are_taken_as_their_ids() -> None:
    devices = np.array(jax.devices()[:4]).reshape(2, 2)
    said = {"num_replicas": 2, "num_partitions": 2, "device_assignment": devices}
    expected = compiler.get_compile_options(**said).SerializeAsString()
    assert inspector.get_compile_options(**said).SerializeAsString() == expected


@pytest.fixture(params=[True, False])
def shardy(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", request.param)
    yield request.param
    jax.config.update("jax_use_shardy_partitioner", before)


def test_the_default_partitioner_is_that_of_jax(shardy: bool) -> None:
    assert build().use_shardy_partitioner is shardy
    assert build(use_shardy_partitioner=not shardy).use_shardy_partitioner is not shardy


def test_jaxs_configuration_counts() -> None:
    jax.config.update("jax_xla_profile_version", 7)
    try:
        assert proto(inspector.get_compile_options(1, 1)).profile_version == 7
    finally:
        jax.config.update("jax_xla_profile_version", 0)
    assert proto(inspector.get_compile_options(1, 1)).profile_version == -1


def test_mpmd() -> None:
    assert build().use_spmd_partitioning
    assert not build(use_spmd_partitioning=False).use_spmd_partitioning


def test_automatic_partitioning_is_set_under_gspmd_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="GSPMD ignores it"):
        options = build(
            num_partitions=4, use_shardy_partitioner=False, use_auto_spmd_partitioning=True,
            auto_spmd_partitioning_mesh_shape=[2, 2], auto_spmd_partitioning_mesh_ids=(3, 2, 1, 0),
        )  # fmt: skip
    assert options.use_auto_spmd_partitioning
    assert list(options.auto_spmd_partitioning_mesh_shape) == [2, 2]
    assert list(options.auto_spmd_partitioning_mesh_ids) == [3, 2, 1, 0]


def test_flags_may_be_texts_and_fields_of_any_message() -> None:
    options = inspector.get_compile_options(
        1, 1, env_options_overrides={"xla_cpu_enable_fast_math": "true", "optimization_level": "O1",
                                     "xla_backend_extra_options": "a=1"},
    )  # fmt: skip
    found = proto(options)
    assert found.env_option_overrides["xla_cpu_enable_fast_math"].bool_field is True
    assert list(found.env_option_overrides) == ["xla_cpu_enable_fast_math"]
    assert found.executable_build_options.optimization_level == compiler_level("EFFORT_O1")
    assert dict(found.executable_build_options.debug_options.xla_backend_extra_options) == {"a": "1"}


def compiler_level(name: str) -> int:
    field = options_message().executable_build_options.DESCRIPTOR.fields_by_name["optimization_level"]
    return int(field.enum_type.values_by_name[name].number)


def test_flags_that_only_another_backend_knows_are_left_to_it() -> None:
    class Tpu:
        platform = "tpu"

    given = {"xla_tpu_x": True, "--xla_dump_max_hlo_modules": "3", "xla_tpu_y": 2}
    overrides = proto(
        inspector.get_compile_options(1, 1, env_options_overrides=given, backend=Tpu())
    ).env_option_overrides
    assert set(overrides) == {"xla_tpu_x", "xla_dump_max_hlo_modules", "xla_tpu_y"}
    assert overrides["xla_tpu_x"].bool_field is True
    assert overrides["xla_dump_max_hlo_modules"].int_field == 3


AUTO = {"use_auto_spmd_partitioning": True, "use_shardy_partitioner": False, "num_partitions": 4}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_replicas": 0}, "num_replicas must be an integer from 1 (XLA aborts on 0) to 2147483647, got 0"),
    ({"num_partitions": 2**31}, "got 2147483648"),
    ({"num_partitions": -1}, "got -1"),
    ({"num_replicas": True}, "got True"),
    ({"num_replicas": 1.5}, "got 1.5"),
    ({"device_assignment": [[0, 1]]}, "has the shape (1, 2), expected (1, 1)"),
    ({"num_partitions": 2, "device_assignment": [0, 1]}, "has the shape (2,), expected (1, 2)"),
    ({"num_replicas": 2, "device_assignment": [3, 3]}, "repeats a device: [[3], [3]]"),
    ({"num_replicas": 2, "device_assignment": [0, 99]}, "contains unknown devices [99]; the devices are [0, 1, 2,"),
    ({"device_assignment": [-1]}, "must contain devices or device ids, got [[-1]]"),
    ({"device_assignment": [0.5]}, "must contain devices or device ids, got [[0.5]]"),
    ({"device_assignment": ["cpu"]}, "must contain devices or device ids"),
    ({"num_replicas": 2, "device_assignment": [[0], [1, 2]]}, "one column per partition, (2, 1); got [[0], [1, 2]]"),
    ({"use_spmd_partitioning": 1}, "use_spmd_partitioning must be True or False, got 1"),
    ({"use_shardy_partitioner": "yes"}, "use_shardy_partitioner must be True or False, got 'yes'"),
    ({"detailed_logging": None}, "detailed_logging must be True or False, got None"),
    ({"fdo_profile": "text"}, "fdo_profile must be the bytes of a profile, got str"),
    ({"use_auto_spmd_partitioning": True, "use_shardy_partitioner": True}, "with Shardy makes XLA abort"),
    ({"auto_spmd_partitioning_mesh_shape": [1]}, "no effect without use_auto_spmd_partitioning=True"),
    ({**AUTO, "auto_spmd_partitioning_mesh_shape": [2, 3]}, "has 6 devices, expected 4"),
    ({**AUTO, "auto_spmd_partitioning_mesh_shape": [-4]}, "needs integers"),
    ({**AUTO, "auto_spmd_partitioning_mesh_ids": [0, 1, 2, 2]}, "must be 4 different ids"),
    ({**AUTO, "auto_spmd_partitioning_mesh_shape": 8}, "[8] has 8 devices, expected 4"),
    ({"env_options_overrides": {"num_replicas": 2}}, "not a flag but a field of Options"),
    ({"env_options_overrides": "--xla_dump_to=a"}, "must be a dict with names of flags as keys, got '--xla_dump_to=a'"),
    ({"env_options_overrides": {5: True}}, "must be a dict with names of flags as keys, got {5: True}"),
    ({"env_options_overrides": {"xla_force_host_platform_device_count": 8}}, "not by a compile"),
    ({"backend": "cpu"}, "backend must be a client, such as jax.devices()[0].client, got 'cpu'"),
]


@pytest.mark.parametrize(("parameters", "words"), REFUSED)
def test_options_that_xla_would_ignore_are_refused(parameters: dict[str, Any], words: str) -> None:
    jax.devices()  # ids are checked against the devices of a JAX that has started
    with pytest.raises(OptionError) as caught:
        build(**parameters)
    assert words in str(caught.value)


def test_flags_are_checked() -> None:
    with pytest.raises(UnknownFlagError, match="Did you mean xla_cpu_enable_fast_math"):
        build(env_options_overrides={"xla_cpu_enable_fast_mth": True})
    with pytest.raises(FlagTypeError, match="got 1 "):
        build(env_options_overrides={"xla_cpu_enable_fast_math": 1})


def test_xla_compiles_with_them() -> None:
    client = jax.devices()[0].client
    lowered = jax.jit(lambda x: x * 2).lower(jnp.ones(4))
    options = inspector.get_compile_options(
        1, 1, [[3]], env_options_overrides={"xla_cpu_enable_fast_math": True}, backend=client
    )
    devices = xla_client.DeviceList((jax.devices()[3],))
    executable = client.compile_and_load(lowered.compiler_ir(), executable_devices=devices, compile_options=options)
    assert "multiply" in executable.hlo_modules()[0].to_string()
    assert [device.id for device in executable.local_devices()] == [3]
