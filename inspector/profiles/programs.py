"""`RecordedProgram`: an HLO module that a profile contains, with its buffer assignment."""

from __future__ import annotations

import dataclasses

from inspector.profiles.wire import signed
from inspector.profiles.xspace import XSpace

METADATA_PLANE = "/host:metadata"
_HLO_PROTO = ("Hlo Proto", "hlo_proto", "HLO Proto")


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedProgram:
    """A program in a profile.

    Attributes:
      id: its id in the profile: the `program_id` of its events.
      name: name of its module, such as `jit_step`.
      hlo_proto: a serialized `xla.HloProto` with the optimized module and its buffer assignment.
    """

    id: int
    name: str
    hlo_proto: bytes


def recorded_programs(space: XSpace) -> tuple[RecordedProgram, ...]:
    """Returns the programs in a profile, in its order. A profile that was recorded without HLO protos has none."""
    found = dict[int, RecordedProgram]()
    for plane in space.planes:
        if plane.name != METADATA_PLANE:
            continue
        for (index, stat), data in plane.contents.items():
            if stat in _HLO_PROTO:
                kind = plane.kinds[index]
                # On CPUs, events name the module's id and not that of the entry here.
                number = kind.stats.get("program_id", kind.id)
                key = signed(number) if isinstance(number, int) else kind.id
                found.setdefault(key, RecordedProgram(key, _name(kind.name), data))
    return tuple(found.values())


def _name(text: str) -> str:
    """Returns the module's name without the id that the profiler appends: `jit_f` for `jit_f(15)`."""
    name, bracket, _ = text.rpartition("(")
    return name if bracket else text
