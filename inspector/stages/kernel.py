"""`Kernel`: a Pallas kernel as users hold it: the value, with what can be asked of it as methods."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from inspector.analysis.pallas.grid_walk import operand_table, remarks
from inspector.analysis.pallas.plot import plot_blocks
from inspector.analysis.pallas.vmem import VmemBudget, used_vmem, vmem_budget
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.pallas import PallasKernel
from inspector.support.tables import Tabular

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Kernel(PallasKernel, Tabular):
    """One `pallas_call` of a program; its fields are those of `PallasKernel`."""

    __slots__ = ()

    @classmethod
    def of(cls, kernel: PallasKernel) -> Self:
        """The same kernel with these methods."""
        return cls(**{field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)})

    def table(self) -> pd.DataFrame:
        """One row an operand: its blocks, how often the grid makes the pipeline copy them, and what is odd about them."""
        return operand_table(self)

    def remarks(self) -> tuple[str, ...]:
        """What a reader should know of its blocks, a sentence each: races, lost writes, parts that are never written."""
        return remarks(self)

    def vmem(self, chip: str, module: Module | None = None) -> VmemBudget | Unavailable:
        """The vector memory that it takes on a TPU generation ("v5e"), against its limit.

        Args:
          chip: the generation.
          module: its program's optimized HLO for that chip, `compiled.module()`: then the compiler's own figure,
            else an estimate.

        Raises:
          TargetError: no such generation.
        """
        return vmem_budget(self, chip, module)

    def used_vmem(self, module: Module) -> int | Unavailable:
        """Bytes of vector memory that the compiler gave it, its own needs included, in a program that it compiled.

        Args:
          module: the optimized HLO for a TPU, `compiled.module()`.
        """
        return used_vmem(self, module)

    def plot(self, step: int = 0) -> Figure:
        """Every array as a rectangle, and the blocks that one grid step works on.

        Raises:
          ParameterError: there is no such step.
        """
        return plot_blocks(self, step)
