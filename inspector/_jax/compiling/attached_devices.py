"""This process's JAX installation and attached devices."""

from __future__ import annotations

import jax
import jaxlib.version
from jax._src import xla_bridge

from inspector import platforms


def attach_cpus(count: int) -> None:
    """Restricts this process to virtual CPU devices. Must be called before JAX starts a device.

    Skips the search for plugins: finding and loading them takes five times as long as starting a CPU client.

    Args:
      count: number of virtual devices.
    """
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)
    xla_bridge._plugins_registered = True


def installed_versions() -> dict[str, str]:
    """Returns the versions of `jax` and `jaxlib`. Starts no device."""
    return {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}


def attached_platform() -> str:
    """Returns the platform that JAX uses by default in this process, for example "cpu", "gpu" or "tpu"."""
    client = jax.local_devices()[0].client
    return platforms.attached(str(jax.default_backend()), str(client.platform_version)).name


def attached_device_kind() -> str:
    """Returns JAX's name for the kind of the attached devices."""
    return str(jax.local_devices()[0].device_kind)


def attached_compiler() -> str:
    """Returns the platform, device kind, device count and version of the compiler for this process's attached devices."""
    devices = jax.local_devices()
    first = devices[0]
    return f"{first.platform} {first.device_kind} x{len(devices)} {first.client.platform_version}"


def attached_device_count() -> int:
    """Returns the number of devices of the default platform that belong to this process."""
    return int(jax.local_device_count())
