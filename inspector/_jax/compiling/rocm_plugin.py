"""JAX's ROCm plugin (`absent.Plugin`), which compiles for GPUs that are attached: its library loads only beside ROCm's own.

Whether it compiles for others too, as the CUDA plugin does, nobody has tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector._jax.compiling.slices import Slice
from inspector.errors import TargetError, Unavailable
from inspector.platforms import Chip
from inspector.support import packages
from inspector.support.install_commands import install_command

if TYPE_CHECKING:
    from inspector._jax.compiling.compiler import Compiler, Watch
    from inspector._jax.compiling.report import Report

_PACKAGES = ("jax-rocm10-pjrt", "jax-rocm7-pjrt")
_ATTACHED_ONLY = "AMD's GPUs are compiled for only where one is attached, as the target 'attached'"


def missing() -> Unavailable:
    """Why no GPU that is not here can be compiled for. Loads nothing."""
    if version():
        return Unavailable(_ATTACHED_ONLY, "Compile there, or for another target of inspector.targets().")
    release = ".".join(packages.version("jax").split(".")[:3])  # the plugin's versions are those of JAX
    return Unavailable(
        f"{_ATTACHED_ONLY}, and JAX's ROCm plugin, which does so beside an installed ROCm, is not installed",
        install_command(f"jax-rocm7-plugin=={release}.*"),
    )


def shortcoming() -> str:
    """Nothing: what is missing is all."""
    return ""


def refusal(chip: Chip) -> str:  # noqa: ARG001 - it is the same for every chip
    """Nothing: what is missing is all."""
    return ""


def version() -> str:
    """Of the plugin, "" without one. Loads nothing."""
    return ", ".join(f"{name} {found}" for name in _PACKAGES if (found := packages.version(name)))


def prepare(load_args: Sequence[str]) -> None:  # noqa: ARG001 - nothing is loaded
    """Refuses.

    Raises:
      TargetError: always.
    """
    raise TargetError(f"No AMD GPU can be compiled for: {missing()}.")


def devices(slice_: Slice) -> list[Any]:
    """Refuses.

    Raises:
      TargetError: always.
    """
    raise TargetError(f"{slice_.chip} cannot be compiled for: {missing()}.")


def compile_with(
    compile_: Callable[..., tuple[Any, Report]], module: bytes, build_options: Mapping[str, Any],
    watch: Watch | None, compiler: Compiler, **rest: Any,
) -> tuple[Any, Report]:  # fmt: skip
    """Calls `compile_`, for devices that jaxlib has described itself."""
    del compiler
    return compile_(module, build_options, watch=watch, **rest)
