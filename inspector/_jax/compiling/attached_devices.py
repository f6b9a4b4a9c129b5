"""What this process has: its JAX, and the devices attached to it."""

from __future__ import annotations

import jax
import jaxlib.version
from jax._src import xla_bridge

from inspector import platforms


def attach_cpus(count: int) -> None:
    """Makes this a process of CPU devices alone. Before JAX starts any.

    Plugins are not looked for: to find and load them takes five times as long as to start a CPU client.

    Args:
      count: of virtual devices.
    """
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)
    xla_bridge._plugins_registered = True


def installed_versions() -> dict[str, str]:
    """Of `jax` and `jaxlib`. Starts no device."""
    return {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}


def attached_platform() -> str:
    """The platform that JAX uses by default in this process, such as "cpu", "gpu" or "tpu"."""
    client = jax.local_devices()[0].client
    return platforms.attached(str(jax.default_backend()), str(client.platform_version)).name


def attached_device_kind() -> str:
    """What JAX calls the attached devices."""
    return str(jax.local_devices()[0].device_kind)


def attached_compiler() -> str:
    """Who compiles for the attached devices of this process: platform, kind and number, version."""
    devices = jax.local_devices()
    first = devices[0]
    return f"{first.platform} {first.device_kind} x{len(devices)} {first.client.platform_version}"


def attached_device_count() -> int:
    """Devices of that platform that belong to this process."""
    return int(jax.local_device_count())
