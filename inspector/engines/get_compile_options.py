"""`get_compile_options`: jaxlib's own `CompileOptions`, with every parameter that JAX ever documented.

JAX has removed the five parameters that select the partitioning; XLA still accepts them. This module rejects values
that XLA would ignore, reject too late or abort on.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.compilation.options import options_proto
from inspector.compilation.options.flag_targets import check_targets
from inspector.compilation.options.options import Options
from inspector.compilation.request import DEVICE_COUNT_FLAG
from inspector.errors import OptionError, UnknownFlagError, check_bool
from inspector.support.notebook import short
from inspector.toolchain import flags

if TYPE_CHECKING:
    from inspector._jax.compiling.compile_options import CompileOptions


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Any = None,
    use_spmd_partitioning: bool = True,
    use_shardy_partitioner: bool | None = None,
    use_auto_spmd_partitioning: bool = False,
    auto_spmd_partitioning_mesh_shape: Sequence[int] | None = None,
    auto_spmd_partitioning_mesh_ids: Sequence[int] | None = None,
    env_options_overrides: Mapping[str, flags.FlagValue] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Any = None,
) -> CompileOptions:
    """Returns the options with which JAX would compile, for `client.compile_and_load`.

    Everything else comes from JAX's configuration, as in JAX's own function: optimization levels,
    disabled passes, the profile's version, caches.

    Args:
      num_replicas: replicas to compile for, at least 1.
      num_partitions: partitions to compile for, at least 1.
      device_assignment: devices, or their ids, [num_replicas, num_partitions]; also [num_replicas]
        when there is one partition. None for XLA's choice.
      use_spmd_partitioning: True for one program for all partitions (SPMD), False for one each (MPMD).
      use_shardy_partitioner: True for Shardy, False for GSPMD; must match the partitioner that the module was lowered
        for. None for the value of `jax_use_shardy_partitioner`, which is also what `jax.jit` lowers for. (JAX
        documented False, from when that was the default.)
      use_auto_spmd_partitioning: lets XLA choose shardings. jaxlib does not include XLA's auto-partitioner:
        with GSPMD, XLA ignores the option, and this function warns; with Shardy, XLA aborts,
        so this function raises an error.
      auto_spmd_partitioning_mesh_shape: mesh of the auto-partitioner, with one device per partition. Only with
        `use_auto_spmd_partitioning`.
      auto_spmd_partitioning_mesh_ids: device ids of that mesh, one per partition. Only with `use_auto_spmd_partitioning`.
      env_options_overrides: flags by name, see `inspector.option_catalog()`; values of the flag's
        type, or their text as in XLA_FLAGS. Names that neither jaxlib nor libtpu knows are passed on to a backend
        other than the CPU.
      fdo_profile: a profile for feedback-directed optimization, which only GPU compilers read.
      detailed_logging: True if XLA should log this compile; JAX sets it for modules with more than
        `jax_compiler_detailed_logging_min_ops` (10) operations.
      backend: the client that will compile, if there is one: its devices can be
        assigned, and JAX asks it for the profile's version.

    Returns:
      jaxlib's `CompileOptions`.

    Raises:
      OptionError: a parameter that XLA would not honor, with the reason.
      UnknownFlagError, FlagTypeError: an invalid flag.
    """
    from inspector._jax.compiling import compile_options, configuration

    replicas = _positive("num_replicas", num_replicas)
    partitions = _positive("num_partitions", num_partitions)
    for name, value in (
        ("use_spmd_partitioning", use_spmd_partitioning),
        ("use_auto_spmd_partitioning", use_auto_spmd_partitioning),
        ("detailed_logging", detailed_logging),
    ):
        check_bool(name, value, OptionError)
    if use_shardy_partitioner is None:
        use_shardy_partitioner = configuration.uses_shardy()
    check_bool("use_shardy_partitioner", use_shardy_partitioner, OptionError)
    if backend is not None and not hasattr(backend, "platform"):
        raise OptionError(f"backend must be a client, such as jax.devices()[0].client, got {short(backend)}.")
    if fdo_profile is not None and not isinstance(fdo_profile, bytes):
        raise OptionError(f"fdo_profile must be the bytes of a profile, got {type(fdo_profile).__name__}.")
    mesh = (auto_spmd_partitioning_mesh_shape, auto_spmd_partitioning_mesh_ids)
    shape, ids = _auto_mesh(use_auto_spmd_partitioning, use_shardy_partitioner, mesh, partitions)
    overrides, additions = _flags({} if env_options_overrides is None else env_options_overrides, backend)
    return compile_options.documented_options(
        replicas,
        partitions,
        compile_options.assigned_ids(device_assignment, (replicas, partitions), backend),
        build={
            "use_spmd_partitioning": use_spmd_partitioning,
            "use_shardy_partitioner": use_shardy_partitioner,
            "use_auto_spmd_partitioning": use_auto_spmd_partitioning,
            "auto_spmd_partitioning_mesh_shape": shape,
            "auto_spmd_partitioning_mesh_ids": ids,
        },
        overrides=overrides,
        additions=additions,
        fdo_profile=fdo_profile,
        detailed_logging=detailed_logging,
        backend=backend,
    )


def _positive(name: str, value: Any) -> int:
    try:
        number = -1 if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = -1
    if not 1 <= number < 2**31:
        raise OptionError(f"{name} must be an integer from 1 (XLA aborts on 0) to 2147483647, got {short(value)}.")
    return number


def _list(part: Any) -> list[Any]:
    return list(part) if isinstance(part, Iterable) else [part]


def _auto_mesh(
    is_auto: bool, is_shardy: bool, mesh: tuple[Sequence[int] | None, Sequence[int] | None], partitions: int
) -> tuple[list[int], list[int]]:
    """Returns shape and device ids of the mesh for automatic partitioning; empty where not given."""
    shape, ids = (None if part is None else _list(part) for part in mesh)
    if not is_auto:
        if shape is not None or ids is not None:
            raise OptionError(
                f"auto_spmd_partitioning_mesh_shape={short(shape)} and auto_spmd_partitioning_mesh_ids={short(ids)} have no effect"
                " without use_auto_spmd_partitioning=True. Remove them."
            )
        return [], []
    if is_shardy:
        raise OptionError(
            "use_auto_spmd_partitioning=True with Shardy makes XLA abort: jaxlib does not include the auto-partitioner."
            " Remove it, or set use_shardy_partitioner=False for a module lowered for GSPMD."
        )
    numbers: list[Any] = [*(shape or []), *(ids or [])]
    if any(type(n) is bool or not isinstance(n, (int, np.integer)) or n < 0 for n in numbers) or 0 in (shape or []):
        raise OptionError(
            f"The mesh for automatic partitioning needs integers, got shape {short(shape)} and ids {short(ids)}."
        )
    if shape is not None and int(np.prod(shape)) != partitions:
        raise OptionError(
            f"auto_spmd_partitioning_mesh_shape={short(shape)} has {int(np.prod(shape))} devices, expected {partitions}:"
            " one per partition."
        )
    if ids is not None and (len(ids) != partitions or len(set(ids)) != partitions):
        raise OptionError(
            f"auto_spmd_partitioning_mesh_ids={short(ids)} must be {partitions} different ids: one per partition."
        )
    warnings.warn(
        "use_auto_spmd_partitioning is set, but jaxlib does not include XLA's auto-partitioner and GSPMD ignores it.",
        UserWarning,
        stacklevel=3,
    )
    return [int(n) for n in shape or []], [int(n) for n in ids or []]


def _flags(values: Mapping[str, flags.FlagValue], backend: Any) -> tuple[dict[str, flags.FlagValue], bytes]:
    """Splits flags into those that JAX's own overrides can carry, and the rest as a serialized message."""
    overrides: Any = values  # given by the user, so of any type
    if not isinstance(overrides, Mapping) or not all(isinstance(name, str) for name in overrides):
        raise OptionError(f"env_options_overrides must be a dict with names of flags as keys, got {short(overrides)}.")
    known: dict[str, flags.FlagValue] = {}
    foreign: dict[str, flags.FlagValue] = {}
    for name, value in values.items():
        try:
            type_ = flags.flag_type(name)
        except UnknownFlagError:
            if backend is None or backend.platform == "cpu":
                raise
            foreign[name] = value
            continue
        is_text = isinstance(value, str) and type_.kind != "string" and name not in flags.OPTION_FIELDS
        known[name.removeprefix("--")] = flags.parse_value(name, str(value)) if is_text else value
    options = Options(flags=known)
    options.check()
    if DEVICE_COUNT_FLAG in options.flags:
        raise OptionError(
            f"{DEVICE_COUNT_FLAG} is read once, when a CPU client starts, and not by a compile. Call"
            " jax.config.update('jax_num_cpu_devices', ...) before JAX starts, or compile for a target such as 'cpu:8'."
        )
    check_targets(options, backend.platform if backend is not None else None, is_attached=True)
    return {**options_proto.overrides(options.flags), **foreign}, options_proto.additions(
        options.flags, options.extra_proto
    )
