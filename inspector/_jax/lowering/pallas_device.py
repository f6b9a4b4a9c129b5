"""Makes Pallas kernels see another device while they are lowered for one that is not attached.

A kernel's lowering queries the device generation, for tilings and for the features of the chip. JAX's own way
to answer without the device, an abstract mesh, does not reach kernels inside `shard_map`, whose
mesh has its own devices. So during a lowering, this module makes this process's device look like the other one,
through JAX's registry of chips that it does not know.

Private JAX: `tpu_info` and `gpu_info`: `registry`, `get_tpu_info`, `get_gpu_info`, `is_tpu_device`;
`pxla.get_default_device`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jax._src.interpreters import pxla

from inspector._jax.lowering.separate_traces import separate_traces

# The registry belongs to the process, so only one lowering at a time may replace the device.
_standing_in = threading.RLock()


@contextlib.contextmanager
def as_if_on(platform: str, device_kind: str, architecture: str = "") -> Iterator[None]:
    """Makes kernels see a device of another kind; has no effect if this process's device is of the same platform.

    Args:
      platform: "tpu" or "gpu"; has no effect for other platforms.
      device_kind: as JAX names it, for example "TPU v5 lite" or "NVIDIA H100 80GB HBM3".
      architecture: architecture of a GPU whose device kind Pallas does not know.
    """
    chips = _chips(platform)
    if chips is None:
        yield
        return
    module, getter, info = chips
    here = pxla.get_default_device()
    if here.platform == platform:
        yield
        return
    with _standing_in, separate_traces(device_kind), _with_tpu_device(platform):
        before = module.registry.get(here.device_kind)
        module.registry[here.device_kind] = lambda: info(device_kind, architecture)
        getter.cache_clear()
        try:
            yield
        finally:
            module.registry.pop(here.device_kind)
            if before is not None:
                module.registry[here.device_kind] = before
            getter.cache_clear()


@contextlib.contextmanager
def _with_tpu_device(platform: str) -> Iterator[None]:
    """Makes JAX report a TPU device: otherwise it does not lower kernels for a TPU's SparseCores. JAX checks the device kind itself."""
    module = sys.modules.get(f"{_PALLAS}.mosaic.tpu_info") if platform == "tpu" else None
    if module is None:
        yield
        return
    before = module.is_tpu_device
    module.is_tpu_device = lambda: True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.is_tpu_device = before  # type: ignore[attr-defined]


def _chips(platform: str) -> tuple[Any, Any, Callable[[str, str], Any]] | None:
    """Returns the module that describes chips, the function that kernels call, and its replacement; None before Pallas is imported."""
    if platform == "tpu":
        for name in ("jax._src.tpu_info", f"{_PALLAS}.mosaic.tpu_info"):
            module: Any = sys.modules.get(name)
            if module is not None and hasattr(module, "registry"):
                return module, module.get_tpu_info, functools.partial(_tpu, module)
    if platform == "gpu" and _PALLAS in sys.modules:
        with contextlib.suppress(ImportError):  # new in JAX 0.12; before, kernels queried JAX's own devices
            module = importlib.import_module(f"{_PALLAS}.triton.gpu_info")
            return module, module.get_gpu_info, functools.partial(_gpu, module)
    return None


_PALLAS = "jax._src.pallas"


def _tpu(module: Any, kind: str, _architecture: str) -> Any:
    version = module.chip_version_from_device_kind(kind)
    cores = 2 if version.supports_megacore else 1
    return module.get_tpu_info_for_chip(version, cores)


def _gpu(module: Any, kind: str, architecture: str) -> Any:
    version = module.gpu_version_from_device_kind(kind)
    if version is None and architecture:
        return module.GpuInfo(gpu_version=None, arch_name=architecture, compute_capability=0)
    if version is None:
        raise ValueError(f"Pallas does not support the GPU {kind!r}")
    return module.get_gpu_info_from_version(version)
