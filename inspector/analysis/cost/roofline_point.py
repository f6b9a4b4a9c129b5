"""`Point`: a kernel, or a whole program, in a roofline."""

from __future__ import annotations

import dataclasses

from inspector.analysis.cost.attribution import Part
from inspector.analysis.cost.kernel_time import Unit
from inspector.analysis.cost.matrix_unit import NO_PRODUCT
from inspector.analysis.cost.schedule_simulation import Bound
from inspector.errors import Unavailable
from inspector.hlo.source import NOWHERE, Frame, Origin


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A kernel, or the whole program.

    Attributes:
      name: name of the instruction, or of the module.
      opcode: opcode of the instruction; "" for the module.
      flops, main_memory_bytes: of all executions; unknown for custom calls. Main memory bytes of a collective do not
        count.
      link_bytes: bytes that one device sends to others in all executions.
      executions: number of runs in one execution of the module; if unknown, all numbers are for one run.
      algorithm: arithmetic of its matrix products, such as "bf16 x 3", joined by " + " if several; "" if it has none.
      bound_by: the roof that bounds it; "nothing" if it neither computes nor moves data.
      least_s: estimated time at that roof in seconds; `About` if a part of it is unknown.
      parts: shares of its cost by origin, largest first; () for the module.
      exposed_s: estimated time on the links that no kernel hides, for all executions, if each kernel is as fast as its
        roof allows; Unavailable if times are unknown.
      beside: names of the kernels that run during its communication.
      collectives: names of its collectives in `Compiled.collectives()`; () for the module.
      filled: upper bound for the share of the chip's matrix unit that its products use, weighted by FLOPs; the rest is
        padding.
      limited_by: the unit that limits it, a part of `bound_by`: for example the vector unit or VMEM; "none" for the module.
      limit_source: source of that unit's rate; "" for the module.
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
    collectives: tuple[str, ...] = ()
    filled: float | Unavailable = NO_PRODUCT
    limited_by: Unit | Unavailable = "none"
    limit_source: str = ""

    @property
    def origin(self) -> Origin:
        """Origin of the instructions that cause most of its time."""
        return self.parts[0].origin if self.parts else NOWHERE

    @property
    def phase(self) -> str | None:
        """Phase of these instructions in a differentiated program (`analysis/cost/phases.py`); None if unknown."""
        return self.parts[0].phase if self.parts else None

    @property
    def scope(self) -> str:
        """The JAX name stack without the primitive; "" when unknown."""
        return self.origin.scope

    @property
    def line(self) -> Frame | None:
        """Innermost line of the user's own code at that origin."""
        return self.origin.line

    @property
    def intensity(self) -> float | Unavailable:
        """FLOPs per byte."""
        return flops_a_byte(self.flops, self.main_memory_bytes)


def flops_a_byte(flops: float | Unavailable, moved: float | Unavailable) -> float | Unavailable:
    """Returns the arithmetic intensity in FLOPs per byte."""
    if isinstance(flops, Unavailable):
        return flops
    if isinstance(moved, Unavailable):
        return moved
    return float(flops) / float(moved) if moved else Unavailable("it moves no bytes")
