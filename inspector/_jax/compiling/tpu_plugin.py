"""libtpu as the compiler for TPU slices that are not attached (`ahead_of_time.Plugin`)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax._src import xla_bridge

from inspector._jax.compiling.slices import Slice
from inspector._jax.libraries import libtpu
from inspector.errors import CompilationError, MissingPackageError, TargetError, Unavailable
from inspector.platforms import TPU, Chip
from inspector.support.install_commands import install_command, sentence

if TYPE_CHECKING:
    from inspector._jax.compiling.compiler import Compiler, Watch
    from inspector._jax.compiling.report import Report


def missing() -> Unavailable | None:
    """Returns why no TPU can be compiled for on this machine, None if one can. Loads nothing."""
    try:
        libtpu.libtpu_library()
    except MissingPackageError:
        named = os.environ.get("TPU_LIBRARY_PATH")
        if named:  # installing the package would not help
            return Unavailable(f"TPU_LIBRARY_PATH is {named!r}, where libtpu is not installed", "Correct or unset it.")
        return Unavailable("libtpu, the TPU compiler, is not installed", install_command(libtpu.EXTRA))
    return None


def shortcoming() -> str:
    """Returns "": libtpu compiles whole programs."""
    return ""


def refusal(chip: Chip) -> str:  # noqa: ARG001 - it is the same for every chip
    """Returns "": every libtpu that JAX supports compiles for every generation."""
    return ""


def version() -> str:
    """Returns the version of libtpu. Loads nothing."""
    return f"libtpu {libtpu.libtpu_version() or os.environ.get('TPU_LIBRARY_PATH', '')}"


def prepare(load_args: Sequence[str]) -> None:
    """Loads libtpu into this process. For workers only.

    Args:
      load_args: flags that libtpu reads only once, appended to those of the environment.

    Raises:
      TargetError: libtpu is not installed or fails to load.
    """
    os.environ.update(libtpu.load_variables())
    os.environ["LIBTPU_INIT_ARGS"] = " ".join([os.environ.get("LIBTPU_INIT_ARGS", ""), *load_args]).strip()
    devices(Slice(TPU.name, TPU.usual_chip, (2, 2)))  # messages that libtpu logs while loading belong to no request


def devices(slice_: Slice) -> list[Any]:
    """Returns the devices of a slice.

    Raises:
      TargetError: libtpu is not installed or does not support the slice.
    """
    reason = missing()
    if reason is not None:
        raise TargetError(f"Cannot compile for a TPU: {reason.reason}. {sentence(reason.remedy)}")
    name = f"{slice_.chip}:{'x'.join(map(str, slice_.topology))}"
    chip = TPU.chip(slice_.chip)
    settings: dict[str, Any] = {"chip_config_name": chip.config} if chip is not None and chip.config else {}
    if math.prod(slice_.topology) == 1:
        settings["chips_per_host_bounds"] = [1, 1, 1]
    try:
        return list(xla_bridge.make_pjrt_tpu_topology(name, **settings)._make_compile_only_devices())
    except Exception as e:
        raise TargetError(f"libtpu does not support the TPU slice {name!r}: {e}") from e


def compile_with(
    compile_: Callable[..., tuple[Any, Report]], module: bytes, build_options: Mapping[str, Any],
    watch: Watch | None, compiler: Compiler, **rest: Any,
) -> tuple[Any, Report]:  # fmt: skip
    """Calls `compile_`.

    Raises:
      CompilationError: libtpu rejects the program; with a remedy if the slice is the reason.
    """
    try:
        return compile_(module, build_options, watch=watch, **rest)
    except CompilationError as error:
        if "should include all slice devices" not in str(error):
            raise
        raise CompilationError(
            f"{error} On a slice of this size, a program must use one device or all {len(compiler.devices)}. Compile it"
            " for a slice that has as many devices as the program."
        ) from error
