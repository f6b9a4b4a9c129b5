"""`Point`: where a kernel, or a whole program, stands under a chip's roofs."""

from __future__ import annotations

import dataclasses

from inspector.analysis.cost.attribution import Part
from inspector.analysis.cost.matrix_unit import NO_PRODUCT
from inspector.analysis.cost.schedule_simulation import Bound
from inspector.errors import Unavailable
from inspector.hlo.source import NOWHERE, Frame, Origin


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A kernel, or the whole program.

    Attributes:
      name: the instruction, or the module.
      opcode: the instruction's, "" for the module.
      flops, main_memory_bytes: of all its executions; unknown of custom calls. A collective's memory is left out.
      link_bytes: that one device sends to others, of all its executions.
      executions: in one execution of the module; where they are unknown, the numbers are those of one.
      algorithm: by which arithmetic its matrix products run, such as "bf16 x 3", several joined by " + "; "" for none.
      bound_by: which roof it meets first; "nothing" when it neither computes nor moves anything.
      least_s: the time that it takes at that roof; `AtLeast` where a part of it is not known.
      parts: the shares of its cost by where they come from, the largest first; () of the module.
      exposed_s: of the time on the links what no kernel hides, all executions, as the schedule has it when each kernel takes
        its least time: an estimate; unavailable where times are not known.
      beside: the kernels that run while an exchange is under way.
      filled: the share of the chip's matrix unit that its products fill at most, by their flops; the rest is padding.
    """

    name: str
    opcode: str
    flops: float | Unavailable
    main_memory_bytes: float | Unavailable
    link_bytes: float
    executions: int | Unavailable
    algorithm: str
    bound_by: Bound | Unavailable
    least_s: float | Unavailable
    parts: tuple[Part, ...] = ()
    exposed_s: float | Unavailable = 0.0
    beside: tuple[str, ...] = ()
    filled: float | Unavailable = NO_PRODUCT

    @property
    def origin(self) -> Origin:
        """Where the instructions come from that cause most of its time."""
        return self.parts[0].origin if self.parts else NOWHERE

    @property
    def phase(self) -> str | None:
        """The part of a differentiated program that these belong to (`analysis/cost/phases.py`); None where it is unknown."""
        return self.parts[0].phase if self.parts else None

    @property
    def scope(self) -> str:
        """The JAX name stack without the primitive; "" when unknown."""
        return self.origin.scope

    @property
    def line(self) -> Frame | None:
        """The innermost line of the user's own code there."""
        return self.origin.line

    @property
    def intensity(self) -> float | Unavailable:
        """Flops a byte."""
        return flops_a_byte(self.flops, self.main_memory_bytes)


def flops_a_byte(flops: float | Unavailable, moved: float | Unavailable) -> float | Unavailable:
    """The intensity of so many operations over so many bytes."""
    if isinstance(flops, Unavailable):
        return flops
    if isinstance(moved, Unavailable):
        return moved
    return float(flops) / float(moved) if moved else Unavailable("it moves no bytes")
