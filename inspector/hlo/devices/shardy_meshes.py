"""Reads the Shardy meshes that an HLO module carries in its frontend attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.module import Module

_ATTRIBUTE = "xla.sdy.meshes"
_MESH = re.compile(r"#sdy\.mesh<\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids\s*=\s*\[(?P<ids>[^\]]*)\])?")
_AXIS = re.compile(r'\\?"(?P<name>(?:[^"\\]|\\(?!"))*)\\?"\s*=\s*(?P<size>\d+)')


def shardy_meshes(module: Module) -> tuple[Mesh, ...]:
    """Returns the meshes of a module that XLA has not partitioned yet, in their order; () if it has none."""
    proto = module.columns.module
    if "frontend_attributes" not in proto.DESCRIPTOR.fields_by_name:
        return ()
    return tuple(_meshes(proto.frontend_attributes.map.get(_ATTRIBUTE, "")))


def _meshes(text: str) -> Iterator[Mesh]:
    for match in _MESH.finditer(text):
        axes = [(axis["name"], int(axis["size"])) for axis in _AXIS.finditer(match["axes"])]
        ids = tuple(int(word) for word in (match["ids"] or "").split(",") if word.strip().isdigit())
        try:
            yield Mesh(tuple(name for name, _ in axes), tuple(size for _, size in axes), "partition", ids or None)
        except ValueError:  # device ids that do not match the axes
            continue
