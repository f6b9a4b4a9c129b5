"""The optional products of a compile, by name: each is a field of `CompiledProgram`."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes

RECORDS: Mapping[str, type[Passes | Assembly | Buffers]] = {
    "passes": Passes,
    "assembly": Assembly,
    "buffers": Buffers,
}
