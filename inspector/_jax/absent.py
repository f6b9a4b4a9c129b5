"""Compiles ahead of time for devices that are not here: TPU slices and GPUs.

libtpu and JAX's CUDA plugin each describe the devices of a topology without touching hardware; jaxlib's
compile-only client takes those. What it makes cannot be run here.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge
from jax.experimental import mesh_utils
from jaxlib import _jax, xla_client

from inspector._jax import compile_options, cuda_plugin, libtpu
from inspector._jax.client import Client, Watch
from inspector._jax.products import EarlyProducts, Products
from inspector._jax.slices import Slice
from inspector.errors import CompilationError, MissingPackageError, TargetError, Unavailable

_DATA_FOLDER_FLAG = "xla_gpu_cuda_data_dir"

# By words of XLA's error.
_LACKING = {
    "No FFI handler registered for": "calls one of NVIDIA's libraries (cuSOLVER, cuDNN ...)",
    "_mosaic_gpu": "has a Pallas kernel for Mosaic GPU, whose runtime is a part of JAX's CUDA packages",
}


def absent_platform(platform: str) -> Unavailable | None:
    """Why no device of the platform ("tpu", "gpu") can be compiled for here; None when it can. Loads nothing."""
    if platform == "gpu":
        library = cuda_plugin.plugin_library()
        return library if isinstance(library, Unavailable) else None
    try:
        libtpu.libtpu_library()
    except MissingPackageError:
        return Unavailable("libtpu, the TPU's compiler, is not installed", libtpu.REMEDY)
    return None


def absent_compiler(platform: str) -> str:
    """Who compiles for a platform here: packages with their versions. Loads nothing."""
    if platform == "gpu":
        return cuda_plugin.plugin_version()
    return f"libtpu {libtpu.libtpu_version() or os.environ.get('TPU_LIBRARY_PATH', '')}"


def prepare_process(platform: str, init_args: Sequence[str]) -> None:
    """Loads a platform's library into this process with what it reads once. For workers only.

    Args:
      platform: "tpu" or "gpu".
      init_args: flags of libtpu, such as "--xla_jf_dump_llo_text=true", after those of the environment.

    Raises:
      TargetError: it is not installed, or does not load.
    """
    if platform == "gpu":
        cuda_plugin.hide_machine_toolkit()
        cuda_plugin.load()
        return
    os.environ.update(libtpu.load_variables())
    os.environ["LIBTPU_INIT_ARGS"] = " ".join([os.environ.get("LIBTPU_INIT_ARGS", ""), *init_args]).strip()
    _tpu_devices(Slice("tpu", "v5e", (2, 2)))  # what libtpu says when it is loaded belongs to no request


def attached_slice() -> Slice:
    """The accelerators of this process as another process can compile for them ahead of time.

    Raises:
      TargetError: this jaxlib cannot describe them.
    """
    devices = jax.local_devices()
    first = devices[0]
    serialized = ""
    with contextlib.suppress(AttributeError):  # jaxlib 0.12 has it, 0.10.2 has not
        serialized = base64.b64encode(_jax.get_topology_for_devices(devices).serialize()).decode()
    if not serialized and first.platform != "gpu":
        raise TargetError(
            f"This jaxlib cannot describe the attached {first.device_kind} to another process, which a compile apart from"
            " this process needs. Update JAX to 0.12, or leave isolate out."
        )
    return Slice(first.platform, first.device_kind, (1, len(devices)), serialized=serialized)


class AbsentClient(Client):
    """The compile-only client of a slice."""

    can_run = False

    def __init__(self, slice_: Slice) -> None:
        """Loads the platform's compiler into this process, which `prepare_process` has prepared.

        Raises:
          TargetError: it is not installed, or knows no such slice.
        """
        self._take_devices(_devices(slice_))
        self._slice = slice_

    @property
    def versions(self) -> dict[str, str]:
        """Who compiles: `jax`, `jaxlib`, `platform_version`."""
        return {**super().versions, "platform_version": absent_compiler(self._slice.platform)}

    def compile(
        self, module: bytes, build_options: Mapping[str, Any], *, watch: Watch | None = None, **rest: Any
    ) -> tuple[Any, Products]:
        """As `Client.compile`; there is no executable to run, so the first of the pair is None."""
        if self._slice.platform == "tpu":
            try:
                return super().compile(module, build_options, watch=watch, **rest)
            except CompilationError as error:
                if "should include all slice devices" not in str(error):
                    raise
                raise CompilationError(
                    f"{error} On a slice as large as this a program takes one device or all {len(self.devices)}. Compile it"
                    " for a slice that has as many devices as the program."
                ) from error
        return self._compile_for_gpu(module, build_options, watch, rest)

    def _compile_for_gpu(
        self, module: bytes, build_options: Mapping[str, Any], watch: Watch | None, rest: Mapping[str, Any]
    ) -> tuple[Any, Products]:
        tools, flags = cuda_plugin.toolkit(), dict(build_options.get("flags") or {})
        # Without one, XLA would look for the machine's own toolkit.
        folder = "/nonexistent" if isinstance(tools, Unavailable) else str(tools)
        flags.setdefault(_DATA_FOLDER_FLAG, folder)
        early: list[EarlyProducts] = []

        def take(products: EarlyProducts) -> None:
            early.append(products)
            if watch is not None and watch.take is not None:
                watch.take(products)

        watching = None if watch is None else dataclasses.replace(watch, take=take)
        try:
            executable, products = super().compile(module, {**build_options, "flags": flags}, watch=watching, **rest)
        except CompilationError as error:
            lacking = next((what for words, what in _LACKING.items() if words in str(error)), None)
            if lacking is not None:
                raise CompilationError(
                    f"{error} The program {lacking}, which the set for GPUs that are not here does not have. Compile it"
                    " on a machine with a GPU, for 'attached'."
                ) from error
            if not isinstance(tools, Unavailable) or not early:
                raise
            return None, _without_code(early[0], self.versions, tools)
        if isinstance(
            tools, Unavailable
        ):  # XLA found a toolkit of the machine: elsewhere there is none, or another one
            products = dataclasses.replace(products, executable=tools)
        return executable, products

    def _compile_module(
        self, parsed: Any, assignment: np.ndarray, options: xla_client.CompileOptions, host_callbacks: Sequence[Any]
    ) -> Any:
        if host_callbacks:
            raise TargetError(
                "The program calls back into this process (jax.debug.print, io_callback, pure_callback), which a"
                " device that is not here cannot do. Leave the callbacks out to compile for it."
            )
        return self._backend.compile(parsed, xla_client.DeviceList(tuple(assignment.flat)), options)

    def _assign(self, build_options: Mapping[str, Any]) -> np.ndarray:
        """The given devices; else those of a mesh as JAX would lay it over the slice; else the first ones."""
        assignment = compile_options.device_assignment(build_options, self.devices)
        shape = build_options.get("mesh_shape")
        if build_options.get("device_assignment") or not shape or assignment.size != len(self.devices):
            return assignment
        if math.prod(shape) != assignment.size or self._slice.platform != "tpu":
            return assignment
        try:
            laid = mesh_utils.create_device_mesh(shape, list(self.devices), allow_split_physical_axes=True)
        except (ValueError, NotImplementedError, AssertionError):  # JAX knows no such mesh; any order is right
            return assignment
        return laid.reshape(assignment.shape)


def _devices(slice_: Slice) -> list[Any]:
    if not slice_.serialized:
        return _tpu_devices(slice_) if slice_.platform == "tpu" else _gpu_devices(slice_)
    topology = _jax.DeviceTopology.deserialize(base64.b64decode(slice_.serialized))
    return list(topology._make_compile_only_devices())


def _tpu_devices(slice_: Slice) -> list[Any]:
    reason = absent_platform("tpu")
    if reason is not None:
        raise TargetError(f"No TPU can be compiled for: {reason.reason}. {reason.remedy}")
    name = f"{slice_.chip}:{'x'.join(map(str, slice_.topology))}"
    given: dict[str, Any] = {"chip_config_name": slice_.chip_config} if slice_.chip_config else {}
    if math.prod(slice_.topology) == 1:
        given["chips_per_host_bounds"] = [1, 1, 1]
    try:
        return list(xla_bridge.make_pjrt_tpu_topology(name, **given)._make_compile_only_devices())
    except Exception as e:
        raise TargetError(f"libtpu knows no TPU slice {name!r}: {e}") from e


def _gpu_devices(slice_: Slice) -> list[Any]:
    cuda_plugin.load()
    hosts, per_host = slice_.topology
    given = {"target_config": cuda_plugin.configuration(slice_.chip), "topology": f"1x{hosts}x{per_host}"}
    try:
        return list(_jax.get_default_c_api_topology("cuda", "", given)._make_compile_only_devices())
    except Exception as e:
        raise TargetError(f"JAX's CUDA plugin takes no {hosts} x {per_host} {slice_.chip}: {e}") from e


def _without_code(early: EarlyProducts, versions: Mapping[str, str], reason: Unavailable) -> Products:
    return Products(
        hlo=early.hlo,
        hlo_proto=early.hlo_proto,
        memory=Unavailable("there was no code to ask"),
        cost=early.cost,
        executable=reason,
        timings={},
        versions=versions,
        buffer_assignment=early.buffer_assignment,
    )
