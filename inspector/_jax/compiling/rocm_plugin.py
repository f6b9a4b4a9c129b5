"""JAX's ROCm plugin (`ahead_of_time.Plugin`), which compiles for attached GPUs only: its library loads only with an installed ROCm.

Ahead-of-time compilation for other GPUs, as with the CUDA plugin, is untested.
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
_ATTACHED_ONLY = "inspector compiles for an AMD GPU only where one is attached, as the target 'attached'"


def missing() -> Unavailable:
    """Returns why no unattached GPU can be compiled for. Loads nothing."""
    if version():
        return Unavailable(_ATTACHED_ONLY, "Compile there, or choose another target of inspector.targets().")
    release = ".".join(packages.version("jax").split(".")[:3])  # the plugin has the same versions as JAX
    return Unavailable(
        f"{_ATTACHED_ONLY}, and JAX's ROCm plugin, which this needs in addition to ROCm itself, is not installed",
        install_command(f"jax-rocm7-plugin=={release}.*"),
    )


def shortcoming() -> str:
    """Returns "": `missing` explains everything."""
    return ""


def refusal(chip: Chip) -> str:  # noqa: ARG001 - it is the same for every chip
    """Returns "": `missing` explains everything."""
    return ""


def version() -> str:
    """Returns the version of the plugin, "" without one. Loads nothing."""
    return ", ".join(f"{name} {installed}" for name in _PACKAGES if (installed := packages.version(name)))


def prepare(load_args: Sequence[str]) -> None:  # noqa: ARG001 - nothing is loaded
    """Always raises an error.

    Raises:
      TargetError: always.
    """
    raise TargetError(f"Cannot compile for an AMD GPU: {missing()}.")


def devices(slice_: Slice) -> list[Any]:
    """Always raises an error.

    Raises:
      TargetError: always.
    """
    raise TargetError(f"Cannot compile for {slice_.chip}: {missing()}.")


def compile_with(
    compile_: Callable[..., tuple[Any, Report]], module: bytes, build_options: Mapping[str, Any],
    watch: Watch | None, compiler: Compiler, **rest: Any,
) -> tuple[Any, Report]:  # fmt: skip
    """Calls `compile_`, for devices that jaxlib itself described."""
    del compiler
    return compile_(module, build_options, watch=watch, **rest)
