"""`Installation`: the versions, flags and devices with which an exploration was recorded."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Mapping

from inspector.support import packages
from inspector.support.units import format_list

# Distributions that compile, or that affect the description of a compile.
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
    """The installation with which something was recorded.

    Attributes:
      versions: versions of Python and of the installed distributions.
      flags: environment variables that compilers read, if they are set.
      device_kinds: kinds of the devices that programs were compiled for.
      system: operating system and machine.
    """

    versions: Mapping[str, str]
    flags: Mapping[str, str]
    device_kinds: tuple[str, ...]
    system: str

    @classmethod
    def here(cls, device_kinds: Iterable[str] = ()) -> Installation:
        """Returns the installation of this process."""
        versions = {"python": platform.python_version()}
        versions |= {name: version for name in _DISTRIBUTIONS if (version := packages.version(name))}
        flags = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
        return cls(versions, flags, tuple(dict.fromkeys(device_kinds)), f"{platform.system()} {platform.machine()}")

    @property
    def jax(self) -> str:
        """The version of JAX, "" if it is unknown."""
        return self.versions.get("jax", "")

    def __str__(self) -> str:
        versions = format_list([f"{name} {version}" for name, version in self.versions.items()])
        flags = "".join(f", {name}={value}" for name, value in self.flags.items())
        return f"{versions} on {self.system}{flags}"

    def __repr__(self) -> str:
        return f"<Installation {self}>"
