"""Compiles ahead of time for devices that are not here: TPU slices and GPUs.

Each platform's compiler describes the devices of a topology without touching hardware; jaxlib's compile-only client
takes those. What it makes cannot be run here. What differs between the platforms is in the module that each names
(`Platform.plugin`).
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
    """A platform's compiler, as its module offers it."""

    def missing(self) -> Unavailable | None:
        """Why it cannot compile for any device that is not here; None when it can. Loads nothing."""

    def shortcoming(self) -> str:
        """What it cannot do here though it compiles, "" when it can do all. Loads nothing."""

    def refusal(self, chip: platforms.Chip) -> str:
        """Why it does not compile for a chip, "" when it does. Loads nothing."""

    def version(self) -> str:
        """Who compiles: packages with their versions. Loads nothing."""

    def prepare(self, load_args: Sequence[str]) -> None:
        """Loads it into this process with flags that it reads once. For workers only."""

    def devices(self, slice_: Slice) -> list[Any]:
        """Describes devices of a topology."""

    def compile_with(
        self, compile_: Callable[..., Compiled], module: bytes, build_options: Facts, watch: Watch | None,
        compiler: AbsentCompiler, **rest: Any,
    ) -> Compiled:  # fmt: skip
        """Calls `compile_`, and explains its errors."""


Compiled = tuple[Runnable | None, Report]
"""What a compiler's `compile` gives."""


def why_not(platform: str, chip: platforms.Chip) -> tuple[str, str]:
    """Why a chip that is not here cannot be compiled for, and what such a compile lacks; "" each for nothing. Loads nothing."""
    plugin = _plugin_of(platform)
    missing = plugin.missing()
    refusal = f"{missing.reason}. {sentence(missing.remedy)}" if missing is not None else plugin.refusal(chip)
    return refusal, plugin.shortcoming()


def _plugin_of(platform: str) -> Plugin:
    """The compiler of a platform for devices that are not here.

    Raises:
      TargetError: it has none.
    """
    module = platforms.named(platform).plugin
    if not module:
        raise TargetError(f"inspector compiles for {platform} only where it is attached.")
    return cast(Plugin, importlib.import_module(f"inspector._jax.compiling.{module}"))


def absent_platform(platform: str) -> Unavailable | None:
    """Why no device of a platform ("tpu", "gpu") can be compiled for here; None when it can. Loads nothing."""
    return _plugin_of(platform).missing()


def absent_compiler(platform: str) -> str:
    """Who compiles for a platform here: packages with their versions. Loads nothing."""
    return _plugin_of(platform).version()


def prepare_process(platform: str, load_args: Sequence[str]) -> None:
    """Loads a platform's library into this process with what it reads once. For workers only.

    Args:
      platform: such as "tpu" or "gpu".
      load_args: flags of libtpu, such as "--xla_jf_dump_llo_text=true", after those of the environment.

    Raises:
      TargetError: it is not installed, or does not load.
    """
    _plugin_of(platform).prepare(load_args)


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
    platform = attached_platform()
    if not serialized and platform != platforms.CUDA.name:  # whose plugin knows them by their kind
        raise TargetError(
            f"This jaxlib cannot describe the attached {first.device_kind} to another process, which a compile apart from"
            " this process needs. Update JAX to 0.12, or leave isolate out."
        )
    return Slice(platform, first.device_kind, (1, len(devices)), serialized=serialized)


class AbsentCompiler(Compiler):
    """The compiler of a slice."""

    can_run = False

    def __init__(self, slice_: Slice) -> None:
        """Loads the platform's compiler into this process, which `prepare_process` has prepared.

        Raises:
          TargetError: it is not installed, or knows no such slice.
        """
        self._plugin = _plugin_of(slice_.platform)
        self._take_devices(_devices(slice_))
        self.platform = slice_.platform  # a client that only compiles need not say whose it is

    @property
    def versions(self) -> dict[str, str]:
        """Who compiles: `jax`, `jaxlib`, `platform_version`."""
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
        """As `Compiler.compile`; there is no executable to run, so the first of the pair is None."""
        return self._plugin.compile_with(
            super().compile, module, build_options, watch, self,
            platform=platform, callbacks=callbacks, progress=progress, costing=costing,
        )  # fmt: skip

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
        """The given devices; else those that the program names; else those of a mesh as JAX would lay it over the slice; else the first ones."""
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
        except (ValueError, NotImplementedError, AssertionError):  # JAX knows no such mesh; any order is right
            return assignment
        return laid.reshape(assignment.shape)


def _devices(slice_: Slice) -> list[Any]:
    if not slice_.serialized:
        return _plugin_of(slice_.platform).devices(slice_)
    topology = _jax.DeviceTopology.deserialize(base64.b64decode(slice_.serialized))
    return list(topology._make_compile_only_devices())
