"""Parts of parameters that devices slice by hand in a `shard_map`, in StableHLO modules with Shardy's meshes.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and Shardy).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.edits.hoisting import callee_of, functions_of, inline_call

_SHARD_MAP, _CALLS = "sdy.manual_computation", frozenset({"func.call", "call"})
_SLICES = frozenset({"stablehlo.dynamic_slice", "stablehlo.gather"})
_MOVING = frozenset({"stablehlo.reshape", "stablehlo.convert"})


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SlicedPart:
    """The slices of one operand of a `shard_map`.

    Attributes:
      operation: the `shard_map`.
      number: position of the operand.
      slices: the operations of its body that take the part of a device.
      part: shape of the part.
      sharding: the sharding of the operand that gives each device its part.
    """

    operation: Any
    number: int
    slices: tuple[Any, ...]
    part: tuple[int, ...]
    sharding: str

    def take(self) -> None:
        """Lets the body get the part instead of the whole operand."""
        argument = self.operation.regions[0].blocks[0].arguments[self.number]
        element_type = ir.RankedTensorType(argument.type).element_type
        users = [use.owner.operation for use in argument.uses]
        for each in self.slices:
            result, place = ir.RankedTensorType(each.results[0].type), ir.InsertionPoint(each)
            value = argument
            for name, type_ in (
                ("stablehlo.convert", ir.RankedTensorType.get(self.part, result.element_type)),
                ("stablehlo.reshape", result),
            ):
                made = ir.Operation.create(name, results=[type_], operands=[value], loc=each.location, ip=place)
                value = made.results[0]
            each.results[0].replace_all_uses_with(value)
        for each in users:
            _erase(each)
        argument.set_type(ir.RankedTensorType.get(self.part, element_type))
        shardings = _shardings(self.operation)
        shardings[self.number] = self.sharding
        self.operation.attributes["in_shardings"] = ir.Attribute.parse(
            f"#sdy.sharding_per_value<[{', '.join(shardings)}]>"
        )


def sliced_parts(module: ir.Module, main: Any, parameter: int, dimension: int, axes: Sequence[str]) -> list[SlicedPart]:
    """Returns the slices of a parameter by device; [] if it has another use.

    Functions that get the parameter are inlined.

    Args:
      module: the module.
      main: its `main` function.
      parameter: number of the parameter.
      dimension: the dimension of the parameter that is sliced.
      axes: the mesh axes that split it, outermost first.
    """
    value, found = main.regions[0].blocks[0].arguments[parameter], list[SlicedPart]()
    _inline(module, value)
    for use in value.uses:
        operation = use.owner.operation
        if operation.name != _SHARD_MAP:
            return []
        part = _sliced_part(module, operation, use.operand_number, dimension, axes)
        if part is None:
            return []
        found.append(part)
    return found


def _sliced_part(
    module: ir.Module, operation: Any, number: int, dimension: int, axes: Sequence[str]
) -> SlicedPart | None:
    sizes = _axis_sizes(module)
    text = _shardings(operation)[number]
    split = [each.partition("}")[0] for each in text.split("{")[1:]]
    argument = operation.regions[0].blocks[0].arguments[number]
    shape, count = [*ir.RankedTensorType(argument.type).shape], math.prod(sizes.get(axis, 0) for axis in axes)
    is_manual = all(f'"{axis}"' in str(operation.attributes["manual_axes"]) for axis in axes)
    if dimension >= len(split) or not count or shape[dimension] % count or not is_manual:
        return None
    shape[dimension] //= count
    slices = _slices_of(module, argument, math.prod(shape))
    split[dimension] = ", ".join(filter(None, (split[dimension].strip(" ,?"), *(f'"{axis}"' for axis in axes))))
    mesh = text.partition("@")[2].partition(",")[0]
    sharding = f"<@{mesh}, [{', '.join(f'{{{each}}}' for each in split)}]>"
    return SlicedPart(operation, number, slices, tuple(shape), sharding) if slices else None


def _slices_of(module: ir.Module, argument: Any, size: int) -> tuple[Any, ...]:
    """Returns the slices of a value, or of its reshapes, with a number of elements; () if it has another use."""
    found, waiting = list[Any](), [argument]
    while waiting:
        value = waiting.pop()
        _inline(module, value)
        for use in value.uses:
            user = use.owner.operation
            if user.name in _MOVING:
                waiting.append(user.results[0])
            elif user.name in _SLICES and not use.operand_number:
                if math.prod(ir.RankedTensorType(user.results[0].type).shape) != size:
                    return ()
                found.append(user)
            else:
                return ()
    return tuple(found)


def _inline(module: ir.Module, value: Any) -> None:
    """Inlines the functions that get a value."""
    while calls := [each for use in value.uses if (each := use.owner.operation).name in _CALLS]:
        inline_call(calls[0], functions_of(module)[callee_of(calls[0])])


def _erase(operation: Any) -> None:
    """Removes a slice, or a reshape and its users, which only lead to slices."""
    for use in [*operation.results[0].uses]:
        _erase(use.owner.operation)
    operation.erase()


def _shardings(operation: Any) -> list[str]:
    """Returns the shardings of the operands of a `shard_map`, as Shardy writes them in a list: `<@mesh, [{"x"}, {}]>`."""
    inner = str(operation.attributes["in_shardings"]).partition("<[")[2].rpartition("]>")[0]
    return re.findall(r"<@[^>]*>", inner)


def _axis_sizes(module: ir.Module) -> dict[str, int]:
    meshes = (str(o.operation) for o in module.body.operations if o.operation.name == "sdy.mesh")
    return {name: int(size) for mesh in meshes for name, size in re.findall(r'"([^"]+)"=(\d+)', mesh)}
