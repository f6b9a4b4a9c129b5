"""`Installation`: what an exploration was recorded with: versions, flags, devices."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Mapping

from inspector.support import packages
from inspector.support.units import format_list

# What compiles, and what is told of it besides Python: distributions by name.
_DISTRIBUTIONS = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "jax-rocm7-plugin",
    "jax-inspector",
)
_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_PLATFORMS")


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Installation:
    """What something was recorded with.

    Attributes:
      versions: of Python, and of the distributions that are there.
      flags: the environment variables that compilers read, where they are set.
      device_kinds: the devices that were compiled for.
      system: operating system and machine.
    """

    versions: Mapping[str, str]
    flags: Mapping[str, str]
    device_kinds: tuple[str, ...]
    system: str

    @classmethod
    def here(cls, device_kinds: Iterable[str] = ()) -> Installation:
        """That of this process."""
        found = {"python": platform.python_version()}
        found |= {name: version for name in _DISTRIBUTIONS if (version := packages.version(name))}
        flags = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
        return cls(found, flags, tuple(dict.fromkeys(device_kinds)), f"{platform.system()} {platform.machine()}")

    @property
    def jax(self) -> str:
        """The version of JAX, "" where that is not known."""
        return self.versions.get("jax", "")

    def __str__(self) -> str:
        said = format_list([f"{name} {version}" for name, version in self.versions.items()])
        flags = "".join(f", {name}={value}" for name, value in self.flags.items())
        return f"{said} on {self.system}{flags}"

    def __repr__(self) -> str:
        return f"<Installation {self}>"
