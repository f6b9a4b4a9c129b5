"""Reads and changes the attributes of a function's parameters and results in StableHLO modules, among them Shardy's shardings.

Private JAX: `jaxlib.mlir` (operations and attributes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo

SHARDY = "sdy.sharding"
"""The attribute with a sharding."""
CALLS = frozenset({"func.call", "call"})
"""The names of calls of functions."""


def main_of(module: ir.Module) -> Any:
    return next(each.operation for each in module.body.operations if stablehlo.is_main(each.operation))


def argument_attributes(function: Any, name: str = "arg_attrs") -> list[dict[str, Any]]:
    known, types = stablehlo.argument_attributes(function, name), stablehlo.function_type(function)
    return known or [{} for _ in (types.inputs if name == "arg_attrs" else types.results)]


def set_attributes(function: Any, name: str, attributes: Sequence[Mapping[str, Any]]) -> None:
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(dict(each)) for each in attributes])


def name_of(operation: Any) -> str:
    return str(ir.StringAttr(operation.operation.attributes["sym_name"]).value)


def sharding_dimensions(sharding: str) -> list[str]:
    """Returns the axes of each dimension in Shardy's text of a sharding: `<@mesh, [{"x"}, {}]>`."""
    inner = sharding.partition("[")[2].rpartition("]")[0]
    return [each.partition("}")[0] for each in inner.split("{")[1:]]


def sharding_text(mesh: str, dimensions: Sequence[str]) -> str:
    return f"#sdy.sharding<@{mesh}, [{', '.join(f'{{{axes}}}' for axes in dimensions)}]>"


def with_axis(sharding: Any, dimension: int, axis: str) -> Any:
    """Returns a sharding with one more axis in a dimension; the same if it has the axis, or as many dimensions."""
    text = str(sharding)
    dimensions = sharding_dimensions(text)
    if f'"{axis}"' in text or dimension >= len(dimensions):
        return sharding
    dimensions[dimension] = ", ".join(filter(None, (dimensions[dimension].removesuffix("?").strip(" ,"), f'"{axis}"')))
    return ir.Attribute.parse(sharding_text(text.partition("@")[2].partition(",")[0], dimensions))
