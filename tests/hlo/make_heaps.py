"""Writes `tests/hlo/data/heaps` from dumps: real buffer assignments, and what XLA says of them elsewhere.

    python tests/hlo/make_heaps.py NAME DUMP_DIRECTORY

The directory is what XLA wrote with `xla_dump_to` and `xla_dump_hlo_as_proto`; beside it lies `info.json`
with `stats`, the fields of `CompiledMemoryStats` of the same compile, and `cost`, its cost analysis or null. For each `NAME.hlo.pb.gz` (the
`xla.HloProto`, without source locations, which name files of the machine that made it) and `NAME.json`:
both, and XLA's own order of instructions and live ranges from `*-live-range.txt`.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from inspector.toolchain.schema import installed_schema

COUNTED = ("flops", "transcendentals", "bytes accessed")
HERE = Path(__file__).resolve().parent / "data" / "heaps"


def main(name: str, directory: str) -> None:
    folder = Path(directory)
    (proto_file,) = folder.glob("*after_optimizations.hlo.pb")
    (text_file,) = folder.glob("*after_optimizations-live-range.txt")
    proto: Any = installed_schema().message("xla.HloProto").FromString(proto_file.read_bytes())
    proto.hlo_module.ClearField("stack_frame_index")
    for computation in proto.hlo_module.computations:
        for instruction in computation.instructions:
            instruction.ClearField("metadata")
            instruction.ClearField("frontend_attributes")
            instruction.ClearField("sharding")
            if instruction.opcode != "while":
                instruction.ClearField("backend_config")
    (HERE / f"{name}.hlo.pb.gz").write_bytes(gzip.compress(proto.SerializeToString(), mtime=0))
    info = json.loads((folder / "info.json").read_text())
    cost = {name: value for name, value in (info["cost"] or {}).items() if name in COUNTED}
    facts = {"stats": info["stats"], "cost": cost, **live_ranges(text_file.read_text())}
    (HERE / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")


def live_ranges(text: str) -> dict[str, Any]:
    """The sections `InstructionSequence` and `BufferLiveRange` of XLA's dump."""
    sequence, ranges, section = [], {}, ""
    for line in map(str.strip, text.splitlines()):
        if line.endswith(":") or line.startswith("Live ranges at"):
            section = line
        elif section == "InstructionSequence:":
            sequence.append(line.partition(":")[2])
        elif section == "BufferLiveRange:":
            buffer, _, span = line.rpartition(":")
            ranges[buffer] = [int(end) for end in span.split("-")]
    return {"sequence": sequence, "ranges": ranges}


if __name__ == "__main__":
    main(*sys.argv[1:])
