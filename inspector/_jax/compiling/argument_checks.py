"""Argument checks that XLA leaves out.

On jaxlib 0.10.2, XLA crashes the process if a program for several devices gets too few arguments. It misreads an
array of the wrong dtype if the number of bytes is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax._src.array import ArrayImpl
from jaxlib import _hlo  # type: ignore[attr-defined]

from inspector.errors import ExecutionError, Unavailable
from inspector.support.units import counted


def check_arguments(
    arguments: Sequence[jax.Array], parameters: tuple[Any, ...] | Unavailable, devices: Sequence[jax.Device]
) -> None:
    """Checks the number, kind, devices, shapes and dtypes of arguments.

    Args:
      arguments: one array per parameter, each with one shard per device.
      parameters: the result of `parameter_shapes`.
      devices: the devices of this process that run the program, in order.

    Raises:
      ExecutionError: the program does not accept the arguments.
    """
    if isinstance(parameters, Unavailable):
        raise ExecutionError(f"The arguments cannot be checked: {parameters.reason}. Use `raw` to run it unchecked.")
    if len(arguments) != len(parameters):
        listed = ", ".join(map(_shape_text, parameters)) or "none"
        raise ExecutionError(
            f"The program takes {counted(len(parameters), 'array')} (on each device: {listed}), got {len(arguments)}."
        )
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        _check_argument(f"Argument {number}", argument, parameter, devices)


def parameter_shapes(raw: Any) -> tuple[Any, ...] | Unavailable:
    """Returns the shapes (`xla::Shape`) of the arrays that one device takes, from the optimized HLO."""
    try:
        proto = raw.hlo_modules()[0].as_serialized_hlo_module_proto()
        shapes = _hlo.XlaComputation(proto).program_shape().parameter_shapes()
    except Exception as e:
        return Unavailable(f"the backend provides no HLO of the executable: {e}")
    if len(shapes) == 1 and shapes[0].is_tuple():  # parameter_is_tupled_arguments
        shapes = shapes[0].tuple_shapes()
    return tuple(shapes)


def _shape_text(shape: Any) -> str:
    return f"{shape.numpy_dtype().name}[{','.join(map(str, shape.dimensions()))}]" if shape.is_array() else str(shape)


def _check_argument(label: str, argument: Any, parameter: Any, devices: Sequence[jax.Device]) -> None:
    """Rejects arguments that XLA would misread or that would crash the process."""
    if not isinstance(argument, ArrayImpl):
        raise ExecutionError(
            f"{label} must be a JAX array, got {type(argument).__name__}. Place it first: jax.device_put(x, device)."
        )
    if argument.is_deleted():
        raise ExecutionError(f"{label} is deleted: it was donated to an earlier execution. Pass a new array.")
    if not parameter.is_array():
        raise ExecutionError(f"{label} must be a {_shape_text(parameter)}, which only JAX itself can pass.")
    shards = argument.addressable_shards
    actual = [shard.device for shard in shards]
    if actual != list(devices):
        raise ExecutionError(
            f"{label} must have one shard on each of {', '.join(map(str, devices))}, in this order;"
            f" got {', '.join(map(str, actual))}."
        )
    for shard in shards:
        data = shard.data
        if data.shape != tuple(parameter.dimensions()) or data.dtype != parameter.numpy_dtype():
            got = f"{data.dtype.name}[{','.join(map(str, data.shape))}]"
            raise ExecutionError(
                f"{label} must be {_shape_text(parameter)} on each device, got {got} on {shard.device}."
            )
