"""HLO modules for tests: from text, and from protos that a test has changed."""

from __future__ import annotations

from typing import Any

from jaxlib import _hlo

from inspector.hlo.module import Module
from inspector.hlo.reading.module_message import decoded


def module_of(text: str) -> Module:
    """Reads HLO text."""
    return Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def proto_of(module: Module) -> Any:
    """A copy of the whole `xla.HloModuleProto`, to change."""
    return decoded(module.columns.data)


def changed(proto: Any) -> Module:
    """The module that a proto now is."""
    return Module.from_proto(proto.SerializeToString())
