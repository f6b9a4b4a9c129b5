"""Compiles ahead of time for devices that are not attached: TPU slices and GPUs.

Each platform's compiler describes the devices of a topology without touching hardware, and jaxlib's compile-only client
compiles for these descriptions. The resulting programs cannot be run in this process. Code that differs between platforms is
in the module that each platform names (`Platform.plugin`).
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import jax
import numpy as np
from jax.experimental import mesh_utils
from jaxlib import _jax, xla_client

from inspector import platforms
from inspector._jax.compiling import compile_options
from inspector._jax.compiling.attached_devices import attached_platform
from inspector._jax.compiling.compiler import Compiler, Watch
from inspector._jax.compiling.execution import Runnable
from inspector._jax.compiling.report import Costing, Report, as_reported
from inspector._jax.compiling.slices import Slice
from inspector._jax.lowering.callbacks import HostCallbacks
from inspector._jax.values import Facts
from inspector.errors import TargetError, Unavailable
from inspector.support.install_commands import sentence


class Plugin(Protocol):
    """The compiler of a platform; the interface that each platform's module implements."""

    def missing(self) -> Unavailable | None:
        """Returns why it cannot compile for devices that are not attached; None if it can. Loads nothing."""

    def shortcoming(self) -> str:
        """Returns the limitation of compiles on this machine, "" if there is none. Loads nothing."""

    def refusal(self, chip: platforms.Chip) -> str:
        """Returns why it cannot compile for a chip, "" if it can. Loads nothing."""

    def version(self) -> str:
        """Returns the packages that compile, with their versions. Loads nothing."""

    def prepare(self, load_args: Sequence[str]) -> None:
        """Loads it into this process with flags that are read only once. For workers only."""

    def devices(self, slice_: Slice) -> list[Any]:
        """Returns descriptions of the devices of a topology."""

    def compile_with(
        self, compile_: Callable[..., Compiled], module: bytes, build_options: Facts, watch: Watch | None,
        compiler: AbsentCompiler, **rest: Any,
    ) -> Compiled:  # fmt: skip
        """Calls `compile_` and explains its errors."""


Compiled = tuple[Runnable | None, Report]
"""Result of a compiler's `compile`."""


def why_not(platform: str, chip: platforms.Chip) -> tuple[str, str]:
    """Returns why a chip that is not attached cannot be compiled for, and the limitation of such a compile; "" for none. Loads nothing."""
    plugin = _plugin_of(platform)
    missing = plugin.missing()
    refusal = f"{missing.reason}. {sentence(missing.remedy)}" if missing is not None else plugin.refusal(chip)
    return refusal, plugin.shortcoming()


def _plugin_of(platform: str) -> Plugin:
    """Returns the compiler of a platform for devices that are not attached.

    Raises:
      TargetError: the platform has no such compiler.
    """
    module = platforms.named(platform).plugin
    if not module:
        raise TargetError(f"inspector can compile for {platform} only on a machine where one is attached.")
    return cast(Plugin, importlib.import_module(f"inspector._jax.compiling.{module}"))


def absent_platform(platform: str) -> Unavailable | None:
    """Returns why no device of a platform ("tpu", "gpu") can be compiled for on this machine; None if it can. Loads nothing."""
    return _plugin_of(platform).missing()


def absent_compiler(platform: str) -> str:
    """Returns the packages that compile for a platform on this machine, with their versions. Loads nothing."""
    return _plugin_of(platform).version()


def prepare_process(platform: str, load_args: Sequence[str]) -> None:
    """Loads a platform's library into this process with flags that are read only once. For workers only.

    Args:
      platform: for example "tpu" or "gpu".
      load_args: flags of libtpu, for example "--xla_jf_dump_llo_text=true", appended to those of the environment.

    Raises:
      TargetError: the library is not installed or fails to load.
    """
    _plugin_of(platform).prepare(load_args)


def attached_slice() -> Slice:
    """Returns the accelerators attached to this process, as a slice for which another process can compile ahead of time.

    Raises:
      TargetError: this jaxlib cannot describe them.
    """
    devices = jax.local_devices()
    first = devices[0]
    serialized = ""
    with contextlib.suppress(AttributeError):  # in jaxlib 0.12, not in 0.10.2
        serialized = base64.b64encode(_jax.get_topology_for_devices(devices).serialize()).decode()
    platform = attached_platform()
    if not serialized and platform != platforms.CUDA.name:  # the CUDA plugin identifies GPUs by their device kind
        raise TargetError(
            f"This jaxlib cannot describe the attached {first.device_kind} to another process, which an isolated compile"
            " needs. Update JAX to 0.12, or remove isolate."
        )
    return Slice(platform, first.device_kind, (1, len(devices)), serialized=serialized)


class AbsentCompiler(Compiler):
    """The ahead-of-time compiler for a slice."""

    can_run = False

    def __init__(self, slice_: Slice) -> None:
        """Loads the platform's compiler into this process, after `prepare_process`.

        Raises:
          TargetError: the compiler is not installed, or does not support this slice.
        """
        self._plugin = _plugin_of(slice_.platform)
        self._take_devices(_devices(slice_))
        self.platform = slice_.platform  # a compile-only client may not report its platform

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the compiler: `jax`, `jaxlib`, `platform_version`."""
        return {**super().versions, "platform_version": self._plugin.version()}

    def compile(
        self,
        module: bytes,
        build_options: Facts,
        *,
        platform: str,
        callbacks: HostCallbacks | None = None,
        progress: Callable[[str], None] = lambda _: None,
        watch: Watch | None = None,
        costing: Costing = as_reported,
    ) -> tuple[Runnable | None, Report]:
        """Compiles like `Compiler.compile`, without an executable to run: the first element of the pair is None."""
        return self._plugin.compile_with(
            super().compile, module, build_options, watch, self,
            platform=platform, callbacks=callbacks, progress=progress, costing=costing,
        )  # fmt: skip

    def _compile_module(
        self, parsed: Any, assignment: np.ndarray, options: xla_client.CompileOptions, host_callbacks: Sequence[Any]
    ) -> Any:
        if host_callbacks:
            raise TargetError(
                "The program calls back into this process (jax.debug.print, io_callback, pure_callback), which is not possible on a"
                " device that is not attached. Remove the callbacks to compile for it."
            )
        return self._backend.compile(parsed, xla_client.DeviceList(tuple(assignment.flat)), options)

    def _assign(self, build_options: Mapping[str, Any]) -> np.ndarray:
        """Returns the devices of a program.

        In order of preference: the requested ones, those that the program names, a mesh as JAX would lay it over the
        slice, the first ones.
        """
        assignment = compile_options.device_assignment(build_options, self.devices)
        shape = build_options.get("mesh_shape")
        is_given = (
            build_options.get("device_assignment") or len(build_options.get("device_ids") or ()) == assignment.size
        )
        if is_given or not shape or assignment.size != len(self.devices):
            return assignment
        if math.prod(shape) != assignment.size or self.platform != platforms.TPU.name:
            return assignment
        try:
            laid = mesh_utils.create_device_mesh(shape, list(self.devices), allow_split_physical_axes=True)
        except (ValueError, NotImplementedError, AssertionError):  # JAX has no rule for this mesh; any order is valid
            return assignment
        return laid.reshape(assignment.shape)


def _devices(slice_: Slice) -> list[Any]:
    if not slice_.serialized:
        return _plugin_of(slice_.platform).devices(slice_)
    topology = _jax.DeviceTopology.deserialize(base64.b64decode(slice_.serialized))
    return list(topology._make_compile_only_devices())
