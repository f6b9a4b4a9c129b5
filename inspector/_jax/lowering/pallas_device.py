"""What Pallas kernels take for their device while they are lowered for one that is not here.

A kernel's lowering asks for the generation: of tilings, and of what the chip can do. JAX's own way
to answer without the device, an abstract mesh, does not reach kernels inside of `shard_map`, whose
mesh has devices of its own. So this process's device stands in for the other one, through JAX's
registry of chips that it does not know, while a lowering goes on.

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

import jax
from jax._src.interpreters import pxla

# The registry is one for the process: one lowering at a time may stand in.
_standing_in = threading.RLock()


@contextlib.contextmanager
def as_if_on(platform: str, device_kind: str, architecture: str = "") -> Iterator[None]:
    """While it is open, kernels see a device of that kind; nothing happens where this one is of the platform.

    Args:
      platform: "tpu" or "gpu"; on others nothing happens.
      device_kind: as JAX names it, such as "TPU v5 lite" or "NVIDIA H100 80GB HBM3".
      architecture: of a GPU that Pallas does not know by that.
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
    with _standing_in, _traces_of_their_own()(device_kind), _a_tpu_is_here(platform):
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


@functools.cache
def _traces_of_their_own() -> Callable[[str], contextlib.AbstractContextManager[None]]:
    """What is traced for one chip, JAX's caches must not give for another, nor for the device that is here.

    Made only where it is needed: from then on JAX traces anew what it has traced before.
    """
    context: Callable[[str], contextlib.AbstractContextManager[None]] = jax.make_user_context("")
    return context


@contextlib.contextmanager
def _a_tpu_is_here(platform: str) -> Iterator[None]:
    """Kernels for a TPU's SparseCores are lowered only where JAX says so, which asks for the device's kind itself."""
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
    """The module that tells chips, what kernels ask, and what it then says; None before Pallas is imported."""
    if platform == "tpu":
        for name in ("jax._src.tpu_info", f"{_PALLAS}.mosaic.tpu_info"):
            module: Any = sys.modules.get(name)
            if module is not None and hasattr(module, "registry"):
                return module, module.get_tpu_info, functools.partial(_tpu, module)
    if platform == "gpu" and _PALLAS in sys.modules:
        with contextlib.suppress(ImportError):  # new in JAX 0.12; before, kernels asked JAX for its devices
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
        raise ValueError(f"Pallas does not know the GPU {kind!r}")
    return module.get_gpu_info_from_version(version)
