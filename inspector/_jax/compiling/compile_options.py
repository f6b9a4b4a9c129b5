"""Converts build options from plain values to jaxlib's `CompileOptions`, as JAX does.

Calls JAX's own `get_compile_options`, so that the JAX configuration of this process
(optimization level, disabled passes, partitioner) applies, and the optimized
module equals that of `jax.jit(f).lower(...).compile()`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import compiler, xla_bridge
from jaxlib.xla_client import CompileOptions as CompileOptions

from inspector._jax.values import Facts, UserValue
from inspector.errors import CompilationError, FlagTypeError, InspectorError, OptionError, TargetError, UnknownFlagError
from inspector.support.notebook import short
from inspector.support.units import counted

_VALUE_LENGTH = 300  # maximum length of an option's value in a message


def unsaid_options() -> bytes:
    """Returns a serialized `xla.CompileOptionsProto`: the default options of JAX in this process for one device."""
    return bytes(compiler.get_compile_options(num_replicas=1, num_partitions=1).SerializeAsString())


def documented_options(
    num_replicas: int,
    num_partitions: int,
    assignment: np.ndarray | None,
    *,
    build: Facts,
    overrides: Facts,
    additions: bytes,
    fdo_profile: bytes | None,
    detailed_logging: bool,
    backend: UserValue,
) -> CompileOptions:
    """Returns JAX's own options, with the fields set that JAX drops.

    Args:
      num_replicas: at least 1.
      num_partitions: at least 1.
      assignment: device ids, int64 [num_replicas, num_partitions], or None.
      build: attributes of `ExecutableBuildOptions`.
      overrides: flags by name.
      additions: a serialized `xla.CompileOptionsProto` with settings that flags cannot express.
      fdo_profile: as in JAX.
      detailed_logging: as in JAX.
      backend: as in JAX.

    Raises:
      OptionError: jaxlib rejects a value.
    """
    flags: dict[str, Any] = dict(overrides)
    try:
        options = compiler.get_compile_options(
            num_replicas=num_replicas,
            num_partitions=num_partitions,
            device_assignment=assignment,
            env_options_overrides=flags,
            fdo_profile=fdo_profile,
            detailed_logging=bool(detailed_logging),
            backend=backend,
        )
        for name, value in build.items():
            setattr(options.executable_build_options, name, value)
        return _with_additions(options, additions)
    except (TypeError, ValueError, RuntimeError) as e:
        raise OptionError(f"jaxlib rejected these options: {_first_line(e)}") from e


def assigned_ids(assignment: UserValue, shape: tuple[int, int], backend: UserValue) -> np.ndarray | None:
    """Returns a device assignment as ids, after checking it.

    Args:
      assignment: devices or ids, of `shape`, or [replicas] for one partition; None for no assignment.
      shape: replicas, partitions.
      backend: the client whose devices are allowed; None for those of JAX, if JAX has started.

    Returns:
      int64 of `shape`, or None.

    Raises:
      OptionError: a wrong shape, non-integer ids, a repeated device or an unknown device.
    """
    if assignment is None:
        return None
    try:
        array = np.asarray(assignment)
    except ValueError:
        raise OptionError(
            f"device_assignment must have one row per replica and one column per partition, {shape}; got {short(assignment)}."
        ) from None
    if array.ndim == 1 and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise OptionError(
            f"device_assignment has the shape {np.shape(assignment)}, expected {shape}: one row per replica and one column"
            " per partition."
        )
    flat = [_device_id(device) for device in array.flat]
    if array.dtype == bool or min(flat, default=-1) < 0:
        raise OptionError(f"device_assignment must contain devices or device ids, got {short(array.tolist())}.")
    if len(set(flat)) != len(flat):
        raise OptionError(f"device_assignment repeats a device: {short(np.reshape(flat, shape).tolist())}.")
    known = _device_ids(array, backend)
    unknown = [i for i in flat if known is not None and i not in known]
    if unknown:
        raise OptionError(
            f"device_assignment contains unknown devices {short(unknown)}; the devices are {short(sorted(known or ()))}."
        )
    return np.array(flat, np.int64).reshape(shape)


def _device_id(device: Any) -> int:
    """Returns the id of a device; -1 for values that are neither devices nor ids."""
    return int(device) if isinstance(device, (int, np.integer)) else int(getattr(device, "id", -1))


def _device_ids(assignment: np.ndarray, backend: Any) -> set[int] | None:
    """Returns the ids of all devices; None if they are unknown or if device objects were given."""
    if backend is not None:
        return {device.id for device in backend.devices()}
    if assignment.dtype == object or not xla_bridge.backends_are_initialized():
        return None
    return {device.id for device in jax.devices()}


def _with_additions(options: CompileOptions, additions: bytes) -> CompileOptions:
    # Protobuf merges messages by appending their bytes.
    return CompileOptions.ParseFromString(options.SerializeAsString() + additions) if additions else options


def device_assignment(build_options: Mapping[str, Any], devices: Sequence[Any]) -> np.ndarray:
    """Returns the devices of one execution.

    Args:
      build_options: fields of `Options`, None for unset ones; `device_ids`, the devices that the program names.
      devices: the client's devices. Without an assignment, the devices that the program names are used. If some of those
        are not attached, the first devices are used in the same relative order; if it names none, the first devices.

    Returns:
      An object array of devices, [num_replicas, num_partitions].

    Raises:
      OptionError: an assignment of the wrong shape, or with a repeated device.
      TargetError: more devices than are available, or an id that no device has.
    """
    shape = (build_options.get("num_replicas") or 1, build_options.get("num_partitions") or 1)
    needed = shape[0] * shape[1]
    if needed > len(devices):
        raise TargetError(
            f"The program takes {counted(needed, 'device')} ({counted(shape[0], 'replica')} x {counted(shape[1], 'partition')}, num_replicas times"
            f" num_partitions), but {_count(devices)} available. Use the target 'cpu:{needed}' for that many"
            " virtual CPU devices."
        )
    ids = build_options.get("device_assignment")
    flat = named_devices(build_options, devices[:needed], devices) if ids is None else _assigned(ids, shape, devices)
    assignment = np.empty(needed, dtype=object)
    assignment[:] = flat
    return assignment.reshape(shape)


def named_devices(build_options: Mapping[str, Any], first: Sequence[Any], devices: Sequence[Any]) -> list[Any]:
    """Returns the devices that the program names; `first` if it names none or a different number of them."""
    ids = build_options.get("device_ids")
    if ids is None or len(ids) != len(first):
        return list(first)
    by_id = {device.id: device for device in devices}
    if by_id.keys() >= set(ids):
        return [by_id[i] for i in ids]
    ranks = {i: rank for rank, i in enumerate(sorted(ids))}
    return [first[ranks[i]] for i in ids]


def make_compile_options(
    build_options: Mapping[str, Any], assignment: np.ndarray, *, detailed_logging: bool, backend: Any
) -> CompileOptions:
    """Returns the `CompileOptions` for a client's `compile_and_load`.

    Args:
      build_options: fields of `Options`, None for unset ones; `flags` by name; `additions`, a
        serialized `xla.CompileOptionsProto` in base64 with settings that flags cannot express; `said`, the user's
        options by name, for messages.
      assignment: from `device_assignment`.
      detailed_logging: as JAX chooses it by the size of the module.
      backend: the client that will compile.

    Raises:
      OptionError: jaxlib rejects a value.
    """
    num_replicas, num_partitions = assignment.shape
    try:
        options = compiler.get_compile_options(
            num_replicas=num_replicas,
            num_partitions=num_partitions,
            device_assignment=assignment,
            env_options_overrides=dict(build_options.get("flags") or {}),
            detailed_logging=detailed_logging,
            backend=backend,
        )
        _set_build_options(options, build_options)
        return _with_additions(options, base64.b64decode(build_options.get("additions") or ""))
    except (TypeError, ValueError, RuntimeError) as e:
        raise OptionError(f"jaxlib rejected these options ({_options_text(build_options)}): {_first_line(e)}") from e


_NO_STABLEHLO = re.compile(r"failed to legalize operation 'mhlo\.([a-z_]+)'")


def map_compile_error(error: Exception, build_options: Mapping[str, Any]) -> InspectorError:
    """Returns inspector's error for an error of XLA: an `OptionError` if the message is about an option."""
    text = _first_line(error)
    if "No such compile option" in text:
        return UnknownFlagError(f"XLA: {text} Flags: {_options_text(build_options)}.")
    if "While setting option" in text and "is not a valid" in text:
        return FlagTypeError(f"XLA: {text} Flags: {_options_text(build_options)}.")
    if no_form := _NO_STABLEHLO.search(str(error)):
        name = no_form[1].replace("_", "-")
        return CompilationError(
            f"This compiler accepts StableHLO only, which has no equivalent of the HLO operation {name}. Compile the module"
            f" for the CPU, or rewrite it without {name}. XLA: {text}"
        )
    if "CUDA Runtime error" in text and "cudaErrorInvalidDevice" in text:
        return CompilationError(
            "XLA needs an attached GPU, for example to size the workspace of a radix sort. For long sorts, use a comparison sort instead:"
            f" options={{'xla_gpu_enable_cub_radix_sort': False}}. XLA: {text}"
        )
    flags = _options_text(build_options)
    advice = (
        "Remove or change a flag."
        if flags != "none"
        else "All flags have their default values, so the cause is in the module."
    )
    message = str(error).rstrip()
    end = "" if message.endswith((".", "!", "?")) else "."
    return CompilationError(f"XLA rejected the program (flags: {flags}): {message}{end} {advice}")


def _set_build_options(options: CompileOptions, values: Mapping[str, Any]) -> None:
    build = options.executable_build_options
    for name in ("use_spmd_partitioning", "use_shardy_partitioner"):
        if values.get(name) is not None:
            setattr(build, name, values[name])
    for name in ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output"):
        if values.get(name) is not None:
            setattr(build, name, list(values[name]))
    if values.get("parameter_is_tupled_arguments") is not None:
        options.parameter_is_tupled_arguments = values["parameter_is_tupled_arguments"]


def _assigned(ids: Sequence[Sequence[int]], shape: tuple[int, int], devices: Sequence[Any]) -> list[Any]:
    if len(ids) != shape[0] or any(len(row) != shape[1] for row in ids):
        raise OptionError(
            f"device_assignment must have {shape[0]} rows (replicas) of {shape[1]} device ids (partitions),"
            f" got {short([list(row) for row in ids])}."
        )
    flat = [i for row in ids for i in row]
    if len(set(flat)) != len(flat):
        raise OptionError(f"device_assignment repeats a device: {short([list(row) for row in ids])}.")
    by_id = {device.id: device for device in devices}
    unknown = [i for i in flat if i not in by_id]
    if unknown:
        raise TargetError(
            f"device_assignment contains unknown devices {short(unknown)}; {_count(devices)} available: {sorted(by_id)}."
        )
    return [by_id[i] for i in flat]


def _count(devices: Sequence[Any]) -> str:
    kind = f"{devices[0].platform.upper()} " if devices else ""
    return f"there is 1 {kind}device" if len(devices) == 1 else f"there are {len(devices)} {kind}devices"


def _options_text(build_options: Mapping[str, Any]) -> str:
    """Returns the user's options by name if they are known, else the flags, as text for messages."""
    options = build_options.get("said", build_options.get("flags")) or {}
    return " ".join(f"{name}={_clipped(value)}" for name, value in options.items()) or "none"


def _clipped(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_LENGTH else f"{text[:_VALUE_LENGTH]}..."


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
