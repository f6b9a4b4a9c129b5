"""The groups of devices of a collective in a StableHLO module, which lists them or, since JAX 0.12, names axes of a mesh.

Private JAX: `jaxlib.mlir` (operations and attributes of StableHLO and Shardy).
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir

_OF_AXES = re.compile(r"mesh = @([\w.$-]+), axes = \[(.*)\]")
_AXIS = re.compile(r'name = "([^"]*)"(, sub_axis_info)?')
_SIZES = re.compile(r'"([^"]*)"\s*=\s*(\d+)')


def device_groups(module: ir.Module, collective: Any) -> list[list[int]] | None:
    """Returns the groups; None if they are written in another form."""
    if "replica_groups" not in collective.attributes:
        return None
    written = collective.attributes["replica_groups"]
    if isinstance(written, ir.DenseIntElementsAttr):
        groups: list[list[int]] = np.array(written).tolist()
        return groups
    found = _OF_AXES.search(str(written))
    sizes = None if found is None else _mesh_sizes(module, found[1])
    if found is None or sizes is None:
        return None
    axes = _AXIS.findall(found[2])
    if any(part or name not in sizes for name, part in axes):
        return None
    names = [*sizes]
    chosen = [names.index(name) for name, _ in axes]
    order = [n for n in range(len(names)) if n not in chosen] + chosen
    numbers = np.arange(math.prod(sizes.values())).reshape([*sizes.values()]).transpose(order)
    grouped: list[list[int]] = numbers.reshape(-1, math.prod(sizes[name] for name, _ in axes)).tolist()
    return grouped


def _mesh_sizes(module: ir.Module, name: str) -> dict[str, int] | None:
    """Returns the axes of a mesh with their sizes; None for one whose devices are in another order."""
    for each in module.body.operations:
        operation = each.operation
        if operation.name == "sdy.mesh" and ir.StringAttr(operation.attributes["sym_name"]).value == name:
            text = str(operation.attributes["mesh"])
            return None if "device_ids" in text else {axis: int(size) for axis, size in _SIZES.findall(text)}
    return None
